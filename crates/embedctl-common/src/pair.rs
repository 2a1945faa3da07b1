//! Two texts as one, so that all that is done with a text (windows, equal texts, hashes) is done with a pair.

/// A pair of texts, such as a query and a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPair<'a> {
    /// The first text.
    pub first: &'a str,
    /// The second text.
    pub second: &'a str,
}

impl<'a> TextPair<'a> {
    /// What parts the first text's length from the texts.
    const MARK: char = ':';

    /// Both as one text: the first one's length in bytes, a colon, the two texts. Different pairs are different texts.
    #[must_use]
    pub fn joined(&self) -> String {
        let Self { first, second } = self;
        format!("{}{}{first}{second}", first.len(), Self::MARK)
    }

    /// The pair that [`TextPair::joined`] has made this text of; `None` for any other text.
    #[must_use]
    pub fn of(joined: &'a str) -> Option<Self> {
        let (length, texts) = joined.split_once(Self::MARK)?;
        let (first, second) = texts.split_at_checked(length.parse().ok()?)?;
        Some(Self { first, second })
    }

    /// The pair of a record's text, which [`TextPair::joined`] has made as a rule; any other text is the second one of a
    /// pair whose first text is empty.
    #[must_use]
    pub fn of_record(text: &'a str) -> Self {
        Self::of(text).unwrap_or(Self {
            first: "",
            second: text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_are_no_pairs() {
        for text in [
            "",
            "a",
            ":",
            "x:y",
            "3:ab",
            "1:é",
            "-1:a",
            "99999999999999999999:a",
        ] {
            assert_eq!(TextPair::of(text), None, "{text}");
        }
    }

    #[test]
    fn a_pair_is_what_it_was_and_like_no_other() {
        let parts = [
            "", "a", ":", "1", "1:", ":1", "12:", "é", "a:b", "東京", "\u{0}",
        ];
        let mut all = std::collections::HashSet::new();
        for (first, second) in parts
            .iter()
            .flat_map(|one| parts.iter().map(move |two| (*one, *two)))
        {
            let pair = TextPair { first, second };
            let joined = pair.joined();
            assert_eq!(TextPair::of(&joined), Some(pair), "{joined}");
            assert!(all.insert(joined), "{pair:?}");
        }
    }
}
