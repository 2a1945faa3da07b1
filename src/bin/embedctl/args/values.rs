//! Values as they are typed, and their parsers.

use std::error::Error;
use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use embedctl::engine::Provider;
use embedctl::input::{IdType, InputFormat};
use embedctl::output::{Compression, OutputFormat, VectorType};
use embedctl::pipeline::OnError;
use embedctl::tokenize::ChunkBy;

/// A parser whose values have names that shells can complete, though it takes lists or other spellings too.
#[derive(Debug, Clone)]
pub struct Named<F> {
    names: Vec<&'static str>,
    parse: F,
}

impl<F> Named<F> {
    pub fn new(names: impl IntoIterator<Item = &'static str>, parse: F) -> Self {
        let names = names.into_iter().collect();
        Self { names, parse }
    }
}

impl<F, T, E> TypedValueParser for Named<F>
where
    F: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// What `--provider` takes.
pub fn providers() -> impl Iterator<Item = &'static str> {
    ["auto"]
        .into_iter()
        .chain(Provider::ALL.map(Provider::name))
}

/// `--input-format`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum InputFormatName {
    /// A line is a record
    Text,
    /// A line is a JSON object
    Jsonl,
    /// Fields parted by commas, with a header
    Csv,
    /// Fields parted by tabs, with a header
    Tsv,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow: a file, or a stream
    Arrow,
}

impl From<InputFormatName> for InputFormat {
    fn from(name: InputFormatName) -> Self {
        match name {
            InputFormatName::Text => Self::Text,
            InputFormatName::Jsonl => Self::Jsonl,
            InputFormatName::Csv => Self::Csv,
            InputFormatName::Tsv => Self::Tsv,
            InputFormatName::Parquet => Self::Parquet,
            InputFormatName::Arrow => Self::Arrow,
        }
    }
}

/// `--output-format`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OutputFormatName {
    /// Columns id, kept fields and embedding, compressed with zstd
    Parquet,
    /// The same columns as Arrow's IPC file (Feather); a stream where OUT is no file
    Arrow,
    /// The same columns as Arrow's IPC stream
    Arrows,
    /// A matrix, with its rows' ids in a file beside it
    Npy,
    /// A JSON object for each row
    Jsonl,
    /// The same, compressed with gzip
    #[value(name = "jsonl.gz")]
    JsonlGzip,
    /// The same, compressed with zstd
    #[value(name = "jsonl.zst")]
    JsonlZstd,
    /// Rows for PostgreSQL's COPY ... WITH (FORMAT binary), vectors in pgvector's types
    Pgcopy,
    /// A matrix: rows and width as u32, then float32 (DiskANN, cuVS, usearch), with its rows' ids beside it
    Fbin,
    /// The same with int8
    I8bin,
    /// The same with uint8
    U8bin,
}

impl From<OutputFormatName> for OutputFormat {
    fn from(name: OutputFormatName) -> Self {
        match name {
            OutputFormatName::Parquet => Self::Parquet,
            OutputFormatName::Arrow => Self::Arrow,
            OutputFormatName::Arrows => Self::Arrows,
            OutputFormatName::Npy => Self::Npy,
            OutputFormatName::Jsonl => Self::Jsonl(Compression::None),
            OutputFormatName::JsonlGzip => Self::Jsonl(Compression::Gzip),
            OutputFormatName::JsonlZstd => Self::Jsonl(Compression::Zstd),
            OutputFormatName::Pgcopy => Self::Pgcopy,
            OutputFormatName::Fbin => Self::Fbin,
            OutputFormatName::I8bin => Self::I8bin,
            OutputFormatName::U8bin => Self::U8bin,
        }
    }
}

/// `--vector-type`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum VectorTypeName {
    /// Lists of fixed size, which is what vectors are
    Fixed,
    /// Lists of variable length, for readers that know no others (Spark)
    List,
}

impl From<VectorTypeName> for VectorType {
    fn from(name: VectorTypeName) -> Self {
        match name {
            VectorTypeName::Fixed => Self::Fixed,
            VectorTypeName::List => Self::List,
        }
    }
}

/// `--id-type`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum IdTypeName {
    /// Strings; integers as their digits
    String,
    /// 64-bit integers
    Int,
}

impl From<IdTypeName> for IdType {
    fn from(name: IdTypeName) -> Self {
        match name {
            IdTypeName::String => Self::String,
            IdTypeName::Int => Self::Int,
        }
    }
}

/// `--on-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorName {
    /// Stop the run
    Fail,
    /// Leave the record out, count it, and go on
    Skip,
    /// Write a row without a vector, with the reason in the column embedding_error, count it, and go on
    Null,
}

impl From<OnErrorName> for OnError {
    fn from(name: OnErrorName) -> Self {
        match name {
            OnErrorName::Fail => Self::Fail,
            OnErrorName::Skip => Self::Skip,
            OnErrorName::Null => Self::Null,
        }
    }
}

/// `--chunk`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ChunkByName {
    /// At starts of words: as many tokens in a chunk as fit
    Tokens,
    /// At starts of sentences: as many whole sentences in a chunk as fit
    Sentences,
}

impl From<ChunkByName> for ChunkBy {
    fn from(name: ChunkByName) -> Self {
        match name {
            ChunkByName::Tokens => Self::Tokens,
            ChunkByName::Sentences => Self::Sentences,
        }
    }
}

/// `--device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// Every device of the provider.
    All,
    /// These, by number.
    Numbers(Vec<u32>),
}

/// `all`, a number, or numbers with commas between.
pub fn devices(text: &str) -> Result<Devices, String> {
    if text.trim().eq_ignore_ascii_case("all") {
        return Ok(Devices::All);
    }
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = part.parse().map_err(|_| {
            format!(
                "'{part}' is no device number; give numbers from 0, with commas between, or 'all'"
            )
        })?;
        if numbers.contains(&number) {
            return Err(format!("device {number} is listed twice"));
        }
        numbers.push(number);
    }
    Ok(Devices::Numbers(numbers))
}

/// A whole number of at least 1.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number of at least 1".to_owned()),
    }
}

/// A cosine, 0 to 1.
pub fn cosine(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cosine) if (0.0..=1.0).contains(&cosine) => Ok(cosine),
        _ => Err("must be a cosine, a number from 0 to 1".to_owned()),
    }
}

/// A time in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if time > 0.0 && time <= 86_400.0 => Ok(time),
        _ => Err("must be a number of seconds above 0, 86400 at most".to_owned()),
    }
}

/// A share in percent, as `5%` or `5`; the result is 0.05.
pub fn percent(text: &str) -> Result<f64, String> {
    match text
        .trim_end()
        .trim_end_matches('%')
        .trim_end()
        .parse::<f64>()
    {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("must be a percentage below 100, such as 5%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_start_at_one() {
        assert_eq!(positive("12"), Ok(12));
        for wrong in ["0", "-3", "", "many", "1.0"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_shares_are_numbers() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert_eq!(percent("5%"), Ok(0.05));
        assert_eq!(percent("2.5 %"), Ok(0.025));
        assert_eq!(percent("0"), Ok(0.0));
        for wrong in ["", "0", "-1", "NaN", "inf", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "%", "-1%", "100%", "NaN", "five"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices_are_a_list_or_all() {
        assert_eq!(devices("all"), Ok(Devices::All));
        assert_eq!(devices("0, 2"), Ok(Devices::Numbers(vec![0, 2])));
        for wrong in ["", "0,,1", "gpu0", "-1", "1,1"] {
            assert!(devices(wrong).is_err(), "{wrong}");
        }
    }
}
