//! The choice of the graph's output to read: token-level states, or finished vectors.

use std::path::Path;

use crate::sentence_config::SentenceConfig;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MODEL_FILE;
use embedctl_onnx::graph::Graph;
use embedctl_rows::OutputChoice;

/// Names under which exports publish token-level states, in order of preference.
pub(super) const TOKEN_OUTPUTS: [&str; 2] = ["last_hidden_state", "token_embeddings"];

/// The name under which exports publish finished vectors.
pub(super) const SENTENCE_OUTPUT: &str = "sentence_embedding";

/// Whether a graph publishes the states of tokens.
pub(crate) fn gives_states(graph: &Graph) -> bool {
    TOKEN_OUTPUTS
        .iter()
        .any(|name| graph.output(name).is_some())
}

/// Whether the only readable output of a graph is one vector per text.
pub(crate) fn gives_finished_vectors(graph: &Graph, has_modules: bool) -> bool {
    graph.output(SENTENCE_OUTPUT).is_some() && (!gives_states(graph) || !has_modules)
}

/// The output of a graph that holds a row's logits `[rows, labels]`.
pub(super) fn choose_logits(graph: &Graph, root: &Path) -> Result<OutputChoice> {
    let is_flat = |rank: usize| rank == 2;
    let named = ["logits", "scores"].into_iter().find(|name| {
        let output = graph.output(name);
        output.is_some_and(|output| is_flat(output.shape.len()))
    });
    let only = match graph.outputs.as_slice() {
        [only] if is_flat(only.shape.len()) => Some(only.name.as_str()),
        _ => None,
    };
    if let Some(name) = named.or(only) {
        return Ok(OutputChoice::Sentence(name.to_owned()));
    }
    let names: Vec<&str> = graph.outputs.iter().map(|one| one.name.as_str()).collect();
    Err(Error::model(
        root.display(),
        format!(
            "the graph's outputs are {}; none is `logits` with one row a text, so it is not an export for scoring",
            names.join(", ")
        ),
    )
    .with_remedy(format!("another file can be named with {MODEL_FILE}")))
}

/// The output of a graph that holds the logits of each token `[rows, length, vocabulary]`.
pub(super) fn choose_term_logits(graph: &Graph, root: &Path) -> Result<OutputChoice> {
    let has = |name: &&str| {
        let output = graph.output(name);
        output.is_some_and(|output| output.shape.len() == 3)
    };
    if let Some(name) = ["logits", "token_embeddings"].iter().find(|name| has(name)) {
        return Ok(OutputChoice::Tokens((*name).to_owned()));
    }
    let names: Vec<&str> = graph.outputs.iter().map(|one| one.name.as_str()).collect();
    Err(Error::model(
        root.display(),
        format!(
            "the graph's outputs are {}; none is `logits` with a row for each token, so it is not an export of a masked \
             language model",
            names.join(", ")
        ),
    )
    .with_remedy(format!("another file can be named with {MODEL_FILE}")))
}

pub(super) fn choose_output(
    graph: Option<&Graph>,
    has_modules: bool,
    sentence_config: &SentenceConfig,
    notes: &mut Vec<String>,
    root: &Path,
) -> Result<OutputChoice> {
    let Some(graph) = graph else {
        if let (Some((name, _)), Some(file)) = (&sentence_config.output, &sentence_config.file) {
            return Err(Error::model(
                file.display(),
                format!(
                    "reads the network's output '{name}' (method_output_name), which the native engine does not have"
                ),
            )
            .with_remedy("export the model to ONNX with it"));
        }
        return Ok(OutputChoice::Tokens(TOKEN_OUTPUTS[0].into()));
    };
    if let (Some((name, is_sentence)), Some(file)) =
        (&sentence_config.output, &sentence_config.file)
    {
        let rank = graph.output(name).map(|output| output.shape.len());
        match (rank, *is_sentence) {
            (Some(2), true) => return Ok(OutputChoice::Sentence(name.clone())),
            (Some(3), false) => return Ok(OutputChoice::Tokens(name.clone())),
            _ if graph.output(SENTENCE_OUTPUT).is_some() => {
                notes.push(format!(
                    "{} reads the network's output '{name}', which the graph does not have: its '{SENTENCE_OUTPUT}' is \
                     taken as final",
                    file.display()
                ));
                return Ok(OutputChoice::Sentence(SENTENCE_OUTPUT.into()));
            }
            _ => {
                let names: Vec<&str> = graph.outputs.iter().map(|one| one.name.as_str()).collect();
                return Err(Error::model(
                    file.display(),
                    format!(
                        "reads the network's output '{name}' (method_output_name), but the graph has {}",
                        names.join(", ")
                    ),
                )
                .with_remedy(format!(
                    "export the model with that output, or name another file with {MODEL_FILE}"
                )));
            }
        }
    }
    let tokens = TOKEN_OUTPUTS
        .into_iter()
        .find(|name| graph.output(name).is_some());
    if gives_finished_vectors(graph, has_modules) {
        return Ok(OutputChoice::Sentence(SENTENCE_OUTPUT.into()));
    }
    if let Some(name) = tokens {
        return Ok(OutputChoice::Tokens(name.into()));
    }
    if let [only] = graph.outputs.as_slice()
        && only.shape.len() == 3
    {
        return Ok(OutputChoice::Tokens(only.name.clone()));
    }
    let names: Vec<&str> = graph
        .outputs
        .iter()
        .map(|output| output.name.as_str())
        .collect();
    Err(Error::model(
        root.display(),
        format!(
            "the graph's outputs are {}; none is last_hidden_state, token_embeddings or sentence_embedding, so it is not an \
             export for embedding",
            names.join(", ")
        ),
    )
    .with_remedy(format!("another file can be named with {MODEL_FILE}")))
}
