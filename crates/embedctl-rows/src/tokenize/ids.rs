//! Tokens of a text, of which the rest may be unread.

use crate::Side;

/// Tokens of a text: all of them, or those of its part that is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextIds<'a> {
    pub(super) ids: &'a [u32],
    /// Of the text's bytes, those that the tokens come from: 1 for all.
    pub(super) share: f64,
}

impl<'a> TextIds<'a> {
    pub(super) fn whole(ids: &'a [u32]) -> Self {
        Self { ids, share: 1.0 }
    }

    /// Tokens of the part that was not read, about: as many a byte as in the part that was.
    pub(super) fn unread(&self) -> usize {
        match self.share < 1.0 {
            true => (self.ids.len() as f64 * (1.0 / self.share - 1.0)).max(1.0) as usize,
            false => 0,
        }
    }

    /// The first or the last `most` tokens, and the number of those that are lost.
    pub(super) fn cut(&self, most: usize, side: Side) -> (&'a [u32], usize) {
        let kept = self.ids.len().min(most);
        let lost = self.ids.len() - kept + self.unread();
        match side {
            Side::Right => (&self.ids[..kept], lost),
            Side::Left => (&self.ids[self.ids.len() - kept..], lost),
        }
    }
}

/// The share of `all` bytes that `read` are.
pub(super) fn share(read: usize, all: usize) -> f64 {
    match read < all {
        true => read as f64 / all as f64,
        false => 1.0,
    }
}
