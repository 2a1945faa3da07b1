//! The rows that a network can run: ids that its table of tokens holds, and no more tokens than it has positions.

use std::sync::Arc;

use super::Engine;
use crate::batch::TokenRows;
use crate::error::Cause;
use crate::model::{Model, WeightsKind};
use crate::setting::MAX_LENGTH;

/// The bounds of an opened model.
pub(crate) struct RowBounds {
    /// Token ids from this number on have no vector; `None`: not known.
    ids: Option<usize>,
    /// Tokens of a row at most, where the network has no positions for more.
    positions: Option<usize>,
    model: Arc<Model>,
}

impl RowBounds {
    /// The bounds of `model` on `engine`.
    pub(crate) fn of(engine: &dyn Engine, model: &Arc<Model>) -> Self {
        let graph = match &model.onnx {
            Ok(onnx) if engine.info().provider.weights_of(model) == WeightsKind::Onnx => {
                onnx.graph.token_rows
            }
            _ => None,
        };
        Self {
            ids: engine.token_rows().or(graph),
            positions: model.config.positions_limit,
            model: Arc::clone(model),
        }
    }

    /// Refuses the rows outside these bounds, so that one text does not end the run.
    pub(crate) fn refuse(&self, rows: &mut TokenRows) {
        rows.refuse(|ids| self.cause(ids));
    }

    fn cause(&self, ids: &[u32]) -> Option<Cause> {
        let beyond = |id: &&u32| self.ids.is_some_and(|rows| **id as usize >= rows);
        // Most rows hold none, so the greatest id is looked at alone.
        if let Some(id) = ids.iter().max().filter(beyond) {
            let rows = self.ids.unwrap_or_default();
            let token = self.model.tokenizer.id_to_token(*id).unwrap_or_default();
            let reason = format!(
                "the text has the token {token:?} with id {id}, but the model has vectors only for ids below {rows}"
            );
            return Some(Cause::of(reason).with(
                "remove the token from the text, or use a tokenizer and weights that belong together",
            ));
        }
        let (tokens, positions) = (ids.len(), self.positions?);
        (tokens > positions).then(|| {
            Cause::of(format!(
                "the text has {tokens} tokens and the model has {positions} positions"
            ))
            .with(format!("{MAX_LENGTH} {positions} cuts such texts"))
        })
    }
}
