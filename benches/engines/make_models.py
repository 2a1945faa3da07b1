"""Makes the weights that are compared: fp32, two kinds of dynamic int8, 8-bit MatMulNBits.

    make_models.py MODEL FOLDER

MODEL is a folder in the Hub's layout with onnx/model.onnx. FOLDER becomes a copy of it whose onnx/
holds one file for each kind. Constants are folded first: what a file keeps packed is unpacked, so
that every kind is made from the same fp32 matrices.
"""

import logging
import shutil
import sys
import tempfile
from pathlib import Path

import onnx
import onnxruntime as ort
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer


def fold(source, target):
    """Writes `source` with constants folded and nothing fused."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    # What is fused at this level would hide matrix products from the quantizers.
    disabled = ["MatMulAddFusion", "GemmActivationFusion"]
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled)


def main():
    logging.disable(logging.INFO)
    model, folder = map(Path, sys.argv[1:])
    onnx_folder = folder / "onnx"
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.onnx", "reference"))
    onnx_folder.mkdir(exist_ok=True)
    fp32 = onnx_folder / "model.onnx"
    fold(model / "onnx" / "model.onnx", fp32)
    with tempfile.TemporaryDirectory() as scratch:
        shaped = Path(scratch) / "shaped.onnx"
        onnx.save(onnx.shape_inference.infer_shapes(onnx.load(fp32)), shaped)
        for name, per_channel in (("dynamic", False), ("dynamic_per_channel", True)):
            quantize_dynamic(
                shaped,
                onnx_folder / f"model_{name}.onnx",
                per_channel=per_channel,
                weight_type=QuantType.QInt8,
                op_types_to_quantize=["MatMul"],
            )
    # Level 4: products are computed in int8.
    quantizer = MatMulNBitsQuantizer(
        onnx.load(fp32), bits=8, block_size=32, is_symmetric=True, accuracy_level=4
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(onnx_folder / "model_nbits8.onnx"))
    for file in sorted(onnx_folder.glob("*.onnx")):
        kinds = {node.op_type for node in onnx.load(file, load_external_data=False).graph.node}
        products = sorted(kinds & {"MatMul", "Gemm", "MatMulInteger", "MatMulNBits"})
        print(f"{file.name}: {file.stat().st_size / 1e6:.0f} MB, {', '.join(products)}")


main()
