"""Kills runs that write a folder of an object store (S3 by moto) at random moments, lets each go on with --resume,
and compares the objects with what an undisturbed run writes into a folder here.

    python3 benches/jobs/store.py --kills 200 --moto PYTHON [--binary target/release/embedctl] [--seed 1]

PYTHON is an interpreter with moto[server]; this one needs numpy and pyarrow. Exits with 1 at the first difference.
"""

import pathlib
import random
import sys
import tempfile
import time

from common import KILLED, KINDS, Program, Store, content, corpus, leftovers, options, rejects, report


def main():
    arguments = options(kills=200, provider="rten", moto=sys.executable)
    rng = random.Random(arguments.seed)
    figures = {kind: dict(outputs=0, kills=0, first=0, published=0) for kind in KINDS}
    store = Store(arguments.moto)
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        corpus(folder / "in.jsonl", arguments.records, rng)
        program = Program(
            arguments.binary, "-m", arguments.model, "--provider", arguments.provider, "--keep", "n",
            folder / "in.jsonl", env=store.env(),
        )
        parts = ["--part-rows", "200", "--window", "100"]
        whole, seconds = {}, {}
        for kind in KINDS:
            whole[kind] = folder / kind
            code, said = program.run("-f", kind, "-o", f"{whole[kind]}/", *parts)
            assert code == 3, said
            start = time.time()
            code, said = program.run("-f", kind, "-o", f"s3://bucket/whole-{kind}/", *parts)
            seconds[kind] = time.time() - start
            assert code == 3, said
        names = {kind: sorted(store.names(f"whole-{kind}")) for kind in KINDS}
        while sum(figure["kills"] for figure in figures.values()) < arguments.kills:
            for kind, figure in figures.items():
                figure["outputs"] += 1
                prefix = f"{kind}{figure['outputs']}"
                shape = ["-f", kind, "-o", f"s3://bucket/{prefix}/", *parts, "--resume"]
                while True:
                    code, said = program.run(*shape, kill_after=rng.uniform(0.0, seconds[kind] * 0.7))
                    if code != KILLED:
                        break
                    figure["kills"] += 1
                    found = store.names(prefix)
                    assert "_SUCCESS" not in found or "_embedctl/manifest.json" in found, found
                    begun = {name.split("/")[-1].split(".")[0] for name in found if "/texts/" in name}
                    done = {name.split(".")[0] for name in found if name.endswith(f".{kind}")}
                    figure["first"] += not done
                    figure["published"] += bool(begun - done)
                assert code == 3, (code, said)
                assert sorted(store.names(prefix)) == names[kind], set(store.names(prefix)) ^ set(names[kind])
                output = folder / prefix
                store.copy(prefix, output)
                assert content(output, kind) == content(whole[kind], kind), f"{prefix} differs from an undisturbed run"
                assert rejects(output) == rejects(whole[kind])
                assert not leftovers(output), leftovers(output)
                code, said = program.inspect(output)
                assert code == 0, said
    columns = ["outputs", "kills", "before the first part", "while a part was put"]
    report(columns, {f"{kind} on S3 (moto)": figure for kind, figure in figures.items()}, began)


if __name__ == "__main__":
    sys.exit(main())
