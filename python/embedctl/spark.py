"""Vectors and scores for a Spark DataFrame: each Python worker of an executor runs the program beside itself.

Needs pyspark 3.5 or later on the driver, and this package on the driver and on every executor.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from . import _arrow
from ._embedder import _ROWS, Embedder
from ._find_embedctl import find_embedctl_bin
from ._options import checked, translated
from .errors import EmbedctlError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

    from ._options import Options

    _Answers = Generator[tuple[pa.RecordBatch, dict[str, pa.Array], pa.Array]]

#: The types of vectors of each kind: Spark has no lists of a fixed size, and no unsigned numbers.
_VECTORS: dict[str, pa.DataType] = {
    "dense": pa.list_(pa.float32()),
    "sparse": pa.struct([("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float32()))]),
    "multi": pa.list_(pa.list_(pa.float32())),
}


def embed(
    df: DataFrame,
    *,
    model: str | os.PathLike[str],
    text: str = "text",
    output: str = "embedding",
    on_error: Literal["fail", "null"] = "fail",
    **options: Unpack[Options],
) -> DataFrame:
    """Return ``df`` with one more column: ``output``, an ``array<float>``, the vectors of column ``text``.

    The option ``vectors`` must name the kind of a model whose vectors are not dense, since Spark wants to know the types
    before the first task: ``"sparse"`` gives a ``struct<indices: array<int>, values: array<float>>``, ``"multi"`` an
    ``array<array<float>>``. Of several kinds each has a column (``OUTPUT``, ``OUTPUT_sparse``, ``OUTPUT_multi``).

    Nothing runs until the result is needed. All columns, all rows, and the order within partitions are kept.
    A Python worker starts the program at its first task and keeps it for the following ones. ``options`` are those of
    ``Embedder``. Unless they are given, ``threads`` is the task's number of cores (``spark.task.cpus``), and ``device``
    are the addresses of the GPUs that Spark has given to the task (``spark.task.resource.gpu.amount``).

    ``model`` is a folder that every executor sees, a Hub id (each machine then fetches it into its own cache), or the
    name that ``ship`` returned. With ``on_error="fail"`` a text that cannot be embedded (for instance a null) fails its
    task. With ``"null"`` its vector is null, and a column ``OUTPUT_error`` gives the reason.

    Raises ``ValueError`` if the column is missing or does not hold texts, or if the output's name is taken.
    """
    if on_error not in ("fail", "null"):
        raise ValueError(f"on_error is '{on_error}': give 'fail' or 'null'")
    model, own = translated(os.fspath(model), options)
    known = checked(own)
    added = _with_reasons(_columns(known.get("vectors"), output), output, on_error)
    return _mapped(df, [text], added, partial(_embed_partition, model, text, output, on_error, known))


def score(
    df: DataFrame,
    *,
    model: str | os.PathLike[str],
    text: str = "text",
    query: str | None = None,
    output: str = "score",
    labels: int = 1,
    softmax: bool = False,
    on_error: Literal["fail", "null"] = "fail",
    **options: Unpack[Options],
) -> DataFrame:
    """Return ``df`` with one more column: ``output``, a ``float``, the scores of column ``text`` by a reranker or a classifier.

    With ``query``, the name of another column of texts, a row is a pair. ``labels`` must be the number of the model's labels,
    since Spark wants to know the types before the first task: of several, the column is an ``array<float>``, and with
    ``softmax`` its values are probabilities. The other arguments are those of ``embed``, and so are the errors.
    """
    if on_error not in ("fail", "null"):
        raise ValueError(f"on_error is '{on_error}': give 'fail' or 'null'")
    if labels < 1:
        raise ValueError(f"labels is {labels}: give the number of the model's labels")
    model, own = translated(os.fspath(model), options)
    names = [text] if query is None else [query, text]
    added = _with_reasons([_score_column(labels, output)], output, on_error)
    task = partial(_score_partition, model, (text, query), output, (labels, softmax), on_error, checked(own))
    return _mapped(df, names, added, task)


def _mapped(
    df: DataFrame, texts: list[str], added: list[pa.Field], task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """``df`` with the columns that ``task`` adds. Raises ``ValueError`` unless columns of these names hold texts."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    for text in texts:
        if df.columns.count(text) != 1:
            found = df.columns.count(text) or "no"
            raise ValueError(f"{found} column named '{text}'; columns are: {', '.join(df.columns)}")
        if not isinstance(df.schema[text].dataType, StringType):
            raise ValueError(f"column '{text}' holds {df.schema[text].dataType.simpleString()}, no texts")
    fields = [StructField(field.name, from_arrow_type(field.type)) for field in added]
    for field in fields:
        if field.name in df.columns:
            raise ValueError(f"there is a column '{field.name}' already: choose another name for the output")
    return df.mapInArrow(task, StructType([*df.schema.fields, *fields]))


def ship(spark: SparkSession, model: str | os.PathLike[str]) -> str:
    """Send a model to every executor with the job, and return the name to pass to ``embed``.

    Use it on a cluster without shared storage. A Hub id is fetched once, on the driver. A folder is sent as it is.
    """
    with tempfile.TemporaryDirectory(prefix="embedctl-") as folder:
        source = os.fspath(model)
        if not os.path.isdir(source):
            source = os.path.join(folder, "model")
            fetched = subprocess.run(
                [find_embedctl_bin(), "download", "--quiet", "--color=never", f"--local-dir={source}", os.fspath(model)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            if fetched.returncode != 0:
                raise EmbedctlError(fetched.stderr.strip().removeprefix("error: "), fetched.returncode)
        name = f"embedctl-{_content(source)}.tar"
        if name not in _SHIPPED:
            # Spark reads the archive when an executor needs it, so it must exist as long as the driver.
            kept = tempfile.TemporaryDirectory(prefix="embedctl-ship-")
            path = os.path.join(kept.name, name)
            with tarfile.open(path, "w", dereference=True) as archive:
                for entry in sorted(os.listdir(source)):
                    archive.add(os.path.join(source, entry), arcname=entry)
            _SHIPPED[name] = kept
        spark.sparkContext.addArchive(os.path.join(_SHIPPED[name].name, name))
    return _PREFIX + name


_PREFIX = "spark-archive:"
_SHIPPED: dict[str, tempfile.TemporaryDirectory[str]] = {}


def _content(folder: str) -> str:
    """A name for the content of a folder: a hash of it."""
    digest = hashlib.sha256()
    for path, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(path, name)
            with open(file, "rb") as content:
                hashed = hashlib.file_digest(content, "sha256") if hasattr(hashlib, "file_digest") else None
                found = hashed.digest() if hashed else hashlib.sha256(content.read()).digest()
            digest.update(os.path.relpath(file, folder).encode() + b"\0" + found)
    return digest.hexdigest()[:16]


def _embed_partition(
    model: str, text: str, output: str, on_error: Literal["fail", "null"], options: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Embed a partition: the work of a task."""

    def answers(schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> _Answers:
        column = _arrow.text_column(schema, text)
        return _embedder(model, options)._embed(_arrow.slices(rows, column, _ROWS), on_error=on_error)

    def check(types: list[pa.DataType]) -> None:
        kinds = [_arrow.kind_of(kind) for kind in types]
        if kinds != _kinds(options.get("vectors")):
            raise ValueError(f"the model's vectors are {', '.join(kinds)}: name them with vectors={kinds}")

    added = _with_reasons(_columns(options.get("vectors"), output), output, on_error)
    return _partition(batches, added, answers, check)


def _score_partition(
    model: str,
    texts: tuple[str, str | None],
    output: str,
    scores: tuple[int, bool],
    on_error: Literal["fail", "null"],
    options: dict[str, Any],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Score a partition: the work of a task."""
    (text, query), (labels, softmax) = texts, scores

    def answers(schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> _Answers:
        sent = _arrow.sent_of(rows, schema, text, query, _ROWS)
        embedder = _embedder(model, options)
        return embedder._scores(sent, embedder._score_key(query is not None, softmax, None, None), on_error)

    def check(types: list[pa.DataType]) -> None:
        found = 1 if pa.types.is_floating(types[0]) else types[0].list_size
        if found != labels:
            raise ValueError(f"the model has {found} labels: say so with labels={found}")

    return _partition(batches, _with_reasons([_score_column(labels, output)], output, on_error), answers, check)


def _partition(
    batches: Iterator[pa.RecordBatch],
    added: list[pa.Field],
    answers_of: Callable[[pa.Schema, Iterator[pa.RecordBatch]], _Answers],
    check: Callable[[list[pa.DataType]], None],
) -> Iterator[pa.RecordBatch]:
    """The batches with the columns of their answers, whose types are checked. It starts nothing for a partition without rows."""
    full = (batch for batch in batches if batch.num_rows)
    first = next(full, None)
    if first is None:
        return
    schema = _arrow.with_fields(first.schema, added)
    with closing(answers_of(first.schema, chain([first], full))) as answers:
        for batch, columns, reasons in answers:
            check([column.type for column in columns.values()])
            cast = [column.cast(field.type) for column, field in zip(columns.values(), added, strict=False)]
            new = [*cast, reasons][: len(added)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)


def _with_reasons(columns: list[pa.Field], output: str, on_error: Literal["fail", "null"]) -> list[pa.Field]:
    """The columns, and that of reasons if bad rows are kept."""
    return [*columns, pa.field(f"{output}_error", pa.string())] if on_error == "null" else columns


def _score_column(labels: int, output: str) -> pa.Field:
    return pa.field(output, pa.float32() if labels == 1 else pa.list_(pa.float32()))


def _kinds(vectors: str | Sequence[str] | None) -> list[str]:
    """The kinds of vectors that the option names, in the order of columns."""
    named = vectors.split(",") if isinstance(vectors, str) else list(vectors or ["dense"])
    unknown = [kind for kind in named if kind not in _VECTORS]
    if unknown:
        raise ValueError(f"vectors names {unknown[0]!r}: give one of {', '.join(_VECTORS)}, or several")
    return [kind for kind in _VECTORS if kind in named]


def _columns(vectors: str | Sequence[str] | None, output: str) -> list[pa.Field]:
    """The columns of vectors, in types that Spark has."""
    kinds = _kinds(vectors)
    names = [output if len(kinds) == 1 or kind == "dense" else f"{output}_{kind}" for kind in kinds]
    return [pa.field(name, _VECTORS[kind]) for name, kind in zip(names, kinds, strict=True)]


#: The one embedder of a Python worker, with its arguments.
_KEPT: list[tuple[object, Embedder]] = []


def _embedder(model: str, options: dict[str, Any]) -> Embedder:
    options = {**_resources(), **options}
    if model.startswith(_PREFIX):
        from pyspark import SparkFiles

        model = os.path.join(SparkFiles.getRootDirectory(), model.removeprefix(_PREFIX))
    key = (model, sorted(options.items(), key=repr))
    if _KEPT and _KEPT[0][0] == key:
        return _KEPT[0][1]
    while _KEPT:
        _KEPT.pop()[1].close()
    embedder = Embedder(model, **options)
    _KEPT.append((key, embedder))
    return embedder


def _resources() -> dict[str, Any]:
    """The resources that Spark has given to this task, as options."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return {}
    gpu = context.resources().get("gpu")
    if gpu is not None and gpu.addresses:
        return {"device": list(gpu.addresses)}
    return {"threads": context.cpus()}
