//! `embedctl verify-model`: compares vectors with those of another program.

use std::path::{Path, PathBuf};

use embedctl::Embedder;
use embedctl::engine::{self, EngineInfo, EngineOptions};
use embedctl::input::{RecordReader, Template};
use embedctl::model::{ModelName, ModelTask, ScoreTask};
use embedctl::output::RunFiles;
use embedctl::reference::{self, Comparison};
use embedctl::storage::{Location, Readable, Storage};
use serde_json::json;

use super::{embed, stores};
use crate::args::{MessageArgs, VerifyModelArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, TextTable};

/// The default least cosine of fp32: larger differences are not rounding.
const LEAST: f64 = 0.9999;

/// How far two scores may be from each other, and in reduced precision.
const MOST: f32 = 1e-3;
const MOST_REDUCED: f32 = 0.1;

/// Compares the vectors and prints the result.
pub fn run(
    args: &VerifyModelArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    let cancel = interrupt::watch(RunFiles::new())?;
    let named = [Some(&args.against), args.texts.as_ref()];
    let named = named.into_iter().flatten().map(PathBuf::as_path);
    let storage = stores::storage(named, &args.stores.options, messages, &cancel)?;
    let texts = match &args.texts {
        Some(texts) => texts.clone(),
        None => beside(&args.against, storage.as_ref())?,
    };
    let mut input = args.records.options();
    if let Some(query) = &args.query_field {
        input.text_template = Some(Template::of_pair(query, &input.text_field, None));
    }
    let scores = args.scores || args.query_field.is_some();
    // Missing inputs are found before the model is opened.
    let texts = stores::sources(&[texts], input.format, storage.as_ref())?;
    let records = RecordReader::open(&texts, input)?;
    let against = Readable::open(&args.against, storage.as_ref())?;
    let mut model = embed::model(&args.model, &args.overrides, messages);
    if scores {
        model.task = ModelTask::Score(ScoreTask {
            pairs: args.query_field.is_some(),
            softmax: false,
        });
    }
    let engine = EngineOptions {
        cancel: cancel.clone(),
        ..embed::engine(&args.engine)?
    };
    if let Ok(ModelName::Hub(_)) = ModelName::of(&model.model) {
        super::ensure(&model, &engine, messages, printer, &cancel)?;
    }
    let (_, settled) = engine::settle(&model, &engine)?;
    let mut embedder = Embedder::open(&model, &engine)?;
    let compared = reference::against(&mut embedder, records, &against)?;
    let info = embedder.engine();
    let least = args.engine.min_cosine.unwrap_or_else(|| {
        if info.is_reduced() {
            settled.arithmetic.least_cosine()
        } else {
            LEAST
        }
    });
    let most = if info.is_reduced() {
        MOST_REDUCED
    } else {
        MOST
    };
    let equal = match scores {
        true => compared.apart <= most,
        false => compared.cosine.least >= least,
    };
    // Our own precision rounds as well.
    let cause = (!info.is_reduced() && !scores)
        .then(|| rounding(&compared, embedder.model().reference_dtype.as_deref()));
    let cause = cause.flatten();
    if args.json {
        let json = json!({"model": args.model, "engine": info, "equal": equal, "min_cosine": least, "compared": compared});
        printer.pretty(&json)?;
    } else {
        printer.text(&lines(&args.model, info, &compared))?;
        if let Some(cause) = cause.as_ref().filter(|_| equal) {
            printer.note(cause);
        }
    }
    if equal {
        return Ok(ExitCode::Done);
    }
    if scores {
        return Err(anyhow::anyhow!(
            "the largest difference of two scores, {:.2e}, is above {most:.0e}; compare the token ids above with the Python \
             tokenizer's, and check that both use the same files, prompt, length and activation",
            compared.apart
        )
        .into());
    }
    if let Some(cause) = cause {
        let found = compared.cosine.least;
        return Err(
            anyhow::anyhow!("the least cosine, {found:.6}, is below {least}: {cause}").into(),
        );
    }
    Err(anyhow::anyhow!(
        "the least cosine, {:.6}, is below {least}; compare the token ids above with the Python \
         tokenizer's, and check that both use the same files, prompt and length (--min-cosine lowers \
         the limit)",
        compared.cosine.least
    )
    .into())
}

/// That the reference was computed in another number type, if it seems so; `dtype` is the one that the model's files ask
/// for.
fn rounding(compared: &Comparison, dtype: Option<&str>) -> Option<String> {
    let half = dtype.filter(|dtype| matches!(*dtype, "bfloat16" | "float16"));
    if !compared.rounding {
        return None;
    }
    let why = half.map_or_else(String::new, |dtype| {
        format!(" (sentence-transformers computes this model in {dtype}, by its own files)")
    });
    Some(format!(
        "all texts differ by about as much (their median cosine is {:.6}), as if the reference had been computed in \
         bfloat16{why}, so it is rounding and not tokens; make the reference in single precision: \
         SentenceTransformer(NAME, model_kwargs={{\"dtype\": \"float32\"}})",
        compared.median
    ))
}

/// The texts that stand beside vectors, under their name.
fn beside(vectors: &Path, storage: Option<&Storage>) -> Result<PathBuf, CommandFailure> {
    for ending in ["jsonl", "txt"] {
        let path = vectors.with_extension(ending);
        if Location::of(&path)?.find(storage)?.is_some() {
            return Ok(path);
        }
    }
    Err(CommandFailure::usage(
        "there is no .jsonl or .txt file beside --against with its name; name the texts with --texts",
    ))
}

fn lines(model: &str, info: &EngineInfo, compared: &Comparison) -> TextTable {
    let Comparison {
        cosine,
        apart,
        dimensions,
        worst,
        ..
    } = compared;
    let text: String = worst.text.chars().take(200).collect();
    let mut lines = TextTable::default();
    lines.line(&format!(
        "{model} on {}: {} texts, {dimensions} dimensions",
        info.provider, cosine.texts
    ));
    lines.line(&format!(
        "least cosine {:.7}, mean {:.7}, largest difference {apart:.2e}",
        cosine.least, cosine.mean
    ));
    lines.line(&format!("least similar: text {}, {text:?}", worst.row));
    lines.line(&format!("its token ids: {:?}", worst.ids));
    lines
}
