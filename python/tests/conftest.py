"""The common part of the package's tests.

They run the program that was installed with the package, or the one that EMBEDCTL_BIN names, on small
models of fixtures/parity, whose vectors sentence-transformers has made.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from embedctl import Embedder

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass
class Case:
    """A model, texts, and their vectors by sentence-transformers."""

    model: str
    texts: list[str]
    expected: np.ndarray

    @classmethod
    def read(cls, name: str) -> Case:
        folder = FIXTURES / "parity" / name
        lines = (folder / "texts.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["text"] for line in lines if line]
        return cls(str(folder / "model"), texts, np.load(folder / "expected.npy"))


@pytest.fixture(scope="session")
def case() -> Case:
    return Case.read("bare-encoder")


@pytest.fixture(scope="session")
def prompted() -> Case:
    """Its vectors are those of the prompt 'query'; 'document' is the model's default."""
    return Case.read("prompt-name-argument")


@pytest.fixture
def embedder(case: Case) -> Iterator[Embedder]:
    with Embedder(case.model, provider="native", threads=1) as embedder:
        yield embedder


def pid_of(embedder: Embedder) -> int:
    """The only process of an embedder."""
    (process,) = embedder._processes.values()
    return process.pid


Fake = Callable[[str], str]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a Python script in the place of the program. It prints this package's version, or runs the given text."""
    if os.name != "posix":
        pytest.skip("a script is no program here")

    def make(body: str, version: str | None = None) -> str:
        from embedctl import __version__

        path = tmp_path / "embedctl"
        answer = version or f"embedctl {__version__ or '0.1.0'}"
        path.write_text(
            f"#!{sys.executable}\nimport os, signal, sys\n"
            f"if sys.argv[1:] == ['--version']:\n    print({answer!r})\n    sys.exit()\n{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("EMBEDCTL_BIN", str(path))
        return str(path)

    return make


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the time that a test waits for a hanging program."""
    monkeypatch.setattr("embedctl._process._PATIENCE", 3)
