//! The classification heads of transformers' `…ForSequenceClassification` classes, by the architecture that they stand on.

use std::path::Path;

use serde_json::Value;

use super::tensors::HeadTensors;
use crate::score::activation;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_rows::DenseActivation::{self, Gelu, Identity, Relu, Tanh};
use embedctl_rows::{PoolingMode, Step};

/// Decoders whose classes have one layer without a bias, `score`, on the last token, each with its class's padding token.
/// The layer of an OPT with narrower tokens is of their width, and so are its states; the engine runs the others alone.
const DECODERS: &[(&str, Option<u32>)] = &[
    ("bloom", None),
    ("gemma", Some(0)),
    ("gemma2", Some(0)),
    ("gemma3_text", Some(0)),
    ("gpt2", None),
    ("gpt_neo", None),
    ("gpt_neox", None),
    ("gptj", None),
    ("llama", None),
    ("ministral", None),
    ("ministral3", Some(11)),
    ("mistral", None),
    ("mixtral", None),
    ("olmo", Some(1)),
    ("olmo2", Some(1)),
    ("opt", Some(1)),
    ("phi", None),
    ("phi3", Some(32_000)),
    ("qwen2", None),
    ("qwen3", None),
    ("qwen3_5_text", None),
    ("qwen3_moe", None),
    ("smollm3", Some(128_004)),
    ("starcoder2", None),
];

/// Types that transformers 5.23 has no `…ForSequenceClassification` for.
const WITHOUT_HEAD: &[&str] = &["granite", "lfm2", "llama_bidirec", "neobert", "nvembed"];

/// How a network's token states become logits.
#[derive(Debug)]
pub(super) struct HeadSteps {
    pub modes: Vec<PoolingMode>,
    /// Modules that every token's state passes before pooling.
    pub token_steps: Vec<Step>,
    /// The token that is no last one.
    pub not_last: Option<u32>,
    pub steps: Vec<Step>,
}

impl HeadSteps {
    fn of(mode: PoolingMode, steps: Vec<Step>) -> Self {
        Self {
            modes: vec![mode],
            token_steps: Vec::new(),
            not_last: None,
            steps,
        }
    }
}

/// The head of the network that `config` (of `file`) describes, of states of `width` components.
///
/// # Errors
/// If the architecture has no head that embedctl knows, or the checkpoint lacks one of its tensors.
pub(super) fn head(
    config: &Value,
    file: &Path,
    tensors: &HeadTensors,
    width: usize,
) -> Result<HeadSteps> {
    let refuse = |cause: Cause| Error::model(file.display(), cause);
    let kind = config["model_type"].as_str().unwrap_or_default();
    let act = |key: &str, default: &'static str| {
        let name = config[key].as_str().unwrap_or(default);
        activation::of_head(name).map_err(refuse)
    };
    let dense = |names: &[&str], bias, act: DenseActivation| {
        tensors.dense(names, width, bias, act).map(Step::Dense)
    };
    let classifier = || dense(&["classifier"], true, Identity);
    let decoder = DECODERS.iter().find(|(decoder, _)| *decoder == kind);
    // A head of two layers on the first token's state.
    let on_first = |names: [&str; 2], act| -> Result<HeadSteps> {
        let steps = vec![
            dense(&[names[0]], true, act)?,
            dense(&[names[1]], true, Identity)?,
        ];
        Ok(HeadSteps::of(PoolingMode::Cls, steps))
    };
    Ok(match kind {
        // The network's own pooler, and a classifier.
        "bert" | "ernie" | "luke" | "nomic_bert" | "gte" | "new" => HeadSteps::of(
            PoolingMode::Cls,
            vec![dense(&["pooler.dense"], true, Tanh)?, classifier()?],
        ),
        "albert" => on_first(["pooler", "classifier"], Tanh)?,
        "roberta" | "camembert" | "xlm-roberta" | "xlm-roberta-xl" | "mpnet"
        | "jina_embeddings_v3" => on_first(["classifier.dense", "classifier.out_proj"], Tanh)?,
        "electra" => on_first(["classifier.dense", "classifier.out_proj"], Gelu)?,
        "roformer" => {
            let act = act("hidden_act", "gelu")?;
            on_first(["classifier.dense", "classifier.out_proj"], act)?
        }
        "distilbert" => on_first(["pre_classifier", "classifier"], Relu)?,
        "deberta" | "deberta-v2" => on_first(
            ["pooler.dense", "classifier"],
            act("pooler_hidden_act", "gelu")?,
        )?,
        "modernbert" | "modernbert-decoder" => {
            let flag = |key: &str| config[key].as_bool().unwrap_or(false);
            let has_bias = flag("classifier_bias");
            let is_decoder = kind == "modernbert-decoder";
            #[allow(clippy::cast_possible_truncation)] // as PyTorch computes with it
            let epsilon = config["norm_eps"].as_f64().unwrap_or(1e-5) as f32;
            let norm = tensors.norm("head.norm", width, flag("norm_bias"), epsilon)?;
            let steps = vec![
                dense(
                    &["head.dense"],
                    has_bias,
                    act("classifier_activation", "gelu")?,
                )?,
                Step::LayerNorm(norm),
                // The decoder's classifier has a bias where its head has one.
                dense(&["classifier"], !is_decoder || has_bias, Identity)?,
            ];
            match config["classifier_pooling"].as_str().unwrap_or("cls") {
                _ if is_decoder => last(config, Some(50_283), steps),
                "cls" => HeadSteps::of(PoolingMode::Cls, steps),
                "mean" => HeadSteps::of(PoolingMode::Mean, steps),
                other => return Err(refuse(unknown_pooling(other))),
            }
        }
        "eurobert" => {
            let first = dense(&["dense"], true, Gelu)?;
            match config["classifier_pooling"].as_str().unwrap_or("late") {
                "bos" => HeadSteps::of(PoolingMode::Cls, vec![first, classifier()?]),
                "mean" => HeadSteps::of(PoolingMode::Mean, vec![first, classifier()?]),
                // The mean of the tokens' logits, which are linear.
                "late" => HeadSteps {
                    token_steps: vec![first],
                    ..HeadSteps::of(PoolingMode::Mean, vec![classifier()?])
                },
                other => return Err(refuse(unknown_pooling(other))),
            }
        }
        "big_bird" => {
            let act = act("hidden_act", "gelu_new")?;
            on_first(["classifier.dense", "classifier.out_proj"], act)?
        }
        _ if decoder.is_some() => {
            let padding = decoder.and_then(|(_, padding)| *padding);
            last(config, padding, vec![dense(&["score"], false, Identity)?])
        }
        other => return Err(refuse(refusal(other))),
    })
}

/// Why networks of this type have no head here, and what helps.
fn refusal(kind: &str) -> Cause {
    if kind == "longformer" {
        return Cause::of(
            "is a Longformer, which attends to its first token globally to classify a text, but the native engine \
             does not",
        )
        .with("export it to ONNX");
    }
    if WITHOUT_HEAD.contains(&kind) {
        return Cause::of(format!(
            "is of the model_type '{kind}', for which transformers has no class that classifies"
        ))
        .with("export it to ONNX with its logits, if its own code has a head");
    }
    Cause::of(format!(
        "is of the model_type '{kind}', whose classification head the native engine does not know"
    ))
    .with("export it to ONNX with its logits, if transformers classifies with it")
}

/// A decoder's head, on the last token that is no padding; `default` is its class's padding token.
fn last(config: &Value, default: Option<u32>, steps: Vec<Step>) -> HeadSteps {
    let padding = match config.get("pad_token_id") {
        Some(stated) => stated.as_u64().and_then(|id| u32::try_from(id).ok()),
        None => default,
    };
    HeadSteps {
        not_last: padding,
        ..HeadSteps::of(PoolingMode::LastToken, steps)
    }
}

fn unknown_pooling(named: &str) -> Cause {
    format!("has the classifier_pooling '{named}', which embedctl does not know").into()
}
