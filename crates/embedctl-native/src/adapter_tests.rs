//! Adapters over every family of names, compared with transformers and peft; refused adapters; checkpoints with several
//! networks.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::network::Network;
use super::network_weights::NetworkWeights;
use super::tests::{CASES, case, run_all};
use embedctl_checkpoint::architecture::Architecture;
use embedctl_checkpoint::prefix::{self, Prefix};
use embedctl_checkpoint::safetensors::Checkpoint;
use embedctl_checkpoint::{Adapter, AdapterSettings, LowRankAdapter};
use embedctl_common::error::Result;
use embedctl_kernels::{Arithmetic, Isa};

const ADAPTERS: &str = "../../fixtures/adapters";

/// The network that an adapter's folder describes.
fn open(folder: &Path, isa: Isa, arithmetic: Arithmetic) -> Result<Network> {
    let settings = AdapterSettings::read(folder.join("adapter_config.json"))?;
    let base = folder.join(settings.base.as_deref().expect("a base model"));
    let adapter = Adapter::LowRank(Box::new(LowRankAdapter {
        settings,
        weights: folder.join("adapter_model.safetensors"),
        base: None,
    }));
    let architecture = Architecture::read(&base).expect("a known architecture");
    let weights = NetworkWeights::open(&base, Some(&adapter), &architecture)?;
    let weights = weights.expect("a checkpoint");
    Network::open(architecture, &weights, isa, arithmetic)
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(ADAPTERS).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("rows.json").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 30, "only {} adapters", names.len());
    names
}

#[test]
fn adapters_over_every_family_give_the_references_states() {
    let mut wrong = Vec::new();
    for name in names() {
        let folder = Path::new(ADAPTERS).join(&name);
        let case = case(&folder);
        for isa in Isa::all_and_emulated() {
            let network = match open(&folder, isa, Arithmetic::Fp32) {
                Ok(network) => network,
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
            };
            let states = run_all(&network, &case);
            assert_eq!(states.len(), case.states.len(), "{name}");
            let apart = states.iter().zip(&case.states).map(|(a, b)| (a - b).abs());
            let worst = apart.fold(0.0_f32, |worst, one| if one <= worst { worst } else { one });
            if worst.is_nan() || worst > 2e-5 {
                wrong.push(format!("{name} with {isa}: {worst}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn adapted_weights_stay_near_the_exact_states_in_reduced_precision() {
    for name in names() {
        let folder = Path::new(ADAPTERS).join(&name);
        let case = case(&folder);
        for (arithmetic, least) in [(Arithmetic::Int16, 0.9999), (Arithmetic::Int8, 0.97)] {
            let network = open(&folder, Isa::best(), arithmetic).unwrap();
            let states = run_all(&network, &case);
            let product = |a: &[f32], b: &[f32]| -> f64 {
                let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
                products.sum()
            };
            let cosine = product(&states, &case.states)
                / (product(&states, &states) * product(&case.states, &case.states)).sqrt();
            assert!(
                cosine >= least,
                "{name}: {arithmetic:?} has the cosine {cosine}"
            );
        }
    }
}

/// A copy of the adapter over BERT's query and value, with its base model named by an absolute path.
fn copy(settings: impl FnOnce(&mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let of = Path::new(ADAPTERS).join("bert");
    fs::copy(
        of.join("adapter_model.safetensors"),
        folder.path().join("adapter_model.safetensors"),
    )
    .unwrap();
    let text = fs::read(of.join("adapter_config.json")).unwrap();
    let mut value: Value = serde_json::from_slice(&text).unwrap();
    value["base_model_name_or_path"] =
        json!(fs::canonicalize(Path::new(CASES).join("bert")).unwrap());
    settings(&mut value);
    fs::write(folder.path().join("adapter_config.json"), value.to_string()).unwrap();
    folder
}

fn refusal(folder: &Path) -> String {
    match open(folder, Isa::best(), Arithmetic::Fp32) {
        Ok(_) => panic!("{} is taken", folder.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_setting_that_would_change_vectors_and_is_not_applied_is_refused_by_its_name() {
    for (key, value) in [
        ("peft_type", json!("IA3")),
        ("peft_type", json!(null)),
        ("use_dora", json!(true)),
        ("lora_bias", json!(true)),
        ("use_qalora", json!(true)),
        ("trainable_token_indices", json!([3])),
        ("layer_replication", json!([[0, 2]])),
        ("alora_invocation_tokens", json!([1])),
        ("target_parameters", json!(["weight"])),
        ("megatron_config", json!({"a": 1})),
        ("ensure_weight_tying", json!(true)),
        ("monteclora_config", json!({"num_samples": 2})),
        ("velora_config", json!({"num_groups": 2})),
        ("use_bdlora", json!({"nblocks": 2})),
        ("arrow_config", json!({"top_k": 2})),
        ("kasa_config", json!({"beta": 2})),
        ("init_lora_weights", json!("pissa")),
        ("init_lora_weights", json!("olora")),
        ("a_setting_of_next_year", json!(1)),
        ("r", json!(0)),
        ("lora_alpha", json!("8")),
        ("bias", json!("some")),
        ("use_rslora", json!("yes")),
        ("rank_pattern", json!({"query(?=x)": 3})),
        ("target_modules", json!(".*(?!x)query")),
        ("target_modules", json!("[[:alpha:]]*query")),
        ("exclude_modules", json!("a*+")),
        ("target_modules", json!(null)),
        ("layers_to_transform", json!("all")),
    ] {
        let folder = copy(|settings| settings[key] = value.clone());
        let message = refusal(folder.path());
        assert!(
            message.contains(key) && message.contains("adapter_config.json"),
            "{key} {value}: {message}"
        );
    }
}

#[test]
fn settings_that_change_nothing_are_no_obstacle() {
    for (key, value) in [
        ("task_type", json!("FEATURE_EXTRACTION")),
        ("lora_dropout", json!(0.5)),
        ("inference_mode", json!(false)),
        ("revision", json!("v2")),
        ("use_dora", json!(null)),
        ("a_setting_of_next_year", json!(false)),
        ("another_one", json!([])),
        ("init_lora_weights", json!(false)),
        ("modules_to_save", json!([])),
        (
            "target_modules",
            json!([
                "attention.self.query",
                "encoder.layer.0.attention.self.value",
                "layer.1.attention.self.value"
            ]),
        ),
        ("target_modules", json!(r".*\.(?:query|value)")),
    ] {
        let folder = copy(|settings| settings[key] = value.clone());
        let opened = open(folder.path(), Isa::best(), Arithmetic::Fp32);
        assert!(opened.is_ok(), "{key} {value}: {:?}", opened.err());
    }
}

#[test]
fn an_adapter_whose_weights_are_not_those_of_its_settings_is_refused() {
    for (change, expected) in [
        (
            json!({"target_modules": ["query"]}),
            "does not name as a target",
        ),
        (
            json!({"target_modules": ["query", "value", "key"]}),
            "holds no weights of",
        ),
        (
            json!({"target_modules": "all-linear"}),
            "holds no weights of",
        ),
        (
            json!({"exclude_modules": ["query"]}),
            "does not name as a target",
        ),
        (
            json!({"modules_to_save": ["query"]}),
            "does not name as a target",
        ),
        (
            json!({"layers_to_transform": [0]}),
            "does not name as a target",
        ),
        (json!({"r": 4}), "rank 4"),
        (json!({"rank_pattern": {"query": 2}}), "rank 2"),
    ] {
        let folder = copy(|settings| {
            for (key, value) in change.as_object().unwrap() {
                settings[key] = value.clone();
            }
        });
        let message = refusal(folder.path());
        assert!(message.contains(expected), "{change}: {message}");
    }
}

/// The tensors of a file under other names.
fn rename(file: &Path, to: &Path, names: impl Fn(&str) -> Vec<String>) {
    let bytes = fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let all: Vec<(String, TensorView<'_>)> = tensors
        .tensors()
        .into_iter()
        .flat_map(|(name, tensor)| {
            names(&name)
                .into_iter()
                .map(move |name| (name, tensor.clone()))
        })
        .collect();
    safetensors::serialize_to_file(all, None, to).unwrap();
}

#[test]
fn weights_that_no_module_takes_are_refused_by_their_names() {
    let of = Path::new(ADAPTERS).join("bert/adapter_model.safetensors");
    for (from, to) in [
        ("self.query.lora_A.weight", "self.query.lora_embedding_A"),
        (
            "self.query.lora_A.weight",
            "self.query.lora_magnitude_vector",
        ),
        (
            "self.query.lora_A.weight",
            "self.query.lora_A.default.weight",
        ),
        (
            "layer.1.attention.self.query",
            "layer.7.attention.self.query",
        ),
        ("attention.self.query", "attn.q"),
        ("self.query.lora_B.weight", "self.query.weight"),
        ("self.query.lora_B.weight", "output.dense.bias"),
    ] {
        let folder = copy(|_| {});
        rename(
            &of,
            &folder.path().join("adapter_model.safetensors"),
            |name| vec![name.replace(from, to)],
        );
        let message = refusal(folder.path());
        assert!(
            message.contains("adapter_model.safetensors")
                && message.contains(to.trim_end_matches(".weight")),
            "{to}: {message}"
        );
    }
}

/// The architecture case `name` with its tensors under each of these prefixes.
fn under(name: &str, prefixes: &[&str]) -> (TempDir, Result<Prefix>) {
    let of = PathBuf::from(CASES).join(name);
    let folder = tempfile::tempdir().unwrap();
    fs::copy(of.join("config.json"), folder.path().join("config.json")).unwrap();
    rename(
        &of.join("model.safetensors"),
        &folder.path().join("model.safetensors"),
        |name| {
            prefixes
                .iter()
                .map(|prefix| format!("{prefix}{name}"))
                .collect()
        },
    );
    let architecture = Architecture::read(folder.path()).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap().unwrap();
    let found = prefix::find(&architecture, checkpoint.path(), checkpoint.names());
    (folder, found)
}

#[test]
fn of_two_networks_the_one_under_the_classs_own_name_is_taken() {
    for (name, base) in [
        ("bert", "bert."),
        ("ernie", "ernie."),
        ("electra", "electra."),
        ("roberta", "roberta."),
        ("camembert", "roberta."),
        ("mpnet", "mpnet."),
        ("distilbert", "distilbert."),
        ("albert", "albert."),
        ("nomic-bert", "nomic_bert."),
        ("gte", "gte."),
        ("gte", "new."),
        ("jina-embeddings-v3", "roberta."),
        ("modernbert", "model."),
        ("llama", "model."),
        ("qwen3", "model."),
        ("gemma3-text", "model."),
    ] {
        for own in ["", base] {
            for prefixes in [vec![own], vec!["a.", own], vec![own, "kd.", "zz.inner."]] {
                let found = under(name, &prefixes).1.unwrap();
                assert_eq!(
                    (found.prefix.as_str(), found.note),
                    (own, None),
                    "{name} {prefixes:?}"
                );
            }
        }
        let (_folder, found) = under(name, &["kd."]);
        let found = found.unwrap();
        assert_eq!(found.prefix, "kd.", "{name}");
        assert!(found.note.unwrap().contains("'kd.'"), "{name}");
        let message = under(name, &["kd.", "teacher."]).1.unwrap_err().to_string();
        assert!(
            message.contains("kd.") && message.contains("teacher."),
            "{name}: {message}"
        );
    }
}

#[test]
fn a_network_with_and_without_the_classs_name_is_taken_as_transformers_sorts_them() {
    // As seen by running transformers 5.23.
    for (name, base, taken) in [
        ("bert", "bert.", "bert."),
        ("roberta", "roberta.", ""),
        ("modernbert", "model.", ""),
    ] {
        let found = under(name, &["", base]).1.unwrap();
        assert_eq!(found.prefix, taken, "{name}");
        assert!(found.note.is_some(), "{name}");
    }
    // The final norm of one and the layers of the other.
    let message = under("llama", &["", "model."]).1.unwrap_err().to_string();
    assert!(message.contains("several networks"), "{message}");
}
