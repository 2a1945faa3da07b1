"""Kills runs at random moments, lets each go on with --resume, and compares what comes out with what an
undisturbed run writes: vectors byte for byte, ids, order, rejects, and no file too many.

    python3 benches/jobs/kill.py --kills 200 [--binary target/release/embedctl] [--model FOLDER] [--seed 1]

With `--atonce 3` so many runs write each output at the same time. Needs numpy and pyarrow. Prints a row for each kind of output, and exits with 1 at the first difference.
"""

import pathlib
import random
import sys
import tempfile
import time

from common import KINDS, Program, content, corpus, leftovers, names_in, options, own, race, rejects, report


def main():
    arguments = options(3000, kills=200, provider="rten", atonce=1)
    rng = random.Random(arguments.seed)
    kinds = ((kind, is_folder) for kind in KINDS for is_folder in (True, False))
    figures = {kind: dict(outputs=0, kills=0, first=0, published=0) for kind in kinds}
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
        while sum(figure["kills"] for figure in figures.values()) < arguments.kills:
            for (kind, is_folder), figure in figures.items():
                figure["outputs"] += 1
                output = folder / (f"{kind}{figure['outputs']}" + ("" if is_folder else f".{kind}"))
                parts = output if is_folder else folder / f"{output.name}.parts"
                shape = ["-f", kind, "-o", f"{output}/"] if is_folder else ["-o", str(output)]
                shape += ["--part-rows", "300", "--window", "100", "--resume"]

                def killed():
                    figure["kills"] += 1
                    figure["first"] += not names_in(parts, "part-")
                    texts = (own(parts) if is_folder else parts / "_embedctl") / "texts"
                    begun, complete = ({name.split(".")[0] for name in names} for names in (names_in(texts), names_in(parts, "part-")))
                    figure["published"] += bool(begun - complete)

                longest = seconds[kind] * 0.7 * arguments.atonce
                codes = race(program, [shape] * arguments.atonce, longest, rng, killed)
                assert set(codes) == {3}, codes
                assert content(output, kind) == expected[kind], f"{output} differs from an undisturbed run"
                if is_folder:
                    assert not leftovers(output), leftovers(output)
                    assert (output / "_SUCCESS").exists()
                    wrong = [("in.jsonl", line) for line in range(97, arguments.records + 1, 97)]
                    assert rejects(output) == wrong, rejects(output)
                else:
                    assert not parts.exists(), f"{parts} was left"
    names = {True: "folder", False: "single file"}
    how = f", {arguments.atonce} runs at once" if arguments.atonce > 1 else ""
    figures = {f"{kind}, {names[is_folder]}{how}": figure for (kind, is_folder), figure in figures.items()}
    report(["outputs", "kills", "in the first part", "while a part was published"], figures, began)


if __name__ == "__main__":
    sys.exit(main())
