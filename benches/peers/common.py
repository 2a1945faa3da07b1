"""What the Python peers share: their arguments, reading texts, and the line they print."""

import argparse
import json
from pathlib import Path

import numpy as np


def arguments(description):
    """A parser with the options that every peer has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model-dir", type=Path, required=True, help="a model repository")
    parser.add_argument("--model-file", default="onnx/model.onnx", help="the ONNX file inside it")
    parser.add_argument("--input", type=Path, required=True, help=".txt or .jsonl (field `text`)")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=256, help="tokens of a text at most")
    parser.add_argument("--processes", type=int, default=0, help="workers of one thread each")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, help="also write the vectors there as .npy")
    return parser


def read_texts(path):
    # Split at line breaks alone: splitlines() would also cut at U+2028 and its like.
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [json.loads(line)["text"] for line in lines] if path.suffix == ".jsonl" else lines


def check_lengths(short, long, max_length):
    """Fails unless texts are cut at `max_length` and padded no further than their batch needs.

    `short` is the width of a batch of the one word "a", `long` that of a very long text.
    """
    if (short, long) != (3, max_length):
        raise SystemExit(f"tokenized to {short} and {long} tokens instead of 3 and {max_length}")


LONG_TEXT = "word " * 5_000


def report(tool, version, vectors, load_s, embed_s, rows, settings, out):
    if out:
        np.save(out, np.asarray(vectors, dtype=np.float32))
    line = {
        "tool": tool,
        "version": version,
        "rows": rows,
        "load_s": round(load_s, 4),
        "embed_s": round(embed_s, 4),
        "rows_per_s": round(rows / embed_s, 2),
        "settings": settings,
    }
    print(json.dumps(line), flush=True)
