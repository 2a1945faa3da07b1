//! A transformer opened from a folder, and the memory of each thread that runs it.

use std::path::Path;
use std::sync::Arc;

use embedctl_common::{Error, Result};

use crate::adapter::Adapter as AdapterWeights;
use crate::adapter_settings::Adapter;
use crate::architecture::Architecture;
use crate::kernels::{Arithmetic, Isa};
use crate::loader::Weights;
use crate::network::Network;
use crate::safetensors::Checkpoint;
use crate::scratch::{Rows, Scratch};

/// The engine's name in messages.
const NAME: &str = "native";

/// A transformer with its weights, shared by all threads. Cloning it is cheap.
#[derive(Clone)]
pub struct Encoder {
    weights: Arc<Weights>,
    network: Arc<Network>,
    isa: Isa,
    arithmetic: Arithmetic,
}

impl Encoder {
    /// Opens the `config.json` and the safetensors checkpoint in `folder`, changed by `adapter` where there is one. Products are computed in `arithmetic`,
    /// or in 16 bits where 8 are asked for and the processor has no instructions for them (they would be slower
    /// and less exact).
    ///
    /// # Errors
    /// If config.json asks for something that the engine doesn't do, or the checkpoint is not what it says; the
    /// message names the file and the setting or tensor.
    pub fn open(folder: &Path, adapter: Option<&Adapter>, arithmetic: Arithmetic) -> Result<Self> {
        let failed = |reason: String| Error::engine(NAME, reason);
        let isa = Isa::here().map_err(Error::usage)?;
        let architecture =
            Architecture::read(folder).map_err(|unsupported| failed(unsupported.to_string()))?;
        let checkpoint = Checkpoint::open(folder)?.ok_or_else(|| {
            failed(format!(
                "{} has no model.safetensors and no model.safetensors.index.json",
                folder.display()
            ))
        })?;
        let weights = Weights {
            adapter: adapter
                .map(|adapter| AdapterWeights::open(adapter, &architecture))
                .transpose()?,
            ..checkpoint.into()
        };
        let arithmetic = match arithmetic {
            Arithmetic::I8 if !isa.speeds_up(Arithmetic::I8) => Arithmetic::I16,
            other => other,
        };
        let network = Network::open(architecture, &weights, isa, arithmetic)?;
        Ok(Self {
            weights: Arc::new(weights),
            network: Arc::new(network),
            isa,
            arithmetic,
        })
    }

    /// Width of a token's state.
    #[must_use]
    pub fn width(&self) -> usize {
        self.network.architecture.hidden
    }

    /// Multiplications and additions that a row of `tokens` tokens takes in single precision, about.
    #[must_use]
    pub fn operations(&self, tokens: usize) -> u64 {
        self.network.operations(tokens)
    }

    /// The instructions that run.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The numbers that products are computed in.
    #[must_use]
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Memory for one thread that runs this transformer.
    #[must_use]
    pub fn worker(&self) -> EncoderWorker {
        EncoderWorker {
            network: Arc::clone(&self.network),
            scratch: Scratch::default(),
        }
    }

    /// For each of `rows`, the value that `compare` makes of its token states `[tokens, width]` here and of those
    /// in single precision. A layer's exact weights are read again, one layer at a time.
    ///
    /// # Errors
    /// If the checkpoint cannot be read, or a row cannot be run.
    pub fn beside_exact<'a, T: Send>(
        &self,
        rows: impl Iterator<Item = &'a [u32]>,
        compare: impl Fn(&[f32], &[f32]) -> T + Sync,
    ) -> Result<Vec<T>> {
        self.network.beside_exact(&self.weights, rows, compare)
    }
}

/// One thread's memory beside the shared weights.
pub struct EncoderWorker {
    network: Arc<Network>,
    scratch: Scratch,
}

impl EncoderWorker {
    /// The token states `[tokens, width]` of `rows`, one row after another; they live until the next call.
    ///
    /// # Errors
    /// If an id has no vector, a row has no positions, or there is not enough memory.
    pub fn run(&mut self, rows: Rows<'_>) -> Result<&[f32]> {
        self.network.run(rows, &mut self.scratch)
    }
}
