"""Writes a table in every container that pyarrow knows, and compares what embedctl made of them."""

import datetime
import decimal
import glob
import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

KEPT = ["when", "price", "tags", "meta", "label", "text"]
rows = 300
table = pa.table(
    {
        "unused": pa.array(["x" * 100] * rows),
        "id": pa.array(range(rows), pa.int32()),
        "text": pa.array([f"text {i}" for i in range(rows)]).dictionary_encode(),
        "when": pa.array(
            [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=i) for i in range(rows)],
            pa.timestamp("ms", tz="Europe/Paris"),
        ),
        "price": pa.array([decimal.Decimal(i) / 4 for i in range(rows)], pa.decimal128(12, 4)),
        "tags": pa.array([[str(j) for j in range(i % 3)] or None for i in range(rows)], pa.list_(pa.string())),
        "meta": pa.array([{"a": i, "b": {"c": i / 2}} for i in range(rows)]),
        "label": pa.array(["even" if i % 2 == 0 else None for i in range(rows)]).dictionary_encode(),
    }
)

if sys.argv[1] == "write":
    for codec in ["snappy", "brotli", "lz4"]:
        pq.write_table(table, f"{codec}.parquet", compression=codec, row_group_size=70)
    pa.feather.write_feather(table, "zstd.feather", compression="zstd")
    for name, writer in [("file.arrow", pa.ipc.new_file), ("stream.arrows", pa.ipc.new_stream)]:
        with writer(name, table.schema) as sink:
            sink.write_table(table, max_chunksize=90)
else:
    made = glob.glob("*.out.parquet")
    assert len(made) == 6, made
    for name in made:
        found = pq.read_table(name)
        assert found["id"].type == pa.int64(), name
        assert found["id"].to_pylist() == list(range(rows)), name
        for column in KEPT:
            wanted = table[column]
            kind = found.schema.field(column).type
            assert kind == wanted.type, f"{name} {column}: {kind} is not {wanted.type}"
            assert found[column].to_pylist() == wanted.to_pylist(), f"{name} {column}"
