//! Models that are run for another task than they are made for: the command that runs them.

use embedctl::model::{Model, ModelOptions, ModelTask};

use crate::failure::CommandFailure;
use crate::printer::Printer;

/// Adds the right command to a failure that is about the model.
pub fn explain(failure: CommandFailure, asked: &ModelOptions) -> CommandFailure {
    if !failure.is_about_model() {
        return failure;
    }
    match (asked.task, Model::usual_task(asked)) {
        (ModelTask::Embed, Ok(ModelTask::Score(_))) => {
            failure.with_hint("the model gives scores: run it with `embedctl score`".to_owned())
        }
        (ModelTask::Score(_), Ok(ModelTask::Embed)) => failure
            .with_hint("the model seems to give vectors: run it with `embedctl embed`".to_owned()),
        _ => failure,
    }
}

/// Prints a note where vectors were made by a model that is made for scores.
pub fn note(asked: &ModelOptions, printer: &Printer) {
    let usual = Model::usual_task(asked);
    if let (ModelTask::Embed, Ok(ModelTask::Score(_))) = (asked.task, usual) {
        printer.note(
            "the model is a classifier or a reranker, and these vectors are of its hidden states; `embedctl score` gives its \
             scores",
        );
    }
}
