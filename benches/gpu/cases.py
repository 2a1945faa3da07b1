"""The cases of fixtures/ that have a reference, and how far a run is from it: dense vectors, scores, sparse vectors, vectors of
tokens, and all kinds of bge-m3's layout.

Uses Python's standard library only.
"""

import array
import json
import struct
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
FIXTURES = REPO / "fixtures"


def matrix(path):
    """A .npy file of float32 as (rows, width, values)."""
    with open(path, "rb") as file:
        assert file.read(6) == b"\x93NUMPY", f"{path} is no .npy file"
        major = file.read(2)[0]
        (length,) = struct.unpack("<H", file.read(2)) if major == 1 else struct.unpack("<I", file.read(4))
        header = file.read(length).decode()
        assert "'<f4'" in header and "'fortran_order': False" in header, header
        shape = [int(part) for part in header.split("(")[1].split(")")[0].split(",") if part.strip()]
        values = array.array("f")
        values.frombytes(file.read())
    rows, width = shape[0], shape[1] if len(shape) > 1 else 1
    assert len(values) == rows * width, f"{path} is cut"
    return rows, width, values


def floats(path):
    """The rows of a .npy file of float32."""
    rows, width, values = matrix(path)
    return [values[row * width : (row + 1) * width] for row in range(rows)]


def cosine(a, b):
    """The cosine of two vectors; NaN is the worst."""
    product, lengths = sum(p * q for p, q in zip(a, b)), (sum(p * p for p in a) * sum(q * q for q in b)) ** 0.5
    found = product / lengths if lengths else float(not any(a) and not any(b))
    return found if found == found else -1.0


class Apart:
    """The greatest difference of a number, in units of its size where that is above 1, and the least cosine of a vector."""

    def __init__(self):
        self.most, self.cosine = 0.0, 1.0

    def add(self, ours, expected):
        if len(ours) != len(expected):
            raise ValueError(f"{len(ours)} numbers instead of {len(expected)}")
        scale = max([1.0, *map(abs, expected)])
        far = max((abs(a - b) if a == a else float("inf") for a, b in zip(ours, expected)), default=0.0)
        self.most = max(self.most, far / scale)
        if len(expected) > 1:
            self.cosine = min(self.cosine, cosine(ours, expected))


class Case:
    """A folder with a model, records and a reference."""

    def __init__(self, kind, folder, vectors=None):
        self.kind, self.folder, self.vectors = kind, folder, vectors
        self.name = f"{kind}/{folder.name}" + (f" {vectors}" if vectors else "")
        self.described = json.loads((folder / "case.json").read_text())

    def command(self, binary, out):
        """The run, without the options of an engine."""
        told = [binary, "score" if self.kind == "scores" else "embed", "-m", self.folder / "model", "--no-config"]
        records = "texts.jsonl" if self.kind == "parity" else "records.jsonl"
        told += [self.folder / records, "-o", out, "--force", "--log-format", "json"]
        if self.kind == "parity":
            told += ["-i", "jsonl"]
        if self.kind == "heads":
            told += ["--max-length", "64"]
        if self.vectors:
            told += ["--vectors", self.vectors]
        return [*map(str, told), *self.described.get("args", [])]

    @property
    def ending(self):
        return "jsonl" if self.kind in ("sparse", "multi") or self.vectors in ("sparse", "multi") else "npy"

    def apart(self, out):
        """How far an output is from the reference."""
        apart = Apart()
        if self.ending == "npy":
            name = "dense.npy" if self.kind == "heads" else "expected.npy"
            ours, expected = floats(out), floats(self.folder / name)
            if len(ours) != len(expected):
                raise ValueError(f"{len(ours)} rows instead of {len(expected)}")
            for one, other in zip(ours, expected):
                apart.add(one, other)
            return apart
        rows = [json.loads(line)["embedding"] for line in open(out, encoding="utf-8")]
        if self.kind == "multi" or self.vectors == "multi":
            expected = floats(self.folder / ("multi.npy" if self.kind == "heads" else "expected.npy"))
            lengths = self.described["lengths"]
            if [len(row) for row in rows] != lengths:
                raise ValueError(f"{[len(row) for row in rows]} vectors instead of {lengths}")
            for ours, other in zip((vector for row in rows for vector in row), expected):
                apart.add(ours, other)
            return apart
        if self.kind == "heads":
            expected = [{int(index): weight for index, weight in row.items()} for row in self.described["sparse"]]
        else:
            matrix = floats(self.folder / "expected.npy")
            expected = [{index: weight for index, weight in enumerate(row) if weight} for row in matrix]
        if len(rows) != len(expected):
            raise ValueError(f"{len(rows)} rows instead of {len(expected)}")
        for row, other in zip(rows, expected):
            ours = dict(zip(row["indices"], row["values"]))
            terms = sorted({*ours, *other})
            apart.add([ours.get(term, 0.0) for term in terms], [other.get(term, 0.0) for term in terms])
        return apart


def is_network(folder, kind):
    """Whether a case has a checkpoint of a network, and no choice among ONNX files."""
    model = folder / "model"
    config = json.loads((model / "config.json").read_text()) if (model / "config.json").exists() else {}
    chosen = {"--model-file", "--precision"} & set(json.loads((folder / "case.json").read_text()).get("args", []))
    stored = [path for name in ("model.safetensors", "adapter_model.safetensors") for path in model.rglob(name)]
    weights = any("Dense" not in path.parent.name for path in stored)
    # Queries of these take the weights of their tokens, without a network.
    static = kind == "sparse" and folder.name in ("route-query", "weights-by-token")
    return weights and config.get("model_type", "model2vec") != "model2vec" and not chosen and not static


def all_cases():
    """All cases that an engine can run from a checkpoint."""
    found = []
    for kind in ("parity", "scores", "sparse", "multi", "heads"):
        for folder in sorted((FIXTURES / kind).iterdir()):
            if not (folder / "case.json").exists() or not is_network(folder, kind):
                continue
            vectors = ("dense", "sparse", "multi") if kind == "heads" else (None,)
            found += [Case(kind, folder, which) for which in vectors]
    return found


def run(command, environment=None, seconds=60):
    """The summary of a run, or None, and what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"took more than {seconds} s"
    events = []
    for line in done.stderr.splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            pass  # the driver's own words
    summary = next((event for event in events if event.get("event") == "summary"), None)
    said = [event["message"] for event in events if event.get("event") != "summary" and "message" in event]
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return None, said[-1] if said else last[0]
    return summary or {}, "; ".join(said)
