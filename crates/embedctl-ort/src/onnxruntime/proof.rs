//! The proof that a provider itself does the work.
//!
//! ONNX Runtime silently gives every node that a provider does not take to the CPU. So one short batch is run under the
//! profiler before the first real one, to see where matrix products ran. Shape arithmetic belongs on the CPU; more than
//! a twentieth of the products there is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ort::session::Session;
use ort::session::builder::SessionBuilder;

use super::session::OrtWorker;
use crate::runtime::placement::{
    self, AssignedNode, CPU, ProfiledNode, library_name, multiplies_matrices,
};
use embedctl_common::atomic::ScratchFolder;
use embedctl_common::error::{Cause, with_causes};
use embedctl_common::setting::{MODEL_FILE, PRECISION, PROVIDER};
use embedctl_common::threads::locked;
use embedctl_engine::{PlacedWork, Provider, Worker};
use embedctl_model::Model;
use embedctl_rows::batch::Batch;

/// Percent of the matrix products that may run on the CPU.
const TOLERATED: f64 = 5.0;

/// Shape of the batch that is run: enough tokens that products outweigh everything around them.
const ROWS: usize = 4;
const LENGTH: usize = 32;

/// A profile that is being written into a folder of its own, which goes with this value.
pub(super) struct Profiling {
    folder: ScratchFolder,
}

impl Profiling {
    /// Has the session that `builder` makes write a profile from its start on.
    pub(super) fn start(builder: SessionBuilder) -> Result<(SessionBuilder, Self), String> {
        let folder = ScratchFolder::new(super::FOLDER_PREFIX)
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        let builder = builder
            .with_profiling(folder.path().join("profile"))
            .map_err(|error| with_causes(&error))?;
        Ok((builder, Self { folder }))
    }

    /// Runs two batches and returns the providers of the second one's nodes: the first includes one-time work.
    ///
    /// # Errors
    /// If a batch fails, in the library's own words, or the profile is not readable.
    pub(super) fn run(
        self,
        session: &Mutex<Session>,
        worker: &mut OrtWorker,
        batch: &Batch,
    ) -> Result<Vec<ProfiledNode>, String> {
        for _ in 0..2 {
            worker
                .run(batch)
                .map_err(|error| error.reason().to_owned())?;
        }
        let named = locked(session)
            .end_profiling()
            .map_err(|error| with_causes(&error))?;
        let path = self.written(Path::new(&named));
        let profile = std::fs::read(&path)
            .map_err(|error| format!("cannot read the profile {}: {error}", path.display()))?;
        placement::last_run(&profile)
    }

    /// The profile: the file that the library names, or the one file in the folder that is not ours.
    fn written(&self, named: &Path) -> PathBuf {
        if named.is_file() {
            return named.to_path_buf();
        }
        std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "json"))
            .unwrap_or_else(|| named.to_path_buf())
    }
}

/// A short batch of plausible token ids: no more rows and tokens than the model takes.
pub(super) fn sample(model: &Model, rows: usize, length: usize) -> Batch {
    let length = length.min(model.config.max_length).max(1);
    // Any id except padding's works, and low ids exist in every vocabulary.
    let id = |index: usize| {
        let id = 5 + u32::try_from(index % 90).expect("below 90");
        if id == model.config.padding_id { 4 } else { id }
    };
    let mut batch = Batch::default();
    for row in 0..rows {
        let tokens = row * length..(row + 1) * length;
        batch.push(tokens.map(id), &model.config.frame);
    }
    batch
}

/// The batch that [`Profiling::run`] is given.
pub(super) fn short_batch(model: &Model, max_rows: Option<usize>) -> Batch {
    sample(model, max_rows.unwrap_or(ROWS).min(ROWS), LENGTH)
}

/// The quick check: how many matrix products a session's assignment leaves to the CPU. Some providers list only nodes
/// that they leave there, so the number is only compared with that of a proved session.
pub(super) fn products_on_cpu(assigned: &[AssignedNode]) -> usize {
    assigned
        .iter()
        .filter(|node| node.provider == CPU && multiplies_matrices(&node.operator))
        .count()
}

/// Each provider's work, the wanted provider first, and why that one's share is too small, if it is.
///
/// `operators` are those of the model's own graph, as in [`embedctl_model::Graph::operators`]: an operator under
/// another name is a part of the graph that the provider compiled.
pub(super) fn judge(
    nodes: &[ProfiledNode],
    provider: Provider,
    operators: &BTreeSet<String>,
) -> (Vec<PlacedWork>, Option<Cause>) {
    let wanted = library_name(provider).unwrap_or_default();
    let mut all: BTreeMap<&str, ProviderWork> = BTreeMap::new();
    all.entry(wanted).or_default();
    for node in nodes {
        let work = all.entry(node.provider.as_str()).or_default();
        work.nodes += 1;
        let matrices = multiplies_matrices(&node.operator);
        let compiled = node.provider != CPU && is_compiled(node, operators);
        if matrices || compiled {
            work.time += node.time as f64;
            match node.products {
                Some(products) => work.products += products as f64,
                None => work.unknown = true,
            }
        }
    }
    let time: f64 = all.values().map(|work| work.time).sum();
    let products: f64 = all.values().map(|work| work.products).sum();
    let percent = |part: f64, whole: f64| {
        if whole > 0.0 {
            100.0 * part / whole
        } else {
            0.0
        }
    };
    // A device is only given its orders while the profiler looks, so by time alone a trifle on the CPU
    // would weigh like the work. Where all products are known by their shapes, their number decides.
    let counted = products > 0.0 && !all.values().any(|work| work.unknown);
    let share = |work: &ProviderWork| {
        if counted {
            percent(work.products, products)
        } else {
            percent(work.time, time)
        }
    };
    let on_cpu = all.get(CPU).map_or(0.0, share);
    let mut placed: Vec<PlacedWork> = all
        .iter()
        .map(|(&name, work)| PlacedWork {
            provider: short_name(name),
            nodes: work.nodes,
            matrix_percent: share(work).round() as u8,
        })
        .collect();
    placed.sort_by_key(|one| one.provider != provider.name());
    let nothing = all[wanted].nodes == 0;
    let complaint = (nothing || on_cpu > TOLERATED).then(|| {
        let done = if nothing {
            "took no node of this model's graph".to_owned()
        } else {
            format!("left {on_cpu:.0} % of the model's matrix products to the CPU")
        };
        Cause::of(format!("{provider} is here, but {done}")).with(format!(
            "it may run another export of the model ({PRECISION}, {MODEL_FILE}), {PROVIDER} cpu runs this one"
        ))
    });
    (placed, complaint)
}

/// One provider's work.
#[derive(Default)]
struct ProviderWork {
    nodes: usize,
    time: f64,
    products: f64,
    /// Some of the work is not known by its shapes.
    unknown: bool,
}

/// Whether a node stands for a part of the graph that its provider compiled. Such nodes bear names of
/// their own making.
fn is_compiled(node: &ProfiledNode, operators: &BTreeSet<String>) -> bool {
    let name = node.operator.as_str();
    let known = operators
        .iter()
        .any(|operator| operator.rsplit(':').next() == Some(name));
    let made = name.contains("subgraph")
        || name.contains("Kernel")
        || name.contains("Fused")
        || name.contains("ExecutionProvider")
        || name.contains("EPContext")
        || name.chars().any(|letter| letter == '_' || letter == '-');
    !known && !multiplies_matrices(name) && made
}

/// The provider's name as it is shown to people.
fn short_name(name: &str) -> String {
    Provider::ALL
        .into_iter()
        .find(|&provider| library_name(provider) == Some(name))
        .map_or_else(|| name.to_owned(), |provider| provider.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(provider: &str, operator: &str, time: u64, products: Option<u64>) -> ProfiledNode {
        ProfiledNode {
            provider: provider.into(),
            operator: operator.into(),
            time,
            products,
        }
    }

    fn operators() -> BTreeSet<String> {
        ["MatMul", "Add", "Gather"].map(str::to_owned).into()
    }

    #[test]
    fn a_provider_that_multiplies_passes_whatever_the_cpu_does_beside() {
        let nodes = [
            node("WebGpuExecutionProvider", "MatMul", 10, Some(1_000_000)),
            // Waits for everything before it, which says nothing about where the work is.
            node("WebGpuExecutionProvider", "Gather", 9_000, None),
            node(CPU, "Gather", 400, None),
            // A trifle that takes longer than giving an order does.
            node(CPU, "MatMul", 30, Some(500)),
        ];
        let (placed, complaint) = judge(&nodes, Provider::WebGpu, &operators());
        assert_eq!(complaint, None);
        assert_eq!(
            placed,
            [
                PlacedWork {
                    provider: "webgpu".into(),
                    nodes: 2,
                    matrix_percent: 100
                },
                PlacedWork {
                    provider: "cpu".into(),
                    nodes: 2,
                    matrix_percent: 0
                },
            ]
        );
    }

    #[test]
    fn products_on_the_cpu_are_a_failure_that_says_how_many() {
        let nodes = [
            node("CUDAExecutionProvider", "MatMul", 10, Some(800)),
            node("CUDAExecutionProvider", "Add", 10, None),
            node(CPU, "MatMulInteger", 500, Some(200)),
        ];
        let (placed, complaint) = judge(&nodes, Provider::Cuda, &operators());
        assert_eq!(placed[0].matrix_percent, 80);
        let complaint = complaint.unwrap();
        assert!(complaint.reason.contains("left 20 %"), "{complaint:?}");
        assert!(complaint.remedy.unwrap().contains("provider cpu"));
    }

    #[test]
    fn a_compiled_graph_is_weighed_by_time() {
        let compiled = node(
            "OpenVINOExecutionProvider",
            "OpenVINO-EP-subgraph_1",
            30_000,
            None,
        );
        let (placed, complaint) = judge(
            std::slice::from_ref(&compiled),
            Provider::OpenVino,
            &operators(),
        );
        assert_eq!((placed[0].nodes, placed[0].matrix_percent), (1, 100));
        assert_eq!(complaint, None);
        let beside = node(CPU, "MatMul", 3_000, Some(1_000_000));
        let (placed, complaint) = judge(&[compiled, beside], Provider::OpenVino, &operators());
        assert_eq!(placed[0].matrix_percent, 91);
        assert!(complaint.unwrap().reason.contains("left 9 %"));
    }

    #[test]
    fn a_provider_without_any_node_fails_also_where_nothing_is_multiplied() {
        let nodes = [node(CPU, "Add", 10, None)];
        let (placed, complaint) = judge(&nodes, Provider::Xnnpack, &operators());
        assert_eq!(placed[0].provider, "xnnpack");
        assert!(complaint.unwrap().reason.contains("took no node"));
    }
}
