//! Settings that are numbers, and the ways to go from one value to the next.

use crate::bench::configuration::Configuration;
use crate::bench::machine::Machine;
use crate::bench::runner::Runner;
use crate::named::named;
use crate::profile::Tuned;

/// Budgets of tokens that are tried.
const BATCH_TOKENS: (usize, usize) = (32, 1 << 20);

named! {
    /// The setting to tune, by its name as an option.
    pub enum TuneSetting {
        BatchTokens = "batch-tokens",
        Threads = "threads",
        Window = "window",
    }
}

impl TuneSetting {
    pub(super) fn value(self, runner: &Runner) -> Option<usize> {
        let opened = runner.opened.as_ref()?;
        Some(match self {
            Self::BatchTokens => opened.batch_tokens,
            Self::Threads => opened.threads,
            Self::Window => opened.window,
        })
    }

    pub(super) fn slot(self, settings: &mut Tuned) -> &mut Option<usize> {
        match self {
            Self::BatchTokens => &mut settings.batch_tokens,
            Self::Threads => &mut settings.threads,
            Self::Window => &mut settings.window,
        }
    }

    /// Whether the command line has decided it.
    pub(super) fn is_given(self, configuration: &Configuration) -> bool {
        match self {
            Self::BatchTokens => configuration.batch_tokens,
            Self::Threads => configuration.threads,
            Self::Window => configuration.window,
        }
        .is_some()
    }

    /// Ways to go from a value: each is followed for as long as it helps, and the first that helps is the
    /// only one.
    pub(super) fn candidate_changes(self) -> &'static [fn(usize) -> usize] {
        match self {
            Self::BatchTokens => &[|tokens| tokens * 2, |tokens| tokens / 2],
            Self::Threads => &[
                |threads| threads / 2,
                |threads| threads - 1,
                |threads| threads * 2,
            ],
            Self::Window => &[|rows| rows * 4, |rows| rows / 4],
        }
    }

    /// Whether `value` is worth a try with samples of `rows`.
    pub(super) fn is_sensible(self, value: usize, machine: &Machine, rows: usize) -> bool {
        match self {
            Self::BatchTokens => (BATCH_TOKENS.0..=BATCH_TOKENS.1).contains(&value),
            Self::Threads => (1..=2 * machine.cores).contains(&value),
            // A value beyond a sample's size makes no difference to it.
            Self::Window => (256..=rows).contains(&value),
        }
    }
}
