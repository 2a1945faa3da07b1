//! The treatment of each character, learnt from the tokenizers crate itself.
//!
//! BERT's normalizer and pre-tokenizer treat characters without regard to their neighbours, so a character alone gives
//! the same result as in a text. The exceptions are found here: marks that trade places when a text is decomposed, and
//! the beginnings of tokens added to the vocabulary.

use std::sync::{Arc, OnceLock};

use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer as _, Tokenizer,
};

/// Characters whose meaning is learnt together.
const BLOCK: usize = 256;

/// The role of one character of the normalizer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CharacterClass {
    /// Ends a word and is gone.
    Break,
    /// Is a word of its own.
    Alone,
    /// Is part of a word.
    Letter,
}

/// One character of the normalizer's output.
#[derive(Debug, Clone, Copy)]
pub(super) struct NormalizedCharacter {
    pub(super) class: CharacterClass,
    bytes: [u8; 4],
    length: u8,
}

impl NormalizedCharacter {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The normalized form of one character of the text.
#[derive(Debug, Clone, Default)]
struct NormalizedForm {
    /// `None`: it depends on its neighbours.
    pieces: Option<Box<[NormalizedCharacter]>>,
    /// Whether an added token begins with it.
    begins_added: bool,
}

type Block = Box<[NormalizedForm]>;

/// The same for the characters that most texts consist of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ascii {
    Nothing,
    Break,
    Alone(u8),
    Letter(u8),
    /// Listed in the pages of all characters.
    Other,
}

/// The normalized forms of all characters.
pub(super) struct Characters {
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Whether marks are stripped, for which characters are decomposed and marks put into order.
    pub(super) decomposes: bool,
    /// Tokens that were added to the vocabulary and are looked for in the text as it stands.
    pub(super) added: Vec<String>,
    ascii: [Ascii; 128],
    blocks: Box<[OnceLock<Block>]>,
}

impl Characters {
    /// For a tokenizer whose normalizer and pre-tokenizer are of BERT's kind.
    pub(super) fn new(tokenizer: &Arc<Tokenizer>) -> Option<Self> {
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
        let mut characters = Self {
            decomposes: decomposes(tokenizer.get_normalizer())?,
            tokenizer: Arc::clone(tokenizer),
            added,
            ascii: [Ascii::Other; 128],
            blocks: (0..=(char::MAX as usize / BLOCK))
                .map(|_| OnceLock::new())
                .collect(),
        };
        for byte in 0..128_u8 {
            characters.ascii[usize::from(byte)] = ascii(characters.fold(char::from(byte)));
        }
        Some(characters)
    }

    /// The normalized form of the character that begins with `byte`.
    pub(super) fn ascii(&self, byte: u8) -> Ascii {
        let known = self.ascii.get(usize::from(byte));
        known.copied().unwrap_or(Ascii::Other)
    }

    /// The normalized form of the first character of `text`; `None` if it depends on its neighbours.
    pub(super) fn first(&self, text: &str) -> Option<(&[NormalizedCharacter], usize)> {
        let c = text.chars().next()?;
        let fold = self.fold(c);
        if fold.begins_added && self.added.iter().any(|token| text.starts_with(token)) {
            return None;
        }
        Some((fold.pieces.as_deref()?, c.len_utf8()))
    }

    fn fold(&self, c: char) -> &NormalizedForm {
        let code = c as usize;
        let block = self.blocks[code / BLOCK].get_or_init(|| {
            let first = code - code % BLOCK;
            (first..first + BLOCK)
                .map(|code| {
                    u32::try_from(code)
                        .ok()
                        .and_then(char::from_u32)
                        .map_or_else(NormalizedForm::default, |c| self.learn(c))
                })
                .collect()
        });
        &block[code % BLOCK]
    }

    /// Asks the crate for the normalized form of a character.
    fn learn(&self, c: char) -> NormalizedForm {
        NormalizedForm {
            pieces: self.pieces(c),
            begins_added: self.added.iter().any(|token| token.starts_with(c)),
        }
    }

    fn pieces(&self, c: char) -> Option<Box<[NormalizedCharacter]>> {
        let mut normalized = NormalizedString::from(c.to_string());
        if let Some(normalizer) = self.tokenizer.get_normalizer() {
            normalizer.normalize(&mut normalized).ok()?;
        }
        normalized.get().chars().map(|c| self.piece(c)).collect()
    }

    fn piece(&self, c: char) -> Option<NormalizedCharacter> {
        if self.decomposes && has_combining_class(c) {
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
            [one] if one == between => CharacterClass::Letter,
            ["a", "a"] => CharacterClass::Break,
            ["a", middle, "a"] if middle == own => CharacterClass::Alone,
            _ => return None,
        };
        Some(NormalizedCharacter {
            class,
            length: u8::try_from(c.len_utf8()).expect("at most 4 bytes"),
            bytes,
        })
    }
}

fn ascii(fold: &NormalizedForm) -> Ascii {
    if fold.begins_added {
        return Ascii::Other;
    }
    match fold.pieces.as_deref() {
        Some([]) => Ascii::Nothing,
        Some([one]) => match (one.class, one.bytes()) {
            (CharacterClass::Break, _) => Ascii::Break,
            (CharacterClass::Alone, &[byte]) => Ascii::Alone(byte),
            (CharacterClass::Letter, &[byte]) => Ascii::Letter(byte),
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
pub(super) fn has_combining_class(c: char) -> bool {
    const LOW: char = '\u{334}';
    const HIGH: char = '\u{345}';
    [[c, LOW], [HIGH, c]].into_iter().any(|pair| {
        let pair = String::from_iter(pair);
        let mut decomposed = NormalizedString::from(pair.as_str());
        decomposed.nfd();
        decomposed.get() != pair
    })
}
