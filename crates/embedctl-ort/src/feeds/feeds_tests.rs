//! Graphs that can be fed, and refused ones.

use super::*;

const ROBERTA: PositionIds = PositionIds::AfterPadding(1);

fn value(name: &str, element: ElementType, shape: &[Option<usize>]) -> Value {
    Value {
        name: name.into(),
        element,
        shape: shape.to_vec(),
    }
}

fn graph(inputs: Vec<Value>) -> Graph {
    Graph {
        inputs,
        outputs: vec![value(
            "last_hidden_state",
            ElementType::F32,
            &[None, None, Some(384)],
        )],
        ..Graph::default()
    }
}

fn tokens() -> OutputChoice {
    OutputChoice::Tokens("last_hidden_state".into())
}

fn ids() -> Value {
    value("input_ids", ElementType::I64, &[None, None])
}

/// Two rows of length 4, the first padded on the left, the second on the right.
fn batch() -> PaddedBatch {
    PaddedBatch {
        rows: 2,
        length: 4,
        input_ids: vec![9, 9, 5, 6, 7, 8, 5, 9],
        attention_mask: vec![0, 0, 1, 1, 1, 1, 1, 0],
        token_types: Vec::new(),
    }
}

#[test]
fn each_input_gets_its_declared_type() {
    let feeds = Feeds::new(
        &graph(vec![
            value("input_ids", ElementType::I32, &[None, None]),
            value("attention_mask", ElementType::I64, &[None, None]),
            value("use_cache_branch", ElementType::Bool, &[Some(1)]),
        ]),
        ROBERTA,
        &tokens(),
    )
    .unwrap();
    assert_eq!(
        feeds.inputs[0].feed,
        InputFeed::Tokens(Tokens::Ids, TokenWidth::I32)
    );
    assert_eq!(
        feeds.inputs[1].feed,
        InputFeed::Tokens(Tokens::Mask, TokenWidth::I64)
    );
    assert_eq!(feeds.inputs[2].feed, InputFeed::NoCache);
    assert_eq!(feeds.max_rows, None);
}

#[test]
fn positions_are_counted_as_the_architecture_does() {
    let mut out: Vec<i64> = Vec::new();
    Tokens::PositionIds(PositionIds::FromZero).fill(&batch(), &mut out);
    assert_eq!(out, [0, 0, 0, 1, 0, 1, 2, 0]);
    // A padding token that a text spells out has its own id as position and is not counted.
    Tokens::PositionIds(PositionIds::AfterPadding(9)).fill(&batch(), &mut out);
    assert_eq!(out, [9, 9, 10, 11, 10, 11, 12, 9]);
}

#[test]
fn ids_mask_and_types_follow_the_batch_and_reuse_the_buffer() {
    let mut out: Vec<i32> = vec![7; 100];
    Tokens::Ids.fill(&batch(), &mut out);
    assert_eq!(out, [9, 9, 5, 6, 7, 8, 5, 9]);
    Tokens::Mask.fill(&batch(), &mut out);
    assert_eq!(out, [0, 0, 1, 1, 1, 1, 1, 0]);
    Tokens::Types.fill(&batch(), &mut out);
    assert_eq!(out, [0; 8]);
}

#[test]
fn a_cache_is_empty_in_its_token_dimension() {
    let past = value(
        "past_key_values.0.key",
        ElementType::F16,
        &[None, Some(8), None, Some(64)],
    );
    let feeds = Feeds::new(&graph(vec![ids(), past]), ROBERTA, &tokens()).unwrap();
    let InputFeed::Past(dims, PastElement::F16) = &feeds.inputs[1].feed else {
        panic!("not a cache: {:?}", feeds.inputs[1]);
    };
    let sizes: Vec<usize> = dims.iter().map(|dim| dim.size(3)).collect();
    assert_eq!(sizes, [3, 8, 0, 64]);
}

#[test]
fn a_cache_with_two_free_dimensions_is_refused() {
    let past = value(
        "past_key_values.0.key",
        ElementType::F32,
        &[None, None, None, Some(64)],
    );
    let reason = Feeds::new(&graph(vec![ids(), past]), ROBERTA, &tokens()).unwrap_err();
    assert!(reason.contains("[?, ?, ?, 64]"), "{reason}");
}

#[test]
fn unknown_inputs_are_named_and_the_known_listed() {
    let unknown = value("pixel_values", ElementType::F32, &[None]);
    let reason = Feeds::new(&graph(vec![ids(), unknown]), ROBERTA, &tokens()).unwrap_err();
    assert!(reason.contains("'pixel_values'"), "{reason}");
    assert!(reason.contains("token_type_ids"), "{reason}");
}

#[test]
fn wrong_types_and_fixed_lengths_are_refused() {
    let float = value("attention_mask", ElementType::F32, &[None, None]);
    let reason = Feeds::new(&graph(vec![ids(), float]), ROBERTA, &tokens()).unwrap_err();
    assert!(
        reason.contains("attention_mask") && reason.contains("float32"),
        "{reason}"
    );
    let fixed = value("input_ids", ElementType::I64, &[None, Some(128)]);
    let reason = Feeds::new(&graph(vec![fixed]), ROBERTA, &tokens()).unwrap_err();
    assert!(reason.contains("[?, 128]"), "{reason}");
}

#[test]
fn a_graph_for_single_rows_limits_the_batch() {
    let single = value("input_ids", ElementType::I64, &[Some(1), None]);
    let feeds = Feeds::new(&graph(vec![single]), ROBERTA, &tokens()).unwrap();
    assert_eq!(feeds.max_rows, Some(1));
}

#[test]
fn a_graph_without_token_ids_or_with_another_output_is_refused() {
    let mask = value("attention_mask", ElementType::I64, &[None, None]);
    let reason = Feeds::new(&graph(vec![mask]), ROBERTA, &tokens()).unwrap_err();
    assert!(reason.contains("input_ids"), "{reason}");
    let missing = OutputChoice::Tokens("logits".into());
    let reason = Feeds::new(&graph(vec![ids()]), ROBERTA, &missing).unwrap_err();
    assert!(
        reason.contains("'logits'") && reason.contains("last_hidden_state"),
        "{reason}"
    );
}

#[test]
fn output_shapes_are_checked_against_the_batch() {
    let feeds = Feeds::new(&graph(vec![ids()]), ROBERTA, &tokens()).unwrap();
    assert_eq!(feeds.width(&[2, 4, 384], &batch()), Ok(384));
    for wrong in [&[2, 384][..], &[2, 5, 384], &[3, 4, 384], &[2, 4, 0]] {
        let reason = feeds.width(wrong, &batch()).unwrap_err();
        assert!(reason.contains("[2, 4, width]"), "{reason}");
    }
}
