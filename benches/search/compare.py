"""`embedctl search` beside NumPy, DuckDB and FAISS: the same answers, and the time that they take. See run.sh."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MODEL = "fixtures/models/all-MiniLM-L6-v2"
SPARSE = "fixtures/sparse/bert/model"
OF_TOKENS = "fixtures/multi/bert-document/model"
QUERY = "a cat on a rug"
WIDTH = 384
NEAREST = 10


class Program:
    def __init__(self, path, model):
        self.path, self.model = path, model

    def run(self, *words):
        command = [self.path, *map(str, words)]
        env = {**os.environ, "EMBEDCTL_MODEL": self.model}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout

    def embed(self, text, out, *options):
        """An output of a single text, whose provenance the rows of others get."""
        source = out.with_suffix(".txt")
        source.write_text(text + "\n")
        self.run("embed", source, "-o", out, "--force", "-q", *options)

    def search(self, out, *words):
        """The numbers of the rows that are found, best first, and their scores."""
        lines = self.run("search", out, "--json", "-k", NEAREST, *words).splitlines()
        hits = [json.loads(line) for line in lines]
        return [hit["row"] for hit in hits], [hit["score"] for hit in hits]


def unit_vectors(rows, seed=7):
    vectors = np.random.default_rng(seed).standard_normal((rows, WIDTH), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def write_npy(program, out, vectors, *options):
    """Puts other rows under the provenance of an output."""
    program.embed("one", out, *options)
    np.save(out, vectors)
    lines = (f'{{"row":{row},"id":"{row}","line":{row + 1}}}\n' for row in range(len(vectors)))
    Path(f"{out}.rows.jsonl").write_text("".join(lines))


def write_parquet(program, out, vectors, *options):
    program.embed("one", out, "--keep", "text", *options)
    schema = pq.read_schema(out)
    numbers = pa.array(vectors.reshape(-1), schema.field("embedding").type.value_type)
    lists = pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[1])
    names = pa.array([str(row) for row in range(len(vectors))])
    table = pa.table([names, names, lists.cast(schema.field("embedding").type)], schema=schema)
    # As embedctl writes them: vectors as they are, in row groups of 64 MiB.
    codecs = {"id": "zstd", "text": "zstd", "embedding.list.element": "none"}
    rows = (64 << 20) // (vectors.shape[1] * vectors.itemsize)
    pq.write_table(table, out, compression=codecs, use_dictionary=False, row_group_size=rows)


def write_jsonl(program, out, vectors, *options):
    program.embed("one", out, *options)
    with open(out, "w") as file:
        for row, vector in enumerate(vectors):
            file.write(json.dumps({"id": str(row), "embedding": vector.tolist()}) + "\n")


def stored(vectors, dtype, ranges):
    """The elements of a file of this type, and the numbers that they stand for."""
    if dtype == "f16":
        half = vectors.astype(np.float16)
        return half, half.astype(np.float64)
    if dtype in ("int8", "uint8"):
        low, step = ranges[0], (ranges[1] - ranges[0]) / 255
        codes = np.clip((vectors - low) / step, 0, 255).astype(np.uint8)
        meant = np.minimum(low + (codes + 0.5) * step, ranges[1]).astype(np.float64)
        return (codes if dtype == "uint8" else (codes.astype(np.int16) - 128).astype(np.int8)), meant
    if dtype in ("binary", "ubinary"):
        bits = vectors > 0
        packed = np.packbits(bits, axis=1)
        signed = (packed.astype(np.int16) - 128).astype(np.int8)
        return (packed if dtype == "ubinary" else signed), np.where(bits, 1.0, -1.0)
    return vectors, vectors.astype(np.float64)


def cosines(numbers, query):
    return numbers @ query / (np.linalg.norm(numbers, axis=1) * np.linalg.norm(query))


def check(program, work, rows=10_000):
    """Compares the answers on random rows of each type with NumPy's."""
    vectors = unit_vectors(rows)
    calibration = work / "calibration.npy"
    np.save(calibration, vectors)
    ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    program.embed(QUERY, work / "query.npy")
    query = np.load(work / "query.npy")[0].astype(np.float64)
    write = {"npy": write_npy, "parquet": write_parquet, "jsonl": write_jsonl}
    for dtype in ("f32", "f16", "int8", "uint8", "binary", "ubinary"):
        options = ["--dtype", dtype]
        if dtype in ("int8", "uint8"):
            options += ["--calibration", calibration]
        elements, meant = stored(vectors, dtype, ranges)
        exact = cosines(meant, query)
        best = np.argsort(-exact, kind="stable")[:NEAREST]
        for ending, writer in write.items():
            out = work / f"check-{dtype}.{ending}"
            writer(program, out, elements, *options)
            found, scores = program.search(out, QUERY)
            assert np.allclose(scores, exact[found], atol=2e-6), (out, scores, exact[found])
            # Rows whose scores are equal may change places.
            assert np.allclose(exact[found], exact[best], atol=2e-6), (out, found, best)
        print(f"{dtype}: {rows} rows in {', '.join(write)}: NumPy's answer")


def write_rows(out, rows):
    """Puts other rows under the provenance of an output: values as its column of vectors holds them."""
    if out.suffix == ".jsonl":
        with open(out, "w") as file:
            for row, value in enumerate(rows):
                file.write(json.dumps({"id": str(row), "embedding": value}) + "\n")
        return
    schema = pq.read_schema(out)
    ids = pa.array([str(row) for row in range(len(rows))])
    table = pa.table([ids, pa.array(rows, schema.field("embedding").type)], schema=schema)
    pq.write_table(table, out, row_group_size=3000)


def check_kind(program, work, rows, exact, of_row):
    """Compares the answers on rows of another kind with the scores that `exact` gives for the query's vector."""
    program.embed(QUERY, work / "kind.jsonl", "--task", "query")
    query = json.loads((work / "kind.jsonl").read_text())["embedding"]
    scores = np.array([exact(query, row) for row in rows])
    best = np.argsort(-scores, kind="stable")[:NEAREST]
    for ending in ("jsonl", "parquet"):
        out = work / f"kind.{ending}"
        program.embed("one", out)
        write_rows(out, [of_row(row) for row in rows])
        found, given = program.search(out, QUERY)
        assert np.allclose(given, scores[found], rtol=2e-6, atol=2e-6), (out, given, scores[found])
        assert np.allclose(scores[found], scores[best], rtol=2e-6, atol=2e-6), (out, found, best)


def check_kinds(program, work, rows=10_000):
    """Sparse vectors by their dot product, and vectors of tokens by MaxSim."""
    random = np.random.default_rng(3)
    sparse = Program(program.path, str(Path(SPARSE).resolve()))
    sparse.embed(QUERY, work / "kind.jsonl", "--task", "query")
    width = max(json.loads((work / "kind.jsonl").read_text())["embedding"]["indices"]) + 1

    def entries():
        indices = np.sort(random.choice(width, random.integers(0, 60), replace=False))
        return indices, random.random(len(indices), dtype=np.float32)

    def dot(query, row):
        full = np.zeros(width)
        full[query["indices"]] = query["values"]
        return float(full[row[0]] @ row[1].astype(np.float64))

    def as_entries(row):
        return {"indices": row[0].tolist(), "values": row[1].tolist()}

    check_kind(sparse, work, [entries() for _ in range(rows)], dot, as_entries)
    print(f"sparse: {rows} rows in jsonl, parquet: NumPy's answer")
    tokens = Program(program.path, str(Path(OF_TOKENS).resolve()))
    tokens.embed(QUERY, work / "kind.jsonl")
    width = len(json.loads((work / "kind.jsonl").read_text())["embedding"][0])
    made = [random.standard_normal((random.integers(1, 20), width), dtype=np.float32) for _ in range(rows)]

    def max_sim(query, row):
        return float((np.array(query) @ row.astype(np.float64).T).max(axis=1).sum())

    check_kind(tokens, work, made, max_sim, np.ndarray.tolist)
    print(f"vectors of tokens: {rows} rows in jsonl, parquet: NumPy's answer")


def check_compare(program, work, rows=10_000):
    """The shares of nearest rows that two outputs have in common, over all rows."""
    one = unit_vectors(rows)
    two = one + 0.5 * unit_vectors(rows, seed=8)
    depths, shared = (1, 10, 100), np.zeros(3)
    scaled = two / np.linalg.norm(two, axis=1, keepdims=True)
    for first in range(0, rows, 1000):
        own = range(first, first + 1000)
        near = []
        for vectors in (one, scaled):
            scores = vectors[own].astype(np.float64) @ vectors.T.astype(np.float64)
            scores[np.arange(1000), own] = -np.inf
            near.append(np.argsort(-scores, axis=1)[:, : max(depths)])
        for place, depth in enumerate(depths):
            shared[place] += sum(
                len(np.intersect1d(a[:depth], b[:depth])) / depth for a, b in zip(*near, strict=True)
            )
    for ending, write in (("npy", write_npy), ("parquet", write_parquet)):
        outputs = [work / f"compared-{name}.{ending}" for name in ("one", "two")]
        write(program, outputs[0], one)
        # Of the same model and prompt, the first one's vectors would be the queries in both.
        write(program, outputs[1], two, "--prompt", "another: ")
        found = json.loads(program.run("compare", *outputs, "--sample", rows, "--json"))["others"][0]["overlaps"]
        assert [overlap["depth"] for overlap in found] == list(depths), found
        shares = [overlap["share"] for overlap in found]
        # Rows that are equally near but for rounding may change places.
        assert np.allclose(shares, shared / rows, atol=2e-4), (shares, shared / rows)
    print(f"compare: {rows} rows in npy, parquet: NumPy's shares, {', '.join(f'{share:.3f}' for share in shares)}")


def seconds(action, rounds):
    """Median of several runs after one that fills the memory's cache."""
    action()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def speed(program, work, rows, rounds):
    import duckdb
    import faiss

    vectors = unit_vectors(rows)
    query = np.load(work / "query.npy")[0]
    ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    np.save(work / "calibration.npy", vectors[:10_000])
    table = []

    def add(name, what, action):
        table.append((name, what, seconds(action, rounds)))
        print(f"{name}, {what}: {table[-1][2]:.3f} s", flush=True)

    cores = len(os.sched_getaffinity(0))
    queries = work / "queries.txt"
    queries.write_text("".join(f"{QUERY} number {number}\n" for number in range(100)))
    for dtype, ending in [("f32", "npy"), ("f32", "parquet"), ("f16", "npy"), ("uint8", "npy"), ("ubinary", "npy")]:
        out = work / f"million-{dtype}.{ending}"
        options = ["--dtype", dtype]
        if dtype == "uint8":
            options += ["--calibration", work / "calibration.npy"]
        elements = stored(vectors, dtype, ranges)[0] if dtype != "f32" else vectors
        (write_npy if ending == "npy" else write_parquet)(program, out, elements, *options)
        name = f"embedctl search, {dtype}, {ending}"
        add(name, "a row's nearest (no model)", lambda: program.search(out, "--like-row", "5"))
        add(name, "a query (with the model)", lambda: program.search(out, QUERY))
        if dtype == "f32":
            add(name, "100 queries", lambda: program.run("search", out, "--queries", queries, "--json"))
    npy, parquet = work / "million-f32.npy", work / "million-f32.parquet"

    def with_numpy():
        scores = np.load(npy, mmap_mode="r") @ query
        best = np.argpartition(-scores, NEAREST)[:NEAREST]
        return best[np.argsort(-scores[best])]

    add("NumPy, npy", "a query's vector (no model)", with_numpy)

    def with_duckdb():
        connection = duckdb.connect(config={"threads": cores})
        return connection.execute(
            f"SELECT id, array_cosine_similarity(embedding::FLOAT[{WIDTH}], ?::FLOAT[{WIDTH}]) AS score "
            f"FROM read_parquet('{parquet}') ORDER BY score DESC LIMIT {NEAREST}",
            [query.tolist()],
        ).fetchall()

    add("DuckDB, parquet", "a query's vector (no model)", with_duckdb)
    faiss.omp_set_num_threads(cores)

    def with_faiss():
        index = faiss.IndexFlatIP(WIDTH)
        index.add(np.load(npy, mmap_mode="r"))
        return index.search(query[None], NEAREST)

    add("FAISS, flat, npy", "a query's vector (no model)", with_faiss)
    index = faiss.IndexFlatIP(WIDTH)
    index.add(vectors)
    add("FAISS, flat, index in memory", "a query's vector (no model)", lambda: index.search(query[None], NEAREST))
    many = unit_vectors(100, seed=9)
    add("FAISS, flat, index in memory", "100 queries", lambda: index.search(many, NEAREST))

    found, _ = program.search(npy, QUERY)
    assert found == with_numpy().tolist() == with_faiss()[1][0].tolist(), "other answers"
    print(f"\n{rows} rows of {WIDTH}, {cores} cores, median of {rounds} runs\n")
    print("| program, file | what | s |\n|---|---|--:|")
    for name, what, took in table:
        print(f"| {name} | {what} | {took:.2f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="target/release/embedctl")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    program = Program(shutil.which(args.program) or str(Path(args.program).resolve()), str(Path(MODEL).resolve()))
    check(program, args.work)
    check_kinds(program, args.work)
    check_compare(program, args.work)
    if args.rows == 0:
        return
    speed(program, args.work, args.rows, args.rounds)


if __name__ == "__main__":
    main()
