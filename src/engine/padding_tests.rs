//! How far padding moves vectors of models, as an exact engine here says it.

use super::resolved_tests::resolve;
use super::{EngineOptions, padding};
use crate::cancel::CancelToken;
use crate::model::{ModelOptions, WeightsKind};

#[test]
fn an_exact_engine_tells_models_that_padding_changes() {
    // By how much, if by anything.
    const MOST: f32 = 1e-5;
    let (some, little) = (MOST..f32::MAX, MOST..5e-3);
    for (case, expected) in [
        ("padding-neighbours", some.clone()),
        ("padding-neighbours-slightly", little),
        ("padding-convolutions", some.clone()),
        ("padding-graph-without-mask", some),
        ("bert-cls", 0.0..MOST),
        ("roberta-mean", 0.0..MOST),
    ] {
        let options = ModelOptions {
            kind: Some(WeightsKind::Onnx),
            model: format!("fixtures/parity/{case}/model"),
            ..ModelOptions::default()
        };
        let resolved = resolve(&options, &EngineOptions::default()).unwrap();
        let model = resolved.open_files().unwrap();
        let apart = padding::moved_exactly(&model, &resolved, &CancelToken::new()).unwrap();
        assert!(expected.contains(&apart), "{case}: {apart}");
    }
}
