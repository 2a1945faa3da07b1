"""Scores of pairs and of texts, as ``CrossEncoder.predict`` gives them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from embedctl import Embedder

from conftest import FIXTURES


def read(name: str) -> tuple[str, list[dict[str, str]], np.ndarray]:
    folder = FIXTURES / "scores" / name
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return str(folder / "model"), [json.loads(line) for line in lines], np.load(folder / "expected.npy")


@pytest.mark.parametrize("name", ["bert", "bert-three-labels"])
def test_pairs_have_the_scores_of_the_reference(name: str) -> None:
    model, records, expected = read(name)
    with Embedder(model, provider="native", threads=1) as embedder:
        scores = embedder.score([(record["query"], record["text"]) for record in records])
        again = embedder.score([(records[1]["query"], records[1]["text"])])
    assert scores.shape == (expected[:, 0].shape if expected.shape[1] == 1 else expected.shape)
    np.testing.assert_allclose(scores.reshape(expected.shape), expected, atol=2e-5)
    np.testing.assert_array_equal(again[0], scores[1])


def test_texts_are_classified() -> None:
    model, records, expected = read("single-texts")
    with Embedder(model, provider="native", threads=1) as embedder:
        scores = embedder.score([record["text"] for record in records])
        chances = embedder.score([record["text"] for record in records], softmax=True)
    np.testing.assert_allclose(scores, expected, atol=2e-5)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)


def test_values_that_are_no_pairs_are_refused() -> None:
    model, _, _ = read("bert")
    with Embedder(model, provider="native", threads=1) as embedder, pytest.raises(TypeError, match="pair 1"):
        embedder.score([("a", "b"), ("a",)])
