//! Damaged files.

use super::*;

#[test]
fn damaged_metadata_is_read_or_refused() {
    let modules = fs::read("../../fixtures/parity/bert-dense-tanh/model/modules.json").unwrap();
    mutation::each("modules.json", &modules, 300, |path| {
        assert_no_bug(crate::modules::read(
            path.parent().unwrap(),
            &ModelOptions::default(),
            None,
        ));
    });
    let lengths = br#"{"max_seq_length": 48, "do_lower_case": false,
        "tokenizer_args": {"model_max_length": 20, "padding_side": "left"},
        "processing_kwargs": {"text": {"max_length": 30, "truncation": true}}}"#;
    mutation::each("sentence_bert_config.json", lengths, 300, |path| {
        assert_no_bug(crate::sentence_config::read(path.parent().unwrap()));
    });
}

#[test]
fn damaged_tokenizers_are_read_or_refused() {
    // WordPiece, Unigram with a map of characters, and BPE on bytes.
    for case in [
        "bert-cls",
        "class-xlm-roberta-unknown-and-bytes",
        "tok-camembert-class-charsmap",
        "tok-roberta-add-prefix-space",
    ] {
        let file = format!("../../fixtures/parity/{case}/model/tokenizer.json");
        let good = fs::read(file).unwrap();
        mutation::each(&format!("{case}/tokenizer.json"), &good, 40, |path| {
            if let Ok(tokenizer) = crate::metadata::tokenizer(path) {
                // Its own thread, as every tokenizer's work on a text.
                let encoded = std::thread::spawn(move || {
                    embedctl_common::threads::caught(|| {
                        tokenizer.encode("Some wörds, 東京!", true).is_ok()
                    })
                });
                let _ = encoded.join().unwrap();
            }
        });
    }
}
