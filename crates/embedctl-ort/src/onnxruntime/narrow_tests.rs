//! Graphs whose products stay in a checkpoint's fp16 or bf16: their numbers, and when products are wide.

use std::path::Path;
use std::sync::Arc;

use ort::session::builder::SessionBuilder;
use serde_json::Value;

use super::opener::WIDEN_FOR_GOOD;
use super::tests::{built_inputs, cpu_library, library_is_here, open, options, states, states_of};
use super::*;
use crate::built::tests::{FixtureCase, TOLERANCE, cases};
use crate::built::{FloatType, GraphForm};
use crate::runtime::registration::{on_cpu, session_builder};
use embedctl_common::cancel::CancelToken;
use embedctl_model::{ModelOptions, WeightsPreference};
use embedctl_testing::apart;

use super::source::{BuiltSource, GraphSource};

/// Pieces as narrow as they can be, so that the small products of fixtures have several.
const FORM: GraphForm = GraphForm {
    float: FloatType::F32,
    narrow_tables: true,
    widened_pieces: Some(1),
    longest: 512,
    terms: None,
    typed: false,
};

/// A session's options, as the opener has them for narrow products.
fn builder() -> SessionBuilder {
    let library = cpu_library().unwrap();
    let builder = session_builder(&library.environment).unwrap();
    let builder = on_cpu(builder, &library.environment).unwrap();
    let entry = "optimization.disable_specified_optimizers";
    builder.with_config_entry(entry, WIDEN_FOR_GOOD).unwrap()
}

/// The cases with narrow products, and their types.
fn narrow_cases() -> Vec<(FixtureCase, FloatType)> {
    let cases = cases().into_iter();
    let narrow = cases.filter_map(|case| {
        let element = case.built(FORM).1.narrow_products()?;
        Some((case, element))
    });
    narrow.collect()
}

#[test]
fn every_narrow_checkpoint_gives_the_references_states_with_products_that_stay_so() {
    if !library_is_here("narrow products") {
        return;
    }
    let (mut wrong, mut seen) = (Vec::new(), [0, 0]);
    for (case, element) in narrow_cases() {
        match states_of(&case, FORM, builder()).map(|states| case.apart(&states)) {
            Ok(apart) if apart <= TOLERANCE => {}
            other => wrong.push(format!("{}: {other:?}", case.name)),
        }
        seen[usize::from(element == FloatType::Bf16)] += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen[0] >= 35 && seen[1] >= 30, "{seen:?}");
}

/// The nodes of one run in their order: whether each widens a matrix or multiplies by one.
fn run_order(case: &FixtureCase, source: BuiltSource) -> Vec<&'static str> {
    let folder = tempfile::tempdir().unwrap();
    let builder = builder()
        .with_profiling(folder.path().join("profile"))
        .unwrap();
    let source = GraphSource::from(source);
    let mut session = source.load(builder, &CancelToken::new()).unwrap();
    let inputs = built_inputs(case, &session);
    drop(session.run(inputs).unwrap());
    let profile = std::fs::read(session.end_profiling().unwrap()).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&profile).unwrap();
    let kernels = events.iter().filter_map(|event| {
        let name = event["name"].as_str()?;
        name.ends_with("_kernel_time").then_some(event)
    });
    let steps = kernels.filter_map(|event| {
        let first = event["args"]["input_type_shape"][0].as_object()?;
        let (element, dims) = first.iter().next()?;
        let is_matrix = dims.as_array().is_some_and(|dims| dims.len() == 2);
        match event["args"]["op_name"].as_str()? {
            "Cast" if is_matrix && element.contains("16") => Some("widens"),
            "MatMul" | "FusedMatMul" | "Gemm" => Some("multiplies"),
            _ => None,
        }
    });
    steps.collect()
}

#[test]
fn each_piece_of_a_narrow_product_is_widened_right_before_it_is_used() {
    if !library_is_here("when products are widened") {
        return;
    }
    let mut pieces = 0;
    for (case, _) in narrow_cases() {
        let network = Arc::new(embedctl_native::PlainNetwork::open(&case.folder, None).unwrap());
        let form = GraphForm {
            longest: case.longest(),
            ..FORM
        };
        let source = BuiltSource::of_network(network, form).unwrap();
        let weights = source.graph().weights().iter();
        let declared = weights.filter(|weight| weight.is_widened && weight.dims.len() == 2);
        let declared = declared.count();
        let steps = run_order(&case, source);
        let widened = steps.iter().filter(|step| **step == "widens").count();
        // Layers that share weights widen them each.
        assert!(
            declared > 0 && widened >= declared,
            "{}: {widened} of {declared}",
            case.name
        );
        let both = steps.windows(2).filter(|two| *two == ["widens"; 2]).count();
        assert_eq!(both, 0, "{}: {steps:?}", case.name);
        pieces = pieces.max(declared);
    }
    assert!(pieces > 20, "{pieces}");
}

/// A model of the parity fixtures, whose checkpoint is taken.
fn model(case: &str) -> Model {
    let folder = Path::new("../../fixtures/parity").join(case).join("model");
    let options = ModelOptions {
        model: folder.to_str().unwrap().into(),
        ..ModelOptions::default()
    };
    Model::open(&options, WeightsPreference::Checkpoint(|_| Ok(()))).unwrap()
}

fn narrow(workers: usize) -> EngineOptions {
    EngineOptions {
        provider_options: vec!["cpu.narrow-weights=true".parse().unwrap()],
        ..options(workers)
    }
}

#[test]
fn workers_of_narrow_products_compute_what_those_of_wide_ones_do() {
    if !library_is_here("workers of narrow products") {
        return;
    }
    for (case, element) in [
        ("latent-attention", "fp16"),
        ("tasks-in-the-checkpoint", "bf16"),
    ] {
        let model = model(case);
        let wide = open(&model, &options(2), Provider::Cpu, &[]).unwrap();
        assert_eq!(wide.info().narrow_weights, None, "{case}");
        let expected = states(wide.worker().unwrap().as_mut());
        let engine = open(&model, &narrow(2), Provider::Cpu, &[]).unwrap();
        assert_eq!(engine.info().narrow_weights, Some(element), "{case}");
        assert!(engine.memory() < wide.memory(), "{case}");
        // One more than was announced.
        let mut workers: Vec<_> = (0..3).map(|_| engine.worker().unwrap()).collect();
        drop(engine);
        for worker in &mut workers {
            let got = states(worker.as_mut());
            let worst = apart(&got, &expected);
            assert!(worst <= TOLERANCE, "{case}: {worst}");
        }
    }
}

#[test]
fn narrow_products_of_a_checkpoint_in_single_precision_are_refused() {
    if !library_is_here("refused narrow products") {
        return;
    }
    let model = model("family-qwen3");
    let refused = open(&model, &narrow(1), Provider::Cpu, &[]).map(drop);
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("narrow-weights"), "{error}");
}
