//! `embedctl compare`: whether two outputs find the same rows.

use std::path::{Path, PathBuf};

use embedctl::engine::EngineOptions;
use embedctl::model::ModelOptions;
use embedctl::output::{RunFiles, Terms};
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
use crate::printer::{Printer, TextTable, count, number};

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
    let kinds: Vec<_> = args.kind.vectors.iter().cloned().collect();
    let open = |path: &Path| Corpus::open(path, storage.as_ref(), &kinds);
    let mut reference = open(&args.reference)?;
    let mut other = args.other.as_deref().map(open).transpose()?;
    for warning in (std::iter::once(&reference).chain(&other)).flat_map(|it| &it.warnings) {
        printer.warning(warning);
    }
    let embed = |out: &Path, corpus: &mut Corpus, texts: &[String]| {
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
        if corpus.lacks_terms() {
            corpus.know_terms(model.terms());
        }
        super::search::embed(&mut model, texts, printer)
    };
    let queries = match &args.queries {
        None => None,
        Some(path) => {
            let (_, texts) = queries(path, &args.records, storage.as_ref())?;
            Some(ComparisonQueries {
                reference: embed(&args.reference, &mut reference, &texts)?,
                other: match (&args.other, &mut other) {
                    (Some(path), Some(other)) => Some(embed(path, other, &texts)?),
                    _ => None,
                },
                texts,
            })
        }
    };
    // Rows alone are compared within their own output, so their terms need no model.
    for corpus in [Some(&mut reference), other.as_mut()].into_iter().flatten() {
        if corpus.lacks_terms() {
            corpus.know_terms(Terms::as_met());
        }
    }
    let options = ComparisonOptions {
        sample: args.sample,
        depths: args.k.clone(),
        differing: args.differing,
    };
    let found = match &other {
        Some(other) => reference.compare(other, queries.as_ref(), &options, &cancel)?,
        None => reference.compare_forms(&args.forms, queries.as_ref(), &options, &cancel)?,
    };
    for other in &found.others {
        if let Some(texts) = other.texts.filter(|texts| texts.different > 0) {
            printer.warning(format!(
                "{} of {} rows have another text in {} under the same id: compare outputs of the same records (an id that is \
                 the number of a line needs the same lines in the same order)",
                texts.different, texts.compared, other.output.name
            ));
        }
    }
    if let Some(other) = other
        .as_ref()
        .filter(|other| !reference.has_chunks_of(other))
    {
        printer.warning(format!(
            "{} and {} are cut into chunks in different ways: rows of the same id have different texts, and what they share says little",
            args.reference.display(),
            other.name()
        ));
    }
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
    let asked = match (found.queries_are_rows, found.queries) {
        (true, asked) => number(asked as u64, "row"),
        (false, 1) => "1 query".to_owned(),
        (false, asked) => format!("{} queries", count(asked as u64)),
    };
    table.line(&format!(
        "{} in both; neighbours of {asked} compared",
        number(found.rows, "row"),
    ));
    if !found.depths_of_all.is_empty() {
        let depths: Vec<String> = found.depths_of_all.iter().map(usize::to_string).collect();
        table.line(&format!(
            "too few rows to compare the best {}",
            depths.join(", ")
        ));
    }
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
                "{} keeps {} of the {} at {}",
                other.output.name,
                percent(overlap.share),
                match depth {
                    1 => "nearest rows".to_owned(),
                    _ => format!("{depth} nearest"),
                },
                size(other.output.bytes_per_row / reference.bytes_per_row)
            ));
        }
    }
    found
        .others
        .iter()
        .for_each(|other| list_differing(other, found.queries_are_rows, &mut table));
    table
}

/// The rows or queries whose neighbours differ most.
fn list_differing(other: &ComparedWith, are_rows: bool, table: &mut TextTable) {
    if other.neighbours.differing.is_empty() {
        return;
    }
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
        let id = row.fields.shown_id();
        let id = id.unwrap_or_else(|| match are_rows {
            true => format!("row {}", row.row),
            false => format!("query {}", row.row + 1),
        });
        table.line(&format!(
            "  {:>3} of {}  {id}  {shown}",
            row.shared, row.depth
        ));
    }
}

fn described(output: &ComparedOutput) -> String {
    let width = match output.dimensions {
        Some(width) => format!(", {width} dimensions"),
        None => String::new(),
    };
    let rows = number(output.rows, "row");
    let bytes = grouped(&format!("{:.0}", output.bytes_per_row));
    format!("{rows}, {}{width}, {bytes} bytes a row", output.dtype)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A size as a part or a multiple of another one: `1/32 of the size`, where it is near a whole number; else as a percentage
/// or a number with a decimal.
fn size(share: f64) -> String {
    let is_near = |number: f64| number >= 2.0 && (number / number.round() - 1.0).abs() < 0.02;
    match share {
        share if (share - 1.0).abs() < 0.02 => "the same size".to_owned(),
        share if is_near(share.recip()) => format!("1/{:.0} of the size", share.recip()),
        share if is_near(share) => format!("{share:.0} times the size"),
        share if share > 1.0 => format!("{share:.1} times the size"),
        share => format!("{} of the size", percent(share)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_as_fractions() {
        for (share, said) in [
            (1.0 / 32.0, "1/32 of the size"),
            (0.25, "1/4 of the size"),
            (2.0 / 3.0, "66.7 % of the size"),
            (1.0, "the same size"),
            (1.5, "1.5 times the size"),
            (32.0, "32 times the size"),
        ] {
            assert_eq!(size(share), said);
        }
    }
}
