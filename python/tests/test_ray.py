"""On a real local Ray with workers that are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from conftest import FIXTURES, Case

ray = pytest.importorskip("ray")
import embedctl.ray
from embedctl import find_embedctl_bin

pytestmark = pytest.mark.ray

OPTIONS = {"provider": "native"}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    import logging

    # Workers can't import this file.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    names = [name for name in ("PYTHONPATH", "EMBEDCTL_BIN") if name in os.environ]
    ray.init(
        num_cpus=3,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=200 << 20,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {name: os.environ[name] for name in names}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    # Rows come in their order, so that a test may compare.
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    yield
    ray.shutdown()


def vectors(table: pa.Table, name: str = "embedding") -> np.ndarray:
    return np.stack(table[name].to_numpy())


def taken(ds: object) -> pa.Table:
    return pa.concat_tables(ray.get(ds.to_arrow_refs()))


def test_vectors_of_several_kinds() -> None:
    rows = pa.table({"body": ["A cat sat on a mat.", "It rains."]})
    model = str(FIXTURES / "heads" / "bert" / "model")
    found = taken(
        embedctl.ray.embed(
            ray.data.from_arrow(rows), model=model, text="body", output="v", vectors=["dense", "sparse", "multi"], **OPTIONS
        )
    )
    assert found.column_names == ["body", "v", "v_sparse", "v_multi"]
    assert all(row["values"] for row in found["v_sparse"].to_pylist())
    assert [len(vector) for vector in found["v_multi"].to_pylist()[0]] == [16] * len(found["v_multi"][0])


def test_every_column_row_and_vector(case: Case) -> None:
    rows = pa.table({"n": range(len(case.texts)), "body": case.texts})
    ds = ray.data.from_arrow([rows.slice(0, 10), rows.slice(10)])
    found = taken(
        embedctl.ray.embed(ds, model=case.model, text="body", output="vector", concurrency=2, ray_batch_size=8, **OPTIONS)
    )
    assert found.column_names == ["n", "body", "vector"]
    assert found["n"].to_pylist() == list(range(len(case.texts)))
    assert found["body"].to_pylist() == case.texts
    np.testing.assert_allclose(vectors(found, "vector"), case.expected, atol=2e-5)


def scored(name: str) -> tuple[str, pa.Table, np.ndarray]:
    """Model, records and scores of a case."""
    folder = FIXTURES / "scores" / name
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = pa.Table.from_pylist([json.loads(line) for line in lines])
    return str(folder / "model"), records, np.load(folder / "expected.npy")


def test_scores_of_pairs_and_of_texts() -> None:
    model, rows, expected = scored("bert")
    found = taken(embedctl.ray.score(ray.data.from_arrow(rows), model=model, query="query", ray_batch_size=8, **OPTIONS))
    assert found.column_names == ["id", "query", "text", "score"]
    np.testing.assert_allclose(found["score"].to_numpy(), expected[:, 0], atol=2e-5)

    model, rows, expected = scored("single-texts")
    found = taken(embedctl.ray.score(ray.data.from_arrow(rows), model=model, output="own", softmax=True, **OPTIONS))
    chances = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(vectors(found, "own"), chances, atol=2e-5)


def test_a_bad_pair() -> None:
    model, _, _ = scored("bert")
    ds = ray.data.from_arrow(pa.table({"q": ["a", None, "a"], "text": ["b", "b", None]}))
    found = taken(embedctl.ray.score(ds, model=model, query="q", on_error="null", **OPTIONS))
    assert found["score"].is_null().to_pylist() == [False, True, True]
    assert found["score_error"].is_null().to_pylist() == [True, False, False]
    with pytest.raises(Exception, match="row 1: "):
        embedctl.ray.score(ds, model=model, query="q", **OPTIONS).materialize()


def test_an_actor_of_map_batches(case: Case) -> None:
    ds = ray.data.from_arrow(pa.table({"text": case.texts})).map_batches(
        embedctl.ray.Embedder,
        fn_constructor_kwargs={"model": case.model, **OPTIONS},
        batch_format="pyarrow",
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    np.testing.assert_allclose(vectors(taken(ds)), case.expected, atol=2e-5)


def test_threads_are_the_actors_cpus(case: Case) -> None:
    model = case.model

    @ray.remote(num_cpus=2)
    def options() -> dict[str, object]:
        return embedctl.ray.Embedder(model).embedder.options

    assert ray.get(options.remote()) == {"threads": 2}


def test_a_bad_row(case: Case) -> None:
    ds = ray.data.from_arrow(pa.table({"text": ["a", None, "b"]}))
    found = taken(embedctl.ray.embed(ds, model=case.model, on_error="null", **OPTIONS))
    assert found["embedding"].is_null().to_pylist() == [False, True, False]
    with pytest.raises(Exception, match="row 1: "):
        embedctl.ray.embed(ds, model=case.model, **OPTIONS).materialize()
    with pytest.raises(Exception, match="no column named 'body'; columns are: text"):
        embedctl.ray.embed(ds, model=case.model, text="body", **OPTIONS).materialize()
    with pytest.raises(TypeError, match="no option 'batch'"):
        embedctl.ray.embed(ds, model=case.model, batch=3)


class Deadly(embedctl.ray.Embedder):
    """Its first batch with row 300 kills the actor after it was embedded."""

    def __init__(self, marker: str, **more: object) -> None:
        super().__init__(**more)
        self.marker = Path(marker)

    def __call__(self, batch: pa.Table) -> pa.Table:
        found = super().__call__(batch)
        if 300 in batch["id"].to_pylist():
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                return found
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def test_a_killed_actor_costs_no_row(case: Case, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    table = pa.table({"id": range(1000), "text": [f"text {n}" for n in range(1000)]})
    ds = ray.data.from_arrow([table.slice(start, 100) for start in range(0, 1000, 100)]).map_batches(
        Deadly,
        fn_constructor_kwargs={"marker": str(marker), "model": case.model, **OPTIONS},
        batch_format="pyarrow",
        batch_size=50,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    found = taken(ds)
    assert marker.exists()
    assert found["id"].to_pylist() == list(range(1000))
    assert found["embedding"].null_count == 0


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_folder_of_parts_is_a_table(case: Case, tmp_path: Path, form: str) -> None:
    """What `embedctl embed -o OUT/` writes, as Ray reads it."""
    (tmp_path / "in.txt").write_text("".join(f"{' '.join(text.split())}\n" for text in case.texts))
    command = [find_embedctl_bin(), "embed", tmp_path / "in.txt", "-o", f"{tmp_path}/{form}/", "-f", form]
    command += ["--part-rows", "3", "--window", "3", "-m", case.model, "-p", "native"]
    subprocess.run(command, check=True)
    output = str(tmp_path / form)
    found = ray.data.read_parquet(output) if form == "parquet" else ray.data.read_json(output)
    assert sorted(int(row["id"]) for row in found.take_all()) == [n + 1 for n in range(len(case.texts))]
