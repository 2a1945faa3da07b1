"""Runs every way to embed in turn on the same texts and prints a table in Markdown.

Each run is a process of its own (ways.py), so that nothing of one way is left when the next one is timed. Ways take
turns, and each round begins with another one. Texts come from Parquet files and vectors go to Parquet files, except
with `encode` and its like. Every run's vectors are compared with those of the program alone: what is fast and wrong
fails.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

ALONE = "alone"
WAYS = {
    ALONE: "the program alone",
    "encode": "`Embedder.encode`",
    "spark": "`embedctl.spark.embed`",
    "ray": "`embedctl.ray.embed`",
    "today": "sentence-transformers, `encode`",
    "spark-today": "sentence-transformers in `mapInPandas`",
    "ray-today": "sentence-transformers in Ray's actors",
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=ROOT / "target/corpus/short-100k.txt", help="a text a line")
    parser.add_argument("--model", type=Path, default=ROOT / "fixtures/models/all-MiniLM-L6-v2")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--today-rows", type=int, help="rows of today's ways, which are slower (default: all)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)}; '{ALONE}' is always among them")
    parser.add_argument("--workers", type=int, default=1, help="executors or actors, which share the cores")
    parser.add_argument("--limit", type=int, default=1200, help="seconds that a run may take")
    parser.add_argument("--save", type=Path, help="append every measurement to this file (JSONL)")
    args = parser.parse_args()
    args.ways = [ALONE, *(way for way in args.ways.split(",") if way != ALONE)]
    if unknown := set(args.ways) - set(WAYS):
        parser.error(f"no way {', '.join(unknown)}: there are {', '.join(WAYS)}")
    return args


def write_texts(folder, texts, files):
    """Texts with their numbers in some Parquet files."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(texts)), files)):
        table = pa.table({"id": pa.array(part), "text": [texts[row] for row in part]})
        pa.parquet.write_table(table, folder / f"part-{number}.parquet")


def read_vectors(path):
    table = pa.dataset.dataset(path, format="parquet", exclude_invalid_files=True).to_table(["id", "embedding"])
    table = table.set_column(0, "id", table["id"].cast(pa.int64())).sort_by("id")  # the program's ids are strings
    return table["id"].to_numpy(), np.stack(table["embedding"].to_numpy())


def check(way, vectors, rows, expected):
    ids, vectors = vectors
    if not np.array_equal(ids, np.arange(rows)):
        raise SystemExit(f"{way}: {len(ids)} rows of {rows}")
    cosines = np.sum(vectors * expected[:rows], axis=1)
    cosines /= np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected[:rows], axis=1)
    if cosines.min() < 0.999:
        raise SystemExit(f"{way}: a vector is another (cosine {cosines.min():.4f})")


def measure(way, args, folder):
    rows = (args.today_rows or args.rows) if "today" in way else args.rows
    out = folder / way
    command = [sys.executable, HERE / "ways.py", way, args.model, folder / "few", folder / f"texts-{rows}", out]
    command += [args.workers, CORES // args.workers]
    log = folder / f"{way}.log"
    with log.open("wb") as words:
        child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=words, start_new_session=True)
        try:
            line = child.communicate(timeout=args.limit)[0]
        except subprocess.TimeoutExpired:
            line = None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, 9)
                child.wait()
    if line is None or child.returncode:
        how = f"no end in {args.limit} s" if line is None else f"exit code {child.returncode}"
        raise SystemExit(f"{way}: {how}\n{log.read_text(errors='replace')[-4000:]}")
    found = json.loads(line.splitlines()[-1])
    return {"way": way, "rows": rows, **found, "rows_per_s": rows / (found["all_s"] - found["few_s"])}, out


def main():
    args = parse()
    texts = args.corpus.read_text(encoding="utf-8").removesuffix("\n").split("\n")[: args.rows]
    if len(texts) < args.rows:
        raise SystemExit(f"{args.corpus} has {len(texts)} lines only")
    measured = {way: [] for way in args.ways}
    with tempfile.TemporaryDirectory(prefix="embedctl-clusters-") as name:
        folder = Path(name)
        write_texts(folder / "few", texts[:CORES], CORES)
        for rows in {args.rows, args.today_rows or args.rows}:
            write_texts(folder / f"texts-{rows}", texts[:rows], 2 * CORES)
        expected = None
        for number in range(args.rounds):
            # The program alone goes first in the first round: all others are compared with its vectors.
            for way in args.ways[number % len(args.ways) :] + args.ways[: number % len(args.ways)]:
                found, out = measure(way, args, folder)
                vectors = read_vectors(out)
                if expected is None:
                    expected = vectors[1]
                check(way, vectors, found["rows"], expected)
                measured[way].append(found)
                print(json.dumps(found), file=sys.stderr, flush=True)
                if args.save:
                    with args.save.open("a") as file:
                        file.write(json.dumps(found) + "\n")

    alone = statistics.median(found["rows_per_s"] for found in measured[ALONE])
    print(f"{args.rows} texts of {args.corpus.name}, {args.workers} × {CORES // args.workers} cores, {args.rounds} rounds\n")
    print("| way | rows/s, median (least to most) | of the program alone | start, s |\n|---|--:|--:|--:|")
    for way in args.ways:
        rates = [found["rows_per_s"] for found in measured[way]]
        start = statistics.median(found["few_s"] for found in measured[way])
        middle = statistics.median(rates)
        print(
            f"| {WAYS[way]} | {middle:.0f} ({min(rates):.0f} to {max(rates):.0f}) | {100 * middle / alone:.0f} % | {start:.1f} |"
        )


if __name__ == "__main__":
    main()
