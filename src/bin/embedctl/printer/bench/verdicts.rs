//! The comparison of a report with an earlier one.

use std::fmt;

use embedctl::bench::{BaselineComparison, Verdict};

use super::{amount, name, percent, signed, wrapped};

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
