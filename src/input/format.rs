//! Formats of records, and how a file's name tells its format and compression.

use std::fmt;
use std::path::Path;

use super::compression::Encoding;

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// A line is a record.
    Text,
    /// A line is a JSON object.
    Jsonl,
    /// Fields parted by commas, the first line names them.
    Csv,
    /// The same with tabs.
    Tsv,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow's files and streams (IPC).
    Arrow,
}

impl InputFormat {
    /// Whether its records come as columns with types of their own.
    #[must_use]
    pub fn is_table(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}

impl fmt::Display for InputFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Text => "text",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        })
    }
}

impl InputFormat {
    /// Whether a path's endings name a format.
    #[must_use]
    pub fn is_named_by(path: &Path) -> bool {
        by_ending(path).0.is_some()
    }
}

/// Format and compression as `path`'s endings name them, upper case or lower; `None` where they don't.
pub(super) fn by_ending(path: &Path) -> (Option<InputFormat>, Option<Encoding>) {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.as_deref().unwrap_or_default();
    let (stem, encoding) = match split(name) {
        (stem, "gz") => (stem, Some(Encoding::Gzip)),
        (stem, "zst") => (stem, Some(Encoding::Zstd)),
        (stem, "bz2") => (stem, Some(Encoding::Bzip2)),
        (stem, "xz") => (stem, Some(Encoding::Xz)),
        _ => (name.to_ascii_lowercase(), None),
    };
    let format = match split(&stem) {
        (_, "txt") => Some(InputFormat::Text),
        (_, "jsonl" | "ndjson") => Some(InputFormat::Jsonl),
        (_, "csv") => Some(InputFormat::Csv),
        (_, "tsv") => Some(InputFormat::Tsv),
        (_, "parquet") => Some(InputFormat::Parquet),
        (_, "arrow" | "arrows" | "ipc" | "feather") => Some(InputFormat::Arrow),
        _ => None,
    };
    (format, encoding)
}

const ENDINGS: [&str; 14] = [
    "gz", "zst", "bz2", "xz", "txt", "jsonl", "ndjson", "csv", "tsv", "parquet", "arrow", "arrows",
    "ipc", "feather",
];

/// A name in lower case without its last ending, and that ending among those that are known.
fn split(name: &str) -> (String, &'static str) {
    let name = name.to_ascii_lowercase();
    for ending in ENDINGS {
        if let Some(stem) = name
            .strip_suffix(ending)
            .and_then(|rest| rest.strip_suffix('.'))
        {
            return (stem.to_owned(), ending);
        }
    }
    (name, "")
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
