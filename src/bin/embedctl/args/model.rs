//! Options that say which model, which of its files, and what overrides them.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};
use embedctl::model::{ModelName, ModelOptions, Precision, TextRole, TextTask, WeightsKind};
use embedctl::output::RowForm;
use embedctl::rows::PoolingMode;

use super::values::{NamedValueParser, pool_factor, positive, precision};

/// The model, and options that override its files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Hub id (org/name or org/name@revision) or a folder
    ///
    /// A model that is not in the Hub's cache on this machine is downloaded.
    #[arg(
        short,
        long,
        value_name = "MODEL",
        env = "EMBEDCTL_MODEL",
        hide_env_values = true,
        value_hint = ValueHint::DirPath,
        default_value = ModelName::DEFAULT
    )]
    pub model: String,

    #[command(flatten)]
    pub texts: TextArgs,
}

/// Options that override a model's files.
#[derive(Debug, Args)]
pub struct OverrideArgs {
    #[command(flatten)]
    pub texts: TextArgs,
    #[command(flatten)]
    pub vectors: VectorModelArgs,
}

/// Options that override a model's files, whether it gives vectors or scores.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct TextArgs {
    #[command(flatten)]
    pub onnx: OnnxArgs,
    #[command(flatten)]
    pub length: LengthArgs,

    /// Text to put before every record
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_name")]
    pub prompt: Option<String>,

    /// Name of one of the model's prompts, such as query
    ///
    /// Every model accepts 'query' and 'document', as in sentence-transformers; if its files do not define them, they
    /// are empty, and a note says so.
    #[arg(long, value_name = "NAME")]
    pub prompt_name: Option<String>,
}

impl TextArgs {
    /// The options of the model of this name, with these.
    pub fn options(&self, model: &str, cache_dir: Option<PathBuf>) -> ModelOptions {
        ModelOptions {
            model: model.to_owned(),
            model_file: self.onnx.model_file.clone(),
            precision: self.onnx.precision,
            kind: self.onnx.weights,
            cache_dir,
            max_length: self.length.max_length,
            prompt: self.prompt.clone(),
            prompt_name: self.prompt_name.clone(),
            ..ModelOptions::default() // the rest follows from the providers
        }
    }
}

/// Options that override how a model gives vectors.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct VectorModelArgs {
    #[command(flatten)]
    pub pooling: PoolingArgs,

    /// Whether to scale vectors to length 1; overrides the model's files
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub normalize: Option<bool>,

    /// Components of a vector to keep (Matryoshka models)
    ///
    /// The shortened vector is scaled to length 1 again only with --normalize true, as in sentence-transformers.
    /// Several numbers, separated by commas, give one column each: 64,256 gives embedding_64 and embedding_256.
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        value_delimiter = ',',
        visible_alias = "truncate-dim"
    )]
    pub dimensions: Vec<usize>,

    #[command(flatten)]
    pub kinds: KindArgs,

    /// Entries of a sparse vector to keep: those of the greatest magnitude [default: as in the model's files]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_active_dims: Option<usize>,

    /// Keep about one in N vectors of a document's tokens, where each token has one (a number of at least 1)
    ///
    /// Clusters them and takes each cluster's mean, as HierarchicalTokenPooling in sentence-transformers. The first vector
    /// stays as it is.
    #[arg(long, value_name = "N", value_parser = pool_factor)]
    pub pool_factor: Option<f64>,
}

impl VectorModelArgs {
    /// A model's options, with these.
    pub fn options(&self, model: ModelOptions) -> ModelOptions {
        ModelOptions {
            pooling: self.pooling.pooling.clone(),
            normalize: self.normalize,
            dimensions: self.dimensions.clone(),
            vectors: self.kinds.vectors(),
            text_task: self.kinds.task.clone(),
            max_active_dims: self.max_active_dims,
            pool_factor: self.pool_factor,
            ..model
        }
    }
}

/// What vectors are asked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct KindArgs {
    /// Kinds of vectors: dense, sparse, or multi, where the model's files leave it open [default: dense]
    ///
    /// Several, such as 'dense,sparse,multi', give each text a vector of every kind from one pass of the network, in columns of
    /// their own: of models with layers for that, such as bge-m3 (embedctl info MODEL lists the kinds).
    ///
    /// A masked language model without modules.json gives dense vectors by mean pooling, and with 'sparse' those of SPLADE,
    /// as sentence-transformers' SparseEncoder. 'multi' gives each token a vector by the model's Dense module, as its
    /// MultiVectorEncoder.
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        value_parser = NamedValueParser::new(RowForm::of_vectors().map(|form| form.name()), str::parse::<RowForm>),
        hide_possible_values = true
    )]
    pub vectors: Vec<RowForm>,

    /// Role of the texts, query or document; or a task of the model's own (embedctl info MODEL lists them)
    ///
    /// As encode_query and encode_document in sentence-transformers: takes the model's prompt of that name, and its
    /// modules for that role if they differ. In a model with adapters for tasks (jina-embeddings-v3) applies the task's
    /// adapter, and takes its prompt.
    #[arg(
        long,
        value_name = "TASK",
        value_parser = NamedValueParser::new(TextRole::ALL.map(TextRole::name), str::parse::<TextTask>),
        hide_possible_values = true
    )]
    pub task: Option<TextTask>,
}

impl KindArgs {
    /// The kinds, in the order of columns.
    pub fn vectors(&self) -> Vec<RowForm> {
        let all = RowForm::of_vectors().into_iter();
        all.filter(|form| self.vectors.contains(form)).collect()
    }
}

/// Pooling and token limits.
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(flatten)]
    pub pooling: PoolingArgs,
    #[command(flatten)]
    pub length: LengthArgs,
}

/// How states of tokens become a vector.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct PoolingArgs {
    /// Pooling mode; several, separated by commas, are concatenated
    ///
    /// Modes: cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken. Default: as in the model's files.
    #[arg(
        long,
        value_name = "MODES",
        value_delimiter = ',',
        value_parser = NamedValueParser::new(PoolingMode::ALL.map(PoolingMode::name), str::parse::<PoolingMode>),
        hide_possible_values = true
    )]
    pub pooling: Option<Vec<PoolingMode>>,
}

/// The limit of a record's tokens.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct LengthArgs {
    /// Most tokens per record; longer records are truncated and counted
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub max_length: Option<usize>,
}

/// The choice among a model's ONNX files.
#[derive(Debug, Args)]
pub struct OnnxArgs {
    /// ONNX file of the model, such as onnx/model_fp16.onnx
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub model_file: Option<String>,

    /// Precision of the arithmetic, or of the model's ONNX file [default: fp32]
    ///
    /// The native engine computes in fp32 (as sentence-transformers does), int16 (cosine to fp32 of 0.9999 or more,
    /// about 1.5 times as fast), int8 (usually 0.999, two to three times as fast) or bf16 (weights of half the size;
    /// fast with AMX, AVX512-BF16). The other providers take the model's ONNX file of that precision, or a graph built
    /// from its safetensors files in fp32, fp16 or bf16. bf16 is arithmetic on the usual file, for providers that have
    /// it (openvino, tensorrt).
    #[arg(
        long,
        value_name = "KIND",
        help_heading = "Model",
        value_parser = precision(),
        conflicts_with = "model_file"
    )]
    pub precision: Option<Precision>,

    /// Kind of weights to take: safetensors, or onnx [default: as suits the provider]
    ///
    /// The native engine runs safetensors files, a GPU a graph that embedctl builds from them, and another provider the
    /// model's ONNX file, or without one the built graph. Graphs are built in fp32, or in fp16 or bf16 with --precision on
    /// providers that have it. `embedctl info` shows the file that each provider would take.
    #[arg(
        long,
        value_name = "KIND",
        help_heading = "Model",
        value_parser = NamedValueParser::new(WeightsKind::ALL.map(WeightsKind::name), str::parse::<WeightsKind>),
        hide_possible_values = true
    )]
    pub weights: Option<WeightsKind>,
}
