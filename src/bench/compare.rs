//! This report against an earlier one: configurations that got slower by more than noise. Pure.

use super::comparison::{BaselineComparison, Compared, Verdict};
use super::report::{BenchReport, Row, SCHEMA};
use super::stats::Spread;
use crate::error::{Error, Result};
use crate::setting::{BASELINE, CORPUS, INPUT};

impl BaselineComparison {
    /// Compares `report` with `baseline`; a loss of more than `max_regression` (a share) is a regression.
    ///
    /// # Errors
    /// If they have no configuration in common, or embedded different texts.
    pub fn of(report: &BenchReport, baseline: &BenchReport, max_regression: f64) -> Result<Self> {
        if baseline.schema != SCHEMA {
            return Err(Error::usage(format!(
                "{BASELINE}: the report is of schema {}, but this version reads {SCHEMA}",
                baseline.schema
            ))
            .with_remedy("measure it again"));
        }
        let (new, old) = (&report.workload, &baseline.workload);
        if (new.built_in, &new.name) != (old.built_in, &old.name) || new.records != old.records {
            return Err(Error::usage(format!(
                "{BASELINE}: it was measured on other texts ({}, {} records; this run: {}, {}), which \
                 says nothing about speed",
                old.name, old.records, new.name, new.records
            ))
            .with_remedy(format!("use the same {CORPUS} or {INPUT}")));
        }
        let mut rows: Vec<Compared> = report
            .rows
            .iter()
            .map(|row| {
                let before = baseline.rows.iter().find(|old| is_same(old, row));
                compare(row, before, max_regression)
            })
            .collect();
        if rows.iter().all(|row| row.verdict == Verdict::New) {
            return Err(Error::usage(format!(
                "{BASELINE}: it has none of this run's configurations"
            ))
            .with_remedy(
                "give the same options as it was measured with (they stand in it under rows[].configuration)",
            ));
        }
        let gone = |old: &&Row| !report.rows.iter().any(|row| is_same(old, row));
        rows.extend(baseline.rows.iter().filter(gone).map(|old| Compared {
            name: old.name.clone(),
            verdict: Verdict::NotMeasured,
            before: old.measured.as_ref().map(|old| old.rows_per_second.median),
            after: None,
            change: None,
            interval: None,
        }));
        Ok(Self {
            baseline_date: baseline.date.clone(),
            baseline_tool: baseline.tool.clone(),
            max_regression,
            rows,
            notes: doubts(report, baseline),
        })
    }
}

fn is_same(one: &Row, other: &Row) -> bool {
    one.configuration.settings() == other.configuration.settings()
}

fn compare(row: &Row, baseline: Option<&Row>, max_regression: f64) -> Compared {
    let rates = |row: &Row| row.measured.as_ref().map(|row| row.rows_per_second.clone());
    let (before, after) = (baseline.and_then(rates), rates(row));
    let mut compared = Compared {
        name: row.name.clone(),
        verdict: Verdict::New,
        before: before.as_ref().map(|rates| rates.median),
        after: after.as_ref().map(|rates| rates.median),
        change: None,
        interval: None,
    };
    match (before, after) {
        (Some(before), Some(after)) if before.median > 0.0 => {
            let (change, low, high) = change(&before, &after);
            compared.change = Some(change);
            compared.interval = Some((low, high));
            compared.verdict = match (change < -max_regression, high < 0.0) {
                (false, _) => Verdict::Kept,
                (true, true) => Verdict::Regressed,
                (true, false) => Verdict::Inconclusive,
            };
        }
        (Some(_), None) => compared.verdict = Verdict::Failed,
        // In the baseline it had failed too, or was not there.
        _ => {}
    }
    compared
}

/// The change of the median as a share, at worst, and at best.
fn change(before: &Spread, after: &Spread) -> (f64, f64, f64) {
    let (before_low, before_high) = before.interval();
    let (after_low, after_high) = after.interval();
    let share = |new: f64, old: f64| if old > 0.0 { new / old - 1.0 } else { 0.0 };
    (
        share(after.median, before.median),
        share(after_low, before_high),
        share(after_high, before_low),
    )
}

fn doubts(report: &BenchReport, baseline: &BenchReport) -> Vec<String> {
    let mut notes = Vec::new();
    let (new, old) = (&report.machine, &baseline.machine);
    if new.signature() != old.signature() {
        notes.push(format!(
            "the baseline is from another machine ({}, {} cores; this one: {}, {} cores)",
            old.cpu, old.cores, new.cpu, new.cores
        ));
    } else if let (Some(new), Some(old)) = (new.peak_gflops, old.peak_gflops)
        && (new / old - 1.0).abs() > 0.1
    {
        notes.push(format!(
            "the machine itself does {new:.0} GFLOP/s now and did {old:.0} then: it is busier, or runs \
             at another clock"
        ));
    }
    notes
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
