//! Every architecture against transformers, alone and in company, in every precision; and damaged files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::architecture::Architecture;
use super::kernels::{Arithmetic, Isa};
use super::network::Network;
use super::scratch::{Rows, Scratch};
use crate::error::ErrorKind;
use crate::mutation::most_asked;
use crate::safetensors::Checkpoint;

const CASES: &str = "fixtures/architectures";

/// As for whole vectors: the largest difference from the reference.
const TOLERANCE: f32 = 2e-5;

/// A case of `fixtures/architectures`.
struct Case {
    name: String,
    folder: PathBuf,
    /// Token ids and token types of each row.
    rows: Vec<(Vec<u32>, Vec<u32>)>,
    states: Vec<f32>,
}

fn case(name: &str) -> Case {
    let folder = Path::new(CASES).join(name);
    let rows: Value = serde_json::from_slice(&fs::read(folder.join("rows.json")).unwrap()).unwrap();
    let lists = |key: &str| -> Vec<Vec<u32>> {
        serde_json::from_value(rows.get(key).cloned().unwrap_or(json!([]))).unwrap()
    };
    let ids = lists("ids");
    let mut types = lists("types");
    types.resize(ids.len(), Vec::new());
    let npy = fs::read(folder.join("states.npy")).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    Case {
        name: name.into(),
        rows: ids.into_iter().zip(types).collect(),
        states: npy[header..]
            .as_chunks()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect(),
        folder,
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
    assert!(names.len() >= 50, "only {} cases", names.len());
    names.iter().map(|name| case(name)).collect()
}

fn open(folder: &Path, isa: Isa, arithmetic: Arithmetic) -> Result<Network, String> {
    let architecture = Architecture::read(folder).map_err(|unsupported| unsupported.to_string())?;
    let checkpoint = Checkpoint::open(folder)
        .map_err(|error| error.to_string())?
        .ok_or("no checkpoint")?;
    Network::open(architecture, &Arc::new(checkpoint), isa, arithmetic)
        .map_err(|error| error.to_string())
}

/// The states of these rows, run together.
fn run(network: &Network, rows: &[&(Vec<u32>, Vec<u32>)], scratch: &mut Scratch) -> Vec<f32> {
    together(rows, |rows| network.run(rows, scratch).unwrap().to_vec())
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
    })
}

fn all(case: &Case) -> Vec<&(Vec<u32>, Vec<u32>)> {
    case.rows.iter().collect()
}

#[test]
fn every_architecture_gives_transformers_states_on_every_instruction_set() {
    let mut wrong = Vec::new();
    for case in cases() {
        for isa in Isa::all() {
            let worst = match open(&case.folder, isa, Arithmetic::F32) {
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
    for name in [
        "bert",
        "mpnet",
        "modernbert",
        "gemma3-text-bidirectional",
        "llama-biases-llama3",
    ] {
        let case = case(name);
        for isa in Isa::all() {
            for arithmetic in [Arithmetic::F32, Arithmetic::I16, Arithmetic::I8] {
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
fn reduced_precision_stays_near_the_exact_states() {
    for case in cases() {
        let exact = open(&case.folder, Isa::best(), Arithmetic::F32).unwrap();
        let exact = run(&exact, &all(&case), &mut Scratch::default());
        // Networks this narrow with weights this large are far harder on 8 bits than real ones.
        for (arithmetic, least) in [(Arithmetic::I16, 0.9999), (Arithmetic::I8, 0.97)] {
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

#[test]
fn a_row_beyond_the_models_positions_or_vocabulary_is_an_error() {
    let case = case("bert");
    let network = open(&case.folder, Isa::best(), Arithmetic::F32).unwrap();
    let refused = |ids: &[u32], types: &[u32]| {
        let rows = Rows {
            ids,
            types,
            ends: &[ids.len()],
        };
        network
            .run(rows, &mut Scratch::default())
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
    let architecture = &open(&cases()[0].folder, Isa::best(), Arithmetic::F32)
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
fn a_batch_asks_for_no_memory_beyond_what_is_reserved() {
    for case in cases() {
        for arithmetic in [Arithmetic::F32, Arithmetic::I16, Arithmetic::I8] {
            let network = open(&case.folder, Isa::best(), arithmetic).unwrap();
            let mut scratch = Scratch::default();
            let asked = together(&all(&case), |rows| {
                // Tables of activations are made once for all.
                network.run(rows, &mut Scratch::default()).unwrap();
                scratch
                    .reserve(&network.architecture, rows.ids.len(), rows.longest())
                    .unwrap();
                most_asked(|| {
                    network.run(rows, &mut scratch).unwrap();
                })
            });
            assert_eq!(asked, 0, "{} {arithmetic:?}", case.name);
        }
    }
}

/// A copy of a case in a folder of its own.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(Path::new(CASES).join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// A safetensors file's header and its data.
fn split(folder: &Path) -> (Value, Vec<u8>) {
    let bytes = fs::read(folder.join("model.safetensors")).unwrap();
    let length = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    (
        serde_json::from_slice(&bytes[8..8 + length]).unwrap(),
        bytes[8 + length..].to_vec(),
    )
}

fn join(folder: &Path, header: &[u8], data: &[u8]) {
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header, data].concat();
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
}

/// What opening says after `change` has been made to a copy of `bert`.
fn opened_after(change: impl FnOnce(&Path, &mut Value, &mut Vec<u8>)) -> String {
    let folder = copy("bert");
    let (mut header, mut data) = split(folder.path());
    change(folder.path(), &mut header, &mut data);
    join(folder.path(), header.to_string().as_bytes(), &data);
    match open(folder.path(), Isa::best(), Arithmetic::F32) {
        Ok(_) => "opened".into(),
        Err(error) => error,
    }
}

const QUERY: &str = "encoder.layer.1.attention.self.query.weight";

#[test]
fn a_damaged_checkpoint_is_an_error_that_names_file_and_tensor() {
    assert_eq!(opened_after(|_, _, _| {}), "opened");
    let says = |error: String, words: &[&str]| {
        assert!(
            error.contains("model.safetensors") && words.iter().all(|word| error.contains(word)),
            "{error}"
        );
    };
    says(
        opened_after(|_, _, data| data.truncate(data.len() - 100)),
        &["cut short", "the tensor '"],
    );
    says(
        opened_after(|_, header, _| {
            header.as_object_mut().unwrap().remove(QUERY);
        }),
        &["has no tensor", QUERY],
    );
    says(
        opened_after(|_, header, _| header[QUERY]["shape"] = json!([16, 64])),
        &[QUERY, "[16, 64]", "[32, 32]"],
    );
    says(
        opened_after(|_, header, _| header[QUERY]["shape"] = json!([32, 33])),
        &[QUERY, "bytes"],
    );
    says(
        opened_after(|_, header, _| header[QUERY]["shape"] = json!([u64::MAX, u64::MAX])),
        &[QUERY],
    );
    says(
        opened_after(|_, header, _| {
            let other =
                header["encoder.layer.0.attention.self.query.weight"]["data_offsets"].clone();
            header[QUERY]["data_offsets"] = other;
        }),
        &["overlap", QUERY],
    );
    says(
        opened_after(|_, header, _| header[QUERY]["dtype"] = json!("F8_E4M3")),
        &[QUERY, "F8_E4M3"],
    );
    for bad in [f32::NAN, f32::INFINITY] {
        for tensor in [
            QUERY,
            "embeddings.word_embeddings.weight",
            "encoder.layer.0.output.LayerNorm.bias",
        ] {
            let error = opened_after(|_, header, data| {
                let place =
                    usize::try_from(header[tensor]["data_offsets"][0].as_u64().unwrap()).unwrap();
                data[place + 8..place + 12].copy_from_slice(&bad.to_le_bytes());
            });
            says(error, &[tensor, "NaN or infinity"]);
        }
    }
    let folder = copy("bert");
    fs::write(folder.path().join("model.safetensors"), b"short").unwrap();
    let error = open(folder.path(), Isa::best(), Arithmetic::F32)
        .err()
        .unwrap();
    says(error, &["no safetensors file"]);
}

#[test]
fn a_shard_that_is_missing_or_outside_is_an_error_that_names_it() {
    let folder = copy("xlm-roberta-shards");
    let shard = "model-00002-of-00003.safetensors";
    fs::remove_file(folder.path().join(shard)).unwrap();
    let error = open(folder.path(), Isa::best(), Arithmetic::F32)
        .err()
        .unwrap();
    assert!(error.contains(shard), "{error}");
    let index = json!({"weight_map": {"a": "../elsewhere.safetensors"}});
    fs::write(
        folder.path().join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    let error = open(folder.path(), Isa::best(), Arithmetic::F32)
        .err()
        .unwrap();
    assert!(error.contains("outside its folder"), "{error}");
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }

    fn value(&mut self) -> Value {
        let odd = [
            json!(null),
            json!(true),
            json!(0),
            json!(1),
            json!(-1),
            json!(3),
            json!(1.5),
            json!(1e300),
            json!(u64::MAX),
            json!(1 << 20),
            json!("gelu"),
            json!(""),
            json!([]),
            json!({}),
            json!([4, 8]),
            json!("F16"),
            json!({"rope_type": "yarn", "factor": 0.5}),
            json!(["full_attention"]),
            json!(16_777_216),
        ];
        odd[self.below(odd.len())].clone()
    }

    /// Changes one place of a JSON value, deep or not.
    fn change(&mut self, value: &mut Value) {
        let deeper = self.below(3) > 0;
        match value {
            Value::Object(map) if !map.is_empty() => {
                let index = self.below(map.len());
                let key = map.keys().nth(index).unwrap().clone();
                match self.below(8) {
                    0 => {
                        map.remove(&key);
                    }
                    1 => {
                        let moved = map.remove(&key).unwrap();
                        map.insert(format!("{key}x"), moved);
                    }
                    _ if deeper => self.change(&mut map[&key]),
                    _ => map[&key] = self.value(),
                }
            }
            Value::Array(list) if !list.is_empty() && deeper => {
                let index = self.below(list.len());
                self.change(&mut list[index]);
            }
            other => *other = self.value(),
        }
    }
}

/// Opens and, where that goes well, runs copies of each case with changes made by dice.
fn mutate(times: usize, seed: u64) {
    let mut dice = Dice(seed);
    let names = [
        "bert",
        "albert",
        "modernbert",
        "mpnet",
        "gte",
        "llama-yarn",
        "qwen3",
        "gemma3-text",
        "xlm-roberta-shards",
    ];
    for name in names {
        let folder = copy(name);
        let path = folder.path();
        let config: Value =
            serde_json::from_slice(&fs::read(path.join("config.json")).unwrap()).unwrap();
        let weights = (name != "xlm-roberta-shards").then(|| split(path));
        for _ in 0..times {
            let mut changed = config.clone();
            for _ in 0..dice.below(3) {
                dice.change(&mut changed);
            }
            fs::write(path.join("config.json"), changed.to_string()).unwrap();
            if let Some((header, data)) = &weights {
                let mut header = header.clone();
                for _ in 0..dice.below(3) {
                    dice.change(&mut header);
                }
                let mut header = header.to_string().into_bytes();
                if dice.below(4) == 0 {
                    let place = dice.below(header.len());
                    header[place] = u8::try_from(dice.below(256)).unwrap();
                }
                let kept = if dice.below(4) == 0 {
                    dice.below(data.len())
                } else {
                    data.len()
                };
                join(path, &header, &data[..kept]);
            }
            let arithmetic = [Arithmetic::F32, Arithmetic::I16, Arithmetic::I8][dice.below(3)];
            if let Ok(network) = open(path, Isa::best(), arithmetic) {
                let rows = Rows {
                    ids: &[3, 4, 5, 6],
                    types: &[],
                    ends: &[1, 4],
                };
                // Positions and vocabulary may have shrunk: an error is as good as states.
                let _ = network.run(rows, &mut Scratch::default());
            }
        }
    }
}

#[test]
fn no_config_and_no_header_makes_it_panic() {
    mutate(150, 0x5eed);
}

/// `cargo test --lib no_config -- --ignored`: as many as one has patience for.
#[test]
#[ignore = "takes minutes"]
fn no_config_and_no_header_makes_it_panic_in_a_hundred_thousand_tries() {
    mutate(12_000, 0xfeed_beef);
}
