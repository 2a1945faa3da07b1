//! Tests that need a library: they find it as the program does, and say so where there is none.

use std::io::Write;
use std::path::Path;

use super::source::{BuiltSource, GraphSource};
use super::*;
use crate::built::tests::FixtureCase;
use crate::built::{self, FloatType, GraphForm, STATES};
use crate::runtime::library::Library;
use crate::runtime::registration::{self, session_builder};
use embedctl_common::cancel::CancelToken;
use embedctl_engine::Output;
use embedctl_model::{ModelOptions, ModelTask, ScoreTask, WeightsPreference};
use embedctl_native::PlainNetwork;
use embedctl_rows::batch::Batch;
use embedctl_rows::pool::PoolingRule;
use embedctl_testing::apart;
use ort::session::builder::SessionBuilder;

/// Opens `model` with a library of this process's own choice.
pub(super) fn open(
    model: &Model,
    options: &EngineOptions,
    provider: Provider,
    passed_over: &[SkippedCandidate],
) -> Result<Box<dyn Engine>> {
    let cancel = CancelToken::new();
    let selection = LibrarySelection::new(&options.runtime, 0, true, &cancel);
    let resolved = ResolvedEngine {
        options: options.clone(),
        ..ResolvedEngine::default()
    };
    super::open(model, &resolved, provider, &selection, passed_over)
}

pub(super) fn cpu_library() -> Result<Library> {
    let (options, cancel) = (EngineOptions::default(), CancelToken::new());
    LibrarySelection::new(&options.runtime, 0, true, &cancel).library(Provider::Cpu)
}

/// Whether ONNX Runtime is here. Where it must be (`EMBEDCTL_TEST_REQUIRE=ort`), its absence fails.
pub(super) fn library_is_here(test: &str) -> bool {
    match cpu_library() {
        Ok(_) => true,
        Err(error) => {
            let required = std::env::var("EMBEDCTL_TEST_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|one| one == "ort"), "{error}");
            // Past the test harness, which hides a passing test's output.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {test} needs ONNX Runtime ({error})"
            );
            false
        }
    }
}

fn model(folder: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join("fixtures")
        .join(folder);
    let options = ModelOptions {
        model_file: folder
            .join("onnx/model_fp16.onnx")
            .exists()
            .then(|| "onnx/model_fp16.onnx".into()),
        model: folder.to_str().unwrap().into(),
        ..ModelOptions::default()
    };
    Model::open(&options, WeightsPreference::Onnx).unwrap()
}

pub(super) fn options(workers: usize) -> EngineOptions {
    EngineOptions {
        workers,
        ..EngineOptions::default()
    }
}

fn open_cpu(model: &Model, workers: usize) -> Box<dyn Engine> {
    open(model, &options(workers), Provider::Cpu, &[]).unwrap()
}

/// Two rows of different lengths.
fn batch() -> Batch {
    Batch {
        ids: vec![2, 5, 7, 3, 2, 9, 3],
        types: Vec::new(),
        ends: vec![4, 7],
        seen: Vec::new(),
    }
}

pub(super) fn states(worker: &mut dyn Worker) -> Vec<f32> {
    let batch = batch();
    let output = worker.run(&batch).unwrap();
    assert!(output.fits(&batch));
    let rows = (0..batch.rows()).flat_map(|row| output.row(&batch, row));
    rows.copied().collect()
}

#[test]
fn workers_over_shared_weights_compute_what_a_single_one_does() {
    if !library_is_here("sharing weights") {
        return;
    }
    for folder in [
        "models/all-MiniLM-L6-v2",
        "parity/bert-cls",
        "parity/family-modernbert",
        "parity/graph-int32-inputs",
        "parity/graph-past-key-values",
        "parity/graph-pooled-only-dense",
        "parity/graph-position-ids-roberta",
        "parity/weights-external-data",
        "parity/weights-fp16",
    ] {
        let inner = if folder.starts_with("parity") {
            "/model"
        } else {
            ""
        };
        let model = model(&format!("{folder}{inner}"));
        let single = open_cpu(&model, 1);
        let expected = states(single.worker().unwrap().as_mut());
        assert!(expected.iter().all(|state| state.is_finite()), "{folder}");
        let engine = open_cpu(&model, 3);
        // A reason here would say why the weights are not shared.
        assert!(
            engine.info().passed_over.is_empty(),
            "{folder}: {:?}",
            engine.info()
        );
        // One more than was announced: it gets a session with weights of its own.
        let mut workers: Vec<_> = (0..4).map(|_| engine.worker().unwrap()).collect();
        drop(engine);
        for worker in &mut workers {
            let got = states(worker.as_mut());
            let worst = apart(&got, &expected);
            assert!(worst < 1e-5, "{folder}: {worst}");
        }
    }
}

#[test]
fn a_worker_runs_one_shape_after_another() {
    if !library_is_here("changing shapes") {
        return;
    }
    let model = model("parity/bert-cls/model");
    let engine = open_cpu(&model, 1);
    let mut worker = engine.worker().unwrap();
    let first = states(worker.as_mut());
    let long = Batch {
        ids: vec![5; 9],
        types: Vec::new(),
        ends: vec![9],
        seen: Vec::new(),
    };
    let output = worker.run(&long).unwrap();
    assert!(matches!(output, Output::Padded { length: 9, .. }));
    assert!(output.fits(&long));
    assert_eq!(states(worker.as_mut()), first);
}

#[test]
fn a_failing_batch_is_an_error_and_the_worker_goes_on() {
    if !library_is_here("failing batches") {
        return;
    }
    let model = model("parity/bert-cls/model");
    let engine = open_cpu(&model, 1);
    let mut worker = engine.worker().unwrap();
    let unknown = Batch {
        ids: vec![1 << 20; 7],
        ..batch()
    };
    let reason = worker.run(&unknown).unwrap_err().to_string();
    assert!(reason.contains("2 rows of 4 tokens"), "{reason}");
    assert!(!states(worker.as_mut()).is_empty());
}

#[test]
fn a_model_that_cannot_be_loaded_is_named_with_the_librarys_words() {
    if !library_is_here("broken models") {
        return;
    }
    let mut model = model("parity/bert-cls/model");
    let folder = tempfile::TempDir::new().unwrap();
    let cut = folder.path().join("cut.onnx");
    let onnx = model.onnx.as_mut().unwrap();
    let whole = std::fs::read(&onnx.path).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    onnx.path = cut;
    for workers in [1, 2] {
        let error = open(&model, &options(workers), Provider::Cpu, &[])
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("cut.onnx"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_provider_that_the_library_lacks_is_refused_in_its_words() {
    if !library_is_here("refused providers") {
        return;
    }
    let model = model("parity/bert-cls/model");
    for provider in [Provider::MiGraphX, Provider::WebGpu] {
        let failure = open(&model, &options(1), provider, &[])
            .map(|_| ())
            .unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Provider);
        let text = failure.to_string();
        assert!(text.contains(provider.name()), "{text}");
    }
}

#[test]
fn a_device_that_the_processor_does_not_have_is_refused() {
    if !library_is_here("the processor's devices") {
        return;
    }
    let model = model("parity/bert-cls/model");
    let options = EngineOptions {
        devices: vec![1],
        ..options(1)
    };
    let error = open(&model, &options, Provider::Cpu, &[])
        .map(|_| ())
        .unwrap_err();
    assert!(error.kind() == ErrorKind::Usage, "{error:?}");
}

/// Runs the model as a device would: pooled in the graph, tensors bound, two workers in one session.
#[test]
fn pooling_in_the_graph_gives_what_pooling_afterwards_does() {
    if !library_is_here("pooling in the graph") {
        return;
    }
    for folder in [
        "models/all-MiniLM-L6-v2",
        "parity/bert-cls/model",
        "parity/pool-max/model",
        "parity/pool-mean-sqrt-len/model",
        "parity/pool-weightedmean-booleans/model",
        "parity/pool-lasttoken-encoder/model",
        "parity/pool-list-order/model",
        "parity/pool-booleans-concat/model",
        "parity/graph-past-key-values/model",
        "parity/graph-int32-inputs/model",
        "parity/qwen3-lasttoken/model",
        "parity/weights-external-data/model",
        "parity/weights-fp16/model",
    ] {
        let model = model(folder);
        let pooler = embedctl_rows::pool::Pooler::new(&model.config, 0);
        let batch = batch();
        let (mut pooled, mut expected) = (Vec::new(), Vec::new());
        let engine = open_cpu(&model, 1);
        let mut worker = engine.worker().unwrap();
        let output = worker.run(&batch).unwrap();
        assert!(matches!(output, Output::Padded { .. }), "{folder}");
        for row in 0..batch.rows() {
            let states = output.row(&batch, row);
            pooler.pool(states, output.width(), batch.row(row), &mut pooled);
        }
        pooler.finish_rows(pooled, batch.rows(), &mut expected);

        let library = cpu_library().unwrap();
        let feeds = Arc::new(
            Feeds::of(&model, &model.onnx().unwrap().graph, &model.config.output).unwrap(),
        );
        let opener = Opener::as_a_device(library, &model, feeds);
        let session = Arc::new(Mutex::new(opener.session().unwrap()));
        for bound in [false, true] {
            let mut workers: Vec<OrtWorker> = (0..2)
                .map(|_| {
                    OrtWorker::new(Arc::clone(&session), None, opener.reading.clone()).unwrap()
                })
                .collect();
            for worker in &mut workers {
                if bound {
                    worker.bind(binding::OutputMemory::Plain).unwrap();
                }
                // Another shape before and after: bound tensors must follow.
                let other = Batch {
                    ids: batch.ids.clone(),
                    types: Vec::new(),
                    ends: vec![batch.ids.len()],
                    seen: Vec::new(),
                };
                worker.run(&other).unwrap();
                let Output::Pooled { rows, width } = worker.run(&batch).unwrap() else {
                    panic!("{folder}: not pooled");
                };
                assert!(pooler.accepts_pooled(width), "{folder}: width {width}");
                let mut ours = Vec::new();
                pooler.finish_rows(rows.to_vec(), rows.len() / width, &mut ours);
                let worst = apart(&ours, &expected);
                assert!(worst < 1e-5, "{folder}: {worst}");
            }
        }
    }
}

/// A checkpoint that scores.
fn scoring(case: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/scores")
        .join(case)
        .join("model");
    let options = ModelOptions {
        model: folder.to_str().unwrap().into(),
        task: ModelTask::Score(ScoreTask {
            pairs: true,
            ..ScoreTask::default()
        }),
        ..ModelOptions::default()
    };
    Model::open(&options, WeightsPreference::Checkpoint(|_| Ok(()))).unwrap()
}

/// What the check at the start finds where a graph pools by `rule`.
fn checked(model: &Model, opener: &Opener, rule: PoolingRule) -> Result<Option<f64>> {
    let session = Arc::new(Mutex::new(opener.session().unwrap()));
    let reading = SessionReading {
        feeds: Arc::clone(&opener.reading.feeds),
        pooling: Some(rule.into()),
    };
    let mut worker = OrtWorker::new(session, None, reading.clone()).unwrap();
    let graph = agreement::CheckedGraph {
        shown: Path::new("the model"),
        stored_bytes: 0,
        rough: false,
        narrow: None,
    };
    let reference = || {
        let library = cpu_library().unwrap();
        let builder = session_builder(&library.environment).unwrap();
        let builder = registration::on_cpu(builder, &library.environment).unwrap();
        let reference = opener.source.load_exact(builder, &CancelToken::new());
        Some(reference.unwrap())
    };
    agreement::check(
        Provider::Cpu,
        &reading,
        &graph,
        reference,
        model,
        &mut worker,
    )
}

#[test]
fn the_check_at_the_start_sees_that_other_tokens_are_pooled() {
    if !library_is_here("the check of pooling") {
        return;
    }
    let mut seen = 0;
    for case in ["gemma", "qwen2", "qwen3", "bert"] {
        let model = scoring(case);
        let options = ResolvedEngine::default();
        let graph = ModelGraph::of(&model, Provider::Cpu, &options).unwrap();
        let feeds = Arc::new(Feeds::of(&model, &graph.declared, &graph.output).unwrap());
        let opener = Opener::as_a_device(cpu_library().unwrap(), &model, feeds);
        let rule = model.config.pooled_in_graph().unwrap();
        let cosine = checked(&model, &opener, rule).unwrap().unwrap();
        assert!(cosine > 0.99999, "{case}: {cosine}");
        // As a graph pooled that knew the mask alone.
        let mut blind = model.config.clone();
        blind.not_last = None;
        let of_mask = checked(&model, &opener, blind.pooled_in_graph().unwrap());
        let takes_another = model.config.not_last.is_some();
        assert_eq!(of_mask.is_err(), takes_another, "{case}: {of_mask:?}");
        seen += usize::from(takes_another);
    }
    assert_eq!(seen, 3);
    // The modules before its pooling are the processor's.
    assert_eq!(scoring("eurobert-late").config.pooled_in_graph(), None);
}

/// The states that the CPU provider gives for a built graph's case, padded.
fn built_states(case: &FixtureCase, form: GraphForm) -> Result<Vec<f32>, String> {
    let library = cpu_library().map_err(|error| error.to_string())?;
    let builder = session_builder(&library.environment)
        .and_then(|builder| registration::on_cpu(builder, &library.environment))
        .map_err(|error| with_causes(&error))?;
    states_of(case, form, builder)
}

/// The inputs of `session`, a built graph's, for a case.
pub(super) fn built_inputs(
    case: &FixtureCase,
    session: &Session,
) -> Vec<(&'static str, ort::session::SessionInputValue<'static>)> {
    let shape = [case.ids.len(), case.longest()];
    let names = ["input_ids", "attention_mask", "token_type_ids"];
    let declared: Vec<String> = session
        .inputs()
        .iter()
        .map(|input| input.name().to_owned())
        .collect();
    names
        .into_iter()
        .zip(case.padded())
        .filter(|(name, _)| declared.iter().any(|one| one == name))
        .map(|(name, values)| {
            let values: Vec<i64> = values.into_iter().map(i64::from).collect();
            (
                name,
                ort::value::Tensor::from_array((shape, values))
                    .unwrap()
                    .into(),
            )
        })
        .collect()
}

/// The states that a session of `builder` gives for a built graph's case, padded.
pub(super) fn states_of(
    case: &FixtureCase,
    form: GraphForm,
    builder: SessionBuilder,
) -> Result<Vec<f32>, String> {
    let (network, _) = case.built(form);
    let form = GraphForm {
        longest: case.longest(),
        typed: case.is_typed(),
        ..form
    };
    let source =
        BuiltSource::of_network(Arc::new(network), form).map_err(|error| error.to_string())?;
    let mut session = GraphSource::from(source)
        .load(builder, &CancelToken::new())
        .map_err(|error| with_causes(&error))?;
    let inputs = built_inputs(case, &session);
    let outputs = session.run(inputs).map_err(|error| with_causes(&error))?;
    let (_, states) = outputs[STATES]
        .try_extract_tensor::<f32>()
        .map_err(|error| with_causes(&error))?;
    Ok(states.to_vec())
}

#[test]
fn every_architecture_gives_the_references_states_from_a_built_graph() {
    if !library_is_here("building graphs") {
        return;
    }
    let mut wrong = Vec::new();
    for case in built::tests::cases() {
        for narrow_tables in [false, true] {
            let form = GraphForm {
                narrow_tables,
                ..GraphForm::default()
            };
            match built_states(&case, form).map(|states| case.apart(&states)) {
                Ok(apart) if apart <= built::tests::TOLERANCE => {}
                other => wrong.push(format!("{}, {narrow_tables}: {other:?}", case.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_architecture_stays_near_the_references_states_in_half_precision() {
    if !library_is_here("half precision") {
        return;
    }
    let mut wrong = Vec::new();
    for case in built::tests::cases() {
        let form = GraphForm {
            float: FloatType::F16,
            ..GraphForm::default()
        };
        let cosine = built_states(&case, form).map(|states| {
            let own = case.own(&states);
            embedctl_engine::Cosine::between(&own, &case.states)
        });
        // Networks this narrow are far harder on few bits than real ones.
        if !cosine.as_ref().is_ok_and(|cosine| *cosine >= 0.9999) {
            wrong.push(format!("{}: {cosine:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_weight_that_half_precision_does_not_hold_is_refused_by_name_and_bfloat16_holds_it() {
    let case = built::tests::cases().remove(0);
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(case.folder.join(file), folder.path().join(file)).unwrap();
    }
    let weights = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    // The last four bytes are a number of single precision of the last tensor.
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&70_000.0_f32.to_le_bytes());
    std::fs::write(&weights, bytes).unwrap();
    let network = PlainNetwork::open(folder.path(), None).unwrap();
    let read = |float: FloatType| {
        let form = GraphForm {
            float,
            ..GraphForm::default()
        };
        let graph = built::BuiltGraph::build(&network, form)?;
        graph.weights().iter().try_for_each(|weight| {
            let mut out = vec![0; weight.bytes()];
            weight.read(&network, &mut out)
        })
    };
    let error = read(FloatType::F16).unwrap_err().to_string();
    assert!(error.contains("70000") && error.contains("bf16"), "{error}");
    read(FloatType::Bf16).unwrap();
    read(FloatType::F32).unwrap();
}
