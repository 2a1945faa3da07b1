"""Makes model.safetensors from the packed ONNX file, so that torch gets the very same weights.

usage: unpack_weights.py MODEL_FOLDER OUTPUT_FOLDER

The output folder is a copy of the model's folder with that file added. In the ONNX file a matrix
is kept as int8 with scales (`NAME.q`, `NAME.scale`). Embedding tables carry their own names; a
matrix of a dense layer is called `onnx::MatMul_N`, and which layer it belongs to is read from the
bias that is added to its product.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file


def unpack(graph):
    arrays = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    weights = {}
    for name, array in arrays.items():
        if name.endswith(".q"):
            name = name.removesuffix(".q")
            array = array.astype(np.float32) * arrays[f"{name}.scale"]
            shape = arrays.get(f"{name}.shape")
            weights[name] = array if shape is None else array.reshape(shape)
        elif not name.endswith((".scale", ".shape")):
            weights[name] = array

    weight_of_product = {
        node.output[0]: node.input[1]
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] in weights
    }
    for node in graph.node:
        if node.op_type != "Add":
            continue
        bias = next((name for name in node.input if name.endswith(".bias")), None)
        product = next((name for name in node.input if name in weight_of_product), None)
        if bias and product:
            # torch keeps a dense layer's matrix transposed
            matrix = weights.pop(weight_of_product[product]).T
            weights[bias.removesuffix("bias") + "weight"] = matrix
    return weights


def main(model_dir, output):
    weights = unpack(onnx.load(model_dir / "onnx" / "model.onnx").graph)
    unnamed = [name for name in weights if "::" in name]
    if unnamed:
        raise SystemExit(f"no layer found for {unnamed}")
    weights = {name.removeprefix("m."): np.ascontiguousarray(a) for name, a in weights.items()}
    # sentence-transformers pools by itself, but torch's BertModel wants its pooler too.
    hidden = weights["embeddings.LayerNorm.weight"].shape[0]
    weights["pooler.dense.weight"] = np.zeros((hidden, hidden), np.float32)
    weights["pooler.dense.bias"] = np.zeros(hidden, np.float32)

    shutil.copytree(model_dir, output, copy_function=shutil.copyfile, dirs_exist_ok=True)
    save_file(weights, output / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
