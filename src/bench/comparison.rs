//! The result of comparing a report with an earlier one.

use serde::{Deserialize, Serialize};

/// A report compared with a baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineComparison {
    /// When the baseline was measured.
    pub baseline_date: String,
    /// Its program and version.
    pub baseline_tool: String,
    /// The loss that is allowed, as a share.
    pub max_regression: f64,
    /// One for each configuration of either report.
    pub rows: Vec<Compared>,
    /// Reasons to doubt the comparison.
    pub notes: Vec<String>,
}

/// A configuration in both reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its name in the newer report, where it is there.
    pub name: String,
    /// The result of the comparison.
    pub verdict: Verdict,
    /// Rows a second in the baseline, median.
    pub before: Option<f64>,
    /// Rows a second now, median.
    pub after: Option<f64>,
    /// By which share it changed: -0.1 is a tenth slower.
    pub change: Option<f64>,
    /// The change at worst and at best, if both medians lie in their 95 % intervals.
    pub interval: Option<(f64, f64)>,
}

/// The result of a configuration's comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not slower than allowed.
    Kept,
    /// Slower than allowed, and not by chance: the interval of the change lies below zero.
    Regressed,
    /// The median is slower than allowed, but noise alone could do that.
    Inconclusive,
    /// It was measured in the baseline and failed now.
    Failed,
    /// There is nothing to compare it with.
    New,
    /// The baseline has it; this run did not measure it.
    NotMeasured,
}

impl Verdict {
    /// Whether this alone makes a run fail.
    #[must_use]
    pub fn is_regression(self) -> bool {
        matches!(self, Self::Regressed | Self::Failed)
    }
}

impl BaselineComparison {
    /// Whether any configuration regressed or failed.
    #[must_use]
    pub fn has_regressed(&self) -> bool {
        self.rows.iter().any(|row| row.verdict.is_regression())
    }
}
