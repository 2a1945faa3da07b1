"""The caller's Arrow data, and the texts that are sent to the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as types

#: Schema of a sent batch: only texts. All other columns stay here and are joined with the answer.
SENT = pa.schema([pa.field("text", pa.large_string())])
#: Columns of an answer.
VECTORS, REASONS = "embedding", "embedding_error"


def batches_of(texts: Sequence[Any], rows: int) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """Python texts as batches of at most ``rows``. Raises ``TypeError`` before the first batch if one is not a ``str``."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {number} is of type {type(text).__name__}: give str")
    return (_batch_of(texts[start : start + rows], start) for start in range(0, len(texts), rows))


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
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner) or types.is_null(inner)):
        raise ValueError(f"column '{name}' holds {kind}, no texts")
    return found[0]


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
            yield part, part.column(column).cast(SENT.field(0).type)
