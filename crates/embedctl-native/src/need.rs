//! The memory that a network takes, computed before its weights are read: Linux grants more memory than there is, and
//! kills a process that uses it.

use super::BATCH_TOKENS;
use super::latent::packed_bytes;
use super::packed::Product;
use super::scratch::Scratch;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::{Cause, Error, ErrorKind, Result};
use embedctl_common::machine;
use embedctl_common::remedies;
use embedctl_common::setting::PRECISION;
use embedctl_common::size;
use embedctl_kernels::Arithmetic;

/// Tokens of the sample by which reduced precision is measured, at most.
const MEASURED: usize = 2048;

/// The memory that a network takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// Tables of tokens and positions, as they are stored.
    tables: usize,
    /// Packed weights.
    weights: usize,
    /// Temporary memory beside them: half a layer in single precision for the comparison, or the workers' buffers; the
    /// low-rank weights that change products while they are packed.
    beside: usize,
}

/// What is known of weights before they are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredWeights {
    /// Bytes of the tables of tokens and positions.
    pub tables: usize,
    /// Bytes of an adapter's weights.
    pub changes: usize,
    /// Whether tiles multiply them in single precision, for which half of it is enough.
    pub fit_tiles: bool,
}

impl Need {
    /// The need of `threads` workers with weights in `arithmetic`.
    pub(super) fn of(
        architecture: &Architecture,
        stored: StoredWeights,
        arithmetic: Arithmetic,
        threads: usize,
    ) -> Self {
        let StoredWeights {
            tables, changes, ..
        } = stored;
        let packed = |arithmetic: Arithmetic, outputs: usize, inputs: usize| {
            let per_lane = match arithmetic {
                Arithmetic::Fp32 if stored.fit_tiles => Arithmetic::Bf16.per_lane(),
                other => other.per_lane(),
            };
            let column = inputs.div_ceil(per_lane).saturating_add(3);
            outputs.saturating_mul(column).saturating_mul(4)
        };
        let all = products(architecture);
        let together = |arithmetic: Arithmetic, products: &[(usize, usize)]| {
            let products = products.iter();
            products
                .map(|&(outputs, inputs)| packed(arithmetic, outputs, inputs))
                .fold(0, usize::saturating_add)
        };
        let layer = |arithmetic| together(arithmetic, &all);
        // Weights of all experts of a layer. The layers that have them are counted with a feed-forward of their own, too.
        let layer_experts = |arithmetic: Arithmetic| {
            let Some(experts) = architecture.feed_forward.experts else {
                return 0;
            };
            let up = experts.width * if experts.gated { 2 } else { 1 };
            let one = packed(arithmetic, up, architecture.hidden).saturating_add(packed(
                arithmetic,
                architecture.hidden,
                experts.width,
            ));
            one.saturating_mul(experts.count)
        };
        let experts = |arithmetic: Arithmetic| {
            let layers = architecture.layers.iter().filter(|layer| layer.experts);
            layer_experts(arithmetic).saturating_mul(layers.count())
        };
        // Weights that are loaded at a time where exact results are wanted once.
        let exact = || {
            let (mixing, inner) = all.split_at(Product::ATTENTION.len());
            let single = Arithmetic::Fp32;
            let inner = together(single, inner).max(layer_experts(single));
            let mixing = together(single, mixing);
            let mut sets = 0..architecture.weight_sets.len();
            match sets.all(|set| architecture.runs_in_halves(set)) {
                true => mixing.max(inner),
                false => mixing.saturating_add(inner),
            }
        };
        let latent = architecture.latent;
        let latent = latent.map_or(0, |latent| packed_bytes(&latent, architecture.hidden));
        let workers = Scratch::bytes(architecture, BATCH_TOKENS, BATCH_TOKENS);
        let workers = workers.saturating_mul(threads);
        let beside = match arithmetic {
            Arithmetic::Fp32 => workers,
            // A batch is closed with the row that fills it; the states of all rows wait between two halves.
            Arithmetic::Bf16 | Arithmetic::Int16 | Arithmetic::Int8 => {
                let batch = 2 * BATCH_TOKENS;
                let batches = Scratch::bytes(architecture, batch, batch).saturating_mul(threads);
                let states = architecture
                    .hidden
                    .saturating_mul(MEASURED * size_of::<f32>());
                let measuring = batches.saturating_add(states);
                workers.max(exact().saturating_add(measuring))
            }
        };
        Self {
            tables,
            weights: layer(arithmetic)
                .saturating_mul(architecture.weight_sets.len())
                .saturating_add(experts(arithmetic))
                .saturating_add(latent),
            beside: beside.saturating_add(changes),
        }
    }

    /// Bytes in all.
    pub(super) fn bytes(&self) -> u64 {
        let all = [self.tables, self.weights, self.beside];
        all.iter()
            .fold(0_u64, |sum, &bytes| sum.saturating_add(bytes as u64))
    }
}

/// Outputs and inputs of a layer's products, at most.
fn products(architecture: &Architecture) -> [(usize, usize); 4] {
    let Architecture {
        hidden,
        feed_forward,
        ..
    } = architecture;
    let [input, output] = architecture.mixing_widths();
    let halves = 1 + usize::from(feed_forward.gated);
    [
        (input, *hidden),
        (*hidden, output),
        (feed_forward.width.saturating_mul(halves), *hidden),
        (*hidden, feed_forward.width),
    ]
}

/// Refuses a network that does not fit into the memory that this process may still take. `need` gives its memory in an
/// arithmetic.
///
/// # Errors
/// If it does not fit; the error gives the memory needed, the memory left, and a precision that would fit.
pub(super) fn check(need: impl Fn(Arithmetic) -> Need, arithmetic: Arithmetic) -> Result<()> {
    let Some(room) = machine::room() else {
        return Ok(());
    };
    match refusal(need, arithmetic, room) {
        None => Ok(()),
        Some(cause) => Err(Error::new(ErrorKind::OutOfMemory, "native", cause)),
    }
}

fn refusal(
    need: impl Fn(Arithmetic) -> Need,
    arithmetic: Arithmetic,
    room: machine::Room,
) -> Option<Cause> {
    let needs = need(arithmetic);
    if needs.bytes() <= room.bytes {
        return None;
    }
    let reason = format!(
        "the model needs about {} of memory (weights {}, tables {}, work {}), but {} {}",
        size::words(needs.bytes()),
        size::words(needs.weights as u64),
        size::words(needs.tables as u64),
        size::words(needs.beside as u64),
        room.bound.words(),
        size::words(room.bytes)
    );
    let less = [(Arithmetic::Int16, "int16"), (Arithmetic::Int8, "int8")]
        .into_iter()
        .map(|(less, name)| (need(less).bytes(), name))
        .find(|&(bytes, _)| bytes <= room.bytes && bytes < needs.bytes());
    Some(Cause::of(reason).with(match less {
        Some((bytes, name)) => format!(
            "pass {PRECISION} {name}, which needs about {}, or {}",
            size::words(bytes),
            remedies::more_memory()
        ),
        None => format!("{}, or take a smaller model", remedies::more_memory()),
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn single_precision_on_tiles_needs_as_much_as_bfloat16() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/models/all-MiniLM-L6-v2"
        );
        let architecture = Architecture::read(Path::new(folder)).unwrap();
        let weights = |fit_tiles: bool, arithmetic| {
            let stored = StoredWeights {
                tables: 0,
                changes: 0,
                fit_tiles,
            };
            Need::of(&architecture, stored, arithmetic, 1).weights
        };
        let half = weights(false, Arithmetic::Bf16);
        assert_eq!(weights(true, Arithmetic::Fp32), half);
        assert_eq!(weights(true, Arithmetic::Bf16), half);
        let ratio = weights(false, Arithmetic::Fp32) as f64 / half as f64;
        assert!((1.9..2.0).contains(&ratio), "{ratio}");
    }
}
