"""What a job does when its output cannot be written: a full disk, a folder that may not be written to, one that is
gone, a store that stops answering, and a second run on the same output. Whatever happens, no part may be wrong, no
_SUCCESS stand over less than everything, no panic be told; and once the fault is gone, --resume completes the output
as an undisturbed run writes it.

    python3 benches/jobs/faults.py --rounds 3 [--moto PYTHON] [--binary target/release/embedctl]

Needs numpy and pyarrow, cc, and to be root on Linux for the full disk (a small tmpfs); without --moto there is no
store. Prints a row for each fault; exits with 1 at the first violation.
"""

import collections
import errno
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from common import KINDS, ROOT, Program, Store, content, corpus, options, rejects

PARTS = ["--part-rows", "200", "--window", "100"]


class Proxy:
    """Stands between program and store, and lets answers be lost, or the store be gone, when it is told to."""

    def __init__(self, port):
        self.target, self.lock = port, threading.Lock()
        self.fails()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def fails(self, mode=None, after=0):
        """From the `after`-th request that writes on: its answer is lost once (`lost`), or everything is (`gone`)."""
        self.mode, self.after, self.seen = mode, after, 0

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    def talk(self, client):
        with client:
            request = b""
            while b"\r\n\r\n" not in request:
                more = client.recv(65536)
                if not more:
                    return
                request += more
            head, body = request.split(b"\r\n\r\n", 1)
            lines = head.split(b"\r\n")
            fields = {name.lower(): value.strip() for name, value in (line.split(b":", 1) for line in lines[1:])}
            with self.lock:
                self.seen += lines[0].startswith(b"PUT")
                hit = self.mode and self.seen > self.after
                if hit and self.mode == "lost":
                    self.mode = None
            if hit and self.mode == "gone":
                return
            length = int(fields.get(b"content-length", 0))
            if fields.get(b"expect", b"").lower() == b"100-continue" and len(body) < length:
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            while len(body) < length:
                body += client.recv(65536)
            kept = [line for line in lines if not line.lower().startswith((b"connection:", b"expect:"))]
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                server.sendall(b"\r\n".join(kept + [b"Connection: close"]) + b"\r\n\r\n" + body)
                answer = b""
                while more := server.recv(65536):
                    answer += more
            if hit:
                return  # It was done, and nobody hears of it.
            first, rest = answer.split(b"\r\n", 1)
            client.sendall(first + b"\r\nConnection: close\r\n" + rest)


class Bench:
    def __init__(self, arguments, folder):
        self.rng, self.folder = random.Random(arguments.seed), folder
        corpus(folder / "in.jsonl", arguments.records, self.rng)
        self.program = Program(
            arguments.binary, "-m", arguments.model, "--provider", "rten", "--keep", "n", folder / "in.jsonl"
        )
        self.whole, self.count, self.figures = {}, 0, collections.Counter()
        self.seconds = {}
        for kind in KINDS:
            self.whole[kind] = folder / f"whole-{kind}"
            start = time.time()
            code, said = self.program.run("-f", kind, "-o", f"{self.whole[kind]}/", *PARTS)
            self.seconds[kind] = time.time() - start
            assert code == 3, said
        self.library = folder / "fault.so"
        source = ROOT / "benches/hardening/fault.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, source, "-ldl"], check=True)

    def shape(self, output, kind):
        return ["-f", kind, "-o", f"{output}/", *PARTS, "--resume"]

    def whole_parts(self, output, kind, what):
        """What stands under final names is right: the parts are the first ones of the whole output, or some of them."""
        names = sorted(path.name for path in output.glob(f"part-*.{kind}")) if output.is_dir() else []
        for name in names:
            assert content(output / name, kind) == content(self.whole[kind] / name, kind), f"{what}: {name} is wrong"
        complete = len(names) == len(list(self.whole[kind].glob(f"part-*.{kind}")))
        assert complete or not (output / "_SUCCESS").exists(), f"{what}: _SUCCESS over {names}"
        return names

    def failed(self, what, code, said):
        """A run that met the fault has said so; one that was faster is none."""
        assert "panicked" not in said and "report" not in said, (what, said)
        assert code in (1, 2, 3), (what, code, said)
        self.figures[what, "runs"] += 1
        self.figures[what, "failed"] += code != 3

    def completes(self, what, output, kind, env=None):
        code, said = self.program.run(*self.shape(output, kind), env=env)
        assert code == 3, (what, code, said)

    def same(self, what, output, kind):
        assert content(output, kind) == content(self.whole[kind], kind), f"{what}: {output} differs"
        assert rejects(output) == rejects(self.whole[kind]), what
        code, said = self.program.inspect(output)
        assert code == 0, (what, said)

    def full_disk(self, kind):
        """A file system with room for a share of the output, then one with room for all of it."""
        what, output = "a full disk", self.folder / "disk"
        output.mkdir(exist_ok=True)
        size = sum(path.stat().st_size for path in self.whole[kind].rglob("*") if path.is_file())
        room = self.rng.randint(16, max(17, size // 1024))
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}k", "tmpfs", output]).returncode:
            return
        try:
            code, said = self.program.run(*self.shape(output / "out", kind))
            assert code == 3 or "space" in said, said
            self.failed(what, code, said)
            self.whole_parts(output / "out", kind, what)
            subprocess.run(["mount", "-o", "remount,size=1g", output], check=True)
            self.completes(what, output / "out", kind)
            self.same(what, output / "out", kind)
        finally:
            subprocess.run(["umount", output], check=True)

    def refused(self, kind):
        """Every operation that changes a file is refused, from the n-th on, as on a file system gone read-only."""
        what = "read-only from some operation on"
        self.count += 1
        output = self.folder / f"out{self.count}"
        number = self.rng.choice([errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
        env = {
            **os.environ, "LD_PRELOAD": str(self.library), "FAULT_DIR": str(output), "FAULT_KIND": "error-from",
            "FAULT_AT": str(self.rng.randint(1, 150)), "FAULT_ERRNO": str(number),
        }
        code, said = self.program.run(*self.shape(output, kind), env=env)
        self.failed(what, code, said)
        self.whole_parts(output, kind, what)
        self.completes(what, output, kind)
        self.same(what, output, kind)

    def vanished(self, kind):
        """The folder and the job's files beside it are renamed while the run writes them, as by somebody who tidies up."""
        what = "a folder that is gone"
        self.count += 1
        output, aside = self.folder / f"out{self.count}", self.folder / f"aside{self.count}"
        child = self.program.start(*self.shape(output, kind))
        try:
            child.wait(self.rng.uniform(0.05, self.seconds[kind]))
        except subprocess.TimeoutExpired:
            pass
        def own(place):
            return place.with_name(f"_{place.name}.embedctl")

        if output.exists():
            output.rename(aside)
            if own(output).exists():
                own(output).rename(own(aside))
        said = child.communicate(timeout=120)[1].decode()
        self.failed(what, child.returncode, said)
        for place in (aside, output):
            self.whole_parts(place, kind, what)
        if output.exists():
            shutil.rmtree(output)
        self.completes(what, output, kind)
        self.same(what, output, kind)
        if aside.exists():
            self.completes(what, aside, kind)
            self.same(what, aside, kind)

    def two_runs(self, kind, store=None):
        """Two at the same time: one writes the output, the other says that somebody does. If both stop, one goes on."""
        what = "two runs at once" + (", on S3" if store else "")
        self.count += 1
        output = self.folder / f"out{self.count}"
        target, env = (f"s3://bucket/two{self.count}", store.env()) if store else (output, None)
        runs = [self.program.start(*self.shape(target, kind), env=env) for _ in range(2)]
        said = [run.communicate(timeout=120)[1].decode() for run in runs]
        codes = sorted(run.returncode for run in runs)
        for run, words in zip(runs, said):
            self.failed(what, run.returncode, words)
            assert run.returncode == 3 or "another run" in words, words
        if 3 not in codes:
            self.completes(what, target, kind, env)
        if store:
            store.copy(f"two{self.count}", output)
        self.same(what, output, kind)

    def store_fails(self, kind, store, proxy, mode):
        """The store goes away at some request that writes, or does what it is asked and its answer is lost."""
        what = {"gone": "a store that is gone", "lost": "a store whose answer is lost"}[mode]
        self.count += 1
        output, name = self.folder / f"out{self.count}", f"store{self.count}"
        proxy.fails(mode, self.rng.randint(0, 30))
        code, said = self.program.run(*self.shape(f"s3://bucket/{name}", kind), env=store.env(proxy.port))
        proxy.fails()
        self.failed(what, code, said)
        store.copy(name, output)
        self.whole_parts(output, kind, what)
        shutil.rmtree(output, ignore_errors=True)
        self.completes(what, f"s3://bucket/{name}", kind, store.env(proxy.port))
        store.copy(name, output)
        self.same(what, output, kind)


def main():
    arguments = options(rounds=3, moto=None)
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, pathlib.Path(folder))
        store = Store(arguments.moto) if arguments.moto else None
        proxy = Proxy(store.port) if store else None
        for _ in range(arguments.rounds):
            for kind in KINDS:
                bench.full_disk(kind)
                bench.refused(kind)
                bench.vanished(kind)
                bench.two_runs(kind)
                if store:
                    bench.two_runs(kind, store)
                    bench.store_fails(kind, store, proxy, "lost")
                    bench.store_fails(kind, store, proxy, "gone")
        print("| fault | runs | of which failed | wrong under final names | after --resume |")
        print("|---|--:|--:|--:|---|")
        for what in dict.fromkeys(name for name, _ in bench.figures):
            print(f"| {what} | {bench.figures[what, 'runs']} | {bench.figures[what, 'failed']} | 0 | as undisturbed |")
        print(f"\n{time.time() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
