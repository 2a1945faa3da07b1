//! How a model's files say that sparse vectors are made.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::Pooled;
use crate::heads;
use crate::metadata;
use crate::modules::{Modules, SparseModule};
use crate::options::{ModelOptions, ModelTask};
use crate::sentence_config::SentenceConfig;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::VECTORS;
use embedctl_kernels::TermPooling;
use embedctl_onnx::graph::Graph;
use embedctl_rows::sparse::SparseKind;
use embedctl_rows::{OutputChoice, Step};
use embedctl_vectors::RowForm;

/// The files that decide a model's sparse vectors, read.
pub(crate) struct SparseFiles<'a> {
    pub root: &'a Path,
    /// The network's config.json.
    pub config_file: &'a Path,
    pub modules: Option<&'a Modules>,
    pub sentence: &'a SentenceConfig,
    /// `model_type` of config_sentence_transformers.json.
    pub model_type: Option<&'a str>,
    /// Entries that are kept at most, where the user or that file says so.
    pub most: Option<usize>,
}

/// Refuses options about vectors in full.
pub(crate) fn refuse_dense(options: &ModelOptions) -> Result<()> {
    options.refuse_dense("vectors in full", "this model's are sparse")
}

/// Whether sparse vectors alone are asked for.
fn wants_sparse(options: &ModelOptions) -> bool {
    matches!(options.vectors[..], [RowForm::Sparse(_)])
}

/// Whether sparse vectors are asked for and a layer in `root` gives each token its weight.
pub(crate) fn is_weighed(root: &Path, options: &ModelOptions) -> bool {
    let is_asked = options.task == ModelTask::Embed && wants_sparse(options);
    is_asked && heads::head(root, heads::SPARSE_HEAD).is_some()
}

/// Whether sparse vectors are asked for and no layer in `root` gives tokens their weights: without modules that say
/// otherwise, the logits of a masked language model become the weights of terms.
pub(crate) fn wants_terms(root: &Path, options: &ModelOptions) -> bool {
    wants_sparse(options) && !is_weighed(root, options)
}

/// The kind of a model's sparse vectors; `None` where its vectors are given in full.
///
/// # Errors
/// If the files contradict what is asked for, or ask for what embedctl does not do.
pub(crate) fn resolve(
    files: &SparseFiles<'_>,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Result<Option<SparseKind>> {
    let module = files.modules.and_then(|modules| modules.sparse);
    let wants = wants_sparse(options);
    let is_sparse = module.is_some() || files.model_type == Some("SparseEncoder") || wants;
    let other = (options.vectors.iter()).find(|form| !form.is_sparse());
    if let (Some(_), Some(other)) = (module, other) {
        return Err(Error::usage(format!(
            "{VECTORS} {}: modules.json makes this model's vectors sparse",
            other.name()
        ))
        .with_remedy("leave it out"));
    }
    if !is_sparse || other.is_some() {
        return Ok(None);
    }
    refuse_dense(options)?;
    let of_module = match module {
        Some(SparseModule::AutoEncoder(kept)) => Some(kept),
        _ => None,
    };
    let mut kind = SparseKind {
        terms: None,
        by_token: module == Some(SparseModule::Tokens),
        weighed: None,
        most: files.most.or(of_module),
    };
    if module.is_none() && is_weighed(files.root, options) {
        // The tokens without a weight follow from the tokenizer.
        kind.weighed = Some(BTreeSet::new());
        return Ok(Some(kind));
    }
    let fills_masks = files.sentence.task.as_deref() == Some("fill-mask");
    match (module, files.modules) {
        (Some(SparseModule::Terms(pooling)), Some(modules)) => {
            if !modules.is_masked && !fills_masks {
                return Err(Error::model(
                    files.root.join("modules.json").display(),
                    "puts a SpladePooling module behind a Transformer that gives states and no logits (its \
                     transformer_task is not fill-mask)",
                ));
            }
            let other = |step: &&Step| !matches!(step, Step::Normalize);
            if modules.steps.iter().find(other).is_some() {
                return Err(Error::model(
                    files.root.join("modules.json").display(),
                    "has a module behind SpladePooling that works on vectors in full, which embedctl does not run",
                ));
            }
            kind.terms = Some(pooling);
        }
        (_, Some(_)) => {
            if module.is_none() && wants && files.model_type != Some("SparseEncoder") {
                return Err(Error::model(
                    files.root.join("modules.json").display(),
                    "describes vectors in full, which only an untrained autoencoder would make sparse",
                )
                .with_remedy(format!(
                    "leave {VECTORS} out, or fetch {} if the repository has it",
                    heads::SPARSE_HEAD
                )));
            }
            if fills_masks {
                files.sentence.check_gives_states()?;
            }
        }
        (_, None) => {
            let config = metadata::read_value(files.config_file)?.unwrap_or_default();
            let classes = config["architectures"].as_array().into_iter().flatten();
            let is_masked = classes
                .filter_map(Value::as_str)
                .any(|class| class.ends_with("ForMaskedLM"));
            if !is_masked {
                return Err(Error::model(
                    files.config_file.display(),
                    "is not that of a masked language model (no class …ForMaskedLM), and there is no modules.json that \
                     says how sparse vectors are made",
                )
                .with_remedy(format!("leave {VECTORS} out")));
            }
            notes.push(
                "the repository has no modules.json: the greatest logit of each term counts (SPLADE), as \
                 sentence-transformers' SparseEncoder has it"
                    .into(),
            );
            kind.terms = Some(TermPooling {
                sums: false,
                twice: false,
            });
        }
    }
    Ok(Some(kind))
}

/// The modules behind the network, and the width of a vector in full where they do not say it: the number of terms.
///
/// # Errors
/// If the files do not say how many terms there are.
pub(crate) fn pooled(
    modules: Option<Modules>,
    graph: Option<(&Graph, &OutputChoice)>,
    config_file: &Path,
) -> Result<(Pooled, usize)> {
    let config = metadata::read_value(config_file)?.unwrap_or_default();
    let declared = graph.and_then(|(graph, output)| {
        let shape = &graph.output(output.name())?.shape;
        shape.last().copied().flatten()
    });
    let stated = config["vocab_size"]
        .as_u64()
        .and_then(|terms| usize::try_from(terms).ok());
    let terms = declared.or(stated).ok_or_else(|| {
        Error::model(
            config_file.display(),
            "does not say how many terms the vocabulary has (vocab_size)",
        )
    })?;
    let pooled = Pooled {
        include_prompt: true,
        steps: modules.map_or_else(Vec::new, |modules| modules.steps),
        ..Pooled::default()
    };
    Ok((pooled, terms))
}
