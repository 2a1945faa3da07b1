//! How public tokenizers split texts, against Python's tokenizers (`fixtures/expressions`).

use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::{Map, Value, json};
use tokenizers::{Encoding, ModelWrapper, Tokenizer};

use super::long::LongTexts;
use crate::Side;
use crate::bounded::BoundedSteps;
use embedctl_common::error::Cause;
use embedctl_testing::stride;

struct ExpressionCases {
    /// First those that are drawn, then those of all characters.
    texts: Vec<String>,
    drawn: usize,
    cases: Vec<Value>,
}

impl ExpressionCases {
    fn read() -> Self {
        let file = std::fs::read("../../fixtures/expressions/cases.json").unwrap();
        let made: Value = serde_json::from_slice(&file).unwrap();
        let parts: Vec<&str> = made["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part.as_str().unwrap())
            .collect();
        Self {
            texts: texts(&parts, made["drawn"].as_u64().unwrap()),
            drawn: made["drawn"].as_u64().unwrap() as usize,
            cases: made["cases"].as_array().unwrap().clone(),
        }
    }
}

/// As `texts` of `generate.py`.
fn texts(parts: &[&str], drawn: u64) -> Vec<String> {
    let mut state = 0_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    };
    let mut texts = Vec::new();
    for _ in 0..drawn {
        let count = 1 + below(24);
        texts.push((0..count).map(|_| parts[below(parts.len())]).collect());
    }
    for block in (0..0x32400).step_by(128) {
        let characters = (block..block + 128).filter_map(char::from_u32);
        texts.push(characters.map(|c| format!("{c}a{c}1 {c}")).collect());
    }
    texts
}

/// A model of one token.
fn one_token() -> Value {
    json!({"type": "BPE", "vocab": {"a": 0}, "merges": []})
}

/// As `model` of `generate.py`: all bytes, and every pair of them.
fn model() -> ModelWrapper {
    let is_printed = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 0x100..0x200_u32;
    let letters: Vec<String> = (0..256)
        .map(|byte| {
            if is_printed(byte) {
                byte
            } else {
                others.next().unwrap()
            }
        })
        .map(|code| char::from_u32(code).unwrap().to_string())
        .collect();
    let pairs = letters
        .iter()
        .flat_map(|first| letters.iter().map(move |second| (first, second)));
    let merges: Vec<Value> = pairs
        .map(|(first, second)| json!([first, second]))
        .collect();
    let joined = merges
        .iter()
        .map(|pair| format!("{}{}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()));
    let entries = letters.iter().cloned().chain(joined);
    let vocabulary: Map<String, Value> = entries
        .zip(0..)
        .map(|(entry, id)| (entry, Value::from(id)))
        .collect();
    let model = json!({"type": "BPE", "vocab": vocabulary, "merges": merges});
    read(&json!({}), &model).unwrap().get_model().clone()
}

/// A tokenizer as embedctl reads one from its file, with that model, which takes long to read.
fn tokenizer(case: &Value, model: &ModelWrapper) -> Tokenizer {
    let mut tokenizer = read(case, &one_token()).unwrap();
    tokenizer.with_model(model.clone());
    tokenizer
}

fn read(case: &Value, model: &Value) -> Result<Tokenizer, Cause> {
    let written = json!({"version": "1.0", "normalizer": case["normalizer"],
        "pre_tokenizer": case["pre_tokenizer"], "model": model});
    crate::tokenizer_file::read(written.to_string().into_bytes())
}

fn hashed(ids: &[u32], value: u64) -> u64 {
    let count = u32::try_from(ids.len()).unwrap();
    std::iter::once(&count)
        .chain(ids)
        .flat_map(|number| number.to_le_bytes())
        .fold(value, |value, byte| {
            (value ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

#[test]
fn public_tokenizers_split_as_in_python() {
    let ExpressionCases {
        texts,
        drawn,
        cases,
    } = ExpressionCases::read();
    assert!(texts.len() > 6000 && cases.len() > 40);
    let stride = stride(29);
    let model = model();
    let first_difference = |(number, case): (usize, &Value)| {
        let tokenizer = tokenizer(case, &model);
        let ids = |text: &String| tokenizer.encode(text.as_str(), false).unwrap();
        let hash = |some: &[String]| {
            let start = 0xcbf2_9ce4_8422_2325;
            some.iter()
                .fold(start, |value, text| hashed(ids(text).get_ids(), value))
        };
        let expected = case["ids"].as_str().unwrap().split(' ');
        assert_eq!(expected.clone().count(), texts.len().div_ceil(100));
        // In CI a third of the drawn texts, another one for the next case, and all characters.
        let is_read = |place: usize| match stride {
            1 => place % 3 == number % 3 || place * 100 >= drawn,
            _ => place % stride == number % stride,
        };
        let mut some = texts.chunks(100).zip(expected).enumerate();
        some.find(|&(place, (some, expected))| {
            is_read(place) && format!("{:016x}", hash(some)) != expected
        })
        .map(|(_, (some, _))| format!("{}, near {:?}", case["name"], some[0]))
    };
    let wrong: Vec<String> = (cases.par_iter().enumerate())
        .filter_map(first_difference)
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A limit within a long text reads a part of it, whose tokens are those of the whole.
#[test]
fn a_part_of_a_long_text_is_split_as_the_whole() {
    let ExpressionCases { texts, cases, .. } = ExpressionCases::read();
    let model = model();
    // Blanks between the random parts make more places to cut at.
    let long: Vec<String> = [" ", "", "\n", "a b", "\u{e9} \u{4e2d}"]
        .iter()
        .enumerate()
        .step_by(stride(5))
        .map(|(part, between)| texts[part * 500..][..500].join(between))
        .collect();
    let is_read_whole = |(number, case): &(usize, &Value)| {
        let mut has_cut = false;
        let tokenizer = Arc::new(tokenizer(case, &model));
        let steps = Arc::new(BoundedSteps::of(&tokenizer).unwrap());
        let whole = |text: &String| tokenizer.encode(text.as_str(), false).unwrap();
        let whole: Vec<Encoding> = long.iter().map(whole).collect();
        let sides = [Side::Right, Side::Left].into_iter();
        for side in sides.skip(number % stride(2)).step_by(stride(2)) {
            // Each limit ends at another place.
            for tokens in [1, 2600] {
                let any = LongTexts::new(
                    Arc::clone(&tokenizer),
                    Arc::clone(&steps),
                    PathBuf::new(),
                    tokens,
                    side,
                );
                for (text, whole) in long.iter().zip(&whole) {
                    let (part, _) = any.encode(text, 0).unwrap();
                    let (part, whole) = (part.get_ids(), whole.get_ids());
                    has_cut |= part.len() < whole.len();
                    let same = match side {
                        Side::Right => whole.starts_with(part),
                        Side::Left => whole.ends_with(part),
                    };
                    assert!(same, "{}, {side:?}, {tokens} tokens", case["name"]);
                }
            }
        }
        !has_cut
    };
    let numbered = cases.par_iter().enumerate();
    let whole: Vec<(usize, &Value)> = numbered.filter(is_read_whole).collect();
    let whole: Vec<&str> = whole
        .iter()
        .map(|(_, case)| case["name"].as_str().unwrap())
        .collect();
    // Expressions that look farther than a word, or are not understood, get the whole text.
    let expected = [
        "exaone",
        "superbpe",
        "gemma 4, sarvam",
        "repeated intervals",
        "lines",
        "ends of the text",
        "not an end of a word",
        "ends of lines, clusters",
        "looks behind",
        "absent",
        "conditions and calls",
    ];
    assert_eq!(whole, expected);
}

#[test]
fn an_expression_that_cannot_be_run_is_shown_with_the_reason() {
    let read = |expression: &str| {
        let pattern = json!({"Regex": expression});
        let split =
            json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
        let replace = json!({"type": "Replace", "pattern": pattern, "content": " "});
        [
            json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]}}),
            json!({"normalizer": {"type": "Sequence", "normalizers": [replace]}}),
        ]
        .map(|case| read(&case, &one_token()).err())
    };
    for expression in [
        r"\R",
        r"\X",
        r"\p{Alnum}+",
        r"\p{N}{1,3}+",
        r"[[:punct:]]",
        r"(?~ab)",
    ] {
        assert!(read(expression).iter().all(Option::is_none), "{expression}");
    }
    for (expression, why) in [
        ("[a-z", "premature end of char-class"),
        (r"\p{Nobody}", "invalid character property name {Nobody}"),
        ("(?P<x>a)", "undefined group option"),
        ("*a", "target of repeat operator is not specified"),
    ] {
        for cause in read(expression) {
            let cause = cause.unwrap();
            let parts = [expression, why];
            let is_told = parts.iter().all(|part| cause.reason.contains(part));
            assert!(is_told, "{}", cause.reason);
            assert!(!cause.remedy.unwrap().contains("again"));
        }
    }
    // The engine is recursive: these would end the process.
    for (open, close) in [
        ("(?~", ")"),
        ("(?:(?~b)", "+)*"),
        ("[a&&", "]"),
        (r"(?<a>x\g<a>", ")"),
    ] {
        for times in [300, 2000, 100_000] {
            let expression = format!("{}a{}", open.repeat(times), close.repeat(times));
            for cause in read(&expression) {
                let reason = cause.unwrap().reason;
                assert!(reason.contains("nested more than"), "{reason}");
            }
        }
    }
}
