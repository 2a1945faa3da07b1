//! Values as they are typed, and their parsers.

use std::error::Error;
use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use embedctl::engine::Provider;
use embedctl::input::{IdType, InputFormat};
use embedctl::model::Precision;
use embedctl::output::{OutputFormat, VectorType};
use embedctl::pipeline::OnError;
use embedctl::tokenize::chunks::ChunkBy;

/// A parser whose values have names that shells can complete, though it takes lists or other spellings too.
#[derive(Debug, Clone)]
pub struct NamedValueParser<F> {
    names: Vec<&'static str>,
    parse: F,
}

impl<F> NamedValueParser<F> {
    pub fn new(names: impl IntoIterator<Item = &'static str>, parse: F) -> Self {
        let names = names.into_iter().collect();
        Self { names, parse }
    }
}

impl<F, T, E> TypedValueParser for NamedValueParser<F>
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

/// A value of `--provider`.
pub fn providers() -> impl Iterator<Item = &'static str> {
    ["auto"]
        .into_iter()
        .chain(Provider::ALL.map(Provider::name))
}

/// A parser of names that each stand for a value, with the line of each in --help.
fn choice<T>(
    choices: impl IntoIterator<Item = (&'static str, &'static str)>,
    of_name: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    let choices = choices.into_iter();
    let choices = choices.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(choices)
        .map(move |name| of_name(&name).expect("names of values alone"))
}

/// `--input-format`.
pub fn input_format() -> impl TypedValueParser<Value = InputFormat> {
    let formats = InputFormat::ALL.into_iter();
    choice(
        formats.map(|it| (it.name(), it.facts().about)),
        InputFormat::of_name,
    )
}

/// `--output-format`.
pub fn output_format() -> impl TypedValueParser<Value = OutputFormat> {
    let formats = OutputFormat::all();
    choice(
        formats.map(|it| (it.name(), it.facts().about)),
        OutputFormat::of_name,
    )
}

/// `--vector-type`.
pub fn vector_type() -> impl TypedValueParser<Value = VectorType> {
    let choices = [
        ("fixed", "Fixed-size lists"),
        (
            "list",
            "Variable-size lists, for readers without fixed-size lists (Spark)",
        ),
    ];
    choice(choices, VectorType::of_name)
}

/// `--id-type`.
pub fn id_type() -> impl TypedValueParser<Value = IdType> {
    let choices = [
        (
            "kept",
            "As in the input: the type of a table's column; in text, CSV and JSONL strings",
        ),
        ("string", "Strings; integers as their digits"),
        ("int", "64-bit integers"),
    ];
    choice(choices, IdType::of_name)
}

/// `--on-error`.
pub fn on_error() -> impl TypedValueParser<Value = OnError> {
    let choices = [
        ("fail", "Stop the run"),
        ("skip", "Leave the record out, count it, and continue"),
        (
            "null",
            "Write a row with a null vector and the reason in the column embedding_error, count it, and continue; pgcopy leaves out rows that PostgreSQL cannot hold",
        ),
    ];
    choice(choices, OnError::of_name)
}

/// `--chunk`.
pub fn chunk_by() -> impl TypedValueParser<Value = ChunkBy> {
    let choices = [
        (
            "tokens",
            "Split between words: as many tokens per chunk as fit",
        ),
        (
            "sentences",
            "Split between sentences: as many whole sentences per chunk as fit",
        ),
        (
            "paragraphs",
            "Split at blank lines: as many whole paragraphs per chunk as fit",
        ),
        (
            "markdown",
            "Split Markdown at headings, then between blocks; a heading stays with its text",
        ),
    ];
    choice(choices, ChunkBy::of_name)
}

/// `--precision`.
pub fn precision() -> impl TypedValueParser<Value = Precision> {
    PossibleValuesParser::new(Precision::ALL.map(Precision::name)).try_map(|name| name.parse())
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
                "'{part}' is not a device number; give numbers from 0, separated by commas, or 'all'; for a GPU: `--provider cuda`"
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

/// A whole number.
pub fn whole(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "must be a whole number of at least 0".to_owned())
}

/// A factor by which vectors become fewer.
pub fn pool_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor >= 1.0 && factor.is_finite() => Ok(factor),
        _ => Err("must be a number of at least 1".to_owned()),
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
    fn every_name_stands_for_a_value_and_every_value_has_a_name() {
        /// The names that a parser lists; the parser accepts each of them.
        fn names(parser: impl TypedValueParser) -> Vec<String> {
            let command = Command::new("embedctl");
            let names = parser.possible_values().expect("names");
            let take = |one: PossibleValue| {
                let value = parser.parse_ref(&command, None, OsStr::new(one.get_name()));
                value.map(drop).expect("a value");
                one.get_name().to_owned()
            };
            names.map(take).collect()
        }
        let formats: Vec<_> = OutputFormat::all().map(OutputFormat::name).collect();
        assert_eq!(names(output_format()), formats);
        assert_eq!(
            names(input_format()),
            InputFormat::ALL.map(InputFormat::name)
        );
        assert_eq!(names(vector_type()), VectorType::ALL.map(VectorType::name));
        assert_eq!(names(id_type()), IdType::ALL.map(IdType::name));
        assert_eq!(names(on_error()), OnError::ALL.map(OnError::name));
        assert_eq!(names(chunk_by()), ChunkBy::ALL.map(ChunkBy::name));
    }

    #[test]
    fn counts_start_at_one() {
        assert_eq!(positive("12"), Ok(12));
        for wrong in ["0", "-3", "", "many", "1.0"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_start_at_zero() {
        assert_eq!(whole("0"), Ok(0));
        for wrong in ["-1", "", "1.5", "all"] {
            assert!(whole(wrong).is_err(), "{wrong}");
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
