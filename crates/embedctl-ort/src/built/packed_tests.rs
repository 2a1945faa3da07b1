//! Graphs without padding, run by onnx's own evaluator: the operators have kernels on CUDA alone, so that their meaning is
//! written here by their description.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::operators::can_pack;
use super::tests::{TOLERANCE, cases};
use super::{GraphForm, Operators};
use embedctl_common::cancel::CancelToken;

/// Runs each graph of a list in a file on its inputs, and prints the states of each.
const RUN: &str = r#"
import json, sys
import numpy as np, onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from scipy.special import erf

class Own(OpRun):
    op_domain = "com.microsoft"

class RemovePadding(Own):
    def _run(self, x, counts):
        rows, length, _ = x.shape
        real = np.arange(length)[None] < counts[:, None]
        places = np.arange(rows * length).reshape(rows, length)
        offsets = np.concatenate([places[real], places[~real]]).reshape(rows, length)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        return x[real], offsets.astype(np.int32), bounds.astype(np.int32), np.array([counts.max()], np.int32)

class RestorePadding(Own):
    def _run(self, x, offsets):
        out = np.zeros((offsets.size, x.shape[1]), x.dtype)
        out[offsets.ravel()[: len(x)]] = x
        return (out.reshape(*offsets.shape, -1),)

class PackedMultiHeadAttention(Own):
    def _run(self, queries, keys, values, bias, offsets, bounds, num_heads=None, scale=None):
        assert bias is None and bounds[-1] == len(queries) and offsets.ndim == 2
        heads, scale = num_heads or self.num_heads, scale or self.scale
        out = np.zeros_like(values)
        for start, end in zip(bounds, bounds[1:]):
            q, k, v = (x[start:end].reshape(end - start, heads, -1).swapaxes(0, 1) for x in (queries, keys, values))
            scores = q @ k.swapaxes(1, 2) * np.float32(scale)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            out[start:end] = (shares @ v).swapaxes(0, 1).reshape(end - start, -1)
        return (out,)

class SkipLayerNormalization(Own):
    def _run(self, x, skip, weight, shift=None, bias=None, epsilon=None):
        total = x + skip + (0 if bias is None else bias)
        mean, epsilon = total.mean(-1, keepdims=True), epsilon or self.epsilon
        normed = (total - mean) / np.sqrt(total.var(-1, keepdims=True) + np.float32(epsilon)) * weight
        return normed + (0 if shift is None else shift), mean, mean, total

class Gelu(Own):
    def _run(self, x):
        return ((x * 0.5 * (1 + erf(x * np.sqrt(0.5)))).astype(x.dtype),)

class BiasGelu(Own):
    def _run(self, x, bias):
        return Gelu._run(self, x + bias)

class FastGelu(Own):
    def _run(self, x, bias=None):
        x = x if bias is None else x + bias
        return ((x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(x.dtype),)

class QuickGelu(Own):
    def _run(self, x, alpha=None):
        return ((x / (1 + np.exp(-(alpha or self.alpha) * x))).astype(x.dtype),)

own = [RemovePadding, RestorePadding, PackedMultiHeadAttention, SkipLayerNormalization, Gelu, BiasGelu, FastGelu, QuickGelu]
for path, feeds in json.load(open(sys.argv[1])):
    model = onnx.load(path)
    # The evaluator would take an output without a name for inputs that are left out.
    for index, node in enumerate(model.graph.node):
        node.output[:] = [name or f"unused_{index}" for name in node.output]
    feeds = {one.name: np.array(feeds[one.name], np.int64) for one in model.graph.input}
    states, = ReferenceEvaluator(model, new_ops=own).run(["last_hidden_state"], feeds)
    print(json.dumps(states.astype(float).ravel().tolist()))
"#;

/// A Python with onnx and scipy. Where it must be (`EMBEDCTL_TEST_REQUIRE=python`), its absence fails.
fn python() -> Option<PathBuf> {
    let environment = std::env::var_os("VIRTUAL_ENV");
    let python = environment.map(|folder| PathBuf::from(folder).join("bin/python3"));
    let python = python.unwrap_or_else(|| "python3".into());
    let imports = Command::new(&python)
        .args(["-c", "import onnx.reference, scipy.special"])
        .output();
    if imports.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("EMBEDCTL_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|one| one == "python"), "no onnx");
    let _ = writeln!(
        std::io::stderr(),
        "skipped: packed rows need onnx and scipy"
    );
    None
}

#[test]
fn rows_without_padding_give_the_references_states() {
    let Some(python) = python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (mut packed, mut listed) = (Vec::new(), Vec::new());
    for case in cases() {
        let form = GraphForm {
            operators: Operators::PACKED,
            ..GraphForm::default()
        };
        let (network, graph) = case.built(form);
        let own = graph.own_operators();
        let packs = can_pack(network.architecture());
        for operator in [
            "RemovePadding",
            "RestorePadding",
            "PackedMultiHeadAttention",
        ] {
            assert_eq!(own.contains(operator), packs, "{}: {operator}", case.name);
        }
        if !packs {
            continue;
        }
        let path = folder.path().join(format!("{}.onnx", case.name));
        let model = graph.model_with_weights(&network, &CancelToken::new());
        fs::write(&path, model.unwrap()).unwrap();
        let length = case.longest();
        let [ids, mask, types] = case.padded();
        let rows = |values: &[i32]| -> Vec<Vec<i32>> {
            values.chunks(length).map(<[i32]>::to_vec).collect()
        };
        let feeds = json!({
            "input_ids": rows(&ids), "attention_mask": rows(&mask), "token_type_ids": rows(&types),
        });
        listed.push(json!([path, feeds]));
        packed.push(case);
    }
    assert!(
        packed.len() >= 10,
        "only {} networks are packed",
        packed.len()
    );
    let list = folder.path().join("list.json");
    fs::write(&list, Value::from(listed).to_string()).unwrap();
    let output = Command::new(python).args(["-c", RUN]).arg(list).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let states: Vec<Vec<f32>> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(states.len(), packed.len());
    for (case, states) in packed.iter().zip(&states) {
        let apart = case.apart(states);
        assert!(apart <= TOLERANCE, "{}: {apart}", case.name);
    }
}
