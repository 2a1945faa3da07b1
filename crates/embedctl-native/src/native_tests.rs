//! Every architecture against transformers, alone and in company, in every precision.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::crew::{SHARED, piece};
use super::network::Network;
use super::network_weights::NetworkWeights;
use super::room::largest_block;
use super::scratch::{Rows, Scratch, ThreadCrew, helpers};
use embedctl_checkpoint::Adapter;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::ErrorKind;
use embedctl_kernels::{Arithmetic, Isa};
use embedctl_testing::mutation::{all_asked, most_asked};
use embedctl_testing::stride;

pub(super) const CASES: &str = "../../fixtures/architectures";

/// As for whole vectors: the largest difference from the reference.
const TOLERANCE: f32 = 2e-5;

/// A case of `fixtures/architectures`.
pub(super) struct Case {
    name: String,
    folder: PathBuf,
    /// Token ids and token types of each row.
    rows: Vec<(Vec<u32>, Vec<u32>)>,
    pub(super) states: Vec<f32>,
}

/// The case in this folder.
pub(super) fn case(folder: &Path) -> Case {
    case_of(folder, "states.npy")
}

/// The case in this folder with the states in `file`.
pub(super) fn case_of(folder: &Path, file: &str) -> Case {
    let rows: Value = serde_json::from_slice(&fs::read(folder.join("rows.json")).unwrap()).unwrap();
    let lists = |key: &str| -> Vec<Vec<u32>> {
        serde_json::from_value(rows.get(key).cloned().unwrap_or(json!([]))).unwrap()
    };
    let ids = lists("ids");
    let mut types = lists("types");
    types.resize(ids.len(), Vec::new());
    let npy = fs::read(folder.join(file)).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    Case {
        name: folder.file_name().unwrap().to_string_lossy().into_owned(),
        rows: ids.into_iter().zip(types).collect(),
        states: npy[header..]
            .as_chunks()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect(),
        folder: folder.to_path_buf(),
    }
}

fn cases() -> Vec<Case> {
    let mut names: Vec<String> = fs::read_dir(CASES)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("rows.json").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 100, "only {} cases", names.len());
    names
        .iter()
        .map(|name| case(&Path::new(CASES).join(name)))
        .collect()
}

pub(super) fn open(folder: &Path, isa: Isa, arithmetic: Arithmetic) -> Result<Network, String> {
    open_changed(folder, None, isa, arithmetic)
}

pub(super) fn open_changed(
    folder: &Path,
    adapter: Option<&Adapter>,
    isa: Isa,
    arithmetic: Arithmetic,
) -> Result<Network, String> {
    let architecture = Architecture::read(folder).map_err(|unsupported| unsupported.to_string())?;
    let weights = NetworkWeights::open(folder, adapter, &architecture)
        .map_err(|error| error.to_string())?
        .ok_or("no checkpoint")?;
    Network::open(architecture, &weights, isa, arithmetic).map_err(|error| error.to_string())
}

/// The states of these rows, run together.
fn run(network: &Network, rows: &[&(Vec<u32>, Vec<u32>)], scratch: &mut Scratch) -> Vec<f32> {
    together(rows, |rows| {
        network
            .run(rows, scratch, &ThreadCrew::default())
            .unwrap()
            .to_vec()
    })
}

/// The states of all rows of a case.
pub(super) fn run_all(network: &Network, case: &Case) -> Vec<f32> {
    run(network, &all(case), &mut Scratch::default())
}

fn together<T>(rows: &[&(Vec<u32>, Vec<u32>)], work: impl FnOnce(Rows<'_>) -> T) -> T {
    let (mut ids, mut types, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (row, kinds) in rows {
        ids.extend_from_slice(row);
        types.extend_from_slice(kinds);
        ends.push(ids.len());
    }
    work(Rows {
        ids: &ids,
        types: &types,
        ends: &ends,
        seen: &[],
    })
}

fn all(case: &Case) -> Vec<&(Vec<u32>, Vec<u32>)> {
    case.rows.iter().collect()
}

#[test]
fn every_architecture_gives_transformers_states_on_every_instruction_set() {
    let mut wrong = Vec::new();
    for case in cases() {
        for isa in Isa::all_and_emulated() {
            let worst = match open(&case.folder, isa, Arithmetic::Fp32) {
                Err(error) => Err(error),
                Ok(network) => {
                    let states = run(&network, &all(&case), &mut Scratch::default());
                    assert_eq!(states.len(), case.states.len(), "{}", case.name);
                    let apart = states.iter().zip(&case.states).map(|(a, b)| (a - b).abs());
                    // A NaN must not be lost.
                    Ok(apart.fold(0.0_f32, |worst, one| if one <= worst { worst } else { one }))
                }
            };
            if !worst.as_ref().is_ok_and(|worst| *worst <= TOLERANCE) {
                wrong.push(format!("{} with {isa}: {worst:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_rows_states_are_the_same_bits_alone_and_in_any_company_in_every_precision() {
    let mut tried = 0;
    for case in cases() {
        let name = &case.name;
        for isa in Isa::all_and_emulated() {
            for arithmetic in [
                Arithmetic::Fp32,
                Arithmetic::Bf16,
                Arithmetic::Int16,
                Arithmetic::Int8,
            ] {
                tried += 1;
                if tried % stride(11) != 0 {
                    continue;
                }
                let network = open(&case.folder, isa, arithmetic).unwrap();
                let mut scratch = Scratch::default();
                let together = run(&network, &all(&case), &mut scratch);
                let mut backwards: Vec<_> = all(&case);
                backwards.reverse();
                let backwards = run(&network, &backwards, &mut scratch);
                let width = network.architecture.hidden;
                let (mut first, mut last) = (0, backwards.len());
                for row in &case.rows {
                    let count = row.0.len() * width;
                    let own = &together[first..first + count];
                    let bits = |values: &[f32]| {
                        values
                            .iter()
                            .map(|value| value.to_bits())
                            .collect::<Vec<_>>()
                    };
                    let alone = run(&network, &[row], &mut Scratch::default());
                    assert_eq!(
                        bits(own),
                        bits(&alone),
                        "{name}, {isa}, {arithmetic:?}: alone"
                    );
                    let other = &backwards[last - count..last];
                    assert_eq!(
                        bits(own),
                        bits(other),
                        "{name}, {isa}, {arithmetic:?}: other company"
                    );
                    (first, last) = (first + count, last - count);
                }
            }
        }
    }
}

#[test]
fn integers_on_tiles_give_the_states_of_vectors_bit_by_bit() {
    let sets: Vec<Isa> = (Isa::all_and_emulated()
        .into_iter()
        .filter(|isa| isa.has_tiles()))
    .collect();
    assert!(!sets.is_empty() || !Isa::EMULATES_TILES);
    for case in cases().into_iter().step_by(stride(7)) {
        for &isa in &sets {
            for arithmetic in [Arithmetic::Int8, Arithmetic::Int16] {
                let states = [isa, isa.without_tiles()].map(|isa| {
                    let network = open(&case.folder, isa, arithmetic).unwrap();
                    let states = run(&network, &all(&case), &mut Scratch::default());
                    states.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                });
                assert!(states[0] == states[1], "{} {isa} {arithmetic:?}", case.name);
            }
        }
    }
}

/// A batch beyond [`SHARED`] runs in pieces, and a long row's queries in parts, on as many threads as are free.
#[test]
fn threads_that_share_many_tokens_change_no_bit() {
    let mut long = 0;
    for case in cases().into_iter().step_by(stride(7)) {
        let mut copies = Vec::new();
        while copies
            .iter()
            .map(|(ids, _): &&(Vec<u32>, _)| ids.len())
            .sum::<usize>()
            <= 3 * SHARED
        {
            copies.extend(all(&case));
        }
        let (ids, types): (Vec<&[u32]>, Vec<&[u32]>) = (copies.iter())
            .map(|(ids, types)| (&ids[..], &types[..]))
            .unzip();
        let mut one = (ids.concat(), types.concat());
        one.0.truncate(2 * SHARED + 77);
        one.1.truncate(2 * SHARED + 77);
        for arithmetic in [Arithmetic::Fp32, Arithmetic::Int8] {
            let network = open(&case.folder, Isa::best(), arithmetic).unwrap();
            let (mut scratch, crew) = (Scratch::default(), ThreadCrew::new(4));
            let shared = together(&copies, |rows| {
                network.run(rows, &mut scratch, &crew).unwrap().to_vec()
            });
            let mut own = Scratch::default();
            let apart = copies
                .iter()
                .flat_map(|row| run(&network, &[row], &mut own));
            assert!(
                shared.into_iter().eq(apart),
                "{} {arithmetic:?}: many rows",
                case.name
            );
            // Some models have no positions for a row of this length.
            let shared = together(&[&one], |rows| {
                let states = network.run(rows, &mut scratch, &crew).ok();
                states.map(<[f32]>::to_vec)
            });
            let Some(shared) = shared else { continue };
            let alone = run(&network, &[&one], &mut own);
            assert!(shared == alone, "{} {arithmetic:?}: one row", case.name);
            long += 1;
        }
    }
    assert!(long > 40 / stride(7), "{long} networks ran a long row");
}

#[test]
fn reduced_precision_stays_near_the_exact_states() {
    for case in cases().into_iter().step_by(stride(3)) {
        let exact = open(&case.folder, Isa::best(), Arithmetic::Fp32).unwrap();
        let exact = run(&exact, &all(&case), &mut Scratch::default());
        // Networks this narrow with weights this large are far harder on 8 bits than real ones.
        for (arithmetic, least) in [
            // Rounding may give a token to another expert.
            (Arithmetic::Bf16, 0.995),
            (Arithmetic::Int16, 0.9999),
            (Arithmetic::Int8, 0.97),
        ] {
            let network = open(&case.folder, Isa::best(), arithmetic).unwrap();
            let states = run(&network, &all(&case), &mut Scratch::default());
            let product = |a: &[f32], b: &[f32]| -> f64 {
                a.iter()
                    .zip(b)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum()
            };
            let cosine = product(&states, &exact)
                / (product(&states, &states) * product(&exact, &exact)).sqrt();
            assert!(
                cosine >= least,
                "{}: {arithmetic:?} has the cosine {cosine}",
                case.name
            );
        }
    }
}

/// Exact states for the comparison come from half a layer's weights at a time.
#[test]
fn exact_states_by_halves_of_layers_are_the_bits_of_the_whole_network() {
    let (mut ways, mut tried) = ([0; 2], 0);
    for case in cases() {
        let architecture = Architecture::read(&case.folder).unwrap();
        let weights = NetworkWeights::open(&case.folder, None, &architecture);
        let weights = weights.unwrap().unwrap();
        let set = architecture.layers.first().map_or(0, |layer| layer.weights);
        ways[usize::from(architecture.runs_in_halves(set))] += 1;
        for isa in Isa::all_and_emulated() {
            tried += 1;
            if tried % stride(5) != 0 {
                continue;
            }
            let architecture = architecture.clone();
            let network = Network::open(architecture, &weights, isa, Arithmetic::Fp32);
            let rows = case.rows.iter().map(|(ids, _)| ids.as_slice());
            let same = network
                .unwrap()
                .compare_with_exact(&weights, rows, |ours, exact| {
                    let bits = |states: &[f32]| -> Vec<u32> {
                        states.iter().map(|state| state.to_bits()).collect()
                    };
                    !ours.is_empty() && bits(ours) == bits(exact)
                });
            let same = same.unwrap();
            assert_eq!(same.len(), case.rows.len());
            assert!(same.iter().all(|same| *same), "{}, {isa}", case.name);
        }
    }
    assert!(ways[0] >= 5 && ways[1] >= 50, "{ways:?}");
}

#[test]
fn a_row_beyond_the_models_positions_or_vocabulary_is_an_error() {
    let case = case(&Path::new(CASES).join("bert"));
    let network = open(&case.folder, Isa::best(), Arithmetic::Fp32).unwrap();
    let refused = |ids: &[u32], types: &[u32]| {
        let rows = Rows {
            ids,
            types,
            ends: &[ids.len()],
            seen: &[],
        };
        network
            .run(rows, &mut Scratch::default(), &ThreadCrew::default())
            .unwrap_err()
            .to_string()
    };
    let long = refused(&[5; 65], &[]);
    assert!(
        long.contains("--max-length") && long.contains("64 positions"),
        "{long}"
    );
    assert!(refused(&[5, 96], &[]).contains("the id 96"));
    assert!(refused(&[5], &[2]).contains("token type 2"));
}

#[test]
fn memory_that_the_system_refuses_is_told_from_other_errors() {
    let architecture = &open(&cases()[0].folder, Isa::best(), Arithmetic::Fp32)
        .unwrap()
        .architecture;
    let mut scratch = Scratch::default();
    // More than the address space holds, and less than a length may be.
    for (tokens, longest) in [(1 << 52, 1), (1, 1 << 52)] {
        let refused = scratch.reserve(architecture, tokens, longest).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    }
    scratch.reserve(architecture, 256, 128).unwrap();
}

#[test]
fn more_memory_than_there_is_is_refused_before_it_is_taken() {
    let room = embedctl_common::machine::room()
        .expect("the system tells")
        .bytes;
    let architecture = &open(&cases()[0].folder, Isa::best(), Arithmetic::Fp32)
        .unwrap()
        .architecture;
    let token = Scratch::bytes(architecture, 1 << 20, 64) >> 20;
    let mut scratch = Scratch::default();
    for times in [2, 5, 100] {
        let tokens = usize::try_from(room).unwrap() / token * times;
        let asked = most_asked(|| {
            let refused = scratch.reserve(architecture, tokens, 64).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
            let words = refused.to_string();
            assert!(words.contains("at a time need"), "{words}");
        });
        assert!(asked < 1 << 20, "{asked} bytes were asked for");
    }
    // A batch takes as much memory as was computed for it.
    for (tokens, longest) in [(256, 64), (4096, 64), (4096, 4096), (512, 500)] {
        let said = Scratch::bytes(architecture, tokens, longest);
        let taken = all_asked(|| scratch.reserve(architecture, tokens, longest).unwrap());
        assert!(
            taken <= said + (1 << 16) && said <= 2 * taken + (1 << 16),
            "{tokens}, {longest}: {taken} taken, {said} said"
        );
        scratch = Scratch::default();
    }
}

/// Of fewer tokens a block of the feed-forward may hold more, since blocks are nearly even.
#[test]
fn helpers_have_room_for_each_batch_whatever_came_before() {
    let network = open(&cases()[0].folder, Isa::best(), Arithmetic::Fp32).unwrap();
    let mut architecture = network.architecture;
    for width in [384, 1024, 1152, 3072] {
        architecture.feed_forward.width = width;
        let crew = ThreadCrew::new(2);
        for tokens in [768, 513, 8192, 600, 540, 1000] {
            let ids = vec![1; tokens];
            let rows = Rows {
                ids: &ids,
                types: &[],
                ends: &[tokens],
                seen: &[],
            };
            let mut helpers = helpers(&architecture, rows, &crew);
            let memory = helpers.memory();
            assert_eq!(memory.len(), 1);
            let needed = width * largest_block(width, piece(tokens));
            let inner = memory[0].inner.floats().len();
            assert!(
                inner >= needed,
                "{tokens} tokens of {width}: {inner} of {needed}"
            );
        }
    }
}

#[test]
fn memory_of_a_long_row_is_given_back_with_short_ones() {
    let architecture = &open(&cases()[0].folder, Isa::best(), Arithmetic::Fp32)
        .unwrap()
        .architecture;
    let mut scratch = Scratch::default();
    scratch.reserve(architecture, 50_000, 50_000).unwrap();
    let large = scratch.states.floats().len();
    scratch.reserve(architecture, 40_000, 50_000).unwrap();
    assert_eq!(
        scratch.states.floats().len(),
        large,
        "nearly as large a batch"
    );
    scratch.reserve(architecture, 256, 128).unwrap();
    assert!(scratch.states.floats().len() <= large / 50);
    scratch.reserve(architecture, 50_000, 50_000).unwrap();
    assert_eq!(scratch.states.floats().len(), large);
}

#[test]
fn weights_that_change_under_a_network_change_nothing_and_are_not_compared_with() {
    for name in ["bert", "modernbert", "gemma3-text-bidirectional", "albert"] {
        let case = case(&Path::new(CASES).join(name));
        for arithmetic in [Arithmetic::Fp32, Arithmetic::Int8] {
            let folder = tempfile::tempdir().unwrap();
            for file in ["config.json", "model.safetensors"] {
                fs::copy(case.folder.join(file), folder.path().join(file)).unwrap();
            }
            let architecture = Architecture::read(folder.path()).unwrap();
            let weights = NetworkWeights::open(folder.path(), None, &architecture);
            let weights = weights.unwrap().unwrap();
            let network = Network::open(architecture, &weights, Isa::best(), arithmetic).unwrap();
            let before = run(&network, &all(&case), &mut Scratch::default());
            let exact = |network: &Network| {
                let rows = case.rows.iter().map(|(ids, _)| ids.as_slice());
                network
                    .compare_with_exact(&weights, rows, |ours, exact| ours.len().min(exact.len()))
            };
            exact(&network).unwrap();
            let path = folder.path().join("model.safetensors");
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 3).unwrap();
            let after = run(&network, &all(&case), &mut Scratch::default());
            assert!(before == after, "{name} {arithmetic:?}");
            let error = exact(&network).unwrap_err().to_string();
            assert!(error.contains("was changed while"), "{name}: {error}");
        }
    }
}

#[test]
fn a_batch_asks_for_no_memory_beyond_what_is_reserved() {
    for case in cases().into_iter().step_by(stride(3)) {
        for arithmetic in [
            Arithmetic::Fp32,
            Arithmetic::Bf16,
            Arithmetic::Int16,
            Arithmetic::Int8,
        ] {
            let network = open(&case.folder, Isa::best(), arithmetic).unwrap();
            let (mut scratch, alone) = (Scratch::default(), ThreadCrew::default());
            let asked = together(&all(&case), |rows| {
                // Tables of activations are made once for all.
                network.run(rows, &mut Scratch::default(), &alone).unwrap();
                scratch
                    .reserve(&network.architecture, rows.ids.len(), rows.longest())
                    .unwrap();
                most_asked(|| {
                    network.run(rows, &mut scratch, &alone).unwrap();
                })
            });
            assert_eq!(asked, 0, "{} {arithmetic:?}", case.name);
        }
    }
}
