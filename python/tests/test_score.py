"""Scores of pairs and of texts, as ``CrossEncoder.predict`` gives them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from embedctl import Embedder, TextError

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


@pytest.mark.parametrize("name", ["bert", "bert-three-labels"])
def test_a_table_of_pairs_gets_a_column_of_scores(name: str) -> None:
    model, records, expected = read(name)
    table = pa.Table.from_pylist([*records, {"id": "bad", "query": None, "text": "a"}])
    with Embedder(model, provider="native", threads=1) as embedder:
        found = embedder.score_arrow(table, "text", "query", "scored", on_error="null")
        nothing = embedder.score_arrow(table.slice(0, 0), "text", "query", "scored", on_error="null")
        with pytest.raises(TextError) as failed:
            embedder.score_arrow(table, "text", "query")
        with pytest.raises(ValueError, match="no column named 'other'"):
            embedder.score_arrow(table, "text", "other")
    assert found.column_names == ["id", "query", "text", "scored", "scored_error"] and nothing.schema == found.schema
    assert found.select(table.column_names) == table
    scores = np.stack(found["scored"].to_pylist()[:-1]).reshape(expected.shape)
    np.testing.assert_allclose(scores, expected, atol=2e-5)
    assert found["scored"].null_count == 1 and found["scored_error"].null_count == len(records)
    assert failed.value.row == len(records)


def test_a_table_of_texts_is_classified() -> None:
    model, records, expected = read("single-texts")
    with Embedder(model, provider="native", threads=1) as embedder:
        found = embedder.score_arrow(pa.Table.from_pylist(records), softmax=True)
    chances = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.stack(found["score"].to_pylist()), chances, atol=2e-5)
