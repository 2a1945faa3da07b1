//! States that half precision does not hold, which the check at the start finds.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::agreement::{self, CheckedGraph};
use super::inputs::SessionReading;
use super::model_graph::ModelGraph;
use super::session::OrtWorker;
use super::tests::{cpu_library, library_is_here};
use crate::built::FloatType;
use crate::feeds::Feeds;
use crate::runtime::registration::{self, session_builder};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::ErrorKind;
use embedctl_engine::{Provider, ResolvedEngine};
use embedctl_model::{Model, ModelOptions, WeightsPreference};
use ort::session::Session;

/// A model of which every number fits half precision.
const MODEL: &str = "../../fixtures/parity/family-mpnet/model";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        match from.is_dir() {
            true => copy(&from, &to),
            false => fs::copy(&from, &to).map(drop).unwrap(),
        }
    }
}

/// Scales the first product of each feed-forward part until its greatest weight is 60,000. Its sums then are beyond 65,504.
fn scale_feed_forward(checkpoint: &Path) {
    let mut bytes = fs::read(checkpoint).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let start = 8 + usize::try_from(length).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let mut scaled = 0;
    for (name, tensor) in header.as_object().unwrap() {
        if !name.ends_with("intermediate.dense.weight") {
            continue;
        }
        assert_eq!(tensor["dtype"], "F32");
        let [from, to]: [usize; 2] =
            serde_json::from_value(tensor["data_offsets"].clone()).unwrap();
        let words = bytes[start + from..start + to].as_chunks_mut::<4>().0;
        let numbers = words.iter().map(|word| f32::from_le_bytes(*word).abs());
        let most = numbers.fold(0.0, f32::max);
        for word in words {
            *word = (f32::from_le_bytes(*word) * 60_000.0 / most).to_le_bytes();
        }
        scaled += 1;
    }
    assert_eq!(scaled, 2);
    fs::write(checkpoint, bytes).unwrap();
}

/// The check of a graph that is built from `model`'s checkpoint in these numbers, on the CPU as if it were CUDA.
fn check(model: &Model, float: FloatType) -> embedctl_common::Result<Option<f64>> {
    let library = cpu_library().unwrap();
    let session = |float: FloatType| {
        let options = ResolvedEngine {
            float: Some(float),
            ..ResolvedEngine::default()
        };
        let graph = ModelGraph::of(model, Provider::Cuda, &options).unwrap();
        let feeds = Feeds::of(model, &graph.declared, &graph.output).unwrap();
        let builder = session_builder(&library.environment).unwrap();
        let builder = registration::on_cpu(builder, &library.environment).unwrap();
        let session: Session = graph.source.load(builder, &CancelToken::new()).unwrap();
        (session, feeds)
    };
    let (loaded, feeds) = session(float);
    let reading = SessionReading {
        feeds: Arc::new(feeds),
        pooling: None,
    };
    let loaded = Arc::new(Mutex::new(loaded));
    let mut worker = OrtWorker::new(loaded, None, reading.clone()).unwrap();
    let graph = CheckedGraph {
        shown: Path::new(MODEL),
        stored_bytes: 0,
        rough: false,
        narrow: Some(float).filter(|float| *float != FloatType::F32),
    };
    let reference = || Some(session(FloatType::F32).0);
    agreement::check(
        Provider::Cuda,
        &reading,
        &graph,
        reference,
        model,
        &mut worker,
    )
}

#[test]
fn states_that_overflow_half_precision_are_told_with_the_precisions_that_hold_them() {
    if !library_is_here("overflow") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    copy(Path::new(MODEL), folder.path());
    fs::remove_dir_all(folder.path().join("onnx")).unwrap();
    let open = || {
        let options = ModelOptions {
            model: folder.path().to_str().unwrap().into(),
            ..ModelOptions::default()
        };
        Model::open(&options, WeightsPreference::Checkpoint(|_| Ok(()))).unwrap()
    };
    let near = check(&open(), FloatType::F16).unwrap().unwrap();
    assert!(near > 0.999, "{near}");

    scale_feed_forward(&folder.path().join("model.safetensors"));
    let model = open();
    let error = check(&model, FloatType::F16).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Provider);
    assert!(error.reason().contains("overflow"), "{error}");
    let remedy = error.remedy().unwrap();
    assert!(remedy.contains("bf16 or fp32"), "{remedy}");
    // Single precision holds the same states.
    assert_eq!(check(&model, FloatType::F32).unwrap(), Some(1.0));
}
