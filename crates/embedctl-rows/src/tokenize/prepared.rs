//! A model's tokenizer, made ready.

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::never;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::threads::{exhausted, within};
use tokenizers::{OffsetType, Tokenizer};

use super::TextTokenizer;
use super::bert::{Bert, BertScratch};
use super::chat::ChatRows;
use super::encoder::TextEncoder;
use super::long::LongTexts;
use super::pairs::PairTemplate;
use super::template::RowTemplate;
use crate::ModelConfig;
use crate::batch::TokenRows;
use crate::bounded::BoundedSteps;
use crate::budget::TextBudget;
use crate::tokenizer_file::TOKENIZER_TIME;

impl TextTokenizer {
    /// Prepares a model's tokenizer, read from `file`, for its configuration; `threads` bounds the parallelism.
    ///
    /// # Errors
    /// If the prompt cannot be tokenized, or threads cannot be started.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        config: &ModelConfig,
        file: PathBuf,
        threads: usize,
    ) -> Result<Self> {
        let (mut prefix, mut suffix) = (config.frame.before.clone(), config.frame.after.clone());
        let scores = config.scores.as_ref();
        let chat = scores.and_then(|scores| scores.chat.clone());
        if chat.is_some() {
            // The template has all special tokens.
            (prefix, suffix) = Default::default();
        }
        let is_pair = config.takes_pairs() && chat.is_none();
        let pairs = PairTemplate::of(config).filter(|_| is_pair);
        let unusable = |reason| Error::model(file.display(), format!("cannot be used: {reason}"));
        let steps = Arc::new(BoundedSteps::of(&tokenizer).map_err(unusable)?);
        within(TOKENIZER_TIME, &never(), {
            let (tokenizer, steps) = (Arc::clone(&tokenizer), Arc::clone(&steps));
            move || try_out(&tokenizer, &steps)
        })
        .map_err(unusable)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("tokenize-{index}"))
            .build()
            .map_err(exhausted)?;
        let text_tokens = config
            .max_length
            .saturating_sub(prefix.len() + suffix.len());
        let side = config.truncation_side;
        let mut prepared = Self {
            encoder: TextEncoder {
                bert: Bert::new(&tokenizer),
                any: LongTexts::new(tokenizer, steps, file, text_tokens, side),
            },
            text_tokens,
            side,
            template: pairs.map(RowTemplate::Pair),
            dropped: config.dropped_id,
            most_characters: config.most_characters,
            reads_all: false,
            late: config.late,
            prompt: String::new(),
            prompt_tokens: 0,
            prompt_ids: 0,
            prefix,
            suffix,
            pool,
        };
        if let Some(chat) = chat {
            let pairs = config.takes_pairs();
            let chat = ChatRows::new(chat, &config.prompt, pairs, &prepared)?;
            prepared.template = Some(RowTemplate::Chat(chat));
            return Ok(prepared);
        }
        if !config.prompt.is_empty() {
            let mut rows = TokenRows::default();
            let prompt = &config.prompt;
            let failed = |cause: Cause| {
                let reason = format!(
                    "cannot be used with the prompt {prompt:?}: {}",
                    cause.reason
                );
                Error::model(prepared.encoder.any.file.display(), reason)
            };
            (prepared.push_text("", prompt, &mut BertScratch::default(), &mut rows))
                .map_err(failed)?;
            let ids = rows.get(0);
            let ends_special = ids.last().is_some_and(|id| config.special_ids.contains(id));
            prepared.prompt_tokens = ids.len() - usize::from(ends_special);
            prepared.prompt_ids = prepared
                .encode(prompt, usize::MAX, &mut BertScratch::default())
                .map_err(failed)?
                .ids
                .len();
            prepared.prompt.clone_from(&config.prompt);
        }
        Ok(prepared)
    }
}

/// Runs a short text through the tokenizer.
fn try_out(tokenizer: &Tokenizer, steps: &BoundedSteps) -> Result<(), String> {
    // Excessive backtracking, or normalizers that double a text one after another, show here.
    let sample = format!("{}! aB1, \u{e9}\n\u{6771}", "a".repeat(200));
    let budget = TextBudget::of(sample.len());
    let encoded = steps.encode(tokenizer, &sample, OffsetType::None, &budget);
    (encoded.map(drop)).map_err(|error| format!("the tokenizer fails on a short text: {error}"))
}
