//! Options that say which model, which of its files, and what overrides them.

use clap::{ArgAction, Args, ValueHint};
use embedctl::model::{ModelName, PoolingMode, Precision};

use super::values::{NamedValueParser, positive, precision};

/// Which model, and what overrides its files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Hub id (org/name or org/name@revision) or a folder
    ///
    /// A Hub id is looked up in the Hub's cache on this machine, and fetched where it is not there.
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
    pub overrides: OverrideArgs,
}

/// What overrides a model's files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct OverrideArgs {
    #[command(flatten)]
    pub onnx: OnnxArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,

    /// Scale vectors to length 1, or don't, whatever the model's files say
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub normalize: Option<bool>,

    /// Text put before every record
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_name")]
    pub prompt: Option<String>,

    /// Prompt of the model's own, by its name (such as query)
    ///
    /// 'query' and 'document' are known to every model, as to sentence-transformers; where its files say
    /// nothing, they put nothing before the texts, and a note says so.
    #[arg(long, value_name = "NAME")]
    pub prompt_name: Option<String>,

    /// Components of a vector to keep (Matryoshka models)
    ///
    /// What is left is scaled to length 1 again with --normalize true, and else is not, as in
    /// sentence-transformers. Several, with commas between, make a column each: 64,256 gives embedding_64
    /// and embedding_256.
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        value_delimiter = ',',
        visible_alias = "truncate-dim"
    )]
    pub dimensions: Vec<usize>,
}

/// What becomes of a text's tokens.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct TokenArgs {
    /// How token states become a vector; several, with commas between, are concatenated
    ///
    /// Modes: cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken. By default the model's files
    /// decide.
    #[arg(
        long,
        value_name = "MODES",
        value_delimiter = ',',
        value_parser = NamedValueParser::new(PoolingMode::ALL.map(PoolingMode::name), str::parse::<PoolingMode>),
        hide_possible_values = true
    )]
    pub pooling: Option<Vec<PoolingMode>>,

    /// Tokens of a record at most; longer ones are cut and counted
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub max_length: Option<usize>,
}

/// Which of a model's ONNX files.
#[derive(Debug, Args)]
pub struct OnnxArgs {
    /// ONNX file inside the model, such as onnx/model_fp16.onnx
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub model_file: Option<String>,

    /// Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]
    ///
    /// The native engine computes in fp32 (as sentence-transformers does), int16 (cosines of 0.9999 and
    /// more to fp32, about 1.5 times as fast) or int8 (0.999 as a rule, two to three times as fast). The
    /// other providers take the model's ONNX file of that kind, but bf16 is arithmetic on the usual file
    /// where the named providers have it (openvino, tensorrt).
    #[arg(
        long,
        value_name = "KIND",
        help_heading = "Model",
        value_parser = precision(),
        conflicts_with = "model_file"
    )]
    pub precision: Option<Precision>,
}
