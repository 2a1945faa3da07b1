//! `embedctl score`: a run of `embed` whose model gives scores.

use embedctl::input::Template;
use embedctl::model::{ModelTask, ScoreTask};

use super::embed;
use crate::args::{MessageArgs, ScoreArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::printer::Printer;

/// Scores the inputs and reports the result.
pub fn run(
    args: &ScoreArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    refuse_vectors(args)?;
    let mut request = embed::request(&args.embed, messages, printer)?;
    let pairs = args.scores.query_field.is_some();
    request.model.task = ModelTask::Score(ScoreTask {
        pairs,
        softmax: args.scores.softmax,
    });
    request.run.top_labels = args.scores.top_labels;
    if let Some(query) = &args.scores.query_field {
        let input = &mut request.run.input;
        let template = input.text_template.take();
        let pair = Template::of_pair(query, &input.text_field, template.as_ref());
        input.text_template = Some(pair);
    }
    embed::run_with(&args.embed, request, messages, printer)
}

/// Refuses options of `embed` that say something of vectors alone.
fn refuse_vectors(args: &ScoreArgs) -> Result<(), CommandFailure> {
    match args.of_vectors {
        Some(name) => Err(CommandFailure::usage(format!(
            "--{} is about vectors, but `score` writes scores; leave it out",
            name.replace('_', "-")
        ))),
        None => Ok(()),
    }
}
