//! The summary of a finished run, as text and as JSON fields.

use std::path::Path;

use embedctl::engine::{Cosine, EngineInfo, Provider};
use embedctl::job::{is_folder, rejects_of};
use embedctl::output::Destination;
use embedctl::pipeline::{ScoredTexts, Summary};
use embedctl::size::per;
use embedctl::stage::{Stage, StageTimes};
use serde_json::{Map, Value, json};

use super::words::{count, dimensions, duration, number, percent, rate};
use super::{MessageLevel, Printer, cuts};

/// A finished run and what the command line knows about it.
#[derive(Debug)]
pub struct RunReport<'a> {
    /// The library's summary.
    pub summary: &'a Summary,
    /// Where the vectors went.
    pub destination: &'a Destination,
    /// Where rejected records went.
    pub rejects: Option<&'a Path>,
    /// Whether they are rows without a vector.
    pub nulls: bool,
}

impl RunReport<'_> {
    fn rate(&self, amount: u64) -> f64 {
        per(amount as f64, self.summary.run.as_secs_f64())
    }

    /// Computed rows per second, without duplicate and reused texts.
    fn rows_per_second(&self) -> f64 {
        let counts = &self.summary.counts;
        self.rate(counts.rows.saturating_sub(self.copied()))
    }

    /// `embedded 200 rows (12,345 tokens, 3 truncated to 256) in 1.2 s: 170 rows/s, 10,288 tokens/s`. Where rows were
    /// copied, the rate is of the others: `… in 1.2 s: 150 computed, 125 rows/s, 10,288 tokens/s; 50 duplicate texts computed
    /// once`. With chunks: `embedded 900 chunks of 200 records`.
    fn headline(&self) -> String {
        let counts = &self.summary.counts;
        let truncated = match (counts.truncated, self.summary.max_length) {
            (0, _) => "none truncated".to_owned(),
            (rows, None) => format!("{} truncated", count(rows)),
            (rows, Some(limit)) => format!("{} truncated to {}", count(rows), count(limit as u64)),
        };
        let computed = match self.copied() {
            0 => String::new(),
            copied => format!("{} computed, ", count(counts.rows.saturating_sub(copied))),
        };
        format!(
            "{} {} ({}, {truncated}) in {}: {computed}{} rows/s, {} tokens/s{}{}{}",
            self.verb(),
            self.rows(),
            number(counts.tokens, "token"),
            duration(self.summary.run),
            rate(self.rows_per_second()),
            rate(self.rate(self.summary.stages.real_tokens)),
            self.copies(),
            self.entries(),
            self.overflowed(),
        )
    }

    /// `embedded`, or `scored`.
    fn verb(&self) -> &'static str {
        match self.summary.scored {
            None => "embedded",
            Some(_) => "scored",
        }
    }

    /// `200 rows`, `900 chunks of 200 records`, `200 pairs`.
    fn rows(&self) -> String {
        let embedded = self.summary.counts.embedded;
        match self.summary.chunks {
            None => number(embedded, self.noun()),
            Some(chunks) => format!(
                "{} of {}",
                number(chunks, "chunk"),
                number(embedded, "record")
            ),
        }
    }

    /// What a row that is not a chunk is called.
    fn noun(&self) -> &'static str {
        match self.summary.scored {
            None => "row",
            Some(ScoredTexts::Single) => "text",
            Some(ScoredTexts::Pairs) => "pair",
        }
    }

    /// Rows whose numbers were copied from an equal text.
    fn copied(&self) -> u64 {
        self.summary.stages.duplicates + self.summary.counts.reused
    }

    /// `; 50 duplicate texts computed once; 10 vectors copied from an earlier output`
    fn copies(&self) -> String {
        let mut text = String::new();
        let duplicates = self.summary.stages.duplicates;
        if duplicates > 0 {
            text += &format!("; {} computed once", number(duplicates, "duplicate text"));
        }
        let reused = self.summary.counts.reused;
        if reused > 0 {
            let vectors = number(reused, "vector");
            text += &format!("; {vectors} copied from an earlier output");
        }
        text
    }

    /// `; 2 rows overflowed in fp16 and were computed in bf16`
    fn overflowed(&self) -> String {
        let rows = self.summary.counts.overflowed;
        let were = if rows == 1 { "was" } else { "were" };
        match rows {
            0 => String::new(),
            _ => format!(
                "; {} overflowed in fp16 and {were} computed in bf16",
                number(rows, self.noun())
            ),
        }
    }

    /// `; sparse vectors of 30 entries on average, 90 at most`, and the same of vectors of tokens.
    fn entries(&self) -> String {
        let (summary, counts) = (self.summary, &self.summary.counts);
        let mean = |all: u64| count(all.checked_div(counts.rows).unwrap_or(0));
        let mut entries = String::new();
        if summary.sparse {
            entries += &format!(
                "; sparse vectors of {} entries on average, {} at most",
                mean(counts.entries),
                count(counts.most_entries)
            );
        }
        if summary.multi {
            entries += &format!(
                "; {} vectors a row on average, {} at most",
                mean(counts.token_vectors),
                count(counts.most_token_vectors)
            );
        }
        entries
    }

    /// `model … · engine onnxruntime 1.31.1 (cpu, /path) · 384 dimensions · 2 threads`
    fn setup(&self) -> String {
        let summary = self.summary;
        let mut parts = vec![
            format!("model {}", summary.model),
            format!("engine {}", engine(&summary.engine)),
            match summary.scored {
                None => dimensions(&summary.dimensions),
                Some(_) => format!(
                    "{} a row",
                    number(summary.dimensions.0.iter().sum::<usize>() as u64, "score")
                ),
            },
            number(summary.threads as u64, "thread"),
        ];
        let measured = summary.engine.cosine.as_ref();
        parts.extend(measured.map(|cosines| format!("to fp32: {}", agreement(cosines))));
        parts.join(" · ")
    }

    /// `200 read = 198 embedded + 2 rejected`
    fn ledger(&self) -> String {
        let counts = &self.summary.counts;
        format!(
            "{} read = {} {} + {} rejected",
            number(counts.read, "record"),
            count(counts.embedded),
            self.verb(),
            count(counts.rejected)
        )
    }

    /// How many tokens were cut off, and the options that keep them.
    fn cut(&self) -> Option<(MessageLevel, String)> {
        let summary = self.summary;
        let (cut, counts) = (&summary.cut, &summary.counts);
        if cut.rows == 0 {
            return None;
        }
        let noun = match (summary.chunks, summary.scored) {
            (Some(_), _) => "chunk",
            (None, Some(ScoredTexts::Pairs)) => "pair",
            (None, _) => "text",
        };
        let rows = counts.rows.max(cut.rows);
        if !cuts::is_much(cut, counts.tokens) {
            let words = cuts::little_loss(cut, counts.tokens, rows, noun, summary.max_length);
            return Some((MessageLevel::Info, words));
        }
        let loss = cuts::loss(cut, rows, noun, summary.max_length);
        let message = match cuts::remedy(cut, summary.cut_remedy, "them", true) {
            Some(remedy) => format!("{loss}. {remedy}"),
            None => loss,
        };
        Some((MessageLevel::Warning, message))
    }

    /// `limited by infer · busy: read 0.1 %, tokenize 1.0 %, … · workers waited 2.0 % · padding 1.1 % · 3 duplicates`
    fn stages(&self) -> String {
        let stages = &self.summary.stages;
        let busy: Vec<String> = Stage::ALL
            .into_iter()
            .map(|stage| format!("{stage} {}", percent(stages.share(stage))))
            .collect();
        [
            format!("limited by {}", stages.limit),
            format!("busy: {}", busy.join(", ")),
            format!("workers waited {}", percent(self.waited())),
            format!("padding {}", percent(stages.padding())),
            number(stages.duplicates, "duplicate"),
        ]
        .join(" · ")
    }

    /// The share of the workers' time in which they had no batch, 0 to 1.
    fn waited(&self) -> f64 {
        let summary = self.summary;
        let time = summary.run.as_secs_f64() * summary.threads as f64;
        per(summary.stages.wait.as_secs_f64(), time).min(1.0)
    }

    fn output(&self) -> String {
        match self.destination {
            Destination::Stdout => "standard output".to_owned(),
            Destination::Path(path) => path.display().to_string(),
        }
    }

    /// The same as fields, for programs.
    pub fn fields(&self) -> Map<String, Value> {
        let summary = self.summary;
        let counts = &summary.counts;
        let stages = &summary.stages;
        let fields = json!({
            "read": counts.read,
            "embedded": counts.embedded,
            "chunks": summary.chunks,
            "rejected": counts.rejected,
            "tokens": counts.tokens,
            "truncated": counts.truncated,
            "overflowed": counts.overflowed,
            "max_length": summary.max_length,
            "lost_tokens": summary.cut.lost,
            "dimensions": summary.dimensions,
            "model": summary.model,
            "engine": summary.engine,
            "threads": summary.threads,
            "load_seconds": summary.load.as_secs_f64(),
            "run_seconds": summary.run.as_secs_f64(),
            "stages": stage_fields(stages),
            "repeated": stages.duplicates,
            "empty_texts": summary.empty,
            "reused": summary.reused,
            "rows_per_second": self.rows_per_second(),
            "tokens_per_second": self.rate(stages.real_tokens),
            "output": destination(self.destination),
            "rejects": summary.rejects,
            "rejects_file": self.rejects.map(Path::to_string_lossy),
            "notes": summary.notes,
        });
        match fields {
            Value::Object(mut fields) => {
                if summary.sparse {
                    fields.insert("entries".into(), counts.entries.into());
                    fields.insert("most_entries".into(), counts.most_entries.into());
                }
                if summary.multi {
                    fields.insert("vectors".into(), counts.token_vectors.into());
                    fields.insert("most_vectors".into(), counts.most_token_vectors.into());
                }
                fields
            }
            _ => Map::new(), // it is an object
        }
    }
}

/// Where a run's time went, as fields.
pub fn stage_fields(stages: &StageTimes) -> Value {
    json!({
        "limit": stages.limit.name(),
        "read_seconds": stages.read.as_secs_f64(),
        "tokenize_seconds": stages.tokenize.as_secs_f64(),
        "wait_seconds": stages.wait.as_secs_f64(),
        "infer_seconds": stages.infer.as_secs_f64(),
        "pool_seconds": stages.pool.as_secs_f64(),
        "write_seconds": stages.write.as_secs_f64(),
        "real_tokens": stages.real_tokens,
        "padded_tokens": stages.padded_tokens,
        "duplicates": stages.duplicates,
    })
}

/// An output's name as it was typed.
pub fn destination(destination: &Destination) -> String {
    match destination {
        Destination::Stdout => "-".to_owned(),
        Destination::Path(path) => path.to_string_lossy().into_owned(),
    }
}

impl Printer {
    /// Prints the summary of a finished run. Rejected records are printed even with `-q`, unless they are in a
    /// file.
    pub fn report(&self, report: &RunReport<'_>) {
        if self.json {
            self.event(
                MessageLevel::Info,
                "summary",
                &report.headline(),
                report.fields(),
            );
            return;
        }
        self.info(report.headline());
        self.info(report.setup());
        self.info(report.ledger());
        self.detail(format!("loaded in {}", duration(report.summary.load)));
        self.detail(report.stages());
        self.info(format!("wrote {}", report.output()));
        if let Some((level, message)) = report.cut() {
            self.message(level, message);
        }
        self.rejected(report);
    }

    fn rejected(&self, report: &RunReport<'_>) {
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
        self.print(MessageLevel::Warning, message);
        match report.destination {
            Destination::Path(path) if is_folder(path) => self.hint(&format!(
                "all rejected records are in {}; {}",
                rejects_of(path),
                match report.nulls {
                    true => "correct the input and write the output again to fill their rows",
                    false =>
                        "correct a copy of the lists and embed it into another output, like any input",
                }
            )),
            _ => self.hint("--rejects PATH writes all rejected records, complete and with the reason"),
        }
    }
}

/// `onnxruntime 1.31.1 (cpu, /path/to/libonnxruntime.so)`, `native 0.1.0 (avx512), int8`,
/// `rten 0.27.0 (embedded)`
pub fn engine(info: &EngineInfo) -> String {
    if info.provider == Provider::Native {
        let precision = info.precision.unwrap_or("fp32");
        return format!("{} {}, {precision}", info.engine, info.version);
    }
    if let Some(plugin) = &info.plugin {
        let version = plugin.version.as_deref().unwrap_or("of unknown version");
        return format!(
            "{} {} ({}, plug-in {version}, {})",
            info.engine,
            info.version,
            info.provider,
            plugin.library.display()
        );
    }
    let place = match (&info.library, info.provider) {
        (Some(library), provider) => format!("{provider}, {}", library.display()),
        (None, Provider::Rten) => "embedded".to_owned(),
        (None, provider) => provider.to_string(),
    };
    format!("{} {} ({place})", info.engine, info.version)
}

/// What is known of an engine's graph: its numbers, the placement of its nodes, agreement with the CPU, token budget.
pub fn measured(info: &EngineInfo) -> Vec<String> {
    // `None` where the graph is that of an ONNX file, or there is none.
    let built = info.built_graph;
    let built = built.map(|float| format!("graph built from the checkpoint in {float}"));
    let mut lines = Vec::from_iter(built);
    if let Some(narrow) = info.narrow_weights {
        lines.push(format!(
            "weights stay in {narrow}, and each batch widens them"
        ));
    }
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
    if let Some(cosines) = &info.cosine {
        lines.push(format!(
            "measured agreement with fp32: {}",
            agreement(cosines)
        ));
    }
    if let Some(tokens) = info.batch_tokens {
        lines.push(format!("measured token budget: {}", count(tokens as u64)));
    }
    lines
}

/// `least cosine 0.99935, mean 0.99977, over 128 texts of 5 to 256 tokens`
pub fn agreement(cosines: &Cosine) -> String {
    let lengths = cosines.tokens.map_or_else(String::new, |tokens| {
        let longest = number(tokens.most as u64, "token");
        match tokens.least == tokens.most {
            true => format!(" of {longest}"),
            false => format!(" of {} to {longest}", count(tokens.least as u64)),
        }
    });
    format!(
        "least cosine {:.5}, mean {:.5}, over {}{lengths}",
        cosines.least,
        cosines.mean,
        number(cosines.texts as u64, "text")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_is_told() {
        let mut info = EngineInfo::new("onnxruntime", "1.31.1".into(), Provider::Cuda);
        assert_eq!(measured(&info), [""; 0]);
        info.built_graph = Some("fp16");
        assert_eq!(measured(&info), ["graph built from the checkpoint in fp16"]);
    }
}
