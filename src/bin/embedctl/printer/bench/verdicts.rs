//! The steps of tuning, and the comparison of a report with an earlier one.

use std::fmt;

use embedctl::bench::{BaselineComparison, Spread, TuneStep, Tuning, Verdict};

use super::super::words::count;
use super::{NAME, amount, name, percent, signed, width, wrapped};

pub(super) fn tuned(f: &mut fmt::Formatter<'_>, tuning: &Tuning) -> fmt::Result {
    writeln!(f)?;
    writeln!(
        f,
        "{:NAME$}{:>9}{:>9}  rows/s against the best so far",
        "tuning", "from", "to"
    )?;
    writeln!(
        f,
        "{:1$}  (95 % interval; range of fewer than 6 samples)",
        "",
        NAME + 18
    )?;
    for step in &tuning.steps {
        let [from, to] = [&step.from, &step.to].map(|value| figure(value));
        if width(&from).max(width(&to)) < 9 {
            write!(f, "{:NAME$}{from:>9}{to:>9}", step.setting)?;
        } else {
            writeln!(f, "{}: {from} → {to}", step.setting)?;
            write!(f, "{:1$}", "", NAME + 18)?;
        }
        writeln!(f, "  {}", verdict(step))?;
    }
    for skipped in &tuning.skipped {
        wrapped(f, &format!("not tuned: {skipped}"))?;
    }
    if let Some(speedup) = &tuning.speedup {
        writeln!(f, "best against the defaults: {}", gain(speedup))?;
    }
    wrapped(f, &tuning.outcome)?;
    for path in &tuning.saved {
        writeln!(f, "saved {}", path.display())?;
    }
    Ok(())
}

/// A setting's value: a number with its thousands apart.
fn figure(value: &str) -> String {
    value.parse().map_or_else(|_| value.to_owned(), count)
}

fn verdict(step: &TuneStep) -> String {
    let verdict = match step {
        _ if step.kept => "kept",
        _ if step.is_unclear() => "unclear",
        _ => "dropped",
    };
    match (&step.ratio, &step.failed) {
        (Some(ratio), _) => format!("{}: {verdict}", gain(ratio)),
        (None, Some(_)) => "failed: dropped".to_owned(),
        (None, None) => verdict.to_owned(),
    }
}

/// `+11.5 % (+9 to +13 %)`; with too few samples for an interval `+11.5 % (range +2 to +13 %)`.
fn gain(ratio: &Spread) -> String {
    let (low, high) = ratio.interval();
    let range = if ratio.low.is_none() { "range " } else { "" };
    let round = |ratio: f64| signed(ratio - 1.0).replace(".0 %", "").replace(" %", "");
    format!(
        "{} ({range}{} to {} %)",
        signed(ratio.median - 1.0),
        round(low),
        round(high)
    )
}

pub(super) fn compared(f: &mut fmt::Formatter<'_>, comparison: &BaselineComparison) -> fmt::Result {
    let day = comparison
        .baseline_date
        .split('T')
        .next()
        .unwrap_or_default();
    writeln!(f)?;
    writeln!(
        f,
        "against the baseline of {day} ({}); allowed: {} slower",
        comparison.baseline_tool,
        percent(comparison.max_regression)
    )?;
    for row in &comparison.rows {
        name(f, &row.name)?;
        let words = match row.verdict {
            Verdict::Kept => "ok",
            Verdict::Regressed => "SLOWER",
            Verdict::Inconclusive => "unclear: within noise; measure longer",
            Verdict::Failed => "FAILED now",
            Verdict::New => "not in the baseline",
            Verdict::NotMeasured => "only in the baseline",
        };
        match (row.before, row.after, row.change, row.interval) {
            (Some(before), Some(after), Some(change), Some((low, high))) => writeln!(
                f,
                "{:>9} → {} rows/s, {} ({} to {}) {words}",
                amount(before),
                amount(after),
                signed(change),
                signed(low),
                signed(high)
            )?,
            _ => writeln!(f, " {words}")?,
        }
    }
    for note in &comparison.notes {
        wrapped(f, &format!("note: {note}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(values: &[f64], kept: bool) -> TuneStep {
        TuneStep {
            setting: "threads".into(),
            from: "1".into(),
            to: "2".into(),
            ratio: Spread::of(values),
            kept,
            failed: None,
        }
    }

    #[test]
    fn what_is_not_proven_is_unclear_and_says_whether_it_is_a_range() {
        for (values, kept, words) in [
            (
                &[1.115, 1.02, 1.13][..],
                false,
                "+11.5 % (range +2 to +13 %): unclear",
            ),
            (
                &[1.1, 1.2, 1.15, 1.15, 1.15, 1.15, 1.15],
                true,
                "+15 % (+10 to +20 %): kept",
            ),
            (
                &[0.9, 0.8, 0.85],
                false,
                "−15 % (range −20 to −10 %): dropped",
            ),
            (
                &[0.9, 1.3, 1.1, 1.1, 1.1, 1.1],
                false,
                "+10 % (−10 to +30 %): unclear",
            ),
        ] {
            let said = verdict(&step(values, kept)).replace(".0 %", " %");
            assert_eq!(said, words);
            assert!(said.chars().count() + NAME + 20 <= 80, "{said}");
        }
    }
}
