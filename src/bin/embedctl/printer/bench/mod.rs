//! The report of a benchmark, as tables of 80 columns.

mod status;
mod verdicts;

use std::fmt;

use embedctl::bench::{BenchReport, MeasuredConfiguration, OpenedConfiguration, Row, Stages};
use embedctl::safe_text;
use embedctl::size::per;

use super::table::TextTable;
use super::words::{bytes, count, number, percent};

/// Columns of a table, and of everything else.
const WIDTH: usize = 80;

/// Columns of a configuration's name; a longer one has a line of its own.
const NAME: usize = 22;

/// A report as people read it.
pub fn tables(report: &BenchReport) -> TextTable {
    TextTable::of(BenchTables(report).to_string())
}

struct BenchTables<'a>(&'a BenchReport);

impl fmt::Display for BenchTables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        head(f, report)?;
        let measured: Vec<(&Row, &MeasuredConfiguration)> = report.measured().collect();
        if !measured.is_empty() {
            throughput(f, &measured)?;
            latency(f, &measured)?;
            stages(f, &measured)?;
        }
        failures(f, report)?;
        if let Some(comparison) = &report.comparison {
            verdicts::compared(f, comparison)?;
        }
        Ok(())
    }
}

fn head(f: &mut fmt::Formatter<'_>, report: &BenchReport) -> fmt::Result {
    let machine = &report.machine;
    let mut parts = vec![machine.cpu.clone(), number(machine.cores as u64, "core")];
    parts.extend(machine.memory_bytes.map(bytes));
    parts.push(machine.os.clone());
    if let (Some(peak), Some(vectors)) = (machine.peak_gflops, &machine.peak_vectors) {
        parts.push(format!("peak {peak:.0} GFLOP/s with {vectors}"));
    }
    joined(f, &parts)?;
    let workload = &report.workload;
    let mut parts = vec![if workload.built_in {
        format!("texts: {} (built in)", workload.name)
    } else {
        format!("texts: {}", workload.name)
    }];
    if let Some((_, measured)) = report.measured().next() {
        let mean = measured.sample_tokens as f64 / measured.sample_rows.max(1) as f64;
        parts.push(format!("{mean:.1} tokens a row"));
    }
    joined(f, &parts)?;
    for (engine, budgets) in engines(report) {
        let budgets: Vec<String> = budgets.iter().map(usize::to_string).collect();
        let mut parts: Vec<String> = engine.split(" · ").map(str::to_owned).collect();
        parts.push(format!("{} tokens", budgets.join("/")));
        joined(f, &parts)?;
    }
    for (row, measured) in report.measured() {
        let proof = proof(&measured.opened);
        if !proof.is_empty() {
            let title = vec![format!("measured for {}", row.name)];
            joined(f, &[title, proof].concat())?;
        }
    }
    writeln!(f)
}

/// Where the work was done, and how near to the CPU's its results are; nothing on the CPU itself.
fn proof(opened: &OpenedConfiguration) -> Vec<String> {
    let placed = opened.placement.iter().map(|one| {
        let (percent, provider) = (one.matrix_percent, &one.provider);
        format!("{percent} % of the matrix products on {provider}")
    });
    let cosine = opened.cosine_to_cpu;
    let cosine = cosine.map(|cosine| format!("cosine to the CPU {cosine}"));
    placed.chain(cosine).collect()
}

/// Devices and options that the provider was given.
fn options(opened: &OpenedConfiguration) -> String {
    let devices: Vec<String> = opened.devices.iter().map(u32::to_string).collect();
    let devices = (!devices.is_empty()).then(|| format!("device {}", devices.join(",")));
    let parts = devices.iter().chain(&opened.options);
    parts.map(|part| format!(" · {part}")).collect()
}

/// The engine and its token budgets.
fn engines(report: &BenchReport) -> Vec<(String, Vec<usize>)> {
    let mut engines: Vec<(String, Vec<usize>)> = Vec::new();
    for (_, measured) in report.measured() {
        let opened = &measured.opened;
        let engine = format!(
            "{}/{} · {} {} ({}) · {} · window {} · batches of {} rows{}",
            opened.model.trim_end_matches('/'),
            opened.model_file,
            opened.engine,
            opened.version,
            opened.provider,
            number(opened.threads as u64, "thread"),
            opened.window,
            opened.batch_size,
            options(opened),
        );
        match engines.iter_mut().find(|(known, _)| *known == engine) {
            Some((_, budgets)) if budgets.contains(&opened.batch_tokens) => {}
            Some((_, budgets)) => budgets.push(opened.batch_tokens),
            None => engines.push((engine, vec![opened.batch_tokens])),
        }
    }
    engines
}

/// Parts with dots between, broken before a part that would not fit.
fn joined(f: &mut fmt::Formatter<'_>, parts: &[String]) -> fmt::Result {
    let mut line = String::new();
    for part in parts {
        if !line.is_empty() && width(&line) + 3 + width(part) > WIDTH {
            writeln!(f, "{line}")?;
            line = "  ".to_owned();
        } else if !line.is_empty() {
            line.push_str(" · ");
        }
        line.push_str(part);
    }
    writeln!(f, "{line}")
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A row's name in its column.
fn name(f: &mut fmt::Formatter<'_>, row: &str) -> fmt::Result {
    if width(row) > NAME {
        writeln!(f, "{row}")?;
        return write!(f, "{:NAME$}", "");
    }
    write!(f, "{row:NAME$}")
}

fn throughput(f: &mut fmt::Formatter<'_>, rows: &[(&Row, &MeasuredConfiguration)]) -> fmt::Result {
    const BAR: usize = 16;
    writeln!(
        f,
        "{:NAME$}{:>9}{:>8}{:>11}{:>9}{:>5}",
        "throughput", "rows/s", "±", "tokens/s", "GFLOP/s", "peak"
    )?;
    let most = rows
        .iter()
        .map(|(_, measured)| measured.rows_per_second.median)
        .fold(0.0, f64::max);
    for (row, measured) in rows {
        name(f, &row.name)?;
        let rates = &measured.rows_per_second;
        writeln!(
            f,
            "{:>9}{:>8}{:>11}{:>9}{:>5} {}",
            amount(rates.median),
            percent(rates.noise()),
            amount(measured.tokens_per_second.median),
            measured.useful_gflops.map_or_else(|| "–".into(), amount),
            measured
                .share_of_peak
                .map_or_else(|| "–".into(), |share| format!("{:.0}%", 100.0 * share)),
            bar(rates.median, most, BAR - 1)
        )?;
    }
    writeln!(f)
}

fn latency(f: &mut fmt::Formatter<'_>, rows: &[(&Row, &MeasuredConfiguration)]) -> fmt::Result {
    writeln!(
        f,
        "{:NAME$}{:>7}{:>7}{:>7} ms{:>9}{:>10}{:>9}{:>6}",
        "one text; cost", "p50", "p95", "p99", "load", "memory", "padding", "cut"
    )?;
    for (row, measured) in rows {
        name(f, &row.name)?;
        let at = |of: fn(&embedctl::bench::Latency) -> f64| {
            measured
                .latency_ms
                .as_ref()
                .map_or_else(|| "–".into(), |one| milliseconds(of(one)))
        };
        writeln!(
            f,
            "{:>7}{:>7}{:>7}   {:>9}{:>10}{:>9}{:>6}",
            at(|one| one.p50),
            at(|one| one.p95),
            at(|one| one.p99),
            format!("{:.2} s", measured.opened.load_seconds),
            measured.peak_memory_bytes.map_or_else(|| "–".into(), bytes),
            percent(measured.padding),
            count(measured.truncated),
        )?;
    }
    for (row, measured) in rows {
        if let Some(held) = measured.device_memory_bytes {
            writeln!(f, "memory on the device: {} ({})", bytes(held), row.name)?;
        }
    }
    writeln!(f)
}

fn stages(f: &mut fmt::Formatter<'_>, rows: &[(&Row, &MeasuredConfiguration)]) -> fmt::Result {
    write!(f, "{:NAME$}", "share of time")?;
    for stage in Stages::NAMES {
        write!(f, "{stage:>9}")?;
    }
    writeln!(f)?;
    for (row, measured) in rows {
        name(f, &row.name)?;
        for share in measured.stages.values() {
            write!(f, "{:>9}", percent(share))?;
        }
        writeln!(f)?;
    }
    let limits = rows.iter().map(|(_, measured)| &measured.limited_by);
    let first = limits.clone().next();
    match first.filter(|first| limits.clone().all(|one| one == *first)) {
        Some(first) => writeln!(f, "limited by: {first}"),
        None => (rows.iter().zip(limits))
            .try_for_each(|((row, _), limit)| writeln!(f, "limited by: {limit} ({})", row.name)),
    }
}

fn failures(f: &mut fmt::Formatter<'_>, report: &BenchReport) -> fmt::Result {
    for (names, reason) in report.failures() {
        writeln!(f)?;
        wrapped(f, &format!("{} failed: {reason}", names.join(", ")))?;
    }
    Ok(())
}

/// A text in lines that fit, the later ones set in.
fn wrapped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(
        f,
        "{}",
        safe_text::wrapped(text, WIDTH, WIDTH - 2).join("\n  ")
    )
}

/// A bar of `value` among values up to `most`, in eighths of a column.
fn bar(value: f64, most: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (per(value, most) * width as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// A rate with three digits at least.
fn amount(value: f64) -> String {
    decimals(value).unwrap_or_else(|| count(value.round() as u64))
}

/// A time with three digits at least.
fn milliseconds(value: f64) -> String {
    decimals(value).unwrap_or_else(|| format!("{value:.0}"))
}

/// Three digits of a number that has fewer before its point.
fn decimals(value: f64) -> Option<String> {
    match value {
        v if v >= 99.95 => None,
        v if v >= 9.995 => Some(format!("{v:.1}")),
        v => Some(format!("{v:.2}")),
    }
}

/// `+3.2 %`, `−10.9 %`
fn signed(share: f64) -> String {
    let sign = if share < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1} %", 100.0 * share.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(10.0, 10.0, 4), "████");
        assert_eq!(bar(5.0, 10.0, 4), "██");
        assert_eq!(bar(5.3, 10.0, 4), "██▏");
        assert_eq!(bar(0.0, 0.0, 4), "");
    }

    #[test]
    fn numbers_have_three_digits_at_least() {
        for (value, rate, time) in [
            (1.0, "1.00", "1.00"),
            (9.996, "10.0", "10.0"),
            (99.96, "100", "100"),
            (1234.4, "1,234", "1234"),
        ] {
            assert_eq!((&*amount(value), &*milliseconds(value)), (rate, time));
        }
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(signed(0.032), "+3.2 %");
        assert_eq!(signed(-0.109), "−10.9 %");
        assert_eq!(signed(0.0), "+0.0 %");
    }

    struct Text<'a>(&'a str);

    impl fmt::Display for Text<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            wrapped(f, self.0)
        }
    }

    #[test]
    fn reasons_fit_the_width() {
        let text = Text(&"a reason of many words ".repeat(12)).to_string();
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(
            text.lines().skip(1).all(|line| line.starts_with("  ")),
            "{text}"
        );
    }
}
