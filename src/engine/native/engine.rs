//! The engine's two faces: an opened model, and a worker that runs batches of it.

use std::sync::Arc;

use super::LIMITS;
use super::adapter::Adapter;
use super::architecture::Architecture;
use super::kernels::{Arithmetic as Numbers, Isa};
use super::loader::{Loader, Weights};
use super::need::{self, Need};
use super::network::Network;
use super::prefix;
use super::scratch::{Rows, Scratch};
use super::statics::{StaticEngine, StaticTable};
use crate::batch::{Batch, TokenRows};
use crate::engine::{
    Arithmetic, BatchLimits, Cosine, Engine, EngineInfo, EngineOptions, Finish, Hidden, Output,
    PassedOver, Provider, Worker,
};
use crate::error::{Error, Result};
use crate::model::{Model, OutputChoice};
use crate::safetensors::{self, Checkpoint};
use crate::threads::{exhausted, usable_cores};

/// The engine's name in messages.
const NAME: &str = "native";

/// An opened model.
pub(super) struct NativeEngine {
    info: EngineInfo,
    weights: Weights,
    network: Arc<Network>,
    exact: bool,
    threads: usize,
    need: u64,
}

/// Opens the model in `model`'s Transformer folder.
///
/// # Errors
/// If config.json asks for something that the engine doesn't do, or the checkpoint is not what it says;
/// the message names the file and the setting or tensor.
pub fn open(
    model: &Model,
    options: &EngineOptions,
    passed_over: &[PassedOver],
    provider: Provider,
) -> Result<Box<dyn Engine>> {
    let failed = |reason: String| Error::engine(NAME, reason);
    if let (OutputChoice::Sentence(_), Ok(checkpoint)) = (&model.config.output, &model.checkpoint) {
        let info = EngineInfo {
            precision: Some(Arithmetic::Fp32.name()),
            passed_over: passed_over.to_vec(),
            ..EngineInfo::new(NAME, env!("CARGO_PKG_VERSION").into(), provider)
        };
        let table = StaticTable::open(&checkpoint.files)?;
        return Ok(Box::new(StaticEngine::new(info, table)));
    }
    let isa = Isa::here().map_err(Error::usage)?;
    let folder = model.network();
    let architecture =
        Architecture::read(folder).map_err(|unsupported| failed(unsupported.to_string()))?;
    let checkpoint = Checkpoint::open(folder)?.ok_or_else(|| {
        failed(format!(
            "{} has no model.safetensors and no model.safetensors.index.json",
            folder.display()
        ))
    })?;
    let adapter = model.adapter();
    let weights = Weights {
        adapter: adapter
            .map(|adapter| Adapter::open(adapter, &architecture))
            .transpose()?,
        ..checkpoint.into()
    };
    let (arithmetic, numbers) = match options.arithmetic {
        Arithmetic::Fp32 => (Arithmetic::Fp32, Numbers::F32),
        // 8 bits without instructions for them are slower than 16, and less exact.
        Arithmetic::Int8 if isa.speeds_up(Numbers::I8) => (Arithmetic::Int8, Numbers::I8),
        Arithmetic::Int16 | Arithmetic::Int8 => (Arithmetic::Int16, Numbers::I16),
    };
    let threads = match options.workers {
        0 => usable_cores(),
        workers => workers,
    };
    let tables = Loader::new(&architecture, &weights, isa)?.table_bytes();
    let changes = weights.adapter.as_ref().map_or(0, Adapter::low_rank_bytes);
    let needs = |numbers| Need::of(&architecture, tables, changes, numbers, threads);
    need::check(needs, numbers)?;
    let need = needs(numbers).bytes();
    let network = with_threads(threads, || {
        Network::open(architecture, &weights, isa, numbers)
    })?;
    Ok(Box::new(NativeEngine {
        info: EngineInfo {
            precision: Some(arithmetic.name()),
            arithmetic: arithmetic.version(),
            passed_over: passed_over.to_vec(),
            ..EngineInfo::new(
                NAME,
                format!("{} ({isa})", env!("CARGO_PKG_VERSION")),
                provider,
            )
        },
        weights,
        network: Arc::new(network),
        exact: numbers == Numbers::F32,
        threads,
        need,
    }))
}

/// What to tell about the weights that the engine takes for `model`, which needs no weights read: which of several
/// networks, and code of the repository's own that is not run.
#[must_use]
pub fn notes(model: &Model) -> Vec<String> {
    let Ok(known) = &model.checkpoint else {
        return Vec::new();
    };
    let own_code = own_code(&known.config).map(|classes| {
        format!(
            "config.json names code of the repository's own ({classes}), which is not run: the model is taken for              transformers' own class for the model_type {}",
            known.config["model_type"].as_str().unwrap_or_default()
        )
    });
    // What is wrong with them is said when they are opened.
    let architecture = Architecture::read(model.network()).ok();
    let shards = known.files.iter().filter(|file| {
        let ending = file.extension();
        ending.is_some_and(|ending| ending == "safetensors")
    });
    let names: Vec<String> = shards
        .flat_map(|shard| safetensors::outlines(shard).unwrap_or_default().into_keys())
        .collect();
    let found = architecture
        .zip(known.files.last())
        .and_then(|(architecture, file)| {
            prefix::find(&architecture, file, names.iter().map(String::as_str)).ok()
        });
    let adapter = model.adapter().map(|adapter| {
        let below = adapter
            .base
            .as_deref()
            .map(|base| format!(" over those of its base model {base}"));
        format!(
            "{}: the adapter's weights are applied{}",
            adapter.weights.display(),
            below.unwrap_or_default()
        )
    });
    let prefix = found.and_then(|found| found.note);
    own_code.into_iter().chain(adapter).chain(prefix).collect()
}

/// The classes that `auto_map` names, where it names any: `AutoModel: modeling.OwnModel`.
fn own_code(config: &serde_json::Value) -> Option<String> {
    let shown = |value: &serde_json::Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    match &config["auto_map"] {
        serde_json::Value::Null => None,
        serde_json::Value::Object(map) => {
            let given = map.iter().filter(|(_, value)| !value.is_null());
            let classes: Vec<String> = given
                .map(|(class, value)| format!("{class}: {}", shown(value)))
                .collect();
            (!classes.is_empty()).then(|| format!("auto_map: {}", classes.join(", ")))
        }
        other => Some(format!("auto_map: {}", shown(other))),
    }
}

/// Runs `work`, whose parallel parts take so many threads and no more: each has memory of its own.
fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("weights-{index}"))
        .build()
        .map_err(exhausted)?;
    pool.install(work)
}

impl Engine for NativeEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        LIMITS
    }

    fn is_ragged(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        Some(self.need)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(NativeWorker {
            network: Arc::clone(&self.network),
            scratch: Scratch::default(),
            ids: Vec::new(),
            types: Vec::new(),
            ends: Vec::new(),
        }))
    }

    fn measure(&self, rows: &TokenRows, finish: Finish<'_>) -> Result<Option<Cosine>> {
        if self.exact {
            return Ok(None);
        }
        let width = self.network.architecture.hidden;
        let cosines = with_threads(self.threads, || {
            let present = (0..rows.len())
                .map(|row| rows.get(row))
                .filter(|row| !row.is_empty());
            self.network
                .beside_exact(&self.weights, present, |ours, exact| {
                    Cosine::between(&finish(ours, width), &finish(exact, width))
                })
        })?;
        let lengths = (0..rows.len()).map(|row| rows.get(row).len());
        let lengths = lengths.filter(|&length| length > 0);
        Ok(Cosine::of(cosines).map(|cosine| cosine.with_lengths(lengths)))
    }

    fn operations(&self, tokens: usize) -> u64 {
        self.network.operations(tokens)
    }
}

/// A thread's memory beside the shared weights.
struct NativeWorker {
    network: Arc<Network>,
    scratch: Scratch,
    ids: Vec<u32>,
    types: Vec<u32>,
    ends: Vec<usize>,
}

impl Worker for NativeWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.ids.clear();
        self.types.clear();
        self.ends.clear();
        for row in 0..batch.rows {
            let real = batch.real(row);
            let start = row * batch.length;
            let own = start + real.start..start + real.end;
            if let Some(types) = batch.token_types.get(own.clone()) {
                self.types.extend(
                    types
                        .iter()
                        .map(|&kind| u32::try_from(kind).unwrap_or(u32::MAX)),
                );
            }
            let ids = &batch.input_ids[own];
            // An id that no vocabulary can have stays one.
            self.ids
                .extend(ids.iter().map(|&id| u32::try_from(id).unwrap_or(u32::MAX)));
            self.ends.push(self.ids.len());
        }
        let rows = Rows {
            ids: &self.ids,
            types: &self.types,
            ends: &self.ends,
        };
        let states = self.network.run(rows, &mut self.scratch)?;
        Ok(Output::Packed(Hidden {
            states,
            width: self.network.architecture.hidden,
        }))
    }
}
