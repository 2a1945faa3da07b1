//! The plan of the reading, from options and sources, and the contradictions between them.

use std::sync::Arc;

use crate::reading::source::{Planned, Source};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{
    CHUNK, CSV_DELIMITER, CSV_ESCAPE, CSV_NULL, CSV_QUOTE, ID_FIELD, ID_TYPE, INPUT_FORMAT, KEEP,
    MAX_RECORD_BYTES, SOURCE_COLUMNS, TEXT_FIELD, TEXT_TEMPLATE, WINDOW,
};
use embedctl_records::csv_options::CsvDialect;
use embedctl_records::fields::{IdType, KeepType};
use embedctl_records::format::InputFormat;
use embedctl_records::options::{ALL, HEADING, ID, InputOptions, InputRange, MOST_BYTES, Part};

/// Checks the options that do not depend on a source's format.
pub fn check(sources: &[Source], options: &InputOptions) -> Result<()> {
    let usage = |cause: Cause| Err(Error::usage(cause));
    if sources
        .iter()
        .filter(|&source| *source == Source::Stdin)
        .count()
        > 1
    {
        return usage(
            Cause::of("standard input (`-`) can be read only once").with("give `-` once"),
        );
    }
    if options.max_record_bytes == 0 || options.max_record_bytes > MOST_BYTES {
        let most = options.max_record_bytes;
        return usage(Cause::of(format!(
            "`{MAX_RECORD_BYTES}` is {most}, but it goes from 1 to {MOST_BYTES} (1 GiB)"
        )));
    }
    if options.window_rows == 0 || options.window_bytes == 0 {
        return usage(
            Cause::of("a window needs room for a record")
                .with(format!("give `{WINDOW}` 1 or more")),
        );
    }
    if options.keep.len() > MOST_KEPT {
        let kept = options.keep.len();
        return usage(
            Cause::of(format!("`{KEEP}` names {kept} fields, but takes {MOST_KEPT}")).with(format!(
                "carry the object that holds them through as one field instead (`{KEEP} NAME:json`), or leave \
                 some out"
            )),
        );
    }
    let template = options.text_template.as_ref();
    if template.is_some_and(|template| !template.is_pair())
        && options.text_field != InputOptions::default().text_field
    {
        return usage(
            Cause::of(format!(
                "`{TEXT_TEMPLATE}` names the fields of the text itself"
            ))
            .with(format!("leave `{TEXT_FIELD}` out")),
        );
    }
    if let Some(keep) = options
        .keep
        .iter()
        .find(|keep| keep.name == ALL && keep.kind.is_some())
    {
        return usage(
            Cause::of(format!("`{KEEP} {keep}` gives all fields one type")).with(format!(
                "name those that need a type beside it (`{KEEP} '*,NAME:TYPE'`)"
            )),
        );
    }
    let fields = options.id_field.iter().chain(options.texts().1);
    let kept = options.keep.iter().map(|keep| &keep.name);
    for name in fields.chain(kept) {
        if name.matches('.').count() > MOST_DOTS {
            let name: String = name.chars().take(20).collect();
            let reason = format!(
                "a field is named with more than {MOST_DOTS} dots, but JSON is not read as deeply as that: \
                 `{name}…`"
            );
            return usage(Cause::of(reason).with("bring the field further up in the input"));
        }
    }
    for (index, keep) in options.keep.iter().enumerate() {
        let name = &keep.name;
        let clash = match name.as_str() {
            ID if options.id_field.as_deref() == Some(ID) => Some((
                "the output's column `id`, which holds that field".to_owned(),
                format!("leave it out; `{ID_TYPE}` sets the type of ids"),
            )),
            "file" | "line" if options.source_columns => Some((
                format!("the column `{name}` that `{SOURCE_COLUMNS}` adds"),
                "leave one of them out".to_owned(),
            )),
            _ => None,
        };
        if let Some((column, remedy)) = clash {
            let clash = format!("`{KEEP} {name}` clashes with {column}");
            return usage(Cause::of(clash).with(remedy));
        }
        if options.keep[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            let reason = format!("`{KEEP}` names the field `{name}` twice");
            return usage(Cause::of(reason).with("name it once"));
        }
    }
    Ok(())
}

/// Dots in a field's name at most: objects inside each other are read to a depth of 128.
const MOST_DOTS: usize = 127;

/// Fields that can be kept: each is a column with buffers of its own all along.
const MOST_KEPT: usize = 1024;

/// Checks that nothing is asked of the sources that their formats do not have.
pub(super) fn check_sources(sources: &[Planned], options: &InputOptions) -> Result<()> {
    check_fields(sources, options)?;
    check_csv(sources, options)?;
    check_names(sources, options)?;
    (sources.iter()).try_for_each(|source| check_text(source, options))
}

/// Checks that no field is named where no source has any.
fn check_fields(sources: &[Planned], options: &InputOptions) -> Result<()> {
    let defaults = InputOptions::default();
    let named = [
        (
            TEXT_FIELD,
            Some(&options.text_field),
            Some(&defaults.text_field),
        ),
        (
            ID_FIELD,
            options.id_field.as_ref(),
            defaults.id_field.as_ref(),
        ),
    ];
    if let Some(template) = &options.text_template
        && let Some(text) = sources.iter().find(|one| !one.facts.format.has_fields())
    {
        return Err(text
            .facts
            .usage(format!(
                "`{} {template}` needs fields, but text has none",
                options.texts().0
            ))
            .with_remedy(format!(
                "say `{INPUT_FORMAT} jsonl` or `{INPUT_FORMAT} csv` if it is that"
            )));
    }
    for (option, name, default) in named {
        let Some(name) = name.filter(|name| Some(*name) != default) else {
            continue;
        };
        if sources.iter().all(|one| !one.facts.format.has_fields()) {
            return Err(Error::usage(format!(
                "`{option} {name}` needs fields, but {} is read as text, which has none (its ids are line \
                 numbers, or names of files)",
                sources.first().map_or("the input", |source| &source.facts.name)
            ))
            .with_remedy(format!("say `{INPUT_FORMAT} jsonl` if it is JSONL")));
        }
    }
    Ok(())
}

/// Checks that names of files are not asked for as integers.
fn check_names(sources: &[Planned], options: &InputOptions) -> Result<()> {
    let document = sources
        .iter()
        .find(|one| one.facts.format == InputFormat::File);
    match document {
        Some(document) if options.id_type == IdType::Int => Err(document
            .facts
            .usage(format!(
                "`{ID_TYPE} int`: the ids of documents are names of files"
            ))
            .with_remedy("leave it out")),
        _ => Ok(()),
    }
}

/// Checks that the fields of CSV are described only where a source has some, and without contradiction.
fn check_csv(sources: &[Planned], options: &InputOptions) -> Result<()> {
    let csv = &options.csv;
    let named = [
        (CSV_DELIMITER, csv.delimiter.is_some()),
        (CSV_QUOTE, csv.quote.is_some()),
        (CSV_ESCAPE, csv.escape.is_some()),
        (CSV_NULL, csv.null.is_some()),
    ];
    let separator = |one: &Planned| one.facts.format.facts().separator;
    if let Some((option, _)) = named.iter().find(|(_, is_named)| *is_named)
        && !sources.iter().any(|one| separator(one).is_some())
    {
        return Err(Error::usage(format!(
            "`{option}` is about CSV, but no input is read as that"
        ))
        .with_remedy(format!("leave it out, or say `{INPUT_FORMAT} csv`")));
    }
    for source in sources {
        let Some(separator) = separator(source) else {
            continue;
        };
        let dialect = CsvDialect::new(csv, separator);
        let escape = dialect.escape.map(|byte| (CSV_ESCAPE, byte));
        let others = [
            Some((CSV_DELIMITER, dialect.delimiter)),
            dialect.quote.map(|byte| (CSV_QUOTE, byte)),
            escape,
        ];
        let others: Vec<_> = others.into_iter().flatten().collect();
        for (number, (option, byte)) in others.iter().enumerate() {
            if let Some((other, _)) = others[..number].iter().find(|(_, other)| other == byte) {
                let byte = byte.escape_ascii();
                return Err(source
                    .facts
                    .usage(format!(
                        "`{other}` and `{option}` are the same character, `{byte}`"
                    ))
                    .with_remedy(
                        "give them different characters; a doubled quote needs no option",
                    ));
            }
        }
    }
    Ok(())
}

/// Checks that nothing is asked of text that only JSONL has.
fn check_text(source: &Planned, options: &InputOptions) -> Result<()> {
    let text_field = &options.text_field;
    let strange = options.kept().find(|keep| {
        keep.name != *text_field || !matches!(keep.kind, None | Some(KeepType::String))
    });
    match strange {
        Some(keep) if source.facts.format == InputFormat::File && keep.name == HEADING => {
            Err(Error::usage(format!(
                "`{KEEP} {HEADING}` keeps the headings above a chunk, but {} is not cut into chunks",
                source.facts.name
            ))
            .with_remedy(format!("add `{CHUNK} markdown`")))
        }
        Some(keep) if !source.facts.format.has_fields() && keep.name == HEADING => {
            Err(Error::usage(format!(
                "`{KEEP} {HEADING}` keeps the headings of documents, but {} is read as lines of text",
                source.facts.name
            ))
            .with_remedy(format!(
                "say `{INPUT_FORMAT} {}` if it is a document",
                InputFormat::File
            )))
        }
        Some(keep) if !source.facts.format.has_fields() => Err(Error::usage(format!(
            "`{KEEP} {keep}` needs fields, but {} is read as text, which has only the text itself \
             (`{KEEP} {text_field}`)",
            source.facts.name
        ))
        .with_remedy(format!("say `{INPUT_FORMAT} jsonl` if it is JSONL"))),
        _ => Ok(()),
    }
}

/// The parts that are read, in order, from the start on.
pub(super) fn parts(sources: Vec<Planned>, range: &InputRange) -> Result<Vec<Arc<Planned>>> {
    let first = range.start.map_or(0, |start| start.source);
    let wholes = (0..sources.len()).map(|source| (source, Part::Whole));
    let asked: Vec<(usize, Part)> = match &range.shares {
        None => wholes.collect(),
        Some(shares) => (shares.iter())
            .map(|share| (share.source as usize, share.part))
            .collect(),
    };
    let mut parts = Vec::with_capacity(asked.len());
    for (index, part) in asked {
        let source: &Planned = sources.get(index).ok_or_else(|| {
            Error::internal(format!("a share of source {index}, which is not there"))
        })?;
        let fits = match part {
            Part::Whole => true,
            Part::Bytes { .. } => !source.facts.format.is_table() && !source.is_whole(),
            Part::Rows { .. } => source.facts.format.is_table(),
        };
        if !fits {
            return Err(source
                .facts
                .usage("this input cannot be read in such parts"));
        }
        if source.facts.index < first {
            continue;
        }
        let start = range
            .start
            .filter(|start| start.source == source.facts.index);
        parts.push(Arc::new(Planned {
            part,
            start: start.map(|start| (start.lines, start.seek)),
            ..source.clone()
        }));
    }
    Ok(parts)
}

/// A warning where ids are line numbers, and several sources have the same ones.
pub(super) fn repeated_ids(sources: &[Planned], options: &InputOptions) -> Option<String> {
    let texts = sources
        .iter()
        .filter(|one| one.facts.format == InputFormat::Text)
        .count();
    (texts > 1 && !options.source_columns && options.id_field.is_some()).then(|| {
        format!(
            "ids are line numbers, so those of {texts} text inputs repeat; `{SOURCE_COLUMNS}` adds the columns \
             `file` and `line`, which tell records apart"
        )
    })
}
