//! Chains of causes: errors found inside others, and a chain as one sentence.

use std::error::Error as StdError;
use std::io;

use super::{Cause, Error, Inner};

impl Error {
    /// This error as a cause of another: its sentence with its own causes, and the remedy.
    #[must_use]
    pub fn into_cause(mut self) -> Cause {
        let remedy = self.0.remedy.take();
        Cause {
            reason: with_causes(&self),
            remedy,
        }
    }

    /// This library's error inside an encoder's or a decoder's error, as a copy without its cause; `None` if there is
    /// none.
    pub fn behind(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            // An I/O error is transparent for the one that it holds.
            let held = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            let own = match held {
                Some(held) => held.downcast_ref::<Self>(),
                None => error.downcast_ref::<Self>(),
            };
            if let Some(Self(own)) = own {
                return Some(Self(Box::new(Inner {
                    kind: own.kind,
                    place: own.place.clone(),
                    subject: own.subject.clone(),
                    reason: own.reason.clone(),
                    remedy: own.remedy.clone(),
                    source: None,
                })));
            }
            next = match held {
                Some(held) => Some(held),
                None => error.source(),
            };
        }
        None
    }

    /// The same with every text from outside changed by `word`.
    pub fn reworded(mut self, word: &dyn Fn(&str) -> String) -> Self {
        let Inner {
            subject,
            reason,
            remedy,
            source,
            ..
        } = &mut *self.0;
        *subject = word(subject);
        *reason = word(reason);
        *remedy = remedy.as_deref().map(word);
        // A cause of our own kind repeats the message.
        let cause = source.take().map(|cause| match cause.downcast::<Self>() {
            Ok(own) => own.reworded(word).into(),
            Err(other) => other,
        });
        *source = cause;
        self
    }
}

/// The I/O errors that an error is, or was caused by, the outermost first.
pub fn io_errors<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e io::Error> {
    let chain = std::iter::successors(Some(error), |error| StdError::source(*error));
    chain.filter_map(|error| error.downcast_ref())
}

/// An error with its chain of causes, on one line, since the actual message is often in the last one. Repetitions are
/// left out.
pub fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
