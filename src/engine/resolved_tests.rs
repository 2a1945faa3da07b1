//! Which weights, which engine and which arithmetic follow from what the user said, with this program's engines.

use super::{Arithmetic, EngineOptions, Provider, ProviderChoice, Resolved, auto, installed};
use crate::cancel::CancelToken;
use crate::error::{ErrorKind, Result};
use crate::model::{ModelOptions, Precision, WeightsKind, WeightsPreference};

/// What follows from these options with this program's engines.
pub(crate) fn resolve(model: &ModelOptions, engine: &EngineOptions) -> Result<Resolved> {
    Resolved::of(model, engine, installed(), &CancelToken::new())
}

fn settled(
    providers: &str,
    precision: Option<Precision>,
    change: impl FnOnce(&mut ModelOptions, &mut EngineOptions),
) -> Result<(WeightsPreference, Arithmetic)> {
    let mut model = ModelOptions {
        precision,
        ..ModelOptions::default()
    };
    let mut engine = EngineOptions {
        providers: providers.parse().unwrap(),
        ..EngineOptions::default()
    };
    change(&mut model, &mut engine);
    let resolved = resolve(&model, &engine)?;
    Ok((resolved.files().weights, resolved.engine().arithmetic))
}

fn weights(providers: &str, precision: Option<Precision>) -> (&'static str, Arithmetic) {
    let (weights, arithmetic) = settled(providers, precision, |_, _| {}).unwrap();
    let name = match weights {
        WeightsPreference::Onnx => "onnx",
        WeightsPreference::Checkpoint(_) => "checkpoint",
        WeightsPreference::CheckpointFirst(_) => "checkpoint first",
        WeightsPreference::OnnxFirst(_) => "onnx first",
    };
    (name, arithmetic)
}

#[test]
fn weights_follow_from_providers_and_precision() {
    use Arithmetic::{Bf16, Fp32, Int8, Int16};
    for (providers, precision, expected) in [
        ("native", None, ("checkpoint", Fp32)),
        ("cpu,rten", None, ("onnx first", Fp32)),
        ("native,cpu", None, ("checkpoint first", Fp32)),
        ("cpu,native", None, ("onnx first", Fp32)),
        // GPUs compute a graph of the checkpoint.
        ("cuda", None, ("checkpoint first", Fp32)),
        ("tensorrt,cpu", None, ("checkpoint first", Fp32)),
        ("openvino,cuda", None, ("onnx first", Fp32)),
        ("webgpu", Some(Precision::Fp16), ("checkpoint first", Fp32)),
        ("webgpu", Some(Precision::Bf16), ("onnx first", Bf16)),
        ("cuda", Some(Precision::Int8), ("onnx", Int8)),
        // Nothing is probed, so no GPU goes first.
        ("auto", None, ("checkpoint first", Fp32)),
        ("auto", Some(Precision::Int8), ("checkpoint first", Int8)),
        ("auto", Some(Precision::Int16), ("checkpoint", Int16)),
        ("auto", Some(Precision::Bf16), ("checkpoint first", Bf16)),
        ("native", Some(Precision::Bf16), ("checkpoint", Bf16)),
        ("cpu", Some(Precision::Bf16), ("onnx first", Bf16)),
        ("auto", Some(Precision::Fp16), ("onnx first", Fp32)),
        ("cpu", Some(Precision::Int8), ("onnx", Int8)),
    ] {
        assert_eq!(
            weights(providers, precision),
            expected,
            "{providers} {precision:?}"
        );
    }
    let least = |_: &mut ModelOptions, engine: &mut EngineOptions| engine.min_cosine = Some(0.9);
    let (weights, _) = settled("auto", Some(Precision::Int8), least).unwrap();
    assert!(matches!(weights, WeightsPreference::Checkpoint(_)));
    let file = |model: &mut ModelOptions, _: &mut EngineOptions| {
        model.model_file = Some("onnx/model.onnx".into());
    };
    assert!(matches!(
        settled("auto", None, file).unwrap().0,
        WeightsPreference::Onnx
    ));
}

#[test]
fn gpus_go_first_where_libraries_are_probed() {
    let gpu = auto::order(true);
    assert!(gpu.len() == 3 || gpu[0].is_gpu());
}

#[test]
fn gpus_run_a_checkpoint_beside_an_onnx_file_unless_the_file_is_asked_for() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/models/all-MiniLM-L6-v2"
    );
    let taken = |providers: &str, change: &dyn Fn(&mut ModelOptions)| {
        let mut model = ModelOptions {
            model: folder.into(),
            ..ModelOptions::default()
        };
        change(&mut model);
        let engine = EngineOptions {
            providers: providers.parse().unwrap(),
            ..EngineOptions::default()
        };
        let model = resolve(&model, &engine).unwrap().open_files().unwrap();
        let ProviderChoice::List(list) = engine.providers else {
            return vec![Provider::Cuda.weights_of(&model)];
        };
        list.iter()
            .map(|provider| provider.weights_of(&model))
            .collect()
    };
    use WeightsKind::{Checkpoint, Onnx};
    let nothing = |_: &mut ModelOptions| {};
    assert_eq!(taken("auto", &nothing), [Checkpoint]);
    assert_eq!(
        taken("cuda,webgpu,native,cpu,openvino,xnnpack,rten", &nothing),
        [Checkpoint, Checkpoint, Checkpoint, Onnx, Onnx, Onnx, Onnx]
    );
    assert_eq!(taken("cpu,tensorrt", &nothing), [Onnx, Checkpoint]);
    let asked = |kind| move |model: &mut ModelOptions| model.kind = Some(kind);
    assert_eq!(taken("cuda", &asked(Onnx)), [Onnx]);
    assert_eq!(taken("cpu", &asked(Checkpoint)), [Checkpoint]);
    let named = |model: &mut ModelOptions| model.model_file = Some("onnx/model.onnx".into());
    assert_eq!(taken("cuda", &named), [Onnx]);
}

#[test]
fn bf16_is_arithmetic_where_all_providers_have_it_and_a_file_elsewhere() {
    let settled = |providers: &str, options: &[&str]| {
        let model = ModelOptions {
            precision: Some(Precision::Bf16),
            ..ModelOptions::default()
        };
        let options = options.iter().map(|option| option.parse().unwrap());
        let engine = EngineOptions {
            providers: providers.parse().unwrap(),
            provider_options: options.collect(),
            ..EngineOptions::default()
        };
        let resolved = resolve(&model, &engine).unwrap();
        let given = resolved.engine().provider_options.iter();
        let given: Vec<String> = given.map(ToString::to_string).collect();
        (resolved.files().onnx.precision, given)
    };
    let given = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        settled("openvino", &[]),
        (None, given(&["openvino.precision=bf16"]))
    );
    assert_eq!(
        settled("tensorrt,openvino", &[]),
        (
            None,
            given(&["tensorrt.precision=bf16", "openvino.precision=bf16"])
        )
    );
    // The provider's own failure comes last and is reported.
    assert_eq!(
        settled("openvino", &["openvino.precision=fp32"]).1,
        given(&["openvino.precision=bf16", "openvino.precision=fp32"])
    );
    for others in ["cpu", "openvino,cpu", "auto"] {
        assert_eq!(
            settled(others, &[]),
            (Some(Precision::Bf16), Vec::new()),
            "{others}"
        );
    }
}

#[test]
fn what_no_provider_can_do_is_refused_with_what_can_be_done() {
    for (providers, precision, words) in [
        ("native", Precision::Fp16, "fp32, bf16, int16 or int8"),
        ("cpu", Precision::Int16, "provider native"),
    ] {
        let error = settled(providers, Some(precision), |_, _| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(words), "{error}");
    }
    let file = |model: &mut ModelOptions, _: &mut EngineOptions| {
        model.model_file = Some("onnx/model.onnx".into());
    };
    let error = settled("native", None, file).unwrap_err();
    assert!(error.to_string().contains("--model-file"), "{error}");
}
