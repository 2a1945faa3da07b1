//! `embedctl score`: a run of `embed` whose model gives scores.

use embedctl::input::Template;
use embedctl::model::{ModelTask, ScoreTask};

use super::{embed, requested};
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
    let scores = &args.run.numbers;
    let is_dry = args.run.output.dry_run;
    let mut request = requested::request(&args.run, is_dry, messages, printer)?;
    let pairs = scores.query_field.is_some();
    request.model.task = ModelTask::Score(ScoreTask {
        pairs,
        softmax: scores.softmax,
    });
    request.run.top_labels = scores.top_labels;
    if let Some(query) = &scores.query_field {
        let input = &mut request.run.input;
        let template = input.text_template.take();
        let pair = Template::of_pair(query, &input.text_field, template.as_ref());
        input.text_template = Some(pair);
    }
    embed::run_with(&args.run, request, messages, printer)
}
