"""What a run wrote, as other programs' readers see it: names of columns, and rows as dictionaries."""

import glob, gzip, io, json, os, struct

import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset, pyarrow.ipc, pyarrow.parquet

from oracle import FLOATS, LINES, LISTS, MATRICES, SOMETHING, Components, read_arrow, written_format, out_format


def beside(c):
    """Names of the files that a complete output may consist of, in the folder of the run."""
    if c["out"] == "-":
        return set()
    if c["out"] == "folder":
        return {"out", "_out.embedctl"}
    name, form = f"out.{c['ending']}", out_format(c)
    names = {name} | ({f"{name}.json"} if form not in ("parquet", "arrow") else set())
    names |= {f"{name}.rows.jsonl"} if form in MATRICES else set()
    return names | ({f"{name}.lengths.npy"} if form == "npy" and "multi" in c["kinds"] else set())


def read(c, folder, stdout):
    """The columns and rows of a case's output."""
    form = written_format(c)
    if c["out"] == "-":
        if c.get("streams"):
            return tables(streams(stdout))
        return read_bytes(c, form, stdout, None)
    if c["out"] == "file":
        path = os.path.join(folder, f"out.{c['ending']}")
        with open(path, "rb") as file:
            return read_bytes(c, form, file.read(), path)
    paths = sorted(glob.glob(os.path.join(folder, "out", f"part-[0-9]*-[0-9]*[0-9].{form}")))
    if not os.path.exists(os.path.join(folder, "out", "_SUCCESS")):
        raise Unequal("the folder has no _SUCCESS")
    strange = set(os.listdir(os.path.join(folder, "out"))) - {"_SUCCESS"} - {os.path.basename(p) for p in paths}
    strange = {name for name in strange if not any(name.startswith(os.path.basename(path) + ".") for path in paths)}
    if strange:
        raise Unequal(f"the folder holds {sorted(strange)}")
    if form == "parquet" and paths:
        table = pyarrow.dataset.dataset(paths, format="parquet").to_table()
        if table.num_rows != sum(pa.parquet.read_metadata(path).num_rows for path in paths):
            raise Unequal("pyarrow.dataset reads other rows than the parts have")
    names, rows = [], []
    for path in paths:
        with open(path, "rb") as file:
            names, own = read_bytes(c, form, file.read(), path)
            rows += own
    return names, rows


class Unequal(Exception):
    """What was written is not what is expected."""


def streams(data):
    reader, found = io.BytesIO(data), []
    while reader.tell() < len(data):
        found.append(pa.ipc.open_stream(reader).read_all())
    return found


def tables(found):
    names, rows = [], []
    for table in found:
        names = table.column_names
        rows += table.to_pylist(maps_as_pydicts="strict")
    return names, rows


def read_bytes(c, form, data, path):
    if form in LINES:
        data = gzip.decompress(data) if form.endswith("gz") else data
        if form.endswith("zst"):
            data = pa.input_stream(pa.BufferReader(data), compression="zstd").read() if data else b""
        rows = [json.loads(line, object_pairs_hook=no_repeats) for line in data.decode().split("\n")[:-1]]
        return (list(rows[0]) if rows else None), rows
    if form == "parquet":
        table = pa.parquet.read_table(io.BytesIO(data))
        check_types(c, form, table.schema)
        frame = polars.read_parquet(io.BytesIO(data))
        if frame.columns != table.column_names or frame.height != table.num_rows:
            raise Unequal("polars and pyarrow read different tables")
        return tables([table])
    if form in LISTS:
        table = read_arrow(data)
        check_types(c, form, table.schema)
        return tables([table])
    if form == "pgcopy":
        return read_pgcopy(c, data, path)
    return read_matrix(c, form, data, path)


def no_repeats(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Unequal(f"a name stands twice: {names}")
    return dict(pairs)


def check_types(c, form, schema):
    """Vectors are lists of fixed size unless asked for otherwise, with the type of components that is asked for."""
    fixed = c.get("vector-type") or ("list" if form == "parquet" and c.get("on-error") == "null" else "fixed")
    numbers = {"f32": "float", "f16": "halffloat", "int8": "int8", "uint8": "uint8", "binary": "int8", "ubinary": "uint8"}
    for kind, names in c["columns of vectors"].items():
        for name in names:
            found = schema.field(name).type
            if kind in ("sparse",):
                right = pa.types.is_map(found) if c.get("sparse-tokens") else pa.types.is_struct(found)
            elif kind == "scores":
                right = True
            else:
                inner = found.value_type if kind == "multi" else found
                right = pa.types.is_fixed_size_list(inner) or (fixed == "list" or kind == "multi") and pa.types.is_list(inner)
                if kind == "dense":
                    right = right and pa.types.is_fixed_size_list(inner) == (fixed == "fixed")
                right = right and str(inner.value_type) == numbers[c["type"]]
            if not right:
                raise Unequal(f"column {name} has the type {found}")


def read_matrix(c, form, data, path):
    with open(path + ".rows.jsonl") as file:
        rows = [json.loads(line, object_pairs_hook=no_repeats) for line in file]
    name = next(iter(c["columns of vectors"].values()))[0]
    if form == "npz":
        parts = np.load(io.BytesIO(data))
        starts = parts["indptr"]
        if tuple(parts["shape"]) [0] != len(rows):
            raise Unequal("the matrix has another number of rows than the file beside it")
        found = [dict(zip(parts["indices"][a:b].tolist(), parts["data"][a:b].tolist())) for a, b in zip(starts, starts[1:])]
    elif form == "npy":
        found = np.load(io.BytesIO(data))
        if "multi" in c["kinds"]:
            lengths = np.load(path + ".lengths.npy")
            found = np.split(found, np.cumsum(lengths)[:-1]) if len(lengths) else []
    else:
        height, width = struct.unpack("<II", data[:8])
        found = np.frombuffer(data[8:], {"fbin": "<f4", "i8bin": "i1", "u8bin": "u1"}[form]).reshape(height, width)
    if len(found) != len(rows):
        raise Unequal(f"{len(found)} rows of the matrix, {len(rows)} beside it")
    for number, (row, vector) in enumerate(zip(rows, found)):
        if row.pop("row") != number:
            raise Unequal("rows are not numbered")
        row[name] = vector
    return None, rows


def read_pgcopy(c, data, path):
    """PostgreSQL's COPY in binary form; the values of a field are decoded by the kind that is expected."""
    if data[:11] != b"PGCOPY\n\xff\r\n\0" or data[-2:] != b"\xff\xff":
        raise Unequal("no binary COPY")
    names, at, rows = None, 19, []
    expected = c["columns"]
    while data[at:at + 2] != b"\xff\xff":
        (count,) = struct.unpack(">h", data[at:at + 2])
        at += 2
        if count != len(expected):
            raise Unequal(f"{count} fields, {len(expected)} columns")
        row = {}
        for name, kind in expected:
            (size,) = struct.unpack(">i", data[at:at + 4])
            at += 4
            row[name] = None if size < 0 else decode(kind, data[at:at + size], c)
            at += max(size, 0)
        rows.append(row)
    if path:
        with open(path + ".json") as file:
            columns = json.load(file)["columns"]
        if isinstance(columns, str) and [name for name, _ in expected] != [
                part.strip().split(" ")[0].strip('"') for part in columns.split(", ")]:
            raise Unequal(f"columns are {columns}")
    return names, rows


def decode(kind, data, c):
    if kind == "string":
        return data.decode()
    if kind in ("int64", "int32"):
        return int.from_bytes(data, "big", signed=True)
    if kind == "double":
        return struct.unpack(">d", data)[0]
    if kind == "bool":
        return data != b"\0"
    if kind == "scores" and len(data) == 4:
        return struct.unpack(">f", data)[0]
    if kind == "scores":
        return np.frombuffer(data[4:], ">f4")
    if kind == "sparse":
        width, count = struct.unpack(">ii", data[:8])
        indices = np.frombuffer(data[12:12 + 4 * count], ">i4")
        return dict(zip(indices.tolist(), np.frombuffer(data[12 + 4 * count:], ">f4").tolist()))
    if kind == "dense":
        if c["type"] in ("binary", "ubinary"):
            (bits,) = struct.unpack(">i", data[:4])
            packed = np.frombuffer(data[4:], np.uint8)
            return packed if c["type"] == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)
        return np.frombuffer(data[4:], ">f4" if c["type"] == "f32" else ">f2")
    return json.loads(data[1:])


def equals(want, other):
    """Whether numbers of an output are the expected `Components`; a value on the edge of a step may fall to either side."""
    expected = want.quantized(want.values)
    other = np.asarray(other)
    if other.shape != expected.shape:
        return False
    if np.array_equal(other.astype(expected.dtype), expected):
        return True
    if want.type in FLOATS:
        close = 2e-6 if want.type == "f32" else 1e-3
        return np.allclose(other.astype(np.float32), want.values, atol=close, rtol=close)
    if want.type in ("int8", "uint8"):
        near = [want.quantized(want.values + e).astype(int) for e in (-2e-6, 2e-6)]
        return bool(((near[0] <= other) & (other <= near[1])).all())
    unsure = np.packbits(np.abs(want.values) < 2e-6, axis=-1)
    signed = (other.astype(np.int16) + (128 if want.type == "binary" else 0)).astype(np.uint8)
    return bool(((signed | unsure) == (np.packbits(want.values > 0, axis=-1) | unsure)).all())


def same(expected, actual, kind):
    """Whether a value of the output is the expected one."""
    if expected is None or actual is None:
        return expected is None and actual is None
    if isinstance(expected, Components):
        return equals(expected, actual)
    if kind == "sparse":
        if not isinstance(actual, dict):
            return False
        if set(actual) == {"indices", "values"}:
            actual = dict(zip(actual["indices"], actual["values"]))
        return set(actual) == set(expected) and all(abs(actual[k] - expected[k]) <= 1e-6 for k in expected)
    if isinstance(expected, np.ndarray):
        actual = np.reshape(actual, ()) if expected.ndim == 0 and np.size(actual) == 1 else actual
        return np.shape(actual) == expected.shape and np.allclose(np.asarray(actual, np.float32), expected, atol=1e-6)
    if expected is SOMETHING:
        return isinstance(actual, str) and actual != ""
    if kind == "json" and isinstance(actual, str):
        actual = json.loads(actual)
    return expected == actual and isinstance(expected, bool) == isinstance(actual, bool)


def differences(c, expected, names, rows):
    """What differs between the output and the oracle's rows; None where nothing does."""
    columns = expected.columns
    if out_format(c) in MATRICES:
        own = ["line"] + (["file"] if len(c["files"]) > 1 else [])
        columns = columns[:-1] + [(name, "string") for name in own if name not in dict(columns)] + columns[-1:]
    wanted = [name for name, _ in columns]
    if names is not None and names != wanted:
        return f"columns {names}, expected {wanted}"
    for row in rows:
        if set(row) != set(wanted):
            return f"columns {sorted(row)}, expected {sorted(wanted)}"
    unequal = lambda row, want: next((name for name, kind in columns if not same(want[name], row[name], kind)), None)
    if c.get("sample"):
        most = min(int(c["sample"]), expected.read)
        rest = iter(expected.rows)
        if c.get("chunk") is None and expected.rejected == 0 and len(rows) != most:
            return f"{len(rows)} rows, expected {most}"
        for row in rows:
            if not any(unequal(row, want) is None for want in rest):
                return f"row {row} is none of the expected ones"
        return None
    if len(rows) != len(expected.rows):
        return f"{len(rows)} rows, expected {len(expected.rows)}"
    for number, (row, want) in enumerate(zip(rows, expected.rows)):
        name = unequal(row, want)
        if name is not None:
            shown = want[name].quantized(want[name].values) if isinstance(want[name], Components) else want[name]
            return f"row {number}, {name}: {str(row[name])[:200]}, expected {str(shown)[:200]}"
    return None
