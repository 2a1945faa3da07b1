//! Every option decides a vector, or a reason is given; what earlier versions wrote is still read.

use std::path::Path;

use serde_json::{Map, Value};

use crate::cancel::CancelToken;
use crate::engine::resolved_tests::resolve;
use crate::engine::{Arithmetic, EngineInfo, EngineOptions, Provider};
use crate::identity::provenance::Provenance;
use crate::identity::*;
use crate::job::{Fingerprint, JobFile};
use crate::model::{
    ModelOptions, ModelTask, Precision, ScoreTask, TextRole, TextTask, WeightsKind,
};
use crate::output::{Calibration, Destination, Dtype, OutputFormat, OutputOptions, VectorType};
use crate::progress::Counts;
use crate::rows::PoolingMode;
use crate::storage::Readable;
use embedctl_kernels::Isa;
use embedctl_vectors::RowForm;

/// The identity of a run's vectors with these options.
struct Options {
    model: ModelOptions,
    engine: EngineOptions,
    output: OutputOptions,
}

/// Why an option changes an identity, or does not.
enum OptionVerdict {
    Decides,
    DoesNot(&'static str),
}
use OptionVerdict::{Decides, DoesNot};

type Row = (&'static str, fn(&mut Options), OptionVerdict);

/// A row for each field of a struct; the compiler refuses a field without one.
macro_rules! rows {
    ($struct:ident { $($field:ident: $change:expr => $verdict:expr,)+ }) => {{
        fn _all_fields(all: $struct) {
            let $struct { $($field: _),+ } = all;
        }
        [$((stringify!($field), $change as fn(&mut Options), $verdict)),+]
    }};
}

/// A model with weights of both kinds, with prompts and a Normalize module.
const MODEL: &str = "fixtures/parity/prompt-name-argument/model";

impl Options {
    fn new() -> Self {
        Self {
            model: ModelOptions {
                model: MODEL.to_owned(),
                ..ModelOptions::default()
            },
            engine: EngineOptions {
                providers: "native,rten".parse().unwrap(),
                ..EngineOptions::default()
            },
            output: OutputOptions::new(Destination::Path("a.npy".into())),
        }
    }

    fn changed(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::new();
        change(&mut options);
        options
    }

    /// The identity of a run with these options, and its provenance.
    fn run(&self) -> (VectorIdentity, Value) {
        let resolved = resolve(&self.model, &self.engine).unwrap();
        let model = resolved.open_files().unwrap();
        let engine = resolved.open_engine(&model, &CancelToken::new()).unwrap();
        let info = engine.info();
        let files = model.provenance(info.provider.weights_of(&model)).unwrap();
        let identity = of_output(&model, &self.output).unwrap();
        let made = Provenance::new(&model, &files, info, None, &Counts::default());
        let made = serde_json::to_value(&made).unwrap();
        (identity.with_engine(&model, &files, info), made)
    }

    fn identity(&self) -> VectorIdentity {
        self.run().0
    }
}

fn ranges(file: &str) -> Option<Calibration> {
    let folder = Path::new("fixtures/parity").join(file);
    let file = Readable::file(&folder.join("expected.npy")).unwrap();
    Some(Calibration::read(&file, &CancelToken::new()).unwrap())
}

const FILES: &str = "it says where files lie, and their hashes are compared";
const ROUNDING: &str = "it changes vectors by rounding at most";
const PLACE: &str = "it says where and how values stand, not which they are";

fn options() -> Vec<Row> {
    let model = rows!(ModelOptions {
        model: |all| all.model.model = "fixtures/parity/family-mpnet/model".into() => Decides,
        task: |all| {
            all.model.model = SCORES.into();
            all.model.task = scores(true, false);
        } => Decides,
        model_file: |all| all.model.model_file = Some("onnx/model.onnx".into()) => Decides,
        precision: |all| all.model.precision = Some(Precision::Int8) => Decides,
        kind: |all| all.model.kind = Some(WeightsKind::Onnx) => Decides,
        cache_dir: |all| all.model.cache_dir = Some("elsewhere".into()) => DoesNot(FILES),
        pooling: |all| all.model.pooling = Some(vec![PoolingMode::Max]) => Decides,
        normalize: |all| all.model.normalize = Some(false) => Decides,
        max_length: |all| all.model.max_length = Some(9) => Decides,
        prompt: |all| all.model.prompt = Some("p".into()) => Decides,
        prompt_name: |all| all.model.prompt_name = Some("query".into()) => Decides,
        dimensions: |all| all.model.dimensions = vec![8] => Decides,
        vectors: |all| all.model.vectors = vec![RowForm::Dense(vec![0])] => DoesNot("this model gives no others"),
        text_task: |all| all.model.text_task = Some(TextTask::Role(TextRole::Query)) => Decides,
        max_active_dims: |all| all.model.max_active_dims = Some(3) => DoesNot("this model's vectors are not sparse"),
        pool_factor: |all| all.model.pool_factor = Some(2.0) => DoesNot("this model gives one vector for a text"),
        late: |all| all.model.late = true => Decides,
    });
    let engine = rows!(EngineOptions {
        providers: |all| all.engine.providers = "rten".parse().unwrap() => Decides,
        devices: |all| all.engine.devices = vec![0] => DoesNot(ROUNDING),
        all_devices: |all| all.engine.all_devices = true => DoesNot(ROUNDING),
        provider_options: |all| {
            all.engine.provider_options = vec!["openvino.precision=bf16".parse().unwrap()];
        } => DoesNot("it is for a provider that is not taken here"),
        batch_tokens: |all| all.engine.batch_tokens = Some(64) => DoesNot(ROUNDING),
        min_cosine: |all| all.engine.min_cosine = Some(0.5) => DoesNot("it refuses vectors and changes none"),
        weights_cache: |all| all.engine.weights_cache = Some("elsewhere".into()) => DoesNot("it holds what would be computed"),
        runtime: |all| all.engine.runtime.library = Some("elsewhere".into()) => DoesNot(ROUNDING),
        workers: |all| all.engine.workers = 2 => DoesNot(ROUNDING),
    });
    let output = rows!(OutputOptions {
        destination: |all| all.output.destination = Destination::Path("b.npy".into()) => DoesNot(PLACE),
        format: |all| all.output.format = Some(OutputFormat::Parquet) => DoesNot(PLACE),
        force: |all| all.output.force = true => DoesNot(PLACE),
        dtype: |all| all.output.dtype = Some(Dtype::F16) => Decides,
        calibration: |all| all.output.calibration = ranges("bert-cls") => Decides,
        vector_type: |all| all.output.vector_type = Some(VectorType::List) => DoesNot(PLACE),
        embedding_field: |all| all.output.embedding_field = Some("v".into()) => DoesNot(PLACE),
        sparse_tokens: |all| all.output.sparse_tokens = true => DoesNot(PLACE),
    });
    model.into_iter().chain(engine).chain(output).collect()
}

#[test]
fn every_option_gives_another_identity_or_a_reason_why_not() {
    let usual = Options::new().identity();
    for (option, change, verdict) in options() {
        let found = usual.differences(&Options::changed(change).identity());
        match verdict {
            Decides => assert!(found.iter().any(|one| one.decides), "{option}: {found:?}"),
            DoesNot(why) => assert_eq!(found, [], "{option}: {why}"),
        }
    }
}

/// A reranker.
const SCORES: &str = "fixtures/scores/bert-three-labels/model";

fn scores(pairs: bool, softmax: bool) -> ModelTask {
    ModelTask::Score(ScoreTask { pairs, softmax })
}

#[test]
fn how_scores_are_made_is_part_of_their_identity() {
    let of = |pairs, softmax| {
        let options = Options::changed(|all| {
            all.model.model = SCORES.into();
            all.model.task = scores(pairs, softmax);
        });
        let (identity, made) = options.run();
        assert_eq!(
            VectorIdentity::of_provenance(&made).settings,
            identity.settings
        );
        identity
    };
    let usual = of(true, false);
    for (other, key) in [
        (of(false, false), "scores.pairs"),
        (of(true, true), "scores.softmax"),
    ] {
        let found = usual.differences(&other);
        assert!(
            found.iter().any(|one| one.key == key && one.decides),
            "{found:?}"
        );
    }
}

#[test]
fn a_cut_vector_that_was_not_normalized_before_is_another_one() {
    let model = |normalize| {
        Options::changed(|all| {
            all.model.model = "fixtures/parity/bert-cls/model".into();
            all.model.dimensions = vec![8];
            all.model.normalize = normalize;
        })
    };
    let [usual, raw, unit] = [None, Some(false), Some(true)].map(|it| model(it).identity());
    for (one, other) in [(&usual, &raw), (&usual, &unit), (&raw, &unit)] {
        assert_ne!(one.differences(other), []);
    }
}

#[test]
fn ranges_are_told_apart() {
    let with = |file| {
        let quantized = |all: &mut Options| {
            all.output.dtype = Some(Dtype::Int8);
            all.output.calibration = ranges(file);
        };
        Options::changed(quantized).identity()
    };
    let found = with("bert-cls").differences(&with("family-mpnet"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].key, "calibration");
}

#[test]
fn the_numbers_of_an_engine_are_part_of_the_identity() {
    let of = |info: &EngineInfo| {
        let made = serde_json::to_value(info).unwrap();
        let computation = Computation::of(info);
        assert_eq!(Computation::of_provenance(&made), computation, "{made}");
        computation
    };
    let native = |arithmetic: Arithmetic, version| EngineInfo {
        precision: Some(arithmetic.name()),
        arithmetic: version,
        ..EngineInfo::new("native", String::new(), Provider::Native)
    };
    let now = |arithmetic: Arithmetic| of(&native(arithmetic, arithmetic.version()));
    // As earlier outputs say it.
    let before = |name: &str| Computation {
        engine: "native".into(),
        precision: Some(name.into()),
        arithmetic: None,
    };
    assert_eq!(now(Arithmetic::Fp32), before("fp32"));
    for reduced in [Arithmetic::Int16, Arithmetic::Int8] {
        assert_eq!(of(&native(reduced, None)), before(reduced.name()));
        assert_ne!(now(reduced), before(reduced.name()));
    }
    let onnx = |options: &[&str]| {
        let options = options.iter().map(|option| option.parse().unwrap());
        of(&EngineInfo {
            options: options.collect(),
            ..EngineInfo::new("onnxruntime", "1".into(), Provider::OpenVino)
        })
    };
    assert_eq!(onnx(&[]).engine, "onnx");
    assert_eq!(
        onnx(&["openvino.threads=2", "openvino.precision=fp32"]),
        onnx(&[])
    );
    let bf16 = onnx(&["openvino.precision=fp32", "openvino.precision=bf16"]);
    assert_eq!(bf16.precision.as_deref(), Some("bf16"));
    // Earlier versions had other operators in a graph, and an option for them.
    let built = EngineInfo {
        built_graph: Some("fp16"),
        ..EngineInfo::new("onnxruntime", "1".into(), Provider::Cuda)
    };
    let mut then = serde_json::to_value(&built).unwrap();
    then["own_operators"] = vec!["BiasGelu"].into();
    then["options"] = vec!["cuda.operators=fused"].into();
    assert_eq!(Computation::of_provenance(&then), of(&built));
    // The native engine, and another one with the same files.
    assert_ne!(
        Computation {
            engine: "onnx".into(),
            ..before("fp32")
        },
        before("fp32")
    );
}

/// A graph of single precision that was built of weights gives the native engine's vectors, which names its precision.
#[test]
fn an_engine_that_names_no_precision_has_single() {
    let with_precision = |engine: &str, precision: Option<&str>| VectorIdentity {
        computation: Some(Computation {
            engine: engine.into(),
            precision: precision.map(str::to_owned),
            arithmetic: None,
        }),
        ..Options::new().identity()
    };
    let built = with_precision(Computation::ONNX, None);
    let decides = |other: &VectorIdentity| {
        let found = built.differences(other);
        found.iter().any(|difference| difference.decides)
    };
    assert!(!decides(&with_precision(Computation::NATIVE, Some("fp32"))));
    assert!(decides(&with_precision(Computation::NATIVE, Some("int8"))));
    assert!(decides(&with_precision(Computation::ONNX, Some("bf16"))));
}

/// An identity as the program of 23 November 2026 wrote it.
fn fixture(name: &str) -> Value {
    let path = Path::new("fixtures/identity").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

const PROVENANCES: [&str; 5] = [
    "onnx.parquet.json",
    "int8.parquet.json",
    "quantized.npy.json",
    "folder.part.json",
    "chunks.part.json",
];

#[test]
fn all_that_a_provenance_tells_has_a_weight() {
    for name in PROVENANCES {
        let made = fixture(name);
        let identity = VectorIdentity::of_provenance(&made).fields();
        for path in flatten(&made).keys() {
            let is_in_identity = identity.keys().any(|key| is_within(path, key));
            let known = is_in_identity || Weight::in_table(path).is_some();
            assert!(known, "{name}: {path}");
        }
        for key in identity.keys() {
            let is_maker = ["tool.version", "engine.kind"].contains(&key.as_str());
            assert_eq!(Weight::of(key) == Weight::Decides, !is_maker, "{key}");
        }
    }
}

#[test]
fn a_folder_of_an_earlier_version_is_continued_and_reused() {
    for name in ["folder", "chunks"] {
        let job: JobFile = serde_json::from_value(fixture(&format!("{name}.job.json"))).unwrap();
        let part = fixture(&format!("{name}.part.json"));
        let then = job.fingerprint;
        // Its parts belong to it, and nothing is lost when it is written anew.
        assert_eq!(then.hash(), part["part"]["fingerprint"], "{name}");
        let mut again = Fingerprint::new(&then.identity());
        let stored = serde_json::to_value(&then).unwrap();
        let identity = serde_json::to_value(&again).unwrap();
        for (key, value) in stored.as_object().unwrap() {
            match identity.get(key) {
                Some(own) => assert_eq!(own, value, "{name}: {key}"),
                None => again.set(key, value.clone()),
            }
        }
        assert_eq!(again.hash(), then.hash(), "{name}");
        let mut other = again.clone();
        other.set("keep", "*");
        let found = then.differences(&other, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(then.differences(&other, &["keep"]), []);
        // A part and the job have one identity.
        let of_part = VectorIdentity::of_provenance(&part);
        assert_eq!(then.identity().differences(&of_part), []);
        assert_eq!(of_part.differences(&then.identity()), []);
    }
}

#[test]
fn files_of_an_earlier_version_have_the_identity_of_a_run_now() {
    let mpnet = |all: &mut Options| all.model.model = "fixtures/parity/family-mpnet/model".into();
    let cases: [(&str, Options); 5] = [
        (
            "onnx.parquet.json",
            Options::changed(|all| all.model.model = "fixtures/parity/bert-cls/model".into()),
        ),
        (
            "int8.parquet.json",
            Options::changed(|all| {
                mpnet(all);
                all.model.precision = Some(Precision::Int8);
                all.model.prompt = Some("query: ".into());
            }),
        ),
        (
            "quantized.npy.json",
            Options::changed(|all| {
                mpnet(all);
                all.model.dimensions = vec![8];
            }),
        ),
        ("folder.part.json", Options::changed(mpnet)),
        (
            "chunks.part.json",
            Options::changed(|all| all.model.model = "fixtures/parity/bert-cls/model".into()),
        ),
    ];
    for (name, options) in cases {
        let mut then = VectorIdentity::of_provenance(&fixture(name));
        if let Some(computation) = &mut then.computation
            && computation.precision.as_deref() == Some("int8")
            && !Isa::best().speeds_up(Arithmetic::Int8)
        {
            // Without instructions for 8 bits, products are computed in 16.
            computation.precision = Some("int16".to_owned());
        }
        let (now, made) = options.run();
        let now = VectorIdentity {
            calibration: then.calibration.clone(), // of which it has no file here
            dtype: Some(then.dtype().to_owned()),
            version: then.version.clone(),
            ..now
        };
        assert_eq!(then.differences(&now), [], "{name}");
        // The output adds its type and its ranges to what the run says.
        let made = VectorIdentity {
            calibration: now.calibration.clone(),
            dtype: now.dtype.clone(),
            version: now.version.clone(),
            ..VectorIdentity::of_provenance(&made)
        };
        assert_eq!(made, now, "{name}");
    }
    let dtype = |name| VectorIdentity::of_provenance(&fixture(name)).dtype;
    assert_eq!(dtype("quantized.npy.json").as_deref(), Some("int8"));
}

#[test]
fn what_is_absent_differs_from_what_a_run_says_unless_it_has_a_meaning() {
    let now = Options::new().identity();
    let nothing = VectorIdentity::of_provenance(&Value::Object(Map::new()));
    let found = nothing.differences(&now);
    let keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
    for key in [
        "tool.version",
        "engine.kind",
        "prompt",
        "model_file",
        "dimensions",
    ] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    assert!(!keys.contains(&"dtype"), "f32 was all that there was");
    // Before an engine is open.
    let options = Options::new();
    let resolved = resolve(&options.model, &options.engine).unwrap();
    let model = resolved.open_files().unwrap();
    let early = of_output(&model, &Options::new().output).unwrap();
    assert_eq!(now.differences(&early), []);
}

#[test]
fn a_graph_of_a_checkpoint_alone_names_the_checkpoint() {
    let options = Options::changed(|all| {
        all.model.model = "fixtures/heads/bert/model".into();
        all.engine.providers = "rten".parse().unwrap();
    });
    let (now, made) = options.run();
    assert_eq!(made["model_file"], "model.safetensors");
    let then = VectorIdentity::of_provenance(&made);
    assert_eq!(then.weights(), WeightsKind::Checkpoint);
    assert_eq!(then.differences(&now), []);
}
