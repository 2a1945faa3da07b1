//! A class's model (WordPiece, BPE, Unigram) over the vocabulary of a `tokenizer.json`.

use tokenizers::Tokenizer;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;

use super::Result;
use crate::tokenizer::registry::ChosenClass;
use embedctl_common::error::Cause;
use embedctl_rows::vocabulary;

/// A class's model over the file's vocabulary.
pub(super) struct VocabularyModel<'a> {
    pub chosen: &'a ChosenClass,
    pub file: &'a Tokenizer,
}

impl VocabularyModel<'_> {
    fn mismatch(&self, wanted: &str) -> Cause {
        let found = match self.file.get_model() {
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
            ModelWrapper::Unigram(_) => "Unigram",
        };
        Cause::of(format!(
            "holds a {found} vocabulary, but the class {} ({}) reads it as {wanted}, which gives tokens that mean \
             nothing",
            self.chosen.name, self.chosen.because
        ))
        .with(self.chosen.because.remedy())
    }

    pub(super) fn word_piece(&self, unknown: &str, prefix: &str) -> Result<ModelWrapper> {
        let ModelWrapper::WordPiece(model) = self.file.get_model() else {
            return Err(self.mismatch("WordPiece"));
        };
        let mut model = model.clone();
        model.unk_token = unknown.to_string();
        model.continuing_subword_prefix = prefix.to_string();
        model.max_input_chars_per_word = 100;
        Ok(model.into())
    }

    pub(super) fn bpe(&self, settings: Bpe<'_>) -> Result<ModelWrapper> {
        let ModelWrapper::BPE(model) = self.file.get_model() else {
            return Err(self.mismatch("BPE"));
        };
        let mut model: BPE = model.clone();
        // Merges are joined by the file's prefix when they are read.
        if model
            .continuing_subword_prefix
            .take()
            .is_some_and(|prefix| !prefix.is_empty())
        {
            return Err(self.mismatch("BPE without a prefix for continuing subwords"));
        }
        model.unk_token = settings.unknown.map(Into::into);
        model.end_of_word_suffix = settings.suffix.map(Into::into);
        model.fuse_unk = settings.fuse;
        model.byte_fallback = settings.bytes;
        model.ignore_merges = false;
        model.dropout = None;
        Ok(model.into())
    }

    pub(super) fn vocabulary(&self) -> Result<&Unigram> {
        match self.file.get_model() {
            ModelWrapper::Unigram(model) => Ok(model),
            _ => Err(self.mismatch("Unigram")),
        }
    }

    /// The place of the unknown token with score 0, from `start` on.
    pub(super) fn scored(&self, unknown: &str, start: usize) -> Result<Option<usize>> {
        let model = self.vocabulary()?;
        Ok(vocabulary::with_score_zero(model, unknown, start))
    }

    pub(super) fn unigram(&self, unknown: usize) -> Result<ModelWrapper> {
        vocabulary::with_unknown(self.vocabulary()?, unknown)
            .map(Into::into)
            .map_err(|error| {
                format!("has no token {unknown}, the class's unknown token ({error})").into()
            })
    }
}

/// Settings of a BPE model.
#[derive(Default)]
pub(super) struct Bpe<'a> {
    pub unknown: Option<&'a str>,
    pub suffix: Option<&'a str>,
    pub fuse: bool,
    pub bytes: bool,
}
