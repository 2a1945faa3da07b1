"""Prints rows, hash and mean tokens of corpora, special tokens included.

usage: count.py TOKENIZER_JSON FILE...

Tokens are counted where the Python package `tokenizers` and the file are here; otherwise the
columns show a dash. Of more than 20,000 rows the first 20,000 are tokenized.
"""

import hashlib
import json
import sys
from pathlib import Path

MAX_LENGTH = 256
SAMPLE = 20_000


def load_tokenizer(path):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    if not Path(path).exists():
        return None
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()  # tokenizer.json carries a truncation and a padding of its own
    tokenizer.no_padding()
    return tokenizer


def main(tokenizer_path, *paths):
    tokenizer = load_tokenizer(tokenizer_path)
    print(f"{'file':<16}{'rows':>10}{'tokens':>9}{'cut at ' + str(MAX_LENGTH):>13}  sha256")
    for path in map(Path, paths):
        data = path.read_bytes()
        lines = data.decode().removesuffix("\n").split("\n")
        mean = cut = "-"
        if tokenizer:
            texts = lines[:SAMPLE]
            if path.suffix == ".jsonl":
                texts = [json.loads(line)["text"] for line in texts]
            lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts)]
            mean = f"{sum(lengths) / len(lengths):.1f}"
            cut = f"{sum(min(length, MAX_LENGTH) for length in lengths) / len(lengths):.1f}"
        digest = hashlib.sha256(data).hexdigest()
        print(f"{path.name:<16}{len(lines):>10}{mean:>9}{cut:>13}  {digest[:16]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
