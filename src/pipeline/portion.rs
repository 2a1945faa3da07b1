//! Portions of a window: consecutive records whose vectors a slow model computes within seconds.
//!
//! A window is read and tokenized as a whole, and equal texts in it are computed once. Its batches are cut, run and
//! settled portion by portion, so that an interrupt costs seconds of work even if a window takes hours. What a portion
//! holds depends on the model and the texts, never on the clock: every run cuts the same batches.

use std::ops::Range;

use super::in_flight::{InFlight, Portion};
use crate::engine::Engine;

/// Operations of a portion, about: some seconds of a few cores, and of a device.
const OPERATIONS: f64 = 1e12;
const OPERATIONS_OF_DEVICE: f64 = 3e13;

/// How much more that is where rows are padded, and sorting many of them by length saves time.
const PADDED: f64 = 3.0;

/// Batches of a portion at least: enough to sort rows by length.
const BATCHES: usize = 16;

/// How much a portion holds.
pub(super) struct PortionLimits {
    operations: f64,
    tokens: usize,
    /// Operations of a row with so many tokens.
    cost: Box<dyn Fn(usize) -> f64 + Send>,
}

impl PortionLimits {
    /// For an engine whose batches have `tokens` tokens, and a model that takes `cost` operations for a row of so many
    /// tokens.
    pub(super) fn new(
        engine: &dyn Engine,
        tokens: usize,
        cost: impl Fn(usize) -> f64 + Send + 'static,
    ) -> Self {
        let operations = match (engine.info().provider.is_on_worker(), engine.is_ragged()) {
            (true, true) => OPERATIONS,
            (true, false) => OPERATIONS * PADDED,
            (false, _) => OPERATIONS_OF_DEVICE,
        };
        Self {
            operations,
            tokens: tokens.saturating_mul(BATCHES),
            cost: Box::new(cost),
        }
    }

    /// Whether a portion is full that has so many tokens and takes that many operations.
    fn are_reached(&self, tokens: usize, operations: f64) -> bool {
        operations >= self.operations && tokens >= self.tokens
    }
}

/// Cuts a window into portions, without batches yet. `limits`: `None` for a window that must stay whole.
pub(super) fn cut(in_flight: &InFlight, limits: Option<&PortionLimits>) -> Vec<Portion> {
    let window = &in_flight.window;
    let total = window.records();
    let mark = window.mark.as_ref();
    let missing: Vec<Range<usize>> = match mark {
        None => std::iter::once(0..total).collect(),
        Some(mark) => {
            let inside = |record: u64| usize::try_from(record - mark.start).unwrap_or(total);
            let ranges = mark.missing.iter();
            ranges
                .map(|range| inside(range.start)..inside(range.end))
                .collect()
        }
    };
    let distinct: Vec<u32> = (in_flight.distinct.of_rows())
        .map(|number| u32::try_from(number).expect("a window has fewer than 2^32 texts"))
        .collect();
    let mut seen = vec![false; in_flight.distinct.len()];
    let mut portions = Vec::new();
    let (mut record, mut reject, mut text) = (0, 0, 0);
    for range in missing {
        let (mut portion, mut tokens, mut operations) = (Portion::default(), 0, 0.0);
        let mut begins = true;
        while record + reject < range.end {
            let number = record + reject;
            let is_reject = window.is_reject_next(record, reject);
            let own_texts = match is_reject {
                true => 0,
                false => in_flight.texts_of(record, text),
            };
            if number >= range.start {
                let is_full = limits.is_some_and(|it| it.are_reached(tokens, operations));
                if begins || (is_full && !is_reject) {
                    if !begins {
                        portions.push(std::mem::take(&mut portion));
                    }
                    (tokens, operations, begins) = (0, 0.0, false);
                    portion.records = record..record;
                    portion.rejects = reject..reject;
                }
                for &number in &distinct[text..text + own_texts] {
                    if !std::mem::replace(&mut seen[number as usize], true) {
                        let length = in_flight.tokens.get(number as usize).len();
                        tokens += length;
                        operations += limits.map_or(0.0, |limits| (limits.cost)(length));
                        portion.runs.push(number);
                    }
                }
            }
            text += own_texts;
            match is_reject {
                true => reject += 1,
                false => record += 1,
            }
            portion.records.end = record;
            portion.rejects.end = reject;
        }
        if !begins {
            portion.is_last = portion.end() == total;
            portions.push(portion);
        }
    }
    // An answered batch without a row is written, too.
    if portions.is_empty() && mark.is_none() {
        portions.push(Portion {
            is_last: true,
            ..Portion::default()
        });
    }
    portions
}
