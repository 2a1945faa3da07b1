//! The table of `embedctl inspect`, for people.

use embedctl::inspect::{ColumnAgreement, Difference, Folder, Health, Inspection, Verification};
use serde_json::Value;

use super::Printer;
use super::summary::engine;
use super::table::TextTable;
use super::words::{bytes, count, number};
use crate::failure::CommandFailure;

impl Printer {
    /// The tables, to standard output.
    pub fn inspection(
        &self,
        folders: &[Folder],
        files: &[Inspection],
        differences: &[Difference],
        verified: Option<&Verification>,
    ) -> Result<(), CommandFailure> {
        let mut table = TextTable::default();
        for one in folders {
            folder(one, &mut table);
            table.line("");
        }
        for (index, one) in files.iter().enumerate() {
            if index > 0 {
                table.line("");
            }
            file(one, &mut table);
        }
        if let Some(verified) = verified {
            if verified.columns.is_empty() {
                table.entry("verified", &agreement(&verified.worst, verified));
            }
            for column in &verified.columns {
                let words = format!("{}: {}", column.column, agreement(column, verified));
                table.entry("verified", &words);
            }
        }
        if files.len() > 1 {
            table.line("");
            self::differences(differences, &mut table);
        }
        self.text(&table)
    }
}

fn folder(folder: &Folder, table: &mut TextTable) {
    table.line(&folder.path);
    let whole = match folder.complete {
        true => "complete",
        false => "NOT complete (problems are listed with the first part)",
    };
    let shards = match folder.shards {
        1 => String::new(),
        shards => format!(", {} of {shards} shards finished", folder.ended),
    };
    table.entry(
        "output",
        &format!("{whole}: {}{shards}", number(folder.parts as u64, "part")),
    );
    if folder.older > 0 {
        table.entry(
            "hashes",
            &format!(
                "none for {}, written by an older version",
                number(folder.older as u64, "part")
            ),
        );
    }
    table.entry(
        "records",
        &format!(
            "{} read, {} rejected; {}",
            count(folder.records),
            count(folder.rejected),
            number(folder.rows, "row")
        ),
    );
}

fn file(file: &Inspection, table: &mut TextTable) {
    table.line(&file.path.display().to_string());
    table.entry("format", &format!("{}, {}", file.format, bytes(file.bytes)));
    let holds_scores = (file.provenance.as_ref()).is_some_and(|made| made["scores"].is_object());
    for column in &file.columns {
        let name = match column.column.as_str() {
            "" => "vectors",
            name => name,
        };
        table.entry(name, &health(column, holds_scores));
    }
    if file.columns.is_empty() {
        table.entry("vectors", "none");
    }
    match &file.provenance {
        Some(made) => provenance(made, table),
        None => table.entry("made by", "unknown: no provenance in the file or beside it"),
    }
    for one in &file.belongs {
        let path = one.path.as_ref().map(|path| path.display().to_string());
        let text = match (one.same, path) {
            (Some(true), Some(path)) => format!("as written ({path})"),
            (Some(false), Some(path)) => format!("NOT as written ({path})"),
            _ => "not checked: the path is unknown (--rejects PATH)".to_owned(),
        };
        table.entry(&one.name, &text);
    }
    for problem in &file.problems {
        table.wrapped("  problem      ", problem);
    }
}

fn health(health: &Health, holds_scores: bool) -> String {
    if holds_scores {
        return format!(
            "{} of {}, {}; {} with NaN or infinity",
            number(health.vectors, "row"),
            number(health.widest as u64, "score"),
            health.dtype,
            match health.not_finite {
                0 => "no rows".to_owned(),
                amount => number(amount, "row"),
            },
        );
    }
    let width = match health.narrowest == health.widest {
        true => number(health.widest as u64, "dimension"),
        false => format!("{} to {} dimensions", health.narrowest, health.widest),
    };
    let some = |amount: u64| match amount {
        0 => "no vectors".to_owned(),
        amount => number(amount, "vector"),
    };
    let about = if health.repeated.exact { "" } else { "about " };
    let duplicates = match health.repeated.vectors {
        0 => "no duplicates".to_owned(),
        amount => number(amount, "duplicate"),
    };
    format!(
        "{} of {width}, {}; norms {} to {}, mean {}; {} with NaN or infinity, {} of zeros, {about}{duplicates}",
        number(health.vectors, "vector"),
        health.dtype,
        norm(health.least_norm),
        norm(health.greatest_norm),
        norm(health.mean_norm),
        some(health.not_finite),
        some(health.zero),
    )
}

/// A length of a vector, which is near 1 where vectors are normalized.
fn norm(length: f64) -> String {
    match length < 1e6 && (length >= 0.001 || length == 0.0) {
        true => format!("{length:.4}"),
        false => format!("{length:.3e}"),
    }
}

fn provenance(made: &Value, table: &mut TextTable) {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let by = &made["engine"];
    let precision = by["precision"].as_str().map(|one| format!(", {one}"));
    table.entry(
        "made by",
        &format!(
            "{} {}, engine {} {} ({}{})",
            text(&made["tool"]["name"]),
            text(&made["tool"]["version"]),
            text(&by["engine"]),
            text(&by["version"]),
            text(&by["provider"]),
            precision.unwrap_or_default()
        ),
    );
    let revision = made["model"]["revision"].as_str();
    let revision = revision.map_or(String::new(), |revision| format!(" at {revision}"));
    table.entry(
        "model",
        &format!(
            "{}{revision}, {}",
            text(&made["model"]["id"]),
            text(&made["model_file"])
        ),
    );
    let pooling = made["pooling"].as_array().into_iter().flatten();
    let holds_scores = made["scores"].is_object();
    let pooled = match pooling
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(" + ")
    {
        none if none.is_empty() => "pooled by the network".to_owned(),
        modes => format!("{modes} pooling"),
    };
    let normalized = match made["normalized"].as_bool() {
        Some(true) => "normalized",
        _ => "not normalized",
    };
    let mut settings = match holds_scores {
        true => Vec::new(),
        false => vec![pooled, normalized.to_owned()],
    };
    settings.extend(
        (made["max_length"].as_u64()).map(|limit| format!("{} tokens at most", count(limit))),
    );
    settings.push(match made["prompt"].as_str() {
        None | Some("") => "no prompt".to_owned(),
        Some(prompt) => format!("prompt {prompt:?}"),
    });
    let kinds = made["vectors"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
    if !kinds.is_empty() {
        settings.push(format!("{} vectors in one pass", kinds.join(", ")));
    }
    table.entry("settings", &settings.join(", "));
    let rows = &made["rows"];
    let of = |name: &str| rows[name].as_u64().map_or("?".to_owned(), count);
    table.entry(
        "records",
        &format!(
            "{} read, {} {}, {} rejected, {} truncated",
            of("read"),
            of("embedded"),
            if holds_scores { "scored" } else { "embedded" },
            of("rejected"),
            of("truncated")
        ),
    );
}

/// The agreement of a column with vectors that were computed again.
fn agreement(column: &ColumnAgreement, verified: &Verification) -> String {
    let same = match column.same {
        true => "as they were",
        false => "NOT as they were",
    };
    let rows = number(verified.rows as u64, "row");
    let row = column.worst_row;
    let engine = engine(&verified.engine);
    let found = column.in_words();
    match column.apart {
        Some(_) => format!("{rows} computed again, {same}: {found} (row {row}), with {engine}"),
        None => format!(
            "{rows} embedded again, {same}: {found} (row {row}), mean {:.6}, with {engine}",
            column.mean_cosine
        ),
    }
}

/// A value of an identity, without the end of a long one: ranges of int8 have a number for each component.
fn shown(value: &Value) -> String {
    const MOST: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({})", &text[..end], bytes(text.len() as u64)),
        None => text,
    }
}

fn differences(differences: &[Difference], table: &mut TextTable) {
    let (grave, harmless): (Vec<_>, Vec<_>) = differences.iter().partition(|one| one.decides);
    let mut list = |title: &str, all: &[&Difference]| {
        table.line(title);
        for one in all {
            let values: Vec<String> = one.values.iter().map(shown).collect();
            table.wrapped(&format!("  {}: ", one.key), &values.join(" | "));
        }
    };
    match (&grave[..], &harmless[..]) {
        ([], []) => table.line("These vectors can be mixed: their provenance is the same."),
        ([], harmless) => list(
            "These vectors can be mixed; these differences do not change vectors:",
            harmless,
        ),
        (grave, []) => list("These vectors cannot be mixed:", grave),
        (grave, harmless) => {
            list("These vectors cannot be mixed:", grave);
            list("Other differences, which do not change vectors:", harmless);
        }
    }
}
