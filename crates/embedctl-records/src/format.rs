//! Formats of records, and their constants.

use embedctl_common::named::named;

named! {
    /// The format of a source.
    pub enum InputFormat {
        /// A line is a record.
        Text = "text",
        /// A file is a record: its content is the text, its name the id.
        File = "file",
        /// A line is a JSON object.
        Jsonl = "jsonl",
        /// An array of JSON objects, or a JSON object on each line.
        Json = "json",
        /// A line is a request of OpenAI's API, with one text or a list of texts.
        OpenAiBatch = "openai-batch",
        /// Fields separated by commas, the first line names them.
        Csv = "csv",
        /// The same with tabs.
        Tsv = "tsv",
        /// Apache Parquet.
        Parquet = "parquet",
        /// Apache Arrow's files and streams (IPC).
        Arrow = "arrow",
    }
}

/// The constants of an input format.
#[derive(Debug)]
pub struct InputFacts {
    /// Endings of its files, in lower case.
    pub endings: &'static [&'static str],
    /// One line for people who choose between formats.
    pub about: &'static str,
    /// First bytes that only sources of this format have.
    pub starts: &'static [&'static [u8]],
    /// Whether its records come as columns with types of their own.
    pub is_table: bool,
    /// The byte between fields, if the first line names them.
    pub separator: Option<u8>,
    /// Whether its records have named fields.
    pub has_fields: bool,
}

impl InputFacts {
    /// The values of a format that sets no others; every format sets its endings and its line.
    const DEFAULT: Self = Self {
        endings: &[],
        about: "",
        starts: &[],
        is_table: false,
        separator: None,
        has_fields: true,
    };
}

/// The first and the last bytes of a Parquet file.
pub const PARQUET_MAGIC: &[u8] = b"PAR1";
/// The first bytes of an Arrow file; a stream follows them.
pub const ARROW_MAGIC: &[u8] = b"ARROW1\0\0";
/// The first bytes of an Arrow stream.
pub const ARROW_STREAM_START: &[u8] = &[0xff; 4];

impl InputFormat {
    /// Its constants.
    #[must_use]
    pub fn facts(self) -> InputFacts {
        match self {
            Self::Text => InputFacts {
                endings: &["txt"],
                about: "A line is a record",
                has_fields: false,
                ..InputFacts::DEFAULT
            },
            Self::File => InputFacts {
                about: "A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML",
                has_fields: false,
                ..InputFacts::DEFAULT
            },
            Self::Jsonl => InputFacts {
                endings: &["jsonl", "ndjson"],
                about: "A line is a JSON object",
                ..InputFacts::DEFAULT
            },
            Self::Json => InputFacts {
                endings: &["json"],
                about: "An array of JSON objects, or a JSON object on each line",
                ..InputFacts::DEFAULT
            },
            Self::OpenAiBatch => InputFacts {
                about: "A batch file of OpenAI's API: custom_id, and the texts in body.input",
                ..InputFacts::DEFAULT
            },
            Self::Csv => InputFacts {
                endings: &["csv"],
                about: "Comma-separated values with a header",
                separator: Some(b','),
                ..InputFacts::DEFAULT
            },
            Self::Tsv => InputFacts {
                endings: &["tsv"],
                about: "Tab-separated values with a header",
                separator: Some(b'\t'),
                ..InputFacts::DEFAULT
            },
            Self::Parquet => InputFacts {
                endings: &["parquet"],
                about: "Apache Parquet",
                starts: &[PARQUET_MAGIC],
                is_table: true,
                ..InputFacts::DEFAULT
            },
            Self::Arrow => InputFacts {
                endings: &["arrow", "arrows", "ipc", "feather"],
                about: "Apache Arrow: a file, or a stream",
                starts: &[ARROW_MAGIC, ARROW_STREAM_START],
                is_table: true,
                ..InputFacts::DEFAULT
            },
        }
    }

    /// Whether its records come as columns with types of their own.
    #[must_use]
    pub fn is_table(self) -> bool {
        self.facts().is_table
    }

    /// Whether its records have named fields.
    #[must_use]
    pub fn has_fields(self) -> bool {
        self.facts().has_fields
    }

    /// Whether its records are JSON objects.
    #[must_use]
    pub fn is_json(self) -> bool {
        matches!(self, Self::Jsonl | Self::Json | Self::OpenAiBatch)
    }

    /// Whether its records are not the lines of its files, which are read from their beginning then.
    #[must_use]
    pub fn is_rewritten(self) -> bool {
        matches!(self, Self::Json | Self::OpenAiBatch)
    }

    /// Whether its first line names the fields.
    #[must_use]
    pub fn has_header(self) -> bool {
        self.facts().separator.is_some()
    }
}
