//! Faults of the card: every one is an error, nothing hangs, and memory is given back.

use embedctl_common::error::ErrorKind;
use embedctl_native::PlainNetwork;

use super::emulator::{Call, Emulator};
use super::fixtures::{Joined, fixture};
use super::networks::{open, options};
use crate::{Card, CardElement, Encoder, Libraries};

/// `cudaErrorIllegalAddress`: the card is lost to this process.
const LOST: i32 = 700;
const OUT_OF_MEMORY: i32 = 2;

/// Opens a network and runs it.
fn whole(emulator: &Emulator, name: &str) -> embedctl_common::Result<Vec<f32>> {
    let fixture = fixture(name);
    let network = PlainNetwork::open(&fixture.folder, None)?;
    let encoder = Encoder::open(&network, &emulator.card(), &options(CardElement::F16))?;
    let mut worker = encoder.worker()?;
    let joined = Joined::of(&fixture.rows);
    worker.run(joined.rows()).map(<[f32]>::to_vec)
}

#[test]
fn memory_that_runs_out_anywhere_is_an_error_and_is_given_back() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for name in ["bert", "qwen3-moe", "deberta-v3"] {
        let used = emulator.used();
        emulator.reset();
        whole(&emulator, name).unwrap();
        let count = emulator.calls(Call::Allocation);
        assert!(count > 20, "{name}: {count} allocations");
        for after in 0..count {
            emulator.reset();
            emulator.fail(Call::Allocation, after, OUT_OF_MEMORY);
            let error = whole(&emulator, name).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::OutOfMemory,
                "{name}, {after}: {error}"
            );
            assert_eq!(
                emulator.used(),
                used,
                "{name}: memory is lost after allocation {after}"
            );
        }
    }
}

#[test]
fn a_card_that_is_lost_after_any_launch_copy_or_product_is_an_error() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for call in [Call::Launch, Call::Copy, Call::Product] {
        emulator.reset();
        whole(&emulator, "bert").unwrap();
        let count = emulator.calls(call);
        for after in 0..count {
            emulator.reset();
            emulator.fail(call, after, LOST);
            let error = whole(&emulator, "bert").unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Engine,
                "{call:?}, {after}: {error}"
            );
        }
    }
}

#[test]
fn a_smaller_batch_runs_where_a_greater_one_found_no_memory() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let fixture = fixture("bert");
    let encoder = open(&emulator, &fixture, CardElement::F32);
    let mut worker = encoder.worker().unwrap();
    let small = Joined::of(&fixture.rows);
    let large: Vec<_> = (0..400).flat_map(|_| fixture.rows.clone()).collect();
    let large = Joined::of(&large);
    let expected = worker.run(small.rows()).unwrap().to_vec();
    emulator.limit(emulator.used() + large.ids.len() * encoder.token_bytes() / 2);
    let error = worker.run(large.rows()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(worker.run(small.rows()).unwrap(), expected);
}

#[test]
fn wrong_ids_types_and_lengths_are_errors_that_name_them() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let encoder = open(&emulator, &fixture("bert"), CardElement::F32);
    let mut worker = encoder.worker().unwrap();
    for (ids, types, words) in [
        (vec![5, 96], vec![], "the id 96"),
        (vec![5, 6], vec![0, 2], "the token type 2"),
        (vec![5; 65], vec![], "position 64"),
        (vec![5; 513], vec![], "513 tokens"),
    ] {
        let joined = Joined {
            ends: vec![ids.len()],
            ids,
            types,
        };
        let error = worker.run(joined.rows()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_device_that_is_not_there_and_a_library_that_is_missing_are_named() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let error = Card::open(emulator.libraries(), 3).err().unwrap();
    assert!(error.to_string().contains("no device 3"), "{error}");
    let nowhere = std::path::Path::new("/nowhere/libnvrtc.so.13");
    let error = Libraries::load([emulator.library(), nowhere, emulator.library()])
        .err()
        .unwrap();
    assert!(error.to_string().contains("NVRTC"), "{error}");
    assert_eq!(error.remedy(), Some("pip install nvidia-cuda-nvrtc"));
}
