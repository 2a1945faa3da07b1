"""One way to embed: a few texts, twice, and then all of them. Prints how long the second few took, and all.

usage: ways.py WAY MODEL FEW TEXTS OUT WORKERS THREADS

FEW and TEXTS are folders of Parquet files (`id`, `text`), OUT is one or a file. A rate is what the rows took less what
the few took: model, processes and a job's own overhead are in both.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet


def alone(model, workers, threads):
    def run(texts, out):
        command = [os.environ["EMBEDCTL_BIN"], "embed", texts, "--text-field", "text", "--id-field", "id", "-o", out / "all.parquet"]
        command += ["--model", model, "--provider", "native", "--threads", workers * threads, "--quiet"]
        out.mkdir()
        subprocess.run([str(word) for word in command], check=True)

    return run


def in_memory(encode):
    """What takes a list of texts and gives a matrix. Files are read and written outside of the time."""

    def run(texts, out):
        table = pa.parquet.read_table(texts)
        rows = table["text"].to_pylist()
        start = time.perf_counter()
        vectors = encode(rows)
        took = time.perf_counter() - start
        out.mkdir()
        column = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
        pa.parquet.write_table(pa.table({"id": table["id"], "embedding": column}), out / "all.parquet")
        return took

    return run


def encode(model, workers, threads):
    from embedctl import Embedder

    return in_memory(Embedder(model, provider="native", threads=workers * threads).encode)


def today(model, workers, threads):
    from today import encode, opened

    opened(model, workers * threads)
    return in_memory(lambda texts: encode(model, workers * threads, texts))


def session(workers, threads):
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost", "PYSPARK_PYTHON": sys.executable}
    folder = os.environ["SPARK_WORKER_DIR"] = str(Path(sys.argv[5]).with_suffix(".work"))
    builder = (
        SparkSession.builder.master(f"local-cluster[{workers},{threads},2048]")
        .config("spark.executor.memory", "2g")
        .config("spark.task.cpus", threads)
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", folder)
        .config("spark.sql.warehouse.dir", folder)
    )
    for name in ("PYTHONPATH", "EMBEDCTL_BIN"):
        builder = builder.config(f"spark.executorEnv.{name}", os.environ[name])
    return builder.getOrCreate()


def spark(model, workers, threads):
    import embedctl.spark

    started = session(workers, threads)

    def run(texts, out):
        df = started.read.parquet(str(texts))
        embedctl.spark.embed(df, model=model, provider="native").write.parquet(str(out))

    return run


def spark_today(model, workers, threads):
    from functools import partial

    from today import partition

    started = session(workers, threads)

    def run(texts, out):
        df = started.read.parquet(str(texts))
        schema = "id long, text string, embedding array<float>"
        df.mapInPandas(partial(partition, model, threads), schema).write.parquet(str(out))

    return run


def cluster(workers, threads):
    import logging

    import ray

    names = ("PYTHONPATH", "EMBEDCTL_BIN")
    # One more than there are: reading and writing files are tasks, too.
    ray.init(
        num_cpus=workers * threads + 1,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=512 << 20,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {name: os.environ[name] for name in names}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


def ray(model, workers, threads):
    import embedctl.ray

    data = cluster(workers, threads)

    def run(texts, out):
        ds = data.read_parquet(str(texts))
        ds = embedctl.ray.embed(ds, model=model, concurrency=workers, num_cpus=threads, provider="native")
        ds.write_parquet(str(out))

    return run


def ray_today(model, workers, threads):
    from today import Actor

    data = cluster(workers, threads)

    def run(texts, out):
        data.read_parquet(str(texts)).map_batches(
            Actor,
            fn_constructor_kwargs={"model": model, "threads": threads},
            batch_size=4096,
            num_cpus=threads,
            compute=data.ActorPoolStrategy(size=workers),
        ).write_parquet(str(out))

    return run


def main():
    way, model, few, texts, out, workers, threads = sys.argv[1:]
    run = globals()[way.replace("-", "_")](model, int(workers), int(threads))
    times = []
    for folder in (few, few, texts):
        shutil.rmtree(out, ignore_errors=True)
        start = time.perf_counter()
        took = run(Path(folder), Path(out))
        times.append(took if took is not None else time.perf_counter() - start)
    print(json.dumps({"few_s": round(times[1], 3), "all_s": round(times[2], 3)}), flush=True)


if __name__ == "__main__":
    main()
