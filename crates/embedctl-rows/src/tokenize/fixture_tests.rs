//! The tokenizers of fixtures for tests: `tokenizer.json` as it stands, since `embedctl-model` reads a model's other files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::TextTokenizer;
use crate::score::ScoreKind;
use crate::{Frame, ModelConfig, OutputChoice, PairFrame, PositionIds, Prompts, Side};

/// A fixture's tokenizer, and what its files say of it.
pub(super) struct TokenizerFixture {
    pub tokenizer: Arc<Tokenizer>,
    pub config: ModelConfig,
}

impl TokenizerFixture {
    /// Of the model in `folder`.
    pub fn read(folder: impl AsRef<Path>) -> Self {
        let json = |name: &str| -> Value {
            let file = std::fs::read(folder.as_ref().join(name)).unwrap();
            serde_json::from_slice(&file).unwrap()
        };
        let (mut file, settings) = (json("tokenizer.json"), json("tokenizer_config.json"));
        let metaspace = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
        // Two classes read other steps than the file has.
        match settings["tokenizer_class"].as_str() {
            Some("LlamaTokenizer") => {
                file["normalizer"] = Value::Null;
                file["pre_tokenizer"] = metaspace("first", false);
            }
            Some("T5Tokenizer") => {
                file["normalizer"] = Value::Null;
                let words = [
                    json!({"type": "WhitespaceSplit"}),
                    metaspace("always", true),
                ];
                file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": words});
            }
            _ => {}
        }
        (file["truncation"], file["padding"]) = (Value::Null, Value::Null);
        let tokenizer = crate::tokenizer_file::read(file.to_string().into_bytes()).unwrap();
        let length = settings["model_max_length"].as_u64().unwrap();
        Self {
            config: config(
                frame(&file["post_processor"]),
                usize::try_from(length).unwrap(),
                match settings["truncation_side"].as_str() {
                    Some("left") => Side::Left,
                    _ => Side::Right,
                },
            ),
            tokenizer: tokenizer.into(),
        }
    }

    /// Of a parity case.
    pub fn of_parity(case: &str) -> Self {
        Self::read(format!("../../fixtures/parity/{case}/model"))
    }

    /// With this prompt.
    pub fn prompted(mut self, prompt: &str) -> Self {
        prompt.clone_into(&mut self.config.prompt);
        self
    }

    /// For pairs of texts of so many tokens.
    pub fn of_pairs(mut self, length: usize) -> Self {
        self.config.max_length = length;
        self.config.scores = Some(ScoreKind {
            labels: vec!["LABEL_0".into()],
            pairs: true,
            softmax: false,
            activations: Vec::new(),
            chat: None,
        });
        self
    }

    pub fn prepared(&self, threads: usize) -> TextTokenizer {
        let tokenizer = Arc::clone(&self.tokenizer);
        TextTokenizer::new(tokenizer, &self.config, PathBuf::new(), threads).unwrap()
    }
}

/// What a template puts around a text, and around a pair.
fn frame(post: &Value) -> Frame {
    let parts = |key: &str| -> Vec<Vec<(u32, u32)>> {
        let mut parts = vec![Vec::new()];
        for piece in post[key].as_array().into_iter().flatten() {
            let special = &piece["SpecialToken"];
            match special["id"].as_str() {
                Some(name) => {
                    let kind = special["type_id"].as_u64().unwrap();
                    let ids = post["special_tokens"][name]["ids"].as_array().unwrap();
                    let number = |it: u64| u32::try_from(it).unwrap();
                    let ids = ids.iter().map(|id| number(id.as_u64().unwrap()));
                    parts
                        .last_mut()
                        .unwrap()
                        .extend(ids.map(|id| (id, number(kind))));
                }
                None => parts.push(Vec::new()),
            }
        }
        parts.resize(3, Vec::new());
        parts
    };
    let ids = |part: &[(u32, u32)]| part.iter().map(|(id, _)| *id).collect();
    let (single, pair) = (parts("single"), parts("pair"));
    Frame {
        before: ids(&single[0]),
        after: ids(&single[1]),
        pair: Some(PairFrame {
            before: pair[0].clone(),
            between: pair[1].clone(),
            after: pair[2].clone(),
            types: (0, 1),
            typed: false,
        }),
        ..Frame::default()
    }
}

fn config(frame: Frame, max_length: usize, truncation_side: Side) -> ModelConfig {
    let special = frame.before.iter().chain(&frame.after).copied();
    ModelConfig {
        scores: None,
        sparse: None,
        multi: None,
        beside: Vec::new(),
        max_length,
        greatest_length: ModelConfig::UNLIMITED,
        positions_limit: None,
        special_ids: special.collect::<BTreeSet<u32>>(),
        frame,
        truncation_side,
        padding_id: 0,
        positions: PositionIds::FromZero,
        output: OutputChoice::Tokens("last_hidden_state".into()),
        pooling: Vec::new(),
        include_prompt: true,
        token_steps: Vec::new(),
        not_last: None,
        steps: Vec::new(),
        dimensions: Vec::new(),
        normalize_last: false,
        hidden_width: 8,
        width: 8,
        prompts: Prompts::default(),
        prompt: String::new(),
        dropped_id: None,
        most_characters: None,
        late: false,
    }
}
