//! usage: tokenizers-speed TOKENIZER_JSON TEXTS SECONDS
//!
//! Tokenizes the lines of a file on one thread, again and again for so many seconds, and prints millions of bytes a
//! second of the fastest round, and the tokens of one round.

use std::time::{Duration, Instant};

use tokenizers::Tokenizer;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tokenizer, texts, seconds] = arguments.as_slice() else {
        return Err("usage: tokenizers-speed TOKENIZER_JSON TEXTS SECONDS".into());
    };
    let mut tokenizer = Tokenizer::from_file(tokenizer)?;
    tokenizer.with_truncation(None)?;
    tokenizer.with_padding(None);
    let texts = std::fs::read_to_string(texts)?;
    let limit = Duration::from_secs_f64(seconds.parse()?);
    let began = Instant::now();
    let mut fastest = Duration::MAX;
    let mut tokens = 0;
    while began.elapsed() < limit || fastest == Duration::MAX {
        let round = Instant::now();
        tokens = 0;
        for line in texts.lines() {
            tokens += tokenizer.encode_fast(line, false)?.len();
        }
        fastest = fastest.min(round.elapsed());
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = texts.len() as f64 / 1e6 / fastest.as_secs_f64();
    println!("{rate:.2} {tokens}");
    Ok(())
}
