"""Vectors from texts in memory, computed by a child process."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import pyarrow as pa

from . import _arrow
from ._find_embedctl import find_embedctl_bin
from ._options import arguments, checked, device_options, translated
from ._process import Process
from ._vectors import PRECISIONS, SIMILARITIES, quantized, unit
from .errors import EmbedctlError, TextError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import EmbedderOptions

    Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]
    Vector = np.ndarray[tuple[int], np.dtype[np.float32]]
    Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]

#: Name and text of a prompt, at least one of which is None, and a device.
_Key: TypeAlias = "tuple[str | None, str | None, str | None]"

#: Rows of a sent batch, as many as the program sorts by length at a time (its window).
_ROWS = 8192

#: All embedders of this process; a forked process resets them.
_EMBEDDERS: weakref.WeakSet[Embedder] = weakref.WeakSet()
#: Processes that a forked process inherited. It must not use them, nor even delete them.
_DISOWNED: list[Process] = []


class Embedder:
    """A model, run by the program ``embedctl`` in a process of its own.

    ``model`` is a folder or a Hub id. ``options`` are those of ``embedctl embed`` (``provider``, ``precision``,
    ``max_length``, ``prompt_name``, ``dimensions``, ``threads``, …; see ``Options``). The arguments of
    ``SentenceTransformer`` are understood, too: ``revision``, ``backend``, ``device="cuda:1"``, ``cache_folder``,
    ``local_files_only``, ``prompts``, ``default_prompt_name``, ``truncate_dim``; a ``TypeError`` says what to give in the
    place of the others. The methods have the same arguments as in sentence-transformers, and the vectors equal its
    vectors.

    The first call starts the process, which serves all later calls. It ends with ``close``, with the embedder, or
    with this process. Each prompt and device has a process of its own with the model, because a prompt decides how token states
    are pooled. Calls from several threads take turns. An embedder can be pickled, and used after a fork: it then starts
    processes of its own.

    Raises ``ProgramNotFoundError`` if the program is missing or of another version, and ``TypeError`` for an unknown
    option. If the program fails, every method that embeds raises ``EmbedctlError`` with its message. The method can be
    called again: it starts a new process.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        similarity_fn_name: Similarity | None = None,
        prompts: Mapping[str, str] | None = None,
        truncate_dim: int | None = None,
        **options: Unpack[EmbedderOptions],
    ) -> None:
        self.similarity_fn_name: Similarity = similarity_fn_name or "cosine"
        if self.similarity_fn_name not in SIMILARITIES:
            raise ValueError(f"similarity_fn_name is '{similarity_fn_name}': give one of {', '.join(SIMILARITIES)}")
        self.model, own = translated(os.fspath(model), options)
        # The model is that of now, wherever the program is started later.
        self._place = os.path.abspath(self.model) if os.path.isdir(self.model) else self.model
        self.prompts = dict(prompts or {})
        self.truncate_dim = _width(truncate_dim)
        self.options = checked(own)
        self._program = find_embedctl_bin()
        self._processes: dict[Any, Process] = {}
        self._columns: dict[_Key, dict[str, tuple[pa.DataType, int]]] = {}
        self._score_types: dict[tuple[Any, ...], pa.DataType] = {}
        self._turn = _Turn()
        self._closed = False
        _EMBEDDERS.add(self)
        self._end = weakref.finalize(self, _close, self._processes)

    @overload  # a str is a sequence of str, too
    def encode(  # type: ignore[overload-overlap]
        self, inputs: str, prompt_name: str | None = None, prompt: str | None = None, *, normalize_embeddings: bool = False
    ) -> Vector: ...

    @overload
    def encode(
        self,
        inputs: Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        normalize_embeddings: bool = False,
    ) -> Matrix: ...

    @overload
    def encode(
        self, inputs: Any = None, prompt_name: str | None = None, prompt: str | None = None, *more: Any, **named: Any
    ) -> Any: ...

    def encode(
        self,
        inputs: Any = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str | None = "sentence_embedding",
        precision: str | None = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        pool: None = None,
        chunk_size: int | None = None,
        *,
        sentences: Any = None,
        texts: Any = None,
    ) -> Any:
        """Return the vectors of texts as float32 of shape ``[texts, dimensions]``; of a single ``str`` as ``[dimensions]``.

        ``inputs`` is a text, a sequence of texts, or an Arrow or polars array of them (``sentences`` and ``texts`` are
        other names of it). A model of sparse vectors gives a ``scipy.sparse.csr_matrix`` (scipy must be installed),
        and one of a vector for each token a list of arrays ``[tokens, dimensions]``. With the option ``vectors`` of several
        kinds (``["dense", "sparse", "multi"]``) the result is a ``dict`` with the vectors of each kind. The other arguments
        are those of sentence-transformers:

        - ``prompt_name`` names one of the model's prompts; ``prompt`` is the text of a prompt, and comes first. Without
          either, the embedder's options decide, and then the model's files.
        - ``normalize_embeddings`` scales every vector to length 1, after ``truncate_dim`` has kept its first components.
        - ``precision`` is the type of components: ``float32``, ``int8``, ``uint8``, ``binary`` or ``ubinary``. The type of
          the arithmetic is the embedder's own ``precision``.
        - ``convert_to_tensor`` gives a tensor of PyTorch, ``convert_to_numpy=False`` a list of tensors.
        - ``device`` (``cuda``, ``cuda:1``, ``cpu``, or a list) runs the call in a process with that device.
        - ``show_progress_bar`` counts the texts on standard error.
        - ``batch_size`` and ``chunk_size`` have no effect: the program makes batches of equal work from texts of equal
          length, and vectors do not depend on them. Its limit is the embedder's ``batch_tokens``.
        - ``pool`` must be ``None``: one process uses all cores, or several devices.

        Raises ``TypeError`` for a value that is not a text, ``TextError`` for the first text that cannot be embedded.
        """
        given = [value for value in (inputs, sentences, texts) if value is not None]
        if len(given) != 1:
            raise TypeError("encode takes texts" + (" once" if given else ""))
        if output_value != "sentence_embedding":
            raise ValueError(f"output_value is {output_value!r}: only 'sentence_embedding' is returned; token states are not kept")
        if precision is not None and precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}: give one of {', '.join(PRECISIONS)}")
        if pool is not None:
            raise TypeError("pool is given: one process uses all cores; for several devices give device=[…]")
        if batch_size is not None and batch_size <= 0:
            raise ValueError(f"batch_size is {batch_size}: give a number above 0, or none")
        width = self.truncate_dim if truncate_dim is None else _width(truncate_dim)
        single = isinstance(given[0], str)
        batches, rows = _arrow.texts_of([given[0]] if single else given[0], _ROWS)
        found = self._vectors(batches, rows, self._key(prompt_name, prompt, device), bool(show_progress_bar))

        def finished(matrix: Any) -> Any:
            return self._finished(
                matrix, single, width, normalize_embeddings, precision, convert_to_numpy, convert_to_tensor
            )

        if len(found) > 1:
            return {kind: finished(vectors) for kind, vectors in found.items()}
        return finished(next(iter(found.values())))

    def _finished(
        self,
        matrix: Any,
        single: bool,
        width: int | None,
        normalize_embeddings: bool,
        precision: str | None,
        convert_to_numpy: bool,
        convert_to_tensor: bool,
    ) -> Any:
        """The vectors of one kind, as ``encode`` was asked for them."""
        if isinstance(matrix, list):
            return self._of_tokens(
                [unit(row) for row in matrix] if normalize_embeddings else matrix,
                single, width, precision, bool(convert_to_tensor or not convert_to_numpy),
            )
        if not isinstance(matrix, np.ndarray):
            asked: dict[str, Any] = {"truncate_dim": width, "normalize_embeddings": normalize_embeddings or None}
            asked |= {"precision": None if precision == "float32" else precision}
            asked |= {"convert_to_tensor": convert_to_tensor or None}
            for name, value in asked.items():
                if value is not None:
                    raise ValueError(f"{name} is {value!r}: the model's vectors are sparse, and come as scipy's csr_matrix")
            return matrix
        if width is not None:
            matrix = np.ascontiguousarray(matrix[:, :width])
        if normalize_embeddings:
            matrix = unit(matrix)
        vectors = quantized(matrix, precision) if precision and len(matrix) else matrix
        if convert_to_tensor or not convert_to_numpy:
            tensor = _tensor(vectors)
            return tensor[0] if single else tensor if convert_to_tensor else list(tensor)
        return vectors[0] if single else vectors

    def _vectors(
        self, batches: Iterable[tuple[pa.RecordBatch, pa.Array]], rows: int, key: _Key, progress: bool
    ) -> dict[str, Any]:
        """The vectors of ``rows`` texts by their kind: ``dense`` ones of shape ``[rows, dimensions]``, ``sparse`` ones as
        scipy's ``csr_matrix``, and those of tokens (``multi``) as a list of arrays."""
        found: dict[str, _arrow.DenseRows | _arrow.SparseRows | _arrow.TokenRows] = {}

        def place(name: str) -> Any:
            kind = _arrow.kind_of(self._columns[key][name][0])
            return found.setdefault(kind, _arrow.rows_of(kind, rows, self._columns[key][name][1]))

        row = 0
        with closing(self._embed(batches, key)) as answers:
            for _, columns, reasons in answers:
                for name, vectors in columns.items():
                    place(name).add(vectors)
                row += len(reasons)
                if progress:
                    print(f"\r{row:,} of {rows:,} texts", end="\n" if row == rows else "", file=sys.stderr, flush=True)
        for name in self._vector_columns(key):
            place(name)
        return {kind: rows.result() for kind, rows in found.items()}

    @staticmethod
    def _of_tokens(rows: list[Any], single: bool, width: int | None, precision: str | None, tensors: bool) -> Any:
        """The vectors of texts' tokens, as ``MultiVectorEncoder.encode`` gives them with ``convert_to_numpy``."""
        if width is not None or precision not in (None, "float32"):
            raise ValueError("truncate_dim and precision are for one vector a text, and this model gives one for each token")
        if tensors:
            rows = [_tensor(row) for row in rows]
        return rows[0] if single else rows

    def encode_query(self, inputs: Any = None, prompt_name: str | None = None, prompt: str | None = None, *more: Any, **named: Any) -> Any:
        """As ``encode``, with the model's prompt for queries unless another one is given."""
        return self.encode(inputs, _default(prompt_name, prompt, "query"), prompt, *more, **named)

    def encode_document(
        self, inputs: Any = None, prompt_name: str | None = None, prompt: str | None = None, *more: Any, **named: Any
    ) -> Any:
        """As ``encode``, with the model's prompt for documents unless another one is given."""
        return self.encode(inputs, _default(prompt_name, prompt, "document"), prompt, *more, **named)

    def score(
        self,
        inputs: Sequence[Any],
        *,
        softmax: bool = False,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the scores of pairs of texts by a reranker, or of single texts by a classifier.

        ``inputs`` are pairs ``(query, text)``, as ``CrossEncoder.predict`` takes them, or texts. The scores are float32 of
        shape ``[inputs]`` for a model with one label, else ``[inputs, labels]``; with ``softmax`` those of a row are
        probabilities. The model must be one that scores; its process is another one than that of ``encode``.

        Raises ``TypeError`` for a value that is neither, ``TextError`` for the first one that cannot be scored.
        """
        given = list(inputs)
        pairs = bool(given) and not isinstance(given[0], str)
        batches = _arrow.pairs_of(given, _ROWS) if pairs else (batch for batch, _ in _arrow.texts_of(given, _ROWS)[0])
        key = self._score_key(pairs, softmax, prompt_name, prompt)
        scores: list[np.ndarray[Any, np.dtype[np.float32]]] = []
        with closing(self._scores(((batch, batch) for batch in batches), key)) as answers:
            for _, columns, _ in answers:
                (column,) = columns.values()
                if pa.types.is_floating(column.type):
                    scores.append(column.to_numpy(zero_copy_only=False))
                else:
                    scores.append(column.flatten().to_numpy().reshape(len(column), -1))
        return np.concatenate(scores) if scores else np.empty(0, dtype=np.float32)

    def score_arrow(
        self,
        data: Any,
        text: str = "text",
        query: str | None = None,
        output: str = "score",
        *,
        softmax: bool = False,
        prompt_name: str | None = None,
        prompt: str | None = None,
        on_error: Literal["fail", "null"] = "fail",
    ) -> pa.Table:
        """Return a table with all columns and rows of ``data``, and the scores of column ``text`` as ``output``.

        With ``query``, the name of another column of texts, a row is a pair. A score is a float32; a model with several
        labels gives a fixed-size list of them. ``data`` and ``on_error`` are those of ``encode_arrow``, and so are the
        errors.
        """
        if on_error not in ("fail", "null"):
            raise ValueError(f"on_error is '{on_error}': give 'fail' or 'null'")
        reader = _arrow.reader_of(data)
        key = self._score_key(query is not None, softmax, prompt_name, prompt)
        rows = _arrow.sent_of(reader, reader.schema, text, query, _ROWS)
        added = [pa.field(output, self._score_type(key))]
        if on_error == "null":
            added.append(pa.field(f"{output}_error", pa.string()))
        schema = _arrow.with_fields(reader.schema, added)

        def batches() -> Iterator[pa.RecordBatch]:
            with closing(self._scores(rows, key, on_error)) as answers:
                for batch, columns, reasons in answers:
                    (scores,) = columns.values()
                    new = [scores.cast(added[0].type), reasons][: len(added)]
                    yield pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)

        return pa.Table.from_batches(batches(), schema=schema)

    def _score_key(self, pairs: bool, softmax: bool, prompt_name: str | None, prompt: str | None) -> tuple[Any, ...]:
        """What tells the processes that score apart: the command's words, and name and text of the prompt."""
        command = ["score", f"--embedding-field={_arrow.VECTORS}"]
        command += ["--query-field=query"] if pairs else []
        command += ["--softmax"] if softmax else []
        prompt_name, prompt, _ = self._key(prompt_name, prompt)
        return (*command, prompt_name, prompt)

    def _score_type(self, key: tuple[Any, ...]) -> pa.DataType:
        """The type of scores, found by scoring an empty text."""
        if key in self._score_types:
            return self._score_types[key]
        words = _arrow.SENT_PAIRS if "--query-field=query" in key else _arrow.SENT
        empty = pa.record_batch([pa.array([""], field.type) for field in words], schema=words)
        with closing(self._scores([(empty, empty)], key, "null")) as answers:
            (column,) = [column for _, columns, _ in answers for column in columns.values()]
        kind = column.type if pa.types.is_floating(column.type) else pa.list_(pa.float32(), column.type.list_size)
        return self._score_types.setdefault(key, kind)

    def _scores(
        self,
        batches: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]],
        key: tuple[Any, ...],
        on_error: Literal["fail", "null"] = "fail",
    ) -> Generator[tuple[pa.RecordBatch, dict[str, pa.Array], pa.Array]]:
        """As ``_embed``, for batches that each come with what is sent of them; the one column is that of scores."""

        def process() -> Process:
            *command, prompt_name, prompt = key
            options = {**self.options, "prompt_name": prompt_name, "prompt": prompt}
            sent = _arrow.SENT_PAIRS if "--query-field=query" in key else _arrow.SENT
            return self._running(key, lambda: arguments(self._place, checked(options), command), sent)

        return self._answered(process, batches, lambda _: [_arrow.VECTORS], on_error)

    def similarity(self, first: Any, second: Any) -> Matrix:
        """Return the similarity of each vector of ``first`` to each of ``second``, of shape ``[first, second]``.

        ``similarity_fn_name`` chooses the function. Distances (euclidean, manhattan) are negative, so a greater value is
        always nearer.
        """
        a, b = (np.atleast_2d(np.asarray(vectors, dtype=np.float32)) for vectors in (first, second))
        return SIMILARITIES[self.similarity_fn_name](a, b)

    @property
    def dimensions(self) -> int:
        """Number of components of a vector in full; of several kinds, of a vector of the first."""
        _, width = next(iter(self._vector_columns(self._key(None, None)).values()))
        return width if self.truncate_dim is None else min(width, self.truncate_dim)

    def get_embedding_dimension(self) -> int:
        """Number of components of a vector, under the name that sentence-transformers gives it."""
        return self.dimensions

    #: Its name before sentence-transformers 6.
    get_sentence_embedding_dimension = get_embedding_dimension

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
        DuckDB, pandas). Vectors are a fixed-size list of float32; sparse ones have ``indices`` and ``values``, those of tokens are
        a list of vectors. Of several kinds, each has a column (``OUTPUT``, ``OUTPUT_sparse``, ``OUTPUT_multi``).

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
        key = self._key(prompt_name, prompt)
        suffixes = {name: name.removeprefix(_arrow.VECTORS) for name in self._vector_columns(key)}
        added = [pa.field(output + suffixes[name], kind) for name, (kind, _) in self._vector_columns(key).items()]
        if on_error == "null":
            added.append(pa.field(f"{output}_error", pa.string()))
        schema = _arrow.with_fields(reader.schema, added)

        def batches() -> Iterator[pa.RecordBatch]:
            rows = _arrow.slices(reader, column, _ROWS)
            with closing(self._embed(rows, key, on_error)) as answers:
                for batch, columns, reasons in answers:
                    vectors = [column.cast(field.type) for column, field in zip(columns.values(), added, strict=False)]
                    new = [*vectors, reasons][: len(added)]
                    yield pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _vector_columns(self, key: _Key) -> dict[str, tuple[pa.DataType, int]]:
        """Types and widths of an answer's columns of vectors, by name; found by embedding an empty text."""
        if key not in self._columns:
            for _ in self._embed(_arrow.texts_of([""], 1)[0], key, "null"):
                pass
        return self._columns[key]

    def _embed(
        self,
        batches: Iterable[tuple[pa.RecordBatch, pa.Array]],
        key: _Key | None = None,
        on_error: Literal["fail", "null"] = "fail",
    ) -> Generator[tuple[pa.RecordBatch, dict[str, pa.Array], pa.Array]]:
        """Embed the texts of batches. Yields each batch with its columns of vectors by name, and with the reason for each
        missing vector.

        With ``fail`` the first reason is raised as ``TextError``. All sent batches are answered before that, so the
        process can be used again.
        """
        chosen = key or self._key(None, None)

        def columns(schema: pa.Schema) -> list[str]:
            names = _arrow.vector_columns(schema)
            self._columns[chosen] = {name: (_arrow.type_of(schema, name), _arrow.width_of(schema, name)) for name in names}
            return names

        sent = ((batch, pa.record_batch([texts], schema=_arrow.SENT)) for batch, texts in batches)
        return self._answered(lambda: self._process(chosen), sent, columns, on_error)

    def _answered(
        self,
        process: Callable[[], Process],
        batches: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]],
        columns: Callable[[pa.Schema], list[str]],
        on_error: Literal["fail", "null"],
    ) -> Generator[tuple[pa.RecordBatch, dict[str, pa.Array], pa.Array]]:
        """The answers of ``process`` to batches that each come with what is sent of them. ``columns`` says which columns of
        an answer are its results."""
        waiting: deque[pa.RecordBatch] = deque()
        failed: TextError | None = None
        row = 0

        def sent() -> Iterator[pa.RecordBatch]:
            for batch, own in batches:
                if failed is not None:
                    return
                waiting.append(batch)
                yield own

        with self._turn, closing(process().answers(sent())) as answers:
            for answer in answers:
                names = columns(answer.schema)
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
                        yield part, {name: answer.column(name)[:rows] for name in names}, reasons
                    row += rows
                    answer = rest
        if failed is not None:
            raise failed

    def _process(self, key: _Key) -> Process:
        """The process of a prompt and a device; starts one if none is running."""
        prompt_name, prompt, device = key

        def line() -> list[str]:
            chosen = {} if device is None else {"provider": None, "device": None, **device_options(device.split())}
            options = {**self.options, **chosen, "prompt_name": prompt_name, "prompt": prompt}
            return arguments(self._place, checked(options))

        return self._running(key, line, _arrow.SENT)

    def _running(self, key: Any, line: Callable[[], list[str]], sent: pa.Schema) -> Process:
        """The process of that key; starts one with that command line if none is running."""
        if self._closed:
            raise EmbedctlError("the embedder is closed")
        process = self._processes.get(key)
        if process is None or not process.running():
            process = Process([self._program, *line()], sent)
            self._processes[key] = process
        return process

    def _key(self, prompt_name: str | None, prompt: str | None, device: Any = None) -> _Key:
        """Name or text of the prompt of a call, and its device. Raises ``ValueError`` for an unknown device."""
        if prompt_name is None and prompt is None:
            prompt_name, prompt = self.options.get("prompt_name"), self.options.get("prompt")
        if prompt is None and prompt_name in self.prompts:
            prompt = self.prompts[prompt_name]
        if device is not None:
            device_options(device)
            several = isinstance(device, Sequence) and not isinstance(device, str)
            device = " ".join(map(str, device)) if several else str(device)
        return None if prompt is not None else prompt_name, prompt, device

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
        own = ("model", "similarity_fn_name", "prompts", "truncate_dim", "options")
        return {name: getattr(self, name) for name in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Embedder.__init__(self, **state.pop("options"), **state)

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


def _close(processes: dict[Any, Process]) -> None:
    for process in processes.values():
        process.close()
    processes.clear()


def _width(truncate_dim: int | None) -> int | None:
    if truncate_dim is not None and truncate_dim <= 0:
        raise ValueError(f"truncate_dim is {truncate_dim}: give a number above 0")
    return truncate_dim


def _tensor(vectors: np.ndarray) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("tensors need PyTorch, which is not installed; without convert_to_tensor you get a NumPy array") from error
    return torch.from_numpy(vectors)


def _default(prompt_name: str | None, prompt: str | None, name: str) -> str | None:
    return name if prompt_name is None and prompt is None else prompt_name


def _after_fork_in_child() -> None:
    for embedder in list(_EMBEDDERS):
        embedder._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
