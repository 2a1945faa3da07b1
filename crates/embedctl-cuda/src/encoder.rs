//! A transformer that is open on a card, and shared by the workers that run it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::size;
use embedctl_kernels::TermPooling;
use embedctl_native::PlainNetwork;

use crate::card::Card;
use crate::kernels::{Kernel, KernelShape, Kernels};
use crate::products::Products;
use crate::program::{Program, token_bytes};
use crate::runner::{AttentionPlan, CardRunner, CardWorker, LoadedProgram};
use crate::{CardElement, NAME, support};

/// How an encoder is opened.
#[derive(Debug, Clone)]
pub struct EncoderOptions {
    /// The type of weights and activations.
    pub element: CardElement,
    /// Whether products of single precision are made in TF32.
    pub tf32: bool,
    /// Tokens of a row at most.
    pub longest: usize,
    /// The pooling of a masked-LM head's logits, where those are wanted.
    pub terms: Option<TermPooling>,
    /// Tokens on which the algorithms of products are measured that are not in the cache; 0: cuBLASLt's first proposal is
    /// taken. Without a cache two runs may choose differently.
    pub measured_tokens: usize,
    /// The folder of compiled kernels and chosen algorithms; `None`: they are not kept.
    pub cache: Option<PathBuf>,
}

/// The norms that a network may have: of states, of embeddings, and of all heads of queries or of keys.
fn norms(architecture: &Architecture) -> u32 {
    let attention = &architecture.attention;
    [
        architecture.hidden,
        architecture.embeddings.width,
        attention.heads * attention.head_size,
        attention.key_value_heads * attention.head_size,
    ]
    .into_iter()
    .fold(0, |bits, width| bits | Kernel::norm_bit(width))
}

/// A transformer on a card. Cloning it is cheap.
#[derive(Clone)]
pub struct Encoder {
    shared: Arc<LoadedProgram>,
    runner: Arc<Mutex<CardRunner>>,
}

impl Encoder {
    /// Copies the weights of `network` to the card, and compiles its kernels.
    ///
    /// # Errors
    /// If a part of the network has no kernel, the checkpoint does not fit the description, or the card fails or has too
    /// little memory.
    pub fn open(
        network: &PlainNetwork,
        card: &Arc<Card>,
        options: &EncoderOptions,
    ) -> Result<Self> {
        let architecture = network.architecture();
        support::knows(architecture)
            .map_err(|reason| Error::new(ErrorKind::Provider, NAME, reason))?;
        let shape = KernelShape {
            element: options.element,
            head: architecture.attention.head_size,
            has_extras: architecture.attention.softcap.is_some()
                || architecture.attention.position_bias.is_some(),
            norms: norms(architecture),
        };
        card.enter()?;
        // The compiler has a thread to itself while weights are read.
        let (kernels, program) = std::thread::scope(|scope| {
            let cache = options.cache.as_deref();
            let kernels = scope.spawn(move || Kernels::load(card, shape, cache));
            let program = Program::compile(
                network,
                card,
                options.element,
                options.longest,
                options.terms,
            );
            let kernels = kernels.join();
            (kernels, program)
        });
        let kernels =
            kernels.map_err(|_| Error::internal("the compiler's thread has panicked"))??;
        let program = program?;
        let shared = Arc::new(LoadedProgram {
            attention: AttentionPlan::of(&program),
            products: Products::new(
                card,
                options.element,
                options.tf32,
                options.cache.as_deref(),
            )?,
            program,
            kernels,
            card: Arc::clone(card),
        });
        let mut runner = CardRunner::new(&shared)?;
        let mut measured = options.measured_tokens;
        while measured > 0 {
            match runner.choose(measured) {
                Ok(()) => {
                    shared.products.keep();
                    break;
                }
                // Batches will be smaller, too.
                Err(error) if error.kind() == ErrorKind::OutOfMemory && measured > 256 => {
                    runner.shrink(&error);
                    measured /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            shared,
            runner: Arc::new(Mutex::new(runner)),
        })
    }

    /// Width of a token's state.
    #[must_use]
    pub fn width(&self) -> usize {
        self.shared.program.architecture.hidden
    }

    /// Terms of the vocabulary, where there is a head for them.
    #[must_use]
    pub fn terms(&self) -> Option<usize> {
        self.shared.program.terms.as_ref().map(|terms| terms.count)
    }

    /// Rows of the table of tokens: ids from this number on have no vector.
    #[must_use]
    pub fn token_rows(&self) -> usize {
        self.shared.program.tables.rows
    }

    /// Bytes of the card's memory that the weights take.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.shared.program.bytes
    }

    /// Bytes of the card's memory that each token of a batch takes, about.
    #[must_use]
    pub fn token_bytes(&self) -> usize {
        token_bytes(&self.shared.program)
    }

    /// Whether the kernels were taken from the cache.
    #[must_use]
    pub fn has_cached_kernels(&self) -> bool {
        self.shared.kernels.are_from_cache()
    }

    /// Settings of config.json that transformers' class for the model's type does not read either.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.shared.program.architecture.ignored
    }

    /// Whether rows of `tokens` tokens may have tokens that no token attends to: not where scores depend on padding, or
    /// where a token's window may hold none that is seen.
    #[must_use]
    pub fn takes_unseen(&self, tokens: usize) -> bool {
        let architecture = &self.shared.program.architecture;
        let far = |reach: usize| reach.saturating_add(1) >= tokens;
        architecture.attention.disentangled.is_none()
            && (architecture.layers.iter()).all(|layer| layer.reach.is_none_or(far))
    }

    /// Memory for one thread to prepare batches in.
    ///
    /// # Errors
    /// If the card has too little memory.
    pub fn worker(&self) -> Result<CardWorker> {
        CardWorker::new(&self.runner)
    }

    /// The products of this model and the algorithm of each, for provenance: `2304x768 7:0`.
    #[must_use]
    pub fn algorithms(&self) -> Vec<String> {
        let chosen = self.shared.products.chosen();
        let spelled = chosen.iter().map(|(shape, algorithm)| {
            let words = algorithm.iter().rev().skip_while(|word| **word == 0);
            let words: Vec<String> = words.map(|word| format!("{word:x}")).collect();
            format!("{}x{} {}", shape.outputs, shape.inputs, words.join(":"))
        });
        spelled.collect()
    }

    /// A sentence on the memory that the card must have for batches of so many tokens.
    #[must_use]
    pub fn need(&self, tokens: usize) -> String {
        let bytes = self.weight_bytes() + tokens * self.token_bytes();
        size::words(bytes as u64)
    }
}
