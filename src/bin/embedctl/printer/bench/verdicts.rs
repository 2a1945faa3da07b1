//! What tuning tried, and how a report compares with an earlier one.

use std::fmt;

use embedctl::bench::{Comparison, Step, Tuning, Verdict};

use super::super::summary::count;
use super::{NAME, amount, name, percent, signed, width, wrapped};

pub(super) fn tuned(f: &mut fmt::Formatter<'_>, tuning: &Tuning) -> fmt::Result {
    writeln!(f)?;
    writeln!(
        f,
        "{:NAME$}{:>9}{:>9}  rows/s against the best so far",
        "tuning", "from", "to"
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
        let (low, high) = speedup.interval();
        writeln!(
            f,
            "best against the defaults: {} ({} to {})",
            signed(speedup.median - 1.0),
            signed(low - 1.0),
            signed(high - 1.0)
        )?;
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

fn verdict(step: &Step) -> String {
    let kept = if step.kept { "kept" } else { "dropped" };
    match (&step.ratio, &step.failed) {
        (Some(ratio), _) => {
            let (low, high) = ratio.interval();
            format!(
                "{} ({} to {}): {kept}",
                signed(ratio.median - 1.0),
                signed(low - 1.0),
                signed(high - 1.0)
            )
        }
        (None, Some(_)) => "failed: dropped".to_owned(),
        (None, None) => kept.to_owned(),
    }
}

pub(super) fn compared(f: &mut fmt::Formatter<'_>, comparison: &Comparison) -> fmt::Result {
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
            Verdict::Inconclusive => "unclear: noise could do this; measure longer",
            Verdict::Failed => "FAILED now",
            Verdict::New => "not in the baseline",
            Verdict::NotMeasured => "in the baseline alone",
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
