//! A LoRA adapter's weights, added to the network's as they are read: `W + scale · B · A`.
//!
//! The adapter's file names modules as transformers' class does, and the network's checkpoint may use other names, so
//! both are told apart here: the first of each family's alternative names is the class's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::architecture::Architecture;
use super::names::{self, Alternatives, Sources, TASK_TYPE};
use crate::adapter_settings::{AdapterSettings, LowRankAdapter};
use crate::safetensors::{Checkpoint, Tensor};
use embedctl_common::error::{Error, Result};
use embedctl_vectors::low_rank::LowRank;

/// peft's prefix of the network's module names.
pub(crate) const WRAPPED: &str = "base_model.model.";

/// Heads and poolers: they do not change hidden states, and the reference ignores weights for them.
const HEADS: &[&str] = &[
    "pooler",
    "cls",
    "lm_head",
    "classifier",
    "score",
    "qa_outputs",
    "head",
    "decoder",
    "predictions",
    "discriminator_predictions",
    "generator_predictions",
    "generator_lm_head",
    "vocab_transform",
    "vocab_layer_norm",
    "vocab_projector",
    "pre_classifier",
    "sop_classifier",
];

/// An adapter, checked against the network that it is for.
#[derive(Debug)]
pub struct CheckedAdapter {
    settings: AdapterSettings,
    checkpoint: Arc<Checkpoint>,
    /// Modules with low-rank weights, and their names in the file.
    low_rank: BTreeMap<String, String>,
    /// Tensors in place of the network's, and their names in the file.
    replaced: BTreeMap<String, String>,
}

impl CheckedAdapter {
    /// Reads the header of the adapter's weights.
    ///
    /// # Errors
    /// If it has weights that are not applied here, lacks some that its settings name, or has some for modules that
    /// the network lacks.
    pub fn open(adapter: &LowRankAdapter, architecture: &Architecture) -> Result<Self> {
        let settings = adapter.settings.clone();
        let checkpoint = Arc::new(Checkpoint::open_files(std::slice::from_ref(
            &adapter.weights,
        ))?);
        let refuse = |reason: String| {
            Error::model(adapter.weights.display(), reason).with_remedy(
                "check that the adapter belongs to this model, or merge the two with peft's merge_and_unload()",
            )
        };
        let (products, others) = modules(architecture);
        let (mut parts, mut replaced) = (
            BTreeMap::<String, [Option<&str>; 2]>::new(),
            BTreeMap::new(),
        );
        let mut names: Vec<&str> = checkpoint.names().collect();
        names.sort_unstable();
        for name in names {
            let own = own_name(name, architecture);
            let root = own.split_once('.').map_or(own, |(root, _)| root);
            if HEADS.contains(&root) {
                continue;
            }
            let module_and_part = [(".lora_A.weight", 0), (".lora_B.weight", 1)]
                .into_iter()
                .find_map(|(ending, part)| Some((own.strip_suffix(ending)?, part)));
            if let Some((module, part)) = module_and_part {
                parts.entry(module.to_owned()).or_default()[part] =
                    name.strip_suffix(module_ending(part));
                continue;
            }
            if own.contains("lora_") {
                return Err(refuse(format!(
                    "holds '{name}', a kind of weights that embedctl does not apply"
                )));
            }
            let own = own.replace(".base_layer.", ".");
            let module = own.rsplit_once('.').map_or("", |(module, _)| module);
            if !(products.contains(module) || others.contains(module)) {
                return Err(refuse(unknown(name)));
            }
            if !settings.replaces(&own) {
                return Err(refuse(format!(
                    "holds '{name}', which is neither of a module in modules_to_save nor a bias that the setting \"bias\" \
                     includes; the reference would leave it out"
                )));
            }
            replaced.insert(own, name.to_owned());
        }
        let mut low_rank = BTreeMap::new();
        for (module, parts) in parts {
            let [Some(file_name), Some(_)] = parts else {
                return Err(refuse(format!(
                    "holds only one of lora_A and lora_B of '{module}'"
                )));
            };
            if !products.contains(module.as_str()) {
                return Err(refuse(unknown(&module)));
            }
            if !settings.targets(&module) {
                return Err(refuse(format!(
                    "holds weights of '{module}', which {} does not name as a target; the reference would leave them out",
                    settings.file.display()
                )));
            }
            low_rank.insert(module, file_name.to_owned());
        }
        if let Some(module) = products
            .iter()
            .find(|module| settings.targets(module) && !low_rank.contains_key(*module))
        {
            return Err(refuse(format!(
                "holds no weights of '{module}', which {} names as a target",
                settings.file.display()
            )));
        }
        Ok(Self {
            settings,
            checkpoint,
            low_rank,
            replaced,
        })
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &AdapterSettings {
        &self.settings
    }

    /// The file that holds the weights, as a checkpoint of its own.
    #[must_use]
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// The name in the file of the tensor that replaces the network's `tensor`, if there is one.
    pub fn replaced(&self, tensor: &str) -> Option<&str> {
        self.replaced.get(tensor).map(String::as_str)
    }

    /// Bytes of all low-rank weights, as they are applied.
    #[must_use]
    pub fn low_rank_bytes(&self) -> usize {
        let tensors = self.low_rank.values().flat_map(|name| {
            [0, 1].map(|part| {
                self.checkpoint
                    .get(&format!("{name}{}", module_ending(part)))
            })
        });
        let floats = tensors
            .flatten()
            .map(|tensor| tensor.shape().iter().product::<usize>());
        size_of::<f32>() * floats.sum::<usize>()
    }

    /// The changes to a module's weight of `[rows, inputs]`. Its bias (empty where it has none) is changed at once.
    ///
    /// # Errors
    /// If a tensor of the adapter has a wrong shape, type or content.
    pub fn change(
        &self,
        module: &str,
        rows: usize,
        inputs: usize,
        bias: &mut [f32],
    ) -> Result<WeightChange<'_>> {
        let replaced = self.replacing(&format!("{module}.weight"));
        if let Some(tensor) = replaced {
            tensor.expect_shape(&[rows, inputs])?;
        }
        if let Some(tensor) = self.replacing(&format!("{module}.bias")) {
            tensor.expect_shape(&[bias.len()])?;
            tensor.read(0, bias)?;
        }
        let low_rank = self.low_rank.get(module);
        let low_rank = low_rank.map(|name| {
            let shape = [rows, inputs];
            self::low_rank(&self.settings, &self.checkpoint, module, name, shape)
        });
        Ok(WeightChange {
            rows,
            inputs,
            replaced,
            low_rank: low_rank.transpose()?,
        })
    }

    fn replacing(&self, tensor: &str) -> Option<Tensor<'_>> {
        self.checkpoint.get(self.replaced(tensor)?)
    }
}

/// An adapter's changes to the rows of a module's weight.
pub struct WeightChange<'a> {
    rows: usize,
    inputs: usize,
    /// The tensor that replaces them.
    replaced: Option<Tensor<'a>>,
    /// Low-rank weights that are added to them.
    low_rank: Option<LowRank>,
}

impl WeightChange<'_> {
    /// Low-rank weights alone, for a weight of `[rows, inputs]`.
    #[must_use]
    pub fn low_rank([rows, inputs]: [usize; 2], low_rank: LowRank) -> Self {
        Self {
            rows,
            inputs,
            replaced: None,
            low_rank: Some(low_rank),
        }
    }

    /// How many rows the module's weight has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Changes the rows from `first` on. Each row changes independently of the others.
    ///
    /// # Errors
    /// If a tensor of the adapter has wrong content.
    pub fn apply(&self, first: usize, rows: &mut [f32]) -> Result<()> {
        if let Some(tensor) = self.replaced {
            tensor.read(first * self.inputs, rows)?;
        }
        if let Some(low_rank) = &self.low_rank {
            low_rank.apply(first, self.inputs, rows);
        }
        Ok(())
    }
}

/// The low-rank weights of a module, which the file calls `name`, for a weight of `[rows, inputs]`.
pub(crate) fn low_rank(
    settings: &AdapterSettings,
    checkpoint: &Checkpoint,
    module: &str,
    name: &str,
    [rows, inputs]: [usize; 2],
) -> Result<LowRank> {
    let [down, up] = [0, 1].map(|part| {
        let name = format!("{name}{}", module_ending(part));
        checkpoint.get(&name).expect("seen when it was opened")
    });
    let (stated, scale) = settings.rank_and_scale(module);
    let rank = down.shape().first().copied().unwrap_or_default();
    #[allow(clippy::cast_precision_loss)]
    if rank as f64 != stated {
        return Err(down.wrong(format!(
            "has the shape {:?} where {} asks for the rank {stated}",
            down.shape(),
            settings.file.display()
        )));
    }
    down.expect_shape(&[rank, inputs])?;
    up.expect_shape(&[rows, rank])?;
    #[allow(clippy::cast_possible_truncation)]
    let scale = scale as f32;
    Ok(LowRank {
        rank,
        scale,
        down: down.floats()?,
        up: up.floats()?,
    })
}

pub(crate) fn module_ending(part: usize) -> &'static str {
    [".lora_A.weight", ".lora_B.weight"][part]
}

fn unknown(name: &str) -> String {
    format!("holds weights for '{name}', which the network does not have")
}

/// The name of a tensor in transformers' class: without the prefixes of peft and of a class with a head.
fn own_name<'a>(name: &'a str, architecture: &Architecture) -> &'a str {
    let name = name.strip_prefix(WRAPPED).unwrap_or(name);
    let bases = architecture.base_names.iter();
    let mut inside = bases.filter_map(|base| name.strip_prefix(*base)?.strip_prefix('.'));
    inside.next().unwrap_or(name)
}

/// The parts of a product that is `outputs` of the network's own rows, by the names of transformers' class.
#[must_use]
pub fn class_parts(sources: Sources, outputs: usize) -> &'static [&'static str] {
    let mut fitting = sources
        .iter()
        .filter(|parts| [1, outputs].contains(&parts.len()));
    fitting.next().copied().unwrap_or_default()
}

/// The names of all modules whose tensors are read: of products, and of all others.
fn modules(architecture: &Architecture) -> (BTreeSet<String>, BTreeSet<String>) {
    let names = architecture.names;
    let halves = if architecture.feed_forward.gated {
        2
    } else {
        1
    };
    let of_layer = |set: usize| -> [(Sources, usize); 4] {
        let input_and_output = if architecture.convolution_of(set).is_some() {
            [(names.convolution.input, 3), (names.convolution.output, 1)]
        } else if architecture.delta_rule_of(set).is_some() {
            [(names.delta_rule.input, 4), (names.delta_rule.output, 1)]
        } else {
            [(names.query_key_value, 3), (names.attention_output, 1)]
        };
        let [input, output] = input_and_output;
        [input, output, (names.up, halves), (names.down, 1)]
    };
    let [query, key] = names.query_key_norm;
    let norms: Vec<Alternatives> = (names.attention_norms.all())
        .into_iter()
        .chain(names.feed_forward_norms.all())
        .chain([query, key, names.delta_rule.norm])
        .collect();
    let mut products: BTreeSet<String> = BTreeSet::new();
    let mut others: BTreeSet<String> = [
        names.position,
        names.token_type,
        names.relative_bias,
        TASK_TYPE,
    ]
    .into_iter()
    .chain(
        [names.word, names.embedding_norm, names.final_norm]
            .into_iter()
            .flat_map(first),
    )
    .map(str::to_owned)
    .collect();
    if architecture.embeddings.projected {
        products.extend(
            class_parts(names.projection, 1)
                .iter()
                .map(ToString::to_string),
        );
    }
    for (set, spellings) in architecture.weight_sets.iter().enumerate() {
        let Some(layer) = spellings.first() else {
            continue;
        };
        for (sources, outputs) in of_layer(set) {
            let parts = class_parts(sources, outputs).iter();
            products.extend(parts.map(|part| format!("{layer}{}", names::module(part))));
        }
        others.extend(
            norms
                .iter()
                .flat_map(|norm| first(norm))
                .map(|norm| format!("{layer}{norm}")),
        );
    }
    (products, others)
}

fn first(names: Alternatives) -> Option<&'static str> {
    names.first().copied()
}
