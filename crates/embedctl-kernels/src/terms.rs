//! Logits of a vocabulary's terms, reduced over a row's tokens.

use super::isa::{Isa, with_floats};

/// How a term's logits over all tokens of a row become its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermPooling {
    /// Whether weights are summed over tokens; else the greatest counts.
    pub sums: bool,
    /// Whether `ln(1 + x)` is taken twice (`log1p_relu`).
    pub twice: bool,
}

impl TermPooling {
    /// `ln(1 + max(logit, 0))`, once or twice.
    #[must_use]
    pub fn weight(self, logit: f32) -> f32 {
        let once = logit.max(0.0).ln_1p();
        match self.twice {
            true => once.ln_1p(),
            false => once,
        }
    }

    /// Takes in a token's logits. `tops` are those of the row's tokens so far, zeros at first: the greatest logits, or the
    /// sums of weights. A NaN or an infinity among the logits makes `odd` NaN.
    ///
    /// # Panics
    /// If `logits` and `tops` differ in length.
    pub fn take(self, isa: Isa, logits: &[f32], tops: &mut [f32], odd: &mut f32) {
        assert!(logits.len() == tops.len(), "a place for each logit");
        with_floats!(isa, _s => {
            let mut sums = [0.0_f32; 16];
            for logits in logits.chunks(16) {
                for (sum, logit) in sums.iter_mut().zip(logits) {
                    *sum += logit * 0.0;
                }
            }
            *odd += sums.iter().sum::<f32>();
            if !self.sums {
                for (top, &logit) in tops.iter_mut().zip(logits) {
                    *top = if logit > *top { logit } else { *top };
                }
            }
        });
        if self.sums {
            for (sum, &logit) in tops.iter_mut().zip(logits) {
                if logit > 0.0 {
                    *sum += self.weight(logit);
                }
            }
        }
    }

    /// The weight of a term whose logits over a row were taken in.
    #[must_use]
    pub fn finish(self, top: f32) -> f32 {
        match self.sums {
            true => top,
            false => self.weight(top),
        }
    }
}
