//! A report as a picture: throughput of every configuration, throughput against the token budget, and where time goes.
//! SVG by hand, legible on light and dark backgrounds: the crate `plotters` supports neither style sheets nor stacked
//! bars, and the rest of a chart is a few lines of text.

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;

use std::fmt::Write as _;

use super::configuration::{Configuration, last_part};
use super::protocol::Stages;
use super::report::{BenchReport, MeasuredConfiguration, Row};
use crate::safe_text::wrapped;
use embedctl_search::chart::{self, Canvas, LEFT, RIGHT};

/// Height of a bar with the space around it.
const STEP: f64 = 30.0;

/// The report as an SVG document.
#[must_use]
pub fn svg(report: &BenchReport) -> String {
    let measured: Vec<(&Row, &MeasuredConfiguration)> = report.measured().collect();
    let mut canvas = Canvas::default();
    head(&mut canvas, report);
    if !measured.is_empty() {
        throughput(&mut canvas, &measured);
        budgets(&mut canvas, &measured);
        stages(&mut canvas, &measured);
    }
    failures(&mut canvas, report);
    canvas.finish()
}

/// The title, and the machine.
fn head(canvas: &mut Canvas, report: &BenchReport) {
    canvas.text(LEFT, 34.0, "title", "start", &title(report));
    for (place, line) in [machine(report), texts(report)].iter().enumerate() {
        canvas.text(LEFT, 56.0 + 18.0 * place as f64, "soft", "start", line);
    }
    canvas.y = 100.0;
}

/// `Embedding speed of all-MiniLM-L6-v2`
fn title(report: &BenchReport) -> String {
    let mut models: Vec<&str> = Vec::new();
    for row in &report.rows {
        let short = last_part(&row.configuration.model);
        if !models.contains(&short) {
            models.push(short);
        }
    }
    format!("Embedding speed of {}", models.join(", "))
}

fn machine(report: &BenchReport) -> String {
    let machine = &report.machine;
    let plural = if machine.cores == 1 { "" } else { "s" };
    let mut parts = vec![
        machine.cpu.clone(),
        format!("{} core{plural}", machine.cores),
    ];
    if let Some(bytes) = machine.memory_bytes {
        parts.push(format!("{:.0} GB memory", bytes as f64 / 1e9));
    }
    parts.push(machine.os.clone());
    parts.join(" · ")
}

fn texts(report: &BenchReport) -> String {
    let built_in = if report.workload.built_in {
        " (built in)"
    } else {
        ""
    };
    let mut text = format!("texts: {}{built_in}", report.workload.name);
    let measured = report.measured().next();
    if let Some((_, measured)) = measured.filter(|(_, measured)| measured.sample_rows > 0) {
        let mean = measured.sample_tokens as f64 / measured.sample_rows as f64;
        let _ = write!(text, ", {mean:.0} tokens a row on average");
    }
    let day = report.date.split('T').next().unwrap_or_default();
    format!("{text} · {} · {day}", report.tool)
}

/// A bar for each configuration.
fn throughput(canvas: &mut Canvas, rows: &[(&Row, &MeasuredConfiguration)]) {
    canvas.heading("Throughput");
    let most = rows
        .iter()
        .map(|(_, measured)| measured.rows_per_second.interval().1)
        .fold(0.0, f64::max);
    let axis = chart::Axis::new(most);
    let top = canvas.y;
    let bottom = top + STEP * rows.len() as f64;
    // The last tick's neighbourhood is left to the longest bar's figures.
    let right = RIGHT - 150.0;
    let x = |value: f64| LEFT + chart::LABELS + axis.share(value) * (right - LEFT - chart::LABELS);
    let name = "rows per second: median and 95 % interval (below 6 samples their range)";
    canvas.ticks_across(&axis, top, bottom, x, name);
    let providers = providers(rows);
    for (place, (row, measured)) in rows.iter().enumerate() {
        let y = top + STEP * (place as f64 + 0.5);
        let rates = &measured.rows_per_second;
        canvas.label(y, &row.name);
        let provider = &measured.opened.provider;
        let series = providers.iter().position(|one| one == provider);
        let class = format!("s{}", series.unwrap_or(0) % chart::SERIES);
        canvas.bar(x(0.0), x(rates.median), y, &class);
        let (low, high) = rates.interval();
        canvas.whisker(x(low), x(high), y);
        let (rate, noise) = (chart::number(rates.median), 100.0 * rates.noise());
        let (end, figures) = (high.max(rates.median), format!("{rate} ± {noise:.1} %"));
        canvas.text(x(end) + 8.0, y + 4.5, "figure", "start", &figures);
    }
    canvas.y = bottom + 66.0;
}

fn providers<'a>(rows: &[(&Row, &'a MeasuredConfiguration)]) -> Vec<&'a str> {
    let mut providers: Vec<&str> = Vec::new();
    for (_, measured) in rows {
        if !providers.contains(&measured.opened.provider.as_str()) {
            providers.push(&measured.opened.provider);
        }
    }
    providers
}

/// Rows that differ in nothing but the token budget.
struct Series<'a> {
    name: String,
    points: Vec<(f64, &'a MeasuredConfiguration)>,
}

impl Series<'_> {
    fn provider(&self) -> &str {
        let first = self.points.first();
        first.map_or("", |(_, measured)| &measured.opened.provider)
    }
}

fn series<'a>(rows: &[(&'a Row, &'a MeasuredConfiguration)]) -> Vec<Series<'a>> {
    let without = |row: &Row| Configuration {
        batch_tokens: None,
        ..row.configuration.clone()
    };
    let all: Vec<Configuration> = rows.iter().map(|(row, _)| without(row)).collect();
    let mut found: Vec<(usize, Series<'_>)> = Vec::new();
    for (index, (_, measured)) in rows.iter().enumerate() {
        let point = (measured.opened.batch_tokens as f64, *measured);
        match found
            .iter_mut()
            .find(|(first, _)| all[*first] == all[index])
        {
            Some((_, series)) => series.points.push(point),
            None => found.push((
                index,
                Series {
                    name: all[index].label(&all),
                    points: vec![point],
                },
            )),
        }
    }
    let mut series: Vec<Series<'_>> = found.into_iter().map(|(_, series)| series).collect();
    series.retain(|series| series.points.len() > 1);
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
}

/// Lines over the token budget, where several were measured.
fn budgets(canvas: &mut Canvas, rows: &[(&Row, &MeasuredConfiguration)]) {
    const HEIGHT: f64 = 220.0;
    let series = series(rows);
    let points = || series.iter().flat_map(|series| &series.points);
    let mut ticks: Vec<f64> = points().map(|(budget, _)| *budget).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let [least, .., largest] = ticks[..] else {
        return;
    };
    canvas.heading("Throughput against the token budget of a batch");
    let most = points()
        .map(|(_, measured)| measured.rows_per_second.interval().1)
        .fold(0.0, f64::max);
    let axis = chart::Axis::new(most);
    let (top, left, right) = (canvas.y + 8.0, LEFT + 70.0, RIGHT - 150.0);
    let bottom = top + HEIGHT;
    let x =
        |budget: f64| left + (budget / least).log2() / (largest / least).log2() * (right - left);
    let y = |rate: f64| bottom - axis.share(rate) * HEIGHT;
    canvas.ticks_up(&axis, left, right, y, "rows per second");
    let mut free = f64::MIN;
    for tick in ticks {
        canvas.line((x(tick), bottom), (x(tick), bottom + 5.0), "axis");
        // Neighbours that are too near share one figure.
        if x(tick) >= free {
            let figure = chart::number(tick);
            canvas.text(x(tick), bottom + 19.0, "tick", "middle", &figure);
            free = x(tick) + 44.0;
        }
    }
    let middle = f64::midpoint(left, right);
    let name = "padded tokens in a batch at most (logarithmic)";
    canvas.text(middle, bottom + 40.0, "axis-name", "middle", name);
    let providers = providers(rows);
    let mut taken: Vec<f64> = Vec::new();
    for (index, one) in series.iter().enumerate() {
        let before = series[..index].iter();
        let same = before.filter(|other| other.provider() == one.provider());
        let known = providers.iter().position(|known| *known == one.provider());
        let colour = known.unwrap_or(0) + same.count();
        let class = format!("s{}", colour % chart::SERIES);
        let places: Vec<(f64, f64)> = one
            .points
            .iter()
            .map(|(budget, measured)| (x(*budget), y(measured.rows_per_second.median)))
            .collect();
        canvas.curve(&places, &class);
        for ((budget, measured), place) in one.points.iter().zip(&places) {
            let (low, high) = measured.rows_per_second.interval();
            canvas.line((x(*budget), y(low)), (x(*budget), y(high)), &class);
            canvas.dot(*place, &class);
        }
        if let Some(&(end, height)) = places.last() {
            let mut height = height + 4.5;
            while taken.iter().any(|other| (height - other).abs() < 15.0) {
                height += 15.0;
            }
            taken.push(height);
            canvas.text(end + 12.0, height, "figure", "start", &one.name);
        }
    }
    canvas.y = bottom + 80.0;
}

/// A bar for each configuration, cut into stages.
fn stages(canvas: &mut Canvas, rows: &[(&Row, &MeasuredConfiguration)]) {
    canvas.heading("Where time goes (busy time of all threads, with the workers' waiting)");
    let mut x = LEFT + chart::LABELS;
    for (index, name) in Stages::NAMES.iter().enumerate() {
        canvas.swatch(x, canvas.y + 2.0, &format!("t{index}"));
        canvas.text(x + 18.0, canvas.y + 12.0, "tick", "start", name);
        x += 32.0 + 7.5 * name.len() as f64;
    }
    canvas.y += 24.0;
    let (left, right) = (LEFT + chart::LABELS, RIGHT - 150.0);
    for (row, measured) in rows {
        let y = canvas.y + STEP / 2.0;
        canvas.label(y, &row.name);
        let mut x = left;
        for (index, share) in measured.stages.values().into_iter().enumerate() {
            let end = x + share * (right - left);
            canvas.bar(x, end, y, &format!("t{index}"));
            if share >= 0.07 {
                let (middle, class) = (f64::midpoint(x, end), format!("on-t{index}"));
                let percent = format!("{:.0} %", 100.0 * share);
                canvas.text(middle, y + 4.5, &class, "middle", &percent);
            }
            x = end;
        }
        let limit = format!("limited by {}", measured.limited_by);
        canvas.text(right + 8.0, y + 4.5, "figure", "start", &limit);
        canvas.y += STEP;
    }
    canvas.y += 26.0;
}

/// Failed configurations, grouped by reason.
fn failures(canvas: &mut Canvas, report: &BenchReport) {
    for (names, reason) in report.failures() {
        for line in wrapped(&format!("{}: {reason}", names.join(", ")), 118, 118) {
            canvas.text(LEFT, canvas.y, "soft", "start", &line);
            canvas.y += 17.0;
        }
        canvas.y += 6.0;
    }
    // Even where there is nothing else, the title has room.
    canvas.y = canvas.y.max(120.0);
}
