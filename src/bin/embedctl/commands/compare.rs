//! `embedctl compare`: whether two outputs find the same rows.

use std::path::{Path, PathBuf};

use embedctl::engine::EngineOptions;
use embedctl::model::ModelOptions;
use embedctl::output::RunFiles;
use embedctl::search::{
    ComparedOutput, ComparedWith, ComparisonOptions, ComparisonQueries, Corpus, OutputComparison,
    listed_depth, svg,
};
use embedctl::size::grouped;

use super::search::{open_query_model, queries};
use super::{plot_file::PlotFile, stores};
use crate::args::{CompareArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, TextTable};

/// Characters of a text that people are shown.
const SHOWN: usize = 60;

/// Compares, and shows what is shared.
pub fn run(
    args: &CompareArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let picture = args.plot.as_deref().map(PlotFile::of).transpose()?;
    let cancel = interrupt::watch(RunFiles::new())?;
    let paths = std::iter::once(&args.reference)
        .chain(&args.other)
        .chain(&args.queries);
    let storage = stores::storage(
        paths.map(PathBuf::as_path),
        &args.stores.options,
        messages,
        &cancel,
    )?;
    let kinds: Vec<_> = args.kind.vectors.into_iter().collect();
    let open = |path: &Path| Corpus::open(path, storage.as_ref(), &kinds);
    let reference = open(&args.reference)?;
    let other = args.other.as_deref().map(open).transpose()?;
    let embed = |out: &Path, corpus: &Corpus, texts: &[String]| {
        let given = ModelOptions {
            cache_dir: messages.cache_dir.clone(),
            ..ModelOptions::default()
        };
        let engine = EngineOptions {
            providers: args.providers.provider.clone(),
            runtime: super::runtime(None),
            ..EngineOptions::default()
        };
        let asked = (&given, &engine);
        let mut model = open_query_model(out, corpus, None, asked, messages, printer, &cancel)?;
        Ok::<_, CommandFailure>(model.embed(texts)?)
    };
    let queries = match &args.queries {
        None => None,
        Some(path) => {
            let (_, texts) = queries(path, storage.as_ref())?;
            Some(ComparisonQueries {
                reference: embed(&args.reference, &reference, &texts)?,
                other: match (&args.other, &other) {
                    (Some(path), Some(other)) => Some(embed(path, other, &texts)?),
                    _ => None,
                },
                texts,
            })
        }
    };
    let options = ComparisonOptions {
        sample: args.sample,
        depths: args.k.clone(),
        differing: args.differing,
    };
    let found = match &other {
        Some(other) => reference.compare(other, queries.as_ref(), &options, &cancel)?,
        None => reference.compare_forms(&args.forms, queries.as_ref(), &options, &cancel)?,
    };
    if let Some(picture) = picture {
        picture.write(&svg(&found))?;
    }
    printer.found(args.json, &found, table)?;
    Ok(ExitCode::Done)
}

/// The comparison for people.
fn table(found: &OutputComparison) -> TextTable {
    let mut table = TextTable::default();
    let reference = &found.reference;
    table.line(&format!("{}: {}", reference.name, described(reference)));
    let asked = match found.queries_are_rows {
        true => "rows",
        false => "queries",
    };
    table.line(&format!(
        "{} rows in both; neighbours of {} {asked} compared",
        grouped(&found.rows.to_string()),
        grouped(&found.queries.to_string()),
    ));
    table.line("");
    let name = |other: &ComparedWith| other.output.name.chars().count();
    let width = found.others.iter().map(name).max().unwrap_or(0).max(6);
    let depths: Vec<usize> = (found.others.first())
        .map(|one| {
            one.neighbours
                .overlaps
                .iter()
                .map(|overlap| overlap.depth)
                .collect()
        })
        .unwrap_or_default();
    let heads: String = depths
        .iter()
        .map(|k| format!("  {:>8}", format!("best {k}")))
        .collect();
    table.line(&format!(
        "{:<width$}  {:>9}{heads}  {:>7}  {:>7}",
        "output", "bytes/row", "cosine", "least"
    ));
    for other in &found.others {
        let shares: String = (other.neighbours.overlaps.iter())
            .map(|overlap| format!("  {:>8}", percent(overlap.share)))
            .collect();
        let cosines = match &other.cosines {
            Some(cosines) => format!("  {:>7.4}  {:>7.4}", cosines.median, cosines.least),
            None => format!("  {:>7}  {:>7}", "–", "–"),
        };
        let bytes = format!("{:.0}", other.output.bytes_per_row);
        table.line(&format!(
            "{:<width$}  {:>9}{shares}{cosines}",
            other.output.name,
            grouped(&bytes)
        ));
    }
    table.line("");
    let depth = listed_depth(&depths);
    for other in &found.others {
        if let Some(overlap) = other
            .neighbours
            .overlaps
            .iter()
            .find(|it| it.depth == depth)
        {
            table.line(&format!(
                "{} keeps {} of the {depth} nearest at {} the size",
                other.output.name,
                percent(overlap.share),
                ratio(other.output.bytes_per_row / reference.bytes_per_row)
            ));
        }
    }
    for other in found
        .others
        .iter()
        .filter(|other| !other.neighbours.differing.is_empty())
    {
        table.line("");
        table.line(&format!(
            "neighbours that differ most, {}:",
            other.output.name
        ));
        for row in &other.neighbours.differing {
            let text = row.fields.text.as_deref().unwrap_or_default();
            let mut shown: String = text.chars().take(SHOWN).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            let id = row.fields.id_text();
            let id = id.unwrap_or_else(|| format!("row {}", row.row));
            table.line(&format!(
                "  {:>3} of {}  {id}  {shown}",
                row.shared, row.depth
            ));
        }
    }
    table
}

fn described(output: &ComparedOutput) -> String {
    let width = match output.dimensions {
        Some(width) => format!(", {width} dimensions"),
        None => String::new(),
    };
    let rows = grouped(&output.rows.to_string());
    let bytes = grouped(&format!("{:.0}", output.bytes_per_row));
    format!("{rows} rows, {}{width}, {bytes} bytes a row", output.dtype)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// `1/32 of`, where it is near the part of a whole number; else as a percentage.
fn ratio(share: f64) -> String {
    let whole = share.recip().round();
    match (share * whole - 1.0).abs() < 0.02 && whole >= 1.0 {
        true if whole > 1.0 => format!("1/{whole:.0} of"),
        true => "once".to_owned(),
        false => format!("{} of", percent(share)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_as_fractions() {
        assert_eq!(ratio(1.0 / 32.0), "1/32 of");
        assert_eq!(ratio(0.25), "1/4 of");
        assert_eq!(ratio(2.0 / 3.0), "66.7 % of");
        assert_eq!(ratio(1.0), "once");
        assert_eq!(ratio(2.0), "200.0 % of");
    }
}
