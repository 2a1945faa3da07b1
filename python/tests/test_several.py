"""Vectors of several kinds in one pass, as FlagEmbedding's ``BGEM3FlagModel`` gives them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from embedctl import Embedder

from conftest import FIXTURES

FOLDER = FIXTURES / "heads" / "bert"


def texts() -> list[str]:
    lines = (FOLDER / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def several(vectors: str | list[str]) -> Embedder:
    return Embedder(str(FOLDER / "model"), provider="native", threads=1, vectors=vectors, max_length=64)


def test_each_kind_is_that_of_its_own() -> None:
    pytest.importorskip("scipy")
    with several(["dense", "sparse", "multi"]) as embedder:
        found = embedder.encode(texts())
        one = embedder.encode(texts()[1])
        none = embedder.encode([])
        assert embedder.dimensions == found["dense"].shape[1]
        with pytest.raises(ValueError, match="sparse"):
            embedder.encode(texts(), normalize_embeddings=True)
    assert list(found) == list(none) == ["dense", "sparse", "multi"]
    np.testing.assert_allclose(found["dense"], np.load(FOLDER / "dense.npy"), atol=2e-5)
    np.testing.assert_allclose(np.concatenate(found["multi"]), np.load(FOLDER / "multi.npy"), atol=2e-5)
    np.testing.assert_array_equal(one["dense"], found["dense"][1])
    np.testing.assert_array_equal(one["multi"], found["multi"][1])
    for kind in ("dense", "sparse", "multi"):
        with several(kind) as embedder:
            alone = embedder.encode(texts())
        if kind == "multi":
            for row, own in zip(found[kind], alone, strict=True):
                np.testing.assert_array_equal(row, own)
        elif kind == "sparse":
            assert alone.shape == found[kind].shape == (len(texts()), none[kind].shape[1])
            assert (alone != found[kind]).nnz == 0
        else:
            np.testing.assert_array_equal(found[kind], alone)


@pytest.mark.parametrize("vectors", ["dense", "sparse", "multi", "dense,sparse,multi", "sparse,multi"])
def test_tables_get_a_column_for_each_kind(vectors: str) -> None:
    table = pa.table({"text": [texts()[0], None, texts()[1]]})
    kinds = vectors.split(",")
    suffixes = [""] if len(kinds) == 1 else ["" if kind == "dense" else f"_{kind}" for kind in kinds]
    with several(vectors) as embedder:
        found = embedder.encode_arrow(table, output="v", on_error="null")
        assert embedder.dimensions > 0
    assert found.column_names == ["text", *(f"v{suffix}" for suffix in suffixes), "v_error"]
    for suffix in suffixes:
        assert [row is None for row in found[f"v{suffix}"].to_pylist()] == [False, True, False]
