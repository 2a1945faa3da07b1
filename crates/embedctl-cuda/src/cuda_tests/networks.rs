//! Every architecture's states against transformers' and the native engine's; rows in company; what a layer launches.

use embedctl_checkpoint::architecture::Architecture;
use embedctl_kernels::TermPooling;
use embedctl_native::{Arithmetic, Encoder as NativeEncoder, PlainNetwork};
use embedctl_testing::stride;

use super::emulator::Emulator;
use super::fixtures::{Fixture, Joined, Row, apart, exact, fixture, fixtures};
use crate::{Batch, CardElement, Encoder, EncoderOptions, Pooling, PoolingMode, knows};

pub(super) fn options(element: CardElement) -> EncoderOptions {
    EncoderOptions {
        element,
        tf32: false,
        longest: 512,
        terms: None,
        measured_tokens: 0,
        cache: None,
    }
}

pub(super) fn open(emulator: &Emulator, fixture: &Fixture, element: CardElement) -> Encoder {
    let network = PlainNetwork::open(&fixture.folder, None).unwrap();
    Encoder::open(&network, &emulator.card(), &options(element)).unwrap()
}

/// The greatest difference from transformers' states; in 16 bits from the native engine's, of the rows' mean vectors of
/// length 1.
fn difference(emulator: &Emulator, fixture: &Fixture, element: CardElement) -> f32 {
    difference_of(emulator, fixture, &fixture.rows, element)
}

fn difference_of(
    emulator: &Emulator,
    fixture: &Fixture,
    rows: &[Row],
    element: CardElement,
) -> f32 {
    let joined = Joined::of(rows);
    let network = PlainNetwork::open(&fixture.folder, None).unwrap();
    let own = EncoderOptions {
        longest: rows.iter().map(|row| row.ids.len()).max().unwrap(),
        ..options(element)
    };
    let encoder = Encoder::open(&network, &emulator.card(), &own).unwrap();
    let mut worker = encoder.worker().unwrap();
    let ours = worker.run(joined.rows()).unwrap();
    match element {
        CardElement::F32 => apart(ours, &fixture.states()),
        _ => {
            let exact = exact(&fixture.folder, joined.rows());
            apart(&vectors(ours, &joined), &vectors(&exact, &joined))
        }
    }
}

/// Each row's mean, of length 1.
fn vectors(states: &[f32], joined: &Joined) -> Vec<f32> {
    let width = states.len() / joined.ids.len();
    let mut start = 0;
    let mut vectors = Vec::new();
    for end in &joined.ends {
        let rows = states[start * width..end * width].chunks(width);
        let mut sum = vec![0.0_f32; width];
        rows.for_each(|row| {
            sum.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += value);
        });
        let length = sum.iter().map(|it| it * it).sum::<f32>().sqrt();
        vectors.extend(sum.iter().map(|it| it / length));
        start = *end;
    }
    vectors
}

#[test]
fn bert_and_qwen3_give_the_states_of_transformers() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for name in ["bert", "qwen3"] {
        let difference = difference(&emulator, &fixture(name), CardElement::F32);
        assert!(difference <= 2e-5, "{name}: {difference}");
    }
}

#[test]
fn every_architecture_gives_the_states_of_transformers() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let mut wrong = Vec::new();
    // Models that look token types up among their tokens are left to ONNX Runtime where their tokenizer states types.
    let fixtures = fixtures().into_iter();
    let fixtures = fixtures
        .filter(|it| !["gpt-neo-types", "gpt2-types", "gptj-types"].contains(&it.name.as_str()))
        .filter(|it| !has_no_kernels(it));
    for (number, fixture) in fixtures.enumerate().step_by(stride(5)) {
        let fixture = &fixture;
        // A token near the border of two experts may take the other one in 16 bits.
        let chooses = fixture.name.contains("mo") && fixture.name.contains("moe")
            || fixture.name.starts_with("mixtral");
        let narrow = if chooses { 0.2 } else { 2e-3 };
        let mut elements = vec![(CardElement::F32, 2e-5), (CardElement::F16, narrow)];
        let is_whole = number % 8 == 0;
        if is_whole {
            elements.push((CardElement::Bf16, 8.0 * narrow));
        }
        // An emulated card takes its time for long rows.
        let is_short = |row: &&Row| is_whole || row.ids.len() <= 33;
        let short: Vec<Row> = fixture.rows.iter().filter(is_short).cloned().collect();
        for (element, most) in elements {
            let rows = match element {
                CardElement::F32 => &fixture.rows,
                _ => &short,
            };
            let difference = difference_of(&emulator, fixture, rows, element);
            if difference.is_nan() || difference > most {
                wrong.push(format!("{} in {element:?}: {difference}", fixture.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a network is one of those that are refused.
fn has_no_kernels(fixture: &Fixture) -> bool {
    fixture.name.starts_with("qwen3-5-text")
}

#[test]
fn networks_without_kernels_are_refused_by_the_part_that_has_none() {
    let mut refused = 0;
    for fixture in fixtures() {
        let architecture = Architecture::read(&fixture.folder).unwrap();
        let known = knows(&architecture);
        assert_eq!(known.is_err(), has_no_kernels(&fixture), "{}", fixture.name);
        if let Err(reason) = known {
            assert!(reason.contains("gated delta rule"), "{reason}");
            refused += 1;
        }
    }
    assert!(refused >= 3, "{refused}");
}

/// A row of so many tokens, which fit every fixture's vocabulary.
fn row(length: usize, seed: usize) -> Row {
    let id = |place: usize| (7 * place + 13 * seed + place * place) as u32 % 60 + 6;
    Row {
        ids: (0..length).map(id).collect(),
        types: Vec::new(),
    }
}

#[test]
fn a_rows_states_and_vector_have_the_same_bits_alone_and_in_any_company() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let pooling = Pooling {
        modes: vec![PoolingMode::Mean, PoolingMode::Last],
    };
    for (name, element) in [
        ("bert", CardElement::F16),
        ("qwen3", CardElement::Bf16),
        ("mpnet", CardElement::F16),
        ("modernbert", CardElement::F16),
        ("qwen3-moe", CardElement::F16),
        ("deberta-v3", CardElement::F32),
    ] {
        let encoder = open(&emulator, &fixture(name), element);
        let mut worker = encoder.worker().unwrap();
        let width = encoder.width();
        let own = row(21, 1);
        let bits = |values: &[f32]| values.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        let mut run = |rows: &[Row], at: usize| {
            let joined = Joined::of(rows);
            let start = if at == 0 { 0 } else { joined.ends[at - 1] };
            let states = worker.run(joined.rows()).unwrap();
            let states = bits(&states[start * width..joined.ends[at] * width]);
            let pooled: Vec<_> = rows.iter().map(|row| 0..row.ids.len()).collect();
            let batch = Batch {
                rows: joined.rows(),
                pooled: &pooled,
            };
            let vectors = worker.run_pooled(batch, &pooling).unwrap();
            let vector = bits(&vectors[at * 2 * width..(at + 1) * 2 * width]);
            (states, vector)
        };
        let alone = run(std::slice::from_ref(&own), 0);
        for others in [1, 9] {
            let mut rows: Vec<Row> = (0..others).map(|seed| row(1 + 5 * seed, seed)).collect();
            rows.insert(others / 2, own.clone());
            assert!(run(&rows, others / 2) == alone, "{name} among {others}");
        }
    }
}

#[test]
fn long_rows_take_the_kernel_of_tiles_and_give_the_native_engines_states() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    // Two heads of 16 channels, padding included: 512 tokens fit into shared memory.
    for name in ["llama", "mistral-window"].into_iter().step_by(stride(2)) {
        let fixture = Fixture {
            rows: vec![row(530, 2), row(30, 3)],
            ..fixture(name)
        };
        emulator.reset();
        let difference = difference(&emulator, &fixture, CardElement::F16);
        assert!(emulator.log().contains("launch attend_long"), "{name}");
        assert!(difference <= 4e-3, "{name}: {difference}");
    }
}

#[test]
fn terms_are_those_of_the_native_engine() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let folder = std::path::Path::new("../../fixtures/sparse/bert/model");
    for pooling in [
        TermPooling {
            sums: false,
            twice: false,
        },
        TermPooling {
            sums: true,
            twice: true,
        },
    ] {
        let network = PlainNetwork::open(folder, None).unwrap();
        let own = EncoderOptions {
            terms: Some(pooling),
            longest: 48,
            measured_tokens: 8,
            ..options(CardElement::F32)
        };
        let encoder = Encoder::open(&network, &emulator.card(), &own).unwrap();
        let rows = [row(9, 1), row(1, 2), row(17, 3)];
        let joined = Joined::of(&rows);
        let mut worker = encoder.worker().unwrap();
        let ours = worker.run_terms(joined.rows()).unwrap();
        let exact = NativeEncoder::open(folder, None, Arithmetic::Fp32, 1, None).unwrap();
        let exact = exact.with_terms(folder, pooling).unwrap();
        let terms = exact.terms().unwrap();
        assert_eq!(encoder.terms(), Some(terms));
        let mut exact = exact.worker();
        let sparse = exact.run_terms(joined.rows()).unwrap().unwrap();
        let mut whole = vec![0.0; terms * rows.len()];
        for (number, row) in whole.chunks_mut(terms).enumerate() {
            let entries = sparse.get(number);
            for (term, value) in entries.entries() {
                row[term as usize] = value;
            }
        }
        let apart = apart(ours, &whole);
        assert!(apart <= 2e-5, "{pooling:?}: {apart}");
    }
}

/// What one more layer launches.
fn layer(emulator: &Emulator, name: &str) -> Vec<String> {
    let fixture = Fixture {
        rows: vec![row(7, 1)],
        ..fixture(name)
    };
    let encoder = open(emulator, &fixture, CardElement::F16);
    let mut worker = encoder.worker().unwrap();
    emulator.reset();
    worker.run(Joined::of(&fixture.rows).rows()).unwrap();
    let log = emulator.log();
    let lines: Vec<&str> = log.lines().collect();
    let is_into = |line: &&&str| {
        **line
            == lines[lines
                .iter()
                .position(|it| it.starts_with("product"))
                .unwrap()]
    };
    let starts: Vec<usize> = (0..lines.len())
        .filter(|at| is_into(&&lines[*at]))
        .collect();
    let part = &lines[starts[0]..starts[1]];
    part.iter()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .map(|line| match line.strip_prefix("launch ") {
            Some(kernel) => kernel.to_owned(),
            None => "product".to_owned(),
        })
        .collect()
}

#[test]
fn a_layer_of_bert_has_eight_launches_and_one_of_qwen3_nine() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    assert_eq!(
        layer(&emulator, "bert"),
        [
            "product",
            "attend_short",
            "product",
            "norm_256",
            "product",
            "activate",
            "product",
            "norm_256",
        ]
    );
    assert_eq!(
        layer(&emulator, "qwen3-vl-text-biases"),
        [
            "product",
            "turn_whole",
            "attend_short",
            "product",
            "norm_256",
            "product",
            "activate",
            "product",
            "norm_256",
        ]
    );
}

#[test]
fn products_are_measured_once_kept_and_named() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let network = PlainNetwork::open(&fixture("bert").folder, None).unwrap();
    let own = EncoderOptions {
        measured_tokens: 5,
        cache: Some(folder.path().to_path_buf()),
        ..options(CardElement::F16)
    };
    let open = || {
        emulator.reset();
        let encoder = Encoder::open(&network, &emulator.card(), &own).unwrap();
        let measured = emulator.log().matches("product").count();
        (encoder.algorithms(), measured, encoder.has_cached_kernels())
    };
    let (algorithms, measured, is_cached) = open();
    assert_eq!(
        algorithms,
        ["32x32 7", "32x48 7", "48x32 7", "96x32 7"],
        "by outputs and inputs"
    );
    // Two candidates of each shape, once to get ready and three times to be measured.
    assert_eq!((measured, is_cached), (4 * 2 * 4, false));
    assert_eq!(open(), (algorithms.clone(), 0, true));
    // A line that is damaged is measured again.
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut files = entries.map(|entry| entry.unwrap().path());
    let file = files
        .find(|file| file.extension().unwrap() == "txt")
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("7 0 0", "7 x", 1)).unwrap();
    assert_eq!(open(), (algorithms, 2 * 4, true));
}
