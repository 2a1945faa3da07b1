//! `WordPiece` behind BERT's normalizer and pre-tokenizer, in one pass over the text.
//!
//! The tokenizers crate keeps, for every byte, where it came from; nobody here asks. Without that, and
//! without a string per word, the same ids cost less than a tenth of the time. This is the same function and no
//! second opinion: what a character becomes is learnt from the crate's own normalizer and pre-tokenizer,
//! one character at a time, which is enough because both treat characters without regard to their
//! neighbours. Where that does not hold (marks that trade places, tokens that were added to the
//! vocabulary), the text is left to the crate.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    Model as _, NormalizedString, Normalizer as _, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer as _, Tokenizer,
};

/// Characters whose meaning is learnt together.
const BLOCK: usize = 256;

/// A tokenizer of BERT's kind.
pub(super) struct Bert {
    tokenizer: Arc<Tokenizer>,
    whole: Pieces,
    continuing: Pieces,
    unknown: u32,
    /// A word of more characters is unknown.
    most_chars: usize,
    /// Whether marks are stripped, for which characters are decomposed and marks put into order.
    decomposes: bool,
    /// Tokens that were added to the vocabulary and are looked for in the text as it stands.
    added: Vec<String>,
    ascii: [Ascii; 128],
    blocks: Box<[OnceLock<Block>]>,
}

/// Working memory, kept from text to text.
#[derive(Default)]
pub(super) struct Scratch {
    word: Vec<u8>,
    /// Characters of the word, those beyond the limit counted though not kept.
    chars: usize,
    /// The text's ids.
    pub(super) ids: Vec<u32>,
}

/// Entries of the vocabulary: all of them, for a word's start, or those that continue a word.
#[derive(Default)]
struct Pieces {
    ids: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    longest: usize,
}

impl Pieces {
    fn insert(&mut self, piece: &str, id: u32) {
        self.longest = self.longest.max(piece.len());
        self.ids.insert(piece.as_bytes().into(), id);
    }

    /// The longest entry that `text` starts with: its length and id.
    fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        // A length that ends within a character finds nothing: entries are whole characters.
        let longest = self.longest.min(text.len());
        (1..=longest)
            .rev()
            .find_map(|length| Some((length, *self.ids.get(&text[..length])?)))
    }
}

/// What becomes of one character of the normalizer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Ends a word and is gone.
    Break,
    /// Is a word of its own.
    Alone,
    /// Is part of a word.
    Letter,
}

/// One character of the normalizer's output.
#[derive(Debug, Clone, Copy)]
struct Piece {
    class: Class,
    bytes: [u8; 4],
    length: u8,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What becomes of one character of the text.
#[derive(Debug, Clone, Default)]
struct Fold {
    /// `None`: it depends on its neighbours.
    pieces: Option<Box<[Piece]>>,
    /// Whether an added token begins with it.
    begins_added: bool,
}

type Block = Box<[Fold]>;

/// The same for the characters that most texts consist of.
#[derive(Debug, Clone, Copy)]
enum Ascii {
    Nothing,
    Break,
    Alone(u8),
    Letter(u8),
    /// Look among the others.
    Other,
}

impl std::fmt::Debug for Bert {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Bert")
            .field("vocabulary", &self.whole.ids.len())
            .finish_non_exhaustive()
    }
}

impl Bert {
    /// The fast way for `tokenizer`, if it is of that kind.
    pub(super) fn new(tokenizer: &Arc<Tokenizer>) -> Option<Self> {
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else {
            return None;
        };
        if !matches!(
            tokenizer.get_pre_tokenizer(),
            Some(PreTokenizerWrapper::BertPreTokenizer(_))
        ) {
            return None;
        }
        let mut added = Vec::new();
        for token in tokenizer.get_added_tokens_decoder().into_values() {
            // These are looked for in the normalized text.
            if token.normalized {
                return None;
            }
            added.push(token.content);
        }
        let mut bert = Self {
            decomposes: decomposes(tokenizer.get_normalizer())?,
            tokenizer: Arc::clone(tokenizer),
            unknown: model.token_to_id(&model.unk_token)?,
            most_chars: model.max_input_chars_per_word,
            whole: Pieces::default(),
            continuing: Pieces::default(),
            added,
            ascii: [Ascii::Other; 128],
            blocks: (0..=(char::MAX as usize / BLOCK))
                .map(|_| OnceLock::new())
                .collect(),
        };
        bert.whole.ids.reserve(model.get_vocab_size());
        for (entry, id) in model.get_vocab() {
            bert.whole.insert(&entry, id);
            if let Some(continuing) = entry.strip_prefix(&model.continuing_subword_prefix) {
                bert.continuing.insert(continuing, id);
            }
        }
        for byte in 0..128_u8 {
            bert.ascii[usize::from(byte)] = ascii(bert.fold(char::from(byte)));
        }
        Some(bert)
    }

    /// Puts the ids of `text` into `scratch.ids`, special tokens not added: all of them, or the first
    /// `most` and at least one more. False where this text is beyond the fast way.
    pub(super) fn encode(&self, text: &str, most: usize, scratch: &mut Scratch) -> bool {
        scratch.ids.clear();
        scratch.word.clear();
        scratch.chars = 0;
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let class = self.ascii.get(usize::from(byte)).unwrap_or(&Ascii::Other);
            match *class {
                Ascii::Letter(letter) => {
                    self.letter(&[letter], scratch);
                    at += 1;
                    continue;
                }
                Ascii::Nothing => {
                    at += 1;
                    continue;
                }
                Ascii::Break => {
                    self.end_word(scratch);
                    at += 1;
                }
                Ascii::Alone(letter) => {
                    self.end_word(scratch);
                    self.letter(&[letter], scratch);
                    self.end_word(scratch);
                    at += 1;
                }
                Ascii::Other => {
                    let rest = &text[at..];
                    let c = rest.chars().next().expect("a character begins here");
                    at += c.len_utf8();
                    let fold = self.fold(c);
                    let begins =
                        fold.begins_added && self.added.iter().any(|token| rest.starts_with(token));
                    let (false, Some(pieces)) = (begins, &fold.pieces) else {
                        return false;
                    };
                    for piece in pieces {
                        if piece.class != Class::Letter {
                            self.end_word(scratch);
                        }
                        if piece.class != Class::Break {
                            self.letter(piece.bytes(), scratch);
                        }
                        if piece.class == Class::Alone {
                            self.end_word(scratch);
                        }
                    }
                }
            }
            if scratch.ids.len() > most {
                return true;
            }
        }
        self.end_word(scratch);
        true
    }

    fn letter(&self, bytes: &[u8], scratch: &mut Scratch) {
        if scratch.chars < self.most_chars {
            scratch.word.extend_from_slice(bytes);
        }
        scratch.chars += 1;
    }

    fn end_word(&self, scratch: &mut Scratch) {
        if scratch.chars == 0 {
            return;
        }
        if scratch.chars > self.most_chars {
            scratch.ids.push(self.unknown);
        } else {
            self.word(&scratch.word, &mut scratch.ids);
        }
        scratch.word.clear();
        scratch.chars = 0;
    }

    /// The longest entry first, then the longest that continues, and so on; unknown as a whole where
    /// that leads nowhere.
    fn word(&self, word: &[u8], ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut pieces = &self.whole;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((length, id)) = pieces.longest(rest) else {
                ids.truncate(before);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            rest = &rest[length..];
            pieces = &self.continuing;
        }
    }

    fn fold(&self, c: char) -> &Fold {
        let code = c as usize;
        let block = self.blocks[code / BLOCK].get_or_init(|| {
            let first = code - code % BLOCK;
            (first..first + BLOCK)
                .map(|code| {
                    u32::try_from(code)
                        .ok()
                        .and_then(char::from_u32)
                        .map_or_else(Fold::default, |c| self.learn(c))
                })
                .collect()
        });
        &block[code % BLOCK]
    }

    /// Asks the crate what becomes of a character.
    fn learn(&self, c: char) -> Fold {
        Fold {
            pieces: self.pieces(c),
            begins_added: self.added.iter().any(|token| token.starts_with(c)),
        }
    }

    fn pieces(&self, c: char) -> Option<Box<[Piece]>> {
        let mut normalized = NormalizedString::from(c.to_string());
        if let Some(normalizer) = self.tokenizer.get_normalizer() {
            normalizer.normalize(&mut normalized).ok()?;
        }
        normalized.get().chars().map(|c| self.piece(c)).collect()
    }

    fn piece(&self, c: char) -> Option<Piece> {
        if self.decomposes && trades_places(c) {
            return None;
        }
        let between = format!("a{c}a");
        let mut split = PreTokenizedString::from(between.as_str());
        self.tokenizer
            .get_pre_tokenizer()?
            .pre_tokenize(&mut split)
            .ok()?;
        let splits = split.get_splits(OffsetReferential::Normalized, OffsetType::None);
        let parts: Vec<&str> = splits.iter().map(|(part, ..)| *part).collect();
        let mut bytes = [0; 4];
        let own = &*c.encode_utf8(&mut bytes);
        let class = match parts[..] {
            [one] if one == between => Class::Letter,
            ["a", "a"] => Class::Break,
            ["a", middle, "a"] if middle == own => Class::Alone,
            _ => return None,
        };
        Some(Piece {
            class,
            length: u8::try_from(c.len_utf8()).expect("at most 4 bytes"),
            bytes,
        })
    }
}

fn ascii(fold: &Fold) -> Ascii {
    if fold.begins_added {
        return Ascii::Other;
    }
    match fold.pieces.as_deref() {
        Some([]) => Ascii::Nothing,
        Some([one]) => match (one.class, one.bytes()) {
            (Class::Break, _) => Ascii::Break,
            (Class::Alone, &[byte]) => Ascii::Alone(byte),
            (Class::Letter, &[byte]) => Ascii::Letter(byte),
            _ => Ascii::Other,
        },
        _ => Ascii::Other,
    }
}

/// Whether a normalizer decomposes characters; `None` for one that may look at neighbours.
fn decomposes(normalizer: Option<&NormalizerWrapper>) -> Option<bool> {
    let strips = |bert: &BertNormalizer| bert.strip_accents.unwrap_or(bert.lowercase);
    match normalizer {
        None | Some(NormalizerWrapper::Lowercase(_)) => Some(false),
        Some(NormalizerWrapper::BertNormalizer(bert)) => Some(strips(bert)),
        Some(NormalizerWrapper::Sequence(all)) => {
            let parts: Option<Vec<bool>> = all
                .as_ref()
                .iter()
                .map(|one| decomposes(Some(one)))
                .collect();
            Some(parts?.contains(&true))
        }
        Some(_) => None,
    }
}

/// Whether a character changes places with marks beside it when a text is decomposed: all but those of
/// combining class 0 do, with a mark of class 1 or of class 240.
fn trades_places(c: char) -> bool {
    const LOW: char = '\u{334}';
    const HIGH: char = '\u{345}';
    [[c, LOW], [HIGH, c]].into_iter().any(|pair| {
        let pair = String::from_iter(pair);
        let mut decomposed = NormalizedString::from(pair.as_str());
        decomposed.nfd();
        decomposed.get() != pair
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Model, ModelOptions};

    const REAL: &str = "fixtures/models/all-MiniLM-L6-v2";
    const CASED: &str = "fixtures/parity/tok-backend-class-keeps-case/model";

    fn tokenizer(folder: &str) -> Arc<Tokenizer> {
        let options = ModelOptions {
            model: folder.into(),
            ..ModelOptions::default()
        };
        Arc::clone(&Model::open(&options).unwrap().tokenizer)
    }

    /// One for all tests: learning characters takes its time.
    fn real() -> &'static Bert {
        static REAL_ONE: OnceLock<Bert> = OnceLock::new();
        REAL_ONE.get_or_init(|| Bert::new(&tokenizer(REAL)).unwrap())
    }

    fn expected(bert: &Bert, text: &str) -> Vec<u32> {
        let encoding = bert.tokenizer.encode_fast(text, false).unwrap();
        encoding.get_ids().to_vec()
    }

    /// Compares with the crate; whether the fast way went.
    fn same(bert: &Bert, text: &str) -> bool {
        let mut scratch = Scratch::default();
        if !bert.encode(text, usize::MAX, &mut scratch) {
            return false;
        }
        assert_eq!(scratch.ids, expected(bert, text), "{text:?}");
        true
    }

    #[test]
    fn texts_of_many_kinds_get_the_crates_ids() {
        let texts = [
            "",
            " ",
            "A cat sits on the mat.",
            "unaffable UNAFFABLE Unaffable's e-mail@example.com (1,234.50)",
            "Éléphant naïve Ångström Straße İstanbul ǅ ﬁnal \u{1d54f}",
            "e\u{301}le\u{301}phant\u{323}\u{301} a\u{30a}",
            "東京タワー と 大阪城、ソウル 서울특별시 各自",
            "Привет, мир! γειά σου Σίσυφος नमस्ते दुनिया สวัสดี مرحبا بالعالم",
            "zero\u{200b}width soft\u{ad}hyphen tab\there\u{0}null\u{fffd} line\u{2028}end\r\n",
            "“quotes” – dashes — ellipsis… • bullets\u{a0}nbsp № ½ ™ € ¿qué?",
            "\u{1f642}\u{1f469}\u{200d}\u{1f4bb} smile \u{1f3f4}\u{e0067}",
            "__init__(self, *args, **kwargs) -> None: # comment [0] {x!r}",
        ];
        for text in texts {
            assert!(same(real(), text), "{text:?}");
        }
        let cased = Bert::new(&tokenizer(CASED)).unwrap();
        assert!(!cased.decomposes);
        for text in texts {
            assert!(same(&cased, text), "{text:?}");
        }
    }

    #[test]
    fn every_character_becomes_what_the_crate_makes_of_it() {
        let characters: Vec<char> = ('\0'..=char::MAX).collect();
        let mut slow = 0;
        for some in characters.chunks(128) {
            // Within a word, at its ends, and alone.
            let text: String = some.iter().map(|c| format!("a{c}b {c} ")).collect();
            if !same(real(), &text) {
                slow += some
                    .iter()
                    .filter(|c| !same(real(), &format!("a{c}b {c} ")))
                    .count();
            }
        }
        // Brackets begin added tokens and go the fast way where none follows.
        assert!(slow < 500, "{slow} characters are left to the crate");
    }

    #[test]
    fn added_tokens_and_marks_that_trade_places_are_left_to_the_crate() {
        assert!(same(real(), "an array[0] is no [token]"));
        assert!(!same(real(), "a [MASK] is one"));
        assert!(!same(real(), "and so is[SEP]this"));
        assert!(!same(real(), "hangul tone \u{302e} mark"));
        assert!(trades_places('\u{301}') && trades_places('\u{334}') && trades_places('\u{345}'));
        assert!(!trades_places('a') && !trades_places('東') && !trades_places('\u{200d}'));
    }

    #[test]
    fn words_up_to_the_limit_are_looked_up_and_longer_ones_are_unknown() {
        for length in [99, 100, 101, 5000] {
            for letter in ["a", "é", "ж", "가"] {
                let text = format!("x {} y", letter.repeat(length));
                assert!(same(real(), &text), "{length} {letter}");
            }
        }
    }

    #[test]
    fn encoding_stops_soon_after_enough() {
        let text = "unaffable words and more, ".repeat(1000);
        let all = expected(real(), &text);
        let mut scratch = Scratch::default();
        for most in [0, 1, 5, 254] {
            assert!(real().encode(&text, most, &mut scratch));
            assert!(scratch.ids.len() > most && scratch.ids.len() < most + 20);
            assert_eq!(scratch.ids, all[..scratch.ids.len()]);
        }
    }

    #[test]
    fn other_kinds_of_tokenizers_are_left_to_the_crate() {
        for case in ["roberta-mean", "e5-prompts", "qwen3-lasttoken"] {
            let folder = format!("fixtures/parity/{case}/model");
            assert!(Bert::new(&tokenizer(&folder)).is_none(), "{case}");
        }
    }

    fn entries() -> &'static Vec<String> {
        static ENTRIES: OnceLock<Vec<String>> = OnceLock::new();
        ENTRIES.get_or_init(|| {
            let mut all: Vec<String> = real().tokenizer.get_vocab(false).into_keys().collect();
            all.sort();
            all
        })
    }

    proptest! {
        #[test]
        fn any_text_gets_the_crates_ids(text in any::<String>()) {
            same(real(), &text);
        }

        #[test]
        fn anything_written_in_ascii_and_latin_gets_the_crates_ids(text in "[ -~À-ɏ’“”…—\t\n]{0,200}") {
            prop_assume!(!real().added.iter().any(|token| text.contains(token)));
            prop_assert!(same(real(), &text));
        }

        /// Words put together from entries are cut up in every way that the vocabulary allows.
        #[test]
        fn words_of_entries_get_the_crates_ids(
            picks in proptest::collection::vec((0_usize..30_522, 0_u8..4), 1..40),
        ) {
            let mut text = String::new();
            for (pick, kind) in picks {
                let entry = &entries()[pick % entries().len()];
                text.push_str(entry.strip_prefix("##").unwrap_or(entry));
                text.push_str(["", "", " ", "-"][usize::from(kind)]);
            }
            same(real(), &text);
        }
    }
}
