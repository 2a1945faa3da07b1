"""Kills runs at random moments, lets each go on with --resume, and compares what comes out with what an
undisturbed run writes: vectors byte for byte, ids, order, rejects, and no file too many.

    python3 benches/jobs/kill.py --kills 200 [--binary target/release/embedctl] [--model FOLDER] [--seed 1]

Needs numpy and pyarrow. Prints a row for each kind of output, and exits with 1 at the first difference.
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time

from common import KILLED, KINDS, ROOT, Program, content, corpus, leftovers, rejects


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
    kinds = [(kind, folder) for kind in KINDS for folder in (True, False)]
    print("| output | runs | kills | in the first part | while a part was published | lost rows | result |")
    print("|---|---|---|---|---|---|---|")
    total, runs, done = 0, 0, {}
    figures = {kind: [0, 0, 0, 0] for kind in kinds}
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        corpus(folder / "in.jsonl", arguments.records, rng)
        program = Program(
            arguments.binary, "-m", arguments.model, "--provider", arguments.provider, "--keep", "n", folder / "in.jsonl",
        )
        expected, seconds = {}, {}
        for kind in KINDS:
            plain = folder / f"plain.{kind}"
            start = time.time()
            code, said = program.run("-o", plain)
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
                    code, said = program.run(*shape, kill_after=rng.uniform(0.0, seconds[kind] * 0.7))
                    if code != KILLED:
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
                    wrong = [("in.jsonl", line) for line in range(97, arguments.records + 1, 97)]
                    assert rejects(output) == wrong, rejects(output)
                else:
                    assert not parts.exists(), f"{parts} was left"
    for (kind, is_folder), (count, kills, first, published) in figures.items():
        name = f"{kind}, {'folder' if is_folder else 'single file'}"
        print(f"| {name} | {count} | {kills} | {first} | {published} | 0 | as undisturbed |")
    print(f"\n{total} kills in {runs} outputs of {arguments.records} records, {time.time() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
