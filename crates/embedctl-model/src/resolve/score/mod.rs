//! How a model's files say that scores are made.

mod heads;
mod logits;
mod tensors;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::Pooled;
use crate::modules::{LogitScore, Modules};
use crate::options::{ModelOptions, ScoreTask, refuse_given};
use crate::score::ChatTemplate;
use crate::score::{activation, labels};
use crate::sentence_config::SentenceConfig;
use crate::tokenizer::TokenizerFiles;
use crate::{CheckpointFiles, metadata};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{MAX_ACTIVE_DIMS, TASK, VECTORS};
use embedctl_rows::DenseActivation::Softmax;
use embedctl_rows::Step;
use embedctl_rows::score::{ChatFormat, ScoreKind};
use heads::HeadSteps;
use tensors::HeadTensors;

/// The files that decide a model's scores, read.
pub(crate) struct ScoreFiles<'a> {
    pub task: ScoreTask,
    pub root: &'a Path,
    /// The Transformer's folder.
    pub folder: &'a Path,
    /// The network's config.json.
    pub config_file: &'a Path,
    pub modules: Option<Modules>,
    /// The checkpoint that is run; `None` where the graph gives logits.
    pub checkpoint: Option<&'a CheckpointFiles>,
    pub sentence: &'a SentenceConfig,
    /// The activation that config_sentence_transformers.json names.
    pub activation: Option<&'a str>,
    pub tokenizer: &'a TokenizerFiles,
    /// Width of a token's state.
    pub width: Option<usize>,
}

/// The head of a model, and what is known of its scores.
pub(crate) type ScoreHead = (Pooled, ScoreKind);

/// Resolves how `files` say that scores are made.
///
/// # Errors
/// If they do not say it, or say what embedctl does not do.
pub(crate) fn resolve(
    files: ScoreFiles<'_>,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Result<ScoreHead> {
    check(options)?;
    let refuse = |cause| Error::model(files.config_file.display(), cause);
    let config = metadata::read_value(files.config_file)?.unwrap_or_default();
    let chat = files.chat(&config, notes)?;
    let mut labels = labels::labels(&config);
    let mut pooled = match files.checkpoint {
        Some(checkpoint) => files.head(checkpoint, &config, &mut labels)?,
        None => Pooled {
            include_prompt: true,
            width: Some(labels.len()),
            ..Pooled::default()
        },
    };
    let activation = activation::of_scores(files.activation, &config, labels.len(), notes);
    let mut activations: Vec<_> = activation.map_err(refuse)?.into_iter().collect();
    let softmax = files.task.softmax && labels.len() > 1;
    if softmax {
        activations.push(Softmax);
    } else if files.task.softmax {
        notes.push("softmax has no effect: the model gives one score".into());
    }
    let functions = activations
        .iter()
        .map(|&function| Step::Activation(function));
    pooled.steps.extend(functions);
    let kind = ScoreKind {
        labels,
        pairs: files.task.pairs,
        softmax,
        activations,
        chat,
    };
    Ok((pooled, kind))
}

/// Refuses options about vectors.
fn check(options: &ModelOptions) -> Result<()> {
    let vectors = [
        (VECTORS, !options.vectors.is_empty()),
        (TASK, options.text_task.is_some()),
        (MAX_ACTIVE_DIMS, options.max_active_dims.is_some()),
    ];
    let instead = "scores are asked for";
    refuse_given(&vectors, "vectors", instead)?;
    options.refuse_dense("vectors", instead)
}

impl ScoreFiles<'_> {
    /// The template of the chat that texts are put into, if they are.
    fn chat(&self, config: &Value, notes: &mut Vec<String>) -> Result<Option<Arc<dyn ChatFormat>>> {
        let Some(file) = &self.tokenizer.chat_template else {
            return Ok(None);
        };
        let format = match (&self.sentence.chat, &self.modules) {
            (Some((true, format)), _) => format.as_deref(),
            // Modules that say nothing of chats were saved before there were any.
            (Some((false, _)), _) | (None, Some(_)) => return Ok(None),
            (None, None) if self.task.pairs => None,
            (None, None) => {
                notes.push(format!(
                    "{file} holds a chat template, which is not used for single texts: transformers' classifiers read \
                     them as they are"
                ));
                return Ok(None);
            }
        };
        let kind = config["model_type"].as_str().unwrap_or_default();
        let template = ChatTemplate::read(
            self.folder,
            format,
            kind,
            &self.tokenizer.names,
            &self.sentence.texts.chat,
        )?;
        if self.task.pairs {
            template.check_roles()?;
        }
        Ok(Some(Arc::new(template)))
    }

    /// The head of the checkpoint; `labels` become those that it has.
    fn head(
        &self,
        checkpoint: &CheckpointFiles,
        config: &Value,
        labels: &mut Vec<String>,
    ) -> Result<Pooled> {
        let width = self.width.ok_or_else(|| {
            Error::model(
                self.config_file.display(),
                "does not say how wide a hidden state is (hidden_size)",
            )
        })?;
        let tensors = HeadTensors::open(checkpoint)?;
        let task = self.sentence.task.as_deref();
        let head = match (&self.modules, task) {
            (Some(modules), None) => return self.pooled(modules, labels),
            (Some(modules), Some("text-generation")) => {
                let Some(asked) = &modules.logit_score else {
                    return Err(Error::model(
                        self.root.join("modules.json").display(),
                        "has no LogitScore module, so it does not say how logits become a score",
                    ));
                };
                *labels = vec!["LABEL_0".into()];
                logits::head(asked, config, self.config_file, &tensors, width)?
            }
            (Some(_), Some(task)) if task != "sequence-classification" => {
                let file = self.sentence.file.as_deref().unwrap_or(self.root);
                return Err(Error::model(
                    file.display(),
                    format!("asks for the transformer_task \"{task}\", which gives no scores"),
                ));
            }
            // An adapter that was trained to classify makes another class of a causal base model.
            (None, _) if is_causal(config) && !tensors.has_saved_classifier() => {
                *labels = vec!["LABEL_0".into()];
                let asked = self.yes_and_no()?;
                logits::head(&asked, config, self.config_file, &tensors, width)?
            }
            _ => self.classifier(&tensors, config, width, labels)?,
        };
        let mut steps = head.steps;
        if let Some(modules) = &self.modules {
            steps.extend(modules.steps.iter().cloned());
        }
        Ok(Pooled {
            modes: head.modes,
            include_prompt: true,
            token_steps: head.token_steps,
            not_last: head.not_last,
            steps,
            width: None,
        })
    }

    /// The classification head of the network's own class.
    fn classifier(
        &self,
        tensors: &HeadTensors,
        config: &Value,
        width: usize,
        labels: &mut Vec<String>,
    ) -> Result<HeadSteps> {
        let head = heads::head(config, self.config_file, tensors, width)?;
        let outputs = head.steps.iter().rev().find_map(|step| match step {
            Step::Dense(dense) => Some(dense.output),
            _ => None,
        });
        if let Some(outputs) = outputs.filter(|_| tensors.has_saved_classifier()) {
            // The base model's labels are not those that the adapter was trained for, unless they are as many.
            if outputs != labels.len() {
                *labels = (0..outputs).map(|label| format!("LABEL_{label}")).collect();
            }
        }
        if outputs != Some(labels.len()) {
            return Err(Error::model(
                self.config_file.display(),
                format!(
                    "names {} labels, but the checkpoint's classifier has {}",
                    labels.len(),
                    outputs.unwrap_or(0)
                ),
            )
            .with_remedy("correct id2label"));
        }
        Ok(head)
    }

    /// Pooling and dense modules of modules.json, behind a network that gives states.
    fn pooled(&self, modules: &Modules, labels: &mut Vec<String>) -> Result<Pooled> {
        let Some(pooling) = &modules.pooling else {
            return Err(Error::model(
                self.root.join("modules.json").display(),
                "has no Pooling module, so it does not say how tokens become a score",
            ));
        };
        let outputs = modules.steps.iter().rev().find_map(|step| match step {
            Step::Dense(dense) => Some(dense.output),
            _ => None,
        });
        let outputs = outputs.ok_or_else(|| {
            Error::model(
                self.root.join("modules.json").display(),
                "has no Dense module that makes scores of vectors",
            )
        })?;
        if outputs != labels.len() {
            *labels = (0..outputs).map(|label| format!("LABEL_{label}")).collect();
        }
        Ok(Pooled {
            modes: pooling.modes.clone(),
            include_prompt: pooling.include_prompt,
            steps: modules.steps.clone(),
            width: pooling.width,
            ..Pooled::default()
        })
    }

    /// The score of a causal model without modules.json: by the tokens `yes` and `no`.
    fn yes_and_no(&self) -> Result<LogitScore> {
        let tokenizer = &self.tokenizer.tokenizer;
        let unknown = self
            .tokenizer
            .names
            .iter()
            .find(|(name, _)| name == "unk_token");
        let id = |word: &str| {
            let unknown = || tokenizer.token_to_id(&unknown?.1);
            tokenizer.token_to_id(word).or_else(unknown).ok_or_else(|| {
                Error::model(
                    self.folder.join("tokenizer.json").display(),
                    format!(
                        "has no token '{word}', by which a causal model without modules.json scores"
                    ),
                )
                .with_remedy("add modules.json with a LogitScore module that names the tokens")
            })
        };
        Ok(LogitScore {
            true_token_id: id("yes")?,
            false_token_id: Some(id("no")?),
        })
    }
}

/// Whether the network's class is a causal language model.
fn is_causal(config: &Value) -> bool {
    let class = config["architectures"][0].as_str();
    class.is_some_and(|class| class.ends_with("ForCausalLM"))
}
