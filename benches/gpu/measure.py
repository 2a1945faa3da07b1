#!/usr/bin/env python3
"""What embedctl does on an NVIDIA GPU: devices, parity, speed, what each part of it brings, peers, and what goes wrong.

Writes a page of Markdown, a section as soon as it is measured. Uses Python's standard library only, so that it runs on a bare machine. run.sh prepares what it needs.
"""

import argparse
import concurrent.futures
import csv
import datetime
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cases import REPO, cosine, floats, is_network, matrix, run

MODEL = REPO / "fixtures/models/all-MiniLM-L6-v2"
CASES = REPO / "fixtures/parity"

# Words of a row of about 68 tokens, the length in the published figures.
WORDS_OF_68_TOKENS = 51

# Rates that others publish for the same work: not measured here, and on other machines than this one.
PUBLISHED = """Figures of others, not measured here, for rows of 68 tokens and e5-small-v2's shape:

| program | GPU | rows/s |
|---|---|--:|
| ignite-ms | A100 | 50,127 |
| text-embeddings-inference | – | 16,648 |"""

# TensorRT builds an engine for every model, so it is shown a part of the cases: one of each kind.
TENSORRT_CASES = ["bert-cls", "bert-dense-tanh", "roberta-mean", "pool-max", "pool-booleans-concat", "qwen3-lasttoken"]


def embed(args, *more, env=None, library=True):
    """Runs embedctl embed; returns its summary (or None) and what it said."""
    command = [args.binary, "embed", "--log-format", "json", "--force", *map(str, more)]
    if args.library and library:
        command += ["--ort-lib", args.library]
    summary, said = run(command, os.environ | (env or {}), None)
    return summary or None, said


def has(case, weights):
    """Whether a case has an ONNX file, or a checkpoint of a network and no choice among ONNX files."""
    return (case / "model/onnx").exists() if weights == "onnx" else is_network(case, "parity")


def parity(args, provider, weights, out):
    """Rows of every case that has such weights against the reference; returns Markdown."""
    cases = sorted(folder for folder in CASES.iterdir() if (folder / "case.json").exists() and has(folder, weights))
    if provider == "tensorrt":
        cases = [case for case in cases if case.name in TENSORRT_CASES]
    # embedctl's own engine is checked by quick.py.
    told = ["--provider-option", "cuda.engine=onnxruntime"] if (provider, weights) == ("cuda", "safetensors") else []
    passed, worst, failures = 0, (0.0, ""), []
    for case in cases:
        settings = json.loads((case / "case.json").read_text())
        result = out / "case.npy"
        summary, said = embed(
            args, case / "texts.jsonl", "-i", "jsonl", "-m", case / "model", "-p", provider, "-o", result,
            "--weights", weights, "--batch-tokens", "512", *told, *settings["args"],
        )  # fmt: skip
        if summary is None:
            failures.append(f"`{case.name}`: {said}")
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


def corpora(args, out):
    """Texts to measure on, by name: those of benches/corpus, or, without them, words drawn at random; and rows of 68 tokens,
    which are drawn in any case."""
    paragraphs = {"68 tokens": texts(out / "tokens-68.txt", max(8, int(50_000 * args.scale)), WORDS_OF_68_TOKENS)}
    if args.corpora:
        with open(args.corpora / "short-100k.txt", encoding="utf-8") as file, open(out / "glosses.txt", "w", encoding="utf-8") as cut:
            cut.writelines(line for line, _ in zip(file, range(12_000)))
        found = {"glosses": out / "glosses.txt", "code": args.corpora / "long.jsonl", "100k": args.corpora / "short-100k.txt"}
        million = args.corpora / "short-1m.txt"
        return found | paragraphs | ({"1m": million} if million.exists() else {})
    rows = {"glosses": (12_000, 13), "code": (2_000, 180), "100k": (100_000, 13), "1m": (1_000_000, 13)}
    return paragraphs | {name: texts(out / f"{name}.txt", max(8, int(rows * args.scale)), words) for name, (rows, words) in rows.items()}


class Setting:
    """A provider with an arithmetic: what embedctl is told."""

    def __init__(self, name, *told, half=False, built=False, exported=False):
        self.name, self.told, self.half, self.built, self.exported = name, told, half, built, exported


BUILT = ("--weights", "safetensors")
FILE = ("--weights", "onnx")
TENSORRT_HALF = ("--provider-option", "tensorrt.precision=fp16")


def settings(args):
    """What is compared, in order."""
    known = {
        "cpu": [Setting("cpu, fp32", "-p", "cpu")],
        "native": [Setting("native, fp32", "-p", "native")],
        "cuda": [
            Setting("cuda, fp32", *FILE, "-p", "cuda"),
            Setting("cuda, TF32", *FILE, "-p", "cuda", "--provider-option", "cuda.tf32=true"),
            Setting("cuda, fp16", *FILE, "-p", "cuda", "--precision", "fp16", half=True),
            *(
                Setting(
                    f"cuda, {kind} of a built graph",
                    *(*BUILT, "-p", "cuda", "--precision", kind, "--provider-option", "cuda.engine=onnxruntime"),
                    built=True,
                )
                for kind in ("fp32", "fp16", "bf16")
            ),
        ],
        "tensorrt": [
            Setting("tensorrt, fp32", *FILE, "-p", "tensorrt"),
            Setting("tensorrt, fp16", *FILE, "-p", "tensorrt", *TENSORRT_HALF),
            Setting("tensorrt, fp32 of a built graph", *BUILT, "-p", "tensorrt", built=True),
            Setting("tensorrt, fp16 of a built graph", *BUILT, "-p", "tensorrt", "--precision", "fp16", built=True),
            Setting("tensorrt, fp32 of an exported file", *FILE, "-p", "tensorrt", exported=True),
            Setting("tensorrt, fp16 of an exported file", *FILE, "-p", "tensorrt", *TENSORRT_HALF, exported=True),
        ],
    }
    return [setting for provider in args.providers for setting in known[provider]]


def models(args):
    """(name, folder, folder with half precision or None), the small model first."""
    found = [("MiniLM, 6 layers of 384", MODEL, args.half_model)]
    found += [("BERT base, 12 layers of 768", args.base_model, args.half_base)] if args.base_model else []
    return found + [(f"{path.name}'s shape", path, None) for path in args.checkpoint]


def least_cosine(ours, theirs):
    """The least cosine between rows of two .npy files; NaN counts as no agreement."""
    ours, theirs = floats(ours), floats(theirs)
    assert len(ours) == len(theirs)
    return min(map(cosine, ours, theirs), default=1.0)


def measured(args, out, corpus, *told):
    """The fastest of `--rounds` runs with its utilisation, or what was said instead."""
    best = None
    for _ in range(args.rounds):
        with Utilisation(out / "smi.csv") as sampler:
            summary, said = embed(args, corpus, *told, "-o", out / "speed.npy")
        if summary is None:
            return None, said
        if best is None or summary["rows_per_second"] > best[0]["rows_per_second"]:
            best = summary, sampler.during(summary["load_seconds"], summary["run_seconds"])
    return best


def row_of(cells):
    """A line of a table, which is also printed."""
    line = "| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |"
    print(line, flush=True)
    return line


def rate(summary, usage):
    """The cells of a run."""
    busy = [f"{usage[0]:.0f} %", f"{usage[1]:,.0f} MiB"] if usage else ["?", "?"]
    engine = summary["engine"]
    return [
        f"{summary['embedded']:,}", f"{summary['rows_per_second']:,.0f}", f"{summary['tokens_per_second']:,.0f}",
        f"{summary['load_seconds']:.1f} s", *busy, engine.get("batch_tokens", "–"), summary["stages"]["limit"],
    ]  # fmt: skip


RATE = ["rows", "rows/s", "tokens/s", "start-up", "GPU busy", "GPU memory", "batch", "limit"]


def table(first, columns):
    return [row_of([*first, *columns]), "|" + "---|" * len(first) + "--:|" * len(columns)]


def exported(args, folder, out):
    """A copy of a model whose weights are the file that `embedctl export` writes; None without a checkpoint."""
    if not (folder / "model.safetensors").exists():
        return None
    copy = out / f"exported-{folder.name}"
    if not copy.exists():
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.safetensors", "onnx"))
        (copy / "onnx").mkdir()
        print(words_of([args.binary, "export", str(folder), str(copy / "onnx/model.onnx")]), flush=True)
    return copy


def folder_for(args, setting, folder, half, out):
    """The folder of a model that a setting takes, or None where it has no such weights."""
    if setting.exported:
        return exported(args, folder, out)
    if setting.half:
        return half
    return folder if (folder / ("model.safetensors" if setting.built else "onnx")).exists() else None


def speed(args, out, inputs):
    """Every model, arithmetic and corpus; the least cosine to fp32 on the processor over 1,000 glosses."""
    sample = out / "sample.txt"
    with open(inputs["glosses"], encoding="utf-8") as file:
        sample.write_text("".join(line for line, _ in zip(file, range(args.cosine_rows))), encoding="utf-8")
    lines = table(["model", "provider", "texts"], [*RATE, "least cosine"])
    for name, folder, half in models(args):
        # A checkpoint without an ONNX file is built for the processor, too.
        reference, said = embed(args, sample, "-m", folder, "-p", "cpu", "-o", out / "reference.npy")
        for setting in settings(args):
            taken = folder_for(args, setting, folder, half, out)
            if not taken:
                continue
            told = ["-m", taken, *setting.told]
            least = said
            if reference:
                ran, why = embed(args, sample, *told, "-o", out / "cosine.npy")
                least = f"{least_cosine(out / 'cosine.npy', out / 'reference.npy'):.6f}" if ran else why
            for text, corpus in inputs.items():
                if text == "1m" and folder != MODEL:
                    continue
                summary, usage = measured(args, out, corpus, *told)
                cells = rate(summary, usage) if summary else [usage]
                lines.append(row_of([name, setting.name, text, *cells, least]))
    return "\n".join([*lines, "", PUBLISHED])


def parts(args, out, inputs):
    """What pooling in the graph, bound tensors and the measured budget bring, each taken away; two processes at once."""
    if "cuda" not in args.providers:
        return "(CUDA was not measured)"
    off = ["--provider-option", "cuda.pooling=host"], ["--provider-option", "cuda.binding=false"]
    ways = {"as it comes": [], "pooled on the processor": off[0], "not bound": off[1], "neither": [*off[0], *off[1]]}
    ways |= {f"batches of {tokens:,} tokens": ["--batch-tokens", tokens] for tokens in (2048, 8192, 32_768, 131_072)}
    lines = table(["model", "arithmetic", "way"], RATE)
    for name, folder, half in models(args):
        for arithmetic, told in (("fp32", ["-m", folder, *FILE]), ("fp16", ["-m", half, *FILE, "--precision", "fp16"])):
            if arithmetic == "fp16" and not half or not (folder / "onnx").exists():
                continue
            for way, more in ways.items():
                summary, usage = measured(args, out, inputs["100k"], *told, "-p", "cuda", *more)
                lines.append(row_of([name, arithmetic, way, *(rate(summary, usage) if summary else [usage])]))
            with Utilisation(out / "smi.csv") as sampler, concurrent.futures.ThreadPoolExecutor(2) as both:
                run = lambda number: embed(  # noqa: E731
                    args, inputs["100k"], *told, "-p", "cuda", "-o", out / f"both-{number}.npy"
                )
                done = list(both.map(run, range(2)))
            if all(summary for summary, _ in done):
                slowest = max((summary for summary, _ in done), key=lambda summary: summary["run_seconds"])
                joint = slowest | {
                    "embedded": sum(summary["embedded"] for summary, _ in done),
                    "rows_per_second": sum(summary["embedded"] for summary, _ in done) / slowest["run_seconds"],
                    "tokens_per_second": sum(summary["tokens"] for summary, _ in done) / slowest["run_seconds"],
                }
                usage = sampler.during(slowest["load_seconds"], slowest["run_seconds"])
                lines.append(row_of([name, arithmetic, "two processes at once", *rate(joint, usage)]))
    return "\n".join(lines)


def faults(args, out, inputs):
    """What is said where the GPU is hidden, CUDA is of another version, or memory runs out."""
    short = ["-m", MODEL, "-o", out / "fault.npy"]
    glosses = inputs["glosses"]
    cases = [
        ("a hidden GPU", [glosses, "-p", "cuda"], {"CUDA_VISIBLE_DEVICES": ""}, True),
        ("a hidden GPU, `-p cuda,cpu`", [glosses, "-p", "cuda,cpu"], {"CUDA_VISIBLE_DEVICES": ""}, True),
        ("`--device 7`", [glosses, "-p", "cuda", "--device", "7"], None, True),
        (
            "`cuda.memory-limit=1GiB`, batches of 1,000,000 tokens",
            [glosses, "-p", "cuda", "--provider-option", "cuda.memory-limit=1GiB", "--batch-tokens", "1000000"], None, True,
        ),
        ("`cuda.memory-limit=16MiB`", [glosses, "-p", "cuda", "--provider-option", "cuda.memory-limit=16MiB"], None, True),
    ]  # fmt: skip
    if args.other_library:
        cases.append(("a library for another CUDA", [glosses, "-p", "cuda", "--ort-lib", args.other_library], None, False))
    lines = table(["case", "what happened"], [])
    for name, told, env, library in cases:
        summary, said = embed(args, *told, *short, env=env, library=library)
        ran = f"{summary['embedded']:,} rows on {summary['engine']['provider']}: {said}" if summary else f"refused: {said}"
        lines.append(row_of([name, ran]))
    return "\n".join(lines)


def peers(args, out, inputs):
    """sentence-transformers on every shape and fastembed on the same texts, where this Python can import them."""
    here = REPO / "benches/peers"
    lines = table(["model", "texts", "peer", "batch", "rows/s or what it said"], [])
    for name, folder, _ in models(args):
        if not (folder / "model.safetensors").exists():
            continue
        # (What it is called, the script, its options.)
        torch = [here / "sentence_transformers_peer.py", "--backend", "torch"]
        ways = [(f"sentence-transformers, {dtype}", *torch, "--dtype", dtype) for dtype in ("float32", "float16")]
        flash = ("--attention", "flash_attention_2")
        ways += [
            (f"sentence-transformers, {dtype}, {flash[1]}", *torch, "--dtype", dtype, *flash)
            for dtype in ("float16", "bfloat16")
        ]
        ways += [("fastembed", here / "fastembed_peer.py")] if folder == MODEL else []
        for called, script, *more in ways:
            for text in ("68 tokens", "100k"):
                for size in (256, 1024):
                    common = ["--model-dir", folder, "--input", inputs[text], "--device", "cuda", "--batch-size", size]
                    said = words_of([sys.executable, *map(str, [script, *common, *more])])
                    try:
                        answer = json.loads(said.splitlines()[-1])
                        rows = answer.get("rows_per_s", answer.get("skipped"))
                    except (ValueError, IndexError):
                        rows = said.splitlines()[-1:]
                    lines.append(row_of([name, text, called, size, rows]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="embedctl")
    parser.add_argument("--library", help="ONNX Runtime's library, if embedctl is not to find it")
    parser.add_argument("--other-library", help="a library for another version of CUDA, to see it refused")
    parser.add_argument("--half-model", type=Path, help="a copy of the model with onnx/model_fp16.onnx")
    parser.add_argument("--base-model", type=Path, help="a larger model, as make_base.py writes one")
    parser.add_argument("--checkpoint", type=Path, action="append", default=[], help="a model without an ONNX file")
    parser.add_argument("--half-base", type=Path, help="a copy of that with onnx/model_fp16.onnx")
    parser.add_argument("--corpora", type=Path, help="the folder of benches/corpus/make.sh")
    parser.add_argument("--providers", default="cuda,tensorrt", type=lambda text: text.split(","))
    parser.add_argument("--sections", default="parity,speed,parts,faults,peers,bench", type=lambda text: text.split(","))
    parser.add_argument("--tolerance", default=1e-3, type=float, help="largest difference from the reference")
    parser.add_argument("--scale", default=1.0, type=float, help="of the rows that are drawn at random, to try the script")
    parser.add_argument("--cosine-rows", default=1_000, type=int)
    parser.add_argument("--rounds", default=2, type=int, help="the fastest of so many runs counts")
    parser.add_argument("--results", default=REPO / "benches/gpu/RESULTS.md", type=Path)
    args = parser.parse_args()

    commit = words_of(["git", "-C", str(REPO), "rev-parse", "--short", "HEAD"])
    page = []

    def write(*paragraphs):
        page.extend(paragraphs)
        args.results.write_text("\n\n".join(page) + "\n", encoding="utf-8")

    library = ["--ort-lib", args.library] if args.library else []
    write(
        "# On a GPU",
        f"Made by `benches/gpu/run.sh` on {datetime.date.today():%Y-%m-%d}; {words_of([args.binary, '--version'])}, "
        f"commit {commit}.",
        hardware(),
        "## Devices",
        f"```\n{words_of([args.binary, 'devices', *library])}\n```",
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        inputs = corpora(args, out)
        if "parity" in args.sections:
            write("## Parity", "fp32, TF32 off, against vectors of sentence-transformers (`fixtures/parity`).")
            for provider in args.providers:
                for weights, words in (("onnx", "ONNX files"), ("safetensors", "graphs built from checkpoints")):
                    write(f"**{provider}**, {words}: {parity(args, provider, weights, out)}")
                    print(page[-1], flush=True)
        if "speed" in args.sections:
            write(
                "## Speed",
                "From a file to NPY, start-up left out, the fastest of "
                f"{args.rounds} runs. {'Texts of `benches/corpus`' if args.corpora else 'Words drawn at random'}: "
                "12,000 glosses and 2,000 functions, 100,000 and 1,000,000 glosses. Rows of about 68 tokens are always drawn at "
                "random. Busy is the driver's utilisation "
                "during the run, on average; limit is the stage that the run waited for.",
                speed(args, out, inputs),
            )
        if "parts" in args.sections:
            write("## What each part brings", "The same, 100,000 glosses.", parts(args, out, inputs))
        if "faults" in args.sections:
            write("## What goes wrong", faults(args, out, inputs))
        if "peers" in args.sections:
            write("## Peers", "Models and texts as above, on the same GPU.", peers(args, out, inputs))
        if "bench" in args.sections:
            for provider in args.providers:
                command = [args.binary, "bench", "--provider", provider, "-m", str(MODEL), *library]
                write(f"`{' '.join(Path(part).name if '/' in part else part for part in command)}`:")
                write(f"```\n{words_of(command)}\n```")
    print(f"wrote {args.results}")


if __name__ == "__main__":
    sys.exit(main())
