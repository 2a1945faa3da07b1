"""Runs embedctl and its peers in turn on the same texts and prints a table in Markdown.

run.sh calls this with the interpreter of the peers' environment. A rate is rows per second with
the model loaded: a peer's line excludes loading by itself, and of embedctl, which is measured
from outside, the wall time of a run on one row is taken off that of the whole.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from common import read_texts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@dataclass(frozen=True)
class Setting:
    """A row of the table. The command lacks its input; embedctl's also lacks its output."""

    tool: str
    label: str
    command: tuple
    is_embedctl: bool = False
    min_cosine: float = 0.999

    def __str__(self):
        return f"{self.tool}, {self.label}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="*", type=Path, help="a .txt or .jsonl file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", default="32,64,128,256", help="the peers' batch sizes")
    parser.add_argument("--only", default="", help="settings whose name matches this expression")
    help_best = "after the first round, keep only the fastest setting of each tool"
    parser.add_argument("--best", action="store_true", help=help_best)
    parser.add_argument("--rows", type=int, help="only the first rows of the corpus")
    parser.add_argument("--save", type=Path, help="append every measurement to this file (JSONL)")
    help_check = "first compare the vectors of each tool with the model's reference"
    parser.add_argument("--check", action="store_true", help=help_check)
    args = parser.parse_args()
    if not args.corpus and not args.check:
        parser.error("name a corpus, or --check")
    return args


def path_from_env(name, default):
    return Path(os.environ.get(name, ROOT / default)).resolve()


def onnxruntime_library():
    """The library inside the Python package, for the tools that load it by its path."""
    package = Path(importlib.util.find_spec("onnxruntime").origin).parent
    names = (path for path in (package / "capi").iterdir() if path.name.startswith("libonnx"))
    return next(path for path in names if "providers" not in path.name)


def settings(batches):
    """All rows of the table; tools that are not here are named on standard error and left out."""
    model = str(path_from_env("MODEL", "fixtures/models/all-MiniLM-L6-v2"))
    embedctl = path_from_env("EMBEDCTL", "target/release/embedctl")
    crate = path_from_env("FASTEMBED_RS", "target/peers/release/fastembed-peer")
    python = sys.executable

    if embedctl.exists():
        answer = subprocess.run([embedctl, "--version"], capture_output=True, text=True, check=True)
        command = (embedctl, "embed", "-m", model, "--force", "-q")
        own = [("ONNX Runtime, fp32", ("-p", "cpu"), 0.999)]
        for precision, cosine in (("fp32", 0.999999), ("int16", 0.9999), ("int8", 0.998)):
            own.append((f"native, {precision}", ("-p", "native", "--precision", precision), cosine))
        for name, library in (("", "OPENVINO"), (" as a plug-in", "OPENVINO_PLUGIN")):
            for precision in ("fp32", "bf16") if library in os.environ else ():
                options = ("-p", "openvino", "--ort-lib", os.environ[library])
                own.append((f"OpenVINO{name}, {precision}", (*options, "--precision", precision), 0.999))
        for label, options, cosine in own:
            yield Setting(answer.stdout.strip(), label, (*command, *options), True, cosine)
    else:
        note(f"left out: embedctl (no {embedctl}; see EMBEDCTL)")

    peers = []
    if crate.exists():
        peers.append(("fastembed 7.5.0 (Rust)", "", (crate, "--model-dir", model), 0.999))
    else:
        note(f"left out: fastembed (Rust) (no {crate}; see run.sh --setup)")

    command = (python, HERE / "fastembed_peer.py", "--model-dir", model)
    workers = ("--processes", str(CORES))
    tool = f"fastembed {version('fastembed')} (Python)"
    peers.append((tool, "", command, 0.999))
    peers.append((tool, f", {CORES} processes", command + workers, 0.999))

    tool = f"sentence-transformers {version('sentence-transformers')}"
    command = (python, HERE / "sentence_transformers_peer.py", "--model-dir")
    peers.append((f"{tool} (ONNX)", "", (*command, model), 0.999))
    for name, dtype, cosine in (("fp32", "float32", 0.999), ("bf16", "bfloat16", 0.99)):
        torch = (*command, model, "--backend", "torch", "--dtype", dtype)
        peers.append((f"{tool} (torch {name})", "", torch, cosine))
        label = f", {CORES} processes"
        peers.append((f"{tool} (torch {name})", label, torch + workers, cosine))

    for tool, label, command, cosine in peers:
        for batch in batches:
            sized = (*command, "--batch-size", batch)
            yield Setting(tool, f"batches of {batch}{label}", sized, min_cosine=cosine)


def note(text):
    print(text, file=sys.stderr, flush=True)


def run(command):
    """Runs a command and returns its standard output and its wall time in seconds."""
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
    return done.stdout, seconds


def measure(setting, corpus, rows, folder):
    """Rows per second of one setting, and what is known about how they came about."""
    if not setting.is_embedctl:
        line = json.loads(run((*setting.command, "--input", corpus))[0].splitlines()[-1])
        if line.get("rows_per_s") and line["rows"] not in (rows, rows - 1):
            raise SystemExit(f"{setting}: {line['rows']} rows instead of {rows}")
        return line.get("rows_per_s"), line
    one = folder / f"one{corpus.suffix}"
    with open(corpus, encoding="utf-8") as file:
        one.write_text(file.readline(), encoding="utf-8")
    output = folder / "vectors.parquet"
    start_s = run((*setting.command, one, "-o", output))[1]
    whole_s = run((*setting.command, corpus, "-o", output))[1]
    # The start-up run has embedded one of the rows.
    return (rows - 1) / (whole_s - start_s), {"one_row_s": start_s, "whole_s": whole_s}


def compare(args, chosen, corpus, folder):
    """Measures round by round, every tool once a round, and prints the table."""
    if args.rows:
        with open(corpus, encoding="utf-8") as file:
            lines = [line for line, _ in zip(file, range(args.rows))]
        corpus = folder / corpus.name
        corpus.write_text("".join(lines), encoding="utf-8")
    rows = len(read_texts(corpus))
    rates = defaultdict(list)
    active = list(chosen)
    for number in range(args.rounds):
        # Each round starts with another tool, so that none always follows the same one.
        turn = number % len(active)
        for setting in active[turn:] + active[:turn]:
            rate, detail = measure(setting, corpus, rows, folder)
            if rate is None:
                note(f"skipped: {setting}: {detail['skipped']}")
                continue
            note(f"{corpus.name}, round {number + 1}: {setting}: {rate:.0f} rows/s")
            rates[setting].append(rate)
            if args.save:
                entry = {"corpus": corpus.name, "setting": str(setting), "rate": rate} | detail
                with open(args.save, "a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
        active = [setting for setting in active if rates[setting]]
        if args.best:
            best = fastest(rates)
            active = [s for s in active if s.is_embedctl or best[s.tool] == s]
    print(table(rates, f"{corpus.name}, {rows:,} rows, {args.rounds} rounds"), flush=True)


def fastest(rates):
    """The setting with the best median for each tool."""
    best = {}
    for setting, values in rates.items():
        if values:
            other = best.get(setting.tool)
            if not other or statistics.median(values) > statistics.median(rates[other]):
                best[setting.tool] = setting
    return best


def table(rates, title):
    ours = [statistics.median(v) for setting, v in rates.items() if setting.is_embedctl and v]
    best = fastest(rates)
    lines = [
        f"{title}; {cpu_name()}, {CORES} cores; ONNX Runtime {version('onnxruntime')}. "
        "The best setting of each tool is bold.",
        "",
        "| tool | setting | rows/s, median | min–max | runs | beside the first |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for setting, values in rates.items():
        if not values:
            continue
        middle = statistics.median(values)
        shown = f"{middle:,.0f}"
        if best[setting.tool] == setting:
            shown = f"**{shown}**"
        ratio = f"{middle / ours[0]:.2f}" if ours else ""
        spread = f"{min(values):,.0f}–{max(values):,.0f}"
        cells = (setting.tool, setting.label, shown, spread, len(values), ratio)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return re.search(r"model name\s*: (.*)", file.read())[1]
    except (OSError, TypeError):  # no such file, or no such line
        return platform.processor() or platform.machine()


def check(chosen, folder):
    """Compares the vectors of every tool with those of the model's reference."""
    reference = path_from_env("MODEL", "fixtures/models/all-MiniLM-L6-v2") / "reference"
    expected = np.load(reference / "expected.npy")
    failed = False
    for setting in chosen:
        output = folder / "vectors.npy"
        output.unlink(missing_ok=True)
        texts = reference / "texts.jsonl"
        if setting.is_embedctl:
            run((*setting.command, texts, "-o", output))
        else:
            run((*setting.command, "--input", texts, "--out", output))
        vectors = np.load(output)
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
        cosine = (np.sum(vectors * expected, axis=1) / lengths).min()
        good = cosine >= setting.min_cosine
        failed |= not good
        print(f"{'ok  ' if good else 'FAIL'} {cosine:.5f} {setting}", flush=True)
    if failed:
        raise SystemExit("some vectors differ from the reference")


def main():
    args = parse()
    os.environ.setdefault("ORT_DYLIB_PATH", str(onnxruntime_library()))
    os.environ |= {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1"}
    chosen = [s for s in settings(args.batches.split(",")) if re.search(args.only, str(s))]
    if not chosen:
        raise SystemExit("nothing to run")
    with tempfile.TemporaryDirectory() as folder:
        if args.check:
            check(chosen, Path(folder))
        for corpus in args.corpus:
            compare(args, chosen, corpus, Path(folder))


if __name__ == "__main__":
    main()
