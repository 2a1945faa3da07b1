//! Whether a regular expression finds the same matches in a text and in its parts, where the text is cut at a mark (a
//! blank, a line feed) between two letters.
//!
//! Only the structure of an expression is read here; the engine that runs it is asked which characters a step takes. An
//! expression that is not understood is not local.
//!
//! An expression is local if no step that looks at the mark can follow one that took the letter before it, nor one that
//! looks back: then a match that begins before the cut ends there, in the text as in the part, and a match that begins
//! at the cut needs nothing that is before it. A look ahead counts like a step; the end of a text counts as a look at
//! the mark.

use tokenizers::utils::SysRegex;

/// The properties of a part of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PatternPart {
    /// It may match without taking a character.
    empty: bool,
    /// Its first look may take the mark, or tell it from the end of a text.
    begins_at_mark: bool,
    /// Its last character may be a letter, or it looks back.
    ends_at_letter: bool,
    /// Some step of it takes letters.
    letters: bool,
}

impl PatternPart {
    const NOTHING: Self = Self {
        empty: true,
        begins_at_mark: false,
        ends_at_letter: false,
        letters: false,
    };
    const LOOK_BACK: Self = Self {
        ends_at_letter: true,
        ..Self::NOTHING
    };
    const LOOK_AT_END: Self = Self {
        begins_at_mark: true,
        ..Self::NOTHING
    };

    /// This and then `next`; `None` where a match could go across the cut, or look there.
    fn followed_by(self, next: Self) -> Option<Self> {
        if self.ends_at_letter && next.begins_at_mark {
            return None;
        }
        Some(Self {
            empty: self.empty && next.empty,
            begins_at_mark: self.begins_at_mark || self.empty && next.begins_at_mark,
            ends_at_letter: next.ends_at_letter || next.empty && self.ends_at_letter,
            letters: self.letters || next.letters,
        })
    }

    fn or(self, other: Self) -> Self {
        Self {
            empty: self.empty || other.empty,
            begins_at_mark: self.begins_at_mark || other.begins_at_mark,
            ends_at_letter: self.ends_at_letter || other.ends_at_letter,
            letters: self.letters || other.letters,
        }
    }
}

/// Where texts are cut: before this mark, behind one of these letters.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalCut<'a> {
    pub(super) mark: char,
    pub(super) letters: &'a str,
}

/// Whether the matches of `pattern` are the same on both sides of a cut.
pub(super) fn is_local(pattern: &str, cut: LocalCut<'_>) -> bool {
    whole(pattern, cut).is_some()
}

/// The same, of one that never looks at a letter.
pub(super) fn is_local_without_letters(pattern: &str, cut: LocalCut<'_>) -> bool {
    whole(pattern, cut).is_some_and(|part| !part.letters)
}

fn whole(pattern: &str, cut: LocalCut<'_>) -> Option<PatternPart> {
    let mut reader = PatternReader {
        rest: pattern,
        cut,
        folds: false,
    };
    let part = reader.alternatives()?;
    // An empty match depends on the match before it.
    (reader.rest.is_empty() && !part.empty).then_some(part)
}

/// Reads an expression in Oniguruma's default syntax (Ruby's).
struct PatternReader<'a> {
    rest: &'a str,
    cut: LocalCut<'a>,
    /// Whether case is folded here.
    folds: bool,
}

impl PatternReader<'_> {
    fn skip_prefix(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn alternatives(&mut self) -> Option<PatternPart> {
        let mut all = self.sequence()?;
        while self.skip_prefix("|") {
            all = all.or(self.sequence()?);
        }
        Some(all)
    }

    fn sequence(&mut self) -> Option<PatternPart> {
        let mut all = PatternPart::NOTHING;
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let item = self.item()?;
            all = all.followed_by(self.repeated(item)?)?;
        }
        Some(all)
    }

    /// A group, an anchor, or a step that takes a character.
    fn item(&mut self) -> Option<PatternPart> {
        for (anchor, part) in [
            ("^", PatternPart::LOOK_BACK),
            ("$", PatternPart::LOOK_AT_END),
            (r"\A", PatternPart::LOOK_BACK),
            (r"\G", PatternPart::LOOK_BACK),
            (r"\b", PatternPart::LOOK_BACK),
            (r"\B", PatternPart::LOOK_BACK),
            (r"\z", PatternPart::LOOK_AT_END),
            (r"\Z", PatternPart::LOOK_AT_END),
        ] {
            if self.skip_prefix(anchor) {
                return Some(part);
            }
        }
        if self.skip_prefix("(") {
            return self.group();
        }
        let length = step(self.rest)?;
        let (step, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.step_properties(step)
    }

    fn group(&mut self) -> Option<PatternPart> {
        let folded = self.folds;
        let looks_ahead = self.skip_prefix("?=") || self.skip_prefix("?!");
        if !looks_ahead {
            if self.skip_prefix("?i:") {
                self.folds = true;
            } else if !self.skip_prefix("?:")
                && !self.skip_prefix("?>")
                && self.rest.starts_with(['?', '*'])
            {
                return None;
            }
        }
        let part = self.alternatives()?;
        self.folds = folded;
        if !self.skip_prefix(")") {
            return None;
        }
        Some(match looks_ahead {
            true => PatternPart {
                empty: true,
                ends_at_letter: false,
                ..part
            },
            false => part,
        })
    }

    /// `part` under the quantifiers that follow.
    fn repeated(&mut self, mut part: PatternPart) -> Option<PatternPart> {
        loop {
            let least = if self.skip_prefix("?") {
                part.empty = true;
                self.skip_quantifier_suffix();
                continue;
            } else if self.skip_prefix("*") {
                self.skip_quantifier_suffix();
                0
            } else if self.skip_prefix("+") {
                self.skip_quantifier_suffix();
                1
            } else if self.rest.starts_with('{') {
                // {n}, {n,}, {n,m} or {,m}
                let (bounds, rest) = self.rest[1..].split_once('}')?;
                let is_digit = |byte: u8| byte.is_ascii_digit();
                let commas = bounds.bytes().filter(|&byte| byte == b',').count();
                let others = bounds.bytes().filter(|&byte| !is_digit(byte)).count();
                if !bounds.bytes().any(is_digit) || commas > 1 || others > commas {
                    return None;
                }
                self.rest = rest;
                let least = bounds.split(',').next().unwrap_or_default();
                least.parse().unwrap_or(0_u32)
            } else {
                return Some(part);
            };
            part = part.followed_by(part)?;
            part.empty |= least == 0;
        }
    }

    /// Behind a sign: whether it is lazy or possessive, which makes other matches of the same steps. (Behind an interval
    /// these are quantifiers of their own.)
    fn skip_quantifier_suffix(&mut self) {
        let _ = self.skip_prefix("?") || self.skip_prefix("+");
    }

    /// The properties of a step, by the engine's matches of it.
    fn step_properties(&self, step: &str) -> Option<PatternPart> {
        let flag = if self.folds { "i" } else { "" };
        let regex = SysRegex::new(&format!("(?{flag}:{step})")).ok()?;
        let finds = |text: &str| regex.find_iter(text).next().is_some();
        let letters = finds(self.cut.letters);
        Some(PatternPart {
            empty: false,
            begins_at_mark: finds(self.cut.mark.encode_utf8(&mut [0; 4])),
            ends_at_letter: letters,
            letters,
        })
    }
}

/// How many bytes of `text` make the step that takes one character (or one end of a line) at its beginning.
fn step(text: &str) -> Option<usize> {
    let mut characters = text.char_indices();
    let (_, first) = characters.next()?;
    match first {
        '[' => class(text),
        '\\' => {
            let (_, second) = characters.next()?;
            match second {
                'p' | 'P' if text[2..].starts_with('{') => text.find('}').map(|end| end + 1),
                's' | 'S' | 'd' | 'D' | 'w' | 'W' | 'h' | 'H' | 'r' | 'n' | 't' | 'f' | 'v'
                | 'R' => Some(2),
                _ if second.is_ascii_punctuation() || second == ' ' => Some(2),
                _ => None,
            }
        }
        '*' | '+' | '?' | '{' | ')' | '|' => None,
        _ => Some(first.len_utf8()),
    }
}

/// How many bytes the character class at the beginning of `text` has, with those inside it.
fn class(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut characters = text.char_indices().peekable();
    // A bracket that closes, right behind one that opens, stands for itself.
    let mut is_first = false;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next()?;
            }
            '[' => {
                depth += 1;
                characters.next_if(|(_, next)| *next == '^');
                is_first = true;
                continue;
            }
            ']' if is_first => return None,
            ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        is_first = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(mark: char) -> LocalCut<'static> {
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZéÉßжЖ東京アの한국";
        LocalCut { mark, letters }
    }

    #[test]
    fn expressions_whose_matches_end_at_the_cut_are_local() {
        for pattern in [
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
            r"\d{1,3}(?=(?:\d{3})*\b)",
            r"\p{Nd}{1,510}(?=(?>\p{Nd}{510})*(?:\P{Nd}|$))|\G\p{Nd}{510}",
            r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)",
            r"\A\p{Nd}{3}|\G\p{Nd}{3}",
            r" ?[^(\s|[.,!?…。，、।۔،])]+",
            r"[\p{Ll}&&[^\p{Han}]]+",
            r"[!-/:-@\[-`{-~]",
            r"\R",
            r"\s{2,}|[\n\r\t]",
            r"(?:\r?\n)+(?!\r?\n)",
        ] {
            assert!(is_local(pattern, cut(' ')), "{pattern}");
        }
    }

    #[test]
    fn expressions_that_look_across_the_cut_are_not() {
        for pattern in [
            r"[^\n]+|\n+",
            r".{1,3}",
            r"\p{L}+\s",
            r"\p{L}+(?: \p{L}+)?",
            r"\p{L}+(?=\s)",
            r"\p{L}+(?!\s)",
            r"\p{L}+$|\p{L}",
            r"\p{L}+\z|\p{L}",
            r"\b\s\p{L}+|\p{L}+",
            r"^\s|\S+",
            r"\A\s|\S+",
            r"(?<=x) y|\S+",
            r"(?<!x) y|\S+",
            r"\p{L}+(?=.*z)",
            r"\p{L}*",
            r"(?=(\d{3})+(?!\d))",
            r"(?<name>a)",
            r"(a) \1",
            r"(?i)a",
            r"(?~ab)",
            r"\p{L}+\K ",
            r"\X",
            r"(?:\s\p{L}){1,3}+",
            r"(?:\s\p{L})++",
            r"a{x",
            r"a)",
            r"(a",
        ] {
            assert!(!is_local(pattern, cut(' ')), "{pattern}");
        }
        // A blank is no line feed.
        assert!(is_local(r"[^\n]+|\n+", cut('\n')));
        assert!(!is_local(r"\p{L}+\s*", cut('\n')));
    }

    #[test]
    fn letters_are_seen_wherever_an_expression_looks_at_them() {
        assert!(is_local_without_letters(r"\s{2,}|[\n\r\t]", cut(' ')));
        assert!(is_local_without_letters(" {2,}", cut(' ')));
        for pattern in [r"\s(?=[a-m])", r"\s(?!(?i:ſ))", "(?i:ß)", "京"] {
            assert!(is_local(pattern, cut(' ')), "{pattern}");
            assert!(!is_local_without_letters(pattern, cut(' ')), "{pattern}");
        }
    }
}
