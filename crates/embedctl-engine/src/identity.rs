//! The identity of a vector: all that decides it, built, stored, read back and compared in this module alone.
//!
//! ```text
//!  Model, EngineInfo, output's type ──► VectorIdentity ──► provenances, fingerprints of jobs
//!  provenance, fingerprint ──► VectorIdentity ──► fields ──► differences (resume, reuse, inspect)
//! ```
//!
//! One output holds vectors of one identity: a run that continues or reuses one refuses any difference. Between outputs,
//! some differences do no harm ([`Weight`]). Threads, batches, windows and devices are not part of an identity: they
//! change a vector by rounding at most.

mod compare;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use embedctl_model::{Adapter, Model, ModelProvenance, ModelTask, TextTask, WeightsKind};
use embedctl_rows::{Dimensions, ModelConfig, OutputChoice};

pub use self::compare::{Difference, Fields, Weight, differences, flatten, is_within, listed};
use embedctl_common::error::{Error, Result};
use embedctl_vectors::{RowForm, Terms};

use crate::{EngineInfo, FloatType, Provider};

/// Type of components in full, as outputs name it.
const FULL: &str = "f32";

/// All that decides a vector. As JSON it is the first part of a job's fingerprint.
///
/// Names stay text, so that an output of another version is compared by names that this version does not know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VectorIdentity {
    /// Version of embedctl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of the model's files, by path. `None` until it is known which weights are read.
    #[serde(rename = "model", skip_serializing_if = "Option::is_none")]
    pub files: Option<Map<String, Value>>,
    /// The model's settings.
    #[serde(flatten)]
    pub settings: VectorSettings,
    /// The numbers that the engine computes in. `None` until the engine is open.
    #[serde(rename = "precision", skip_serializing_if = "Option::is_none")]
    pub computation: Option<Computation>,
    /// Type of a vector's components; absent in old outputs, which are all `f32`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The ranges of quantized components: in a fingerprint the hash of their file, in a provenance the ranges.
    pub calibration: Option<Value>,
}

/// The settings of a model that decide its vectors, as they stand in a provenance. What is absent is unknown, if it is
/// not said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VectorSettings {
    /// Path of the weights' main file in the model's folder: the ONNX file or the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// Pooling modes; empty where the graph gives finished vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Vec<String>>,
    /// Whether prompt tokens take part in pooling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_prompt: Option<bool>,
    /// Whether vectors have unit length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalized: Option<bool>,
    /// `false` where the model's own normalization was turned off before vectors were cut to `dimensions`; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalized_before_cut: Option<bool>,
    /// The prompt put before every text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Tokens of a row at most; absent where the model has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Width of a vector; a list where a row has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<Dimensions>,
    /// `true` where the states of whole texts were pooled by their chunks; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_chunking: Option<bool>,
    /// The task whose adapter, of those in the model's checkpoint, changed the network, or the role that chose the route of
    /// a `Router`; absent where neither was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The kinds of vectors that a row has, in the order of their columns; absent where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<Vec<String>>,
    /// Of sparse vectors, how they are made; absent for those in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<SparseSettings>,
    /// Of vectors of tokens, how they are made; absent for one vector a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi: Option<MultiSettings>,
    /// Of scores, how they are made; absent for vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoreSettings>,
}

/// How sparse vectors are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SparseSettings {
    /// How logits become weights of terms (`max relu`); absent where other modules make them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms: Option<String>,
    /// Entries that are kept at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_active_dims: Option<usize>,
    /// The role of the texts, query or document: of a model with routes, the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// How the vectors of a row's tokens are made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MultiSettings {
    /// The role of the texts, query or document.
    pub role: String,
    /// By how much the vectors became fewer, beyond what the model's files say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_factor: Option<f64>,
}

/// How scores are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScoreSettings {
    /// Whether a row's text is a pair of texts.
    pub pairs: bool,
    /// Whether several scores are probabilities, whose sum is 1.
    pub softmax: bool,
}

/// The numbers that an engine computes in. Engines differ by rounding where this is equal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Computation {
    /// [`Computation::NATIVE`], or [`Computation::ONNX`] for all engines that run ONNX files.
    pub engine: String,
    /// Of the native engine, its arithmetic; of others, the precision that the provider was asked for, if it is not
    /// single.
    pub precision: Option<String>,
    /// Version of the native engine's arithmetic; absent where it is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<u32>,
}

impl VectorIdentity {
    /// The identity of the vectors that `model` gives, as far as it is known before an engine is open: single precision, if
    /// nothing else is said.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        Self {
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            settings: VectorSettings::new(model, None),
            ..Self::default()
        }
    }

    /// The same, of a `model` whose kind of weights and whose hashes are known.
    #[must_use]
    pub fn with_files(self, model: &Model, files: &ModelProvenance, weights: WeightsKind) -> Self {
        let ModelProvenance {
            id: _,
            revision: _,
            files,
        } = files;
        let hashes = files.iter();
        let hashes = hashes.map(|file| (file.path.clone(), file.sha256.clone().into()));
        Self {
            files: Some(hashes.collect()),
            settings: VectorSettings::new(model, Some(weights)),
            ..self
        }
    }

    /// The same, of an engine that is open.
    #[must_use]
    pub fn with_engine(self, model: &Model, files: &ModelProvenance, info: &EngineInfo) -> Self {
        Self {
            computation: Some(Computation::of(info)),
            ..self.with_files(model, files, info.provider.weights_of(model))
        }
    }

    /// The identity in a provenance. Unreadable fields are absent, and so differ from those of a run.
    #[must_use]
    pub fn of_provenance(made: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let files = made["model"]["files"].as_array().into_iter().flatten();
        let hash = |file: &Value| Some((text(&file["path"])?, file["sha256"].clone()));
        Self {
            version: text(&made["tool"]["version"]),
            files: Some(files.filter_map(hash).collect()),
            settings: VectorSettings::deserialize(made).unwrap_or_default(),
            computation: Some(Computation::of_provenance(&made["engine"])),
            dtype: text(&made["dtype"]),
            calibration: made.get("calibration").cloned(),
        }
    }

    /// Type of a vector's components.
    #[must_use]
    pub fn dtype(&self) -> &str {
        self.dtype.as_deref().unwrap_or(FULL)
    }

    /// The kind of weights that the vectors were computed with.
    #[must_use]
    pub fn weights(&self) -> WeightsKind {
        // Graphs that were built from a checkpoint run on the engines of ONNX files.
        let file = self.settings.model_file.as_deref().unwrap_or_default();
        let is_checkpoint = [".safetensors", ".safetensors.index.json"]
            .iter()
            .any(|ending| file.ends_with(ending));
        match &self.computation {
            Some(computation) if computation.engine == Computation::NATIVE => {
                WeightsKind::Checkpoint
            }
            _ if is_checkpoint => WeightsKind::Checkpoint,
            _ => WeightsKind::Onnx,
        }
    }

    /// The precision that the engine computed in, where it is told.
    #[must_use]
    pub fn precision(&self) -> Option<&str> {
        self.computation.as_ref()?.precision.as_deref()
    }

    /// All fields by their paths in a provenance, to be compared; `engine.kind` is in none.
    #[must_use]
    pub fn fields(&self) -> Fields {
        let Self {
            version,
            files,
            settings,
            computation,
            dtype: _,
            calibration,
        } = self;
        let Computation {
            engine,
            precision,
            arithmetic,
        } = computation.clone().unwrap_or_default();
        let kind = Some(engine).filter(|kind| !kind.is_empty());
        let mut fields = flatten(&json!({
            "tool": {"version": version},
            "model": {"files": files},
            "engine": {"kind": kind, "precision": precision, "arithmetic": arithmetic},
            "dtype": self.dtype(),
            "calibration": calibration,
        }));
        fields.extend(flatten(&json!(settings)));
        fields
    }

    /// The same, in which all that an open engine will tell is taken from `then`.
    #[must_use]
    pub fn or_as(mut self, then: &Self) -> Self {
        if self.files.is_none() {
            self.files.clone_from(&then.files);
            let name = &then.settings.model_file;
            self.settings.model_file.clone_from(name);
        }
        let computation = self.computation.take();
        self.computation = computation.or_else(|| then.computation.clone());
        self
    }

    /// The fields in which the identity of a run differs from this one of an earlier output. Fields that the run does
    /// not know yet do not differ.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        differences(&[self.fields(), now.clone().or_as(self).fields()])
    }
}

impl SparseSettings {
    /// Those of a model whose rows have sparse vectors.
    fn of(config: &ModelConfig, task: Option<&TextTask>) -> Option<Self> {
        let sparse = config.any_sparse()?;
        let terms = sparse.terms.map(|terms| {
            let pooling = if terms.sums { "sum" } else { "max" };
            let activation = if terms.twice { "log1p_relu" } else { "relu" };
            format!("{pooling} {activation}")
        });
        let weighs = sparse.weighed.is_some();
        Some(Self {
            terms: terms.or_else(|| weighs.then(|| "max of token weights".into())),
            max_active_dims: sparse.most,
            role: task.map(|task| task.name().to_owned()),
        })
    }
}

impl VectorSettings {
    /// The forms of a row's vectors, without sizes, in the order of columns; none where a row has scores.
    ///
    /// # Errors
    /// If a kind is named that this version does not know.
    pub fn vector_forms(&self) -> Result<Vec<RowForm>> {
        let parsed = |name: &String| name.parse().map_err(Error::usage);
        match (&self.vectors, &self.sparse, &self.multi) {
            (Some(names), ..) => names.iter().map(parsed).collect(),
            (None, Some(_), _) => Ok(vec![RowForm::Sparse(Terms::default())]),
            (None, None, Some(_)) => Ok(vec![RowForm::Tokens(0)]),
            (None, None, None) if self.scores.is_some() => Ok(Vec::new()),
            (None, None, None) => Ok(vec![RowForm::Dense(vec![0])]),
        }
    }

    /// The settings of `model`, with the kind of weights once it is known.
    #[must_use]
    pub fn new(model: &Model, weights: Option<WeightsKind>) -> Self {
        // Most options choose files, whose hashes are compared, or are resolved in the configuration. A test asks of each
        // whether it decides vectors (`identity_tests.rs`).
        let options = &model.options;
        let config = &model.config;
        let ModelConfig {
            scores: _,     // as the options say
            sparse: _,     // see there
            multi: _,      // see there
            beside: _,     // see `vectors` below
            max_length: _, // see `limit`
            output,
            pooling,
            include_prompt,
            token_steps: _,
            not_last: _,
            steps: _, // read from files; see `normalized`
            normalize_last: _,
            dimensions: cut,
            width: _, // see `dimensions`
            prompt,
            greatest_length: _, // all others are read from files alone
            positions_limit: _,
            frame: _,
            truncation_side: _,
            padding_id: _,
            special_ids: _,
            positions: _,
            hidden_width: _,
            prompts: _,
            dropped_id: _,
            most_characters: _, // follows from the limit
            late: _,            // the same
        } = config;
        let modes = match output {
            OutputChoice::Tokens(_) => pooling.as_slice(),
            OutputChoice::Sentence(_) => &[],
        };
        let is_cut_raw = options.normalize == Some(false) && !cut.is_empty();
        Self {
            model_file: weights.map(|weights| model.weights_name(weights)),
            pooling: Some(modes.iter().map(|mode| mode.name().to_owned()).collect()),
            include_prompt: Some(*include_prompt),
            normalized: Some(config.normalized()),
            normalized_before_cut: is_cut_raw.then_some(false),
            prompt: Some(prompt.clone()),
            max_length: config.limit(),
            dimensions: Some(config.vectors()),
            late_chunking: options.late.then_some(true),
            task: match model.adapter() {
                Some(Adapter::Task(task)) => Some(task.clone()),
                Some(Adapter::LowRank(_)) | None => {
                    // The others have a field for it.
                    let is_dense = config.any_sparse().is_none() && config.any_multi().is_none();
                    let route = options
                        .text_task
                        .as_ref()
                        .filter(|_| model.has_routes && is_dense);
                    route.map(|task| task.name().to_owned())
                }
            },
            vectors: match config.beside.is_empty() {
                true => None,
                false => Some(
                    config
                        .vector_forms()
                        .map(|it| it.name().to_owned())
                        .collect(),
                ),
            },
            sparse: SparseSettings::of(config, options.text_task.as_ref()),
            multi: config.any_multi().map(|_| MultiSettings {
                role: options
                    .text_task
                    .as_ref()
                    .map_or("", |task| task.name())
                    .to_owned(),
                pool_factor: options.pool_factor,
            }),
            scores: match &options.task {
                ModelTask::Embed => None,
                ModelTask::Score(asked) => Some(ScoreSettings {
                    pairs: asked.pairs,
                    softmax: asked.softmax,
                }),
            },
        }
    }
}

impl Computation {
    /// The native engine.
    pub const NATIVE: &str = "native";
    /// Engines that run ONNX files.
    pub const ONNX: &str = "onnx";
    /// The option by which a provider computes a model of single precision in less.
    const OPTION: &str = "precision";

    /// The numbers that an engine computes in.
    #[must_use]
    pub fn of(info: &EngineInfo) -> Self {
        let EngineInfo {
            provider,
            options,
            built_graph,
            precision,
            arithmetic,
            engine: _, // the others measure, or say who computes and where
            version: _,
            library: _,
            plugin: _,
            devices: _,
            placement: _,
            algorithms: _,
            narrow_weights: _, // widened exactly
            cosine_to_cpu: _,
            cosine: _,
            batch_tokens: _,
            equal_lengths: _,
            ignored: _,
            passed_over: _,
        } = info;
        let asked = options.iter().rfind(|option| option.name == Self::OPTION);
        let asked = asked.and_then(|option| option.value.word());
        let built = built_graph.filter(|built| *built != FloatType::F32.name());
        Self::new(*provider, precision.or(built), asked, *arithmetic)
    }

    /// The numbers of the engine in a provenance.
    #[must_use]
    pub fn of_provenance(engine: &Value) -> Self {
        let options = engine["options"].as_array().into_iter().flatten();
        let options = options.filter_map(|option| option.as_str()?.split_once('='));
        let mut asked = options.filter(|(name, _)| name.ends_with(&format!(".{}", Self::OPTION)));
        let arithmetic = engine["arithmetic"].as_u64();
        let provider: Option<Provider> = engine["provider"].as_str().and_then(|it| it.parse().ok());
        Self::new(
            provider.unwrap_or(Provider::Cpu),
            (engine["precision"].as_str()).or(engine["built_graph"]
                .as_str()
                .filter(|built| *built != "fp32")),
            asked.next_back().map(|(_, value)| value),
            arithmetic.and_then(|version| version.try_into().ok()),
        )
    }

    /// `asked` is what the provider was asked for.
    fn new(
        provider: Provider,
        precision: Option<&str>,
        asked: Option<&str>,
        arithmetic: Option<u32>,
    ) -> Self {
        let engine = match provider {
            Provider::Native => Self::NATIVE,
            _ => Self::ONNX,
        };
        let precision = precision.or(asked.filter(|asked| *asked != "fp32"));
        Self {
            engine: engine.to_owned(),
            precision: precision.map(str::to_owned),
            arithmetic,
        }
    }
}
