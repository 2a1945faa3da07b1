//! The hidden subcommand that shows token ids, for comparing them with the reference's.
//!
//! Each line of standard input is `{"model": FOLDER, "texts": [...]}`; its answer is a line
//! `{"ids": [[...]], "types": [[...]] or null, "prompt": N}` or `{"error": REASON}`. It needs no network
//! and no weights, so thousands of tokenizers can be asked by one process.

use std::io::{self, BufRead, Write};

use embedctl::model::{Model, ModelOptions};
use embedctl::record::Texts;
use embedctl::tokenize::TextTokenizer;
use serde_json::{Value, json};

use crate::exit::ExitCode;

/// Its name on the command line.
pub const NAME: &str = "__tokenize";

/// Answers until standard input ends.
pub fn run() -> ExitCode {
    let mut output = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let answer = match line.map_err(|error| error.to_string()).and_then(answer) {
            Ok(answer) => answer,
            Err(reason) => json!({"error": reason}),
        };
        if writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .is_err()
        {
            return ExitCode::Failed;
        }
    }
    ExitCode::Done
}

fn answer(line: String) -> Result<Value, String> {
    let asked: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let options = ModelOptions {
        model: asked["model"].as_str().unwrap_or_default().to_string(),
        ..ModelOptions::default()
    };
    let texts: Texts = asked["texts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let (tokenizer, config) =
        Model::tokenizer_alone(&options).map_err(|error| error.to_string())?;
    let tokenizer = TextTokenizer::new(tokenizer.into(), &config, options.model.into(), 1)
        .map_err(|error| error.to_string())?;
    let rows = tokenizer.tokenize(&texts);
    if let Some((text, cause)) = rows.refusals().next() {
        return Err(format!("text {text}: {cause}"));
    }
    let ids: Vec<&[u32]> = (0..rows.len()).map(|row| rows.get(row)).collect();
    let types: Option<Vec<Vec<u32>>> = config.frame.gives_types.then(|| {
        ids.iter()
            .map(|ids| config.frame.types(ids.len()).collect())
            .collect()
    });
    Ok(json!({"ids": ids, "types": types, "prompt": tokenizer.prompt_tokens()}))
}
