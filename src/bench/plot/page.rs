//! An HTML page around the picture: the figures behind it as a table.

use std::fmt::Write as _;

use super::chart::{escaped, number};
use crate::bench::protocol::Stages;
use crate::bench::report::{Measured, Report, Row};

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid #8885; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
";

/// The page.
pub(super) fn html(report: &Report, svg: &str) -> String {
    let mut rows = String::new();
    for row in &report.rows {
        let name = escaped(&row.name);
        let _ = match (&row.measured, &row.failed) {
            (Some(measured), _) => writeln!(rows, "<tr><td>{name}</td>{}</tr>", cells(measured)),
            (None, reason) => writeln!(
                rows,
                "<tr><td>{name}</td><td colspan=\"11\" style=\"text-align:left\">{}</td></tr>",
                escaped(reason.as_deref().unwrap_or("not measured"))
            ),
        };
    }
    let notes: String = report
        .notes
        .iter()
        .map(|note| format!("<p>{}</p>\n", escaped(note)))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n{svg}\n<div class=\"wide\"><table>\n\
         <tr><th>configuration</th><th>rows/s</th><th>±</th><th>tokens/s</th><th>p50 ms</th>\
         <th>p95 ms</th><th>p99 ms</th><th>load s</th><th>peak memory MB</th><th>padding</th>\
         <th>useful GFLOP/s</th><th>engine</th></tr>\n{rows}</table></div>\n{}\n{notes}</html>\n",
        escaped(&super::title(report)),
        stages(&report.rows),
    )
}

fn cells(measured: &Measured) -> String {
    let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    let latency = measured.latency_ms.as_ref();
    let opened = &measured.opened;
    [
        number(measured.rows_per_second.median),
        format!("{:.1} %", 100.0 * measured.rows_per_second.noise()),
        number(measured.tokens_per_second.median),
        optional(latency.map(|latency| latency.p50)),
        optional(latency.map(|latency| latency.p95)),
        optional(latency.map(|latency| latency.p99)),
        number(opened.load_seconds),
        optional(measured.peak_memory_bytes.map(|bytes| bytes as f64 / 1e6)),
        format!("{:.1} %", 100.0 * measured.padding),
        optional(measured.useful_gflops),
        format!(
            "{} {} ({}), {} threads, {} tokens a batch",
            opened.engine, opened.version, opened.provider, opened.threads, opened.batch_tokens
        ),
    ]
    .iter()
    .map(|cell| format!("<td>{}</td>", escaped(cell)))
    .collect()
}

fn stages(rows: &[Row]) -> String {
    let head: String = Stages::NAMES
        .iter()
        .map(|name| format!("<th>{name}</th>"))
        .collect();
    let mut table = format!("<div class=\"wide\"><table>\n<tr><th>share of time</th>{head}</tr>\n");
    for row in rows {
        let Some(measured) = &row.measured else {
            continue;
        };
        let shares = measured.stages.values();
        let cells: String = shares
            .iter()
            .map(|share| format!("<td>{:.1} %</td>", 100.0 * share))
            .collect();
        let _ = writeln!(table, "<tr><td>{}</td>{cells}</tr>", escaped(&row.name));
    }
    table + "</table></div>"
}
