//! What a finished run did, in words and as fields.

use std::path::Path;
use std::time::Duration;

use embedctl::engine::{EngineInfo, Provider};
use embedctl::output::Destination;
use embedctl::pipeline::Summary;
use serde_json::{Value, json};

use super::{Level, Printer};

/// A finished run and what the command line knows about it.
#[derive(Debug)]
pub struct Report<'a> {
    /// What the library did.
    pub summary: &'a Summary,
    /// Where the vectors went.
    pub destination: &'a Destination,
    /// Where rejected records went.
    pub rejects: Option<&'a Path>,
}

impl Report<'_> {
    fn rate(&self, amount: u64) -> f64 {
        let seconds = self.summary.run.as_secs_f64();
        if seconds > 0.0 {
            amount as f64 / seconds
        } else {
            0.0
        }
    }

    /// `embedded 200 rows (12,345 tokens, 3 truncated to 256) in 1.2 s: 170 rows/s, 10,288 tokens/s`
    fn headline(&self) -> String {
        let summary = self.summary;
        let counts = &summary.counts;
        let truncated = match (counts.truncated, summary.max_length) {
            (0, _) => "none truncated".to_owned(),
            (rows, None) => format!("{} truncated", count(rows)),
            (rows, Some(limit)) => format!("{} truncated to {}", count(rows), count(limit as u64)),
        };
        format!(
            "embedded {} ({}, {truncated}) in {}: {} rows/s, {} tokens/s",
            number(counts.embedded, "row"),
            number(counts.tokens, "token"),
            duration(summary.run),
            count(self.rate(counts.embedded).round() as u64),
            count(self.rate(counts.tokens).round() as u64),
        )
    }

    /// `model … · engine onnxruntime 1.31.1 (cpu, /path) · 384 dimensions · 2 threads`
    fn setup(&self) -> String {
        let summary = self.summary;
        [
            format!("model {}", summary.model),
            format!("engine {}", engine(&summary.engine)),
            number(summary.dimensions as u64, "dimension"),
            number(summary.threads as u64, "thread"),
        ]
        .join(" · ")
    }

    /// `200 read = 198 embedded + 2 rejected`
    fn ledger(&self) -> String {
        let counts = &self.summary.counts;
        format!(
            "{} read = {} embedded + {} rejected",
            number(counts.read, "record"),
            count(counts.embedded),
            count(counts.rejected)
        )
    }

    fn output(&self) -> String {
        match self.destination {
            Destination::Stdout => "standard output".to_owned(),
            Destination::Path(path) => path.display().to_string(),
        }
    }

    fn fields(&self) -> Value {
        let summary = self.summary;
        let counts = &summary.counts;
        let output = match self.destination {
            Destination::Stdout => Path::new("-"),
            Destination::Path(path) => path,
        };
        json!({
            "read": counts.read,
            "embedded": counts.embedded,
            "rejected": counts.rejected,
            "tokens": counts.tokens,
            "truncated": counts.truncated,
            "max_length": summary.max_length,
            "dimensions": summary.dimensions,
            "model": summary.model,
            "engine": summary.engine,
            "threads": summary.threads,
            "load_seconds": summary.load.as_secs_f64(),
            "run_seconds": summary.run.as_secs_f64(),
            "rows_per_second": self.rate(counts.embedded),
            "tokens_per_second": self.rate(counts.tokens),
            "output": output.to_string_lossy(),
            "rejects": summary.rejects,
            "rejects_file": self.rejects.map(Path::to_string_lossy),
            "notes": summary.notes,
        })
    }
}

impl Printer {
    /// What a finished run did. Records that were rejected are named even with `-q`, unless they stand
    /// in a file.
    pub fn report(&self, report: &Report<'_>) {
        if self.json {
            if let Value::Object(fields) = report.fields() {
                self.event(Level::Info, "summary", &report.headline(), fields);
            }
            return;
        }
        self.info(report.headline());
        self.info(report.setup());
        self.info(report.ledger());
        self.detail(format!("loaded in {}", duration(report.summary.load)));
        self.info(format!("wrote {}", report.output()));
        self.rejected(report);
    }

    fn rejected(&self, report: &Report<'_>) {
        let total = report.summary.counts.rejected;
        if total == 0 {
            return;
        }
        let what = number(total, "record");
        let were = if total == 1 { "was" } else { "were" };
        if let Some(path) = report.rejects {
            self.warning(format!("{what} {were} rejected: see {}", path.display()));
            return;
        }
        let shown = &report.summary.rejects;
        let mut message = format!("{what} {were} rejected");
        if (shown.len() as u64) < total {
            message.push_str(&format!("; the first {}", shown.len()));
        }
        message.push(':');
        for reason in shown {
            message.push_str(&format!("\n  {reason}"));
        }
        self.print(Level::Warning, message);
        self.hint("--rejects PATH writes all of them with file, line and reason");
    }
}

/// `onnxruntime 1.31.1 (cpu, /path/to/libonnxruntime.so)`, `tract 0.23.0 (embedded)`
pub fn engine(info: &EngineInfo) -> String {
    let place = match (&info.library, info.provider) {
        (Some(library), provider) => format!("{provider}, {}", library.display()),
        (None, Provider::Tract) => "embedded".to_owned(),
        (None, provider) => provider.to_string(),
    };
    format!("{} {} ({place})", info.engine, info.version)
}

/// What was found out about an engine by running it: where its nodes are, how much it takes at a time.
pub fn measured(info: &EngineInfo) -> Vec<String> {
    let mut lines = Vec::new();
    if !info.placement.is_empty() {
        let parts: Vec<String> = info
            .placement
            .iter()
            .map(|one| {
                format!(
                    "{}: {}, {} % of the matrix products",
                    one.provider,
                    number(one.nodes as u64, "node"),
                    one.matrix_percent
                )
            })
            .collect();
        lines.push(format!("measured placement: {}", parts.join("; ")));
    }
    if let Some(cosine) = info.cosine_to_cpu {
        lines.push(format!("measured agreement with the CPU: cosine {cosine}"));
    }
    if let Some(tokens) = info.batch_tokens {
        lines.push(format!("measured token budget: {}", count(tokens as u64)));
    }
    lines
}

/// A count and its noun.
fn number(amount: u64, noun: &str) -> String {
    let plural = if amount == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(amount))
}

/// A count with commas between groups of three digits.
pub fn count(amount: u64) -> String {
    let digits = amount.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time as people say it: `0.42 s`, `12.3 s`, `2 min 05 s`, `1 h 02 min`; whole seconds stay whole.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = seconds.round() as u64;
    if time.subsec_nanos() == 0 && whole < 60 {
        format!("{whole} s")
    } else if seconds < 0.995 {
        format!("{seconds:.2} s")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_three() {
        let all = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        for (amount, text) in all {
            assert_eq!(count(amount), text);
        }
    }

    #[test]
    fn durations_are_as_exact_as_is_useful() {
        let all = [
            (0.004, "0.00 s"),
            (7.0, "7 s"),
            (0.42, "0.42 s"),
            (0.999, "1.0 s"),
            (12.34, "12.3 s"),
            (59.96, "1 min 00 s"),
            (125.0, "2 min 05 s"),
            (3599.9, "1 h 00 min"),
            (3725.0, "1 h 02 min"),
        ];
        for (seconds, text) in all {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!(number(1, "row"), "1 row");
        assert_eq!(number(0, "row"), "0 rows");
    }
}
