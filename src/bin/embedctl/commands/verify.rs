//! `embedctl verify-model`: whether vectors are those that another program made.

use std::path::{Path, PathBuf};

use anyhow::Context;
use embedctl::Embedder;
use embedctl::engine::{self, EngineInfo, EngineOptions};
use embedctl::input::{InputOptions, RecordReader, Source};
use embedctl::model::ModelName;
use embedctl::output::RunFiles;
use embedctl::verify::{self, Comparison};
use serde_json::json;

use super::embed;
use crate::args::{MessageArgs, VerifyModelArgs};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::interrupt;
use crate::printer::Printer;

/// The least cosine that is accepted in fp32 where none is named: what differs more is no rounding.
const LEAST: f64 = 0.9999;

/// Compares and says how close the vectors are.
pub fn run(
    args: &VerifyModelArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, Failure> {
    let texts = match &args.texts {
        Some(texts) => texts.clone(),
        None => beside(&args.against)?,
    };
    let input = InputOptions {
        format: args.records.input_format,
        csv_delimiter: args.records.csv_delimiter,
        text_field: args.records.text_field.clone(),
        ..InputOptions::default()
    };
    // What is not there is found before the model is opened.
    let records = RecordReader::open(&[Source::from(texts)], input)?;
    std::fs::metadata(&args.against)
        .with_context(|| format!("--against {}", args.against.display()))?;
    let cancel = interrupt::watch(RunFiles::new())?;
    let model = embed::model(&args.model, &args.overrides, messages);
    let engine = EngineOptions {
        cancel: cancel.clone(),
        ..embed::engine(&args.engine)?
    };
    if let Ok(ModelName::Hub(_)) = ModelName::of(&model.model) {
        super::ensure(&model, &engine, messages, printer, &cancel)?;
    }
    let (_, settled) = engine::settle(&model, &engine)?;
    let mut embedder = Embedder::open(&model, &engine)?;
    let compared = verify::against(&mut embedder, records, &args.against)?;
    let info = embedder.engine();
    let least = args.engine.min_cosine.unwrap_or_else(|| {
        if info.is_reduced() {
            settled.arithmetic.least_cosine()
        } else {
            LEAST
        }
    });
    let equal = compared.cosine.least >= least;
    if args.json {
        let json = json!({"model": args.model, "engine": info, "equal": equal, "min_cosine": least, "compared": compared});
        printer.pretty(&json)?;
    } else {
        printer.text(&lines(&args.model, info, &compared))?;
    }
    if equal {
        return Ok(ExitCode::Done);
    }
    Err(anyhow::anyhow!(
        "the least cosine, {:.6}, is below {least}; compare the token ids above with those of the tokenizer in Python, \
         and see that both read the same files, prompt and length (--min-cosine accepts less)",
        compared.cosine.least
    )
    .into())
}

/// The texts that stand beside vectors, under their name.
fn beside(vectors: &Path) -> Result<PathBuf, Failure> {
    let names = ["jsonl", "txt"].map(|ending| vectors.with_extension(ending));
    match names.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(Failure::usage(format!(
            "the texts of {} are neither in {} nor in {}; name them with --texts",
            vectors.display(),
            names[0].display(),
            names[1].display()
        ))),
    }
}

fn lines(model: &str, info: &EngineInfo, compared: &Comparison) -> String {
    let Comparison {
        cosine,
        apart,
        dimensions,
        worst,
    } = compared;
    let text: String = worst.text.chars().take(200).collect();
    format!(
        "{model} on {}: {} texts, {dimensions} dimensions\n\
         least cosine {:.7}, mean {:.7}, largest difference {apart:.2e}\n\
         least alike: text {}, {text:?}\n\
         its token ids: {:?}\n",
        info.provider, cosine.texts, cosine.least, cosine.mean, worst.row, worst.ids
    )
}
