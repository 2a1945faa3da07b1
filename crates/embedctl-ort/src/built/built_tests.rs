//! Every architecture of the native engine as a graph, on each engine that is here, against the reference's states.

use std::fs;
use std::path::{Path, PathBuf};

use embedctl_native::PlainNetwork;
use embedctl_testing::apart;
use rten::{Model, ModelOptions, Value};

use super::*;

const CASES: &str = "../../fixtures/architectures";

/// As for whole vectors: the largest difference from the reference.
pub(crate) const TOLERANCE: f32 = 2e-5;

/// A case of `fixtures/architectures`.
pub(crate) struct FixtureCase {
    pub name: String,
    pub folder: PathBuf,
    pub ids: Vec<Vec<u32>>,
    types: Vec<Vec<u32>>,
    /// The states of all rows' tokens, one after another.
    pub states: Vec<f32>,
}

/// All cases but those whose networks are refused.
pub(crate) fn cases() -> Vec<FixtureCase> {
    let all = all_cases().into_iter();
    all.filter(|case| !has_no_graph(case)).collect()
}

/// Whether a network is one of those that are refused.
fn has_no_graph(case: &FixtureCase) -> bool {
    case.name.starts_with("qwen3-5-text")
}

fn all_cases() -> Vec<FixtureCase> {
    let only = std::env::var("EMBEDCTL_TEST_CASE").ok();
    let mut folders: Vec<PathBuf> = fs::read_dir(CASES)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("rows.json").exists())
        .filter(|path| only.as_ref().is_none_or(|only| path.ends_with(only)))
        .collect();
    folders.sort();
    assert!(
        only.is_some() || folders.len() >= 100,
        "only {} cases",
        folders.len()
    );
    folders.iter().map(|folder| case(folder)).collect()
}

fn case(folder: &Path) -> FixtureCase {
    let rows = fs::read(folder.join("rows.json")).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&rows).unwrap();
    let lists = |key: &str| -> Vec<Vec<u32>> {
        let list = rows.get(key).cloned().unwrap_or(serde_json::json!([]));
        serde_json::from_value(list).unwrap()
    };
    let npy = fs::read(folder.join("states.npy")).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let words = npy[header..].as_chunks().0;
    FixtureCase {
        name: folder.file_name().unwrap().to_string_lossy().into_owned(),
        ids: lists("ids"),
        types: lists("types"),
        states: words.iter().map(|word| f32::from_le_bytes(*word)).collect(),
        folder: folder.to_path_buf(),
    }
}

impl FixtureCase {
    pub(crate) fn longest(&self) -> usize {
        self.ids.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Whether its rows state the types of their tokens.
    pub(crate) fn is_typed(&self) -> bool {
        !self.types.is_empty()
    }

    /// Token ids, mask and types of all rows side by side, padded on the right.
    pub(crate) fn padded(&self) -> [Vec<i32>; 3] {
        let length = self.longest();
        let mut padded = [Vec::new(), Vec::new(), Vec::new()];
        for (row, ids) in self.ids.iter().enumerate() {
            let types = self.types.get(row).cloned().unwrap_or(vec![0; ids.len()]);
            for place in 0..length {
                // Any id will do where there is no token; the second one is in every vocabulary.
                padded[0].push(ids.get(place).map_or(1, |&id| id.cast_signed()));
                padded[1].push(i32::from(place < ids.len()));
                padded[2].push(types.get(place).map_or(0, |&kind| kind.cast_signed()));
            }
        }
        padded
    }

    /// The states of real tokens among `states`, `[rows, length, hidden]`.
    pub(crate) fn own(&self, states: &[f32]) -> Vec<f32> {
        let tokens: usize = self.ids.iter().map(Vec::len).sum();
        let width = self.states.len() / tokens;
        let length = self.longest();
        let own = self.ids.iter().enumerate().flat_map(|(row, ids)| {
            let start = row * length * width;
            &states[start..start + ids.len() * width]
        });
        own.copied().collect()
    }

    /// The largest difference of `states`, `[rows, length, hidden]`, from the reference's.
    pub(crate) fn apart(&self, states: &[f32]) -> f32 {
        apart(&self.own(states), &self.states)
    }

    pub(crate) fn built(&self, form: GraphForm) -> (PlainNetwork, BuiltGraph) {
        let network = PlainNetwork::open(&self.folder, None).unwrap();
        let form = GraphForm {
            longest: self.longest(),
            typed: self.is_typed(),
            ..form
        };
        let built = BuiltGraph::build(&network, form).unwrap();
        (network, built)
    }
}

fn on_rten(case: &FixtureCase) -> Result<f32, String> {
    let (network, built) = case.built(GraphForm::default());
    let mut options = ModelOptions::with_all_ops();
    for weight in built.weights() {
        let mut bytes = vec![0; weight.bytes()];
        weight
            .read(&network, &mut bytes)
            .map_err(|error| error.to_string())?;
        options.external_data(&weight.file(), bytes);
    }
    let model: Model = options
        .load(built.model_in_memory())
        .map_err(|error| error.to_string())?;
    let shape = [case.ids.len(), case.longest()];
    let names = ["input_ids", "attention_mask", "token_type_ids"];
    let inputs = names.iter().zip(case.padded());
    let inputs = inputs.filter_map(|(name, values)| {
        let node = model.find_node(name)?;
        Some((node, Value::from_shape(shape, values).unwrap().into()))
    });
    let output = model.node_id(STATES).map_err(|error| error.to_string())?;
    let mut outputs = model
        .run(inputs.collect(), &[output], None)
        .map_err(|error| error.to_string())?;
    let (_, states) = outputs
        .remove(0)
        .into_shape_vec::<f32, 3>()
        .map_err(|error| error.to_string())?;
    Ok(case.apart(&states))
}

#[test]
fn a_network_that_cannot_be_a_graph_is_refused_by_the_part_that_keeps_it_from_it() {
    let mut refused = 0;
    for case in all_cases() {
        let network = PlainNetwork::open(&case.folder, None).unwrap();
        let lacking = network::lacks(network.architecture());
        assert_eq!(lacking.is_some(), has_no_graph(&case), "{}", case.name);
        if lacking.is_some() {
            let built = BuiltGraph::build(&network, GraphForm::default());
            let error = built.unwrap_err().to_string();
            assert!(
                error.contains("gated delta rule") && error.contains("config.json"),
                "{error}"
            );
            refused += 1;
        }
    }
    assert!(refused >= 3, "{refused}");
}

#[test]
fn every_architecture_gives_the_references_states_on_rten() {
    let mut wrong = Vec::new();
    for case in cases() {
        match on_rten(&case) {
            Ok(apart) if apart <= TOLERANCE => {}
            other => wrong.push(format!("{}: {other:?}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
