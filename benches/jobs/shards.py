"""Kills shards of one output at random moments, several at a time and in random order, lets each go on with
--resume, and compares the whole with an undisturbed run without shards: vectors byte for byte, ids, order, rejects,
one _SUCCESS that comes last, and `inspect`, which proves from the parts that all of it is there.

    python3 benches/jobs/shards.py --kills 200 [--binary target/release/embedctl] [--shards 8] [--seed 1]

The input is a large file of lines, which is cut, with small ones before and behind it; the engine is the one inside,
whose vectors do not depend on a row's company. Needs numpy and pyarrow. Exits with 1 at the first difference.
"""

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import pyarrow
import pyarrow.parquet

from common import KILLED, KINDS, Program, content, corpus, leftovers, names_in, options, own, rejects, report


def inputs(folder, records, rng):
    """A small file of lines, a large one, and a table, in the order of their names."""
    few = records // 20
    corpus(folder / "a.jsonl", few, rng)
    corpus(folder / "b.jsonl", records, rng, few)
    corpus(folder / "c.jsonl", records // 2, rng, few + records)
    lines = (line for line in open(folder / "c.jsonl") if line != "no JSON\n")
    table = pyarrow.Table.from_pylist([json.loads(line) for line in lines])
    pyarrow.parquet.write_table(table, folder / "c.parquet", row_group_size=records // 40)
    return [folder / name for name in ("a.jsonl", "b.jsonl", "c.parquet")]


def kill_shards(program, shape, output, shards, longest, rng, figure):
    """Runs all shards to their ends, with kills on the way."""
    waiting, codes = set(range(1, shards + 1)), {}
    while waiting:
        # A shard may be killed behind its completion marker.
        ends = sum(name.endswith(".json") for name in names_in(own(output) / "shards"))
        assert ends == shards or not (output / "_SUCCESS").exists(), f"_SUCCESS, and {ends} are at their ends"
        some = rng.sample(sorted(waiting), min(len(waiting), rng.randint(1, 3)))
        runs = {shard: program.start(*shape, "--shard", f"{shard}/{shards}") for shard in some}
        for shard in rng.sample(some, len(some)):
            try:
                runs[shard].wait(rng.uniform(0.0, longest))
            except subprocess.TimeoutExpired:
                runs[shard].send_signal(signal.SIGKILL)
            said = runs[shard].communicate()[1].decode()
            code = runs[shard].returncode
            if code == KILLED:
                figure["kills"] += 1
                figure["first"] += not names_in(output, f"part-{shard:05}-")
                figure["others"] += bool(names_in(output, "part-"))
                continue
            assert code in (0, 3), (code, said)
            codes[shard] = code
            waiting.remove(shard)
    return codes


def main():
    arguments = options(4000, "family-distilbert", kills=200, shards=8)
    rng = random.Random(arguments.seed)
    figures = {kind: dict(outputs=0, kills=0, first=0, others=0) for kind in KINDS}
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = inputs(folder, arguments.records, rng)
        program = Program(
            arguments.binary, "-m", arguments.model, "--provider", "native", "--keep", "n:int", "--id-type", "int", *files
        )
        expected = {}
        for kind in KINDS:
            plain = folder / f"plain.{kind}"
            began_plain = time.time()
            code, said = program.run("-o", plain)
            longest = (time.time() - began_plain) * 2 / arguments.shards + 0.2
            assert code == 3, said
            expected[kind] = content(plain, kind)
        code, said = program.run("-o", f"{folder}/whole/", "-f", "jsonl")
        assert code == 3, said
        wrong = rejects(folder / "whole")
        assert len(wrong) == (arguments.records * 21 // 20) // 97, wrong
        while sum(figure["kills"] for figure in figures.values()) < arguments.kills:
            for kind, figure in figures.items():
                figure["outputs"] += 1
                output = folder / f"{kind}{figure['outputs']}"
                shape = ["-f", kind, "-o", f"{output}/", "--part-rows", "100", "--window", "50", "--resume"]
                codes = kill_shards(program, shape, output, arguments.shards, longest, rng, figure)
                assert content(output, kind) == expected[kind], f"{output} differs from an undisturbed run"
                assert rejects(output) == wrong, rejects(output)
                assert not leftovers(output), leftovers(output)
                assert [path.name for path in output.rglob("_SUCCESS")] == ["_SUCCESS"]
                manifest = json.loads((own(output) / "manifest.json").read_text())
                assert len(expected[kind][1]) == manifest["rows"] == manifest["records"] - manifest["rejected"]
                code, said = program.inspect(output)
                assert code == 0, said
                # A shard that is at its end stays there.
                shard = rng.randint(1, arguments.shards)
                code, said = program.run(*shape, "--shard", f"{shard}/{arguments.shards}")
                assert code in (0, 3), (code, said)
                assert content(output, kind) == expected[kind]
    columns = ["outputs", "kills", "before the shard's first part", "while others had parts"]
    report(columns, {f"{kind}, {arguments.shards} shards": figure for kind, figure in figures.items()}, began)


if __name__ == "__main__":
    sys.exit(main())
