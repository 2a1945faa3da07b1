#!/usr/bin/env python3
"""A model of seven billion parameters on this machine: memory and time of each precision.

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python benches/native/large.py [--embedctl target/release/embedctl] [--layers 32] [--work FOLDER] [NAME...]

Makes a checkpoint of e5-mistral-7b-instruct's shape in bf16 with random weights in --work (14.5 GB), with the tokenizer of
all-MiniLM-L6-v2, and embeds --rows short texts with `native` in int8, int16, bf16 and fp32, and on the CPU provider of ONNX
Runtime (ORT_DYLIB_PATH) with the graph that embedctl builds, and with weights that stay in bf16. NAME chooses among int8,
int16, bf16, fp32, cpu and cpu-narrow. Prints the seconds by the clock, processor seconds, and the greatest memory, which
counts the pages of mapped files that are in use.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MINILM = ROOT / "fixtures/models/all-MiniLM-L6-v2"
HIDDEN, INNER, HEADS, KEY_HEADS, VOCABULARY = 4096, 14336, 32, 8, 32_000
RUNS = {
    "int8": ["-p", "native", "--precision", "int8", "--min-cosine", "0.9"],
    "int16": ["-p", "native", "--precision", "int16", "--min-cosine", "0.9"],
    "bf16": ["-p", "native", "--precision", "bf16", "--min-cosine", "0.9"],
    "fp32": ["-p", "native"],
    "cpu": ["-p", "cpu", "--weights", "safetensors"],
    "cpu-narrow": ["-p", "cpu", "--weights", "safetensors", "--provider-option", "cpu.narrow-weights=true"],
}


def bfloat16(values):
    """The upper halves of float32s."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def shard(path, tensors):
    """A safetensors file of (name, array) in bf16."""
    header, end = {}, 0
    for name, array in tensors:
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in tensors:
            array.tofile(file)


def make(folder, layers):
    chance = np.random.default_rng(1)
    pool = bfloat16(chance.standard_normal(INNER * HIDDEN) * 0.02)

    def matrix(rows, columns):
        start = int(chance.integers(pool.size))
        return np.roll(pool, start)[: rows * columns].reshape(rows, columns)

    ones = bfloat16(np.ones(HIDDEN))
    keys = HIDDEN // HEADS * KEY_HEADS
    shard(folder / "model-table.safetensors", [
        ("embed_tokens.weight", bfloat16(chance.standard_normal((VOCABULARY, HIDDEN)))), ("norm.weight", ones)])
    files = {"embed_tokens.weight": "model-table.safetensors", "norm.weight": "model-table.safetensors"}
    for number in range(layers):
        own = f"layers.{number}."
        tensors = [
            ("self_attn.q_proj", matrix(HIDDEN, HIDDEN)), ("self_attn.k_proj", matrix(keys, HIDDEN)),
            ("self_attn.v_proj", matrix(keys, HIDDEN)), ("self_attn.o_proj", matrix(HIDDEN, HIDDEN)),
            ("mlp.gate_proj", matrix(INNER, HIDDEN)), ("mlp.up_proj", matrix(INNER, HIDDEN)),
            ("mlp.down_proj", matrix(HIDDEN, INNER)), ("input_layernorm", ones), ("post_attention_layernorm", ones)]
        name = f"model-{number:02}.safetensors"
        shard(folder / name, [(f"{own}{tensor}.weight", array) for tensor, array in tensors])
        files.update({f"{own}{tensor}.weight": name for tensor, _ in tensors})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    config = {
        "architectures": ["MistralModel"], "model_type": "mistral", "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": HIDDEN // HEADS,
        "vocab_size": VOCABULARY, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "sliding_window": 4096,
        "max_position_embeddings": 32_768, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]:
        shutil.copy(MINILM / name, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedctl", type=Path, default=ROOT / "target/release/embedctl")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "large")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("names", nargs="*", default=[])
    args = parser.parse_args()
    model = args.work / f"model-{args.layers}"
    if not (model / "config.json").exists():
        shutil.rmtree(model, ignore_errors=True)
        model.mkdir(parents=True)
        # In a process of its own: the greatest memory of a program counts that of the one that starts it.
        if (child := os.fork()) == 0:
            make(model, args.layers)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the checkpoint could not be made")
    size = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    print(f"{args.layers} layers, {size / 1e9:.1f} GB of weights in bf16, {args.rows} rows", flush=True)
    texts = args.work / "texts.txt"
    words = (ROOT / "README.md").read_text().split()
    texts.write_text("".join(" ".join(words[row * 30 : row * 30 + 30]) + "\n" for row in range(args.rows)))
    print("| precision | seconds | processor seconds | GB at most |\n|---|--:|--:|--:|")
    for name in args.names or RUNS:
        command = [args.embedctl, "embed", texts, "-m", model, "-o", args.work / f"{name}.npy", "--force", "-q",
                   "--no-cache", "--pooling", "lasttoken", "--threads", "2", *RUNS[name]]
        start = time.monotonic()
        process = subprocess.Popen(list(map(str, command)))
        _, status, used = os.wait4(process.pid, 0)
        if status:
            print(f"| {name} | failed | | |", flush=True)
            continue
        print(f"| {name} | {time.monotonic() - start:.0f} | {used.ru_utime + used.ru_stime:.0f} "
              f"| {used.ru_maxrss / 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
