//! `embedctl verify-model`: compares vectors with those of another program.

use std::path::{Path, PathBuf};

use embedctl::Embedder;
use embedctl::engine::{EngineInfo, LoadedModel};
use embedctl::error::Error;
use embedctl::input::{RecordReader, Template};
use embedctl::inspect::agreement::{AgreementLimits, Measure};
use embedctl::model::{ModelTask, ScoreTask};
use embedctl::output::RunFiles;
use embedctl::reference::{self, Comparison, KindComparison};
use embedctl::storage::{Location, Readable, Storage};
use serde_json::json;

use super::{requested, stores};
use crate::args::{MessageArgs, VerifyModelArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::{Printer, TextTable};

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
    let mut model = requested::model(&args.model, &args.overrides, messages);
    if scores {
        model.task = ModelTask::Score(ScoreTask {
            pairs: args.query_field.is_some(),
            softmax: false,
        });
    }
    if let [first, _, ..] = model.dimensions[..] {
        let reason = "verify-model compares vectors of one width, but --dimensions names several";
        let remedy = format!("compare one at a time (--dimensions {first})");
        return Err(Error::usage(reason).with_remedy(remedy).into());
    }
    let engine = requested::engine(&args.engine)?;
    let resolved = super::resolve_here(&model, &engine, messages, printer, &cancel)?;
    let least_cosine = resolved.engine().arithmetic.least_cosine();
    let mut embedder = Embedder::of(LoadedModel::open(resolved, &cancel)?)?;
    let info = embedder.engine();
    let mut limits = AgreementLimits::of_reference(info.precision, least_cosine);
    limits.least_cosine = args.engine.min_cosine.unwrap_or(limits.least_cosine);
    let compared = reference::against(&mut embedder, records, &against, limits)?;
    let info = embedder.engine();
    // Our own precision rounds as well, and of scores and sparse vectors cosines say little.
    let by_cosine = compared.first.measure == Measure::LeastCosine;
    let cause = (!info.is_reduced() && by_cosine)
        .then(|| rounding(&compared.first, embedder.model().reference_dtype.as_deref()));
    let cause = cause.flatten();
    let equal = compared.first.same;
    if args.json {
        let json = json!({
            "model": args.model, "engine": info, "equal": equal, "min_cosine": limits.least_cosine,
            "max_difference": limits.most_apart, "compared": compared,
        });
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
    Err(anyhow::anyhow!("{}", why_not_equal(&compared, limits, cause)).into())
}

/// Why vectors do not count as equal, and what to do.
fn why_not_equal(compared: &Comparison, limits: AgreementLimits, cause: Option<String>) -> String {
    let one = &compared.first;
    let kind = match compared.columns.is_empty() {
        true => String::new(),
        false => format!("{} vectors: ", one.kind),
    };
    if let Some([ours, theirs]) = one.worst.vectors {
        return format!(
            "{kind}text {} has {ours} vectors of tokens, but {theirs} in the reference; compare the token ids above with \
             the Python tokenizer's, and check that both use the same files, prompt, length and task",
            one.worst.row
        );
    }
    if one.measure == Measure::GreatestDifference {
        let (numbers, settings) = match one.kind.as_str() {
            "scores" => ("scores", "length and activation"),
            _ => ("entries", "length and task"),
        };
        return format!(
            "{kind}the largest difference of two {numbers}, {:.2e}, is above {:.0e}; compare the token ids above with the \
             Python tokenizer's, and check that both use the same files, prompt, {settings}",
            one.apart, limits.most_apart
        );
    }
    let (found, least) = (one.cosine.least, limits.least_cosine);
    match cause {
        Some(cause) => format!("{kind}the least cosine, {found:.6}, is below {least}: {cause}"),
        None => format!(
            "{kind}the least cosine, {found:.6}, is below {least}; compare the token ids above with the Python \
             tokenizer's, and check that both use the same files, prompt and length (--min-cosine lowers the limit)"
        ),
    }
}

/// That the reference was computed in another number type, if it seems so; `dtype` is the one that the model's files ask
/// for.
fn rounding(compared: &KindComparison, dtype: Option<&str>) -> Option<String> {
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
    let mut lines = TextTable::default();
    let one = std::slice::from_ref(&compared.first);
    let several = !compared.columns.is_empty();
    let all = if several { &compared.columns } else { one };
    for found in all {
        let KindComparison {
            kind,
            cosine,
            apart,
            dimensions,
            worst,
            ..
        } = found;
        let kind = match several {
            true => format!("{kind} vectors, "),
            false => String::new(),
        };
        lines.line(&format!(
            "{model} on {}: {kind}{} texts, {dimensions} dimensions",
            info.provider, cosine.texts
        ));
        lines.line(&format!(
            "least cosine {:.7}, mean {:.7}, largest difference {apart:.2e}",
            cosine.least, cosine.mean
        ));
        let text: String = worst.text.chars().take(200).collect();
        lines.line(&format!("least similar: text {}, {text:?}", worst.row));
        lines.line(&format!("its token ids: {:?}", worst.ids));
    }
    lines
}
