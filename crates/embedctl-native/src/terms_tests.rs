//! A head whose product shares the table of tokens.

use std::path::Path;

use super::encoder::Encoder;
use super::scratch::Rows;
use embedctl_kernels::{Arithmetic, TermPooling};

const SPARSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sparse");

fn open(name: &str, arithmetic: Arithmetic) -> Encoder {
    let folder = Path::new(SPARSE).join(name).join("model");
    Encoder::open(&folder, None, arithmetic, 1, None).unwrap()
}

fn with_terms(encoder: Encoder, name: &str) -> Encoder {
    let folder = Path::new(SPARSE).join(name).join("model");
    let pooling = TermPooling {
        sums: false,
        twice: false,
    };
    encoder.with_terms(&folder, pooling).unwrap()
}

fn states(encoder: &Encoder) -> Vec<u32> {
    let ids: Vec<u32> = (0..encoder.token_rows())
        .map(|id| u32::try_from(id).unwrap())
        .collect();
    let mut worker = encoder.worker();
    let each = ids.chunks(16).flat_map(|ids| {
        let rows = Rows {
            ids,
            types: &[],
            ends: &[ids.len()],
            seen: &[],
        };
        let states = worker.run(rows).unwrap();
        states
            .iter()
            .map(|value| value.to_bits())
            .collect::<Vec<_>>()
    });
    each.collect()
}

#[test]
fn a_shared_table_is_held_once_and_gives_the_same_bits() {
    for (name, is_tied) in [("distilbert", true), ("distilbert-own-decoder", false)] {
        for arithmetic in [Arithmetic::Fp32, Arithmetic::Int8] {
            let plain = open(name, arithmetic);
            let (memory, alone) = (plain.memory(), states(&plain));
            let shared = with_terms(plain, name);
            assert_eq!(states(&shared), alone, "{name} {arithmetic:?}");
            // Another holder of the network keeps its table, so nothing is freed beside it.
            let held = open(name, arithmetic);
            let other = held.clone();
            let apart = with_terms(held, name);
            assert_eq!(states(&apart), states(&other), "{name} {arithmetic:?}");
            let table = (shared.token_rows() * shared.width() * 4) as u64;
            let is_shared = is_tied && arithmetic == Arithmetic::Fp32;
            let freed = if is_shared { table } else { 0 };
            assert_eq!(apart.memory() - shared.memory(), freed, "{name}");
            assert!(shared.memory() > memory, "{name}: the head takes memory");
        }
    }
}
