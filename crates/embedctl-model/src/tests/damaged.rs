//! Damaged files.

use super::*;

#[test]
fn damaged_metadata_is_read_or_refused() {
    let modules = fs::read("../../fixtures/parity/bert-dense-tanh/model/modules.json").unwrap();
    mutation::each("modules.json", &modules, 300, |path| {
        assert_no_bug(crate::modules::read(path.parent().unwrap()));
    });
    let lengths = br#"{"max_seq_length": 48, "do_lower_case": false,
        "tokenizer_args": {"model_max_length": 20, "padding_side": "left"},
        "processing_kwargs": {"text": {"max_length": 30, "truncation": true}}}"#;
    mutation::each("sentence_bert_config.json", lengths, 300, |path| {
        assert_no_bug(crate::sentence_config::read(path.parent().unwrap()));
    });
}
