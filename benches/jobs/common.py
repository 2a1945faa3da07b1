"""What the scripts in this folder share: an input, runs that are killed, and what outputs hold."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import numpy
import pyarrow.fs
import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "a cat sat on the mat while seven old dogs slept under trees that nobody had ever planted there".split()
KINDS = ("parquet", "jsonl", "npy")
KILLED = -signal.SIGKILL


def options(records=2000, model="bert-mean-legacy", **more):
    """What a script was asked for: what all of them know, and `more` of its own, with their defaults."""
    known = dict(
        binary=ROOT / "target/release/embedctl", model=ROOT / f"fixtures/parity/{model}/model", records=records, seed=1,
    )
    parser = argparse.ArgumentParser()
    for name, default in {**known, **more}.items():
        parser.add_argument(f"--{name}", default=default, type=int if isinstance(default, int) else str)
    return parser.parse_args()


def corpus(path, records, rng, first=0):
    """Records of 3 to 60 words, numbered from `first`; one in 97 is no JSON."""
    with open(path, "w") as file:
        for record in range(first, first + records):
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


def own(output):
    """The folder of a job's own files, beside that of its parts."""
    return output.with_name(f"_{output.name}.embedctl")


def names_in(folder, start=""):
    """Names of the files in a folder that begin with `start`. Another run may remove the folder at any moment, which
    `Path.glob` of Python before 3.13 answers with an error now and then; then there are none."""
    try:
        return [name for name in os.listdir(folder) if name.startswith(start)]
    except FileNotFoundError:
        return []


def rejects(output):
    """File and line of the rejected records of a folder, in the order of its parts."""
    lines = (json.loads(line) for path in sorted(own(output).glob("rejects/*")) for line in open(path))
    return [(pathlib.Path(line["file"]).name, line["line"]) for line in lines]


def leftovers(output):
    """Files that a complete folder should not have."""
    known = {"job.json", "manifest.json", "commits", "rejects", "shards", "sidecars", "texts"}
    found = [path.name for path in own(output).iterdir() if path.name not in known and not path.name.startswith("shard-")]
    return found + [path.name for folder in (output, own(output)) for path in folder.rglob("*") if ".tmp" in path.name or ".scratch" in path.name]


class Program:
    """The program with the arguments that all runs of a script have."""

    def __init__(self, binary, *arguments, env=None):
        self.command = [str(binary), "embed", "--offline", "--on-error", "skip", "--threads", "1", *map(str, arguments)]
        self.binary, self.env = str(binary), env

    def start(self, *arguments, env=None):
        return subprocess.Popen(
            self.command + list(map(str, arguments)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=env or self.env,
        )

    def run(self, *arguments, kill_after=None, env=None, timeout=120):
        """Exit code (KILLED after that many seconds) and what was said."""
        child = self.start(*arguments, env=env)
        if kill_after is not None:
            try:
                child.wait(kill_after)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
        said = child.communicate(timeout=timeout)[1].decode()
        return child.returncode, said

    def inspect(self, output, env=None):
        """Exit code of `inspect`, and what it found."""
        done = subprocess.run([self.binary, "inspect", "--json", str(output)], capture_output=True, env=env or self.env)
        return done.returncode, done.stdout.decode() + done.stderr.decode()


def race(program, shapes, longest, rng, killed):
    """Runs all of `shapes` at the same time, each killed at a random moment and resumed until it is done; `killed` is
    called after each kill. A run that another one is in the way of, or that comes while another completes the output,
    starts again."""
    seeds = [rng.random() for _ in shapes]

    def until_done(shape, seed):
        chance = random.Random(seed)
        while True:
            code, said = program.run(*shape, kill_after=chance.uniform(0.0, longest))
            if code == KILLED:
                killed()
            elif code in (0, 3):
                return code
            else:
                assert "another run" in said or "the output is complete; there is nothing" in said, (code, said)

    with concurrent.futures.ThreadPoolExecutor(len(shapes)) as pool:
        return list(pool.map(until_done, shapes, seeds))


MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print('port', server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class Store:
    """S3 by moto (a Python that has it) or by s3rver (a folder with node_modules), in a process that ends with this one;
    its bucket is called `bucket`."""

    def __init__(self, moto=None, s3rver=None):
        self.name = "moto" if moto else "s3rver"
        command, env = [moto, "-c", MOTO], None
        # s3rver knows one account.
        self.keys = ("testkey", "5ecretkey5") if moto else ("S3RVER", "S3RVER")
        if not moto:
            command = ["node", pathlib.Path(__file__).with_name("s3rver.js")]
            env = {**os.environ, "NODE_PATH": str(pathlib.Path(s3rver).resolve() / "node_modules")}
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
        self.port = int(self.child.stdout.readline().split()[1])
        self.files = pyarrow.fs.S3FileSystem(
            access_key=self.keys[0], secret_key=self.keys[1], region="us-east-1", scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}", allow_bucket_creation=True, connect_timeout=60, request_timeout=60,
        )
        if moto:
            self.files.create_dir("bucket")

    def env(self, port=None):
        """Variables by which the program finds it, at another port where something stands between."""
        return {
            **os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.keys[0], "AWS_SECRET_ACCESS_KEY": self.keys[1], "NO_PROXY": "127.0.0.1",
        }

    def names(self, prefix):
        """Keys below `bucket/prefix`, without it; the job's own files, which lie beside it, under `_embedctl`."""
        return self.below(prefix) + [f"_embedctl/{name}" for name in self.below(f"_{prefix}.embedctl")]

    def below(self, prefix):
        chosen = pyarrow.fs.FileSelector(f"bucket/{prefix}", recursive=True, allow_not_found=True)
        found = (info.path for info in self.files.get_file_info(chosen) if info.is_file)
        return [path.removeprefix(f"bucket/{prefix}/") for path in found]

    def copy(self, prefix, folder):
        """The objects below `bucket/prefix` as files of a folder."""
        for prefix, folder in ((prefix, folder), (f"_{prefix}.embedctl", own(folder))):
            for name in self.below(prefix):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.files.open_input_file(f"bucket/{prefix}/{name}").read())


def report(columns, figures, began):
    """Prints a table of what every output came to, a name and its counts each, and how many kills there were."""
    print(f"| output | {' | '.join(columns)} | result |")
    print("|---|" + "--:|" * len(columns) + "---|")
    for name, figure in figures.items():
        counts = " | ".join(str(count) for count in figure.values())
        print(f"| {name} | {counts} | as undisturbed |")
    print(f"\n{sum(figure['kills'] for figure in figures.values())} kills, {time.time() - began:.0f} s")
