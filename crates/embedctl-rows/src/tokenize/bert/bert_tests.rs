//! The fast way against the tokenizers crate.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::characters::has_combining_class;
use super::*;
use crate::tokenize::fixture_tests::TokenizerFixture;
use embedctl_testing::stride;

const REAL: &str = "../../fixtures/models/all-MiniLM-L6-v2";
const CASED: &str = "../../fixtures/parity/tok-backend-class-keeps-case/model";

fn tokenizer(folder: &str) -> Arc<Tokenizer> {
    TokenizerFixture::read(folder).tokenizer
}

/// One for all tests: learning characters takes its time.
fn real() -> &'static Bert {
    static REAL_ONE: OnceLock<Bert> = OnceLock::new();
    REAL_ONE.get_or_init(|| Bert::new(&tokenizer(REAL)).unwrap())
}

fn expected(bert: &Bert, text: &str) -> Vec<u32> {
    let encoding = bert.characters.tokenizer.encode(text, false).unwrap();
    encoding.get_ids().to_vec()
}

/// Compares with the crate; whether the fast way went.
fn same(bert: &Bert, text: &str) -> bool {
    let mut scratch = BertScratch::default();
    if bert.encode(text, usize::MAX, &mut scratch).is_none() {
        return false;
    }
    assert_eq!(scratch.ids, expected(bert, text), "{text:?}");
    true
}

/// Whether a text is left to the crate: it has an added token, or a character that depends on its neighbours.
fn is_left_to_the_crate(bert: &Bert, text: &str) -> bool {
    let characters = &bert.characters;
    characters.added.iter().any(|token| text.contains(token))
        || text
            .chars()
            .any(|c| characters.first(c.encode_utf8(&mut [0; 4])).is_none())
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
    assert!(!cased.characters.decomposes);
    for text in texts {
        assert!(same(&cased, text), "{text:?}");
    }
}

#[test]
fn every_character_becomes_what_the_crate_makes_of_it() {
    let characters: Vec<char> = ('\0'..=char::MAX).collect();
    let mut slow = 0;
    for some in characters.chunks(128).step_by(stride(5)) {
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
    assert!(
        has_combining_class('\u{301}')
            && has_combining_class('\u{334}')
            && has_combining_class('\u{345}')
    );
    assert!(
        !has_combining_class('a') && !has_combining_class('東') && !has_combining_class('\u{200d}')
    );
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
    let mut scratch = BertScratch::default();
    for most in [0, 1, 5, 254] {
        assert!(real().encode(&text, most, &mut scratch).is_some());
        assert!(scratch.ids.len() > most && scratch.ids.len() < most + 20);
        assert_eq!(scratch.ids, all[..scratch.ids.len()]);
    }
}

#[test]
fn other_kinds_of_tokenizers_are_left_to_the_crate() {
    for case in ["roberta-mean", "e5-prompts", "qwen3-lasttoken"] {
        let folder = format!("../../fixtures/parity/{case}/model");
        assert!(Bert::new(&tokenizer(&folder)).is_none(), "{case}");
    }
}

fn entries() -> &'static Vec<String> {
    static ENTRIES: OnceLock<Vec<String>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut all: Vec<String> = real()
            .characters
            .tokenizer
            .get_vocab(false)
            .into_keys()
            .collect();
        all.sort();
        all
    })
}

proptest! {
    #[test]
    fn any_text_gets_the_crates_ids(text in any::<String>()) {
        prop_assert_ne!(same(real(), &text), is_left_to_the_crate(real(), &text));
    }

    #[test]
    fn anything_written_in_ascii_and_latin_gets_the_crates_ids(text in "[ -~À-ɏ’“”…—\t\n]{0,200}") {
        prop_assume!(!real().characters.added.iter().any(|token| text.contains(token)));
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
        prop_assert_ne!(same(real(), &text), is_left_to_the_crate(real(), &text));
    }
}
