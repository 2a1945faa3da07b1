"""Kills runs that write a folder of an object store (S3 by moto, or by s3rver) at random moments, lets each go on with
--resume, and compares the objects with what an undisturbed run writes into a folder here.

    python3 benches/jobs/store.py --kills 200 --moto PYTHON [--binary target/release/embedctl] [--seed 1]
    python3 benches/jobs/store.py --kills 200 --s3rver FOLDER [--atonce 3 [--shards 3]]

PYTHON is an interpreter with moto[server], FOLDER one in which `npm install s3rver` was run; this Python needs numpy and
pyarrow. With --atonce so many runs write each output at the same time; with --shards they are its shards. Exits with 1
at the first difference.
"""

import pathlib
import random
import sys
import tempfile
import time

from common import KINDS, Program, Store, content, corpus, leftovers, options, race, rejects, report


def main():
    arguments = options(kills=200, provider="rten", moto=None, s3rver=None, atonce=1, shards=1)
    assert arguments.shards in (1, arguments.atonce), "one run for each shard"
    rng = random.Random(arguments.seed)
    figures = {kind: dict(outputs=0, kills=0, first=0, published=0) for kind in KINDS}
    store = Store(arguments.moto, arguments.s3rver)
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        corpus(folder / "in.jsonl", arguments.records, rng)
        program = Program(
            arguments.binary, "-m", arguments.model, "--provider", arguments.provider, "--keep", "n:int",
            folder / "in.jsonl", env=store.env(),
        )
        parts = ["--part-rows", "200", "--window", "100"]
        shards = [["--shard", f"{shard}/{arguments.shards}"] for shard in range(1, arguments.shards + 1)]
        whole, seconds = {}, {}
        for kind in KINDS:
            whole[kind] = folder / kind
            code, said = program.run("-f", kind, "-o", f"{whole[kind]}/", *parts)
            assert code == 3, said
            start = time.time()
            for shard in shards:
                code, said = program.run("-f", kind, "-o", f"s3://bucket/whole-{kind}/", *parts, *shard)
                assert code in (0, 3), said
            seconds[kind] = (time.time() - start) / arguments.shards
        names = {kind: sorted(store.names(f"whole-{kind}")) for kind in KINDS}
        while sum(figure["kills"] for figure in figures.values()) < arguments.kills:
            for kind, figure in figures.items():
                figure["outputs"] += 1
                prefix = f"{kind}{figure['outputs']}"
                shape = ["-f", kind, "-o", f"s3://bucket/{prefix}/", *parts, "--resume"]

                def killed():
                    figure["kills"] += 1
                    found = store.names(prefix)
                    # Others may put objects while this lists them.
                    assert arguments.atonce > 1 or "_SUCCESS" not in found or "_embedctl/manifest.json" in found, found
                    begun = {name.split("/")[-1].split(".")[0] for name in found if "/texts/" in name}
                    done = {name.split(".")[0] for name in found if name.endswith(f".{kind}")}
                    figure["first"] += not done
                    figure["published"] += bool(begun - done)

                shapes = [[*shape, *shard] for shard in shards] if arguments.shards > 1 else [shape] * arguments.atonce
                longest = seconds[kind] * 0.7 * arguments.atonce
                codes = race(program, shapes, longest, rng, killed)
                assert arguments.shards > 1 or set(codes) == {3}, codes
                output = folder / prefix
                if arguments.atonce > 1:
                    # What a killed run has put besides is removed by one that begins when all others have ended.
                    for run in shapes:
                        code, said = program.run(*run)
                        assert code in (0, 3), (code, said)
                assert sorted(store.names(prefix)) == names[kind], set(store.names(prefix)) ^ set(names[kind])
                store.copy(prefix, output)
                assert content(output, kind) == content(whole[kind], kind), f"{prefix} differs from an undisturbed run"
                assert rejects(output) == rejects(whole[kind])
                assert not leftovers(output), leftovers(output)
                code, said = program.inspect(output)
                assert code == 0, said
    columns = ["outputs", "kills", "before the first part", "while a part was put"]
    how = {1: ""}.get(arguments.atonce, f", {arguments.atonce} runs at once")
    how = f", {arguments.shards} shards at once" if arguments.shards > 1 else how
    report(columns, {f"{kind} on S3 ({store.name}{how})": figure for kind, figure in figures.items()}, began)


if __name__ == "__main__":
    sys.exit(main())
