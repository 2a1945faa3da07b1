//! The masked-LM head of a network: which tensors it has under which names, and its product with the whole vocabulary,
//! pooled while it is computed. So no more logits are held at a time than a tile's.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::loader::Loader;
use super::packed::TokenTable;
use super::rows::StoredRows;
use super::scratch::Rows;
use embedctl_checkpoint::architecture::{LARGEST_CONFIG, activation_named};
use embedctl_checkpoint::safetensors::{Checkpoint, Tensor, missing};
use embedctl_common::Activation;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::small_file;
use embedctl_kernels::{
    Arithmetic, CacheLines, Isa, Matrix, Norm, Operand, PackedLayout, ProductFinish, TermPooling,
    linear, linear_part,
};
use embedctl_vectors::Numbers;

/// Terms whose logits are computed at a time: whole panels of every instruction set.
const TERMS: usize = 256;

/// Tokens whose logits are held at a time.
const TOKENS: usize = 512;

/// The names of a head's tensors, with what its class and config.json say of it.
struct HeadNames {
    /// The transformation of each state, and its norm; a head without one has none.
    transform: Option<[&'static str; 2]>,
    /// The product with the vocabulary, where it does not share the table of tokens.
    decoder: &'static str,
    /// Its bias, under the first of these names: where two differ, the product's own is added. Empty where it has none.
    bias: &'static [&'static str],
    dense_bias: bool,
    norm_bias: bool,
    activation: Activation,
    epsilon: f32,
}

/// A masked-LM head as a checkpoint holds it.
pub(crate) struct StoredHead<'a> {
    /// The transformation of each state; a head without one takes the states themselves.
    pub transform: Option<StoredTransform<'a>>,
    /// The product with the vocabulary, `[terms, width]`; `None`: the table of tokens.
    pub decoder: Option<Tensor<'a>>,
    /// Terms of the vocabulary.
    pub terms: usize,
    /// Components of a transformed state.
    pub width: usize,
    /// The product's bias, of length `terms`, or empty.
    pub bias: Vec<f32>,
}

/// The transformation of states before the product with the vocabulary: `norm(activation(weight · state + bias))`.
pub(crate) struct StoredTransform<'a> {
    /// `[width, hidden]`.
    pub weight: Tensor<'a>,
    /// Components of a transformed state.
    pub width: usize,
    /// Of length `width`, or empty.
    pub bias: Vec<f32>,
    pub activation: Activation,
    pub norm: Norm,
}

/// A masked-LM head with its weights, shared by all threads.
#[derive(Debug)]
pub struct MaskedHead {
    isa: Isa,
    transform: Option<(Matrix, Activation, Norm)>,
    decoder: Arc<Matrix>,
    is_tied: bool,
}

/// One thread's memory beside a head.
#[derive(Debug, Default)]
pub(crate) struct HeadScratch {
    operand: Operand,
    transformed: CacheLines,
    logits: CacheLines,
    tops: Vec<f32>,
    rows: Vec<(Vec<u32>, Vec<f32>)>,
    terms: Option<Numbers>,
}

impl HeadNames {
    /// The head that transformers' class for `config`'s model_type has.
    fn of(config: &Value) -> Result<Self, Cause> {
        let settings = HeadSettings(config);
        let epsilon = |default: f64| settings.number("layer_norm_eps", default);
        match config["model_type"].as_str().unwrap_or_default() {
            "bert" | "ernie" | "roformer" => Self::bert(&settings, 1e-12),
            "deberta" | "deberta-v2" if settings.flag("legacy", true) => {
                Self::bert(&settings, 1e-7)
            }
            "xlm-roberta-xl" => Ok(Self::roberta(epsilon(1e-5))),
            "roberta" | "camembert" | "xlm-roberta" | "jina_embeddings_v3" | "mpnet" => {
                Ok(Self::roberta(epsilon(1e-12)))
            }
            "distilbert" => Ok(Self {
                activation: settings.activation("activation", "gelu")?,
                ..Self::biased(
                    ["vocab_transform", "vocab_layer_norm"],
                    "vocab_projector.weight",
                    &["vocab_projector.bias"],
                    1e-12,
                )
            }),
            "albert" => Ok(Self {
                activation: settings.activation("hidden_act", "gelu_new")?,
                ..Self::biased(
                    ["predictions.dense", "predictions.LayerNorm"],
                    "predictions.decoder.weight",
                    &["predictions.decoder.bias", "predictions.bias"],
                    epsilon(1e-12),
                )
            }),
            "electra" => Ok(Self::biased(
                [
                    "generator_predictions.dense",
                    "generator_predictions.LayerNorm",
                ],
                "generator_lm_head.weight",
                &["generator_lm_head.bias"],
                epsilon(1e-12),
            )),
            "modernbert" => Self::modernbert(&settings),
            "eurobert" => Ok(Self::eurobert(&settings)),
            other => Err(Cause::of(format!(
                "is of the model_type '{other}', whose masked-LM head the native engine does not know"
            ))
            .with("export it to ONNX with its logits, if transformers has such a head")),
        }
    }

    /// A head whose layers have biases, with a GELU between them.
    fn biased(
        transform: [&'static str; 2],
        decoder: &'static str,
        bias: &'static [&'static str],
        epsilon: f32,
    ) -> Self {
        Self {
            transform: Some(transform),
            decoder,
            bias,
            dense_bias: true,
            norm_bias: true,
            activation: Activation::Gelu,
            epsilon,
        }
    }

    fn bert(settings: &HeadSettings<'_>, epsilon: f64) -> Result<Self, Cause> {
        Ok(Self {
            activation: settings.activation("hidden_act", "gelu")?,
            ..Self::biased(
                [
                    "cls.predictions.transform.dense",
                    "cls.predictions.transform.LayerNorm",
                ],
                "cls.predictions.decoder.weight",
                &["cls.predictions.decoder.bias", "cls.predictions.bias"],
                settings.number("layer_norm_eps", epsilon),
            )
        })
    }

    fn roberta(epsilon: f32) -> Self {
        Self::biased(
            ["lm_head.dense", "lm_head.layer_norm"],
            "lm_head.decoder.weight",
            &["lm_head.decoder.bias", "lm_head.bias"],
            epsilon,
        )
    }

    fn modernbert(settings: &HeadSettings<'_>) -> Result<Self, Cause> {
        Ok(Self {
            transform: Some(["head.dense", "head.norm"]),
            decoder: "decoder.weight",
            bias: match settings.flag("decoder_bias", true) {
                true => &["decoder.bias"],
                false => &[],
            },
            dense_bias: settings.flag("classifier_bias", false),
            norm_bias: settings.flag("norm_bias", false),
            activation: settings.activation("classifier_activation", "gelu")?,
            epsilon: settings.number("norm_eps", 1e-5),
        })
    }

    fn eurobert(settings: &HeadSettings<'_>) -> Self {
        Self {
            transform: None,
            decoder: "lm_head.weight",
            bias: match settings.flag("mlp_bias", false) {
                true => &["lm_head.bias"],
                false => &[],
            },
            dense_bias: false,
            norm_bias: false,
            activation: Activation::Gelu,
            epsilon: 0.0,
        }
    }
}

/// The settings of config.json that a head's class reads.
struct HeadSettings<'a>(&'a Value);

impl HeadSettings<'_> {
    fn activation(&self, key: &str, default: &str) -> Result<Activation, Cause> {
        let name = self.0[key].as_str().unwrap_or(default);
        activation_named(name).ok_or_else(|| {
            Cause::of(format!(
                "names the activation '{name}' ({key}), which the native engine does not know"
            ))
        })
    }

    #[allow(clippy::cast_possible_truncation)] // as PyTorch computes with it
    fn number(&self, key: &str, default: f64) -> f32 {
        self.0[key].as_f64().unwrap_or(default) as f32
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.0[key].as_bool().unwrap_or(default)
    }
}

/// The tensor of the first of these names; a name may stand behind that of the whole network (`bert.`).
fn tensor<'a>(checkpoint: &'a Checkpoint, names: &[&str]) -> Option<Tensor<'a>> {
    names.iter().find_map(|name| {
        checkpoint.get(name).or_else(|| {
            let inner = format!(".{name}");
            let mut all = checkpoint.names().filter(|all| all.ends_with(&inner));
            let one = all.next().filter(|_| all.next().is_none())?.to_owned();
            checkpoint.get(&one)
        })
    })
}

/// The same, which must be there.
fn needed<'a>(checkpoint: &'a Checkpoint, name: &str) -> Result<Tensor<'a>> {
    tensor(checkpoint, &[name]).ok_or_else(|| absent(checkpoint, name))
}

fn absent(checkpoint: &Checkpoint, name: &str) -> Error {
    missing(checkpoint, name).with_remedy(
        "this is no checkpoint of a masked language model: use one that was saved with its head",
    )
}

impl<'a> StoredHead<'a> {
    /// The head that stands in the checkpoint of a network whose states have `hidden` components and whose table of tokens
    /// has the shape `word`.
    ///
    /// # Errors
    /// If the architecture has none that is known, or one of its tensors is missing.
    pub(crate) fn read(
        config_file: &Path,
        checkpoint: &'a Checkpoint,
        hidden: usize,
        word: (usize, usize),
    ) -> Result<Self> {
        let read = |error| Error::io("read", config_file, error);
        let config = small_file::read(config_file, LARGEST_CONFIG).map_err(read)?;
        let refuse = |cause: Cause| Error::model(config_file.display(), cause);
        let config: Value = serde_json::from_slice(small_file::without_mark(&config))
            .map_err(|error| refuse(format!("is not JSON ({error})").into()))?;
        let names = HeadNames::of(&config).map_err(refuse)?;
        let transform = names.transform(checkpoint, hidden)?;
        let width = transform.as_ref().map_or(hidden, |one| one.width);
        let own = tensor(checkpoint, &[names.decoder]);
        let is_tied = config["tie_word_embeddings"].as_bool().unwrap_or(true);
        let terms = match &own {
            Some(own) => {
                own.expect_shape(&[own.shape().first().copied().unwrap_or(0), width])?;
                own.shape()[0]
            }
            None if is_tied && word.1 == width => word.0,
            None => return Err(absent(checkpoint, names.decoder)),
        };
        let bias = match names.bias {
            [] => Vec::new(),
            several => {
                let tensor =
                    tensor(checkpoint, several).ok_or_else(|| absent(checkpoint, several[0]))?;
                tensor.expect_shape(&[terms])?;
                tensor.floats()?
            }
        };
        Ok(Self {
            transform,
            decoder: own,
            terms,
            width,
            bias,
        })
    }
}

impl HeadNames {
    fn transform<'a>(
        &self,
        checkpoint: &'a Checkpoint,
        hidden: usize,
    ) -> Result<Option<StoredTransform<'a>>> {
        let Some([dense, norm]) = self.transform else {
            return Ok(None);
        };
        let weight = needed(checkpoint, &format!("{dense}.weight"))?;
        let width = match weight.shape() {
            &[width, inputs] if inputs == hidden && width > 0 => width,
            other => {
                return Err(weight.wrong(format!(
                    "has the shape {other:?} where the network gives {hidden} components"
                )));
            }
        };
        let floats = |name: String| {
            let tensor = needed(checkpoint, &name)?;
            tensor.expect_shape(&[width])?;
            tensor.floats()
        };
        let bias = match self.dense_bias {
            true => floats(format!("{dense}.bias"))?,
            false => Vec::new(),
        };
        let scale = floats(format!("{norm}.weight"))?;
        let shift = match self.norm_bias {
            true => floats(format!("{norm}.bias"))?,
            false => Vec::new(),
        };
        Ok(Some(StoredTransform {
            weight,
            width,
            bias,
            activation: self.activation,
            norm: Norm::layer(scale, shift, self.epsilon),
        }))
    }
}

impl MaskedHead {
    /// Packs the head `stored`. `word` is the table of tokens, which the vocabulary's product shares unless the checkpoint
    /// has a matrix for it.
    ///
    /// # Errors
    /// If a tensor cannot be read, or holds a value that is not finite.
    pub(crate) fn pack(
        stored: StoredHead<'_>,
        loader: &Loader<'_>,
        word: &TokenTable,
        arithmetic: Arithmetic,
    ) -> Result<Self> {
        // In single precision by vectors: the table of tokens takes its rows from such a matrix.
        let exact = loader.without_tiles();
        let loader = match arithmetic {
            Arithmetic::Fp32 => &exact,
            Arithmetic::Bf16 | Arithmetic::Int16 | Arithmetic::Int8 => loader,
        };
        let StoredHead {
            transform,
            decoder,
            terms,
            width,
            bias,
        } = stored;
        let layout = |outputs, inputs| PackedLayout {
            outputs,
            inputs,
            gated: false,
        };
        let stored_rows = |tensor: Tensor<'_>, outputs, inputs, bias, arithmetic| {
            let mut rows = StoredRows::new(inputs);
            rows.append(tensor, 0, outputs);
            loader.pack(arithmetic, layout(outputs, inputs), (rows, bias), None)
        };
        let pack_transform = |one: StoredTransform<'_>| {
            // So small a product stays in single precision where others are in 8 bits.
            let arithmetic = match arithmetic {
                Arithmetic::Int8 => Arithmetic::Int16,
                other => other,
            };
            let hidden = loader.architecture.hidden;
            let dense = stored_rows(one.weight, one.width, hidden, one.bias, arithmetic)?;
            Ok((dense, one.activation, one.norm))
        };
        let transform = transform.map(pack_transform).transpose()?;
        let is_tied = decoder.is_none();
        let decoder = match decoder {
            Some(own) => stored_rows(own, terms, width, bias, arithmetic)?,
            None => {
                let layout = layout(terms, width);
                let row = |row: usize, out: &mut [f32]| word.row(row, out);
                let arithmetic = layout.fitting(arithmetic);
                Matrix::pack(loader.isa, arithmetic, layout, row, &bias, None)
            }
        };
        Ok(Self {
            isa: loader.isa,
            transform,
            decoder: Arc::new(decoder),
            is_tied,
        })
    }

    /// The vocabulary's product where it holds the rows of the table of tokens as they are.
    pub(crate) fn token_rows(&self) -> Option<&Arc<Matrix>> {
        (self.is_tied && self.decoder.is_exact()).then_some(&self.decoder)
    }

    /// Terms of the vocabulary.
    #[must_use]
    pub fn terms(&self) -> usize {
        self.decoder.outputs()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let transform = self.transform.as_ref();
        self.decoder.bytes() + transform.map_or(0, |(dense, _, _)| dense.bytes())
    }

    /// The terms of `rows` with a weight, of their token states `[tokens, hidden]`. A row with a logit that is NaN or
    /// infinite has an entry that is NaN.
    pub(crate) fn run<'a>(
        &self,
        states: &[f32],
        rows: Rows<'_>,
        pooling: TermPooling,
        scratch: &'a mut HeadScratch,
    ) -> &'a Numbers {
        let HeadScratch {
            operand,
            transformed,
            logits,
            tops,
            rows: entries,
            terms,
        } = scratch;
        let tokens = rows.ids.len();
        let refused = "memory for logits";
        let states = match &self.transform {
            None => states,
            Some((dense, activation, norm)) => {
                let width = dense.outputs();
                transformed.try_grow(tokens * width).expect(refused);
                let transformed = &mut transformed.floats_mut()[..tokens * width];
                let hidden = dense.inputs();
                let operand = operand.convert(dense, states, hidden, tokens);
                let finish = ProductFinish::Activate(*activation);
                linear(operand, 0..tokens, dense, transformed, width, finish);
                norm.apply(self.isa, transformed);
                &*transformed
            }
        };
        let width = self.decoder.inputs();
        let operand = operand.convert(&self.decoder, states, width, tokens);
        let held = TOKENS.min(tokens);
        logits.try_grow(held * TERMS).expect(refused);
        let logits = &mut logits.floats_mut()[..held * TERMS];
        entries.resize_with(rows.ends.len(), Default::default);
        entries.iter_mut().for_each(|(indices, values)| {
            indices.clear();
            values.clear();
        });
        tops.resize(TERMS, 0.0);
        for first in (0..self.terms()).step_by(TERMS) {
            let part = first..(first + TERMS).min(self.terms());
            let tops = &mut tops[..part.len()];
            let mut computed = 0..0;
            for (span, (indices, values)) in rows.spans().zip(entries.iter_mut()) {
                tops.fill(0.0);
                let mut odd = 0.0;
                for token in span {
                    if token == computed.end {
                        computed = token..(token + held).min(tokens);
                        let (part, finish) = (part.clone(), ProductFinish::Store);
                        let matrix = &self.decoder;
                        linear_part(
                            operand,
                            computed.clone(),
                            matrix,
                            part,
                            logits,
                            TERMS,
                            finish,
                        );
                    }
                    let own = &logits[(token - computed.start) * TERMS..][..part.len()];
                    pooling.take(self.isa, own, tops, &mut odd);
                }
                if odd.is_nan() {
                    indices.push(index(first));
                    values.push(f32::NAN);
                    continue;
                }
                for (term, &top) in part.clone().zip(tops.iter()) {
                    if top > 0.0 {
                        indices.push(index(term));
                        values.push(pooling.finish(top));
                    }
                }
            }
        }
        let terms = terms.get_or_insert_with(Numbers::of_entries);
        terms.clear();
        for (indices, values) in entries.iter() {
            terms.push_entries(indices.iter().copied().zip(values.iter().copied()));
        }
        terms
    }
}

fn index(term: usize) -> u32 {
    u32::try_from(term).expect("a vocabulary has fewer than 2^32 terms")
}
