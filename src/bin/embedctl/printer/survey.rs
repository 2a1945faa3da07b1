//! The report of `embed --dry-run`.

use std::time::Duration;

use embedctl::survey::{Estimate, LengthBin, Survey};
use serde_json::Value;

use super::Printer;
use super::cuts;
use super::summary::engine;
use super::table::TextTable;
use super::words::{bytes, count, dimensions, duration, number, whole_percent};
use crate::failure::CommandFailure;

impl Printer {
    /// The table, or with `--log-format json` one object, to standard output.
    pub fn survey(
        &self,
        survey: &Survey,
        scores: bool,
        output: &str,
    ) -> Result<(), CommandFailure> {
        if self.json {
            let object = serde_json::to_value(survey).unwrap_or(Value::Null);
            return self.json(&format!("{object}\n"));
        }
        self.text(&table(survey, scores, output))
    }
}

fn table(survey: &Survey, scores: bool, output: &str) -> TextTable {
    let mut table = TextTable::default();
    let sample = &survey.sample;
    let records = number(sample.records, "record");
    let what = match sample.whole {
        true => "the whole input".to_owned(),
        false => format!("the first {records}"),
    };
    table.line(&format!("Counted in {what}"));
    let records = format!(
        "{} = {} to {} + {} to be rejected",
        count(sample.records),
        count(sample.embedded),
        if scores { "score" } else { "embed" },
        count(sample.rejected)
    );
    table.entry("records", &records);
    if survey.chunked {
        let mean = sample.rows as f64 / (sample.embedded as f64).max(1.0);
        let text = format!("{}, {mean:.1} per record", count(sample.rows));
        table.entry("chunks", &text);
    }
    table.entry("tokens", &tokens(survey));
    if survey.cut.rows > 0 {
        table.entry("cut off", &without_effect(survey));
    }
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
    lengths(survey, &mut table);
    advice(survey, &mut table);
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

/// `16,359 tokens would have no effect: 91 % of all, 93 % of those of the rows that are cut`
fn without_effect(survey: &Survey) -> String {
    let cut = &survey.cut;
    format!(
        "{}: {} of all tokens, {} of those of rows that are cut",
        number(cut.lost, "token"),
        whole_percent(cut.share_of_all(survey.sample.tokens)),
        whole_percent(cut.share_of_cut_rows()),
    )
}

/// Characters of the longest bar of a histogram.
const BAR: usize = 40;

/// A histogram of the rows' lengths.
fn lengths(survey: &Survey, table: &mut TextTable) {
    let lengths = &survey.lengths;
    let Some(most) = lengths.bins.iter().map(|bin| bin.rows).max() else {
        return;
    };
    let rows = if survey.chunked { "chunks" } else { "texts" };
    table.line("");
    table.line(&format!(
        "Tokens of {rows}: half {} or fewer, 95 % {} or fewer, the longest {}",
        count(lengths.median as u64),
        count(lengths.percentile_95 as u64),
        count(lengths.longest as u64),
    ));
    let limit = survey.max_length.unwrap_or(usize::MAX);
    for bin in &lengths.bins {
        let is_cut = bin.from > limit && bin.rows > 0;
        table.line(&histogram_line(bin, most, is_cut));
    }
}

/// `      65–128           61  ███████  cut`
fn histogram_line(bin: &LengthBin, most: u64, is_cut: bool) -> String {
    let range = format!("{}–{}", count(bin.from as u64), count(bin.to as u64));
    let eighths = (bin.rows as f64 / most as f64 * (8 * BAR) as f64).ceil() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let bar = "█".repeat(eighths / 8) + part;
    let cut = if is_cut { "  cut" } else { "" };
    format!("  {range:>13}  {:>9}  {bar}{cut}", count(bin.rows))
}

/// A sentence about the options that keep what would be cut.
fn advice(survey: &Survey, table: &mut TextTable) {
    let cut = &survey.cut;
    let share = whole_percent(cut.share_of_all(survey.sample.tokens));
    let what = format!("the tokens that are cut now, {share} of all");
    let remedy = match cut.rows {
        0 => None,
        _ => cuts::remedy(cut, survey.cut_remedy, &what, false),
    };
    if let Some(remedy) = remedy {
        table.line("");
        table.wrapped("", &remedy);
    }
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
