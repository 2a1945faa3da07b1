//! Chunks of many scripts, by tokenizers of every kind.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::ModelConfig;
use crate::tokenize::fixture_tests::TokenizerFixture;
use embedctl_testing::stride;

fn prepared(case: &str, prompt: Option<&str>) -> TextTokenizer {
    TokenizerFixture::of_parity(case)
        .prompted(prompt.unwrap_or_default())
        .prepared(1)
}

/// `WordPiece`, byte-level BPE, Unigram behind a character map, BPE without a pre-tokenizer, metaspace; cut on
/// the left; with prompts that run into the text.
fn tokenizers() -> &'static [(&'static str, TextTokenizer)] {
    static ALL: OnceLock<Vec<(&str, TextTokenizer)>> = OnceLock::new();
    ALL.get_or_init(|| {
        [
            ("bert-cls", None),
            ("bert-cls", Some("query")),
            ("roberta-mean", None),
            ("roberta-mean", Some("search: ")),
            ("family-xlm-roberta", None),
            ("e5-prompts", Some("passage: ")),
            ("family-gemma3-bidirectional", None),
            ("family-llama-lasttoken", None),
            ("class-llama-metaspace", None),
            ("qwen3-lasttoken", None),
            ("tok-t5-class", None),
            ("tok-truncation-left", None),
            ("tok-no-special-tokens", None),
        ]
        .map(|(case, prompt)| (case, prepared(case, prompt)))
        .into()
    })
}

fn how(tokens: usize, overlap: usize, by: ChunkBy) -> Chunked {
    Chunked {
        by,
        tokens,
        overlap,
    }
}

fn chunks(tokenizer: &TextTokenizer, text: &str, how: Chunked) -> Chunks {
    let texts: Texts = [text].into_iter().collect();
    tokenizer.chunk(&texts, how, &Clock::default())
}

/// Tokens of a text alone, the prompt's among them.
fn count(tokenizer: &TextTokenizer, text: &str) -> usize {
    let text = tokenizer.prompted(text);
    let mut scratch = BertScratch::default();
    let ids = tokenizer.encode(&text, usize::MAX, &mut scratch);
    ids.unwrap().ids.len()
}

/// Checks the guarantees of the chunks of any text.
fn check(tokenizer: &TextTokenizer, text: &str, how: Chunked) -> Result<(), TestCaseError> {
    let chunks = chunks(tokenizer, text, how);
    prop_assert_eq!(chunks.texts.len(), chunks.spans.len());
    prop_assert_eq!(chunks.tokens.len(), chunks.spans.len());
    prop_assert!(!chunks.spans.is_empty());
    let characters: Vec<char> = text.chars().collect();
    let mut covered = vec![false; characters.len()];
    let alone: Texts = chunks
        .spans
        .iter()
        .map(|span| {
            let range = usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap();
            covered[range.clone()].fill(true);
            characters[range].iter().collect::<String>()
        })
        .collect();
    let tokens = tokenizer.tokenize(&alone);
    for (index, span) in chunks.spans.iter().enumerate() {
        prop_assert_eq!((span.text, span.part as usize), (0, index));
        prop_assert_eq!(chunks.texts.get(index), alone.get(index));
        let whole = alone.len() == 1;
        prop_assert!(whole || alone.get(index).trim() == alone.get(index));
        // Equal ids are equal vectors.
        prop_assert_eq!(chunks.tokens.get(index), tokens.get(index));
        prop_assert_eq!(
            chunks.tokens.is_truncated(index),
            tokens.is_truncated(index)
        );
        let fits = count(tokenizer, alone.get(index)) <= how.tokens + tokenizer.prompt_ids;
        prop_assert!(fits || alone.get(index).chars().count() == 1);
        if index > 0 {
            let before = chunks.spans[index - 1];
            prop_assert!(span.start > before.start && span.end > before.end);
            if span.start < before.end {
                let repeated: String = (span.start..before.end)
                    .map(|at| characters[usize::try_from(at).unwrap()])
                    .collect();
                prop_assert!(count(tokenizer, &repeated) <= how.overlap + tokenizer.prompt_ids);
            }
        }
    }
    for (character, covered) in characters.iter().zip(covered) {
        prop_assert!(
            covered || character.is_whitespace(),
            "{:?} is lost",
            character
        );
    }
    Ok(())
}

/// Words of many scripts, marks that combine, emoji of several code points, and separators.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}",
        "[A-Z][a-z]{1,8}[.!?] ",
        "[а-я]{1,10}",
        "[α-ω]{1,8}",
        "[一-龥]{1,9}",
        "[ぁ-ん]{1,6}[ァ-ヶ]{1,6}[。、]?",
        "[가-힣]{1,6}",
        "[ก-ฮ][ะ-ู]{0,2}[ก-ฮ]{1,8}",
        "[ا-ي]{1,8}",
        "[א-ת]{1,8}",
        "[क-ह][ा-ौ]?[क-ह]्[क-ह]",
        "e\u{301}{1,4}",
        Just("👩‍👩‍👧‍👦🇩🇪👍🏽".to_owned()),
        Just("\u{fdfa}ﬁ½\u{2126}".to_owned()),
        Just("\u{200b}\u{feff}\0\u{ad}".to_owned()),
        Just("\n\n# Heading\n\n".to_owned()),
        "\n{1,3}(#{1,7} |- |[0-9]\\. |> |```|    |\\| a \\|\n\\|--\\|\n|==+\n|---\n)",
        "[0-9]{1,9}([.,][0-9]{2})?",
        "[!-/:-@]{1,4}",
        "[ \t\r\n\u{a0}\u{3000}]{1,5}",
        Just(" ".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_chunk_is_its_part_of_the_text_and_nothing_is_lost(
        parts in proptest::collection::vec(part(), 0..60),
        tokens in 1_usize..24,
        share in 0.0_f64..1.0,
        by in prop::sample::select(ChunkBy::ALL.to_vec()),
        which in any::<prop::sample::Index>(),
    ) {
        let all = tokenizers();
        let (_, tokenizer) = &all[which.index(all.len())];
        let overlap = (tokens as f64 * share) as usize;
        check(tokenizer, &parts.concat(), how(tokens, overlap, by))?;
    }
}

#[test]
fn long_texts_of_one_kind_are_cut_by_every_tokenizer() {
    let texts = [
        "The quick brown fox jumps over 12 lazy dogs. ".repeat(400),
        "x".repeat(17_000),
        "東京タワー。".repeat(500),
        format!("{}tail{}", " ".repeat(5_000), "\n".repeat(5_000)),
        "a,b.".repeat(1_000),
    ];
    for (number, (case, tokenizer)) in tokenizers().iter().enumerate() {
        for text in texts.iter().skip(number % stride(2)).step_by(stride(2)) {
            for by in ChunkBy::ALL {
                check(tokenizer, text, how(60, 6, by))
                    .unwrap_or_else(|error| panic!("{case}: {error}"));
            }
        }
    }
}

#[test]
fn words_and_sentences_stay_whole_where_they_fit() {
    let tokenizer = prepared("bert-cls", None);
    let text = "One two three. Four five six. Seven eight nine ten eleven twelve thirteen.";
    let parts = |tokens, overlap, by| -> Vec<String> {
        let chunks = chunks(&tokenizer, text, how(tokens, overlap, by));
        chunks.texts.iter().map(str::to_owned).collect()
    };
    let one = |text: &str| count(&tokenizer, text);
    let two_sentences = one("One two three. Four five six.");
    let found = parts(two_sentences, 0, ChunkBy::Sentences);
    assert_eq!(found[0], "One two three. Four five six.");
    assert!(found[1].starts_with("Seven eight"), "{found:?}");
    // The last sentence again, and as much of a longer one as fits behind it is not worth it.
    let found = parts(two_sentences, one("Four five six."), ChunkBy::Sentences);
    assert_eq!(found[0], "One two three. Four five six.");
    assert!(
        found[1].starts_with("Four") || found[1].starts_with("Seven"),
        "{found:?}"
    );
    for part in parts(6, 2, ChunkBy::Tokens) {
        let at = text.find(&part).unwrap();
        assert!(at == 0 || text.as_bytes()[at - 1] == b' ', "{part}");
        let end = at + part.len();
        assert!(end == text.len() || text.as_bytes()[end] == b' ', "{part}");
    }
}

#[test]
fn a_chunk_that_repeats_a_line_begins_with_its_first_word() {
    let tokenizer = prepared("bert-cls", None);
    let text = "One two three!\n\n# Four\n\nFive six seven eight nine.";
    let one = |text: &str| count(&tokenizer, text);
    let (heading, last) = (one("# Four"), one("Five six seven eight nine."));
    let how = how(heading + last, heading, ChunkBy::Sentences);
    let found = chunks(&tokenizer, text, how);
    assert_eq!(found.texts.get(1), "# Four\n\nFive six seven eight nine.");
}

#[test]
fn a_section_of_markdown_keeps_its_heading() {
    let tokenizer = prepared("bert-cls", None);
    let section =
        |name: &str| format!("# {name}\n\nOne two three four. Five six.\n\nSeven eight nine.\n\n");
    let text = format!(
        "{}{}```\n# code\n```\n",
        section("First"),
        section("Second")
    );
    let parts = |tokens| -> Vec<String> {
        let chunks = chunks(&tokenizer, &text, how(tokens, 0, ChunkBy::Markdown));
        chunks.texts.iter().map(str::to_owned).collect()
    };
    let whole = count(&tokenizer, &section("First"));
    let found = parts(whole + 8);
    assert_eq!(found[0], section("First").trim_end());
    assert!(
        found[1].starts_with("# Second") && found[1].contains("Seven"),
        "{found:?}"
    );
    // No chunk ends in a heading.
    for tokens in 8..whole {
        for part in parts(tokens) {
            let last = part.lines().last().unwrap();
            assert!(
                !last.starts_with("# First") && !last.starts_with("# Second"),
                "{part}"
            );
        }
    }
}

#[test]
fn a_text_that_fits_is_one_chunk_as_it_is() {
    for (_, tokenizer) in tokenizers() {
        for text in ["", "  ", " two words\n"] {
            let chunks = chunks(tokenizer, text, how(20, 3, ChunkBy::Tokens));
            assert_eq!(chunks.texts.iter().collect::<Vec<_>>(), [text]);
        }
    }
}

#[test]
fn settings_that_cannot_be_met_are_refused() {
    let tokenizer = prepared("bert-cls", None);
    let asked = |tokens, overlap| {
        tokenizer.chunked(&Chunking {
            by: ChunkBy::Tokens,
            tokens,
            overlap,
            text: false,
            id: false,
            heading: false,
        })
    };
    let most = asked(None, 0).unwrap().tokens;
    assert_eq!(most, tokenizer.text_tokens);
    assert_eq!(asked(Some(most), most - 1).unwrap().overlap, most - 1);
    for (tokens, overlap, option) in [
        (Some(most + 1), 0, "--chunk-tokens"),
        (None, most, "--chunk-overlap"),
        (Some(10), 10, "--chunk-overlap"),
    ] {
        let error = asked(tokens, overlap).unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
    }
    let mut unlimited = TokenizerFixture::of_parity("bert-cls");
    unlimited.config.max_length = ModelConfig::UNLIMITED;
    let unlimited = unlimited.prepared(1);
    let limit = unlimited.chunked(&Chunking {
        by: ChunkBy::Tokens,
        tokens: None,
        overlap: 0,
        text: false,
        id: false,
        heading: false,
    });
    let error = limit.unwrap_err().to_string();
    assert!(error.contains("has no limit of its own"), "{error}");
}
