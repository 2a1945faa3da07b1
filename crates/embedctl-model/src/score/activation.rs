//! The function that a model's files name for its scores, and those that heads have inside.

use serde_json::Value;

use embedctl_common::error::Cause;
use embedctl_rows::DenseActivation;

/// The function over a model's scores: by config_sentence_transformers.json (`whole`), else by config.json, else the
/// reference's default for so many labels. `None` where it changes nothing.
///
/// # Errors
/// If the files name a function of torch that is not known.
pub(crate) fn of_scores(
    whole: Option<&str>,
    config: &Value,
    labels: usize,
    notes: &mut Vec<String>,
) -> Result<Option<DenseActivation>, Cause> {
    let of_config = &config["sentence_transformers"]["activation_fn"];
    // The newer key goes before the older one, even where it is null.
    let of_config = match config["sentence_transformers"].get("activation_fn") {
        Some(_) => of_config,
        None => &config["sbert_ce_default_activation_function"],
    };
    for named in [whole, of_config.as_str()].into_iter().flatten() {
        if let Some(known) = DenseActivation::parse(named) {
            return Ok(effective(known));
        }
        if named.starts_with("torch.") {
            let reason = format!(
                "names the activation {named} for scores, which embedctl does not know; it knows the classes of \
                 torch.nn that need no arguments and no weights"
            );
            return Err(reason.into());
        }
        notes.push(format!(
            "the model's files name the activation {named}, which is the repository's own code: the default is taken, as \
             the reference does without trust_remote_code"
        ));
    }
    Ok(match labels {
        1 => Some(DenseActivation::Sigmoid),
        _ => None,
    })
}

/// The function, unless it changes nothing.
fn effective(activation: DenseActivation) -> Option<DenseActivation> {
    (activation != DenseActivation::Identity).then_some(activation)
}

/// A function under the names that config.json has for those inside a network.
///
/// # Errors
/// If it is not known.
pub(crate) fn of_head(name: &str) -> Result<DenseActivation, Cause> {
    Ok(match name {
        "gelu" => DenseActivation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_fast" | "gelu_accurate" => {
            DenseActivation::GeluTanh
        }
        "relu" => DenseActivation::Relu,
        "relu6" => DenseActivation::Relu6,
        "tanh" => DenseActivation::Tanh,
        "silu" | "swish" => DenseActivation::Silu,
        "sigmoid" => DenseActivation::Sigmoid,
        "mish" => DenseActivation::Mish,
        "linear" => DenseActivation::Identity,
        "leaky_relu" => DenseActivation::LeakyRelu,
        other => {
            return Err(format!(
                "names the activation '{other}' for its classification head, which embedctl does not know"
            )
            .into());
        }
    })
}
