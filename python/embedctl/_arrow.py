"""The caller's Arrow data, and the texts that are sent to the program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

#: Schema of a sent batch: only texts. All other columns stay here and are joined with the answer.
SENT = pa.schema([pa.field("text", pa.large_string())])
#: Schema of a sent batch of pairs.
SENT_PAIRS = pa.schema([pa.field("query", pa.large_string()), pa.field("text", pa.large_string())])
#: Columns of an answer.
VECTORS, REASONS = "embedding", "embedding_error"


def texts_of(texts: Any, rows: int) -> tuple[Iterator[tuple[pa.RecordBatch, pa.Array]], int]:
    """Texts as batches of at most ``rows``, and their number.

    ``texts`` is an array of Arrow's or an object that exports one (polars), or any sequence of ``str``. Raises ``TypeError``
    before the first batch if one is not a text.
    """
    array = _exported(texts)
    if array is None:
        given = list(texts)
        for number, text in enumerate(given):
            if not isinstance(text, str):
                raise TypeError(f"text {number} is of type {type(text).__name__}: give str")
        starts = range(0, len(given), rows)
        return (_batch_of(given[start : start + rows], start) for start in starts), len(given)
    if array.null_count:
        number = next(number for number, text in enumerate(array.is_null()) if text.as_py())
        raise TypeError(f"text {number} is null: give str")
    batches = (pa.record_batch([chunk], ["text"]) for chunk in array.chunks)
    return slices(batches, 0, rows), len(array)


def pairs_of(pairs: Sequence[Any], rows: int) -> Iterator[pa.RecordBatch]:
    """Pairs of texts as batches of at most ``rows``.

    Raises ``TypeError`` before the first batch if one is not a pair of ``str``.
    """
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise TypeError(f"pair {number} is not two texts: give (query, text)")
    starts = range(0, len(pairs), rows)
    parts = (pairs[start : start + rows] for start in starts)
    columns = ([pa.array([pair[place] for pair in part], pa.large_string()) for place in (0, 1)] for part in parts)
    return (pa.record_batch(both, schema=SENT_PAIRS) for both in columns)


def _exported(texts: Any) -> pa.ChunkedArray | None:
    """The array that an object is, or exports; ``None`` if it is no Arrow data. Raises ``TypeError`` unless it holds texts."""
    if isinstance(texts, pa.ChunkedArray):
        array = texts
    elif isinstance(texts, pa.Array):
        array = pa.chunked_array([texts])
    elif hasattr(texts, "__arrow_c_stream__"):
        array = pa.chunked_array(texts)
    elif hasattr(texts, "__arrow_c_array__"):
        array = pa.chunked_array([pa.array(texts)])
    else:
        return None
    if not _holds_texts(array.type):
        raise TypeError(f"an array of {array.type} holds no texts")
    return array


def _batch_of(texts: Sequence[str], start: int) -> tuple[pa.RecordBatch, pa.Array]:
    try:
        array = pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        for number, text in enumerate(texts, start):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"text {number} is not Unicode text: {error}") from None
        raise
    return pa.record_batch([array], schema=SENT), array


def reader_of(data: Any) -> pa.RecordBatchReader:
    """A reader of any object that exports Arrow data."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    raise TypeError(f"no Arrow data: {type(data).__name__}; give a table, a batch, or a reader of batches")


def text_column(schema: pa.Schema, name: str) -> int:
    """Position of the column of texts. Raises ``ValueError`` unless exactly one column has the name and holds texts."""
    found: list[int] = schema.get_all_field_indices(name)
    if len(found) != 1:
        there = ", ".join(schema.names) or "none"
        raise ValueError(f"{'no' if not found else len(found)} column named '{name}'; columns are: {there}")
    kind = schema.field(found[0]).type
    if not _holds_texts(kind):
        raise ValueError(f"column '{name}' holds {kind}, no texts")
    return found[0]


def _holds_texts(kind: pa.DataType) -> bool:
    inner = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(test(inner) for test in tests)


def with_fields(schema: pa.Schema, added: list[pa.Field]) -> pa.Schema:
    """The schema with more fields. Raises ``ValueError`` if a name is taken."""
    for field in added:
        if field.name in schema.names:
            raise ValueError(f"there is a column '{field.name}' already: choose another name for the output")
        schema = schema.append(field)
    return schema


def slices(batches: Any, column: int, rows: int) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """Batches that have rows, in slices of at most ``rows``, each with its texts."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            yield part, _sent(part.column(column))


def sent_of(
    batches: Any, schema: pa.Schema, text: str, query: str | None, rows: int
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Batches of that schema that have rows, in slices of at most ``rows``, each with what is sent of it to be scored: its
    texts, or pairs where ``query`` names a column, too.

    Raises ``ValueError`` as ``text_column``, before the first batch.
    """
    column = text_column(schema, text)
    if query is None:
        return ((batch, pa.record_batch([texts], schema=SENT)) for batch, texts in slices(batches, column, rows))
    other = text_column(schema, query)
    return (
        (batch, pa.record_batch([_sent(batch.column(other)), texts], schema=SENT_PAIRS))
        for batch, texts in slices(batches, column, rows)
    )


def _sent(texts: pa.Array) -> pa.Array:
    """Texts of any Arrow type in the type that is sent."""
    kind = SENT.field(0).type
    if types.is_dictionary(texts.type):
        # A dictionary of views, such as polars' categories, has no cast of its own.
        return texts.dictionary.cast(kind).take(texts.indices)
    return texts.cast(kind)


def vector_columns(schema: pa.Schema) -> list[str]:
    """The names of an answer's columns of vectors, one for each kind."""
    return [name for name in schema.names if name.startswith(VECTORS) and name != REASONS]


def kind_of(vectors: pa.DataType) -> str:
    """The kind of the vectors in a column of that type: ``dense``, ``sparse``, or ``multi`` (one for each token)."""
    if types.is_struct(vectors):
        return "sparse"
    return "multi" if types.is_list(vectors) else "dense"


def type_of(schema: pa.Schema, column: str) -> pa.DataType:
    """The type of a column of vectors without the marks that no element of a list is null."""
    kind = schema.field(column).type
    if types.is_struct(kind):
        return pa.struct([("indices", pa.list_(pa.uint32())), ("values", pa.list_(pa.float32()))])
    if types.is_list(kind):
        return pa.list_(pa.list_(pa.float32(), kind.value_type.list_size))
    return pa.list_(pa.float32(), kind.list_size)


def width_of(schema: pa.Schema, column: str) -> int:
    """Number of components of a vector in a column of an answer, in full."""
    kind = schema.field(column).type
    if not types.is_struct(kind):
        width: int = (kind.value_type if types.is_list(kind) else kind).list_size
        return width
    made = json.loads((schema.metadata or {}).get(b"embedctl", b"{}"))
    own = [kind for kind in made.get("vectors_beside", []) if column in kind.get("vector_columns", [])]
    width = (own or [made])[0].get("dimensions", 0)
    return width


class DenseRows:
    """Vectors of answers, as they come: a matrix of ``[rows, width]``."""

    def __init__(self, rows: int, width: int) -> None:
        self._matrix = np.empty((rows, width), dtype=np.float32)
        self._end = 0

    def add(self, vectors: pa.FixedSizeListArray) -> None:
        """Append the vectors of an answer."""
        start, self._end = self._end, self._end + len(vectors)
        self._matrix[start : self._end] = vectors.flatten().to_numpy().reshape(len(vectors), -1)

    def result(self) -> Any:
        """The matrix."""
        return self._matrix


class TokenRows:
    """Vectors of tokens, as they come: an array of ``[tokens, width]`` for each row."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: list[Any] = []

    def add(self, rows: pa.ListArray) -> None:
        """Append the vectors of an answer."""
        values = rows.flatten().flatten().to_numpy().reshape(-1, self._width)
        ends = rows.value_lengths().to_numpy(zero_copy_only=False).cumsum()
        starts = [0, *ends[:-1]]
        self._rows += [values[start:end].copy() for start, end in zip(starts, ends, strict=True)]

    def result(self) -> Any:
        """The arrays."""
        return self._rows


class SparseRows:
    """Sparse vectors of answers, as they come: a matrix of compressed rows, ``width`` components each in full."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: list[tuple[Any, Any, Any]] = []

    def add(self, vectors: pa.StructArray) -> None:
        """Append the vectors of an answer."""
        indices, values = vectors.field("indices"), vectors.field("values")
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        self._parts.append((indices.flatten().to_numpy(), values.flatten().to_numpy(), lengths))

    def result(self) -> Any:
        """All of them as a matrix. Raises ``ImportError`` without scipy."""
        from scipy.sparse import csr_matrix

        none = (np.empty(0, np.uint32), np.empty(0, np.float32), np.empty(0, np.int64))
        indices, values, lengths = (np.concatenate(parts) for parts in zip(none, *self._parts, strict=True))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return csr_matrix((values, indices.astype(np.int32), ends), shape=(len(lengths), self._width))


def rows_of(kind: str, rows: int, width: int) -> DenseRows | SparseRows | TokenRows:
    """A place for ``rows`` vectors of a kind."""
    if kind == "dense":
        return DenseRows(rows, width)
    return SparseRows(width) if kind == "sparse" else TokenRows(width)
