//! Which rows a model can run.

use std::sync::Arc;

use embedctl_common::error::Cause;
use embedctl_common::setting::MAX_LENGTH;
use embedctl_model::{Model, WeightsKind};
use embedctl_rows::batch::TokenRows;

use crate::Engine;

/// The rows that an opened model can run: ids that its table of tokens holds, and no more tokens than it has positions.
pub struct RowBounds {
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
    pub fn refuse(&self, rows: &mut TokenRows) {
        rows.refuse_beyond(self.ids, self.positions, &|ids| self.cause(ids));
    }

    /// Why a row is refused.
    fn cause(&self, ids: &[u32]) -> Cause {
        let rows = self.ids.unwrap_or(usize::MAX);
        let Some(id) = ids.iter().max().filter(|id| **id as usize >= rows) else {
            let (tokens, positions) = (ids.len(), self.positions.unwrap_or_default());
            let reason =
                format!("the text has {tokens} tokens and the model has {positions} positions");
            return Cause::of(reason).with(format!("{MAX_LENGTH} {positions} cuts such texts"));
        };
        let token = self.model.tokenizer.id_to_token(*id).unwrap_or_default();
        let reason = format!(
            "the text has the token {token:?} with id {id}, but the model has vectors only for ids below {rows}"
        );
        Cause::of(reason).with(
            "remove the token from the text, or use a tokenizer and weights that belong together",
        )
    }
}
