//! Many texts in one allocation.

/// The texts of a window in one allocation.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    buffer: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Appends one text.
    pub fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        self.ends.push(self.buffer.len());
    }

    /// The text of row `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Texts::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.buffer[start..self.ends[index]]
    }

    /// All texts in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of text held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Texts {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text.as_ref()));
        all
    }
}
