//! Tokens that a model's limit cuts off, and the settings that keep them.

use serde::Serialize;

use super::EmbedOptions;
use crate::model::Model;
use crate::tokenize::chunks::ChunkBy;
use embedctl_records::format::InputFormat;
use embedctl_rows::ModelConfig;

/// The tokens of the rows that were cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CutTokens {
    /// Rows whose text was cut.
    pub rows: u64,
    /// Tokens of these rows that run.
    pub kept: u64,
    /// Tokens that were cut off. Of long texts about: they are not tokenized to their end.
    pub lost: u64,
    /// Of these, as many as [`CutRemedy::max_length`] would keep.
    pub reachable: u64,
}

impl CutTokens {
    /// Adds a row of `kept` tokens of which `lost` more were cut off, where `greatest` could be kept.
    pub(crate) fn add(&mut self, kept: usize, lost: usize, greatest: usize) {
        if lost == 0 {
            return;
        }
        self.rows += 1;
        self.kept += kept as u64;
        self.lost += lost as u64;
        self.reachable += lost.min(greatest.saturating_sub(kept)) as u64;
    }

    /// The share of the cut rows' tokens that have no effect, 0 to 1.
    #[must_use]
    pub fn share_of_cut_rows(&self) -> f64 {
        self.lost as f64 / ((self.kept + self.lost) as f64).max(1.0)
    }

    /// The share of all tokens that have no effect, where `run` tokens run in all, 0 to 1.
    #[must_use]
    pub fn share_of_all(&self, run: u64) -> f64 {
        self.lost as f64 / ((run + self.lost) as f64).max(1.0)
    }

    /// The share of the lost tokens that the greatest limit would keep, 0 to 1.
    #[must_use]
    pub fn reachable_share(&self) -> f64 {
        self.reachable as f64 / (self.lost as f64).max(1.0)
    }
}

/// The settings that keep tokens which are cut off without them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CutRemedy {
    /// Chunks, which keep all of them; `None` where rows are chunks already, or cannot be.
    pub chunk: Option<ChunkBy>,
    /// The greatest limit that the model takes, if it is above the one in force.
    pub max_length: Option<usize>,
}

impl CutRemedy {
    /// The settings that help a run with these options.
    pub(crate) fn of(options: &EmbedOptions, model: &Model) -> Self {
        let config = &model.config;
        let is_chunked = options.chunking.is_some() || options.input.batches.are_whole();
        let chunk = match options.input.format {
            _ if is_chunked || config.scores.is_some() => None,
            // A chunk has the special tokens, too.
            _ if config.max_length <= config.frame.len() => None,
            Some(InputFormat::File) => Some(ChunkBy::Markdown),
            _ => Some(ChunkBy::Sentences),
        };
        let greatest = config.greatest_length;
        let is_above = greatest > config.max_length && greatest < ModelConfig::UNLIMITED;
        Self {
            chunk,
            max_length: is_above.then_some(greatest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_and_what_a_longer_row_would_keep_are_summed() {
        let mut cut = CutTokens::default();
        cut.add(64, 0, 512);
        assert_eq!(cut, CutTokens::default());
        cut.add(64, 36, 512);
        cut.add(64, 936, 512);
        assert_eq!((cut.rows, cut.kept, cut.lost), (2, 128, 972));
        assert_eq!(cut.reachable, 36 + 448);
        assert!((cut.share_of_cut_rows() - 972.0 / 1100.0).abs() < 1e-9);
        assert!((cut.share_of_all(1028) - 972.0 / 2000.0).abs() < 1e-9);
    }
}
