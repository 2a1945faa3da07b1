//! Vectors of the real binary against sentence-transformers' own, every row of every case, on both
//! engines; and the engines against each other.
//!
//! Other providers than the CPU take part where `EMBEDCTL_TEST_PROVIDERS` lists them with their libraries:
//! `openvino:/path/to/libonnxruntime.so,webgpu+plugin:/path/to/another`, where `+plugin` says that it must come
//! from a plug-in around that library. `benches/providers/run.sh` gets the libraries and sets it.
//!
//! Cases live in `fixtures/parity` (how they were made: `fixtures/parity/README.md`). A case's reference
//! was made one text at a time, so agreement here also shows that batching changes nothing.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use embedctl_testing::stride;
use serde_json::Value;
use support::npy::Matrix;

const REAL: &str = "fixtures/models/all-MiniLM-L6-v2";

struct Case {
    name: String,
    folder: PathBuf,
    args: Vec<String>,
    tolerance: f32,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = std::fs::read_dir("fixtures/parity")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("case.json").exists())
        .map(|folder| {
            let case: Value =
                serde_json::from_slice(&std::fs::read(folder.join("case.json")).unwrap()).unwrap();
            let args = case["args"].as_array().unwrap().iter();
            #[allow(clippy::cast_possible_truncation)]
            Case {
                name: folder.file_name().unwrap().to_string_lossy().into_owned(),
                args: args.map(|arg| arg.as_str().unwrap().to_string()).collect(),
                tolerance: case["tolerance"].as_f64().unwrap() as f32,
                folder,
            }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 60, "only {} parity cases found", cases.len());
    cases
}

impl Case {
    /// Whether an engine has something to run: the native engine a checkpoint, all others a graph.
    fn is_for(&self, engine: &Engine) -> bool {
        let model = self.folder.join("model");
        if engine.built {
            // The network's own, without those that choose another file.
            let chooses = |arg: &String| arg == "--model-file" || arg == "--precision";
            let config = std::fs::read(model.join("config.json")).unwrap_or_default();
            let config: Value = serde_json::from_slice(&config).unwrap_or_default();
            let is_network = config["model_type"]
                .as_str()
                .is_some_and(|kind| kind != "model2vec");
            model.join("model.safetensors").exists() && is_network && !self.args.iter().any(chooses)
        } else if engine.provider == "native" {
            let places = ["model.safetensors", "0_StaticEmbedding/model.safetensors"];
            places.iter().any(|place| model.join(place).exists())
        } else {
            model.join("onnx").exists()
        }
    }
}

/// An engine, and the library that it needs.
struct Engine {
    provider: String,
    library: Option<PathBuf>,
    /// Whether it comes from a plug-in.
    plugged: bool,
    /// Whether it runs graphs that are built from checkpoints, beside ONNX files or not.
    built: bool,
    /// Whether these graphs pool their rows, as those of GPUs do.
    pools: bool,
    /// The factor of a case's tolerance: other kernels add in another order.
    slack: f32,
    /// Cases that the provider itself cannot run, or gets wrong: they must be refused.
    faulty: &'static [&'static str],
}

fn native() -> Engine {
    Engine {
        provider: "native".into(),
        ..rten()
    }
}

fn rten() -> Engine {
    Engine {
        provider: "rten".into(),
        library: None,
        plugged: false,
        built: false,
        pools: false,
        slack: 1.0,
        faulty: &[],
    }
}

/// Words of its refusal.
const REFUSED: [&str; 3] = [
    "computes this model wrongly",
    "matrix products to the CPU",
    "it lacks the operator",
];

/// The ending of a provider's name that comes from a plug-in.
const PLUGGED: &str = "+plugin";

/// The providers in `EMBEDCTL_TEST_PROVIDERS`, for the test named `test`; without any it is skipped.
fn others(test: &str) -> Vec<Engine> {
    let list = std::env::var("EMBEDCTL_TEST_PROVIDERS").unwrap_or_default();
    let engines: Vec<Engine> = list
        .split(',')
        .filter_map(|one| one.trim().split_once(':'))
        .map(|(provider, library)| Engine {
            provider: provider.trim_end_matches(PLUGGED).into(),
            library: Some(library.into()),
            plugged: provider.ends_with(PLUGGED),
            built: false,
            pools: false,
            slack: 2.5,
            faulty: match provider.trim_end_matches(PLUGGED) {
                // ONNX Runtime 1.27 and the plug-in 0.4.0: `And` of masks [1, 1, n, n] and [1, 1, n, 1] is wrong where n is a
                // multiple of four, and local attention is built from it.
                // Neither has opset 23's `Attention`.
                "webgpu" => &[
                    "family-modernbert",
                    "graph-opset-23-encoder",
                    "graph-opset-23-grouped-queries",
                ],
                // 2025.4 refuses `Attention`, the plug-in leaves it to the CPU.
                "openvino" => &["graph-opset-23-encoder", "graph-opset-23-grouped-queries"],
                _ => &[],
            },
        })
        .collect();
    if engines.is_empty() {
        let _: Option<()> = support::skip(test, "providers", "EMBEDCTL_TEST_PROVIDERS");
    }
    engines
}

/// ONNX Runtime, for the test named `test`; `None` where the test is to be skipped.
fn onnxruntime(test: &str) -> Option<Engine> {
    let library = support::onnxruntime(test)?;
    Some(Engine {
        provider: "cpu".into(),
        library: Some(library),
        plugged: false,
        built: false,
        pools: false,
        slack: 1.0,
        faulty: &[],
    })
}

/// Runs the binary on a file of texts and returns what it wrote.
fn embed(model: &Path, texts: &Path, engine: &Engine, args: &[String]) -> Result<Matrix, String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.npy");
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command.env("EMBEDCTL_NO_CONFIG", "1");
    command
        .arg("embed")
        .arg(texts)
        .arg("-m")
        .arg(model)
        .arg("-o")
        .arg(&out);
    command
        .args(["-i", "jsonl", "-q", "-p", &engine.provider])
        .args(args);
    if engine.built {
        command.args(["--weights", "safetensors"]);
    } else if engine.provider == "webgpu" {
        // GPUs prefer checkpoints.
        command.args(["--weights", "onnx"]);
    }
    if engine.pools {
        command.args(["--provider-option", "cpu.pooling=graph"]);
    }
    if let Some(library) = &engine.library {
        command.env("EMBEDCTL_ORT_LIB", library);
    }
    if engine.provider == "openvino" && !engine.plugged {
        // With AVX-512, OpenVINO 2025.4 crashes on decoders whose heads are not a multiple of 16 wide, as
        // those of the cases are and no real model's.
        command.env("ONEDNN_MAX_CPU_ISA", "AVX2");
    }
    let output = command.output().unwrap();
    if output.status.success() {
        let sidecar = std::fs::read(folder.path().join("out.npy.json")).unwrap();
        let sidecar: Value = serde_json::from_slice(&sidecar).unwrap();
        let plugin = sidecar["engine"].get("plugin");
        assert_eq!(plugin.is_some(), engine.plugged, "{plugin:?}");
        let built = sidecar["engine"].get("built_graph").and_then(Value::as_str);
        assert_eq!(built, engine.built.then_some("fp32"));
        Ok(Matrix::read(&out))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The difference between two matrices beyond `tolerance`, if there is one.
fn difference(ours: &Matrix, expected: &Matrix, tolerance: f32) -> Option<String> {
    if (ours.rows, ours.width) != (expected.rows, expected.width) {
        return Some(format!(
            "{} × {} instead of {} × {}",
            ours.rows, ours.width, expected.rows, expected.width
        ));
    }
    let worst = (0..ours.rows)
        .map(|row| (row, support::npy::apart(ours.row(row), expected.row(row))))
        .filter(|(_, apart)| apart.is_nan() || *apart > tolerance)
        .collect::<Vec<_>>();
    let most = worst.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "{} of {} rows differ, row {} by {} (allowed: {tolerance})",
        worst.len(),
        ours.rows,
        most.0,
        most.1
    ))
}

fn check_cases(engine: &Engine) {
    let mut failures = Vec::new();
    let mut cases = cases();
    cases.retain(|case| case.is_for(engine));
    assert!(
        cases.len() >= if engine.built { 30 } else { 60 },
        "only {} cases for {}",
        cases.len(),
        engine.provider
    );
    let stride = support::cases::stride_on(&engine.provider);
    for case in cases.into_iter().step_by(stride) {
        let expected = Matrix::read(&case.folder.join("expected.npy"));
        let failure = match embed(
            &case.folder.join("model"),
            &case.folder.join("texts.jsonl"),
            engine,
            &case.args,
        ) {
            Ok(ours) => difference(&ours, &expected, case.tolerance * engine.slack),
            Err(error)
                if engine.faulty.contains(&case.name.as_str())
                    && REFUSED.iter().any(|words| error.contains(words)) =>
            {
                None
            }
            Err(error) => Some(error),
        };
        failures.extend(failure.map(|failure| format!("{}: {failure}", case.name)));
    }
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        engine.provider,
        failures.join("\n")
    );
}

/// The texts of the real model's reference and their vectors: all in CI, and a third of them elsewhere.
fn real_reference() -> (tempfile::NamedTempFile, Matrix) {
    let reference = Path::new(REAL).join("reference");
    let texts = std::fs::read_to_string(reference.join("texts.jsonl")).unwrap();
    let some: String = (texts.split_inclusive('\n').step_by(stride(3))).collect();
    let file = tempfile::NamedTempFile::with_suffix(".jsonl").unwrap();
    std::fs::write(file.path(), some).unwrap();
    let expected = Matrix::read(&reference.join("expected.npy"));
    (file, expected.step_by(stride(3)))
}

fn check_real(engine: &Engine) {
    let (texts, expected) = real_reference();
    let ours = embed(Path::new(REAL), texts.path(), engine, &[]).unwrap();
    assert_eq!((ours.rows, ours.width), (expected.rows, expected.width));
    for row in 0..ours.rows {
        let cosine = support::npy::cosine(ours.row(row), expected.row(row));
        assert!(
            cosine > 0.999,
            "{}: row {row} has cosine {cosine}",
            engine.provider
        );
    }
}

#[test]
fn every_case_equals_the_reference_on_the_engine_inside() {
    check_cases(&native());
}

#[test]
fn the_real_model_equals_the_reference_on_the_engine_inside_in_every_precision() {
    let (texts, expected) = real_reference();
    for (precision, least, apart) in [
        ("fp32", 0.999_999, 3e-4),
        ("int16", 0.9999, 1e-2),
        ("int8", 0.998, 5e-2),
    ] {
        let args = ["--precision".to_owned(), precision.to_owned()];
        let ours = embed(Path::new(REAL), texts.path(), &native(), &args).unwrap();
        assert_eq!(difference(&ours, &expected, apart), None, "{precision}");
        for row in 0..ours.rows {
            let cosine = support::npy::cosine(ours.row(row), expected.row(row));
            assert!(
                cosine >= least,
                "{precision}: row {row} has the cosine {cosine}"
            );
        }
    }
}

#[test]
fn every_case_equals_the_reference_on_rten() {
    check_cases(&rten());
}

#[test]
fn every_case_equals_the_reference_on_onnxruntime() {
    if let Some(engine) = onnxruntime("every_case_equals_the_reference_on_onnxruntime") {
        check_cases(&engine);
    }
}

#[test]
fn the_real_model_equals_the_reference_on_rten() {
    check_real(&rten());
}

#[test]
fn the_real_model_equals_the_reference_on_onnxruntime() {
    if let Some(engine) = onnxruntime("the_real_model_equals_the_reference_on_onnxruntime") {
        check_real(&engine);
    }
}

/// The same engine on graphs that are built from checkpoints.
fn built(engine: Engine) -> Engine {
    Engine {
        built: true,
        faulty: &[],
        ..engine
    }
}

#[test]
fn every_checkpoint_equals_the_reference_as_a_built_graph_on_rten() {
    check_cases(&built(rten()));
}

#[test]
fn every_checkpoint_equals_the_reference_as_a_built_graph_on_onnxruntime() {
    let test = "every_checkpoint_equals_the_reference_as_a_built_graph_on_onnxruntime";
    if let Some(engine) = onnxruntime(test) {
        check_cases(&built(engine));
    }
}

#[test]
fn every_checkpoint_equals_the_reference_with_pooling_in_the_graph() {
    let test = "every_checkpoint_equals_the_reference_with_pooling_in_the_graph";
    if let Some(engine) = onnxruntime(test) {
        check_cases(&Engine {
            pools: true,
            ..built(engine)
        });
    }
}

#[test]
fn every_checkpoint_equals_the_reference_as_a_built_graph_on_other_providers() {
    for engine in
        others("every_checkpoint_equals_the_reference_as_a_built_graph_on_other_providers")
    {
        check_cases(&built(engine));
    }
}

#[test]
fn the_real_model_equals_the_reference_as_a_built_graph() {
    check_real(&built(rten()));
    if let Some(engine) = onnxruntime("the_real_model_equals_the_reference_as_a_built_graph") {
        check_real(&built(engine));
    }
}

#[test]
fn every_case_equals_the_reference_on_other_providers() {
    for engine in others("every_case_equals_the_reference_on_other_providers") {
        check_cases(&engine);
    }
}

#[test]
fn the_real_model_equals_the_reference_on_other_providers() {
    for engine in others("the_real_model_equals_the_reference_on_other_providers") {
        check_real(&engine);
    }
}

#[test]
fn the_engines_agree_on_the_real_model() {
    let Some(engine) = onnxruntime("the_engines_agree_on_the_real_model") else {
        return;
    };
    let texts = Path::new(REAL).join("reference/texts.jsonl");
    let [rten, ort] =
        [&rten(), &engine].map(|one| embed(Path::new(REAL), &texts, one, &[]).unwrap());
    assert_eq!(difference(&rten, &ort, 1e-4), None);
}
