"""Writes the corpora: WordNet's glosses as lines, Python's standard library as JSONL.

usage: corpus.py WORDNET_FOLDER PYTHON_LIBRARY_FOLDER OUTPUT_FOLDER

The same packages give the same bytes: nothing depends on random numbers, on the order of a
folder or on the version of Python (3.11 or newer, whose grammar the library is written in).
"""

import ast
import hashlib
import itertools
import json
import re
import sys
import textwrap
import warnings
from collections import defaultdict
from pathlib import Path

SHORT_ROWS = 6_000
MEDIUM_ROWS = 2_000
LONG_ROWS = 2_000
MEDIUM_SENSES = 3
"""A word's entry with exactly three senses has about 60 tokens."""
LONG_MAX_LINES = 250
"""Leaves out some 80 huge classes; the rest has a mean of about 170 tokens."""


def shuffled(texts):
    """The distinct texts in the order of their hashes: an arbitrary order, but always the same."""
    return sorted(set(texts), key=lambda text: hashlib.sha256(text.encode()).digest())


def synsets(wordnet):
    """Yields (words, gloss) of every synset; the format is described in wndb(5WN)."""
    for part in ("noun", "verb", "adj", "adv"):
        with open(wordnet / f"data.{part}", encoding="latin-1") as file:
            for line in file:
                if line.startswith("  "):  # the licence
                    continue
                head, gloss = line.split(" | ", 1)
                fields = head.split(" ")
                count = int(fields[3], 16)
                # An adjective can end in a syntactic marker: galore(ip).
                words = [re.sub(r"\(\w+\)$", "", word) for word in fields[4 : 4 + 2 * count : 2]]
                yield [word.replace("_", " ").lower() for word in words], gloss.strip()


def definitions(library):
    """Yields (id, text) of every function and class in the library, tests left out."""
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library)
        if {"test", "tests"} & set(name.parts) or not path.is_file():  # links may dangle
            continue
        source = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions complain about some escapes
            tree = ast.parse(source)
        lines = source.split("\n")
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            first = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
            if node.end_lineno - first < LONG_MAX_LINES:
                text = textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))
                yield f"{name.as_posix()}:{first}", text


def repeated(texts):
    """The texts, then again and again, each later pass with its number in front."""
    yield from texts
    for number in itertools.count(2):
        for text in texts:
            yield f"{number}. {text}"


def write(path, lines):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def main(wordnet, library, output):
    glosses, entries = [], defaultdict(list)
    for words, gloss in synsets(wordnet):
        glosses.append(gloss)
        for word in words:
            entries[word].append(gloss)
    glosses = shuffled(glosses)
    write(output / "short.txt", glosses[:SHORT_ROWS])
    write(output / "short-100k.txt", itertools.islice(repeated(glosses), 100_000))
    write(output / "short-1m.txt", itertools.islice(repeated(glosses), 1_000_000))

    medium = shuffled(
        f"{word}: {'; '.join(senses)}"
        for word, senses in entries.items()
        if len(senses) == MEDIUM_SENSES
    )
    write(output / "medium.txt", medium[:MEDIUM_ROWS])

    ids = {}
    for identifier, text in definitions(library):
        ids.setdefault(text, identifier)
    records = ({"id": ids[text], "text": text} for text in shuffled(ids)[:LONG_ROWS])
    write(output / "long.jsonl", (json.dumps(record, ensure_ascii=False) for record in records))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
