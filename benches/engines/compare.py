"""Runs one model on several engines, in turn, and prints a table in Markdown: how fast each is, how
near its vectors are to fp32's on ONNX Runtime's CPU provider, and what a text's neighbours change.

run.sh calls this. Rates are embedctl's own, from file to Parquet without the start-up. "Alone" means
batches of one text. Cosines are over all texts of the first corpus.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np


def engines(ort, openvino):
    """(name, arguments of embed)"""
    cpu = ["-p", "cpu", "--ort-lib", ort]
    vino = ["-p", "openvino", "--ort-lib", openvino]
    file = lambda name: ["--model-file", f"onnx/{name}.onnx"]
    return [
        ("ONNX Runtime, fp32", [*cpu, *file("model")]),
        ("ONNX Runtime, 8-bit `MatMulNBits` (blocks of 32)", [*cpu, *file("model_nbits8")]),
        ("ONNX Runtime, dynamic int8", [*cpu, *file("model_dynamic")]),
        ("ONNX Runtime, dynamic int8, per channel", [*cpu, *file("model_dynamic_per_channel")]),
        ("the same, texts one at a time", [*cpu, *file("model_dynamic_per_channel"), "--batch-size", "1"]),
        ("OpenVINO, fp32", [*vino, *file("model")]),
        ("OpenVINO, bf16 hint", [*vino, *file("model"), "--provider-option", "openvino.precision=bf16"]),
        ("rten (inside embedctl), fp32", ["-p", "rten", *file("model")]),
    ]


def embed(program, model, corpus, output, arguments):
    """A run; its summary."""
    command = [program, "embed", corpus, "-m", model, "-o", output, "--force"]
    run = subprocess.run(
        [*map(str, command), *arguments, "--log-format", "json"], capture_output=True, text=True
    )
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {run.stderr}")
    events = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("{")]
    return next(event for event in events if event.get("event") == "summary")


def cosines(a, b):
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a.astype(np.float64), b.astype(np.float64)))
    return (a * b).sum(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ort", required=True)
    parser.add_argument("--openvino", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("corpus", nargs="+", help="the first one is compared too")
    options = parser.parse_args()
    all_engines = engines(options.ort, options.openvino)
    rates = {name: {corpus: [] for corpus in options.corpus} for name, _ in all_engines}
    vectors, alone = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        npy = Path(scratch) / "vectors.npy"
        parquet = Path(scratch) / "vectors.parquet"
        for name, arguments in all_engines:
            embed(options.program, options.model, options.corpus[0], npy, arguments)
            vectors[name] = np.load(npy)
            single = arguments if "--batch-size" in arguments else [*arguments, "--batch-size", "1"]
            embed(options.program, options.model, options.corpus[0], npy, single)
            alone[name] = np.load(npy)
        for number in range(options.rounds):
            # Nobody always follows the same neighbour.
            turn = all_engines[number % len(all_engines):] + all_engines[: number % len(all_engines)]
            for name, arguments in turn:
                for corpus in options.corpus:
                    summary = embed(options.program, options.model, corpus, parquet, arguments)
                    rates[name][corpus].append(summary["rows_per_second"])
    reference = vectors[all_engines[0][0]]
    names = [Path(corpus).stem for corpus in options.corpus]
    print(f"{len(reference)} texts compared, {options.rounds} rounds; rates: median (least to most)\n")
    heads = [*(f"rows/s, {name}" for name in names), "cosine to fp32: mean", "least", "with and without neighbours: least cosine"]
    print(f"| engine and weights | {' | '.join(heads)} |")
    print(f"|---|{'--:|' * len(heads)}")
    for name, _ in all_engines:
        speed = [
            f"{statistics.median(one):.0f} ({min(one):.0f} to {max(one):.0f})" for one in rates[name].values()
        ]
        near = cosines(vectors[name], reference)
        mates = cosines(vectors[name], alone[name])
        print(f"| {name} | {' | '.join(speed)} | {near.mean():.6f} | {near.min():.5f} | {mates.min():.6f} |")


main()
