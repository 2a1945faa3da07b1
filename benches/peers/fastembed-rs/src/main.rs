//! Embeds a file with the `fastembed` crate and prints one JSON line with the rate.
//!
//! The model is read from a folder in the shape of a Hugging Face repository. ONNX Runtime is
//! the library named by `ORT_DYLIB_PATH`. What is timed is `TextEmbedding::embed` alone, which
//! tokenizes, runs the model, pools and normalizes; loading the model and embedding one text to
//! warm up are reported apart, as `load_s`.

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use fastembed::{
    InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel,
};
use serde_json::{Value, json};

const FASTEMBED_VERSION: &str = "7.5.0";

const USAGE: &str = "\
usage: fastembed-peer --model-dir DIR --input FILE [options]
  --model-dir DIR     a model repository: tokenizer files, config.json and the ONNX file
  --model-file PATH   the ONNX file inside it (default: onnx/model.onnx)
  --input FILE        .txt: a text a line; .jsonl: an object with the field `text` a line
  --batch-size N      rows of a batch (default: 256, fastembed's own)
  --max-length N      tokens after which a text is cut (default: 256)
  --call-rows N       rows given to one call of embed; 0: all of them (default: 0)
  --threads N         threads of ONNX Runtime (default: one for each core)
  --out FILE          also write the vectors there as .npy";

struct Args {
    model_dir: PathBuf,
    model_file: PathBuf,
    input: PathBuf,
    batch_size: usize,
    max_length: usize,
    call_rows: usize,
    threads: Option<usize>,
    out: Option<PathBuf>,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut model_dir, mut input, mut out, mut threads) = (None, None, None, None);
        let mut model_file = PathBuf::from("onnx/model.onnx");
        let (mut batch_size, mut max_length, mut call_rows) = (256, 256, 0);
        while let Some(flag) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
            match flag.as_str() {
                "--model-dir" => model_dir = Some(PathBuf::from(value)),
                "--model-file" => model_file = PathBuf::from(value),
                "--input" => input = Some(PathBuf::from(value)),
                "--batch-size" => batch_size = value.parse()?,
                "--max-length" => max_length = value.parse()?,
                "--call-rows" => call_rows = value.parse()?,
                "--threads" => threads = Some(value.parse()?),
                "--out" => out = Some(PathBuf::from(value)),
                _ => return Err(format!("unknown option {flag}\n{USAGE}").into()),
            }
        }
        Ok(Self {
            model_dir: model_dir.ok_or_else(|| format!("--model-dir is missing\n{USAGE}"))?,
            model_file,
            input: input.ok_or_else(|| format!("--input is missing\n{USAGE}"))?,
            batch_size,
            max_length,
            call_rows,
            threads,
            out,
        })
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fastembed-peer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args().skip(1))?;
    let texts = read_texts(&args.input)?;
    let first = texts.first().ok_or("the input has no rows")?;

    let start = Instant::now();
    let mut model = load(&args)?;
    check_lengths(&model, args.max_length)?;
    model.embed([first], None)?;
    let load_s = start.elapsed().as_secs_f64();

    let call_rows = match args.call_rows {
        0 => texts.len(),
        rows => rows,
    };
    let start = Instant::now();
    let mut vectors = Vec::with_capacity(texts.len());
    for part in texts.chunks(call_rows) {
        vectors.extend(model.embed(part, Some(args.batch_size))?);
    }
    let embed_s = start.elapsed().as_secs_f64();

    if let Some(out) = &args.out {
        write_npy(out, &vectors).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    let line = json!({
        "tool": "fastembed (Rust)",
        "version": FASTEMBED_VERSION,
        "rows": vectors.len(),
        "load_s": load_s,
        "embed_s": embed_s,
        "rows_per_s": vectors.len() as f64 / embed_s,
        "settings": {
            "batch_size": args.batch_size,
            "max_length": args.max_length,
            "call_rows": args.call_rows,
            "threads": args.threads,
            "ort": std::env::var("ORT_DYLIB_PATH").ok(),
        },
    });
    println!("{line}");
    Ok(())
}

/// Loads the model with mean pooling. fastembed itself replaces what `tokenizer.json` says of
/// truncation and padding: it cuts at `max_length` and pads to the longest row of each batch.
fn load(args: &Args) -> Result<TextEmbedding, Box<dyn Error>> {
    let read = |name: &Path| {
        let path = args.model_dir.join(name);
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let tokenizer_files = TokenizerFiles {
        tokenizer_file: read(Path::new("tokenizer.json"))?,
        config_file: read(Path::new("config.json"))?,
        special_tokens_map_file: read(Path::new("special_tokens_map.json"))?,
        tokenizer_config_file: read(Path::new("tokenizer_config.json"))?,
    };
    let model = UserDefinedEmbeddingModel::new(read(&args.model_file)?, tokenizer_files)
        .with_pooling(Pooling::Mean);
    let mut options = InitOptionsUserDefined::new().with_max_length(args.max_length);
    if let Some(threads) = args.threads {
        options = options.with_intra_threads(threads);
    }
    Ok(TextEmbedding::try_new_from_user_defined(model, options)?)
}

/// Fails unless texts are cut at `max_length` and padded no further than their batch needs.
fn check_lengths(model: &TextEmbedding, max_length: usize) -> Result<(), Box<dyn Error>> {
    let long = "word ".repeat(5_000);
    for (text, expected) in [("a", 3), (long.as_str(), max_length)] {
        let encodings = model
            .tokenizer
            .encode_batch(vec![text], true)
            .map_err(|error| error.to_string())?;
        let length = encodings[0].len();
        if length != expected {
            return Err(format!("tokenized to {length} tokens instead of {expected}").into());
        }
    }
    Ok(())
}

/// Reads a text a line, or, where the name ends in `.jsonl`, the field `text` of an object a line.
fn read_texts(path: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let content =
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if path
        .extension()
        .is_none_or(|extension| extension != "jsonl")
    {
        return Ok(content.lines().map(str::to_owned).collect());
    }
    let mut texts = Vec::new();
    for (index, line) in content.lines().enumerate() {
        let record: Value = serde_json::from_str(line)?;
        let text = record["text"]
            .as_str()
            .ok_or_else(|| format!("line {} has no field `text`", index + 1))?;
        texts.push(text.to_owned());
    }
    Ok(texts)
}

/// Writes rows of equal length as a float32 array in NumPy's format, version 1.0.
fn write_npy(path: &Path, rows: &[Vec<f32>]) -> std::io::Result<()> {
    let columns = rows.first().map_or(0, Vec::len);
    let mut header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {columns}), }}",
        rows.len()
    );
    // Magic (6), version (2) and length (2), then a header that ends in a line break and
    // brings the data to a multiple of 64 bytes.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a header of two numbers is short");

    let mut file = BufWriter::new(fs::File::create(path)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for value in rows.iter().flatten() {
        file.write_all(&value.to_le_bytes())?;
    }
    file.flush()
}
