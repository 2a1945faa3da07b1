//! How token states become a vector, the modules after pooling, and the vector's width after each.

use std::path::Path;

use serde_json::Value;

use super::output::SENTENCE_OUTPUT;
use crate::heads::INNER_PROJECTION;
use crate::metadata::{self, TransformerConfig};
use crate::modules::Modules;
use crate::options::ModelOptions;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{DIMENSIONS, MODEL_FILE, NORMALIZE, POOLING};
use embedctl_onnx::graph::Graph;
use embedctl_rows::{Dense, OutputChoice, PoolingMode, Step};

/// How a network's output becomes the numbers of a row.
#[derive(Default)]
pub(crate) struct Pooled {
    pub modes: Vec<PoolingMode>,
    pub include_prompt: bool,
    pub token_steps: Vec<Step>,
    pub not_last: Option<u32>,
    pub steps: Vec<Step>,
    pub width: Option<usize>,
}

impl Pooled {
    /// Puts a linear layer without a bias behind the states of all tokens. It may as well follow pooling that sums them with
    /// weights, which costs a product for each row alone.
    ///
    /// # Errors
    /// If states are pooled otherwise.
    pub(super) fn project(&mut self, layer: Dense, root: &Path) -> Result<()> {
        match self.modes[..] {
            [PoolingMode::Max] | [] | [_, _, ..] => Err(Error::model(
                root.display(),
                format!(
                    "the checkpoint has a layer behind the network ({INNER_PROJECTION}), which embedctl takes with one \
                     pooling mode other than max"
                ),
            )
            .with_remedy(format!("choose one with {POOLING}"))),
            [_] => {
                self.steps.insert(0, Step::Dense(layer));
                Ok(())
            }
        }
    }
}

/// How a network's output becomes a vector in full.
///
/// # Errors
/// If the files do not say it, or `options` ask for pooling where there is nothing to pool.
pub(super) fn pooling(
    modules: Option<Modules>,
    transformer: &TransformerConfig,
    output: &OutputChoice,
    options: &ModelOptions,
    notes: &mut Vec<String>,
    root: &Path,
) -> Result<Pooled> {
    // An output named by the module's files is not a finished vector: the modules work on it.
    let named = matches!(output, OutputChoice::Sentence(name) if name != SENTENCE_OUTPUT);
    if let (true, Some(modules)) = (named, &modules) {
        refuse_pooling_of_a_vector(modules, output, options, root)?;
        return Ok(Pooled {
            include_prompt: true,
            steps: modules.steps.clone(),
            ..Pooled::default()
        });
    }
    if let OutputChoice::Sentence(name) = output {
        return finished(modules.as_ref(), name, options, notes);
    }
    let mut pooled = match modules {
        Some(modules) => pooling_of_modules(modules, options, root)?,
        None => usual_pooling(transformer, options, notes),
    };
    if let Some(modes) = &options.pooling {
        if modes.is_empty() {
            return Err(Error::usage(format!("{POOLING} needs at least one mode")));
        }
        pooled.modes.clone_from(modes);
    }
    Ok(pooled)
}

/// Refuses pooling, by the user or the model's files, of a network that gives one vector a text.
fn refuse_pooling_of_a_vector(
    modules: &Modules,
    output: &OutputChoice,
    options: &ModelOptions,
    root: &Path,
) -> Result<()> {
    let what = match (&options.pooling, &modules.pooling) {
        (Some(_), _) => POOLING.to_string(),
        (None, Some(_)) => "modules.json's Pooling".to_owned(),
        (None, None) => return Ok(()),
    };
    Err(Error::model(
        root.display(),
        format!(
            "{what} has nothing to pool: the network gives one vector a text ({})",
            output.name()
        ),
    ))
}

/// The finished vectors of a graph's output `name`.
fn finished(
    modules: Option<&Modules>,
    name: &str,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Result<Pooled> {
    if options.pooling.is_some() {
        return Err(Error::usage(format!(
            "{POOLING} has nothing to pool: the graph gives finished vectors ('{name}')"
        ))
        .with_remedy(format!("another export can be named with {MODEL_FILE}")));
    }
    let mut later = modules.into_iter().flat_map(|modules| &modules.steps);
    if later.any(|step| matches!(step, Step::Dense(_) | Step::LayerNorm(_))) {
        notes.push(format!(
            "the graph's only output is '{name}': it is taken as final and the Dense and LayerNorm modules of \
             modules.json are not applied again"
        ));
    }
    Ok(Pooled {
        include_prompt: true,
        ..Pooled::default()
    })
}

/// Pooling by `modules.json`.
fn pooling_of_modules(modules: Modules, options: &ModelOptions, root: &Path) -> Result<Pooled> {
    let (modes, include_prompt, width) = match modules.pooling {
        Some(pooling) => (pooling.modes, pooling.include_prompt, pooling.width),
        None if options.pooling.is_some() => (Vec::new(), true, None),
        None => {
            return Err(Error::model(
                root.join("modules.json").display(),
                "has no Pooling module, so it does not say how tokens become a vector",
            )
            .with_remedy(format!("name a mode with {POOLING}")));
        }
    };
    Ok(Pooled {
        modes,
        include_prompt,
        steps: modules.steps,
        width,
        ..Pooled::default()
    })
}

/// Pooling as the reference chooses it without `modules.json`.
fn usual_pooling(
    transformer: &TransformerConfig,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Pooled {
    let architecture = transformer.architectures.iter().flatten().next();
    let causal = architecture.is_some_and(|name| name.ends_with("ForCausalLM"))
        && transformer.is_causal.unwrap_or(true);
    let mode = if causal {
        PoolingMode::LastToken
    } else {
        PoolingMode::Mean
    };
    if options.pooling.is_none() {
        notes.push(format!(
            "the repository has no modules.json: taking {} pooling without normalization, as sentence-transformers \
             does ({POOLING} and {NORMALIZE} override)",
            mode.name()
        ));
    }
    Pooled {
        modes: vec![mode],
        include_prompt: true,
        ..Pooled::default()
    }
}

pub(super) fn hidden_width(
    graph: Option<&Graph>,
    output: &OutputChoice,
    transformer: &TransformerConfig,
    pooling: Option<usize>,
) -> Option<usize> {
    let Some(graph) = graph else {
        // Pooling's statement about the network's width is not used.
        return transformer.width().or(pooling);
    };
    let declared = graph.output(output.name());
    let declared = declared.and_then(|value| value.shape.last().copied().flatten());
    declared.or(pooling).or_else(|| transformer.width())
}

/// Checks the modules' widths one after another; returns the last one's.
pub(super) fn check_widths(
    hidden: usize,
    output: &OutputChoice,
    pooled: &Pooled,
    root: &Path,
) -> Result<usize> {
    if !(1..=metadata::MOST_WIDTH).contains(&hidden) {
        return Err(Error::model(
            root.display(),
            format!(
                "the ONNX file declares an output of {hidden} components, but the limit is {}",
                metadata::MOST_WIDTH
            ),
        )
        .with_remedy("fetch it again"));
    }
    let width = match output {
        OutputChoice::Sentence(_) => hidden,
        OutputChoice::Tokens(_) => hidden * pooled.modes.len(),
    };
    width_after(width, &pooled.steps, root)
}

/// The width of a vector of `width` components after these modules.
pub(crate) fn width_after(mut width: usize, steps: &[Step], root: &Path) -> Result<usize> {
    for step in steps {
        let (expected, next) = match step {
            Step::Dense(dense) => (dense.input, dense.output),
            Step::LayerNorm(norm) => (norm.weight.len(), norm.weight.len()),
            Step::AutoEncoder(module) => (module.input, module.output),
            Step::Normalize | Step::Activation(_) => (width, width),
        };
        if expected != width {
            return Err(Error::model(
                root.display(),
                format!(
                    "a module of modules.json takes vectors of {expected} components but gets {width}"
                ),
            )
            .with_remedy(format!("with {POOLING}, choose modes that fit it")));
        }
        width = next;
    }
    Ok(width)
}

/// The components that are kept, and the width of all vectors of a row together.
pub(crate) fn dimensions(
    full: usize,
    options: &ModelOptions,
    (file, stated): (&Path, Option<&Value>),
) -> Result<(Vec<usize>, usize)> {
    let asked = &options.dimensions;
    if let Some(wrong) = asked.iter().find(|&&asked| asked == 0 || asked > full) {
        return Err(Error::usage(format!(
            "{DIMENSIONS} {wrong} is not possible: this model's vectors have {full} components"
        )));
    }
    if let Some(twice) = (1..asked.len()).find(|&index| asked[..index].contains(&asked[index])) {
        let twice = asked[twice];
        return Err(Error::usage(format!(
            "{DIMENSIONS}: {twice} is listed twice"
        )));
    }
    let kept = match &asked[..] {
        [] => stated
            .map(|stated| truncated(full, file, stated))
            .transpose()?
            .filter(|&kept| kept < full)
            .into_iter()
            .collect(),
        [one] if *one == full => Vec::new(),
        asked => asked.to_vec(),
    };
    let width = match kept.is_empty() {
        true => full,
        false => kept.iter().sum(),
    };
    Ok((kept, width))
}

/// The components that `truncate_dim` of `file` keeps of `full`: Python's slice up to it.
fn truncated(full: usize, file: &Path, stated: &Value) -> Result<usize> {
    let end = match stated {
        Value::Bool(one) => Some(i64::from(*one)),
        other => other.as_i64(),
    };
    let refuse = |reason: String| {
        Error::model(file.display(), reason).with_remedy(format!("choose with {DIMENSIONS}"))
    };
    let Some(end) = end else {
        return Err(refuse(format!("the truncate_dim {stated} is no integer")));
    };
    let size = usize::try_from(end.unsigned_abs()).unwrap_or(usize::MAX);
    let kept = if end < 0 {
        full.saturating_sub(size)
    } else {
        size.min(full)
    };
    match kept {
        0 => Err(refuse(format!(
            "the truncate_dim {stated} leaves no component of {full}"
        ))),
        kept => Ok(kept),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_a_graph_the_networks_own_width_counts() {
        let width = |config| {
            let transformer = serde_json::from_value(config).unwrap();
            hidden_width(
                None,
                &OutputChoice::Tokens("states".into()),
                &transformer,
                Some(24),
            )
        };
        assert_eq!(width(json!({ "hidden_size": 32 })), Some(32));
        assert_eq!(width(json!({})), Some(24));
    }

    #[test]
    fn a_causal_model_without_modules_pools_its_last_token_unless_it_says_that_it_is_not_causal() {
        let mode = |causal: Value| {
            let mut config = json!({"architectures": ["LlamaForCausalLM"], "is_causal": causal});
            if causal == json!("left out") {
                config.as_object_mut().unwrap().remove("is_causal");
            }
            let transformer = serde_json::from_value(config).unwrap();
            usual_pooling(&transformer, &ModelOptions::default(), &mut Vec::new()).modes
        };
        for causal in [json!("left out"), json!(true)] {
            assert_eq!(mode(causal), [PoolingMode::LastToken]);
        }
        // Null is false in Python.
        for causal in [json!(false), Value::Null] {
            assert_eq!(mode(causal), [PoolingMode::Mean]);
        }
    }
}
