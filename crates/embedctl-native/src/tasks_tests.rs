//! Adapters for tasks in the checkpoint itself, against the repository's own rules restated.

use std::path::{Path, PathBuf};

use super::network_weights::NetworkWeights;
use super::plain::{PlainNetwork, PlainTable};
use super::tests::{CASES, case_of, open_changed, run_all};
use embedctl_checkpoint::Adapter;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_kernels::{Arithmetic, Isa};
use embedctl_vectors::elements::Element;

const NAMES: [&str; 2] = ["jina-lora", "jina-lora-two-types"];

fn folder(name: &str) -> PathBuf {
    Path::new(CASES).join(name)
}

fn tasks(folder: &Path) -> Vec<String> {
    let architecture = Architecture::read(folder).unwrap();
    architecture.tasks.unwrap().names
}

fn apart(ours: &[f32], others: &[f32]) -> f32 {
    assert_eq!(ours.len(), others.len());
    let apart = ours.iter().zip(others).map(|(a, b)| (a - b).abs());
    apart.fold(0.0, f32::max)
}

#[test]
fn every_task_gives_the_states_of_its_own_adapter() {
    for name in NAMES {
        let folder = folder(name);
        let base = case_of(&folder, "states.npy");
        for task in tasks(&folder) {
            let case = case_of(&folder, &format!("states-{task}.npy"));
            let adapter = Adapter::Task(task.clone());
            for isa in Isa::all_and_emulated() {
                let network = open_changed(&folder, Some(&adapter), isa, Arithmetic::Fp32);
                let states = run_all(&network.unwrap(), &case);
                let worst = apart(&states, &case.states);
                assert!(worst <= 2e-5, "{name}, {task} with {isa}: {worst}");
                assert!(apart(&states, &base.states) > 0.01, "{name}, {task}");
            }
        }
    }
}

#[test]
fn reduced_precision_is_near_the_states_of_the_task() {
    let folder = folder(NAMES[0]);
    for task in tasks(&folder) {
        let case = case_of(&folder, &format!("states-{task}.npy"));
        let adapter = Adapter::Task(task.clone());
        let arithmetic = Arithmetic::Int16;
        let network = open_changed(&folder, Some(&adapter), Isa::best(), arithmetic).unwrap();
        let worst = apart(&run_all(&network, &case), &case.states);
        assert!(worst <= 2e-2, "{task}: {worst}");
    }
}

#[test]
fn a_tasks_weights_are_kept_apart_from_those_of_others() {
    let folder = folder(NAMES[0]);
    let architecture = Architecture::read(&folder).unwrap();
    let hashes = |task: Option<&str>| {
        let adapter = task.map(|task| Adapter::Task(task.to_owned()));
        let weights = NetworkWeights::open(&folder, adapter.as_ref(), &architecture);
        weights.unwrap().unwrap().hashes(b"").unwrap()
    };
    let (none, one, other) = (
        hashes(None),
        hashes(Some("separation")),
        hashes(Some("retrieval.query")),
    );
    assert!(none != one && one != other && none != other);
}

#[test]
fn the_memory_for_a_tasks_weights_is_counted() {
    let folder = folder(NAMES[0]);
    let architecture = Architecture::read(&folder).unwrap();
    let adapter = Adapter::Task("separation".to_owned());
    let weights = NetworkWeights::open(&folder, Some(&adapter), &architecture);
    // Of 96 tokens, a token type, a pooler and two layers, all of rank 4.
    let layer = (32 + 96) + (32 + 32) + (32 + 48) + (48 + 32);
    let floats = 4 * ((96 + 32) + (1 + 32) + (32 + 32) + 2 * layer);
    assert_eq!(weights.unwrap().unwrap().low_rank_bytes(), 4 * floats);
}

#[test]
fn a_plain_table_of_tokens_is_changed_by_the_task() {
    // Stored in half the width.
    let folder = folder(NAMES[1]);
    let table = |task: Option<&str>| {
        let adapter = task.map(|task| Adapter::Task(task.to_owned()));
        let network = PlainNetwork::open(&folder, adapter.as_ref()).unwrap();
        let (_, _, element) = network.table_shape(PlainTable::Tokens).unwrap();
        let table = network.table(PlainTable::Tokens).unwrap();
        assert_eq!(table.element(), element);
        let mut row = vec![0.0; table.width()];
        table.row(7, &mut row);
        (element, row)
    };
    let (stored, base) = table(None);
    let (changed, row) = table(Some("classification"));
    assert_eq!((stored, changed), (Element::Bf16, Element::F32));
    assert!(apart(&base, &row) > 1e-3);
}

#[test]
fn an_unknown_task_is_refused_with_those_that_there_are() {
    let folder = folder(NAMES[1]);
    let adapter = Adapter::Task("separation".to_owned());
    let opened = open_changed(&folder, Some(&adapter), Isa::best(), Arithmetic::Fp32);
    let error = opened.err().unwrap();
    assert!(error.contains("classification, text-matching"), "{error}");
}
