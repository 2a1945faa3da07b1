//! Inputs that are documents: each file is one text.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::reading::format;
use crate::reading::source::Source;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_records::format::InputFormat;

/// Files that a message lists.
const LISTED: usize = 100;

/// The format of sources for which none was named, where all of them together tell it: they are documents, if the ending
/// of each is that of one, and one at least is no `.txt`, whose lines are records by themselves. With `as_markdown` texts
/// are cut at headings, so `.txt` is a document, too, and standard input alone is one. A folder of documents is told by all files in it
/// ([`expand`](super::list::expand)).
#[must_use]
pub fn implied_format(sources: &[Source], as_markdown: bool) -> Option<InputFormat> {
    if as_markdown && matches!(sources, [Source::Stdin]) {
        return Some(InputFormat::File);
    }
    let paths: Option<Vec<&Path>> = sources.iter().map(Source::path).collect();
    let are_documents = are_documents(paths?.into_iter(), as_markdown);
    are_documents.then_some(InputFormat::File)
}

fn are_documents<'p>(paths: impl Iterator<Item = &'p Path>, as_markdown: bool) -> bool {
    let (mut all, mut any) = (true, false);
    for path in paths {
        all &= format::is_document(path);
        any |= as_markdown || format::is_only_document(path);
    }
    all && any
}

/// Whether the files of a folder are documents: all whose endings tell a format are text, and there is a document among
/// the others.
pub(super) fn are_of_folder<'p>(files: impl Iterator<Item = &'p Path>) -> bool {
    let known = files.filter(|path| {
        format::by_ending(path).0.is_some()
            || format::is_document(path)
            || format::conversion(path).is_some()
    });
    let (mut all, mut any) = (true, false);
    for path in known {
        let is_other = format::conversion(path).is_some();
        all &= is_other || format::is_document(path);
        any |= format::is_only_document(path);
    }
    all && any
}

/// Refuses a folder whose files are binary documents and text alone, without other documents or records: where each of
/// them has its text beside it, nothing tells whether that is one text or a list of lines.
///
/// # Errors
/// If it is such a folder.
pub(super) fn refuse_binary_and_lines(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let is_record =
        |path: &PathBuf| format::by_ending(path).0.is_some() && !format::is_document(path);
    let is_binary = |path: &PathBuf| format::conversion(path).is_some();
    if !files.iter().any(is_binary)
        || files
            .iter()
            .any(|path| is_record(path) || format::is_only_document(path))
    {
        return Ok(());
    }
    refuse_binary(files)?;
    Err(Error::usage(format!(
        "the folder {} holds documents and their text, which may be documents or lists of lines",
        folder.display()
    ))
    .with_remedy(format!(
        "`{INPUT_FORMAT} {}` embeds each as one text, and `{INPUT_FORMAT} {}` each of its lines",
        InputFormat::File,
        InputFormat::Text
    )))
}

/// Refuses binary documents, such as PDF, and names all of them. One beside which its text stands, as its conversion
/// leaves it, is left out.
///
/// # Errors
/// If there are any.
pub(super) fn refuse_binary(files: &[PathBuf]) -> Result<()> {
    let binary = files.iter();
    let binary = binary.filter_map(|path| Some((path, format::conversion(path)?)));
    let mut found: Vec<_> = binary.collect();
    if !found.is_empty() {
        let texts = files.iter().filter(|path| format::is_document(path));
        let converted: HashSet<PathBuf> = texts.map(|path| path.with_extension("")).collect();
        found.retain(|(path, _)| !converted.contains(&path.with_extension("")));
    }
    let Some((first, (_, command))) = found.first() else {
        return Ok(());
    };
    let mut commands = vec![command];
    for (_, (_, command)) in &found {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    let mut names: Vec<_> = (found.iter().take(LISTED))
        .map(|(path, (what, _))| format!("{} ({what})", path.display()))
        .collect();
    if let Some(more) = found.len().checked_sub(LISTED).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    let what = match found.len() {
        1 => format!("{} is not text", names[0]),
        count => format!("{count} documents are not text: {}", names.join(", ")),
    };
    let commands: Vec<&str> = commands.iter().map(|command| command.as_str()).collect();
    let commands = commands.join(" and ");
    let convert = format!("convert with {commands}, so that the text stands beside it");
    // An ending that others here have: of documents, or else of text.
    let has_ending = |is: fn(&Path) -> bool| {
        let mut others = files.iter().filter(|path| is(path));
        others.find_map(|path| path.extension()?.to_str())
    };
    let ending = has_ending(format::is_only_document).or_else(|| has_ending(format::is_document));
    let remedy = match first.parent().zip(ending) {
        Some((folder, ending)) => format!(
            "{convert}, or name the others by a pattern (`{INPUT_FORMAT} {} '{}'`)",
            InputFormat::File,
            folder.join(format!("*.{ending}")).display()
        ),
        None => convert,
    };
    Err(Error::usage(what).with_remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn documents_are_told_by_all_endings_together() {
        for (names, plain, markdown) in [
            (&["a.md"][..], true, true),
            (&["a.md", "b/c.TXT", "d.html.gz"], true, true),
            (&["a.txt", "b.txt"], false, true),
            (&["a.md", "b.jsonl"], false, false),
            (&["a.md", "b"], false, false),
            (&["a.md", "-"], false, false),
            (&["-"], false, true),
        ] {
            let sources = paths(names)
                .into_iter()
                .map(|path| match path.as_os_str() == "-" {
                    true => Source::Stdin,
                    false => Source::from(path),
                });
            let sources: Vec<Source> = sources.collect();
            for (as_markdown, expected) in [(false, plain), (true, markdown)] {
                let found = implied_format(&sources, as_markdown);
                assert_eq!(found.is_some(), expected, "{names:?} {as_markdown}");
            }
        }
        for (names, expected) in [
            (&["a.md", "b.txt", "logo.png", "LICENSE", "c.pdf"][..], true),
            (&["a.txt", "logo.png"], false),
            (&["a.md", "data.csv"], false),
            (&["c.pdf"], false),
        ] {
            let files = paths(names);
            let found = are_of_folder(files.iter().map(PathBuf::as_path));
            assert_eq!(found, expected, "{names:?}");
        }
    }

    #[test]
    fn every_binary_document_is_named_with_its_command() {
        let files = paths(&[
            "d/a.md", "d/b.pdf", "d/c.docx", "d/e.pdf", "d/e.txt", "d/x.png",
        ]);
        let error = refuse_binary(&files).unwrap_err().to_string();
        for words in [
            "2 documents",
            "d/b.pdf (a PDF)",
            "d/c.docx",
            "pdftotext",
            "pandoc",
            "'d/*.md'",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert!(!error.contains("e.pdf"), "{error}");
        assert!(refuse_binary(&paths(&["a.md", "a.pdf"])).is_ok());
        // A pattern that finds something.
        for (names, pattern) in [
            (&["d/x.pdf", "d/t.txt"][..], Some("'d/*.txt'")),
            (&["d/x.pdf", "d/t.txt", "d/t.rst"], Some("'d/*.rst'")),
            (&["d/x.pdf", "d/x.png"], None),
        ] {
            let error = refuse_binary(&paths(names)).unwrap_err().to_string();
            match pattern {
                Some(pattern) => assert!(error.contains(pattern), "{error}"),
                None => assert!(!error.contains("pattern"), "{error}"),
            }
        }
    }
}
