//! Formats of records, and how a file's name or its first bytes tell them.

use std::path::Path;

use super::compression::Encoding;
use embedctl_common::named::named;

/// What a Parquet file begins and ends with.
pub(super) const PARQUET: &[u8] = b"PAR1";

/// What an Arrow file begins with; a stream follows it.
pub(super) const ARROW: &[u8] = b"ARROW1\0\0";

named! {
    /// The format of a source.
    pub enum InputFormat {
        /// A line is a record.
        Text = "text",
        /// A line is a JSON object.
        Jsonl = "jsonl",
        /// Fields parted by commas, the first line names them.
        Csv = "csv",
        /// The same with tabs.
        Tsv = "tsv",
        /// Apache Parquet.
        Parquet = "parquet",
        /// Apache Arrow's files and streams (IPC).
        Arrow = "arrow",
    }
}

impl InputFormat {
    /// Whether its records come as columns with types of their own.
    #[must_use]
    pub fn is_table(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }

    /// Whether its first line names the fields.
    pub(super) fn has_header(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

/// The format that a source's first bytes are the start of, where that is certain.
pub(super) fn recognised(start: &[u8]) -> Option<InputFormat> {
    if start.starts_with(PARQUET) {
        Some(InputFormat::Parquet)
    } else if start.starts_with(ARROW) || start.starts_with(&[0xff; 4]) {
        Some(InputFormat::Arrow)
    } else {
        None
    }
}

/// Format and compression as `path`'s endings name them, upper case or lower; `None` where they don't.
pub(super) fn by_ending(path: &Path) -> (Option<InputFormat>, Option<Encoding>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let (stem, encoding) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Some(Encoding::Gzip)),
        Some((stem, "zst")) => (stem, Some(Encoding::Zstd)),
        Some((stem, "bz2")) => (stem, Some(Encoding::Bzip2)),
        Some((stem, "xz")) => (stem, Some(Encoding::Xz)),
        _ => (name.as_str(), None),
    };
    let format = stem.rsplit_once('.').and_then(|(_, ending)| match ending {
        "txt" => Some(InputFormat::Text),
        "jsonl" | "ndjson" => Some(InputFormat::Jsonl),
        "csv" => Some(InputFormat::Csv),
        "tsv" => Some(InputFormat::Tsv),
        "parquet" => Some(InputFormat::Parquet),
        "arrow" | "arrows" | "ipc" | "feather" => Some(InputFormat::Arrow),
        _ => None,
    });
    (format, encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_format_and_compression() {
        let (text, jsonl) = (Some(InputFormat::Text), Some(InputFormat::Jsonl));
        let (gzip, zstd) = (Some(Encoding::Gzip), Some(Encoding::Zstd));
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
            ("a.tsv.XZ", (Some(InputFormat::Tsv), Some(Encoding::Xz))),
            ("a.txt.bz2", (text, Some(Encoding::Bzip2))),
            ("a.txt.bak", (None, None)),
            ("txt", (None, None)),
            ("a.json", (None, None)),
            ("/dev/stdin", (None, None)),
            ("..", (None, None)),
            ("Ü.txt", (text, None)),
        ] {
            assert_eq!(by_ending(Path::new(path)), expected, "{path}");
        }
    }
}
