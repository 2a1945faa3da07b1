#!/usr/bin/env python3
"""What a GPU must confirm of embedctl's own engine (`cuda.engine=own`), in at most five minutes on a bare machine.

Each step appends a line of JSON to --results as soon as it is measured, so that a run that is cut short leaves what it saw.
--steps chooses: `start` (seconds to the first batch, cold and warm), `cases` (every case of fixtures/ in each precision), `bits`
(a row alone, among 10 and among 900), `faults`, `rates` (rows of 68 tokens a second, by each engine of --engines), `kernels`
(the card's time by kernel, where NVIDIA's ncu is installed), `peers` (sentence-transformers).
Uses Python's standard library only. `run.sh --quick` prepares what it needs.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases import REPO, all_cases, floats, run
from measure import MODEL, WORDS_OF_68_TOKENS, embed, hardware, texts, words_of

ENGINES = {
    "own": ["-p", "cuda", "--provider-option", "cuda.engine=own"],
    "onnxruntime": ["-p", "cuda", "--provider-option", "cuda.engine=onnxruntime"],
    "native": ["-p", "native"],
}
OWN = ENGINES["own"]

# Rows of 68 tokens a second that kernels alone reached on an H200 in half precision.
AIMS = {"minilm": 204_326, "e5-small": 108_188, "bge-base": 39_599, "bge-large": 12_115, "qwen3-0.6b": 8_207}

# How far a number may be from the reference, in units of its size where that is above 1; the processor's limit is for its own
# order of sums. In half precision the least cosine counts.
MOST_APART = {"fp32": 1e-4, "fp16": 0.02, "bf16": 0.15}
LEAST_COSINE = {"fp32": 0.999_999, "fp16": 0.9995, "bf16": 0.99}


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


def check_cases(args, out, clock, precision):
    """Every case with a checkpoint against its reference."""

    def one(case):
        result = out / f"{case.name.replace('/', '-').replace(' ', '-')}-{precision}.{case.ending}"
        told = [] if precision == "fp32" else ["--precision", precision]
        told += ["--weights", "safetensors", "--threads", "2", *ENGINES[args.cases_on]]
        summary, said = run([*case.command(args.binary, result), *told])
        if summary is None:
            return case, "failed", said
        ran = summary.get("engine", {}).get("engine")
        if args.cases_on == "own" and ran != "cuda":
            return case, "other", f"{ran}: {said}"
        try:
            apart = case.apart(result)
        except (ValueError, KeyError, TypeError, OSError) as error:
            return case, "wrong", str(error)
        finally:
            result.unlink(missing_ok=True)
        # Which tokens are put together is decided by the smallest differences.
        if precision != "fp32" and case.kind == "multi" and case.folder.name.startswith("pool"):
            return case, "grouped", f"cosine {apart.cosine:.6f}"
        # Of vectors in half precision the direction counts, of scores the numbers.
        near = apart.most <= MOST_APART[precision] or precision != "fp32" and case.kind != "scores"
        if near and apart.cosine >= LEAST_COSINE[precision]:
            return case, "right", apart
        return case, "wrong", f"{apart.most:.1e} apart, cosine {apart.cosine:.6f}"

    cases = [case for case in all_cases() if not args.kinds or case.kind in args.kinds]
    with ThreadPoolExecutor(min(args.processes, os.cpu_count() or 1)) as pool:
        done = list(pool.map(one, cases))
    right = [apart for _, state, apart in done if state == "right"]
    clock.say(
        f"cases {precision}", cases=len(cases), right=len(right),
        most_apart=max((apart.most for apart in right), default=None), least_cosine=min((apart.cosine for apart in right), default=None),
        by_other_engines={case.name: said for case, state, said in done if state == "other"},
        tokens_grouped_otherwise=[case.name for case, state, said in done if state == "grouped"],
        failed={case.name: said for case, state, said in done if state == "failed"},
        wrong={case.name: said for case, state, said in done if state == "wrong"},
    )  # fmt: skip


def same_bits(args, out, clock, name, model, precision):
    """A row alone, among 10 and among 900."""
    lines = texts(out / "900.txt", 900, 60).read_text(encoding="utf-8").splitlines()
    row, found = lines[450], []
    for company in (1, 10, 900):
        part = lines[:company]
        part[company // 2] = row
        (out / "company.txt").write_text("\n".join(part) + "\n", encoding="utf-8")
        summary, said = embed(args, out / "company.txt", "-m", model, *OWN, "--precision", precision, "-o", out / "company.npy")
        if summary is None:
            return clock.say("bits", model=name, precision=precision, failed=said)
        found.append(bytes(floats(out / "company.npy")[company // 2].tobytes()))
    clock.say("bits", model=name, precision=precision, among_10=found[0] == found[1], among_900=found[0] == found[2])


class Samples:
    """The memory in use on the card, its clock and its power while a step runs."""

    def __enter__(self):
        self.seen, self.ends = [], threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.ends.wait(0.2):
            said = words_of(["nvidia-smi", "--query-gpu=memory.used,clocks.sm,power.draw", "--format=csv,noheader,nounits"])
            try:
                self.seen.append([float(part) for part in said.splitlines()[0].split(",")])
            except ValueError:
                pass  # there is no card

    def most(self):
        """MiB, MHz while the power was greatest, and W."""
        if not self.seen:
            return {}
        at_work = max(self.seen, key=lambda sample: sample[2])
        return {"peak_mib": max(sample[0] for sample in self.seen), "clock_mhz": at_work[1], "power_w": at_work[2]}

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def different_rows(path, count):
    """Rows of about 68 tokens, no two alike: drawing each word of all of them would take longer than the run."""
    pool = (REPO / "fixtures/inputs/quotes.txt").read_text(encoding="utf-8").split()
    choose = random.Random(count)
    drawn = []
    for _ in range(min(count, 20_000)):
        words = max(3, round(choose.gauss(WORDS_OF_68_TOKENS, WORDS_OF_68_TOKENS / 4)))
        drawn.append(" ".join(choose.choices(pool, k=words - 1)))
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            turn, line = divmod(number, len(drawn))
            file.write(f"{pool[(turn * 7 + line) % len(pool)]} {drawn[line]}\n")
    return path


def rates(args, out, clock, models):
    """Rows of 68 tokens from a file to NPY."""
    for name, model in models.items():
        count = {"minilm": 400_000, "e5-small": 300_000, "bge-base": 120_000, "bge-large": 40_000}.get(name, 25_000)
        count = max(64, int(count * args.scale))
        corpus = different_rows(out / f"{count}.txt", count)
        for engine in args.engines:
            for precision in args.precisions:
                if clock.left() < 15:
                    clock.say("left out", what=f"rate of {name} by {engine} in {precision}")
                    continue
                with Samples() as samples:
                    summary, said = embed(args, corpus, "-m", model, *ENGINES[engine], "--precision", precision,
                                          "--weights", "safetensors", *args.more, "-o", out / "rate.npy")  # fmt: skip
                if summary is None:
                    clock.say("rate", model=name, engine=engine, precision=precision, failed=said)
                    continue
                rate = summary["rows_per_second"]
                clock.say("rate", model=name, engine=engine, precision=precision, rows=count, rows_per_second=round(rate),
                          start_s=summary["load_seconds"], share_of_kernels=round(rate / AIMS[name], 3),
                          tokens_a_row=round(summary["tokens"] / count, 1), stages=summary["stages"],
                          cosine=summary["engine"].get("cosine_to_cpu"), **samples.most(), version=summary["engine"]["version"])  # fmt: skip
        corpus.unlink()


def kernels(args, out, clock, models):
    """The card's time by kernel, as NVIDIA's ncu sees it: kernels one after another, without the gaps between them."""
    for name, model in models.items():
        corpus = different_rows(out / "kernels.txt", 964)
        log = out / "kernels.csv"
        command = ["ncu", "--csv", "--page", "raw", "--metrics", "gpu__time_duration.sum", "--clock-control", "none"]
        # As in a run, what a kernel reads may lie in the card's cache.
        command += ["--cache-control", "none", "--log-file", log]
        command += [args.binary, "embed", corpus, "-m", model, *OWN, "--precision", "fp16", "-o", out / "kernels.npy", "--force"]
        said = words_of([*map(str, command)])
        if not log.exists():
            clock.say("kernels", model=name, failed=said[-300:])
            continue
        lines = [line for line in open(log, encoding="utf-8", errors="replace") if line.startswith('"')]
        found = {}
        for row in csv.DictReader(lines):
            time_of = (row.get("gpu__time_duration.sum") or "").replace(",", "")
            try:
                time_of = float(time_of)
            except ValueError:
                continue  # the line of units
            key = f"{row.get('Kernel Name', '')[:60]} {row.get('Grid Size', '')} {row.get('Block Size', '')}"
            count, total = found.get(key, (0, 0.0))
            found[key] = count + 1, total + time_of
        most = sorted(found.items(), key=lambda it: -it[1][1])[:24]
        clock.say("kernels", model=name, launches=sum(count for count, _ in found.values()),
                  time=round(sum(total for _, total in found.values()), 1), by_kernel={key: [n, round(t, 1)] for key, (n, t) in most})  # fmt: skip


def peers(args, out, clock, models):
    """sentence-transformers on the same texts, in half precision."""
    for name, model in models.items():
        if clock.left() < 25:
            clock.say("left out", what=f"sentence-transformers on {name}")
            continue
        count = {"minilm": 30_000, "e5-small": 20_000, "bge-base": 15_000, "bge-large": 6_000}.get(name, 4_000)
        corpus = different_rows(out / f"{count}.txt", max(64, int(count * args.scale)))
        for size in (256, 1024):
            script = REPO / "benches/peers/sentence_transformers_peer.py"
            told = ["--backend", "torch", "--dtype", "float16", "--model-dir", model, "--input", corpus, "--device", "cuda"]
            said = words_of([sys.executable, *map(str, [script, *told, "--batch-size", size])])
            try:
                answer = json.loads(said.splitlines()[-1])
                clock.say("peer", model=name, tool="sentence-transformers", batch=size, rows_per_second=answer.get("rows_per_s"))
            except (ValueError, IndexError):
                clock.say("peer", model=name, tool="sentence-transformers", batch=size, failed=said[-300:])


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


def starts(args, out, clock, models):
    """Seconds until the first batch: with kernels and algorithms to choose, and with those that are kept."""
    (out / "one.txt").write_text("a text\n", encoding="utf-8")
    for name, model in models.items():
        for turn in ("first", "second"):
            began = time.monotonic()
            summary, said = embed(args, out / "one.txt", "-m", model, *OWN, "--precision", "fp16", "-o", out / "one.npy")
            whole = round(time.monotonic() - began, 2)
            clock.say("start", turn=turn, model=name, said=said, seconds=summary and summary["load_seconds"], process_s=whole)


def main():
    words = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="embedctl")
    parser.add_argument("--library", help="ONNX Runtime's library, if embedctl is not to find it")
    parser.add_argument("--shapes", type=Path, help="a folder of checkpoints, by make_checkpoint.py")
    parser.add_argument("--seconds", default=290, type=float)
    parser.add_argument("--scale", default=1.0, type=float, help="of the rows that are drawn at random, to try the script")
    parser.add_argument("--steps", default=words("start,cases,bits,faults,rates,kernels,peers"), type=words)
    parser.add_argument("--engines", default=words("own,onnxruntime"), type=words, help="those whose rates are measured")
    parser.add_argument("--precisions", default=words("fp16"), type=words, help="those whose rates are measured")
    parser.add_argument("--cases-in", default=words("fp32,fp16,bf16"), type=words)
    parser.add_argument("--cases-on", default="own", choices=ENGINES, help="the engine whose cases are checked")
    parser.add_argument("--kinds", default=[], type=words, help="the kinds of cases; all if left out")
    parser.add_argument("--models", default=list(AIMS), type=words)
    parser.add_argument("--kernels-of", default=words("e5-small,qwen3-0.6b"), type=words)
    parser.add_argument("--processes", default=8, type=int, help="cases at a time")
    parser.add_argument("--results", default=Path("quick.jsonl"), type=Path)
    args, args.more = parser.parse_known_args()
    clock = Clock(args.results, args.seconds)
    clock.say("machine", hardware=hardware().splitlines(), version=words_of([args.binary, "--version"]))
    there = lambda name: args.shapes and (args.shapes / name / "model.safetensors").exists()  # noqa: E731
    models = {name: args.shapes / name for name in args.models if there(name)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        first = next(iter(models.values()), MODEL)
        for step in args.steps:
            if clock.left() < 10:
                clock.say("left out", what=step)
            elif step == "start":
                starts(args, out, clock, {name: models[name] for name in ("minilm", "qwen3-0.6b") if name in models})
            elif step == "cases":
                for precision in args.cases_in:
                    if clock.left() < 30:
                        clock.say("left out", what=f"cases {precision}")
                    else:
                        check_cases(args, out, clock, precision)
            elif step == "bits":
                for name in ("e5-small", "qwen3-0.6b"):
                    if name in models:
                        same_bits(args, out, clock, name, models[name], "fp16")
            elif step == "faults":
                faults(args, out, clock, first)
            elif step == "rates":
                rates(args, out, clock, models)
            elif step == "kernels":
                kernels(args, out, clock, {name: models[name] for name in args.kernels_of if name in models})
            elif step == "peers":
                peers(args, out, clock, models)
    clock.say("end")


if __name__ == "__main__":
    sys.exit(main())
