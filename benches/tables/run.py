"""What tables cost: memory by rows, rows a second without inference, pauses, wide tables, parts and resuming.

    python3 benches/tables/run.py [--program target/debug/embedctl] [--only memory,rates,pauses,wide,jobs]
                                  [--rows 10000000] [--rounds 5] [--folder FOLDER]

The real program with a static model, whose vectors are means of a table's rows: what is measured is all but
inference. Inputs are made in FOLDER (some gigabytes; kept there if it is named). Needs numpy, polars and pyarrow.
Prints tables for benches/RESULTS.md, and exits with 1 where a limit that the program promises is not kept.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "fixtures/parity/static-normalized/model"
MADE = 100_000  # rows that are made at a time
LIMITS = {"growth": 1.20, "rate": 100_000, "job": 1.0, "resume": 5.0}
broken = []


def model(folder, width):
    """The fixture's tokenizer with vectors of another width, which compress as badly as a model's do."""
    target = folder / f"model-{width}"
    shutil.copytree(FIXTURE, target, dirs_exist_ok=True)
    tokens = len(json.loads((FIXTURE / "tokenizer.json").read_text())["model"]["vocab"])
    tokens = max(tokens, 310)
    values = numpy.random.default_rng(1).standard_normal((tokens, width), dtype=numpy.float32).tobytes()
    head = {"embedding.weight": {"dtype": "F32", "shape": [tokens, width], "data_offsets": [0, len(values)]}}
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + values)
    return target


def batches(rows):
    for start in range(0, rows, MADE):
        number = pa.array(range(start, min(start + MADE, rows)), pa.int64())
        name = number.cast(pa.string())
        text = pa.compute.binary_join_element_wise("row", name, "of a table that is read and written again", " ")
        yield pa.record_batch({"id": name, "text": text, "year": number})


def made(folder, kind, rows):
    """An input of so many rows, made once."""
    path = folder / f"in-{rows}.{kind}"
    if path.exists():
        return path
    aside = folder / f"making.{kind}"
    schema = next(batches(1)).schema
    if kind == "parquet":
        with pq.ParquetWriter(aside, schema) as writer:
            for batch in batches(rows):
                writer.write_batch(batch)
    elif kind in ("arrow", "arrows"):
        new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with new(str(aside), schema) as writer:
            for batch in batches(rows):
                for start in range(0, batch.num_rows, 8192):
                    writer.write_batch(batch.slice(start, 8192))
    else:
        with open(aside, "wb") as file:
            for number, batch in enumerate(batches(rows)):
                if kind == "txt":
                    file.write("\n".join(batch["text"].to_pylist()).encode() + b"\n")
                elif kind == "csv":
                    options = pyarrow.csv.WriteOptions(include_header=number == 0)
                    pyarrow.csv.write_csv(pa.Table.from_batches([batch]), file, options)
                else:
                    polars.from_arrow(batch).write_ndjson(file)
    aside.rename(path)
    return path


# A process starts with the peak memory of the one that starts it, so that one has to be small.
STARTER = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    wanted = json.loads(line)
    null, feed = subprocess.DEVNULL, None
    began = time.monotonic()
    if wanted['pipe']:
        feed = subprocess.Popen(['cat', wanted['stdin']], stdout=subprocess.PIPE)
        stdin = feed.stdout
    else:
        stdin = open(wanted['stdin'] or os.devnull)
    child = subprocess.Popen(wanted['command'], stdin=stdin, stdout=null, stderr=open(wanted['said'], 'w'))
    stdin.close()
    read = None
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        io = dict(line.split(': ') for line in open(f'/proc/{child.pid}/io'))
        read = int(io['rchar'])
    except (AttributeError, OSError):
        pass
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if feed:
        feed.wait()
    processor = usage.ru_utime + usage.ru_stime
    print(json.dumps([child.returncode, seconds, processor, usage.ru_maxrss, read]), flush=True)
"""


class Run:
    """A finished run: seconds, processor seconds, peak memory, bytes that it read."""

    starter = None

    def __init__(self, program, arguments, stdin=None, pipe=False):
        command = [str(program), "embed", "-q", "--offline", *map(str, arguments)]
        if Run.starter is None:
            Run.starter = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with tempfile.NamedTemporaryFile(mode="r") as said:
            wanted = {"command": command, "stdin": stdin and str(stdin), "pipe": pipe, "said": said.name}
            print(json.dumps(wanted), file=Run.starter.stdin, flush=True)
            code, self.seconds, self.processor, peak, self.read = json.loads(Run.starter.stdout.readline())
            if code != 0:
                sys.exit(f"{' '.join(command)}: {code}\n{said.read()}")
        self.peak = peak * (1 if sys.platform == "darwin" else 1024)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for beside in path.parent.glob(path.name + ".*"):
        beside.unlink()


def table(title, head, rows):
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)


def holds(what, kept):
    if not kept:
        broken.append(what)
    return "yes" if kept else "NO"


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


def memory(setup):
    """Peak memory of the whole process, for few rows and for many. With few no row group is full, nor any buffer that
    grows by doubling; what counts is whether ten times as many rows take more."""
    counts = [setup.rows // 100, setup.rows // 10, setup.rows]
    pairs = [
        ("txt", "parquet"), ("jsonl", "npy"), ("csv", "pgcopy"), ("parquet", "parquet"), ("parquet", "arrow"),
        ("arrow", "jsonl"), ("arrows", "arrows"), ("jsonl", "jsonl.zst"), ("txt", "fbin"), ("parquet", "parts/"),
        ("pipe of jsonl", "parquet"), ("operator", "stream"),
    ]
    rows = []
    for source, target in pairs:
        if setup.pairs and f"{source}-{target}" not in setup.pairs:
            continue
        runs = []
        for count in counts:
            kind = {"pipe of jsonl": "jsonl", "operator": "arrows"}.get(source, source)
            path = made(setup.folder, kind, count)
            output = setup.folder / ("out" if target == "parts/" else f"out.{target}")
            options = ["-m", setup.narrow, "--force"]
            if source == "operator":
                run = Run(setup.program, ["-i", "arrow", "-f", "arrow", "-o", "-", *options], path, pipe=True)
            elif source == "pipe of jsonl":
                run = Run(setup.program, ["-i", "jsonl", "-o", output, *options], path, pipe=True)
            elif target == "parts/":
                run = Run(setup.program, [path, "-o", f"{output}/", "--part-rows", 100_000, *options[:2]])
            else:
                keep = [] if kind == "txt" else ["--keep", "year"]
                run = Run(setup.program, [path, "-o", output, *keep, *options])
            remove(output)
            runs.append(run)
        if not setup.keep_inputs:
            remove(made(setup.folder, kind, setup.rows))
        growth = runs[2].peak / runs[1].peak
        flat = holds(f"memory from {source} to {target}", growth <= LIMITS["growth"])
        peaks = [megabytes(run.peak) for run in runs]
        rows.append((source, target, *peaks, f"{growth:.2f}", flat, f"{setup.rows / runs[2].seconds:,.0f}"))
        print(rows[-1], file=sys.stderr, flush=True)
    head = ("from", "to", *(f"{count:,} rows" for count in counts), "ratio of the last two", "flat", "rows/s")
    table("Peak memory of the whole process", head, rows)


def median(runs, of):
    return statistics.median(of(run) for run in runs)


def in_turn(setup, works):
    """Runs of each work, one after another in every round; the first round warms up."""
    runs = [[] for _ in works]
    for number in range(setup.rounds + 1):
        for work, found in zip(works, runs):
            run = work()
            if number > 0:
                found.append(run)
    return runs


def rates(setup):
    """Rows a second from table to table, with vectors of 384."""
    count = min(setup.rows, 1_000_000)
    output = [setup.folder / f"out.{kind}" for kind in ("parquet", "arrow", "npy")]
    works, names = [], []
    for kind, target in [("parquet", output[0]), ("arrow", output[1]), ("jsonl", output[0]), ("csv", output[0]), ("txt", output[2])]:
        path = made(setup.folder, kind, count)
        keep = [] if kind == "txt" else ["--keep", "year"]
        works.append(lambda path=path, target=target, keep=keep: Run(
            setup.program, [path, "-o", target, *keep, "-m", setup.wide, "--force"]))
        names.append((kind, target.suffix[1:]))
    rows = []
    for (kind, target), runs in zip(names, in_turn(setup, works)):
        all_rates = sorted(count / run.seconds for run in runs)
        rate = statistics.median(all_rates)
        kept = rate >= LIMITS["rate"] if kind == "parquet" else None
        promise = "" if kept is None else holds("Parquet to Parquet", kept)
        spent = median(runs, lambda run: run.processor) / count * 1e6
        rows.append((kind, target, f"{rate:,.0f}", f"{all_rates[0]:,.0f} to {all_rates[-1]:,.0f}", f"{spent:.1f}", promise))
    for path in output:
        remove(path)
    head = ("from", "to", "rows/s", "of all rounds", "µs of processor a row", f"at least {LIMITS['rate']:,}")
    table(f"Rows a second without inference, {count:,} rows, vectors of 384", head, rows)


def pauses(setup):
    """What it costs that a pipe's windows are handed on when it pauses, and that lines are flushed."""
    count = min(setup.rows, 1_000_000)
    path = made(setup.folder, "jsonl", count)
    output = setup.folder / "out.parquet"
    options = ["-i", "jsonl", "-m", setup.narrow, "--force"]

    def piped(target):
        return Run(setup.program, ["-o", target, *options], path, pipe=True)

    works = [
        lambda: Run(setup.program, [path, "-o", output, *options]),
        lambda: piped(output),
        lambda: Run(setup.program, [path, "-o", setup.folder / "out.jsonl", *options]),
        lambda: piped("-"),
    ]
    names = ["file to Parquet", "pipe to Parquet", "file to JSONL", "pipe to a stream of JSONL"]
    runs = in_turn(setup, works)
    rows = []
    for number, (name, found) in enumerate(zip(names, runs)):
        ratio = statistics.median(
            one.seconds / other.seconds for one, other in zip(found, runs[number - number % 2]))
        spent = statistics.median(
            one.processor / other.processor for one, other in zip(found, runs[number - number % 2]))
        rate = count / median(found, lambda run: run.seconds)
        rows.append((name, f"{rate:,.0f}", f"{ratio:.2f}", f"{spent:.2f}"))
    remove(output), remove(setup.folder / "out.jsonl")
    head = ("", "rows/s", "time against the file", "processor time against the file")
    table(f"Pipes and pauses, {count:,} rows", head, rows)


def wide_table(folder, size):
    """A Parquet file of 40 columns and about so many bytes, of which nothing compresses."""
    path = folder / f"wide-{size}.parquet"
    if path.exists():
        return path
    rows, length, random = size // (40 * 50), 48, numpy.random.default_rng(2)
    names = ["id", "text", "year"] + [f"column_{number}" for number in range(37)]

    def group(count):
        columns = []
        for name in names:
            if name == "year":
                columns.append(pa.array(random.integers(0, 1 << 62, count)))
                continue
            letters = random.integers(97, 123, count * length, dtype=numpy.uint8)
            offsets = numpy.arange(0, (count + 1) * length, length, dtype=numpy.int32)
            columns.append(pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters)))
        return pa.record_batch(columns, names)

    aside = folder / "making.parquet"
    with pq.ParquetWriter(aside, group(1).schema, compression="none", use_dictionary=False) as writer:
        while rows > 0:
            writer.write_batch(group(min(rows, 50_000)))
            rows -= 50_000
    aside.rename(path)
    return path


def wide(setup):
    """Three of forty columns."""
    rows, peaks = [], []
    for size in (setup.gigabytes * 100_000_000, setup.gigabytes * 1_000_000_000):
        path = wide_table(setup.folder, size)
        output = setup.folder / "out.parquet"
        run = Run(setup.program, [path, "-o", output, "--keep", "year", "-m", setup.narrow, "--force"])
        remove(output)
        peaks.append(run.peak)
        read = "?" if run.read is None else megabytes(run.read)
        count = pq.read_metadata(path).num_rows
        rows.append((megabytes(path.stat().st_size), f"{count:,}", read, megabytes(run.peak), f"{count / run.seconds:,.0f}"))
        if not setup.keep_inputs:
            remove(path)
    flat = holds("memory of a wide table", peaks[1] / peaks[0] <= LIMITS["growth"])
    table(
        f"Three of 40 columns of a Parquet file (flat: {flat})", ("file", "rows", "read of it", "peak memory", "rows/s"), rows)


def jobs(setup):
    """What parts cost, and how long a run looks for its place."""
    count = min(setup.rows, 1_000_000)
    path = made(setup.folder, "parquet", count)
    file, parts = setup.folder / "out.parquet", setup.folder / "out-parts"

    def in_parts():
        run = Run(setup.program, [path, "-o", f"{parts}/", "--part-rows", 100_000, "-m", setup.wide])
        remove(parts)
        return run

    whole, cut = in_turn(setup, [
        lambda: Run(setup.program, [path, "-o", file, "-m", setup.wide, "--force"]), in_parts])
    remove(file)
    # Of the time that a run of 100,000 rows a second would take.
    length = count / LIMITS["rate"]
    elapsed = statistics.median(one.seconds - other.seconds for one, other in zip(cut, whole))
    spent = statistics.median(one.processor - other.processor for one, other in zip(cut, whole))
    share = 100 * elapsed / length
    rows = [(
        f"{count / median(whole, lambda run: run.seconds):,.0f}", f"{count / median(cut, lambda run: run.seconds):,.0f}",
        f"{elapsed:.2f} s", f"{spent:.2f} s", f"{share:.1f} %", holds("the cost of parts", share < LIMITS["job"]))]
    head = ("one file, rows/s", "ten parts, rows/s", "more time", "more processor time", "of a run at 100,000 rows/s", "below 1 %")
    table(f"What a job costs, {count:,} rows of 384 in parts of 100,000", head, rows)
    if setup.rows > count and not setup.keep_inputs:
        remove(path)

    rows = []
    for kind in ("parquet", "jsonl", "txt"):
        path = made(setup.folder, kind, setup.rows)
        options = ["-o", f"{parts}/", "--part-rows", 1_000_000, "-m", setup.narrow]
        whole = Run(setup.program, [path, *options])
        last = sorted(parts.glob("part-*"))[-1]
        own = parts.with_name(f"_{parts.name}.embedctl")
        for gone in [last, parts / "_SUCCESS", *own.glob("manifest*"), *own.glob("shards/*"), *own.glob(f"*/{last.stem}*")]:
            gone.unlink(missing_ok=True)
        again = Run(setup.program, [path, *options, "--resume"])
        missing = setup.rows - sum(pq.read_metadata(part).num_rows for part in parts.glob("part-*"))
        assert missing == 0, missing
        done = pq.read_metadata(last).num_rows
        remove(parts)
        if not setup.keep_inputs:
            remove(path)
        found = again.seconds - whole.seconds * done / setup.rows
        rows.append((
            kind, f"{whole.seconds:.1f} s", f"{again.seconds:.1f} s, {done:,} rows", f"{found:.1f} s",
            holds(f"resuming {kind}", found < LIMITS["resume"])))
    head = ("input", "the whole run", "the last part again", "of it, to find its place", "below 5 s")
    table(f"Resuming {setup.rows:,} rows", head, rows)


SECTIONS = {"memory": memory, "rates": rates, "pauses": pauses, "wide": wide, "jobs": jobs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target/debug/embedctl")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--pairs", default="", help="of memory: some pairs, such as txt-parquet,csv-pgcopy")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gigabytes", type=int, default=2, help="size of the wide table")
    parser.add_argument("--folder", type=pathlib.Path)
    setup = parser.parse_args()
    setup.pairs = [pair for pair in setup.pairs.split(",") if pair]
    setup.keep_inputs = setup.folder is not None
    with tempfile.TemporaryDirectory() as folder:
        setup.folder = setup.folder or pathlib.Path(folder)
        setup.folder.mkdir(parents=True, exist_ok=True)
        setup.program = setup.program.resolve()
        setup.narrow, setup.wide = model(setup.folder, 8), model(setup.folder, 384)
        version = subprocess.run([setup.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        today = datetime.date.today()
        print(f"{today}, {version}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
        for name in setup.only.split(","):
            SECTIONS[name](setup)
    if broken:
        sys.exit(f"not kept: {', '.join(broken)}")


if __name__ == "__main__":
    main()
