"""The vectors of texts, each made once by the plainest run of its model."""

import json, os, subprocess

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from oracle import MODELS


class Table:
    """Vectors of texts, made by one plain run for each model and each setting that no arithmetic here can follow."""

    def __init__(self, program, root, folder, more=()):
        self.program, self.root, self.folder, self.more = program, root, folder, list(more)
        self.wanted, self.made, self.recording = {}, {}, False

    def ask(self, key, text):
        self.wanted.setdefault(key, {})[text] = None

    def get(self, key, text, place=()):
        """The vector of a text, or of a place in it; while `recording`, a stand-in."""
        self.ask(key, text)
        if self.recording:
            return {} if "sparse" in key[2] or key[1] == "sparse" else np.zeros(400)
        return self.made[key][(text, *place) if place else text]

    def make(self, key):
        """One run for all texts that were asked for. `key`: command, model, further arguments."""
        texts = list(self.wanted[key])
        command, name, arguments = key
        path = os.path.join(self.folder, f"table-{len(self.made)}-{len(texts)}")
        with open(path + ".jsonl", "w") as file:
            for number, text in enumerate(texts, 1):
                fields = {"query": text[0], "text": text[1]} if isinstance(text, tuple) else {"text": text}
                file.write(json.dumps({"id": number, **fields}) + "\n")
        run = [self.program, command, path + ".jsonl", "-m", os.path.join(self.root, MODELS[name]["path"]), "-o",
               path + ".arrow", "--force", "-q", *arguments]
        subprocess.run(run, check=True, env=self.environment)
        table = pa.ipc.open_file(path + ".arrow").read_all()
        name = next(n for n in table.column_names if n in ("embedding", "score", "scores"))
        values = [plain(value) for value in table[name].to_pylist()]
        if "--late" in arguments:
            places = zip(table["id"].to_pylist(), table["chunk_start"].to_pylist(), table["chunk_end"].to_pylist())
            texts = [(texts[int(line) - 1], start, end) for line, start, end in places]
        self.made.setdefault(key, {}).update(zip(texts, values))


def plain(value):
    """A vector as numpy has it: an array, or a dictionary of sparse entries."""
    if isinstance(value, dict):
        return dict(zip(value["indices"], value["values"]))
    return np.array(value, np.float32)
