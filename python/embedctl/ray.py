"""Vectors and scores for a Ray Dataset: each actor of a pool runs the program beside itself.

Needs Ray 2.40 or later, and this package on every node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ._embedder import Embedder as _Embedder
from ._options import checked, translated

if TYPE_CHECKING:
    from ray.data import Dataset
    from typing_extensions import Unpack

    from ._options import Options


class Embedder:
    """The class of an actor for ``Dataset.map_batches``: a table with texts in, the same table with their vectors out.

    ::

        ds.map_batches(
            embedctl.ray.Embedder,
            fn_constructor_kwargs={"model": "BAAI/bge-small-en-v1.5"},
            batch_format="pyarrow", batch_size=4096, num_cpus=4,
            compute=ray.data.ActorPoolStrategy(size=2),
        )

    ``output`` is a fixed-size list of float32. ``options`` are those of ``embedctl.Embedder``. ``threads`` is the actor's
    number of CPUs, unless it is given or the actor has a GPU. An actor sees only its own GPU. With
    ``on_error="fail"`` a text that cannot be embedded fails the job. With ``"null"`` its vector is null, and a column
    ``OUTPUT_error`` gives the reason.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        text: str = "text",
        output: str = "embedding",
        on_error: Literal["fail", "null"] = "fail",
        **options: Unpack[Options],
    ) -> None:
        self.text = text
        self.output = output
        self.on_error: Literal["fail", "null"] = on_error
        self.embedder = _Embedder(model, **{**_resources(), **options})

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self.embedder.encode_arrow(batch, self.text, self.output, on_error=self.on_error)


class Scorer:
    """The class of an actor for ``Dataset.map_batches``: a table with texts in, the same table with their scores out.

    With ``query``, the name of another column of texts, a row is a pair. ``output`` is a float32, or a fixed-size list of
    them if the model has several labels; with ``softmax`` those are probabilities. The other arguments are those of
    ``Embedder``.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        text: str = "text",
        query: str | None = None,
        output: str = "score",
        softmax: bool = False,
        on_error: Literal["fail", "null"] = "fail",
        **options: Unpack[Options],
    ) -> None:
        self.columns = (text, query, output)
        self.softmax = softmax
        self.on_error: Literal["fail", "null"] = on_error
        self.embedder = _Embedder(model, **{**_resources(), **options})

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self.embedder.score_arrow(batch, *self.columns, softmax=self.softmax, on_error=self.on_error)


def embed(
    ds: Dataset,
    *,
    model: str | os.PathLike[str],
    text: str = "text",
    output: str = "embedding",
    on_error: Literal["fail", "null"] = "fail",
    concurrency: int | tuple[int, int] = 1,
    ray_batch_size: int = 4096,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    **options: Unpack[Options],
) -> Dataset:
    """Return ``ds`` with one more column, lazily, by ``concurrency`` actors (a number, or the least and the most).

    Each has ``num_cpus`` (1 unless given) and ``num_gpus``. Ray restarts an actor that dies, and runs its batches
    again. A batch has ``ray_batch_size`` rows (``batch_size`` is the program's option). ``Embedder`` explains the
    other arguments.
    """
    constructor = {"text": text, "output": output, "on_error": on_error}
    pool = (concurrency, ray_batch_size, num_cpus, num_gpus)
    return _mapped(ds, Embedder, model, constructor, options, pool)


def score(
    ds: Dataset,
    *,
    model: str | os.PathLike[str],
    text: str = "text",
    query: str | None = None,
    output: str = "score",
    softmax: bool = False,
    on_error: Literal["fail", "null"] = "fail",
    concurrency: int | tuple[int, int] = 1,
    ray_batch_size: int = 4096,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    **options: Unpack[Options],
) -> Dataset:
    """Return ``ds`` with one more column, lazily: the scores of a reranker or a classifier.

    ``Scorer`` explains the arguments about scores, and ``embed`` all others.
    """
    constructor = {"text": text, "query": query, "output": output, "softmax": softmax, "on_error": on_error}
    pool = (concurrency, ray_batch_size, num_cpus, num_gpus)
    return _mapped(ds, Scorer, model, constructor, options, pool)


def _mapped(
    ds: Dataset,
    actor: type[Embedder | Scorer],
    model: str | os.PathLike[str],
    constructor: dict[str, Any],
    options: Mapping[str, Any],
    pool: tuple[int | tuple[int, int], int, float | None, float | None],
) -> Dataset:
    """``ds`` through a pool of actors: their number, the rows of a batch, and the CPUs and GPUs of each."""
    from ray.data import ActorPoolStrategy

    model, own = translated(os.fspath(model), options)
    checked(own)
    concurrency, ray_batch_size, num_cpus, num_gpus = pool
    low, high = (concurrency, concurrency) if isinstance(concurrency, int) else concurrency
    return ds.map_batches(
        actor,
        fn_constructor_kwargs={"model": model, **constructor, **own},
        batch_format="pyarrow",
        batch_size=ray_batch_size,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        compute=ActorPoolStrategy(min_size=low, max_size=high),
    )


def _resources() -> dict[str, Any]:
    """The resources that Ray has given to this actor, as options."""
    import ray

    if not ray.is_initialized():
        return {}
    context: Any = ray.get_runtime_context()
    given = context.get_assigned_resources()
    if given.get("GPU"):
        return {}
    return {"threads": max(1, int(given.get("CPU", 1)))}
