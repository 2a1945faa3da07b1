//! How the fields of CSV and TSV are written.

use std::fmt;
use std::str::FromStr;

use embedctl_common::error::Cause;

/// How the fields of CSV and TSV are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// The separator of fields; `None`: a comma, and in TSV a tab.
    pub delimiter: Option<Delimiter>,
    /// The quote around fields; `None`: a double quote, and TSV in which it seems to be an ordinary character is refused.
    pub quote: Option<CsvQuote>,
    /// The escape character; `None`: a quote inside quotes is doubled.
    pub escape: Option<CsvEscape>,
    /// The field that is null; `None`: no field is.
    pub null: Option<String>,
}

/// The byte that separates the fields of CSV: ASCII, and neither a quote nor part of a line's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(pub(crate) u8);

impl FromStr for Delimiter {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Cause> {
        match text.as_bytes() {
            b"\\t" | b"tab" => Ok(Self(b'\t')),
            [byte] if byte.is_ascii() && !b"\"\r\n\0".contains(byte) => Ok(Self(*byte)),
            _ => Err(
                "it is one character of ASCII, such as ';' or '|' (a tab: '\\t'), and no quote or line break"
                    .into(),
            ),
        }
    }
}

impl fmt::Display for Delimiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\t' => formatter.write_str("tabs"),
            b',' => formatter.write_str("commas"),
            byte => write!(formatter, "`{}`", char::from(byte)),
        }
    }
}

/// The quote around fields, an ASCII character; `None`: quotes are ordinary characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvQuote(pub(crate) Option<u8>);

impl FromStr for CsvQuote {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Cause> {
        match text.as_bytes() {
            b"none" => Ok(Self(None)),
            [byte] if byte.is_ascii_punctuation() => Ok(Self(Some(*byte))),
            _ => Err(
                "it is '\"', another punctuation character of ASCII such as '|', or none".into(),
            ),
        }
    }
}

impl fmt::Display for CsvQuote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(byte) => write!(formatter, "{}", char::from(byte)),
            None => formatter.write_str("none"),
        }
    }
}

/// The escape character: punctuation of ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvEscape(pub(crate) u8);

impl FromStr for CsvEscape {
    type Err = Cause;

    fn from_str(text: &str) -> Result<Self, Cause> {
        match text.as_bytes() {
            [byte] if byte.is_ascii_punctuation() => Ok(Self(*byte)),
            _ => Err("it is one punctuation character of ASCII, such as '\\'".into()),
        }
    }
}

impl fmt::Display for CsvEscape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", char::from(self.0))
    }
}

/// The rules for one source: the options, with their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvDialect {
    /// Between two fields.
    pub delimiter: u8,
    /// Around a field; `None`: quotes are ordinary characters.
    pub quote: Option<u8>,
    /// Before a character that has no meaning of its own.
    pub escape: Option<u8>,
    /// Whether the user has named the quote.
    pub is_named: bool,
}

impl CsvDialect {
    /// The options' rules for a format with that separator.
    #[must_use]
    pub fn new(options: &CsvOptions, separator: u8) -> Self {
        Self {
            delimiter: options.delimiter.map_or(separator, |own| own.0),
            quote: options.quote.map_or(Some(b'"'), |quote| quote.0),
            escape: options.escape.map(|escape| escape.0),
            is_named: options.quote.is_some(),
        }
    }

    /// Whether quotes may be ordinary characters: much TSV (of PostgreSQL, of benchmarks) is never quoted.
    pub(crate) fn is_doubtful(self) -> bool {
        self.delimiter == b'\t' && !self.is_named
    }
}
