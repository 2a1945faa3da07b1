//! Notes about a run whose output is finished: choices that were made for the user, and what may surprise.

use super::made::ProvenanceBuilder;
use crate::engine::{self, LoadedModel};
use crate::model::{Model, ModelOptions};
use crate::output::OutputOptions;
use crate::record::SourceNames;
use crate::setting::{CALIBRATION, DTYPE, NORMALIZE, PROMPT, PROMPT_NAME};
use embedctl_rows::Step;

/// Vectors from which ranges for quantization come at least, so that they fit other vectors, too.
const ENOUGH_FOR_RANGES: u64 = 100;

/// Characters of a prompt that a note shows.
const SHOWN: usize = 40;

/// Notes on the model, on the settings of its vectors, and of `earlier` runs; `all`: the output is complete, not this
/// shard alone.
pub(super) fn notes(
    made: &ProvenanceBuilder<'_>,
    loaded: &LoadedModel,
    output: &OutputOptions,
    earlier: Vec<String>,
    all: bool,
) -> Vec<String> {
    let asked = loaded.resolved().model();
    let mut notes = made.model.notes(loaded.weights());
    notes.extend(prompt(&made.model, asked));
    notes.extend(length(&made.model, asked));
    notes.extend(ranges(output));
    notes.extend(earlier);
    if !all {
        notes.push(
            "this shard is complete; the output is complete when all other shards are".to_owned(),
        );
    }
    if made.info.equal_lengths {
        notes.push(engine::padding::NOTE.into());
    }
    notes
}

/// The prompt that the model's files put before texts, or those that they have and that are not put there.
fn prompt(model: &Model, asked: &ModelOptions) -> Option<String> {
    let (config, prompts) = (&model.config, &model.config.prompts);
    let is_chosen = asked.prompt.is_some() || asked.prompt_name.is_some();
    // Where each token has a vector, markers of the text's role are always there.
    if is_chosen || asked.text_task.is_some() || config.any_multi().is_some() {
        return None;
    }
    if let Some(name) = prompts
        .default
        .as_ref()
        .filter(|_| !config.prompt.is_empty())
    {
        return Some(format!(
            "the model's default prompt {name} ({}) is put before every text; {PROMPT_NAME} takes another, \
             {PROMPT} '' none",
            shown(&config.prompt)
        ));
    }
    let others = prompts.by_name.iter().filter(|(_, text)| !text.is_empty());
    let others: Vec<String> = others
        .map(|(name, text)| format!("{name} ({})", shown(text)))
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "no prompt is put before the texts; {PROMPT_NAME} takes one of the model's: {}",
            others.join(", ")
        )
    })
}

/// A prompt in quotes, its end left out if it is long.
fn shown(prompt: &str) -> String {
    match prompt.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}", format!("{}…", &prompt[..end])),
        None => format!("{prompt:?}"),
    }
}

/// That vectors were cut after the model had scaled them to length 1.
fn length(model: &Model, asked: &ModelOptions) -> Option<String> {
    let config = &model.config;
    // All components together count as no cut.
    let cut = config.dimensions.iter().min()?;
    let is_scaled = config.steps.last() == Some(&Step::Normalize) && !config.normalize_last;
    (is_scaled && asked.normalize.is_none()).then(|| {
        format!(
            "vectors of {cut} components are the first of vectors of length 1, and shorter than that; {NORMALIZE} true \
             scales them to length 1"
        )
    })
}

/// That the ranges of int8 come from few vectors.
fn ranges(output: &OutputOptions) -> Option<String> {
    let dtype = output.dtype.filter(|dtype| dtype.needs_ranges())?;
    let few = output.calibration.as_ref()?.vectors()?;
    (few < ENOUGH_FOR_RANGES).then(|| {
        format!(
            "{CALIBRATION}: the ranges of {dtype} come from {few} vectors, so that components of other texts may lie beyond \
             them; take {ENOUGH_FOR_RANGES} vectors or more, made with {DTYPE} f32"
        )
    })
}

/// That there was nothing to embed.
pub(super) fn empty_input(names: &SourceNames) -> String {
    format!(
        "there is no record in {}; the output has no rows",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prompts_are_shortened_in_notes() {
        assert_eq!(shown("query: "), "\"query: \"");
        let long = "Instruct: Given a question, find what answers it\nQuery:";
        assert_eq!(shown(long), "\"Instruct: Given a question, find what an…\"");
    }
}
