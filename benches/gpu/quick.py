#!/usr/bin/env python3
"""What a GPU must confirm of embedctl's own engine (`cuda.engine=own`), in at most five minutes on a bare machine.

Each step appends a line of JSON to --results as soon as it is measured, so that a run that is cut short leaves what it saw.
Uses Python's standard library only. `run.sh --quick` prepares what it needs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import CASES, MODEL, WORDS_OF_68_TOKENS, embed, hardware, has, matrix, texts, words_of

OWN = ["-p", "cuda", "--provider-option", "cuda.engine=own"]
OTHER = ["-p", "cuda"]

# Rows of 68 tokens a second that kernels alone reached on an H200 in half precision.
AIMS = {"minilm": 204_326, "e5-small": 108_188, "bge-base": 39_599, "bge-large": 12_115, "qwen3-0.6b": 8_207}

# The least cosine to the reference in each precision.
COSINES = {"fp16": 0.9995, "bf16": 0.99}


class Clock:
    """Lines of results, and the time that is left."""

    def __init__(self, path, limit):
        self.start, self.limit = time.monotonic(), limit
        self.file = open(path, "a", encoding="utf-8")

    def left(self):
        return self.limit - (time.monotonic() - self.start)

    def say(self, step, **facts):
        line = json.dumps({"step": step, **facts, "at_s": round(time.monotonic() - self.start, 1)})
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()


def least_cosine(ours, theirs):
    """The least cosine of two matrices' rows; NaN is the worst."""
    rows, width, a = ours
    _, _, b = theirs
    worst = 1.0
    for row in range(rows):
        x, y = a[row * width : (row + 1) * width], b[row * width : (row + 1) * width]
        product = sum(p * q for p, q in zip(x, y))
        lengths = (sum(p * p for p in x) * sum(q * q for q in y)) ** 0.5
        cosine = product / lengths if lengths else float(lengths == 0 and product == 0)
        worst = cosine if not cosine >= worst else worst
    return worst


def parity(args, out, clock, precision):
    """Every case with a checkpoint against the vectors of sentence-transformers."""
    cases = sorted(case for case in CASES.iterdir() if (case / "case.json").exists() and has(case, "safetensors"))

    def one(case):
        settings = json.loads((case / "case.json").read_text())
        result = out / f"{case.name}-{precision}.npy"
        told = [] if precision == "fp32" else ["--precision", precision]
        summary, said = embed(
            args, case / "texts.jsonl", "-i", "jsonl", "-m", case / "model", *OWN, *told, "-o", result, *settings["args"],
        )  # fmt: skip
        if summary is None:
            return case.name, f"failed: {said}"
        if summary["engine"]["engine"] != "cuda":
            return case.name, f"was run by {summary['engine']['engine']}: {said}"
        ours, theirs = matrix(result), matrix(case / "expected.npy")
        if ours[:2] != theirs[:2]:
            return case.name, f"{ours[:2]} instead of {theirs[:2]}"
        if precision == "fp32":
            apart = max((abs(a - b) if a == a else float("inf") for a, b in zip(ours[2], theirs[2])), default=0.0)
            # The processor's limit is for its own order of sums.
            return case.name, None if apart <= max(1e-4, settings["tolerance"]) else f"{apart:.1e} apart"
        cosine = least_cosine(ours, theirs)
        return case.name, None if cosine >= COSINES[precision] else f"cosine {cosine:.5f}"

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        wrong = [(name, reason) for name, reason in pool.map(one, cases) if reason]
    clock.say(f"parity {precision}", cases=len(cases), right=len(cases) - len(wrong), wrong=dict(wrong))


def same_bits(args, out, clock, name, model):
    """A row alone, among 10 and among 900."""
    lines = texts(out / "900.txt", 900, 60).read_text(encoding="utf-8").splitlines()
    row, found = lines[450], []
    for company in (1, 10, 900):
        part = lines[:company]
        part[company // 2] = row
        (out / "company.txt").write_text("\n".join(part) + "\n", encoding="utf-8")
        summary, said = embed(args, out / "company.txt", "-m", model, *OWN, "--precision", "fp16", "-o", out / "company.npy")
        if summary is None:
            return clock.say("bits", model=name, failed=said)
        _, width, values = matrix(out / "company.npy")
        found.append(values[company // 2 * width : (company // 2 + 1) * width].tobytes())
    clock.say("bits", model=name, among_10=found[0] == found[1], among_900=found[0] == found[2])


class Memory:
    """The greatest memory in use on the card while a step runs."""

    def __enter__(self):
        self.most, self.ends = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.ends.wait(0.2):
            said = words_of(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"])
            self.most = max(self.most, int(said.split()[0])) if said.split() and said.split()[0].isdigit() else self.most

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def rates(args, out, clock, models):
    """Rows of 68 tokens from a file to NPY, by our engine and by ONNX Runtime."""
    for name, model in models.items():
        count = {"minilm": 400_000, "e5-small": 200_000, "bge-base": 80_000}.get(name, 25_000)
        count = max(64, int(count * args.scale))
        corpus = texts(out / f"{count}.txt", count, WORDS_OF_68_TOKENS)
        for engine, options in (("own", OWN), ("onnxruntime", OTHER)):
            if clock.left() < 20:
                clock.say("left out", what=f"rate of {name} by {engine}")
                continue
            with Memory() as memory:
                summary, said = embed(args, corpus, "-m", model, *options, "--precision", "fp16", "--weights", "safetensors",
                                      "-o", out / "rate.npy")  # fmt: skip
            if summary is None:
                clock.say("rate", model=name, engine=engine, failed=said)
                continue
            rate = summary["rows_per_second"]
            clock.say("rate", model=name, engine=engine, rows_per_second=round(rate), start_s=summary["load_seconds"],
                      share_of_kernels=round(rate / AIMS[name], 3), peak_mib=memory.most, limit=summary["stages"]["limit"],
                      version=summary["engine"]["version"])  # fmt: skip


def faults(args, out, clock, model):
    """Faults give an error with words, and no output."""
    (out / "one.txt").write_text("a text\n", encoding="utf-8")
    for what, options, environment in (
        ("a device that is not there", [*OWN, "--device", "7"], {}),
        ("a hidden card", OWN, {"CUDA_VISIBLE_DEVICES": ""}),
    ):
        result = out / "fault.npy"
        summary, said = embed(args, out / "one.txt", "-m", model, *options, "-o", result, env=environment)
        clock.say("fault", what=what, is_refused=summary is None and not result.exists(), said=said)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="embedctl")
    parser.add_argument("--library", help="ONNX Runtime's library, if embedctl is not to find it")
    parser.add_argument("--shapes", type=Path, help="a folder of checkpoints, by make_checkpoint.py")
    parser.add_argument("--seconds", default=290, type=float)
    parser.add_argument("--scale", default=1.0, type=float, help="of the rows that are drawn at random, to try the script")
    parser.add_argument("--results", default=Path("quick.jsonl"), type=Path)
    args = parser.parse_args()
    clock = Clock(args.results, args.seconds)
    clock.say("machine", hardware=hardware().splitlines(), version=words_of([args.binary, "--version"]))
    found = sorted(args.shapes.iterdir()) if args.shapes and args.shapes.is_dir() else []
    models = {folder.name: folder for folder in found if folder.name in AIMS}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        first = next(iter(models.values()), MODEL)
        (out / "one.txt").write_text("a text\n", encoding="utf-8")
        for turn in ("first", "second"):
            summary, said = embed(args, out / "one.txt", "-m", first, *OWN, "--precision", "fp16", "-o", out / "one.npy")
            clock.say("start", turn=turn, model=first.name, said=said, seconds=summary and summary["load_seconds"])
        parity(args, out, clock, "fp32")
        for name in ("e5-small", "qwen3-0.6b"):
            if name in models:
                same_bits(args, out, clock, name, models[name])
        faults(args, out, clock, first)
        rates(args, out, clock, models)
        for precision in ("fp16", "bf16"):
            if clock.left() > 40:
                parity(args, out, clock, precision)
            else:
                clock.say("left out", what=f"parity {precision}")
    clock.say("end")


if __name__ == "__main__":
    sys.exit(main())
