//! The memory that a graph built from a checkpoint takes on the CPU provider, computed before its weights are read, and
//! the form that fits into the memory that is left.
//!
//! Products in single precision are there twice while a graph is opened: as they are read, and as the kernels take them.
//! Where that is too much, products stay in the checkpoint's fp16 or bf16, in one copy for all sessions.

use super::source::BuiltSource;
use crate::CPU_LIMITS;
use crate::built::{DeclaredWeight, PIECE};
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::{Cause, Error, ErrorKind, Result};
use embedctl_common::machine::{self, Room};
use embedctl_common::remedies;
use embedctl_common::setting::{PRECISION, PROVIDER, PROVIDER_OPTION};
use embedctl_common::size;
use embedctl_common::threads::usable_cores;
use embedctl_engine::provider::{NARROW_WEIGHTS, value_of};
use embedctl_engine::{EngineOptions, OptionValue, Provider};

/// The memory that a graph takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Footprint {
    /// Weights, once all sessions are open.
    weights: u64,
    /// Temporary memory beside them: the library's copy while the graph is opened, or activations and widened pieces of all
    /// workers.
    beside: u64,
}

/// What workers compute at a time.
#[derive(Debug, Clone, Copy)]
struct WorkerLoad {
    workers: usize,
    tokens: usize,
}

impl WorkerLoad {
    fn of(options: &EngineOptions) -> Self {
        Self {
            workers: match options.workers {
                0 => usable_cores(),
                workers => workers,
            },
            tokens: options.batch_tokens.unwrap_or(CPU_LIMITS.tokens),
        }
    }

    /// Bytes of it.
    fn bytes(self, architecture: &Architecture) -> u64 {
        let of = &architecture.feed_forward;
        let inner = of.width.saturating_mul(if of.gated { 2 } else { 1 });
        // The inner states in pieces and as a whole, the activated ones, and some states beside them.
        let numbers = inner.saturating_mul(3) + architecture.hidden.saturating_mul(8);
        let scores = architecture.attention.heads.saturating_mul(self.tokens);
        let activations = numbers
            .saturating_add(scores)
            .saturating_mul(self.tokens)
            .saturating_mul(size_of::<f32>());
        let each = activations.saturating_add(2 * PIECE);
        each.saturating_mul(self.workers) as u64
    }
}

impl Footprint {
    fn of(source: &BuiltSource, work: WorkerLoad) -> Self {
        let weights = source.graph().weights().iter();
        let weights: u64 = weights.map(|weight| weight.bytes() as u64).sum();
        let copy = match source.graph().narrow_products() {
            None => weights,
            Some(_) => 0,
        };
        Self {
            weights,
            beside: copy.max(work.bytes(source.network().architecture())),
        }
    }

    /// Bytes in all.
    fn bytes(&self) -> u64 {
        self.weights.saturating_add(self.beside)
    }
}

/// The form of `wide`, a graph of single precision, that the memory left asks for, or the user.
///
/// # Errors
/// If none fits; or the user wants products to stay narrow, and none is.
pub(super) fn fitted(wide: BuiltSource, options: &EngineOptions) -> Result<BuiltSource> {
    let asked = value_of(&options.provider_options, Provider::Cpu, NARROW_WEIGHTS);
    let asked = asked.map(OptionValue::is_on);
    fitted_to(wide, asked, WorkerLoad::of(options), machine::room())
}

fn fitted_to(
    wide: BuiltSource,
    asked: Option<bool>,
    work: WorkerLoad,
    room: Option<Room>,
) -> Result<BuiltSource> {
    let need = Footprint::of(&wide, work);
    let is_tight = room.is_some_and(|room| need.bytes() > room.bytes);
    let source = if asked.unwrap_or(is_tight) {
        let narrow = wide.narrow()?;
        match (narrow.graph().narrow_products(), asked) {
            (Some(_), _) => narrow,
            (None, Some(_)) => {
                return Err(Error::usage(format!(
                    "{PROVIDER_OPTION} cpu.{NARROW_WEIGHTS}: no weight of the checkpoint is stored in fp16 or bf16 and used \
                     as it is"
                ))
                .with_remedy(format!("leave {PROVIDER_OPTION} cpu.{NARROW_WEIGHTS} out")));
            }
            (None, None) => wide,
        }
    } else {
        wide
    };
    let need = Footprint::of(&source, work);
    match room.and_then(|room| refusal(&source, need, room)) {
        None => Ok(source.taking(need.bytes())),
        Some(cause) => Err(Error::new(ErrorKind::OutOfMemory, "onnxruntime", cause)),
    }
}

fn refusal(source: &BuiltSource, need: Footprint, room: Room) -> Option<Cause> {
    if need.bytes() <= room.bytes {
        return None;
    }
    let element = source.graph().narrow_products();
    let reason = format!(
        "the graph of the checkpoint needs about {} of memory (weights in {} {}, {} beside them), and {} {}",
        size::words(need.bytes()),
        element.unwrap_or(crate::built::FloatType::F32),
        size::words(need.weights),
        size::words(need.beside),
        room.bound.words(),
        size::words(room.bytes)
    );
    Some(Cause::of(reason).with(format!(
        "take {PROVIDER} native with {PRECISION} int8, whose weights have about {}, or {}",
        size::words(in_bytes(source.graph().weights())),
        remedies::more_memory()
    )))
}

/// Bytes of weights whose products have one byte a number.
fn in_bytes(weights: &[DeclaredWeight]) -> u64 {
    let of = |weight: &DeclaredWeight| match weight.is_table() {
        true => weight.bytes() as u64,
        false => weight.numbers() as u64,
    };
    weights.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::built::{FloatType, GraphForm};
    use embedctl_common::machine::Bound;
    use embedctl_native::PlainNetwork;

    /// The networks are so small that work would outweigh their weights.
    const WORK: WorkerLoad = WorkerLoad {
        workers: 0,
        tokens: 0,
    };

    fn source(case: &str) -> BuiltSource {
        let folder = Path::new("../../fixtures/architectures").join(case);
        let network = Arc::new(PlainNetwork::open(&folder, None).unwrap());
        let form = GraphForm {
            narrow_tables: true,
            ..GraphForm::default()
        };
        BuiltSource::of_network(network, form).unwrap()
    }

    #[test]
    fn products_stay_narrow_where_wide_ones_do_not_fit_twice() {
        let taken = |case: &str, asked, share: u64| {
            let bytes = Footprint::of(&source(case), WORK).weights * share / 100;
            let room = Room {
                bytes,
                bound: Bound::Machine,
            };
            let fitted = fitted_to(source(case), asked, WORK, Some(room));
            fitted.map(|source| source.graph().narrow_products())
        };
        let bf16 = Some(FloatType::Bf16);
        assert_eq!(taken("qwen2-window", None, 210).unwrap(), None);
        assert_eq!(taken("qwen2-window", None, 190).unwrap(), bf16);
        assert_eq!(taken("qwen2-window", None, 90).unwrap(), bf16);
        assert_eq!(taken("qwen2-window", Some(true), 900).unwrap(), bf16);
        assert_eq!(taken("qwen2-window", Some(false), 210).unwrap(), None);
        // Single precision has no other form.
        assert_eq!(taken("bert", None, 210).unwrap(), None);
        let refused = taken("bert", Some(true), 900).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage);
        for (case, asked, share, element) in [
            ("qwen2-window", None, 30, "bf16"),
            ("qwen2-window", Some(false), 190, "fp32"),
            ("bert", None, 190, "fp32"),
        ] {
            let refused = taken(case, asked, share).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{case}");
            let words = refused.to_string();
            assert!(
                words.contains(element) && words.contains("the machine has"),
                "{words}"
            );
            let remedy = refused.remedy().unwrap();
            assert!(
                remedy.contains("native") && remedy.contains("int8"),
                "{remedy}"
            );
        }
    }

    #[test]
    fn nothing_is_refused_where_the_system_does_not_tell() {
        let fitted = fitted_to(source("qwen2-window"), None, WORK, None).unwrap();
        assert_eq!(fitted.graph().narrow_products(), None);
    }
}
