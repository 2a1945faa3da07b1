"""Tables in, tables out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from conftest import Case, pid_of
from embedctl import EmbedctlError, Embedder, TextError


def matrix(column: pa.ChunkedArray) -> np.ndarray:
    return np.stack(column.to_numpy())


def test_all_columns_stay_and_vectors_come_last(embedder: Embedder, case: Case) -> None:
    rows = len(case.texts)
    table = pa.table(
        {"n": range(rows), "body": case.texts, "deep": [{"a": [n]} for n in range(rows)], "none": pa.nulls(rows)},
        metadata={"kept": "yes"},
    )
    found = embedder.encode_arrow(table, text="body", output="vector")
    assert found.column_names == ["n", "body", "deep", "none", "vector"]
    assert found.select(table.column_names).equals(table, check_metadata=True)
    assert found.schema.field("vector").type == pa.list_(pa.float32(), case.expected.shape[1])
    np.testing.assert_allclose(matrix(found["vector"]), case.expected, atol=2e-5)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_texts_of_every_arrow_type(embedder: Embedder, kind: pa.DataType) -> None:
    texts = pa.array(["a", "b", "a"]).cast(kind)
    found = embedder.encode_arrow(pa.table({"text": texts}))
    assert found.schema.field("text").type == kind
    assert np.array_equal(matrix(found["embedding"]), embedder.encode(["a", "b", "a"]))


def test_whatever_hands_out_arrow_data(embedder: Embedder) -> None:
    table = pa.table({"text": ["a", "b", "c"]}).slice(1)
    expected = embedder.encode(["b", "c"])

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    for data in (table, table.to_batches()[0], table.to_reader(), Stream()):
        assert np.array_equal(matrix(embedder.encode_arrow(data)["embedding"]), expected)
    with pytest.raises(TypeError, match="no Arrow data: dict"):
        embedder.encode_arrow({"text": ["a"]})


def test_batches_with_and_without_rows(embedder: Embedder, case: Case) -> None:
    schema = pa.schema([("text", pa.string())])
    empty = embedder.encode_arrow(schema.empty_table())
    assert empty.num_rows == 0 and empty.schema.field("embedding").type.list_size == case.expected.shape[1]
    texts = [f"text {n % 31}" for n in range(12_000)]
    parts = [texts[:1], [], texts[1:11_000], [], texts[11_000:]]
    table = pa.Table.from_batches([pa.record_batch([pa.array(part, pa.string())], schema=schema) for part in parts])
    found = embedder.encode_arrow(table)
    assert found["text"].to_pylist() == texts
    np.testing.assert_allclose(matrix(found["embedding"]), embedder.encode(texts[:31])[np.arange(12_000) % 31], atol=1e-5)


def test_a_bad_row_fails_or_is_null_with_its_reason(embedder: Embedder) -> None:
    table = pa.table({"text": ["a", None, "b"]})
    with pytest.raises(TextError, match="row 1: ") as raised:
        embedder.encode_arrow(table)
    found = embedder.encode_arrow(table, on_error="null")
    assert found.column_names == ["text", "embedding", "embedding_error"]
    assert found["embedding"].is_null().to_pylist() == [False, True, False]
    assert found["embedding_error"].to_pylist() == [None, raised.value.reason, None]
    with pytest.raises(ValueError, match="on_error is 'skip'"):
        embedder.encode_arrow(table, on_error="skip")


def test_columns_that_do_not_fit(embedder: Embedder) -> None:
    table = pa.table({"n": [1], "body": ["a"], "embedding": ["b"]})
    with pytest.raises(ValueError, match="no column named 'text'; columns are: n, body, embedding"):
        embedder.encode_arrow(table)
    with pytest.raises(ValueError, match="column 'n' holds int64, no texts"):
        embedder.encode_arrow(table, "n", "v")
    with pytest.raises(ValueError, match="there is a column 'embedding' already"):
        embedder.encode_arrow(table, "body")
    with pytest.raises(ValueError, match="2 column named 'a'"):
        embedder.encode_arrow(pa.table([["x"], ["y"]], names=["a", "a"]), "a")


def test_a_stream_is_embedded_as_it_is_asked_for(embedder: Embedder) -> None:
    schema = pa.schema([("text", pa.string())])
    taken: list[int] = []

    def endless():
        while True:
            taken.append(len(taken))
            yield pa.record_batch([[f"batch {taken[-1]}"] * 8192], schema=schema)

    reader = embedder.encode_stream(pa.RecordBatchReader.from_batches(schema, endless()))
    assert reader.schema.names == ["text", "embedding"]
    first = reader.read_next_batch()
    assert first["text"][0].as_py() == "batch 0" and 0 < first.num_rows <= 8192
    assert len(taken) < 20
    with pytest.raises(EmbedctlError, match="in the middle of a stream"):
        embedder.encode("a")
    del reader
    assert embedder.encode("a").shape


def test_an_error_of_the_source_is_the_callers(embedder: Embedder) -> None:
    schema = pa.schema([("text", pa.string())])

    def broken():
        yield pa.record_batch([["a"]], schema=schema)
        raise KeyError("of the source")

    with pytest.raises(KeyError, match="of the source"):
        embedder.encode_arrow(pa.RecordBatchReader.from_batches(schema, broken()))
    assert embedder.encode("a").shape


def test_one_process_answers_stream_after_stream(embedder: Embedder) -> None:
    embedder.encode("a")
    pid = pid_of(embedder)
    for _ in range(20):
        embedder.encode_arrow(pa.table({"text": ["a", "b"]}))
    assert pid_of(embedder) == pid
