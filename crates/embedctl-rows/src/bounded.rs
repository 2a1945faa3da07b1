//! A tokenizer's steps before its model, each within the budget of the text: normalizers that grow it, and regular
//! expressions that are slow on it, are programs of the repository's. The steps are the tokenizers crate's own, but for
//! the search of regular expressions, which the crate can neither limit nor stop.

use onig::{MatchParam, Regex, Region, SearchOptions};
use tokenizers::normalizers::{NormalizerWrapper, Replace};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::tokenizer::pattern::{Invert, Pattern};
use tokenizers::{
    AddedToken, Encoding, Model as _, NormalizedString, Normalizer, OffsetReferential, OffsetType,
    Offsets, PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior, Tokenizer,
};

use crate::budget::TextBudget;
use embedctl_common::threads::foreign;

/// Bytes that may be compared from one place by an expression that compares parts of a text with others of any length
/// (`(a*)\1`): seconds.
const BYTES_COMPARED: usize = 128 << 20;

/// Attempts from one place by Oniguruma's own limit.
const MOST_ATTEMPTS: usize = 10_000_000;

/// Attempts of one search, from all places, for each second of a text's time: some of the 20 to 50 million that Oniguruma
/// makes in a second.
const ATTEMPTS_PER_SECOND: f64 = 2e7;

/// Bytes that one search may compare for each second of a text's time by an expression that compares parts; and attempts
/// from each place on average that it may make in any case, as `(\w)\1` does.
const BYTES_PER_SECOND: f64 = 256e6;
const ATTEMPTS_PER_PLACE: usize = 16;

/// The steps of a tokenizer.
#[derive(Debug)]
pub struct BoundedSteps {
    /// None where the tokenizer has no normalizer.
    normalizer: Option<Vec<NormalStep>>,
    splits: Vec<SplitStep>,
}

/// A step of a normalizer.
#[derive(Debug)]
enum NormalStep {
    Replace(Expression, String),
    /// Anything else, and the bytes it adds whatever the text is.
    Other(NormalizerWrapper, usize),
}

/// A step of a pre-tokenizer.
#[derive(Debug)]
enum SplitStep {
    Split(Expression, SplitDelimiterBehavior, bool),
    /// It writes characters as longer ones: for the second one the bytes are counted.
    Grows(PreTokenizerWrapper),
    Other(PreTokenizerWrapper),
}

impl BoundedSteps {
    /// The steps of `tokenizer`.
    ///
    /// # Errors
    /// If an expression cannot be compiled, which the crate has done before.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, String> {
        let normalizer = tokenizer.get_normalizer();
        let mut splits = Vec::new();
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            push_splits(pre_tokenizer, &mut splits)?;
        }
        Ok(Self {
            normalizer: normalizer.map(normal_steps).transpose()?,
            splits,
        })
    }

    /// The tokens of `text`, special ones not added, with their places in units of `places`.
    ///
    /// # Errors
    /// If the tokenizer fails on the text, panics, or goes beyond the budget.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        places: OffsetType,
        budget: &TextBudget,
    ) -> Result<Encoding, String> {
        foreign(|| {
            let bounded = self.normalizer(budget);
            let added = tokenizer.get_added_vocabulary();
            let mut split = added.extract_and_normalize(bounded.as_ref(), text);
            // The crate drops a normalizer's error.
            budget.check()?;
            self.split(&mut split, budget)?;
            let tokens = (tokenizer
                .get_model()
                .tokenize_in_pretokenized(&mut split, None))
            .and_then(|()| split.into_encoding(None, 0, places))
            .and_then(|tokens| tokenizer.post_process(tokens, None, false));
            tokens.map_err(|error| error.to_string())
        })?
    }

    /// The normalizer within a budget.
    fn normalizer<'a>(&'a self, budget: &'a TextBudget) -> Option<BoundedNormalizer<'a>> {
        let steps = self.normalizer.as_deref()?;
        Some(BoundedNormalizer { steps, budget })
    }

    /// Normalizes a text.
    ///
    /// # Errors
    /// If the normalizer fails on it, or goes beyond the budget.
    pub(crate) fn normalize(&self, text: &mut NormalizedString) -> Result<(), String> {
        let budget = TextBudget::of(text.get().len());
        let normalizer = self.normalizer(&budget);
        let normalized = normalizer.map_or(Ok(()), |one| one.normalize(text));
        normalized.map_err(|error| error.to_string())
    }

    /// Whether the tokenizer has a pre-tokenizer.
    pub(crate) fn has_splits(&self) -> bool {
        !self.splits.is_empty()
    }

    /// Splits a normalized text as the pre-tokenizer does.
    ///
    /// # Errors
    /// If the pre-tokenizer fails on it, or goes beyond the budget.
    pub(crate) fn pre_tokenize(
        &self,
        text: NormalizedString,
    ) -> Result<PreTokenizedString, String> {
        let budget = TextBudget::of(text.get().len());
        let mut split = PreTokenizedString::from(text);
        self.split(&mut split, &budget)?;
        Ok(split)
    }

    fn split(&self, text: &mut PreTokenizedString, budget: &TextBudget) -> Result<(), String> {
        let mut has_grown = false;
        for step in &self.splits {
            let done = match step {
                SplitStep::Split(expression, behavior, inverted) => {
                    let matches = || Matches {
                        expression,
                        content: 0,
                        budget,
                    };
                    text.split(|_, part| match inverted {
                        true => part.split(Invert(matches()), *behavior),
                        false => part.split(matches(), *behavior),
                    })
                }
                SplitStep::Grows(one) | SplitStep::Other(one) => one.pre_tokenize(text),
            };
            done.map_err(|error| error.to_string())?;
            if matches!(step, SplitStep::Grows(_)) {
                if has_grown {
                    let parts = text.get_splits(OffsetReferential::Normalized, OffsetType::None);
                    budget.check_bytes(parts.iter().map(|(part, ..)| part.len()).sum())?;
                }
                has_grown = true;
            }
        }
        Ok(())
    }
}

/// Checks that a normalizer keeps within the budget on the contents of added tokens: the crate normalizes them where it
/// reads a tokenizer.
///
/// # Errors
/// If it does not.
pub(crate) fn check_added(
    normalizer: &NormalizerWrapper,
    added: &[AddedToken],
) -> Result<(), String> {
    let steps = normal_steps(normalizer)?;
    let normalized = || added.iter().filter(|token| token.normalized);
    let budget = TextBudget::of(normalized().map(|token| token.content.len()).sum());
    let normalizer = BoundedNormalizer {
        steps: &steps,
        budget: &budget,
    };
    normalized().try_for_each(|token| {
        let mut text = NormalizedString::from(token.content.as_str());
        let done = foreign(|| normalizer.normalize(&mut text))?;
        done.map_err(|error| error.to_string())
    })
}

/// The steps of a normalizer, one after another.
fn normal_steps(normalizer: &NormalizerWrapper) -> Result<Vec<NormalStep>, String> {
    let mut steps = Vec::new();
    push_normal(normalizer, &mut steps)?;
    Ok(steps)
}

fn push_normal(normalizer: &NormalizerWrapper, steps: &mut Vec<NormalStep>) -> Result<(), String> {
    match normalizer {
        NormalizerWrapper::Sequence(all) => {
            return all
                .as_ref()
                .iter()
                .try_for_each(|one| push_normal(one, steps));
        }
        NormalizerWrapper::Replace(replace) => {
            let expression = Expression::replaced(replace)?;
            steps.push(NormalStep::Replace(expression, replace.content.clone()));
        }
        NormalizerWrapper::Prepend(one) => {
            steps.push(NormalStep::Other(normalizer.clone(), one.prepend.len()));
        }
        other => steps.push(NormalStep::Other(other.clone(), 0)),
    }
    Ok(())
}

fn push_splits(
    pre_tokenizer: &PreTokenizerWrapper,
    steps: &mut Vec<SplitStep>,
) -> Result<(), String> {
    match pre_tokenizer {
        PreTokenizerWrapper::Sequence(all) => {
            return all
                .as_ref()
                .iter()
                .try_for_each(|one| push_splits(one, steps));
        }
        PreTokenizerWrapper::Split(split) => {
            let expression = match &split.pattern {
                SplitPattern::String(text) => Expression::of(&regex::escape(text))?,
                SplitPattern::Regex(regex) => Expression::of(regex)?,
            };
            steps.push(SplitStep::Split(expression, split.behavior, split.invert));
        }
        grows @ (PreTokenizerWrapper::ByteLevel(_) | PreTokenizerWrapper::Metaspace(_)) => {
            steps.push(SplitStep::Grows(grows.clone()));
        }
        other => steps.push(SplitStep::Other(other.clone())),
    }
    Ok(())
}

/// A normalizer within the budget of a text.
struct BoundedNormalizer<'a> {
    steps: &'a [NormalStep],
    budget: &'a TextBudget,
}

impl Normalizer for BoundedNormalizer<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        let budget = self.budget;
        let done = (self.steps.iter()).try_for_each(|step| {
            match step {
                NormalStep::Replace(expression, content) => {
                    let matches = Matches {
                        expression,
                        content: content.len(),
                        budget,
                    };
                    text.replace(matches, content)?;
                }
                NormalStep::Other(one, added) => {
                    budget.check_bytes(text.get().len() + added)?;
                    one.normalize(text)?;
                }
            }
            Ok(budget.check_bytes(text.get().len())?)
        });
        let done = done.and_then(|()| Ok(budget.take_bytes(text.get().len())?));
        done.inspect_err(|error: &tokenizers::Error| budget.give_up(error.to_string()))
    }
}

/// A regular expression.
#[derive(Debug)]
struct Expression {
    regex: Regex,
    /// Whether it compares parts of a text with others.
    compares: bool,
}

impl Expression {
    fn of(expression: &str) -> Result<Self, String> {
        Ok(Self {
            compares: compares_long_parts(expression),
            regex: Regex::new(expression).map_err(|error| error.to_string())?,
        })
    }

    /// What `replace` replaces. The crate shows it only in its serialized form.
    fn replaced(replace: &Replace) -> Result<Self, String> {
        let written = serde_json::to_value(replace).map_err(|error| error.to_string())?;
        let pattern = &written["pattern"];
        match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
            (Some(text), _) => Self::of(&regex::escape(text)),
            (_, Some(regex)) => Self::of(regex),
            _ => Err("has a pattern of an unknown kind".into()),
        }
    }

    /// The first match in `text` that begins at `from` or later: its ends.
    fn search(
        &self,
        text: &str,
        from: usize,
        region: &mut Region,
        budget: &TextBudget,
    ) -> Result<Option<Offsets>, String> {
        budget.check_time()?;
        let bytes = text.len().max(1);
        // A run of blanks takes an attempt for each of them, so others have the library's own limit.
        let attempts = match self.compares {
            true => BYTES_COMPARED / bytes,
            false => MOST_ATTEMPTS,
        };
        let attempts = attempts.clamp(1, MOST_ATTEMPTS);
        let mut limits = MatchParam::default();
        limits.set_retry_limit_in_match(u32::try_from(attempts).unwrap_or(u32::MAX));
        let of_time = (budget.seconds() * ATTEMPTS_PER_SECOND) as usize;
        let of_search = match self.compares {
            true => {
                let compared = (budget.seconds() * BYTES_PER_SECOND) as usize / bytes;
                of_time.min(compared.max(bytes.saturating_mul(ATTEMPTS_PER_PLACE)))
            }
            false => of_time,
        };
        let of_search = u32::try_from(of_search.max(1)).unwrap_or(u32::MAX);
        // SAFETY: the parameters live until the end of this function, and the call sets one of their numbers.
        unsafe {
            onig_sys::onig_set_retry_limit_in_search_of_match_param(
                limits.as_raw(),
                of_search.into(),
            );
        }
        region.clear();
        let options = SearchOptions::SEARCH_OPTION_NONE;
        // A match ends where the range of a search does, so a search cannot be done in parts.
        let found =
            (self.regex).search_with_param(text, from, text.len(), options, Some(region), limits);
        match found.map_err(|error| format!("a regular expression fails: {error}"))? {
            Some(_) => Ok(region.pos(0)),
            None => Ok(None),
        }
    }
}

/// Whether `expression` refers back to a part of a text of any length: to a group by its number, or to a named one that
/// repeats anything. Groups like `(?<quote>['"])` are compared as fast as characters.
fn compares_long_parts(expression: &str) -> bool {
    let mut characters = expression.char_indices();
    while let Some((_, one)) = characters.next() {
        if one != '\\' {
            continue;
        }
        match characters.next() {
            Some((_, '1'..='9')) => return true,
            Some((at, 'k')) => {
                let name = expression[at + 1..].strip_prefix('<');
                let name = name.and_then(|rest| Some(rest.split_once('>')?.0));
                let group = name.and_then(|name| {
                    let (_, group) = expression.split_once(&format!("(?<{name}>"))?;
                    Some(group.split_once(')')?.0)
                });
                let is_short = group.is_some_and(|group| !group.contains(['*', '+', '{', '(']));
                if !is_short {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The matches of an expression, each of which becomes `content` bytes.
struct Matches<'a> {
    expression: &'a Expression,
    content: usize,
    budget: &'a TextBudget,
}

impl Pattern for Matches<'_> {
    // As the crate's own for its regular expressions.
    fn find_matches(&self, text: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if text.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut parts, mut region) = (Vec::new(), Region::new());
        let (mut from, mut end, mut last) = (0, 0, None);
        let mut grown = text.len();
        while from <= text.len() {
            let found = (self.expression).search(text, from, &mut region, self.budget)?;
            let Some((start, stop)) = found else {
                break;
            };
            // An empty match behind another one is none.
            if start == stop && last == Some(stop) {
                from += text[from..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            (from, last) = (stop, Some(stop));
            if end != start {
                parts.push(((end, start), false));
            }
            parts.push(((start, stop), true));
            end = stop;
            if self.content > 0 {
                grown = grown + self.content - (stop - start);
                self.budget.check_bytes(grown)?;
            }
        }
        if end != text.len() {
            parts.push(((end, text.len()), false));
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tokenizer of single characters with this normalizer and pre-tokenizer.
    fn tokenizer(normalizer: &str, pre_tokenizer: &str) -> Tokenizer {
        let file = format!(
            r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": {normalizer},
                 "pre_tokenizer": {pre_tokenizer}, "post_processor": null, "decoder": null,
                 "model": {{"type": "WordLevel", "vocab": {{"a": 0, "b": 1, "[UNK]": 2}}, "unk_token": "[UNK]"}}}}"#
        );
        file.parse().unwrap()
    }

    fn encode(tokenizer: &Tokenizer, text: &str, budget: &TextBudget) -> Result<Encoding, String> {
        BoundedSteps::of(tokenizer)
            .unwrap()
            .encode(tokenizer, text, OffsetType::Byte, budget)
    }

    fn replace(pattern: &str, content: &str) -> String {
        serde_json::json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": content})
            .to_string()
    }

    fn sequence(normalizers: &[String]) -> String {
        format!(
            r#"{{"type": "Sequence", "normalizers": [{}]}}"#,
            normalizers.join(", ")
        )
    }

    #[test]
    fn normalizers_that_grow_a_text_are_refused_before_they_do() {
        let long = "x".repeat(1 << 20);
        let grow = replace("a", &"a".repeat(100));
        let prepend = serde_json::json!({"type": "Prepend", "prepend": long}).to_string();
        for normalizer in [
            replace("", &long),
            sequence(&vec![grow; 6]),
            sequence(&vec![prepend; 50]),
        ] {
            let tokenizer = tokenizer(&normalizer, "null");
            let error = encode(&tokenizer, &"a".repeat(1000), &TextBudget::of(1000)).unwrap_err();
            assert!(error.contains("the limit of memory"), "{error}");
        }
        let bytes = r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}"#;
        let all = vec![bytes; 40].join(", ");
        let tokenizer = tokenizer(
            "null",
            &format!(r#"{{"type": "Sequence", "pretokenizers": [{all}]}}"#),
        );
        let error = encode(&tokenizer, &"\u{e9}".repeat(1000), &TextBudget::of(2000)).unwrap_err();
        assert!(error.contains("the limit of memory"), "{error}");
    }

    /// An added token is normalized where the file is read.
    #[test]
    fn added_tokens_are_within_the_budget() {
        let grow = sequence(&vec![replace("a", &"a".repeat(100)); 6]);
        let grow: NormalizerWrapper = serde_json::from_str(&grow).unwrap();
        let tokens = [AddedToken::from("<a>", false)];
        assert!(check_added(&grow, &tokens).is_err());
        assert!(check_added(&grow, &tokens.map(|token| token.normalized(false))).is_ok());
    }

    #[test]
    fn a_slow_expression_ends_with_the_time_of_its_text() {
        let short = TextBudget::of_time(std::time::Duration::from_millis(50));
        let split = |regex: &str| {
            let pattern = serde_json::json!({"Regex": regex});
            format!(
                r#"{{"type": "Split", "pattern": {pattern}, "behavior": "Isolated", "invert": false}}"#
            )
        };
        // None of them can be told from a character that the text lacks.
        let text = format!("{}xc", "a".repeat(20_000));
        for expression in [r"(a*)\1c", r"(?=(a*x))[ax](?![ax])"] {
            let tokenizer = tokenizer("null", &split(expression));
            let error = encode(&tokenizer, &text, &short).unwrap_err();
            assert!(error.contains("limit"), "{expression}: {error}");
        }
    }

    /// One search, slow from each of many places: time is looked at before it and after it alone.
    #[test]
    fn a_single_search_ends_with_the_time_of_its_text() {
        let short = TextBudget::of_time(std::time::Duration::from_millis(50));
        let text = format!("{}xc", "a".repeat(2_000));
        let tokenizer = tokenizer(&replace("a*a*c", "b"), "null");
        let error = encode(&tokenizer, &text, &short).unwrap_err();
        assert!(error.contains("retry-limit-in-search"), "{error}");
    }

    /// Every kind of match and of text, as the crate itself splits it.
    #[test]
    fn matches_are_those_of_the_crate() {
        let texts = [
            String::new(),
            "a".into(),
            "ab ba  aab\nb ".into(),
            "\u{e9}a\u{6771} b".into(),
            format!("{}b{}", "a".repeat(700), " ".repeat(700)),
            "ab".repeat(400),
            format!("{}\u{6771}{}", "x".repeat(255), "y".repeat(257)),
        ];
        for expression in [
            "",
            "a*",
            "a",
            "b?",
            r"\s+(?!\S)|\s+",
            r"^a|b$",
            r"(a)\1",
            "a|",
            r"\G.",
            ".*",
            "\u{6771}",
            r"(?<=x)y",
            "a*?",
        ] {
            for inverted in [false, true] {
                for behavior in ["Removed", "Isolated", "MergedWithNext"] {
                    let pattern = serde_json::json!({"Regex": expression});
                    let split = format!(
                        r#"{{"type": "Split", "pattern": {pattern}, "behavior": "{behavior}", "invert": {inverted}}}"#
                    );
                    let normalizer = replace(expression, "ab");
                    for tokenizer in [tokenizer("null", &split), tokenizer(&normalizer, &split)] {
                        for text in &texts {
                            let own = encode(&tokenizer, text, &TextBudget::of(1 << 20)).unwrap();
                            let crates = tokenizer.encode(text.as_str(), false).unwrap();
                            assert!(own == crates, "{expression:?} {behavior} {text:?}");
                        }
                    }
                }
            }
        }
    }
}
