#!/usr/bin/env python3
"""Writes a model of BERT base's shape with random weights: 12 layers, 768 wide, mean pooling, 110 million weights.

    make_base.py MODEL FOLDER [--layers 12]

MODEL is a model repository whose tokenizer is taken (fixtures/models/all-MiniLM-L6-v2). Needs the packages onnx
and numpy. The vectors mean nothing; the time that they take is that of bge-base, e5-base and their like.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, INNER, POSITIONS = 768, 12, 3072, 512


class Builder:
    """Nodes and weights of a graph, in order."""

    def __init__(self, seed):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(seed)

    def weight(self, name, *shape, spread=0.02, around=0.0):
        values = self.random.standard_normal(shape, np.float32) * np.float32(spread) + np.float32(around)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, name, values, kind):
        self.weights.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    def add(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def linear(self, name, value, before, after):
        product = self.add("MatMul", [value, self.weight(f"{name}.weight", before, after)], f"{name}.product")
        return self.add("Add", [product, self.weight(f"{name}.bias", after)], f"{name}.sum")

    def norm(self, name, value):
        scale, shift = self.weight(f"{name}.scale", HIDDEN, around=1.0), self.weight(f"{name}.shift", HIDDEN)
        return self.add("LayerNormalization", [value, scale, shift], f"{name}.normed", axis=-1, epsilon=1e-12)


def graph(layers, vocabulary):
    build = Builder(0)
    ids, mask, types = "input_ids", "attention_mask", "token_type_ids"
    heads = build.constant("heads", [0, 0, HEADS, HIDDEN // HEADS], np.int64)
    joined = build.constant("joined", [0, 0, HIDDEN], np.int64)
    begin, one = build.constant("begin", [0], np.int64), build.constant("one", [1], np.int64)
    length = build.add("Slice", [build.add("Shape", [ids], "shape"), one, build.constant("two", [2], np.int64)], "length")
    table = build.weight("positions", POSITIONS, HIDDEN)
    positions = build.add("Slice", [table, begin, length, begin], "positions.used")
    state = build.add("Gather", [build.weight("words", vocabulary, HIDDEN), ids], "words.taken")
    state = build.add("Add", [state, build.add("Gather", [build.weight("types", 2, HIDDEN), types], "types.taken")], "typed")
    state = build.norm("embedded", build.add("Add", [state, positions], "placed"))
    # 0 where a token is, the least number where none is.
    visible = build.add("Cast", [mask], "visible", to=TensorProto.FLOAT)
    visible = build.add("Unsqueeze", [visible, build.constant("axes", [1, 2], np.int64)], "visible.wide")
    hidden = build.add("Sub", [build.constant("ones", 1.0, np.float32), visible], "hidden")
    bias = build.add("Mul", [hidden, build.constant("least", -1e4, np.float32)], "bias")
    scale = build.constant("scale", (HIDDEN // HEADS) ** -0.5, np.float32)
    root = build.constant("root", 2**-0.5, np.float32)
    half = build.constant("half", 0.5, np.float32)
    ones = build.constant("erf.one", 1.0, np.float32)
    for layer in range(layers):
        at = f"layer.{layer}"
        parts = {}
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            value = build.linear(f"{at}.{part}", state, HIDDEN, HIDDEN)
            value = build.add("Reshape", [value, heads], f"{at}.{part}.heads")
            parts[part] = build.add("Transpose", [value], f"{at}.{part}.turned", perm=order)
        scores = build.add("MatMul", [parts["query"], parts["key"]], f"{at}.scores")
        scores = build.add("Mul", [scores, scale], f"{at}.scores.scaled")
        shares = build.add("Softmax", [build.add("Add", [scores, bias], f"{at}.scores.masked")], f"{at}.shares", axis=-1)
        mixed = build.add("MatMul", [shares, parts["value"]], f"{at}.mixed")
        mixed = build.add("Transpose", [mixed], f"{at}.mixed.turned", perm=[0, 2, 1, 3])
        mixed = build.add("Reshape", [mixed, joined], f"{at}.mixed.joined")
        mixed = build.linear(f"{at}.out", mixed, HIDDEN, HIDDEN)
        state = build.norm(f"{at}.attended", build.add("Add", [mixed, state], f"{at}.attended.sum"))
        inner = build.linear(f"{at}.up", state, HIDDEN, INNER)
        curve = build.add("Erf", [build.add("Mul", [inner, root], f"{at}.rooted")], f"{at}.erf")
        curve = build.add("Add", [curve, ones], f"{at}.erf.shifted")
        inner = build.add("Mul", [build.add("Mul", [inner, curve], f"{at}.curved"), half], f"{at}.gelu")
        inner = build.linear(f"{at}.down", inner, INNER, HIDDEN)
        state = build.norm(f"{at}.fed", build.add("Add", [inner, state], f"{at}.fed.sum"))
    build.nodes[-1].output[0] = "last_hidden_state"
    shape = ["batch", "sequence"]
    return helper.make_graph(
        build.nodes,
        "base",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in (ids, mask, types)],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, HIDDEN])],
        build.weights,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    heavy = shutil.ignore_patterns("*.onnx", "*.safetensors", "reference")
    shutil.copytree(args.model, args.folder, ignore=heavy, copy_function=shutil.copyfile)
    config = json.loads((args.folder / "config.json").read_text())
    config |= {
        "hidden_size": HIDDEN, "num_hidden_layers": args.layers, "num_attention_heads": HEADS, "intermediate_size": INNER,
    }  # fmt: skip
    (args.folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    pooling = args.folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"word_embedding_dimension": HIDDEN}) + "\n")
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph(args.layers, config["vocab_size"]), opset_imports=opset, ir_version=8)
    (args.folder / "onnx").mkdir(exist_ok=True)
    onnx.save(model, args.folder / "onnx" / "model.onnx")
    onnx.checker.check_model(str(args.folder / "onnx" / "model.onnx"))


if __name__ == "__main__":
    main()
