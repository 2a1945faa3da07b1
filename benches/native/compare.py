#!/usr/bin/env python3
"""The native engine beside ONNX Runtime's CPU provider, in every precision: speed and cosines.

    benches/corpus/make.sh
    head -12000 target/corpus/short-100k.txt > target/corpus/glosses.txt
    python3 benches/native/compare.py --rounds 5 short.txt medium.txt long.jsonl
    python3 benches/native/compare.py --rounds 0 glosses.txt long.jsonl     # cosines alone

Needs Python 3.9 with numpy, an embedctl built in release mode and, for the first row of the table, an ONNX
Runtime library (`pip install onnxruntime` in the environment that runs this will do).

All configurations embed a file in turn, in one process of one worker each, round after round. What counts is
processor time, user and system, less that of a run over one line (start-up): other work on the machine then
disturbs all alike. A ratio is the median over rounds of that round's ONNX Runtime by that round's time.
Cosines are those of every row with the same row in fp32 of the native engine.
"""
import argparse
import os
import resource
import statistics
import subprocess
import tempfile

import numpy

CONFIGURATIONS = {
    "ONNX Runtime fp32": ["--provider", "cpu"],
    "native fp32": ["--provider", "native", "--precision", "fp32"],
    "native int16": ["--provider", "native", "--precision", "int16"],
    "native int8": ["--provider", "native", "--precision", "int8"],
}
BASE, EXACT = "ONNX Runtime fp32", "native fp32"


def processor_time(embedctl, model, source, target, options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [embedctl, "embed", source, "-o", target, "--force", "-m", model, "--threads", "1", "-q"]
    subprocess.run(command + options, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--embedctl", default="target/release/embedctl")
    parser.add_argument("--model", default="fixtures/models/all-MiniLM-L6-v2")
    parser.add_argument("--corpus", default="target/corpus")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", default=[], choices=CONFIGURATIONS)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    configurations = {k: v for k, v in CONFIGURATIONS.items() if k not in options.without}
    for name in options.files:
        source = os.path.join(options.corpus, name)
        with tempfile.TemporaryDirectory() as folder:
            one = os.path.join(folder, "one" + os.path.splitext(name)[1])
            with open(source, "rb") as lines, open(one, "wb") as out:
                out.write(next(lines))
            times = {key: [] for key in configurations}
            vectors = {}
            for number in range(options.rounds + 1):
                for key, arguments in configurations.items():
                    target = os.path.join(folder, "vectors.npy")
                    run = lambda path: processor_time(options.embedctl, options.model, path, target, arguments)
                    start = run(one) if options.rounds else 0.0
                    spent = run(source) - start
                    if number > 0:
                        times[key].append(spent)
                    else:
                        vectors[key] = numpy.load(target).astype(numpy.float64)
        rows = len(vectors[EXACT])
        print(f"\n{name}: {rows} rows\n\n| | rows/s of a core | beside ONNX Runtime | least cosine | mean |\n|---|--:|--:|--:|--:|")
        for key in configurations:
            a, b = vectors[key], vectors[EXACT]
            cosine = (a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)
            speed = ratio = ""
            if options.rounds:
                speed = f"{rows / statistics.median(times[key]):.0f}"
            if options.rounds and BASE in times:
                ratios = [base / own for base, own in zip(times[BASE], times[key])]
                ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            print(f"| {key} | {speed} | {ratio} | {cosine.min():.6f} | {cosine.mean():.7f} |", flush=True)


if __name__ == "__main__":
    main()
