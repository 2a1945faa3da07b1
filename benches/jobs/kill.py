"""Kills runs at random moments, lets each go on with --resume, and compares what comes out with what an
undisturbed run writes: vectors byte for byte, ids, order, rejects, and no file too many.

    python3 benches/jobs/kill.py --kills 200 [--binary target/release/embedctl] [--model FOLDER] [--seed 1]

Needs numpy and pyarrow. Prints a row for each kind of output, and exits with 1 at the first difference.
"""

import argparse
import hashlib
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "a cat sat on the mat while seven old dogs slept under trees that nobody had ever planted there".split()


def corpus(path, records, rng):
    """Records of 3 to 60 words; one in 97 is no JSON."""
    with open(path, "w") as file:
        for record in range(records):
            if record % 97 == 96:
                file.write("no JSON\n")
                continue
            text = " ".join(rng.choices(WORDS, k=rng.randint(3, 60)))
            file.write(json.dumps({"id": record, "text": f"{record} {text}", "n": record}) + "\n")


def content(output, kind):
    """Hash of vectors, list of ids, of an output: of a file, or of a folder's parts in order."""
    parts = sorted(output.glob(f"*.{kind}")) if output.is_dir() else [output]
    vectors, ids = hashlib.sha256(), []
    for part in parts:
        if kind == "parquet":
            table = pyarrow.parquet.read_table(part)
            ids += table["id"].to_pylist()
            for chunk in table["embedding"].chunks:
                vectors.update(chunk.flatten().to_numpy().tobytes())
        elif kind == "npy":
            vectors.update(numpy.load(part).tobytes())
            rows = open(f"{part}.rows.jsonl")
            ids += [json.loads(line)["id"] for line in rows]
        else:
            for line in open(part):
                row = json.loads(line)
                ids.append(row["id"])
                vectors.update(numpy.array(row["embedding"], dtype=numpy.float32).tobytes())
    return vectors.hexdigest(), ids


def leftovers(output):
    """Files that a complete folder should not have."""
    own = output / "_embedctl"
    known = {"job.json", "manifest.json", "commits", "rejects", "shards", "texts"}
    found = [path.name for path in own.iterdir() if path.name not in known and not path.name.startswith("shard-")]
    return found + [path.name for path in output.rglob("*") if ".tmp" in path.name or ".scratch" in path.name]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "target/release/embedctl")
    parser.add_argument("--model", default=ROOT / "fixtures/parity/bert-mean-legacy/model")
    parser.add_argument("--provider", default="rten")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    kinds = [(kind, folder) for kind in ("parquet", "jsonl", "npy") for folder in (True, False)]
    print("| output | runs | kills | in the first part | while a part was published | lost rows | result |")
    print("|---|---|---|---|---|---|---|")
    total, runs, done = 0, 0, {}
    figures = {kind: [0, 0, 0, 0] for kind in kinds}
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        corpus(folder / "in.jsonl", arguments.records, rng)
        command = [
            str(arguments.binary), "embed", "-m", str(arguments.model), "--provider", arguments.provider,
            "--threads", "1", "--offline", "--on-error", "skip", "--keep", "n", str(folder / "in.jsonl"),
        ]

        def run(extra, kill_after=None):
            child = subprocess.Popen(command + extra, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            if kill_after is not None:
                try:
                    child.wait(kill_after)
                except subprocess.TimeoutExpired:
                    child.send_signal(signal.SIGKILL)
                    child.wait()
            said = child.communicate()[1].decode()
            return child.returncode, said

        expected, seconds = {}, {}
        for kind in ("parquet", "jsonl", "npy"):
            plain = folder / f"plain.{kind}"
            start = time.time()
            code, said = run(["-o", str(plain)])
            seconds[kind] = time.time() - start
            assert code == 3, said
            expected[kind] = content(plain, kind)
        while total < arguments.kills:
            for kind, is_folder in kinds:
                runs += 1
                output = folder / (f"out{runs}" if is_folder else f"out{runs}.{kind}")
                parts = output if is_folder else folder / f"{output.name}.parts"
                shape = ["-f", kind, "-o", f"{output}/"] if is_folder else ["-o", str(output)]
                shape += ["--part-rows", "300", "--window", "100", "--resume"]
                figure = figures[kind, is_folder]
                figure[0] += 1
                while True:
                    code, said = run(shape, rng.uniform(0.0, seconds[kind] * 0.7))
                    if code != -signal.SIGKILL:
                        break
                    total += 1
                    figure[1] += 1
                    figure[2] += not list(parts.glob("part-*"))
                    names = {path.name.split(".")[0] for path in parts.glob("_embedctl/texts/*")}
                    figure[3] += bool(names - {path.name.split(".")[0] for path in parts.glob("part-*")})
                assert code == 3, (code, said)
                assert content(output, kind) == expected[kind], f"{output} differs from an undisturbed run"
                if is_folder:
                    assert not leftovers(output), leftovers(output)
                    assert (output / "_SUCCESS").exists()
                    rejects = sorted(output.glob("_embedctl/rejects/*"))
                    lines = [json.loads(line)["line"] for path in rejects for line in open(path)]
                    assert lines == [n for n in range(1, arguments.records + 1) if n % 97 == 0], lines
                else:
                    assert not parts.exists(), f"{parts} was left"
    for (kind, is_folder), (count, kills, first, published) in figures.items():
        name = f"{kind}, {'folder' if is_folder else 'single file'}"
        print(f"| {name} | {count} | {kills} | {first} | {published} | 0 | as undisturbed |")
    print(f"\n{total} kills in {runs} outputs of {arguments.records} records, {time.time() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
