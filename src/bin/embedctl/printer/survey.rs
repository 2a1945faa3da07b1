//! The report of `embed --dry-run`.

use std::time::Duration;

use embedctl::survey::{Estimate, Survey};
use serde_json::Value;

use super::Printer;
use super::summary::engine;
use super::table::TextTable;
use super::words::{bytes, count, dimensions, duration, number};
use crate::failure::CommandFailure;

impl Printer {
    /// The table, or with `--log-format json` one object, to standard output.
    pub fn survey(&self, survey: &Survey, output: &str) -> Result<(), CommandFailure> {
        if self.json {
            let object = serde_json::to_value(survey).unwrap_or(Value::Null);
            return self.json(&format!("{object}\n"));
        }
        self.text(&table(survey, output))
    }
}

fn table(survey: &Survey, output: &str) -> TextTable {
    let mut table = TextTable::default();
    let sample = &survey.sample;
    let records = number(sample.records, "record");
    let what = match sample.whole {
        true => "the whole input".to_owned(),
        false => format!("the first {records}"),
    };
    table.line(&format!("Counted in {what}"));
    let records = format!(
        "{} = {} to embed + {} to be rejected",
        count(sample.records),
        count(sample.embedded),
        count(sample.rejected)
    );
    table.entry("records", &records);
    if survey.chunked {
        let mean = sample.rows as f64 / (sample.embedded as f64).max(1.0);
        let text = format!("{}, {mean:.1} per record", count(sample.rows));
        table.entry("chunks", &text);
    }
    table.entry("tokens", &tokens(survey));
    if sample.reused > 0 {
        let rows = number(sample.reused, "row");
        let text = format!("{rows} with a vector in the earlier output (not counted above)");
        table.entry("reused", &text);
    }
    if sample.repeated > 0 {
        let rows = number(sample.repeated, "row");
        let text = format!("{rows} with the text of an earlier row; computed once per window");
        table.entry("repeated", &text);
    }
    for (index, (name, kind)) in survey.columns.iter().enumerate() {
        let label = if index == 0 { "columns" } else { "" };
        table.entry(label, &format!("{name}: {kind}"));
    }
    for (index, reject) in survey.rejects.iter().enumerate() {
        let label = if index == 0 { "rejects" } else { "" };
        table.entry(label, reject);
    }
    table.line("");
    table.line("Would run");
    table.entry("model", &survey.model);
    table.entry("engine", &engine(&survey.engine));
    table.entry("threads", &count(survey.threads as u64));
    if let Some(memory) = survey.memory {
        let of = survey.memory_left.map_or(String::new(), |left| {
            format!(", of {} available", bytes(left))
        });
        let text = format!("about {} for the model{of}", bytes(memory));
        table.entry("memory", &text);
    }
    let mut vectors = dimensions(&survey.dimensions);
    let each = survey.vectors_per_row.unwrap_or_default();
    match survey.token_dimensions {
        Some(width) => {
            vectors += &format!(", and {width} for each token, {each:.1} of them per row");
        }
        None if survey.vectors_per_row.is_some() => {
            vectors += &format!(
                " for each token, {each:.1} of them per row: the output is about {:.0} times as large as one vector \
                 per text",
                each.max(1.0)
            );
        }
        None => {}
    }
    table.entry("vectors", &vectors);
    table.line("");
    match &survey.estimate {
        Some(all) => estimate(survey, all, output, &mut table),
        None => table.line("No estimate: the size of the input is unknown (such as a pipe)."),
    }
    table.line("");
    table.line("Nothing was written.");
    table
}

fn tokens(survey: &Survey) -> String {
    let sample = &survey.sample;
    let rows = (sample.rows - sample.reused) as f64;
    let mean = sample.tokens as f64 / rows.max(1.0);
    let mut text = format!("{}, {mean:.1} per row", count(sample.tokens));
    if let Some(limit) = survey.max_length {
        let share = 100.0 * sample.truncated as f64 / rows.max(1.0);
        text += &match sample.truncated {
            0 => format!("; no row is longer than {}", count(limit as u64)),
            rows => {
                let were = if rows == 1 { "is" } else { "are" };
                format!(
                    "; {} ({share:.1} %) {were} cut to {}",
                    number(rows, "row"),
                    count(limit as u64)
                )
            }
        };
    }
    text
}

fn estimate(survey: &Survey, all: &Estimate, output: &str, table: &mut TextTable) {
    let measured = &survey.measured;
    let about = if survey.sample.whole { "" } else { "about " };
    table.line(&format!(
        "Estimated from {} embedded in {} and {} written",
        number(measured.rows, "row"),
        duration(Duration::from_secs_f64(measured.seconds)),
        number(measured.written, "row"),
    ));
    table.entry("records", &format!("{about}{}", count(all.records)));
    if survey.chunked {
        table.entry("chunks", &format!("{about}{}", count(all.rows)));
    }
    table.entry("tokens", &format!("{about}{}", count(all.tokens)));
    let time = all.seconds.map_or("unknown".to_owned(), |seconds| {
        // Fractions of a second would be false precision.
        let time = Duration::from_secs_f64(seconds.ceil().max(1.0));
        format!(
            "about {}, including {} to open the model",
            duration(time),
            duration(Duration::from_secs_f64(measured.load_seconds))
        )
    });
    table.entry("time", &time);
    let size = all.bytes.map_or("unknown".to_owned(), |size| {
        format!("about {}", bytes(size))
    });
    table.entry("size", &format!("{size} in {output}"));
}
