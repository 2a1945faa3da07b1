//! Prometheus' text format.
//!
//! ```
//! use embedctl_common::prometheus::MetricsPage;
//!
//! let mut page = MetricsPage::new("embedctl_", &[("model", "a \"b\"")]);
//! page.family("rows_total", "counter", "Rows embedded.");
//! page.sample("rows_total", &[("kind", "dense")], 3.0);
//! let lines = [
//!     "# HELP embedctl_rows_total Rows embedded.",
//!     "# TYPE embedctl_rows_total counter",
//!     "embedctl_rows_total{model=\"a \\\"b\\\"\",kind=\"dense\"} 3",
//! ];
//! assert_eq!(page.into_text().lines().collect::<Vec<_>>(), lines);
//! ```

use std::fmt::Write as _;

/// Metrics as text, family by family.
#[derive(Debug)]
pub struct MetricsPage {
    prefix: &'static str,
    /// The labels of every sample, as they are written.
    labels: Vec<String>,
    text: String,
}

impl MetricsPage {
    /// An empty page. The names of its metrics begin with `prefix`, and every sample bears `labels`.
    #[must_use]
    pub fn new(prefix: &'static str, labels: &[(&str, &str)]) -> Self {
        Self {
            prefix,
            labels: labels.iter().map(written).collect(),
            text: String::new(),
        }
    }

    /// Begins a metric of this kind (`counter`, `gauge`, `histogram`); its samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        // A string takes everything.
        let _ = writeln!(
            self.text,
            "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}"
        );
    }

    /// A sample with labels of its own.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let own = labels.iter().map(written);
        let labels: Vec<String> = self.labels.iter().cloned().chain(own).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "{}{name}{labels} {value}", self.prefix);
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

/// A label, its value escaped as the format asks.
fn written((name, value): &(&str, &str)) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{}\"", value.replace('\n', "\\n"))
}
