"""Vectors from texts in memory, computed by a child process."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import pyarrow as pa

from . import _arrow
from ._find_embedctl import find_embedctl_bin
from ._options import arguments, checked
from ._process import Process
from .errors import EmbedctlError, TextError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import Options

    Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]
    Vector = np.ndarray[tuple[int], np.dtype[np.float32]]
    Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]

#: Name and text of a prompt; at least one is None.
_Prompt: TypeAlias = "tuple[str | None, str | None]"

#: Rows of a sent batch, as many as the program sorts by length at a time (its window).
_ROWS = 8192

#: All embedders of this process; a forked process resets them.
_EMBEDDERS: weakref.WeakSet[Embedder] = weakref.WeakSet()
#: Processes that a forked process inherited. It must not use them, nor even delete them.
_DISOWNED: list[Process] = []


class Embedder:
    """A model, run by the program ``embedctl`` in a process of its own.

    ``model`` is a folder or a Hub id. ``options`` are those of ``embedctl embed`` (``provider``, ``precision``,
    ``max_length``, ``prompt_name``, ``dimensions``, ``threads``, …; see ``Options``). The methods have the same
    arguments as in sentence-transformers, and the vectors equal its vectors.

    The first call starts the process, which serves all later calls. It ends with ``close``, with the embedder, or
    with this process. Each prompt has a process of its own with the model, because a prompt decides how token states
    are pooled. Calls from several threads take turns. An embedder can be pickled, and used after a fork: it then starts
    processes of its own.

    Raises ``ProgramNotFoundError`` if the program is missing or of another version, and ``TypeError`` for an unknown
    option. If the program fails, every method that embeds raises ``EmbedctlError`` with its message. The method can be
    called again: it starts a new process.
    """

    def __init__(
        self, model: str | os.PathLike[str], *, similarity_fn_name: Similarity = "cosine", **options: Unpack[Options]
    ) -> None:
        if similarity_fn_name not in _SIMILARITIES:
            raise ValueError(f"similarity_fn_name is '{similarity_fn_name}': give one of {', '.join(_SIMILARITIES)}")
        self.model = os.fspath(model)
        self.similarity_fn_name: Similarity = similarity_fn_name
        self.options = checked(options)
        self._program = find_embedctl_bin()
        self._processes: dict[_Prompt, Process] = {}
        self._types: dict[_Prompt, pa.FixedSizeListType] = {}
        self._turn = _Turn()
        self._closed = False
        _EMBEDDERS.add(self)
        self._end = weakref.finalize(self, _close, self._processes)

    @overload  # a str is a sequence of str, too
    def encode(  # type: ignore[overload-overlap]
        self, texts: str, prompt_name: str | None = None, prompt: str | None = None, *, normalize_embeddings: bool = False
    ) -> Vector: ...

    @overload
    def encode(
        self,
        texts: Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        normalize_embeddings: bool = False,
    ) -> Matrix: ...

    def encode(
        self,
        texts: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        normalize_embeddings: bool = False,
    ) -> Matrix | Vector:
        """Return the vectors of texts as float32 of shape ``[texts, dimensions]``; of a single ``str`` as ``[dimensions]``.

        ``prompt_name`` names one of the model's prompts; ``prompt`` is the text of a prompt. Without either, the embedder's
        options decide, and then the model's files. ``normalize_embeddings`` scales every vector to length 1.

        Raises ``TypeError`` for a value that is not a text, ``TextError`` for the first text that cannot be embedded.
        """
        single = isinstance(texts, str)
        given = [texts] if isinstance(texts, str) else list(texts)
        matrix: Matrix | None = None
        row = 0
        with closing(self._embed(_arrow.batches_of(given, _ROWS), prompt_name, prompt)) as answers:
            for _, vectors, _ in answers:
                if matrix is None:
                    matrix = np.empty((len(given), vectors.type.list_size), dtype=np.float32)
                matrix[row : row + len(vectors)] = vectors.flatten().to_numpy().reshape(len(vectors), -1)
                row += len(vectors)
        if matrix is None:
            matrix = np.empty((0, self._vector_type(prompt_name, prompt).list_size), dtype=np.float32)
        if normalize_embeddings:
            matrix = _unit(matrix)
        return matrix[0] if single else matrix

    def encode_query(self, texts: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **more: Any) -> Any:
        """As ``encode``, with the model's prompt for queries unless another one is given."""
        return self.encode(texts, _default(prompt_name, prompt, "query"), prompt, **more)

    def encode_document(
        self, texts: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **more: Any
    ) -> Any:
        """As ``encode``, with the model's prompt for documents unless another one is given."""
        return self.encode(texts, _default(prompt_name, prompt, "document"), prompt, **more)

    def similarity(self, first: Any, second: Any) -> Matrix:
        """Return the similarity of each vector of ``first`` to each of ``second``, of shape ``[first, second]``.

        ``similarity_fn_name`` chooses the function. Distances (euclidean, manhattan) are negative, so a greater value is
        always nearer.
        """
        a, b = (np.atleast_2d(np.asarray(vectors, dtype=np.float32)) for vectors in (first, second))
        return _SIMILARITIES[self.similarity_fn_name](a, b)

    @property
    def dimensions(self) -> int:
        """Number of components of a vector."""
        width: int = self._vector_type(None, None).list_size
        return width

    def encode_arrow(
        self,
        data: Any,
        text: str = "text",
        output: str = "embedding",
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        on_error: Literal["fail", "null"] = "fail",
    ) -> pa.Table:
        """Return a table with all columns and rows of ``data``, and the vectors of column ``text`` as ``output``.

        ``data`` is a table, a record batch, a reader of batches, or any object that exports an Arrow stream (polars,
        DuckDB, pandas). Vectors are a fixed-size list of float32.

        A text that cannot be embedded raises ``TextError``. With ``on_error="null"`` it has a null vector instead, and
        the column ``OUTPUT_error`` gives the reason (null in other rows). Raises ``ValueError`` if the column is missing
        or does not hold texts, or if the output's name is taken.
        """
        return self.encode_stream(
            data, text, output, prompt_name=prompt_name, prompt=prompt, on_error=on_error
        ).read_all()

    def encode_stream(
        self,
        data: Any,
        text: str = "text",
        output: str = "embedding",
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        on_error: Literal["fail", "null"] = "fail",
    ) -> pa.RecordBatchReader:
        """As ``encode_arrow``, for data that doesn't fit into memory: batches are embedded as the reader reads them.

        Until the reader is at its end or deleted, this embedder answers no other call.
        """
        if on_error not in ("fail", "null"):
            raise ValueError(f"on_error is '{on_error}': give 'fail' or 'null'")
        reader = _arrow.reader_of(data)
        column = _arrow.text_column(reader.schema, text)
        added = [pa.field(output, self._vector_type(prompt_name, prompt))]
        if on_error == "null":
            added.append(pa.field(f"{output}_error", pa.string()))
        schema = _arrow.with_fields(reader.schema, added)

        def batches() -> Iterator[pa.RecordBatch]:
            rows = _arrow.slices(reader, column, _ROWS)
            with closing(self._embed(rows, prompt_name, prompt, on_error)) as answers:
                for batch, *new in answers:
                    yield pa.RecordBatch.from_arrays([*batch.columns, *new[: len(added)]], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _vector_type(self, prompt_name: str | None, prompt: str | None) -> pa.FixedSizeListType:
        """Type of a vector, found by embedding an empty text."""
        key = self._key(prompt_name, prompt)
        if key not in self._types:
            for _, vectors, _ in self._embed(_arrow.batches_of([""], 1), prompt_name, prompt, "null"):
                self._types[key] = pa.list_(pa.float32(), vectors.type.list_size)
        return self._types[key]

    def _embed(
        self,
        batches: Iterable[tuple[pa.RecordBatch, pa.Array]],
        prompt_name: str | None,
        prompt: str | None,
        on_error: Literal["fail", "null"] = "fail",
    ) -> Generator[tuple[pa.RecordBatch, pa.FixedSizeListArray, pa.Array]]:
        """Embed the texts of batches. Yields each batch with its vectors, and with the reason for each missing vector.

        With ``fail`` the first reason is raised as ``TextError``. All sent batches are answered before that, so the
        process can be used again.
        """
        waiting: deque[pa.RecordBatch] = deque()
        failed: TextError | None = None
        row = 0

        def sent() -> Iterator[pa.RecordBatch]:
            for batch, texts in batches:
                if failed is not None:
                    return
                waiting.append(batch)
                yield pa.record_batch([texts], schema=_arrow.SENT)

        with self._turn, closing(self._process(prompt_name, prompt).answers(sent())) as answers:
            for answer in answers:
                while failed is None and answer.num_rows:
                    # Answers come in the program's own batches: take the part that belongs to the first waiting batch.
                    batch = waiting.popleft()
                    rows = min(batch.num_rows, answer.num_rows)
                    part, batch, answer, rest = batch[:rows], batch[rows:], answer[:rows], answer[rows:]
                    if batch.num_rows:
                        waiting.appendleft(batch)
                    reasons = answer.column(_arrow.REASONS)
                    if on_error == "fail" and reasons.null_count < rows:
                        first = int(np.argmax(reasons.is_valid().to_numpy(zero_copy_only=False)))
                        failed = TextError(row + first, reasons[first].as_py())
                    else:
                        yield part, answer.column(_arrow.VECTORS), reasons
                    row += rows
                    answer = rest
        if failed is not None:
            raise failed

    def _process(self, prompt_name: str | None, prompt: str | None) -> Process:
        """The process of a prompt; starts one if none is running."""
        if self._closed:
            raise EmbedctlError("the embedder is closed")
        key = self._key(prompt_name, prompt)
        process = self._processes.get(key)
        if process is None or not process.running():
            options = {**self.options, "prompt_name": key[0], "prompt": key[1]}
            process = Process([self._program, *arguments(self.model, checked(options))], _arrow.SENT)
            self._processes[key] = process
        return process

    def _key(self, prompt_name: str | None, prompt: str | None) -> _Prompt:
        """Name or text of the prompt of a call. Raises ``TypeError`` if both are given."""
        if prompt_name is not None and prompt is not None:
            raise TypeError("prompt and prompt_name exclude each other: give the text or the name")
        if prompt_name is None and prompt is None:
            return self.options.get("prompt_name"), self.options.get("prompt")
        return prompt_name, prompt

    def close(self) -> None:
        """End the processes. Later calls raise ``EmbedctlError``."""
        self._closed = True
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "similarity_fn_name": self.similarity_fn_name, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Embedder.__init__(self, state["model"], similarity_fn_name=state["similarity_fn_name"], **state["options"])

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Embedder({self.model!r}{options})"

    def _after_fork(self) -> None:
        for process in self._processes.values():
            process.disown()
            _DISOWNED.append(process)
        self._processes.clear()
        self._turn = _Turn()


class _Turn:
    """A lock that raises an error if a thread would wait for itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    def __enter__(self) -> None:
        if self._thread == threading.get_ident():
            raise EmbedctlError("this embedder is in the middle of a stream that this thread reads: read it to its end")
        self._lock.acquire()
        self._thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._thread = None
        self._lock.release()


def _close(processes: dict[_Prompt, Process]) -> None:
    for process in processes.values():
        process.close()
    processes.clear()


def _default(prompt_name: str | None, prompt: str | None, name: str) -> str | None:
    return name if prompt_name is None and prompt is None else prompt_name


def _unit(matrix: Matrix) -> Matrix:
    lengths: Any = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: Matrix = matrix / np.maximum(lengths, np.float32(1e-12))
    return scaled


_SIMILARITIES: dict[str, Callable[[Matrix, Matrix], Matrix]] = {
    "cosine": lambda a, b: _unit(a) @ _unit(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -np.stack([np.linalg.norm(b - row, axis=1) for row in a]),
    "manhattan": lambda a, b: -np.stack([np.abs(b - row).sum(axis=1) for row in a]),
}


def _after_fork_in_child() -> None:
    for embedder in list(_EMBEDDERS):
        embedder._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
