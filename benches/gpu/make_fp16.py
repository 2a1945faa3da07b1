#!/usr/bin/env python3
"""Adds onnx/model_fp16.onnx to a copy of a model: weights and arithmetic in half precision.

    make_fp16.py MODEL COPY

Needs the packages onnx and onnxruntime. Weights that are stored packed are unfolded first, as loading the
model does; inputs stay integers, and the output becomes float16, which embedctl widens before it pools.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.transformers.float16 import convert_float_to_float16


def main(model: Path, copy: Path) -> None:
    shutil.copytree(model, copy, dirs_exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        unfolded = Path(folder) / "unfolded.onnx"
        options = onnxruntime.SessionOptions()
        # Constants are folded, and no operator is fused into one that only ONNX Runtime has.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(unfolded)
        onnxruntime.InferenceSession(
            model / "onnx" / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        half = convert_float_to_float16(onnx.load(unfolded), keep_io_types=False)
    onnx.save(half, copy / "onnx" / "model_fp16.onnx")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
