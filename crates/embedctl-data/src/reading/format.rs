//! Formats of records, as endings and first bytes tell them.

use std::path::Path;

use super::compression::SourceCompression;
use embedctl_common::error::Cause;
use embedctl_common::small_file::LFS_POINTER_LIMIT;
use embedctl_records::format::InputFormat;

/// The first bytes of a pointer of Git LFS.
pub(crate) const LFS_START: &[u8] = b"version https://git-lfs";

/// Whether more bytes than these are needed to recognise a format, or a file of none. A pointer of Git LFS is known by all
/// of its bytes.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let is_short = bytes.len() < LFS_POINTER_LIMIT;
    if is_short && (bytes.starts_with(LFS_START) || LFS_START.starts_with(bytes)) {
        return true;
    }
    let formats = (InputFormat::ALL.iter()).flat_map(|format| format.facts().starts);
    let foreign = FOREIGN.iter().map(|(start, ..)| start);
    let mut starts = formats.chain(foreign);
    starts.any(|start| bytes.len() < start.len() && start.starts_with(bytes))
}

/// The format that a source's first bytes are the start of, where that is certain.
pub(crate) fn recognised(start: &[u8]) -> Option<InputFormat> {
    let mut formats = InputFormat::ALL.into_iter();
    formats.find(|format| {
        let mut starts = format.facts().starts.iter();
        starts.any(|own| start.starts_with(own))
    })
}

/// The ending of text, which may be a document or a list of lines.
const TEXT: [&str; 1] = ["txt"];

/// Endings of documents, which [`InputFormat::File`] takes from folders as it takes text.
const DOCUMENTS: [&str; 3] = ["md", "markdown", "rst"];

/// Endings of HTML, a document that is read as its text.
const HTML: [&str; 3] = ["html", "htm", "xhtml"];

/// Whether a file is a document, as its ending says.
pub(crate) fn is_document(path: &Path) -> bool {
    has_ending(path, &TEXT) || is_only_document(path)
}

/// Whether a file is a document and no list of lines, as its ending says.
pub(crate) fn is_only_document(path: &Path) -> bool {
    has_ending(path, &DOCUMENTS) || is_html(path)
}

/// Whether a file is HTML, as its ending says.
pub(crate) fn is_html(path: &Path) -> bool {
    has_ending(path, &HTML)
}

/// Whether these bytes are the start of HTML.
pub(crate) fn begins_html(start: &[u8]) -> bool {
    let start = start
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(start)
        .trim_ascii_start();
    [&b"<!doctype html"[..], b"<html"].iter().any(|tag| {
        let own = start.get(..tag.len());
        own.is_some_and(|own| own.eq_ignore_ascii_case(tag))
    })
}

/// Whether one of these is the ending of a path, behind which that of a compression may stand.
fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let (stem, _) = uncompressed(path);
    let ending = stem.rsplit_once('.');
    ending.is_some_and(|(_, ending)| endings.contains(&ending))
}

/// Files that no format reads: their first bytes, endings, what they are, and what helps.
const FOREIGN: [(&[u8], &[&str], &str, &str); 4] = [
    (
        b"PK\x03\x04",
        &["xlsx", "xlsm", "docx", "pptx", "odt", "ods", "epub", "zip"],
        "a ZIP archive, as Excel's and Word's files are",
        "save the sheet as CSV or the document as text (`pandoc -t markdown FILE.docx > FILE.md`), or unpack the archive",
    ),
    (
        b"%PDF-",
        &["pdf"],
        "a PDF",
        "convert it to text first, for example with `pdftotext`",
    ),
    (
        b"\xd0\xcf\x11\xe0",
        &["xls", "doc", "ppt"],
        "a file of an older Excel or Word",
        "save the sheet as CSV, or the document as text",
    ),
    (
        b"SQLite format 3\0",
        &["db", "sqlite", "sqlite3"],
        "an SQLite database",
        "export the table as CSV: `sqlite3 -header -csv FILE 'SELECT * FROM TABLE'`",
    ),
];

/// Binary documents: their endings, what they are, and the command that leaves their text beside them.
const CONVERTED: [(&[&str], &str, &str); 2] = [
    (&["pdf"], "a PDF", "`pdftotext FILE.pdf`"),
    (
        &["docx", "odt", "epub", "rtf"],
        "a text processor's file",
        "`pandoc -t markdown FILE.docx > FILE.md`",
    ),
];

/// What a binary document is, by its ending, and the command that converts it.
pub(crate) fn conversion(path: &Path) -> Option<(&'static str, String)> {
    let mut documents = CONVERTED.iter();
    let (_, what, command) = documents.find(|(endings, ..)| has_ending(path, endings))?;
    Some((what, with_own_ending(command, path)))
}

/// A command for `FILE.docx`, with the ending of `path` if that is another one of a text processor's.
fn with_own_ending(command: &str, path: &Path) -> String {
    let (stem, _) = uncompressed(path);
    let ending = stem.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mut documents = CONVERTED.iter();
    match documents.any(|(all, _, own)| own.contains("pandoc") && all.contains(&ending)) {
        true => command.replace("FILE.docx", &format!("FILE.{ending}")),
        false => command.to_owned(),
    }
}

/// What the file at `path` is that no format reads, by its first bytes, and what helps.
pub(crate) fn foreign(start: &[u8], path: &Path) -> Option<Cause> {
    let (.., what, remedy) = FOREIGN.iter().find(|(own, ..)| start.starts_with(own))?;
    Some(Cause::of(format!("this is {what}")).with(with_own_ending(remedy, path)))
}

/// The same for one whose bytes are not read, by its ending.
pub(crate) fn foreign_ending(path: &Path) -> Option<Cause> {
    let mut files = FOREIGN.iter();
    let (.., what, remedy) = files.find(|(_, endings, ..)| has_ending(path, endings))?;
    let cause = Cause::of(format!("its ending is that of {what}"));
    Some(cause.with(with_own_ending(remedy, path)))
}

/// A path's name in lower case without the ending of its compression, and that compression.
fn uncompressed(path: &Path) -> (String, Option<SourceCompression>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let (stem, encoding) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Some(SourceCompression::Gzip)),
        Some((stem, "zst")) => (stem, Some(SourceCompression::Zstd)),
        Some((stem, "bz2")) => (stem, Some(SourceCompression::Bzip2)),
        Some((stem, "xz")) => (stem, Some(SourceCompression::Xz)),
        _ => (name.as_str(), None),
    };
    (stem.to_owned(), encoding)
}

/// Format and compression as `path`'s endings name them, upper case or lower; `None` where they don't.
pub(crate) fn by_ending(path: &Path) -> (Option<InputFormat>, Option<SourceCompression>) {
    let (stem, encoding) = uncompressed(path);
    let format = stem.rsplit_once('.').and_then(|(_, ending)| {
        let mut formats = InputFormat::ALL.into_iter();
        formats.find(|format| format.facts().endings.contains(&ending))
    });
    (format, encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_files_own_ending() {
        for (name, command) in [
            ("a.odt", "FILE.odt > FILE.md"),
            ("a.epub", "FILE.epub > FILE.md"),
            ("a.RTF", "FILE.rtf > FILE.md"),
            ("a.docx", "FILE.docx > FILE.md"),
            ("a.pdf", "pdftotext FILE.pdf"),
        ] {
            let path = Path::new(name);
            let (_, converts) = conversion(path).unwrap();
            assert!(converts.contains(command), "{name}: {converts}");
            if let Some(cause) = foreign_ending(path).filter(|_| name != "a.pdf") {
                assert!(cause.to_string().contains(command), "{name}: {cause}");
            }
        }
        let zip = foreign(b"PK\x03\x04", Path::new("a.odt")).unwrap();
        assert!(zip.to_string().contains("FILE.odt"), "{zip}");
    }

    #[test]
    fn endings_name_format_and_compression() {
        let (text, jsonl) = (Some(InputFormat::Text), Some(InputFormat::Jsonl));
        let (gzip, zstd) = (Some(SourceCompression::Gzip), Some(SourceCompression::Zstd));
        for (path, expected) in [
            ("a.txt", (text, None)),
            ("dir.jsonl/a.TXT", (text, None)),
            ("a.jsonl", (jsonl, None)),
            ("a.b.ndjson", (jsonl, None)),
            ("a.txt.gz", (text, gzip)),
            ("a.JSONL.Zst", (jsonl, zstd)),
            ("a.parquet", (Some(InputFormat::Parquet), None)),
            ("a.Feather", (Some(InputFormat::Arrow), None)),
            ("a.arrows", (Some(InputFormat::Arrow), None)),
            ("a.gz", (None, gzip)),
            ("a.csv.zst", (Some(InputFormat::Csv), zstd)),
            (
                "a.tsv.XZ",
                (Some(InputFormat::Tsv), Some(SourceCompression::Xz)),
            ),
            ("a.txt.bz2", (text, Some(SourceCompression::Bzip2))),
            ("a.txt.bak", (None, None)),
            ("txt", (None, None)),
            ("a.json.gz", (Some(InputFormat::Json), gzip)),
            ("/dev/stdin", (None, None)),
            ("..", (None, None)),
            ("Ü.txt", (text, None)),
        ] {
            assert_eq!(by_ending(Path::new(path)), expected, "{path}");
        }
    }
}
