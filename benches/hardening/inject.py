"""Kills and errors before and after every file operation of a run, and what is left of its output.

    inject.py EMBEDCTL MODEL [--formats parquet,npy,jsonl] [--errors EIO,ENOSPC]

For three formats, with and without an output to replace (--force) and with and without --rejects, a run is
ended or refused at each operation that changes a file (fault.c, an LD_PRELOAD library, counts them).
Looked at are the folder as the fault left it, the folder after a next run that replaces nothing, and after
one that replaces everything:

  pairing   no files of two runs stand under the names of one output
  lost      all of the old output or all of the new one is there, under whatever names
  silent    an exit code of 0 or 3 comes with the whole new output under its names
  refused   after an error the old output stands as it was, or nothing does; what the message names is there
  repair    the next run leaves a whole output, no hidden files, and can replace it

Prints a table; exits 1 if anything is violated."""

import argparse
import collections
import errno
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ENDINGS = {"parquet": [""], "npy": ["", ".json", ".rows.jsonl"], "jsonl": ["", ".json"]}


def records(rows, bad):
    lines = [json.dumps({"id": f"{rows}-{row}", "text": f"text {row} of {rows}"}) for row in range(rows)]
    return "\n".join(lines + ["not JSON"] * bad) + "\n"


class Harness:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.library = scratch / "fault.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, HERE / "fault.c", "-ldl"], check=True)
        self.inputs = {}
        for name, (rows, bad) in {"old": (3, 1), "new": (5, 2), "next": (7, 3)}.items():
            self.inputs[name] = scratch / f"{name}.jsonl"
            self.inputs[name].write_text(records(rows, bad))
        self.counts = collections.Counter()
        self.violations = []

    def run(self, folder, run, form, force, rejects, **faults):
        command = [self.options.embedctl, "embed", self.inputs[run], "-m", self.options.model, "--offline"]
        command += ["--provider", "rten", "--threads", "1", "-o", folder / f"out.{form}", "--on-error", "skip"]
        command += ["--force"] * force
        command += ["--rejects", folder / "rejects.jsonl"] if rejects else []
        environment = {**os.environ, "FAULT_DIR": str(folder)}
        if faults:
            environment |= {"LD_PRELOAD": str(self.library), **{name: str(value) for name, value in faults.items()}}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    def names(self, form, rejects):
        return [f"out.{form}{ending}" for ending in ENDINGS[form]] + ["rejects.jsonl"] * rejects

    def setting(self, form, force, rejects):
        """All faults of one setting."""
        names = self.names(form, rejects)
        whole = {}
        for run in self.inputs:
            folder = self.scratch / "reference"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            ended = self.run(folder, run, form, False, rejects)
            assert ended.returncode == 3, ended.stderr
            whole[run] = {name: (folder / name).read_bytes() for name in names}
        log = self.scratch / "log"
        log.unlink(missing_ok=True)
        with self.folder(whole, force) as folder:
            ended = self.run(folder, "new", form, force, rejects, FAULT_LOG=log)
            assert ended.returncode == 3, ended.stderr
        operations = log.read_text().split()
        kinds = [("kill-before", 0), ("kill-after", 0)]
        for name in self.options.errors.split(","):
            kinds += [("error-before", getattr(errno, name)), ("error-after", getattr(errno, name))]
        faults = itertools.product(enumerate(operations, 1), kinds)
        for (at, operation), (kind, number) in itertools.islice(faults, 0, None, self.options.every):
            with self.folder(whole, force) as folder:
                faults = {"FAULT_AT": at, "FAULT_KIND": kind, "FAULT_ERRNO": number}
                ended = self.run(folder, "new", form, force, rejects, **faults)
                self.counts[form, force, rejects, kind] += 1
                context = f"{form} force={force} rejects={rejects} {kind} {number} at {at} ({operation})"
                for violation in self.judge(folder, names, whole, ended, form, force, rejects):
                    self.violations.append(context)
                    print(f"{context}: {violation}\n    {ended.returncode} {ended.stderr.strip()[-300:]}", flush=True)
        print(f"{form:8} force={force!s:5} rejects={rejects!s:5} {len(operations)} operations, "
              f"{len(operations) * len(kinds)} faults possible, {len(self.violations)} violations so far", flush=True)

    def folder(self, whole, force):
        return Folder(self.scratch, whole["old"] if force else {})

    def judge(self, folder, names, whole, ended, form, force, rejects):
        yield from self.mixed("left", folder, names, whole)
        content = {path: path.read_bytes() for path in folder.iterdir()}
        there = lambda run: all(data in content.values() for data in whole[run].values())
        if force and not there("old") and not there("new"):
            yield "lost: neither run's files are all there"
        stands = self.stands(folder, names, whole)
        if ended.returncode in (0, 3) and stands != "new":
            yield f"silent: {stands} stands"
        if ended.returncode in (1, 2):
            if stands != ("old" if force else "nothing"):
                yield f"refused: {stands} stands"
            kept = re.search(r"stays as (\S+?)[:,;]?\s", ended.stderr + " ")
            if kept and pathlib.Path(kept[1]).read_bytes() != whole["new"][names[0]]:
                yield "refused: what the message names is not the new output"
        # One that replaces nothing, and one that replaces everything.
        after = self.run(folder, "new", form, False, rejects)
        yield from self.mixed("after", folder, names, whole)
        stands = self.stands(folder, names, whole)
        if stands not in ("old", "new") or (stands == "old" and not force):
            yield f"repair: {stands} stands after a next run: {after.returncode} {after.stderr.strip()[-300:]}"
        last = self.run(folder, "next", form, True, rejects)
        if last.returncode != 3 or self.stands(folder, names, whole) != "next":
            yield f"repair: {self.stands(folder, names, whole)} stands at last: {last.returncode} {last.stderr[-300:]}"
        hidden = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        if hidden:
            yield f"repair: {hidden} stay after the last run"

    def standing(self, folder, names, whole):
        runs = {}
        for name in names:
            if (folder / name).exists():
                data = (folder / name).read_bytes()
                runs[name] = next((run for run in whole if whole[run][name] == data), "neither")
        return runs

    def mixed(self, when, folder, names, whole):
        runs = self.standing(folder, names, whole)
        if "neither" in runs.values() or len(set(runs.values())) > 1:
            yield f"pairing ({when}): {runs}"

    def stands(self, folder, names, whole):
        runs = self.standing(folder, names, whole)
        if not runs:
            return "nothing"
        if len(runs) == len(names) and len(set(runs.values())) == 1:
            return next(iter(runs.values()))
        return f"a part ({runs})"


class Folder:
    """A folder with an output, gone afterwards."""

    def __init__(self, scratch, files):
        self.path = pathlib.Path(tempfile.mkdtemp(dir=scratch))
        for name, data in files.items():
            (self.path / name).write_bytes(data)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embedctl", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("model", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--formats", default="parquet,npy,jsonl")
    parser.add_argument("--errors", default="EIO")
    parser.add_argument("--every", default=1, type=int, help="every so many-th fault alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        harness = Harness(options, pathlib.Path(scratch))
        for form, force, rejects in itertools.product(options.formats.split(","), [False, True], [False, True]):
            harness.setting(form, force, rejects)
    total = sum(harness.counts.values())
    for kind in sorted({kind for *_, kind in harness.counts}):
        print(f"{kind:13} {sum(number for key, number in harness.counts.items() if key[3] == kind)}")
    print(f"{total} faults, {len(harness.violations)} violations")
    sys.exit(bool(harness.violations))


if __name__ == "__main__":
    main()
