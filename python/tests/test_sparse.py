"""Sparse vectors, as ``SparseEncoder.encode`` gives them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from embedctl import Embedder

from conftest import FIXTURES


@pytest.mark.parametrize("name", ["bert", "weights-by-token", "autoencoder"])
def test_sparse_vectors_are_those_of_the_reference(name: str) -> None:
    pytest.importorskip("scipy")
    folder = FIXTURES / "sparse" / name
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    expected = np.load(folder / "expected.npy")
    with Embedder(str(folder / "model"), provider="native", threads=1) as embedder:
        vectors = embedder.encode(texts)
        one = embedder.encode([texts[1]])
        with pytest.raises(ValueError, match="sparse"):
            embedder.encode(texts, normalize_embeddings=True)
    assert vectors.shape == expected.shape and vectors.nnz < expected.size
    np.testing.assert_allclose(vectors.toarray(), expected, atol=2e-5)
    np.testing.assert_array_equal(one.toarray()[0], vectors.toarray()[1])
