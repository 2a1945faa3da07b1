"""On a real Spark whose executors are processes of their own (local-cluster): needs pyspark and Java 17."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from conftest import FIXTURES, Case

pytest.importorskip("pyspark")
import embedctl.spark
from embedctl._find_embedctl import find_embedctl_bin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OPTIONS = {"provider": "native"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_HOSTNAME", "localhost")
        patch.setenv("SPARK_WORKER_DIR", str(folder / "work"))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local-cluster[2,1,1024]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        )
        # Tests may run from a clone: executors find package and program where this process did.
        for name in ("PYTHONPATH", "EMBEDCTL_BIN"):
            if name in os.environ:
                session = session.config(f"spark.executorEnv.{name}", os.environ[name])
        session = session.getOrCreate()
        yield session
        session.stop()


def texts(spark: SparkSession, case: Case) -> DataFrame:
    """Texts in some partitions, in an order that no shuffle has made."""
    rows = [(n, text, {"n": [n]}) for n, text in enumerate(case.texts)]
    return spark.createDataFrame(rows, "n int, body string, deep struct<n: array<int>>")


def test_every_column_row_and_vector(spark: SparkSession, case: Case) -> None:
    df = texts(spark, case)
    found = embedctl.spark.embed(df, model=case.model, text="body", output="vector", **OPTIONS)
    assert found.schema.names == ["n", "body", "deep", "vector"]
    assert found.schema["vector"].dataType.simpleString() == "array<float>"
    rows = found.collect()
    assert [row.asDict() | {"vector": 0} for row in rows] == [
        row.asDict() | {"vector": 0} for row in df.collect()
    ], "the order within partitions is kept"
    for row in rows:
        np.testing.assert_allclose(row["vector"], case.expected[row["n"]], atol=2e-5)


def test_vectors_of_several_kinds(spark: SparkSession) -> None:
    df = spark.createDataFrame([("A cat sat on a mat.",), ("It rains.",)], "body string")
    model = str(FIXTURES / "heads" / "bert" / "model")
    found = embedctl.spark.embed(
        df, model=model, text="body", output="v", vectors=["dense", "sparse", "multi"], **OPTIONS
    )
    types = {field.name: field.dataType.simpleString() for field in found.schema.fields}
    assert types == {
        "body": "string",
        "v": "array<float>",
        "v_sparse": "struct<indices:array<int>,values:array<float>>",
        "v_multi": "array<array<float>>",
    }
    for row in found.collect():
        assert len(row["v"]) == 32 and row["v_sparse"]["values"]
        assert {len(vector) for vector in row["v_multi"]} == {16}
    sparse = str(FIXTURES / "sparse" / "distilbert" / "model")
    with pytest.raises(Exception, match=r"name them with vectors=\['sparse'\]"):
        embedctl.spark.embed(df, model=sparse, text="body", **OPTIONS).collect()
    named = embedctl.spark.embed(df, model=sparse, text="body", vectors="sparse", **OPTIONS)
    assert all(row["embedding"]["values"] for row in named.collect())


def scored(name: str) -> tuple[str, list[dict[str, str]], np.ndarray]:
    """Model, records and scores of a case."""
    folder = FIXTURES / "scores" / name
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return str(folder / "model"), [json.loads(line) for line in lines], np.load(folder / "expected.npy")


def test_scores_of_pairs_and_of_texts(spark: SparkSession) -> None:
    model, records, expected = scored("bert")
    rows = [(n, record["query"], record["text"]) for n, record in enumerate(records)]
    df = spark.createDataFrame(rows, "n int, query string, text string")
    found = embedctl.spark.score(df, model=model, query="query", **OPTIONS)
    assert found.schema["score"].dataType.simpleString() == "float"
    for row in found.collect():
        np.testing.assert_allclose(row["score"], expected[row["n"], 0], atol=2e-5)

    model, records, expected = scored("single-texts")
    df = spark.createDataFrame([(n, record["text"]) for n, record in enumerate(records)], "n int, body string")
    found = embedctl.spark.score(df, model=model, text="body", output="own", labels=5, softmax=True, **OPTIONS)
    assert found.schema["own"].dataType.simpleString() == "array<float>"
    chances = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    for row in found.collect():
        np.testing.assert_allclose(row["own"], chances[row["n"]], atol=2e-5)
    with pytest.raises(Exception, match="the model has 5 labels: say so with labels=5"):
        embedctl.spark.score(df, model=model, text="body", **OPTIONS).collect()


def test_a_bad_pair(spark: SparkSession) -> None:
    model, _, _ = scored("bert")
    df = spark.createDataFrame([("a", "b"), (None, "b"), ("a", None)], "q string, text string").coalesce(1)
    found = embedctl.spark.score(df, model=model, query="q", on_error="null", **OPTIONS).collect()
    assert [row.score is None for row in found] == [False, True, True]
    assert [row.score_error is None for row in found] == [True, False, False]
    with pytest.raises(Exception, match="row 1: "):
        embedctl.spark.score(df, model=model, query="q", **OPTIONS).collect()
    with pytest.raises(ValueError, match="no column named 'query'; columns are: q, text"):
        embedctl.spark.score(df, model=model, query="query")
    with pytest.raises(ValueError, match="labels is 0"):
        embedctl.spark.score(df, model=model, query="q", labels=0)


def test_a_process_serves_the_tasks_of_a_worker(spark: SparkSession, case: Case) -> None:
    def with_processes(batches):
        import pyarrow as pa

        for batch in batches:
            (kept,) = embedctl.spark._KEPT
            process = next(iter(kept[1]._processes.values()))
            yield pa.record_batch({"pid": [process.pid], "threads": [kept[1].options["threads"]]})

    # This runs in one Python worker with the embedding, so it sees the embedder that served its task.
    task = partial(embedctl.spark._embed_partition, case.model, "text", "embedding", "fail", OPTIONS)
    seen = spark.range(0, 64, 1, 16).selectExpr("cast(id as string) text").mapInArrow(
        lambda batches: with_processes(task(batches)), "pid long, threads long"
    ).collect()
    assert len(seen) == 16 and len({row.pid for row in seen}) <= 2
    assert {row.threads for row in seen} == {1}


def test_a_bad_row(spark: SparkSession, case: Case) -> None:
    df = spark.createDataFrame([(0, "a"), (1, None), (2, "b")], "n int, text string").coalesce(1)
    found = embedctl.spark.embed(df, model=case.model, on_error="null", **OPTIONS).collect()
    assert [row.embedding is None for row in found] == [False, True, False]
    assert found[1].embedding_error and found[0].embedding_error is None
    with pytest.raises(Exception, match="row 1: "):
        embedctl.spark.embed(df, model=case.model, **OPTIONS).collect()


def test_what_is_refused_before_anything_runs(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "a", "b")], "n int, body string, embedding string")
    with pytest.raises(ValueError, match="no column named 'text'; columns are: n, body, embedding"):
        embedctl.spark.embed(df, model="m")
    with pytest.raises(ValueError, match="column 'n' holds int, no texts"):
        embedctl.spark.embed(df, model="m", text="n")
    with pytest.raises(ValueError, match="there is a column 'embedding' already"):
        embedctl.spark.embed(df, model="m", text="body")
    with pytest.raises(ValueError, match="on_error is 'skip'"):
        embedctl.spark.embed(df, model="m", text="body", output="v", on_error="skip")
    with pytest.raises(TypeError, match="no option 'batch'"):
        embedctl.spark.embed(df, model="m", text="body", output="v", batch=3)
    lazy = embedctl.spark.embed(df, model="no-such-model", text="body", output="v", offline=True)
    assert lazy.columns == ["n", "body", "embedding", "v"]
    with pytest.raises(Exception, match="no-such-model"):
        lazy.collect()


def test_a_model_is_shipped(spark: SparkSession, case: Case) -> None:
    name = embedctl.spark.ship(spark, case.model)
    assert name == embedctl.spark.ship(spark, case.model)
    rows = embedctl.spark.embed(texts(spark, case), model=name, text="body", **OPTIONS).collect()
    for row in rows:
        np.testing.assert_allclose(row["embedding"], case.expected[row["n"]], atol=2e-5)


def test_partitions_without_rows_start_nothing(spark: SparkSession) -> None:
    df = spark.createDataFrame([], "text string")
    assert embedctl.spark.embed(df, model="no-such-model", offline=True).collect() == []


def test_a_killed_executor_costs_no_row(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    """The first task that reaches row 300 kills its executor, Java included, after it embedded earlier rows."""
    marker = tmp_path / "killed"
    task = partial(embedctl.spark._embed_partition, case.model, "text", "embedding", "fail", OPTIONS)

    def deadly(batches):
        for batch in task(batches):
            yield batch
            if 300 in batch["id"].to_pylist():
                try:
                    marker.touch(exist_ok=False)
                except FileExistsError:
                    continue
                # This worker's parent is Spark's daemon, whose parent is the executor.
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    executor = int(stat.read().rpartition(") ")[2].split()[1])
                os.kill(executor, signal.SIGKILL)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    df = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('text ', id) as text")
    rows = df.mapInArrow(deadly, "id long, text string, embedding array<float>").collect()
    assert marker.exists()
    assert [row.id for row in rows] == list(range(1000))
    assert len({len(row.embedding) for row in rows}) == 1


def test_gpus_are_those_of_the_task(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import TaskContext
    from pyspark.resource import ResourceInformation

    class Context:
        def resources(self):
            return {"gpu": ResourceInformation("gpu", ["1", "3"])}

        def cpus(self):
            return 4

    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: Context()))
    assert embedctl.spark._resources() == {"device": ["1", "3"]}
    monkeypatch.setattr(Context, "resources", lambda self: {})
    assert embedctl.spark._resources() == {"threads": 4}


def test_folders_of_parts_are_tables(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    """What `embedctl embed -o OUT/` writes, as Spark reads it."""
    (tmp_path / "in.txt").write_text("".join(f"{' '.join(text.split())}\n" for text in case.texts))
    for form in ("parquet", "jsonl"):
        output = f"{tmp_path / form}/"
        command = [find_embedctl_bin(), "embed", tmp_path / "in.txt", "-o", output, "-f", form, "--vector-type", "list"]
        command = command[: len(command) if form == "parquet" else -2]
        command += ["--part-rows", "3", "--window", "3", "-m", case.model, "-p", "native"]
        subprocess.run(command, check=True)
        found = spark.read.parquet(output) if form == "parquet" else spark.read.json(output)
        rows = sorted(found.collect(), key=lambda row: int(row["id"]))
        assert [row["id"] for row in rows] == [str(n + 1) for n in range(len(case.texts))]
        assert all(len(row["embedding"]) == case.expected.shape[1] for row in rows)
