//! Every architecture's states against the native engine's.

use embedctl_native::PlainNetwork;

use super::emulator::Emulator;
use super::fixtures::{Fixture, Joined, apart, exact, fixture, fixtures};
use crate::{Element, Encoder, EncoderOptions};

fn options(element: Element) -> EncoderOptions {
    EncoderOptions {
        element,
        tf32: false,
        longest: 512,
        terms: None,
        cache: None,
    }
}

fn open(emulator: &Emulator, fixture: &Fixture, element: Element) -> Encoder {
    let network = PlainNetwork::open(&fixture.folder, None).unwrap();
    Encoder::open(&network, &emulator.card(), &options(element)).unwrap()
}

/// The greatest difference from the native engine.
fn difference(emulator: &Emulator, fixture: &Fixture, element: Element) -> f32 {
    let joined = Joined::of(&fixture.rows);
    let encoder = open(emulator, fixture, element);
    let mut worker = encoder.worker().unwrap();
    let ours = worker.run(joined.rows()).unwrap();
    apart(ours, &exact(&fixture.folder, joined.rows()))
}

#[test]
fn bert_and_qwen3_give_the_native_engines_states() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for name in ["bert", "qwen3"] {
        let difference = difference(&emulator, &fixture(name), Element::F32);
        assert!(difference <= 2e-5, "{name}: {difference}");
    }
}

#[test]
fn every_architecture_gives_the_native_engines_states() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        for (element, most) in [
            (Element::F32, 2e-5),
            (Element::F16, 2e-2),
            (Element::Bf16, 2e-1),
        ] {
            let difference = difference(&emulator, &fixture, element);
            eprintln!("{} {element:?}: {difference}", fixture.name);
            if difference.is_nan() || difference > most {
                wrong.push(format!("{} in {element:?}: {difference}", fixture.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
