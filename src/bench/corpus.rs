//! Built-in texts to measure on: sentences put together from parts, so that there are as many different
//! ones as a sample needs, the same on every machine.
//!
//! A text's length follows a distribution by its number alone, in an order that covers the whole
//! distribution again and again: a sample of 64 texts has nearly the same lengths as one of 64,000, so
//! that rates of samples of different sizes can be compared. No two texts of a corpus are equal.

use std::sync::LazyLock;

use crate::named::named;

/// How many different texts a corpus has.
pub const TEXTS: usize = 65_536;

/// Parts of sentences, written for this project: who, did what, when or where, and why. Any goes with any others, and
/// each combination is a sentence of its own.
static PARTS: LazyLock<[Vec<&str>; 4]> = LazyLock::new(|| parts(include_str!("phrases.txt")));

/// Parts of each kind.
const EACH: usize = 48;

named! {
    /// A built-in corpus.
    pub enum Corpus("corpus", "choose one of") {
        /// Single sentences, as titles, questions and glosses are.
        Short = "short",
        /// Paragraphs.
        Long = "long",
        /// Mostly short, some paragraphs, a few long ones, as real collections are.
        Mixed = "mixed",
    }
}

impl Corpus {
    /// Quantiles of the number of words of a text: between two of them lengths are spread evenly.
    fn words(self) -> &'static [(f64, f64)] {
        match self {
            Self::Short => &[(0.0, 9.0), (0.7, 14.0), (0.95, 21.0), (1.0, 30.0)],
            Self::Long => &[
                (0.0, 80.0),
                (0.3, 120.0),
                (0.8, 210.0),
                (0.95, 300.0),
                (1.0, 400.0),
            ],
            Self::Mixed => &[
                (0.0, 9.0),
                (0.5, 16.0),
                (0.8, 70.0),
                (0.95, 180.0),
                (1.0, 360.0),
            ],
        }
    }

    /// Text number `index`, below [`TEXTS`].
    #[must_use]
    pub fn text(self, index: usize) -> String {
        let mut random = CorpusRandom::new(index as u64);
        let words = quantile(self.words(), spread(index));
        let mut text = first(index, words);
        // Whole sentences until the next would lead further away from the length than it is now.
        loop {
            let next = random.sentence();
            let (now, then) = (count(&text), count(&next));
            if now + then / 2 >= words as usize {
                return text;
            }
            text.push(' ');
            text.push_str(&next);
        }
    }
}

/// Four blocks of lines with empty ones between; lines may end as Windows has them.
fn parts(text: &str) -> [Vec<&str>; 4] {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = lines.split(|line| line.is_empty());
    [(); 4].map(|()| blocks.next().unwrap_or_default().to_vec())
}

fn count(text: &str) -> usize {
    text.split(' ').count()
}

/// The first sentence, different for every `index`: subject, deed and time are the digits of a number that
/// runs through all combinations, in an order that looks random.
fn first(index: usize, words: f64) -> String {
    const ALL: usize = EACH * EACH * EACH;
    const STEP: usize = 61_843; // has no factor in common with ALL
    const { assert!(TEXTS <= ALL) };
    let mut number = (index * STEP) % ALL;
    let [subjects, deeds, times, reasons] = &*PARTS;
    let [subject, deed, time] = [subjects, deeds, times].map(|parts| {
        let part = parts[number % EACH];
        number /= EACH;
        part
    });
    let mut sentence = format!("{subject} {deed} {time}");
    if words >= 17.0 {
        let reason = CorpusRandom::new(index as u64 ^ 0x5eed).pick(reasons);
        sentence = format!("{sentence}, {reason}");
    }
    sentence.push('.');
    sentence
}

/// The place of text `index` in the distribution, 0 to 1: multiples of the golden ratio, since any run of them is
/// spread evenly.
fn spread(index: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    (0.5 + index as f64 * GOLDEN).fract()
}

fn quantile(table: &[(f64, f64)], place: f64) -> f64 {
    let above = table.partition_point(|(share, _)| *share <= place);
    let (above, below) = (above.min(table.len() - 1), above.saturating_sub(1));
    let ((from, low), (to, high)) = (table[below], table[above]);
    if to > from {
        low + (high - low) * (place - from) / (to - from)
    } else {
        high
    }
}

/// A small generator of numbers (SplitMix64), so that texts are the same everywhere and for ever.
struct CorpusRandom(u64);

impl CorpusRandom {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    fn pick(&mut self, parts: &[&'static str]) -> &'static str {
        parts[self.below(parts.len())]
    }

    fn sentence(&mut self) -> String {
        let [subject, deed, time, reason] = PARTS.each_ref().map(|parts| self.pick(parts));
        match self.below(3) {
            0 => format!("{subject} {deed} {time}."),
            1 => format!("{subject} {deed}, {reason}."),
            _ => format!("{subject} {deed} {time}, {reason}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::model::{Model, ModelOptions, WeightsPreference};
    use crate::record::Texts;

    #[test]
    fn names_are_understood() {
        for corpus in Corpus::ALL {
            assert_eq!(corpus.name().parse(), Ok(corpus));
        }
        assert!(
            "medium"
                .parse::<Corpus>()
                .unwrap_err()
                .to_string()
                .contains("mixed")
        );
    }

    #[test]
    fn parts_are_as_many_however_lines_end() {
        let text = include_str!("phrases.txt");
        for text in [text, &text.replace('\n', "\r\n")] {
            assert_eq!(parts(text), *PARTS);
            assert!(parts(text).iter().all(|parts| parts.len() == EACH));
        }
    }

    /// Baselines of other machines and versions are comparable only if this never changes.
    #[test]
    fn texts_are_the_same_for_ever() {
        assert_eq!(
            Corpus::Short.text(0),
            "The night nurse repaired the old clock before the first snow."
        );
        let digest = |corpus: Corpus| {
            let mut hash = crate::hash::Hash::default();
            (0..500).for_each(|index| hash.add(corpus.text(index)));
            hash.hex()[..8].to_owned()
        };
        let digests = Corpus::ALL.map(digest);
        assert_eq!(digests, ["2da65759", "a7644d5d", "eecbdf66"]);
    }

    #[test]
    fn no_two_texts_are_equal() {
        for corpus in Corpus::ALL {
            // Texts with different beginnings are different.
            let count = if corpus == Corpus::Short { TEXTS } else { 4096 };
            let texts: HashSet<String> = (0..count).map(|index| corpus.text(index)).collect();
            assert_eq!(texts.len(), count, "{corpus}");
        }
    }

    fn lengths(corpus: Corpus, from: usize, count: usize) -> Vec<usize> {
        let options = ModelOptions {
            model: "fixtures/models/all-MiniLM-L6-v2".into(),
            max_length: Some(512),
            ..ModelOptions::default()
        };
        let model = Model::open(&options, WeightsPreference::Onnx).unwrap();
        let tokenizer = model.text_tokenizer(1).unwrap();
        let texts: Texts = (from..from + count)
            .map(|index| corpus.text(index))
            .collect();
        let tokens = tokenizer.tokenize(&texts);
        let mut lengths: Vec<usize> = (0..count).map(|row| tokens.get(row).len()).collect();
        lengths.sort_unstable();
        lengths
    }

    fn mean(lengths: &[usize]) -> f64 {
        lengths.iter().sum::<usize>() as f64 / lengths.len() as f64
    }

    /// The texts of the command's help and the README.
    #[test]
    fn lengths_are_as_documented() {
        for (corpus, documented) in [
            (Corpus::Short, (19.7, 19, 29)),
            (Corpus::Long, (190.0, 176, 344)),
            (Corpus::Mixed, (60.0, 23, 210)),
        ] {
            let lengths = lengths(corpus, 0, 1024);
            let measured = (mean(&lengths), lengths[512], lengths[972]);
            assert!(
                (measured.0 / documented.0 - 1.0).abs() < 0.05,
                "{corpus} {measured:?}"
            );
            assert!(
                measured.1.abs_diff(documented.1) * 10 <= documented.1,
                "{corpus} {measured:?}"
            );
            assert!(
                measured.2.abs_diff(documented.2) * 10 <= documented.2,
                "{corpus} {measured:?}"
            );
        }
    }

    #[test]
    fn a_small_sample_is_as_long_as_a_large_one() {
        for corpus in Corpus::ALL {
            let all = mean(&lengths(corpus, 0, 2048));
            for count in [64, 256] {
                let few = mean(&lengths(corpus, 0, count));
                assert!((few / all - 1.0).abs() < 0.03, "{corpus}: {few} {all}");
            }
        }
    }
}
