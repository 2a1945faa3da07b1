//! What a model's metadata files state, read once.

use std::path::{Path, PathBuf};

use super::ModelSources;
use super::sparse::{self, SparseFiles};
use crate::metadata::{self, SentenceTransformersConfig, TransformerConfig};
use crate::options::ModelTask;
use crate::sentence_config::{self, SentenceConfig};
use crate::tasks;
use crate::tokenizer::{self, TokenizerFiles, TokenizerRequests};
use embedctl_checkpoint::adds_token_types;
use embedctl_common::error::{Error, Result};
use embedctl_hub::gguf;
use embedctl_rows::sparse::SparseKind;

/// The metadata of a repository.
pub(super) struct StatedSettings {
    /// The folder of the Transformer's files.
    pub folder: PathBuf,
    /// The network's config.json.
    pub transformer_file: PathBuf,
    pub transformer: TransformerConfig,
    pub sentence: SentenceConfig,
    /// config_sentence_transformers.json.
    pub whole_file: PathBuf,
    pub whole: SentenceTransformersConfig,
}

impl StatedSettings {
    /// Reads the files.
    pub fn read(sources: &ModelSources<'_>, notes: &mut Vec<String>) -> Result<Self> {
        let ModelSources { root, network, .. } = *sources;
        let folder = match &sources.modules {
            Some(modules) => root.join(&modules.transformer),
            None => root.to_path_buf(),
        };
        let transformer_file = network.join("config.json");
        let transformer: TransformerConfig =
            metadata::read(&transformer_file)?.ok_or_else(|| missing(root, &transformer_file))?;
        // Without modules.json the reference builds all modules anew and reads neither of these files.
        let has_modules = sources.modules.is_some();
        let sentence = match has_modules {
            true => sentence_config::read(&folder)?,
            false => SentenceConfig::default(),
        };
        notes.extend(sentence.notes.iter().cloned());
        tasks::chosen(network, sources.options)?;
        notes.extend(tasks::note(network, sources.options));
        let whole_file = root.join("config_sentence_transformers.json");
        let whole = match has_modules {
            true => metadata::read(&whole_file)?.unwrap_or_default(),
            false => SentenceTransformersConfig::default(),
        };
        Ok(Self {
            folder,
            transformer_file,
            transformer,
            sentence,
            whole_file,
            whole,
        })
    }

    /// Refuses a model for vectors of text that says of itself that it is of another type.
    fn check_gives_vectors(&self) -> Result<()> {
        let kind = self.whole.model_type.as_deref();
        let Some(kind) =
            kind.filter(|kind| !["SentenceTransformer", "SparseEncoder"].contains(kind))
        else {
            return Ok(());
        };
        let error = Error::model(
            self.whole_file.display(),
            format!(
                "describes a {kind}; embedctl embeds with models of type SentenceTransformer, SparseEncoder and \
                 MultiVectorEncoder"
            ),
        );
        Err(match kind {
            "CrossEncoder" => error.with_remedy("it scores pairs of texts: ask it for scores"),
            _ => error,
        })
    }

    /// The kind of sparse vectors that the files describe, or the options ask for; `None` where a row's numbers are others.
    ///
    /// # Errors
    /// If the files describe a model that makes no vectors, or contradict the options.
    pub fn sparse(
        &self,
        sources: &ModelSources<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Option<SparseKind>> {
        if sources.options.task != ModelTask::Embed || sources.multi.is_some() {
            return Ok(None);
        }
        self.check_gives_vectors()?;
        let files = SparseFiles {
            root: sources.root,
            config_file: &self.transformer_file,
            modules: sources.modules.as_ref(),
            sentence: &self.sentence,
            model_type: self.whole.model_type.as_deref(),
            most: self.whole.most_active(sources.options),
        };
        sparse::resolve(&files, sources.options, notes)
    }

    /// The tokenizer, of texts or of pairs of texts.
    pub fn tokenizer(&self, task: ModelTask) -> Result<TokenizerFiles> {
        let mut tokenizer = tokenizer::read(
            &self.folder,
            &self.transformer,
            &TokenizerRequests {
                lower_case: self.sentence.do_lower_case,
                arguments: self.sentence.arguments.clone(),
                no_special_tokens: self.sentence.texts.no_special_tokens,
                token_types: self.sentence.texts.token_types,
                split_special_tokens: self.sentence.texts.split_special_tokens,
                pairs: matches!(task, ModelTask::Score(task) if task.pairs),
            },
        )?;
        if tokenizer.frame.gives_types {
            let config = metadata::read_value(&self.transformer_file)?;
            if config.is_some_and(|config| adds_token_types(&config)) {
                tokenizer.frame = tokenizer.frame.typed();
            }
        }
        Ok(tokenizer)
    }
}

/// The error for a folder without config.json: its files may be those of another program.
fn missing(root: &Path, config: &Path) -> Error {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    match names.find(|name| gguf::is_gguf(name)) {
        Some(name) => Error::model(root.display(), gguf::refuses_gguf(&name)),
        None => Error::model(config.display(), "is missing"),
    }
}
