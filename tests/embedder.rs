//! The library on its own: batches and streams give the same vectors, in order.

use embedctl::Embedder;
use embedctl::engine::EngineOptions;
use embedctl::model::ModelOptions;

fn embedder(case: &str) -> Embedder {
    let model = ModelOptions {
        model: format!("fixtures/parity/{case}/model"),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: "rten".parse().unwrap(),
        workers: 2,
        ..EngineOptions::default()
    };
    Embedder::open(&model, &engine).unwrap()
}

#[test]
fn a_stream_gives_the_vectors_of_a_batch_in_order() {
    let mut embedder = embedder("bert-mean-legacy");
    let texts: Vec<String> = (0..5000)
        .map(|index| format!("text number {}", index % 97))
        .collect();
    let batch = embedder.embed(&texts[..97]).unwrap();
    let stream: Vec<Vec<f32>> = embedder.stream(&texts).collect::<Result<_, _>>().unwrap();
    assert_eq!(stream.len(), texts.len());
    for (index, vector) in stream.iter().enumerate() {
        assert_eq!(vector.len(), embedder.dimensions());
        let apart = vector
            .iter()
            .zip(&batch[index % 97])
            .map(|(a, b)| (a - b).abs());
        // In this order NaN is the farthest apart.
        let worst = apart.max_by(f32::total_cmp).unwrap();
        assert!(worst < 1e-5, "row {index}: {worst}");
    }
}

#[test]
fn no_texts_give_no_vectors_and_an_empty_text_gives_one() {
    let mut embedder = embedder("bert-cls");
    assert!(embedder.embed::<&str>(&[]).unwrap().is_empty());
    assert_eq!(embedder.embed(&[""]).unwrap()[0].len(), 48);
    assert_eq!(embedder.stream(Vec::<String>::new()).count(), 0);
}

#[test]
fn a_text_without_tokens_gives_a_defined_vector() {
    let mut embedder = embedder("tok-no-special-tokens");
    let vectors = embedder.embed(&["", "a word"]).unwrap();
    assert!(vectors[0].iter().all(|value| value.is_finite()));
    assert_eq!(vectors[0].len(), vectors[1].len());
}
