//! embedctl's own engine for NVIDIA GPUs behind the engines' traits: it runs checkpoints for the provider `cuda`.

mod cards;
mod checked;
mod in_bf16;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use embedctl_common::setting::BATCH_TOKENS;
use embedctl_common::size;
use embedctl_cuda::{Card, CardElement, Encoder, EncoderOptions};
use embedctl_native::PlainNetwork;

pub(super) use self::cards::{Cards, check, is_here};
use self::checked::CheckedRows;
use self::in_bf16::Bf16Encoders;
use self::worker::{CardPooling, CudaWorker, OpenWorker, rows_of};
use crate::batch::Batch;
use crate::engine::native::refuse_unseen;
use crate::engine::{
    BatchLimits, Cosine, Engine, EngineInfo, EngineOptions, FloatType, Provider, ResolvedEngine,
    SkippedCandidate, Worker,
};
use crate::error::{Cause, Error, ErrorKind, Result};
use crate::model::Model;
use crate::pool::Pooler;
use crate::provider::ProviderOption;
use crate::rows::OutputChoice;
use crate::setting::{PRECISION, PROVIDER};

/// The engine's name in messages.
const NAME: &str = embedctl_cuda::NAME;

/// The engine's name among those that were passed over.
pub(super) const CANDIDATE: &str = "cuda.engine=own";

/// Batches for a card: as many tokens as keep it busy. The algorithms of products are measured on as many.
const TOKENS: usize = 65_536;
const ROWS: usize = 8_192;

/// Values of a batch's result at most, which each worker has room for: states of all tokens, or weights of all terms.
const VALUES: usize = 32 << 20;

/// Workers of a card: while it computes one's batch, the others prepare the next. They share its memory.
const WORKERS: usize = 3;

/// Options of `cuda` that ONNX Runtime alone has.
const OF_ONNX_RUNTIME: [&str; 3] = ["memory-limit", "arena", "binding"];

/// Positions of tables at most. A longer row is an error of its own.
const MOST_POSITIONS: usize = 1 << 17;

/// Who runs a checkpoint for the provider `cuda`, as the options say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chosen {
    /// This engine, by name: what it lacks is an error, but for a model that it does not know.
    Own,
    /// This engine, and ONNX Runtime where its libraries or a card for it are missing.
    OwnIfHere,
    /// ONNX Runtime.
    OnnxRuntime,
}

/// Who runs a checkpoint for the provider `cuda`. An option that ONNX Runtime alone has chooses it.
///
/// # Errors
/// If an option of ONNX Runtime's stands beside `cuda.engine=own`.
pub(super) fn chosen(options: &EngineOptions) -> Result<Chosen> {
    let named = last_option(options, "engine").and_then(|option| option.value.word());
    let of_other = OF_ONNX_RUNTIME
        .iter()
        .find(|name| last_option(options, name).is_some());
    match (named, of_other) {
        (Some("own"), Some(name)) => Err(Error::usage(format!(
            "cuda.{name} is an option of ONNX Runtime's, and {CANDIDATE} chooses embedctl's own engine"
        ))
        .with_remedy("leave one of them out")),
        (Some("own"), None) => Ok(Chosen::Own),
        (None, None) if cfg!(target_os = "linux") => Ok(Chosen::OwnIfHere),
        _ => Ok(Chosen::OnnxRuntime),
    }
}

fn last_option<'a>(options: &'a EngineOptions, name: &str) -> Option<&'a ProviderOption> {
    let mut own = options.provider_options.iter().rev();
    own.find(|option| option.provider == Provider::Cuda && option.name == name)
}

/// Why this engine does not run `model`, if it does not: ONNX Runtime runs it then.
pub(super) fn lacks(model: &Model) -> Option<String> {
    if model.checkpoint.is_err() || !model.has_network() {
        return Some("the model has no checkpoint of a network".into());
    }
    if let OutputChoice::Sentence(_) = model.config.output {
        return Some("the model is static: it has no network".into());
    }
    let architecture = embedctl_checkpoint::architecture::Architecture::read(model.network());
    match architecture {
        Err(unsupported) => Some(unsupported.to_string()),
        Ok(architecture)
            if architecture.embeddings.word_types && model.config.frame.states_types() =>
        {
            Some("the model looks token types up among its tokens".into())
        }
        Ok(architecture) => embedctl_cuda::knows(&architecture).err(),
    }
}

/// Opens the model's checkpoint on cards. Rows, not copies of them, go to each.
///
/// # Errors
/// If the model does not fit into a card's memory, or a card computes something else than the processor.
pub(super) fn open(
    model: &Model,
    options: &ResolvedEngine,
    Cards {
        cards,
        numbers,
        library,
    }: Cards,
    passed_over: &[SkippedCandidate],
) -> Result<Box<dyn Engine>> {
    let float = options.float.unwrap_or(FloatType::F32);
    let element = match float {
        FloatType::F32 => CardElement::F32,
        FloatType::F16 => CardElement::F16,
        FloatType::Bf16 => CardElement::Bf16,
    };
    let tf32 = last_option(options, "tf32").is_some_and(|option| option.value.is_on());
    let network = PlainNetwork::open(model.network(), model.adapter())?;
    let encoder_options = EncoderOptions {
        element,
        tf32,
        longest: model.config.max_length.clamp(1, MOST_POSITIONS),
        terms: model.config.sparse.as_ref().and_then(|sparse| sparse.terms),
        // A choice that is not kept could be another one in the next run.
        measured_tokens: options.weights_cache.as_ref().map_or(0, |_| TOKENS),
        cache: options
            .weights_cache
            .as_ref()
            .map(|cache| cache.join("cuda")),
    };
    let sample = CheckedRows::of(model, &network)?;
    // The processor computes the sample while the cards are made ready.
    let (encoders, exact) = thread::scope(|scope| {
        let exact = sample
            .as_ref()
            .map(|sample| scope.spawn(|| sample.states_here(model)));
        let encoders = open_on_all(&network, &cards, &encoder_options);
        (encoders, exact.map(|thread| joined(thread.join())))
    });
    let encoders = encoders?;
    let exact = exact.transpose()?;
    let first = encoders
        .first()
        .ok_or_else(|| Error::internal("an engine without a card"))?;
    refuse_unseen(model, |length| first.takes_unseen(length))?;
    let pooling = CardPooling::of(model).filter(|_| !pools_here(options));
    let pools = pooling.is_some() || first.terms().is_some();
    let mut tokens = usize::MAX;
    for (card, encoder) in cards.iter().zip(&encoders) {
        tokens = tokens.min(fitting_tokens(card, encoder, options, pools)?);
    }
    let own_options = options.provider_options.iter();
    let own_options = own_options.filter(|option| option.provider == Provider::Cuda);
    let info = EngineInfo {
        library: Some(library),
        devices: numbers,
        options: own_options.copied().collect(),
        built_graph: Some(float.name()),
        ignored: first.ignored().to_vec(),
        algorithms: first.algorithms(),
        passed_over: passed_over.to_vec(),
        ..EngineInfo::new(NAME, version(&cards), Provider::Cuda)
    };
    let in_bf16 = (element == CardElement::F16)
        .then(|| Arc::new(Bf16Encoders::new(network, cards, encoder_options)));
    let engine = CudaEngine {
        info,
        pooling,
        pooler: Pooler::new(&model.config, 0),
        encoders,
        in_bf16,
        next: AtomicUsize::new(0),
        tokens,
    };
    let cosine = match sample.zip(exact) {
        Some((sample, exact)) => Some(engine.check(&sample, &exact, float)?),
        None => None,
    };
    Ok(Box::new(CudaEngine {
        info: EngineInfo {
            cosine_to_cpu: cosine,
            ..engine.info
        },
        ..engine
    }))
}

/// What a thread gave.
fn joined<T>(done: thread::Result<Result<T>>) -> Result<T> {
    done.unwrap_or_else(|_| {
        Err(Error::internal(
            "a thread that opens the engine has panicked",
        ))
    })
}

/// Opens the network on every card: on the first alone, whose choice of algorithms the others take, so that a row has the
/// same bits on each.
fn open_on_all(
    network: &PlainNetwork,
    cards: &[Arc<Card>],
    options: &EncoderOptions,
) -> Result<Vec<Encoder>> {
    let Some((first, others)) = cards.split_first() else {
        return Ok(Vec::new());
    };
    let first = Encoder::open(network, first, options)?;
    let others = thread::scope(|scope| {
        let open = |card| scope.spawn(move || Encoder::open(network, card, options));
        let threads: Vec<_> = others.iter().map(open).collect();
        let joined = threads.into_iter().map(|thread| joined(thread.join()));
        joined.collect::<Result<Vec<_>>>()
    });
    Ok(std::iter::once(first).chain(others?).collect())
}

/// The versions of all that decides a vector's bits, for provenance.
fn version(cards: &[Arc<Card>]) -> String {
    let Some(card) = cards.first().map(|card| &card.info) else {
        return String::new();
    };
    let mut names: Vec<&str> = cards.iter().map(|card| card.info.name.as_str()).collect();
    names.dedup();
    format!(
        "{} ({}, sm_{}, driver {}.{}, NVRTC {}.{}, cuBLASLt {})",
        env!("CARGO_PKG_VERSION"),
        names.join(" and "),
        card.architecture,
        card.driver / 1000,
        card.driver % 1000 / 10,
        card.compiler.0,
        card.compiler.1,
        card.multiplier
    )
}

/// Tokens of a batch for which the card has memory.
fn fitting_tokens(
    card: &Card,
    encoder: &Encoder,
    options: &EngineOptions,
    pools: bool,
) -> Result<usize> {
    let (free, _) = card.free_memory()?;
    let most = match pools {
        true => TOKENS,
        // All states come back.
        false => TOKENS.min((VALUES / encoder.width()).next_power_of_two()),
    };
    let mut tokens = options.batch_tokens.unwrap_or(most);
    // A tenth is left to others, and to what the driver needs itself.
    let fits = |tokens: usize| tokens * encoder.token_bytes() <= free - free / 10;
    while !fits(tokens) && tokens > 256 {
        tokens /= 2;
    }
    if fits(tokens) {
        return Ok(tokens);
    }
    let reason = format!(
        "batches need {} of the card's memory, and {} are free behind the weights",
        encoder.need(tokens),
        size::words(free as u64)
    );
    Err(
        Error::new(ErrorKind::OutOfMemory, NAME, reason).with_remedy(format!(
            "give a smaller {BATCH_TOKENS}, or {PRECISION} fp16"
        )),
    )
}

/// Whether states are to be pooled on the processor, as the options say.
fn pools_here(options: &EngineOptions) -> bool {
    last_option(options, "pooling")
        .and_then(|option| option.value.word())
        .is_some_and(|word| word == "host")
}

struct CudaEngine {
    info: EngineInfo,
    /// One of each card.
    encoders: Vec<Encoder>,
    /// Of fp16: what computes the rows that overflow in it.
    in_bf16: Option<Arc<Bf16Encoders>>,
    /// The card of the next worker.
    next: AtomicUsize,
    pooling: Option<CardPooling>,
    pooler: Pooler,
    tokens: usize,
}

impl CudaEngine {
    /// The least cosine between vectors of a sample on any card and on the processor, whose states are `exact`.
    fn check(&self, sample: &CheckedRows, exact: &[f32], float: FloatType) -> Result<f64> {
        let least = match float {
            FloatType::F32 => 0.999_9,
            FloatType::F16 => 0.999,
            FloatType::Bf16 => 0.98,
        };
        let mut worst = 1.0_f64;
        for encoder in &self.encoders {
            let cosine = self.cosine(encoder, &sample.batch, exact)?;
            worst = if cosine >= worst { worst } else { cosine };
        }
        if worst >= least {
            return Ok((worst * 1e5).round() / 1e5);
        }
        let reason = format!(
            "the card computes this model wrongly: a sample's vector has the cosine {worst:.5} to the same one from the processor"
        );
        let remedy = match float {
            FloatType::F16 => format!("{PRECISION} bf16 or fp32 holds greater numbers"),
            FloatType::Bf16 => format!("{PRECISION} fp32 computes exactly"),
            FloatType::F32 => format!("{PROVIDER} native computes on the processor"),
        };
        Err(Error::new(
            ErrorKind::Provider,
            NAME,
            Cause::of(reason).with(remedy),
        ))
    }
}

impl CudaEngine {
    /// The least cosine between vectors of the rows by `encoder` and those of `exact`, their states.
    fn cosine(&self, encoder: &Encoder, batch: &Batch, exact: &[f32]) -> Result<f64> {
        let mut worker = encoder.worker()?;
        let ours = worker.run(rows_of(batch))?;
        let width = encoder.width();
        let mut worst = 1.0_f64;
        for row in 0..batch.rows() {
            let span = batch.span(row);
            let of = |states: &[f32]| {
                let states = &states[span.start * width..span.end * width];
                let mut vector = Vec::new();
                match encoder.terms() {
                    Some(_) => vector.extend_from_slice(states),
                    None => self.pooler.compared(states, width, &mut vector),
                }
                vector
            };
            let cosine = Cosine::between(&of(ours), &of(exact));
            worst = if cosine >= worst { worst } else { cosine };
        }
        Ok(worst)
    }
}

impl Engine for CudaEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        let terms = self.encoders.first().and_then(Encoder::terms);
        BatchLimits {
            tokens: self.tokens,
            rows: terms.map_or(ROWS, |terms| (VALUES / terms.max(1)).clamp(16, ROWS)),
            equal_lengths: false,
        }
    }

    fn is_ragged(&self) -> bool {
        true
    }

    fn workers(&self) -> Option<usize> {
        Some(WORKERS * self.encoders.len())
    }

    fn token_rows(&self) -> Option<usize> {
        self.encoders.first().map(Encoder::token_rows)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let card = next % self.encoders.len().max(1);
        let encoder = self
            .encoders
            .get(card)
            .ok_or_else(|| Error::internal("an engine without a card"))?;
        let mut worker = CudaWorker::new(encoder, self.pooling.clone())?;
        worker.in_bf16 = self.in_bf16.clone().map(|encoders| -> OpenWorker {
            let pooling = self.pooling.clone();
            Box::new(move || Ok(Box::new(encoders.worker(card, pooling.clone())?)))
        });
        Ok(Box::new(worker))
    }
}
