//! Lists of words in one text, separated by white space, for tables of names.

/// Whether a list holds `word`.
#[must_use]
pub fn lists(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_by_any_blanks_and_none_is_empty() {
        let list = "one  two\n    three\n";
        assert!(lists(list, "two") && lists(list, "three"));
        assert!(!lists(list, "") && !lists(list, "thre") && !lists(list, "one two"));
    }
}
