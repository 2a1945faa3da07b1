//! The tokens around a text.

/// The side on which a long text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Side {
    Left,
    Right,
}

/// The tokens that are put around a text, and the segments that the model is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Ids before the text.
    pub before: Vec<u32>,
    /// Ids after it.
    pub after: Vec<u32>,
    /// `token_type_ids` before the text, of each of its tokens, and after it; `None` where all are 0 and it makes no
    /// difference whether a row states them.
    pub types: Option<(Vec<u32>, u32, Vec<u32>)>,
    /// Whether the reference gives the model any `token_type_ids`.
    pub gives_types: bool,
    /// What is put around two texts, for a model that takes pairs.
    pub pair: Option<PairFrame>,
    /// Tokens behind a short text, where the model expands queries.
    pub expansion: Option<QueryExpansion>,
}

/// Tokens that are put behind a row until it has so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryExpansion {
    /// The token.
    pub id: u32,
    /// Tokens of an expanded row.
    pub length: usize,
    /// Whether other tokens attend to them.
    pub attends: bool,
}

/// The tokens that are put around the texts of a pair, each with its `token_type_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairFrame {
    /// Before the first text.
    pub before: Vec<(u32, u32)>,
    /// Between the texts.
    pub between: Vec<(u32, u32)>,
    /// Behind the second.
    pub after: Vec<(u32, u32)>,
    /// The types of the first and of the second text's tokens.
    pub types: (u32, u32),
    /// Whether rows state their types even where all are 0.
    pub typed: bool,
}

impl PairFrame {
    /// How many tokens are put around two texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }

    /// Whether nothing is put around them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether rows state the types of their tokens.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.typed || self.row(&[0], &[0]).any(|(_, kind)| kind != 0)
    }

    /// The row of two texts of these tokens: each with its type.
    pub fn row<'a>(
        &'a self,
        first: &'a [u32],
        second: &'a [u32],
    ) -> impl Iterator<Item = (u32, u32)> + 'a {
        let of = |ids: &'a [u32], kind: u32| ids.iter().map(move |&id| (id, kind));
        (self.before.iter().copied())
            .chain(of(first, self.types.0))
            .chain(self.between.iter().copied())
            .chain(of(second, self.types.1))
            .chain(self.after.iter().copied())
    }
}

impl Frame {
    /// How many tokens are put around a text.
    #[must_use]
    pub fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Whether nothing is put around a text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether rows end with tokens that no token attends to, though they have states of their own: then a row's mask is no
    /// statement of its length.
    #[must_use]
    pub fn hides_tokens(&self) -> bool {
        self.expansion.is_some_and(|expansion| !expansion.attends)
    }

    /// Whether rows of one text or of two state the types of their tokens.
    #[must_use]
    pub fn states_types(&self) -> bool {
        self.types.is_some() || self.pair.as_ref().is_some_and(PairFrame::is_typed)
    }

    /// The same frame, whose rows state types even where all are 0.
    #[must_use]
    pub fn typed(mut self) -> Self {
        let zeros = |ids: &[u32]| vec![0; ids.len()];
        let none = (zeros(&self.before), 0, zeros(&self.after));
        self.types.get_or_insert(none);
        if let Some(pair) = &mut self.pair {
            pair.typed = true;
        }
        self
    }

    /// The `token_type_ids` of a row of `length` tokens, the frame's own counted.
    pub fn types(&self, length: usize) -> impl Iterator<Item = u32> + '_ {
        let (before, text, after) = self
            .types
            .as_ref()
            .map_or((&[][..], 0, &[][..]), |(before, text, after)| {
                (before.as_slice(), *text, after.as_slice())
            });
        let texts = length.saturating_sub(before.len() + after.len());
        before
            .iter()
            .copied()
            .chain(std::iter::repeat_n(text, texts))
            .chain(after.iter().copied())
            .take(length)
    }
}
