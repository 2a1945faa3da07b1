#!/usr/bin/env python3
"""What embedctl does on an NVIDIA GPU: devices, parity, speed, utilisation. Writes a page of Markdown.

Uses Python's standard library only, so that it runs on a bare machine. run.sh prepares what it needs.
"""

import argparse
import array
import csv
import datetime
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
MODEL = REPO / "fixtures/models/all-MiniLM-L6-v2"
CASES = REPO / "fixtures/parity"

# TensorRT builds an engine for every model, so it is shown a part of the cases: one of each kind.
TENSORRT_CASES = ["bert-cls", "bert-dense-tanh", "roberta-mean", "pool-max", "pool-booleans-concat", "qwen3-lasttoken"]


def matrix(path):
    """A float32 .npy file as (rows, width, values)."""
    with open(path, "rb") as file:
        assert file.read(6) == b"\x93NUMPY", f"{path} is no .npy file"
        major = file.read(2)[0]
        (length,) = struct.unpack("<H", file.read(2)) if major == 1 else struct.unpack("<I", file.read(4))
        header = file.read(length).decode()
        assert "'<f4'" in header and "'fortran_order': False" in header, header
        shape = header.split("(")[1].split(")")[0]
        rows, width = (int(part) for part in shape.split(",") if part.strip())
        values = array.array("f")
        values.frombytes(file.read())
    assert len(values) == rows * width, f"{path} is cut"
    return rows, width, values


def embed(args, *more):
    """Runs embedctl embed; returns its summary, or its error."""
    command = [args.binary, "embed", "--log-format", "json", "--force", "--no-profile", *map(str, more)]
    if args.library:
        command += ["--ort-lib", args.library]
    done = subprocess.run(command, capture_output=True, text=True)
    events = []
    for line in done.stderr.splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            pass  # the driver's or the library's own words
    summary = next((event for event in events if event.get("event") == "summary"), None)
    if done.returncode != 0 or summary is None:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    return summary, None


def parity(args, provider, out):
    """Rows of every case against the reference; returns Markdown."""
    cases = sorted(folder for folder in CASES.iterdir() if (folder / "case.json").exists())
    if provider == "tensorrt":
        cases = [case for case in cases if case.name in TENSORRT_CASES]
    passed, worst, failures = 0, (0.0, ""), []
    for case in cases:
        settings = json.loads((case / "case.json").read_text())
        result = out / "case.npy"
        _, error = embed(
            args, case / "texts.jsonl", "-i", "jsonl", "-m", case / "model", "-p", provider, "-o", result,
            "--batch-tokens", "512", *settings["args"],
        )  # fmt: skip
        if error:
            failures.append(f"`{case.name}`: {error}")
            continue
        ours, expected = matrix(result), matrix(case / "expected.npy")
        if ours[:2] != expected[:2]:
            failures.append(f"`{case.name}`: {ours[:2]} instead of {expected[:2]}")
            continue
        # Written so that NaN is no agreement.
        apart = max((abs(a - b) if a == a else float("inf") for a, b in zip(ours[2], expected[2])), default=0.0)
        worst = max(worst, (apart, case.name))
        if apart <= max(args.tolerance, settings["tolerance"]):
            passed += 1
        else:
            failures.append(f"`{case.name}`: {apart:.1e} apart")
    lines = [
        f"{passed} of {len(cases)} cases within {args.tolerance:g} of the reference; the largest difference is "
        f"{worst[0]:.1e} (`{worst[1]}`)."
    ]
    return "\n".join(lines + [f"- {failure}" for failure in failures])


def texts(path, rows, words):
    """Different texts of about so many words each, drawn from the sentences in fixtures/inputs."""
    pool = (REPO / "fixtures/inputs/quotes.txt").read_text(encoding="utf-8").split()
    choose = random.Random(rows * words)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(rows):
            count = max(3, round(choose.gauss(words, words / 4)))
            file.write(" ".join(choose.choices(pool, k=count)) + "\n")
    return path


class Utilisation:
    """Samples of nvidia-smi while a run goes on."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.file = open(self.path, "w")
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=index,utilization.gpu,memory.used,power.draw",
                 "--format=csv,noheader,nounits", "-lms", "50"],
                stdout=self.file, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            self.process = None
        self.began = time.monotonic()
        return self

    def __exit__(self, *_):
        self.ended = time.monotonic()
        if self.process:
            self.process.terminate()
            self.process.wait()
        self.file.close()

    def during(self, load, run):
        """(mean utilisation in percent, peak memory in MiB) of the GPU in use, from `load` s on for `run` s."""
        with open(self.path) as file:
            rows = [row for row in csv.reader(file) if len(row) == 4]
        if not rows:
            return None
        # One line a GPU and sample, evenly spread over the time.
        gpus = sorted({row[0] for row in rows})
        best = None
        for gpu in gpus:
            own = [row for row in rows if row[0] == gpu]
            step = (self.ended - self.began) / len(own)
            inside = own[int(load / step) : max(int(load / step) + 1, int((load + run) / step))]
            usage = [float(row[1]) for row in inside if row[1].strip().replace(".", "").isdigit()]
            memory = [float(row[2]) for row in inside if row[2].strip().replace(".", "").isdigit()]
            if usage and (best is None or statistics.mean(usage) > best[0]):
                best = statistics.mean(usage), max(memory, default=0.0)
        return best


def speed(args, out):
    """A table of rates; returns Markdown."""
    corpora = {
        "short": texts(out / "short.txt", args.short_rows, 13),
        "long": texts(out / "long.txt", args.long_rows, 180),
    }
    lines = [
        "| provider | arithmetic | texts | rows | rows/s | tokens/s | start-up | GPU busy | GPU waits | GPU memory | batch |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for provider in args.providers:
        for arithmetic in ["fp32", "fp16"]:
            more = ["-m", MODEL]
            if arithmetic == "fp16":
                if provider == "tensorrt":
                    more += ["--provider-option", "tensorrt.precision=fp16"]
                elif args.half_model:
                    more = ["-m", args.half_model, "--precision", "fp16"]
                else:
                    lines.append(f"| {provider} | fp16 | no model_fp16.onnx was given |" + " |" * 8)
                    continue
            for name, corpus in corpora.items():
                best = None
                for _ in range(args.rounds):
                    with Utilisation(out / "smi.csv") as sampler:
                        summary, error = embed(args, corpus, "-p", provider, *more, "-o", out / "speed.npy")
                    if error:
                        lines.append(f"| {provider} | {arithmetic} | {name} | {error.replace('|', '/')} |" + " |" * 7)
                        break
                    load, run = summary["load_seconds"], summary["run_seconds"]
                    if best is None or summary["rows_per_second"] > best[0]["rows_per_second"]:
                        best = summary, sampler.during(load, run)
                if error or best is None:
                    continue
                summary, usage = best
                busy = f"{usage[0]:.0f} % | {100 - usage[0]:.0f} % | {usage[1]:,.0f} MiB" if usage else "? | ? | ?"
                lines.append(
                    f"| {provider} | {arithmetic} | {name} | {summary['embedded']:,} | {summary['rows_per_second']:,.0f} "
                    f"| {summary['tokens_per_second']:,.0f} | {summary['load_seconds']:.1f} s | {busy} "
                    f"| {summary['engine'].get('batch_tokens', '–')} |"
                )
                print(lines[-1], flush=True)
    return "\n".join(lines)


def words_of(command):
    """What a command says on either stream; its absence in words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({error})"
    return (done.stdout + done.stderr).strip() or f"(nothing; exit code {done.returncode})"


def hardware():
    """The machine, a line each."""
    gpu = words_of(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    cpu = platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            cpu = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"- GPU: {gpu}\n- Processor: {cpu}, {len(os.sched_getaffinity(0))} cores usable\n- System: {platform.platform()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="embedctl")
    parser.add_argument("--library", help="ONNX Runtime's library, if embedctl is not to find it")
    parser.add_argument("--half-model", help="a copy of the model with onnx/model_fp16.onnx")
    parser.add_argument("--providers", default="cuda,tensorrt", type=lambda text: text.split(","))
    parser.add_argument("--tolerance", default=1e-3, type=float, help="largest difference from the reference")
    parser.add_argument("--short-rows", default=1_000_000, type=int)
    parser.add_argument("--long-rows", default=60_000, type=int)
    parser.add_argument("--rounds", default=2, type=int, help="the fastest of so many runs counts")
    parser.add_argument("--results", default=REPO / "benches/gpu/RESULTS.md", type=Path)
    args = parser.parse_args()

    commit = words_of(["git", "-C", str(REPO), "rev-parse", "--short", "HEAD"])
    page = [
        "# On a GPU",
        f"Made by `benches/gpu/run.sh` on {datetime.date.today():%Y-%m-%d}; {words_of([args.binary, '--version'])}, "
        f"commit {commit}.",
        hardware(),
    ]
    library = ["--ort-lib", args.library] if args.library else []
    page += ["## Devices", f"```\n{words_of([args.binary, 'devices', *library])}\n```"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        page.append("## Parity")
        page.append("fp32, TF32 off, against vectors of sentence-transformers (`fixtures/parity`).")
        for provider in args.providers:
            page.append(f"**{provider}**: {parity(args, provider, out)}")
            print(page[-1], flush=True)
        page.append("## Speed")
        page.append(
            "all-MiniLM-L6-v2, from a text file to NPY, start-up left out; texts of about 13 and about 180 words, drawn "
            "at random from `fixtures/inputs`. Busy is nvidia-smi's utilisation during the run, on average; the rest is "
            "time the GPU waits."
        )
        page.append(speed(args, out))
        for provider in args.providers:
            command = [args.binary, "bench", "--provider", provider, "-m", str(MODEL), *library]
            page.append(f"`{' '.join(Path(part).name if '/' in part else part for part in command)}`:")
            page.append(f"```\n{words_of(command)}\n```")
    args.results.write_text("\n\n".join(page) + "\n", encoding="utf-8")
    print(f"wrote {args.results}")


if __name__ == "__main__":
    sys.exit(main())
