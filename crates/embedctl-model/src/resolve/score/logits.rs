//! Scores by a decoder's logits: that of one token, less that of another, behind the last token of a text.

use std::path::Path;

use serde_json::Value;

use super::heads::HeadSteps;
use super::tensors::HeadTensors;
use crate::metadata::is_true;
use crate::modules::LogitScore;
use embedctl_common::error::{Error, Result};
use embedctl_rows::{Dense, DenseActivation, PoolingMode, Residual, Step};

/// The head that gives the score of a `LogitScore` module over a causal network of states of `width` components.
///
/// # Errors
/// If the checkpoint has no such logits.
pub(super) fn head(
    asked: &LogitScore,
    config: &Value,
    file: &Path,
    tensors: &HeadTensors,
    width: usize,
) -> Result<HeadSteps> {
    let kind = config["model_type"].as_str().unwrap_or_default();
    let Some((_, ties)) = KNOWN.iter().find(|(known, _)| *known == kind) else {
        return Err(Error::model(
            file.display(),
            format!("is of the model_type '{kind}', whose logits embedctl does not know"),
        ));
    };
    // Without a matrix of its own, the head of a class that ties it shares the table of tokens. Any other would be random.
    let is_tied = config.get("tie_word_embeddings").map_or(*ties, is_true);
    let table = match is_tied && !tensors.has("lm_head.weight")? {
        false => "lm_head.weight",
        true if kind.starts_with("gpt") => "wte.weight",
        true => "embed_tokens.weight",
    };
    let cap = match config.get("final_logit_softcapping") {
        Some(stated) => stated.as_f64(),
        None if kind == "gemma2" => Some(30.0),
        None => None,
    };
    let divisor = match kind {
        "granite" => config["logits_scaling"].as_f64().unwrap_or(1.0),
        _ => 1.0,
    } * cap.unwrap_or(1.0);
    let ids: Vec<u32> = [Some(asked.true_token_id), asked.false_token_id]
        .into_iter()
        .flatten()
        .collect();
    let (mut weight, mut bias) = (Vec::new(), Vec::new());
    #[allow(clippy::cast_possible_truncation)] // as PyTorch computes with them
    let divisor = divisor as f32;
    for &id in &ids {
        let row = tensors.row(table, "lm_head", id, width)?;
        weight.extend(row.into_iter().map(|value| value / divisor));
        if tensors.has("lm_head.bias")? {
            bias.push(tensors.value("lm_head.bias", id)? / divisor);
        }
    }
    let linear = |weight: Vec<f32>, bias, input, output, activation| {
        Step::Dense(Dense {
            weight: weight.into(),
            bias,
            input,
            output,
            activation,
            residual: Residual::None,
        })
    };
    let activation = match cap {
        Some(_) => DenseActivation::Tanh,
        None => DenseActivation::Identity,
    };
    #[allow(clippy::cast_possible_truncation)]
    let scale = cap.unwrap_or(1.0) as f32;
    let difference: Vec<f32> = [scale, -scale].into_iter().take(ids.len()).collect();
    Ok(HeadSteps {
        modes: vec![PoolingMode::LastToken],
        token_steps: Vec::new(),
        not_last: None,
        steps: vec![
            linear(weight, bias, width, ids.len(), activation),
            linear(
                difference,
                Vec::new(),
                ids.len(),
                1,
                DenseActivation::Identity,
            ),
        ],
    })
}

/// Decoders whose logits are a product of their last state, and whether their class ties the head to the table of tokens
/// where config.json does not say it.
const KNOWN: [(&str, bool); 17] = [
    ("llama", false),
    ("mistral", false),
    ("ministral", false),
    ("qwen2", false),
    ("qwen3", false),
    ("qwen3_5_text", false),
    ("qwen3_moe", false),
    ("gemma", true),
    ("gemma2", true),
    ("gemma3_text", true),
    ("gpt2", true),
    ("gpt_neo", true),
    ("phi3", false),
    ("olmo", false),
    ("olmo2", false),
    ("smollm3", true),
    ("granite", false),
];
