"""Writes the tokenizers and the texts of run.sh.

usage: inputs.py REPOSITORY FOLDER
"""

import json
import random
import shutil
import sys
import sysconfig
from pathlib import Path

root, folder = map(Path, sys.argv[1:])
SIZE = 1_000_000


def write(name, lines):
    kept, size = [], 0
    for line in lines:
        line = " ".join(line.split("\n")).rstrip()
        if line and size < SIZE:
            kept.append(line)
            size += len(line.encode()) + 1
    (folder / f"texts-{name}.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")


quotes = (root / "fixtures/inputs/quotes.txt").read_text(encoding="utf-8").splitlines()
write("english", quotes * (1 + SIZE // sum(map(len, quotes))))
library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
write("code", (line for file in library for line in file.read_text(encoding="utf-8", errors="replace").splitlines()))
draw = random.Random(1)
scripts = [range(0x4E00, 0x9FA6), range(0x3041, 0x3097), range(0x30A1, 0x30FB), range(0xAC00, 0xD7A4)]
write("cjk", (
    "".join(chr(draw.choice(script)) + ("、" if draw.random() < 0.08 else "") for _ in range(draw.randrange(10, 60)))
    for script in (draw.choice(scripts) for _ in range(20_000))
))  # fmt: skip

shutil.copy(root / "fixtures/models/all-MiniLM-L6-v2/tokenizer.json", folder / "tokenizer-bert.json")
printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
others = iter(range(0x100, 0x200))
letters = [chr(byte if byte in printed else next(others)) for byte in range(256)]
vocabulary = letters + [a + b for a in letters for b in letters]
model = {
    "type": "BPE",
    "vocab": {entry: number for number, entry in enumerate(vocabulary)},
    "merges": [list(entry) for entry in vocabulary[256:]],
}
cases = json.loads((root / "fixtures/expressions/cases.json").read_text())["cases"]
for start in ["gpt2,", "cl100k (2022)", "qwen 2,"]:
    case = next(case for case in cases if case["name"].startswith(start))
    parts = {"normalizer": case["normalizer"], "pre_tokenizer": case["pre_tokenizer"], "model": model}
    name = start.split(" ")[0].strip(",")
    (folder / f"tokenizer-{name}.json").write_text(json.dumps({"version": "1.0", "added_tokens": []} | parts))
