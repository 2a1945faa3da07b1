"""Vectors of tokens, as ``MultiVectorEncoder.encode`` gives them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from embedctl import Embedder

from conftest import FIXTURES


@pytest.mark.parametrize("name", ["bert-document", "bert-query", "pylate-document", "pylate-query", "stanford-query"])
def test_vectors_of_tokens_are_those_of_the_reference(name: str) -> None:
    folder = FIXTURES / "multi" / name
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    lengths = json.loads((folder / "case.json").read_text())["lengths"]
    expected = np.split(np.load(folder / "expected.npy"), np.cumsum(lengths)[:-1])
    with Embedder(str(folder / "model"), provider="native", threads=1) as embedder:
        encode = embedder.encode_query if name.endswith("query") else embedder.encode_document
        vectors = encode(texts)
        one = encode(texts[1])
        with pytest.raises(ValueError, match="each token"):
            encode(texts, precision="int8")
    assert [len(row) for row in vectors] == lengths
    for ours, wanted in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(ours, wanted, atol=2e-5)
    np.testing.assert_array_equal(one, vectors[1])
