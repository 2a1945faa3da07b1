//! Damaged checkpoints and settings: errors that name the fault, and never a panic.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::scratch::{Rows, Scratch, ThreadCrew};
use super::tests::{CASES, open};
use embedctl_kernels::{Arithmetic, Isa};
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

/// The error of opening a copy of `bert` with `change` made to it.
fn opened_after(change: impl FnOnce(&Path, &mut Value, &mut Vec<u8>)) -> String {
    let folder = copy("bert");
    let (mut header, mut data) = split(folder.path());
    change(folder.path(), &mut header, &mut data);
    join(folder.path(), header.to_string().as_bytes(), &data);
    match open(folder.path(), Isa::best(), Arithmetic::Fp32) {
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
    let error = open(folder.path(), Isa::best(), Arithmetic::Fp32)
        .err()
        .unwrap();
    says(error, &["not a safetensors file"]);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n";
    fs::write(folder.path().join("model.safetensors"), pointer).unwrap();
    let error = open(folder.path(), Isa::best(), Arithmetic::Fp32)
        .err()
        .unwrap();
    says(error, &["Git LFS", "git lfs pull"]);
}

#[test]
fn a_byte_order_mark_before_the_settings_is_passed_over() {
    let folder = copy("bert");
    let file = folder.path().join("config.json");
    let text = [b"\xef\xbb\xbf", &fs::read(&file).unwrap()[..]].concat();
    fs::write(file, text).unwrap();
    assert!(open(folder.path(), Isa::best(), Arithmetic::Fp32).is_ok());
}

#[test]
fn a_shard_that_is_missing_or_outside_is_an_error_that_names_it() {
    let folder = copy("xlm-roberta-shards");
    let shard = "model-00002-of-00003.safetensors";
    fs::remove_file(folder.path().join(shard)).unwrap();
    let error = open(folder.path(), Isa::best(), Arithmetic::Fp32)
        .err()
        .unwrap();
    assert!(error.contains(shard), "{error}");
    let index = json!({"weight_map": {"a": "../elsewhere.safetensors"}});
    fs::write(
        folder.path().join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    let error = open(folder.path(), Isa::best(), Arithmetic::Fp32)
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
        "gte-new-mixed",
        "t5-gated-long",
        "umt5",
        "deberta-v3",
        "deberta-v2-own-products",
        "jina-bert",
        "jina-bert-normed",
        "jina-lora",
        "nvembed",
        "gemma2",
        "nomic-moe",
        "qwen3-moe-some-layers",
        "neobert",
        "roformer",
        "llama-longrope",
        "phi3-longrope",
        "olmo2",
        "longformer-windows",
        "smollm3-layers",
        "gpt2",
        "gpt-neo",
        "clip-text",
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
            let arithmetic = [Arithmetic::Fp32, Arithmetic::Int16, Arithmetic::Int8][dice.below(3)];
            if let Ok(network) = open(path, Isa::best(), arithmetic) {
                let rows = Rows {
                    ids: &[3, 4, 5, 6],
                    types: &[],
                    ends: &[1, 4],
                    seen: &[],
                };
                // Positions and vocabulary may have shrunk: an error is as good as states.
                let _ = network.run(rows, &mut Scratch::default(), &ThreadCrew::default());
            }
        }
    }
}

#[test]
fn no_config_and_no_header_makes_it_panic() {
    mutate(60, 0x5eed);
}

/// `cargo test --lib no_config -- --ignored`: as many as one has patience for.
#[test]
#[ignore = "takes minutes"]
fn no_config_and_no_header_makes_it_panic_in_a_hundred_thousand_tries() {
    mutate(12_000, 0xfeed_beef);
}
