#!/usr/bin/env python3
"""Graphs that embedctl builds from a checkpoint, beside the ONNX file that optimum exports of it, on the CPU provider.

    python3 -m venv venv && venv/bin/pip install 'optimum-onnx[onnxruntime]' torch pyarrow
    venv/bin/python benches/graphs/compare.py [--embedctl target/release/embedctl] [--rounds 3] [SHAPE...]

Shapes: `minilm`, all-MiniLM-L6-v2 itself, and `qwen3`, four layers of Qwen3-Embedding-0.6B's shape with random weights and a
vocabulary of 30,522. Each round runs every configuration over the same texts, in turn:

- the file of optimum in embedctl (`--weights onnx`),
- the built graph (`--weights safetensors`),
- the graph as a file (`embedctl export`) in Python's ONNX Runtime, with batches of the same rows sorted by length.

All use the same library, two threads, and fp32. Prints a table: the rate without the start (median, least to most), seconds
until the first batch runs (the whole process less its rows by their rate), the greatest memory, and the least cosine to the
first row's vectors.
"""
import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches/kinds"))
MINILM = ROOT / "fixtures/models/all-MiniLM-L6-v2"
BATCH_TOKENS = 2048


def qwen3(folder):
    """Four layers of the shape."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.Qwen3Config(
        vocab_size=30_522, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
        intermediate_size=3072, max_position_embeddings=4096, rope_theta=1_000_000, use_cache=False)
    transformers.Qwen3Model(config).save_pretrained(folder)
    for name in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]:
        shutil.copy(MINILM / name, folder / name)


def minilm(folder):
    """The model without the ONNX file of the repository's fixtures, whose weights are packed."""
    shutil.copytree(MINILM, folder, ignore=shutil.ignore_patterns("onnx", "reference"), dirs_exist_ok=True)


def by_optimum(folder):
    """Optimum's export of a checkpoint, beside it."""
    export = [sys.executable, "-m", "optimum.exporters.onnx", "--model", folder, "--task", "feature-extraction",
              "--library", "transformers", folder / "onnx"]
    subprocess.run(list(map(str, export)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(command):
    """Seconds by the clock, GB at most, and the events of the log."""
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, errors = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, command))}: {errors}")
    events = [json.loads(line) for line in (out + errors).splitlines() if line.startswith("{")]
    return time.monotonic() - start, used.ru_maxrss / 1e6, events[-1]


def python_run(graph, tokenizer, texts, out):
    """The exported graph in Python: a process of its own runs this."""
    import numpy as np
    import onnxruntime
    import tokenizers

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    inputs = {one.name for one in session.get_inputs()}
    own = tokenizers.Tokenizer.from_file(tokenizer)
    own.enable_truncation(256)
    own.no_padding()
    lines = [json.loads(line)["text"] for line in Path(texts).read_text().splitlines()]
    start = time.monotonic()
    rows = [one.ids for one in own.encode_batch(lines)]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    vectors, batch = [None] * len(rows), []

    def compute():
        width = max(len(rows[row]) for row in batch)
        ids = np.zeros((len(batch), width), np.int64)
        mask = np.zeros((len(batch), width), np.int64)
        for place, row in enumerate(batch):
            ids[place, : len(rows[row])] = rows[row]
            mask[place, : len(rows[row])] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        found = session.run(None, {name: value for name, value in feeds.items() if name in inputs})[0]
        for row, vector in zip(batch, found, strict=True):
            vectors[row] = vector
        batch.clear()

    for row in order:
        if batch and (len(batch) + 1) * len(rows[row]) > BATCH_TOKENS:
            compute()
        batch.append(row)
    compute()
    print(json.dumps({"rows_per_second": len(rows) / (time.monotonic() - start)}))
    np.save(out, np.stack(vectors))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedctl", type=Path, default=ROOT / "target/release/embedctl")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "graphs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, help="how many [default: 3000, of qwen3 300]")
    parser.add_argument("--python", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("shapes", nargs="*", default=[])
    args = parser.parse_args()
    if args.python:
        return python_run(*args.python)
    import numpy as np
    from compare import draw

    library = Path(importlib.util.find_spec("onnxruntime").submodule_search_locations[0]) / "capi"
    args.work.mkdir(parents=True, exist_ok=True)
    for shape in args.shapes or ["minilm", "qwen3"]:
        model = args.work / shape
        if not (model / "onnx/model.onnx").exists():
            shutil.rmtree(model, ignore_errors=True)
            {"minilm": minilm, "qwen3": qwen3}[shape](model)
            by_optimum(model)
        texts = args.work / f"{shape}.jsonl"
        count = args.texts or {"minilm": 3000, "qwen3": 300}[shape]
        texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in draw(count, 60, 1)))
        pooled = ["--pooling", "mean", "--max-length", "256"]
        exported = args.work / f"{shape}.onnx"
        export = [args.embedctl, "export", model, exported, "--pooled", "--force", "-q"]
        subprocess.run(list(map(str, [*export, *(["--pooling", "mean"] if shape == "qwen3" else [])])), check=True)
        embed = [args.embedctl, "embed", texts, "-m", model, "-p", "cpu", "--ort-lib", library, "--threads", "2",
                 "--force", "--log-format", "json", *pooled]
        out = {name: args.work / f"{shape}-{name}.npy" for name in ["optimum", "built", "python"]}
        commands = {
            "optimum": [*embed, "--weights", "onnx", "-o", out["optimum"]],
            "built": [*embed, "--weights", "safetensors", "-o", out["built"]],
            "python": [sys.executable, __file__, "--python", exported, model / "tokenizer.json", texts, out["python"]],
        }
        names = {"optimum": "optimum's file", "built": "built", "python": "built, as a file in Python's ONNX Runtime"}
        found = {name: [] for name in commands}
        for number in range(args.rounds):
            shift = number % len(commands)
            turn = list(commands)[shift:] + list(commands)[:shift]
            for name in turn:
                seconds, memory, event = run(commands[name])
                rate = event["rows_per_second"]
                found[name].append((rate, seconds - count / rate, memory))
        first = np.load(out["optimum"]).astype(np.float64)
        print(f"\n{shape}: {count:,} texts, {args.rounds} rounds\n")
        print("| graph | rows/s | start, s | GB | least cosine |\n|---|--:|--:|--:|--:|")
        for name, rounds in found.items():
            rates, starts, memory = zip(*rounds, strict=True)
            vectors = np.load(out[name]).astype(np.float64)
            lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(vectors, axis=1)
            cosine = ((first * vectors).sum(axis=1) / lengths).min()
            print(f"| {names[name]} | {statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f}) "
                  f"| {statistics.median(starts):.2f} | {max(memory):.2f} | {cosine:.7f} |")


if __name__ == "__main__":
    main()
