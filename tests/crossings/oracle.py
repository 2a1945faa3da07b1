"""The meaning of a command line of `embedctl embed` or `score`, a second time and naively.

A case is a dictionary: an option's name without dashes (or a word of the setting, such as `content`) and its value.
`refusals` lists the stated rules by which a case is refused. `expected` gives the rows and columns of every other case.
Records are read by Python's own readers, texts are cut and counted by `tokenizers`, and vectors come from a `table.Table`
that the plainest runs have made. `docs/` is the reference for every line here.
"""
import csv, io, json, lzma, os, re, uuid

import numpy as np
import pyarrow as pa
import pyarrow.ipc, pyarrow.parquet
from tokenizers import Tokenizer

FLOATS, BYTES = {"f32", "f16"}, {"int8", "uint8", "binary", "ubinary"}
ALL_TYPES = FLOATS | BYTES
# Types of components that each output format holds; the type where none is named is f32 if it is there.
TYPES = {
    "parquet": ALL_TYPES, "arrow": ALL_TYPES, "arrows": ALL_TYPES, "npy": ALL_TYPES, "npz": {"f32"},
    "jsonl": ALL_TYPES, "jsonl.gz": ALL_TYPES, "jsonl.zst": ALL_TYPES,
    "pgcopy": {"f32", "f16", "binary", "ubinary"},
    "fbin": {"f32"}, "i8bin": {"int8", "binary"}, "u8bin": {"uint8", "ubinary"},
}
DEFAULT_TYPE = {"i8bin": "int8", "u8bin": "uint8"}
MATRICES = {"npy", "npz", "fbin", "i8bin", "u8bin"}
LISTS = {"parquet", "arrow", "arrows"}
LINES = {"jsonl", "jsonl.gz", "jsonl.zst"}
STRUCTS = LISTS | LINES
HOLDS = {"dense": set(TYPES) - {"npz"}, "scores": set(TYPES) - {"npz"}, "sparse": STRUCTS | {"npz", "pgcopy"}, "multi": STRUCTS | {"npy"}}
ENDINGS = {"feather": "arrow", "ipc": "arrow", "ndjson": "jsonl", **{name: name for name in TYPES}}
FIELDS = {"jsonl", "json", "csv", "tsv", "parquet", "arrow", "openai-batch"}
TABLES = {"parquet", "arrow"}
SEPARATED = {"csv", "tsv"}

# The models, and what their files say: kinds of vectors that they can give (the first where none is asked for), the
# width of dense vectors, their engine, and how many tokens a text may have, special ones included.
MODELS = {
    "kinds": dict(path="fixtures/heads/bert/model", kinds=["dense", "sparse", "multi"], width=32, multi=16,
                  weights=["safetensors"], limit=48),
    "sparse": dict(path="fixtures/sparse/bert/model", kinds=["sparse"], width=320, weights=["safetensors"], limit=48),
    "multi": dict(path="fixtures/multi/bert-document/model", kinds=["multi"], multi=8, weights=["safetensors"], limit=48,
                  query=32),
    "onnx": dict(path="fixtures/parity/bert-mean-legacy/model", kinds=["dense"], width=48, weights=["onnx"], limit=64),
    "score": dict(path="fixtures/scores/bert/model", kinds=["scores"], labels=["LABEL_0"], weights=["safetensors", "onnx"],
                  limit=96),
    "labels": dict(path="fixtures/scores/bert-three-labels/model", kinds=["scores"], labels=["no", "maybe", "yes"],
                   weights=["safetensors", "onnx"], limit=96),
}


def model(c):
    return MODELS[c["model"]]


def kinds(c):
    """Kinds of vectors of a row, in the order of their columns."""
    asked = c.get("vectors")
    return asked.split(",") if asked else model(c)["kinds"][:1]


def out_format(c):
    said, named = c.get("output-format"), c.get("ending") or ""
    said = named if said == "jsonl" and c["out"] not in ("folder", "-") and named in LINES else said
    return said or {"folder": "parquet", "-": "jsonl"}.get(c["out"]) or ENDINGS.get(c.get("ending"))


def written_format(c):
    """Arrow is a stream where OUT is not a file."""
    form = out_format(c)
    return "arrows" if form == "arrow" and c["out"] == "-" else form


def dtype(c):
    return c.get("dtype") or DEFAULT_TYPE.get(out_format(c), "f32")


def dimensions(c):
    return [int(n) for n in c["dimensions"].split(",")] if c.get("dimensions") else []


def width(c, kind):
    """Components of a vector, or of a token's."""
    return model(c).get("multi", 8) if kind == "multi" else model(c).get("width", 8) * len(pooling(c).split(","))


def answers(c):
    """Whether each record batch is answered by one, with its own columns."""
    stream = c["source"] == "stdin" and c.get("input-format") == "arrow" and c["out"] == "-"
    stream = stream and c.get("output-format") in ("arrow", "arrows") and not c.get("keep")
    return stream and not c.get("uuid") and not c.get("chunk-id")


# ------------------------------------------------------------------------------------------------------------- input

class Record:
    """A record: its fields with their kinds, and its place; `fault` says why it cannot be read."""

    def __init__(self, fields, file, line, own_id=None, fault=None):
        self.fields, self.file, self.line, self.own_id, self.fault = fields, file, line, own_id, fault
        self.partitions = []

    def get(self, name):
        """The kind and value of a field, `a.b` inside of objects; None where it has none."""
        if name in self.fields:
            return self.fields[name]
        first, _, rest = name.partition(".")
        if rest and first in self.fields and isinstance(self.fields[first][1], dict) and rest in self.fields[first][1]:
            value = self.fields[first][1][rest]
            return (kind_of(value), value)
        return None


def kind_of(value):
    """The kind of a value of JSON."""
    for type_, kind in ((type(None), None), (bool, "bool"), (int, "int64"), (float, "double"), (str, "string")):
        if isinstance(value, type_):
            return kind
    return "json"


def decompressed(path):
    with open(path, "rb") as file:
        content = file.read()
    kind = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get(os.path.splitext(path)[1])
    if path.endswith(".xz"):
        return lzma.decompress(content)
    return pa.input_stream(pa.BufferReader(content), compression=kind).read() if kind else content


def are_documents(c):
    """Whether a file, or standard input, is one record: Markdown is, and text that is cut at headings."""
    is_cut = c["content"] == "text" and c.get("chunk") == "markdown" and not c.get("input-format")
    return c["content"] == "file" or is_cut


def read_file(c, content, path, name):
    """The records of one file, by Python's own readers."""
    data = decompressed(path)
    if are_documents(c):
        return [Record({"text": ("string", data.decode())}, name, 1, own_id=name)]
    if content == "text":
        lines = data.decode().split("\n")[:-1]
        return [Record({"text": ("string", line)}, name, n, own_id=str(n)) for n, line in enumerate(lines, 1)]
    if content in TABLES:
        table = pa.parquet.read_table(io.BytesIO(data)) if content == "parquet" else read_arrow(data)
        types = {field.name: str(field.type) for field in table.schema}
        rows = table.to_pylist()
        return [Record({k: (types[k], v) for k, v in row.items()}, name, n) for n, row in enumerate(rows, 1)]
    if content in SEPARATED:
        return read_csv(c, content, data.decode(), name)
    if content == "json":
        return [from_json(value, name, n) for n, value in enumerate(json.loads(data), 1)]
    lines = [(n, line) for n, line in enumerate(data.decode().split("\n"), 1) if line.strip()]
    if content == "jsonl":
        return [from_json(json.loads(line), name, n) for n, line in lines]
    records = []
    for _, line in lines:
        request = json.loads(line)
        texts = request["body"]["input"]
        for index, text in enumerate(texts if isinstance(texts, list) else [texts]):
            fields = {"id": ("string", request["custom_id"]), "index": ("int64", index), "text": (kind_of(text), text)}
            records.append(Record(fields, name, len(records) + 1))
    return records


def read_arrow(data):
    try:
        return pa.ipc.open_file(data).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(data).read_all()


def from_json(value, name, line):
    return Record({k: (kind_of(v), v) for k, v in value.items()}, name, line)


def read_csv(c, content, data, name):
    quote, escape = c.get("csv-quote", '"'), c.get("csv-escape")
    dialect = dict(delimiter=c.get("csv-delimiter") or {"csv": ",", "tsv": "\t"}[content], strict=False)
    dialect |= dict(quoting=csv.QUOTE_NONE, quotechar=None) if quote == "none" else dict(quotechar=quote or '"')
    reader = csv.reader(io.StringIO(data, newline=""), escapechar=escape, **dialect)
    names, records, line = next(reader), [], 2
    for row in reader:
        null = c.get("csv-null")
        values = [None if null is not None and value == null else value for value in row]
        fault = None if len(row) == len(names) else "fields"
        fields = {k: (None if v is None else "string", v) for k, v in zip(names, values)} if fault is None else {}
        records.append(Record(fields, name, line, fault=fault))
        line = reader.line_num + 1
    return records


def partitions(name):
    """The keys and values of Hive in the folders of a path."""
    return re.findall(r"(?:^|/)(\w+)=([^/]+)(?=/)", name)


def records(c, folder):
    """The records of all inputs, in order. `folder` is where the command runs."""
    found = []
    for content, name in c["files"]:
        path = os.path.join(folder, c.get("piped") or name)
        own = read_file(c, content, path, name)
        keys = partitions(name)
        for record in own:
            record.partitions = keys
            names = kept_fields(c) if content in TABLES else record.fields
            sizes = [len(record.fields[name][1] or "") for name in names if name in record.fields and record.fields[name][0] == "string"]
            if c.get("max-record-bytes") and sum(sizes) > 4096:
                record.fault, record.fields = "it is too long to be read", {}
        found += own
    if c.get("limit") not in (None, "0"):
        found = found[: int(c["limit"])]
    return found


def parts_of(c):
    return [key for _, file in c["files"] for key, _ in partitions(file)]


def partition_fields(c):
    """Columns of partitions, also of files without records: integers if all values of the key are."""
    keys = {}
    for _, name in c["files"]:
        for key, value in partitions(name):
            keys.setdefault(key, []).append(value)
    return {key: "int64" if all(re.fullmatch(r"-?\d+", v) for v in values) else "string" for key, values in keys.items()}


# ------------------------------------------------------------------------------------------------------------- rules

class Rule:
    """A rule by which a case is refused (`code`), or cannot be put (`code` None); `names`: the words that it is about."""

    def __init__(self, why, names, holds, code=2):
        self.why, self.names, self.holds, self.code = why, names, holds, code  # a code, or one of several


def kept(c):
    return c["keep"].split(",") if c.get("keep") else []


def names_of_vectors(c):
    default = "embedding" if kinds(c) != ["scores"] else "score" if len(model(c)["labels"]) == 1 else "scores"
    name = c.get("embedding-field") or default
    dense = [f"{name}_{n}" for n in dimensions(c)] if len(dimensions(c)) > 1 else [name]
    return {kind: dense if i == 0 and kind in ("dense", "scores") else [name if i == 0 else f"{name}_{kind}"]
            for i, kind in enumerate(kinds(c))}


def added(c):
    names = ["chunk", "chunk_start", "chunk_end"] if c.get("chunk") else []
    names += [option.replace("-", "_") for option in ("chunk-text", "chunk-id", "uuid") if c.get(option)]
    if kinds(c) == ["scores"] and len(model(c)["labels"]) > 1:
        names += ["label"] + (["top_labels", "top_scores"] if c.get("top-labels") else [])
    return names + (["embedding_error"] if c.get("on-error") == "null" else [])


def has_fields(c):
    return c["content"] in FIELDS


def kept_columns(c, known):
    """Names and types of what is kept, with those of the `known` fields that `*` stands for."""
    asked = [keep.split(":") for keep in kept(c)]
    if ["*"] in asked:
        names = [keep[0] for keep in asked] + [id_field(c)]
        asked.remove(["*"])
        asked += [[name] for name in dict.fromkeys([*known, *parts_of(c)]) if name not in names]
    return asked


def kept_fields(c):
    return [keep[0] for keep in kept_columns(c, c["fields"])]


def is_shadowed(c, record):
    """Whether a kept field has another value than the folder that stands for it."""
    names = kept_fields(c)
    values = [(value, record.get(key)) for key, value in record.partitions if key in names]
    nothing = (None, "") if c["content"] in SEPARATED else (None,)
    return any(field and field[1] not in nothing and str(field[1]) != value for value, field in values)


def id_field(c):
    name = c.get("id-field", "id")
    return None if name == "none" else name


def name_clash(c):
    """A kept field has the name of another column."""
    if not kept(c) and not answers(c):
        return False
    names = set(c["fields"] if answers(c) else kept_fields(c))
    taken = set(added(c)) | ({"file", "line"} if c.get("source-columns") else set())
    if out_format(c) in MATRICES:
        taken |= {"row", "line"} | ({"file"} if len(c["files"]) > 1 else set())
    else:
        taken |= {name for names in names_of_vectors(c).values() for name in names}
    return bool(names & taken)


def missing_field(c):
    """A field is named that no record has."""
    if not has_fields(c) or c["records"] == "none" and c["content"] in ("jsonl", "json", "openai-batch"):
        return False
    known = c["fields"]
    template = re.findall(r"\{(\w+)\}", c.get("text-template", ""))
    if template and not set(template) & set(known):
        return True
    named = [keep.split(":")[0] for keep in kept(c) if not keep.startswith("*")]
    named += [c["query-field"]] if c.get("query-field") else []
    named += [c["text-field"]] if c.get("text-field") else []
    named += [id_field(c)] if id_field(c) not in (None, "id") else []
    inside = {f"{k}.{n}" for k, names in c["objects"].items() for n in names}
    parts = parts_of(c)
    return any(name not in known and name not in inside and name not in parts for name in named)


def weights(c):
    """The kind of weights that a run takes: what is named, else safetensors for the native engine, and ONNX for others."""
    if c.get("model-file"):
        return "onnx"
    usual = "safetensors" if engine(c) == "native" or "onnx" not in model(c)["weights"] else "onnx"
    return c.get("weights") or usual


def engine(c):
    """The engine: native where the model has safetensors, and nothing else is named."""
    is_native = "safetensors" in model(c)["weights"] and c.get("weights") != "onnx" and not c.get("model-file")
    return c.get("provider") or ("native" if is_native else "cpu" if c["ort"] else "rten")


PRECISIONS = {"native": {"fp32", "int16", "int8", "bf16"}, "rten": {"fp32"}, "cpu": {"fp32"}}


def pooling(c):
    return c.get("pooling") or ("mean" if c["model"] == "onnx" else "cls")


def most_tokens(c):
    """Tokens of a text, special ones and the prompt's not counted."""
    limit = model(c)["limit"] if (c.get("task") or c.get("prompt-name")) != "query" else model(c).get("query", model(c)["limit"])
    most = min(int(c.get("max-length") or limit), limit)
    return most - 2 - len(encode(c, prompt(c)).ids)


def is_set(*names):
    return lambda c: all(c.get(name) is not None for name in names)


def both(*tests):
    return lambda c: all(test(c) for test in tests)


def equal(option, *values):
    return lambda c: c.get(option) in values


def needs(option, other):
    return Rule(f"--{option} needs --{other}", [option, other], lambda c: c.get(option) and not c.get(other))


def excludes(option, other):
    return Rule(f"--{option} and --{other} exclude each other", [option, other], is_set(option, other))


VECTORS = ["model", "vectors"]
FORMAT = ["output-format", "out", "ending"]
INPUT = ["content", "source", "input-format"]

RULES = [
    # Options among themselves.
    excludes("resume", "force"), excludes("prompt", "prompt-name"), excludes("quiet", "verbose"),
    Rule("stores have settings where something is an address", ["storage-option"], is_set("storage-option")),
    Rule("an option of a provider that is not asked for", ["provider-option", "provider"],
         lambda c: c.get("provider-option") and c.get("provider", "cpu") != "cpu"),
    excludes("model-file", "precision"), needs("seed", "sample"), needs("chunk-tokens", "chunk"),
    needs("chunk-overlap", "chunk"), needs("late", "chunk"), needs("chunk-text", "chunk"), needs("chunk-id", "chunk"),
    needs("late", "chunk-tokens"),
    Rule("rejects are of skipped records", ["rejects", "on-error"],
         lambda c: c.get("rejects") and c.get("on-error", "fail") == "fail"),
    Rule("a template names the fields of the text itself", ["text-template", "text-field"],
         lambda c: c.get("text-template") and c.get("text-field", "text") != "text"),
    Rule("a job's folder keeps the rejects itself", ["rejects", "out"], both(is_set("rejects"), equal("out", "folder"))),
    Rule("only folders have shards", ["shard", "out"], lambda c: c.get("shard") and c["out"] != "folder"),
    Rule("only folders have parts", ["part-rows", "out", "resume"],
         lambda c: c.get("part-rows") and c["out"] != "folder" and not (c.get("resume") and c["out"] == "file")),
    Rule("shards do not count others' records", ["shard", "limit", "sample"],
         lambda c: c.get("shard") and (c.get("limit") not in (None, "0") or c.get("sample"))),
    Rule("one file that is read from its beginning", INPUT + ["shard"], lambda c: c.get("shard") and len(c["files"]) == 1
         and (c["source"] not in ("file", "odd") or c["content"] not in ("text", "jsonl", "parquet"))),
    Rule("standard input cannot be divided", ["shard", "source"], both(is_set("shard"), equal("source", "stdin"))),
    Rule("a shard removes nothing that others write", ["shard", "force"], is_set("shard", "force")),
    Rule("a stream cannot be resumed", ["resume", "out"], both(is_set("resume"), equal("out", "-"))),
    # Inputs.
    Rule("CSV's options are about CSV", ["content", "csv-delimiter", "csv-quote", "csv-escape", "csv-null"],
         lambda c: c["content"] not in SEPARATED and any(
             c.get(f"csv-{name}") is not None for name in ("delimiter", "quote", "escape", "null"))),
    Rule("text has no fields", INPUT + ["text-field", "text-template", "id-field", "query-field"],
         lambda c: not has_fields(c) and (c.get("text-template") or c.get("query-field") or c.get("text-field", "text") != "text"
                                          or id_field(c) not in (None, "id"))),
    Rule("text keeps its text alone", INPUT + ["keep"],
         lambda c: not has_fields(c) and any(keep not in ("text", "*") and keep not in parts_of(c) for keep in kept(c))),
    Rule("ids of documents are names", INPUT + ["id-type", "chunk"], lambda c: are_documents(c) and c.get("id-type") == "int"),
    Rule("a table's ids have one type", INPUT + ["id-type", "id-field"], lambda c: c["content"] in TABLES and c.get("id-type") == "int"
         and c.get("id-field") == "key"),
    Rule("no record has the field", INPUT + ["keep", "id-field", "text-field", "text-template", "query-field", "records"],
         missing_field),
    Rule("Parquet is read from its end", INPUT, lambda c: c["content"] == "parquet" and c["source"] == "stdin"),
    Rule("no ending says that a file is a batch", INPUT,
         lambda c: c["content"] == "openai-batch" and c["source"] in ("folder", "hive", "clash")),
    Rule("a table's structures are no JSON", INPUT + ["keep"], lambda c: c["content"] in TABLES and "meta:json" in kept(c)),
    Rule("each shard would choose a type by its own records", INPUT + ["keep", "shard", "text-field", "text-template"], lambda c: 
         c.get("shard") and c["content"] not in TABLES and any(":" not in keep and keep != (
             None if c.get("text-template") else c.get("text-field", "text")) for keep in kept(c))),
    Rule("two columns of one name", INPUT + FORMAT + VECTORS + [
        "keep", "embedding-field", "dimensions", "source-columns", "chunk", "chunk-text", "chunk-id", "uuid", "on-error"],
         name_clash),
    *(Rule("streams are answered for Arrow alone", ["streams", name],
           lambda c, name=name, values=values: c.get("streams") and c.get(name) not in values)
      for name, values in (("source", ["stdin"]), ("content", ["arrow"]), ("out", ["-"]), ("output-format", ["arrow", "arrows"]))),
    Rule("streams have their own columns", ["streams", "keep", "sample", "uuid", "chunk-id"], lambda c: c.get("streams")
         and any(c.get(name) for name in ("keep", "sample", "uuid", "chunk-id"))),
    # Outputs.
    Rule("the ending names no format", FORMAT, lambda c: out_format(c) is None),
    Rule("a matrix needs a file", FORMAT, lambda c: c["out"] == "-" and out_format(c) in MATRICES),
    Rule("a matrix has no names, no nulls and one width", FORMAT + ["embedding-field", "on-error", "dimensions"],
         lambda c: out_format(c) in MATRICES and (c.get("embedding-field") or c.get("on-error") == "null"
                                                  or len(dimensions(c)) > 1)),
    Rule("only Parquet and Arrow have list types", FORMAT + ["vector-type"],
         lambda c: c.get("vector-type") and out_format(c) not in LISTS),
    Rule("the format holds no such type", FORMAT + ["dtype"] + VECTORS,
         lambda c: out_format(c) and dtype(c) not in TYPES[out_format(c)]),
    Rule("the format holds no such vectors", FORMAT + VECTORS,
         lambda c: out_format(c) and any(out_format(c) not in HOLDS[kind] for kind in kinds(c))),
    Rule("the format holds one kind", FORMAT + VECTORS, lambda c: len(kinds(c)) > 1 and out_format(c) not in STRUCTS),
    Rule("int8 needs ranges, and others have none", FORMAT + ["dtype", "calibration"],
         lambda c: (dtype(c) in ("int8", "uint8")) != bool(c.get("calibration"))),
    Rule("OUT exists", ["before", "force", "resume", "out"],
         lambda c: c.get("before") in ("other", "same") and c["out"] != "-" and not c.get("force") and not c.get("resume")),
    Rule("OUT is another run's", ["before", "resume"], both(equal("before", "other"), is_set("resume"))),
    Rule("OUT has other vectors", ["before", "resume", "precision", "dry-run"],
         lambda c: c.get("before") == "precision" and c.get("resume") and not c.get("dry-run")),
    # Kinds of vectors.
    Rule("the model has no such vectors", VECTORS, lambda c: any(kind not in model(c)["kinds"] for kind in kinds(c)), (1, 2)),
    Rule("an option of dense vectors", VECTORS + ["dtype", "calibration", "vector-type", "pooling", "normalize", "dimensions"],
         lambda c: kinds(c) == ["sparse"] and (c.get("dtype", "f32") != "f32" or any(
             c.get(name) for name in ("calibration", "vector-type", "pooling", "normalize", "dimensions")))),
    Rule("vectors of tokens have no such option", VECTORS + ["pooling", "dimensions", "normalize", "vector-type"],
         lambda c: kinds(c) == ["multi"] and (c.get("pooling") or c.get("dimensions") or c.get("normalize") == "false"
                                              or c.get("vector-type") == "list")),
    Rule("maps are of sparse vectors", VECTORS + FORMAT + ["sparse-tokens"],
         lambda c: c.get("sparse-tokens") and ("sparse" not in kinds(c) or out_format(c) not in STRUCTS)),
    Rule("entries are of sparse vectors", VECTORS + ["max-active-dims"], lambda c: c.get("max-active-dims") and "sparse" not in kinds(c)),
    Rule("clusters are of vectors of tokens", VECTORS + ["pool-factor"], lambda c: c.get("pool-factor") and "multi" not in kinds(c)),
    Rule("queries are not clustered", VECTORS + ["pool-factor", "task", "prompt-name"], lambda c: c.get("pool-factor") and
         "multi" in kinds(c) and (c.get("task") or c.get("prompt-name")) == "query"),
    Rule("queries have a fixed length", ["model", "max-length", "task", "prompt-name"], lambda c: c.get("max-length")
         and c["model"] == "multi" and (c.get("task") or c.get("prompt-name")) == "query"),
    Rule("late chunks are of pooled tokens", VECTORS + ["late", "pooling"],
         lambda c: c.get("late") and (kinds(c) != ["dense"] or set(pooling(c).split(",")) - {"mean", "max"})),
    # Chunks.
    Rule("a chunk is longer than the model takes", ["chunk", "chunk-tokens", "max-length", "prompt", "task", "prompt-name"] + VECTORS,
         lambda c: c.get("chunk-tokens") and int(c["chunk-tokens"]) > most_tokens(c)),
    # Reuse.
    Rule("late chunks are not looked up", ["late", "reuse"], is_set("late", "reuse")),
    Rule("quantized vectors are not read back", ["reuse", "dtype"] + FORMAT, both(is_set("reuse"), lambda c: dtype(c) in BYTES)),
    # Engines.
    Rule("the engine has no such precision", ["precision", "provider", "weights", "model"],
         lambda c: c.get("precision") and c["precision"] not in PRECISIONS[engine(c)], (1, 2)),
    Rule("the model has no such weights", ["weights", "provider", "model", "model-file", "precision"], lambda c: (
        weights(c) not in model(c)["weights"] or (weights(c) == "onnx" and engine(c) == "native")
        or (c.get("model-file") and c.get("weights") == "safetensors")), (1, 2)),
]


def refusals(c, rules=RULES):
    return [rule for rule in rules if rule.holds(c)]


TOKENIZERS = {}


def encode(c, text):
    path = os.path.join(c["root"], model(c)["path"], "tokenizer.json")
    if path not in TOKENIZERS:
        TOKENIZERS[path] = Tokenizer.from_file(path)
        TOKENIZERS[path].no_truncation()
        TOKENIZERS[path].no_padding()
    return TOKENIZERS[path].encode(text, add_special_tokens=False)


def prompt(c):
    return c.get("prompt") or ""


def marks(text, by):
    """Places where parts of a text begin, the coarsest kind first."""
    sentences = [m.end() for m in re.finditer(r"(?:[.?!]\s+(?=[^a-z\s])|\n)", text)]
    if by == "tokens":
        return []
    if by == "sentences":
        return [sentences]
    starts, blank = [], True
    for m in re.finditer(r"[^\n]*(?:\n|$)", text):
        starts += [m.start()] if blank and m.group().strip() else []
        blank = not m.group().strip() or by == "markdown" and bool(re.match("#{1,6} ", m.group()))
    if by == "paragraphs":
        return [starts, sentences]
    lines = {start: text[start:].split("\n")[0] for start in starts}
    levels = [[s for s in starts if re.match("#" * n + " ", lines[s])] for n in range(1, 7)]
    headings = sorted(s for level in levels for s in level)
    # A heading is never parted from the beginning of its text.
    behind = {h: next(s for s in starts if s > h) for h in headings if h < starts[-1]}
    blocks = [s for s in starts if s not in headings and s not in behind.values()]
    levels = [[s for s in level if s not in behind.values()] for level in levels]
    items = [m.start() for m in re.finditer(r"^- ", text, re.M)]
    parts = [s for s in sorted(set(items) | set(blocks)) if s not in blocks or s in items]
    inside = lambda place: any(h < place <= end for h, end in behind.items())
    return levels + [blocks] + [[s for s in level if not inside(s)] for level in (parts, sentences)]


def chunks(c, text):
    """The parts (start, end) of a text, in code points."""
    by, most, overlap = c["chunk"], int(c.get("chunk-tokens") or most_tokens(c)), int(c.get("chunk-overlap") or 0)
    count = lambda start, end: len(encode(c, text[start:end]).ids)
    if count(0, len(text)) <= most:
        return [(0, len(text))]
    spaces = [m.end() for m in re.finditer(r"\s+(?=\S)", text)]
    levels = marks(text, by) + [spaces]
    trim = lambda start, end: start + len(text[start:end].rstrip())
    skip = lambda place: len(text) - len(text[place:].lstrip())
    found, after, starts = [], skip(0), [skip(0)]
    while after < len(text):
        cut = next((start, end, level) for level in levels for start in starts
                   for end in [max((e for e in level + [len(text)] if e > after and count(start, trim(start, e)) <= most),
                                   default=None)] if end is not None)
        start, end, level = cut
        found.append((start, trim(start, end)))
        starts = [s for s in level if start < s < found[-1][1] and count(s, found[-1][1]) <= overlap] if overlap else []
        after = skip(end)
        starts = (starts if end < len(text) else []) + [after]
    return found or [(0, 0)]


# ------------------------------------------------------------------------------------------------------------- vectors

def key_of(c, kind):
    """The plain run whose vectors are those of this case, but for arithmetic."""
    several = len(model(c)["kinds"]) > 1
    arguments = ["--vectors", kind] if several else []
    names = ["precision"] if c.get("precision") != "fp32" else []
    names += {"dense": ["pooling"], "sparse": [], "multi": ["pool-factor", "task", "prompt-name"],
              "scores": ["max-length", "query-field", "prompt"]}[kind]
    if kind == "dense" and c.get("normalize") == "false":
        names += ["normalize"]
    if c.get("late"):
        names += ["chunk", "chunk-tokens", "chunk-overlap", "max-length", "prompt"]
    for name in names:
        if c.get(name):
            arguments += [f"--{name}", c[name]]
    arguments += ["--late"] if c.get("late") else []
    plain = {**c, "provider": None, "weights": None, "model-file": None}
    if engine(c) != engine(type(c)(plain)):
        arguments += ["--provider", engine(c)]
    if weights(c) != model(c)["weights"][0] or engine(c) != "native" and len(model(c)["weights"]) > 1:
        arguments += ["--weights", weights(c)]
    return (c["command"], c["model"], tuple(arguments))


def vector(c, kind, text, span, table):
    """A text's vector of one kind in float32."""
    key = key_of(c, kind)
    if c.get("late") or isinstance(text, tuple) or kind == "scores":
        return table.get(key, text, *([span] if c.get("late") else []))
    text = prompt(c) + text[span[0]:span[1]]
    if c.get("max-length"):
        tokens = encode(c, text)
        most = int(c["max-length"]) - 2
        if len(tokens.ids) > most:
            text = text[: tokens.offsets[most - 1][1]]
    return table.get(key, text)


def vectors(c, text, span, table):
    """All vectors of a row by the names of their columns."""
    found = {}
    for kind, names in names_of_vectors(c).items():
        value = vector(c, kind, text, span, table)
        if kind == "sparse":
            if c.get("max-active-dims"):
                value = dict(sorted(value.items(), key=lambda entry: (-abs(entry[1]), entry[0]))[: int(c["max-active-dims"])])
            if c.get("sparse-tokens"):
                encode(c, "")
                tokenizer = TOKENIZERS[os.path.join(c["root"], model(c)["path"], "tokenizer.json")]
                value = {tokenizer.id_to_token(index) or f"[{index}]": weight for index, weight in value.items()}
            found[names[0]] = value
            continue
        if kind == "scores":
            powers = np.exp(value - value.max()) if c.get("softmax") and value.ndim else None
            found[names[0]] = value if powers is None else powers / powers.sum()
            continue
        for name, width in zip(names, (dimensions(c) if kind == "dense" else []) or [value.shape[-1]]):
            short = value[..., :width]
            if c.get("normalize") == "true":
                length = np.linalg.norm(short, axis=-1, keepdims=True)
                short = short / np.where(length > 0, length, 1)
            found[name] = Components(short, dtype(c), ranges(name, width))
    return found


def ranges(name, width):
    """The least and the greatest value of each component that a case's calibration gives."""
    reach = 0.05 + 0.3 * (np.arange(width, dtype=np.float32) % 5)
    return -reach, (reach * np.float32(0.9)).astype(np.float32)


class Components:
    """A vector, or one for each token, in the type of its components."""

    NUMPY = {"f32": np.float32, "f16": np.float16, "int8": np.int8, "uint8": np.uint8, "binary": np.int8, "ubinary": np.uint8}

    def __init__(self, values, type_, ranges_):
        self.values, self.type, self.ranges = values.astype(np.float32), type_, ranges_

    def quantized(self, values):
        if self.type in ("f32", "f16"):
            return values.astype(self.NUMPY[self.type])
        if self.type in ("int8", "uint8"):
            low, high = self.ranges
            steps = np.clip(np.floor((values - low) / ((high - low) / np.float32(255))), 0, 255)
            return (steps - (128 if self.type == "int8" else 0)).astype(self.NUMPY[self.type])
        bits = np.packbits(values > 0, axis=-1)
        return (bits.astype(np.int16) - 128).astype(np.int8) if self.type == "binary" else bits


# ------------------------------------------------------------------------------------------------------------- rows

SOMETHING = object()  # a text of any content, such as the reason of an error


class Expected:
    """All that a run writes: columns (name, kind) in order, rows, how many records were read and rejected."""

    def __init__(self):
        self.columns, self.rows, self.texts, self.read, self.rejected = [], [], [], 0, 0

    def code(self, c):
        if c.get("fail-on-empty") and self.read == self.rejected:
            return 1
        if self.rejected and c.get("on-error", "fail") == "fail":
            return 1
        return 3 if self.rejected else 0


def text_of(c, record):
    """The text of a record, or a pair of texts; None where it has none."""
    if record.fault or not is_id(c, record) or is_shadowed(c, record):
        return None
    most = 4096 if c.get("max-record-bytes") else 4 << 20
    if c.get("text-template"):
        names = re.findall(r"\{(\w+)\}", c["text-template"])
        if all(record.get(name) is None or record.get(name)[1] is None for name in names):
            return None
        shown = lambda field: "" if field is None or field[1] is None else str(field[1])
        text = re.sub(r"\{(\w+)\}", lambda m: shown(record.get(m.group(1))), c["text-template"])
    else:
        found = record.get(c.get("text-field") or "text")
        text = found[1] if found else None
    if not isinstance(text, str) or len(text.encode()) > most:
        return None
    if c.get("query-field"):
        query = record.get(c["query-field"])
        return (query[1], text) if query and isinstance(query[1], str) else None
    return text


def is_id(c, record):
    """Whether the id has the type that is asked for: a string of JSON is no integer."""
    field = id_field(c) and record.get(id_field(c))
    return not (field and c.get("id-type") == "int" and c["content"] in ("jsonl", "json", "openai-batch") and field[0] == "string")


def id_of(c, record):
    """The kind and the value of a record's id."""
    field = None if not id_field(c) else record.get(id_field(c)) if has_fields(c) and record.own_id is None else ("string", record.own_id)
    kind, value = field or ("string", None)
    if c["content"] in SEPARATED and value == "":
        value = None
    if c.get("id-type") == "int":
        return "int64", int(value) if value is not None and is_id(c, record) else None
    if c["content"] in TABLES and c.get("id-type", "kept") == "kept":
        return kind, value
    return "string", None if value is None else str(value)


def has_integer_ids(c, found):
    """Whether ids of JSON keep their type: all of the records that can be embedded are integers."""
    if c["content"] not in ("jsonl", "json") or c.get("id-type", "kept") != "kept":
        return False
    ids = [record.get(id_field(c)) for record in found if not record.fault]
    return {field[0] for field in ids if field and field[1] is not None} == {"int64"}


def converted(value, kind, typed, content):
    """A kept value in the type that is asked for."""
    if value is None or (content in SEPARATED and value == "" and typed != "string"):
        return None
    if typed in ("int", "int64", "float", "double"):
        return int(value) if typed.startswith("int") else float(value)
    if typed == "bool":
        return value in (True, "true")
    if typed == "string":
        return value if isinstance(value, str) else json.dumps(value)
    return json.loads(value) if content in SEPARATED or (isinstance(value, str) and content in TABLES) else value


NAMED = {"int": "int64", "float": "double", "string": "string", "bool": "bool", "json": "json"}


def columns_of_records(c, found):
    """The columns that records bring: (name, kind, how to get the value)."""
    def field_column(name, typed):
        values = [(record.get(name) or (None, None)) for record in found if not record.fault]
        known = [kind for kind, _ in values if kind is not None]
        kind = NAMED[typed] if typed else known[0] if known else "string"
        asked = typed or (kind if c["content"] not in TABLES else None)
        def get(record):
            value = (record.get(name) or (None, None))[1]
            return converted(value, None, asked, c["content"]) if asked else value
        return name, kind, get
    if answers(c):
        return [field_column(name, None) for name in c["fields"]]
    parts = partition_fields(c)
    known = c["fields"] if found or c["content"] not in ("jsonl", "json", "openai-batch") else []
    own, named = [], [keep for keep in kept_columns(c, known) if keep != ["id"] or id_field(c) != "id"]
    columns = [field_column(keep[0], (keep[1:] or [None])[0]) for keep in named if keep[0] not in parts]
    for name, *typed in (keep for keep in named if keep[0] in parts):
        kind = NAMED[typed[0]] if typed else parts[name]
        read = int if kind == "int64" else str
        columns.append((name, kind, lambda record, name=name, read=read: read(dict(record.partitions)[name])))
    if c.get("source-columns"):
        columns += [("file", "string", lambda record: record.file), ("line", "int64", lambda record: record.line)]
    if id_field(c):
        own_name = "id" if "id" not in [name for name, _, _ in columns] else id_field(c)
        kind = next((id_of(c, record)[0] for record in found if not record.fault), "string")
        own = [(own_name, kind, lambda record: id_of(c, record)[1])]
        if has_integer_ids(c, found):
            own = [(own_name, "int64", lambda record: None if id_of(c, record)[1] is None else int(id_of(c, record)[1]))]
    return own + columns


def key_name(c, record, part):
    """The UUID of a row."""
    value = id_of(c, record)[1]
    lines = [record.file, f":{record.line}" if value is None else str(value)] + ([] if part is None else [str(part)])
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(lines)))


def expected(c, folder, table):
    """The rows and columns of a case that is not refused."""
    found, e = records(c, folder), Expected()
    columns = columns_of_records(c, found)
    e.columns = [(name, kind) for name, kind, _ in columns]
    types = {"chunk": "int64", "chunk_start": "int64", "chunk_end": "int64", "top_labels": "strings", "top_scores": "floats"}
    e.columns += [(name, types.get(name, "string")) for name in added(c)]
    e.columns += [(name, kind) for kind, names in names_of_vectors(c).items() for name in names]
    e.read = len(found)
    for record in found:
        text = text_of(c, record)
        if text is None:
            e.rejected += 1
            if c.get("on-error") != "null":
                continue
        spans = [(0, 0)] if text is None or isinstance(text, tuple) else chunks(c, text) if c.get("chunk") else [(0, len(text))]
        for part, (start, end) in enumerate(spans):
            row = {name: get(record) for name, _, get in columns}
            is_chunk, value = c.get("chunk") and text is not None, id_of(c, record)[1]
            if c.get("chunk"):
                row |= dict(zip(("chunk", "chunk_start", "chunk_end"), (part, start, end) if is_chunk else (None,) * 3))
                row["chunk_text"] = text[start:end] if is_chunk else None
                where = f"{record.file}:{record.line}" if value is None or not id_field(c) else value
                row["chunk_id"] = f"{where}#{part}" if is_chunk else None
            row["uuid"] = key_name(c, record, part if is_chunk else None)
            row["embedding_error"] = None if text is not None else SOMETHING
            own = vectors(c, text, (start, end), table) if text is not None else {}
            row |= {name: own.get(name) for names in names_of_vectors(c).values() for name in names}
            if kinds(c) == ["scores"]:
                scores = next(iter(own.values()), None)
                labels, top = model(c)["labels"], int(c.get("top-labels") or 0)
                order = [] if scores is None or not scores.ndim else sorted(range(len(labels)), key=lambda n: (-scores[n], n))
                row["label"] = labels[order[0]] if order else None
                row["top_labels"] = [labels[n] for n in order[:top]] if order else None
                row["top_scores"] = np.array([scores[n] for n in order[:top]], np.float32) if order else None
            row["line"] = row.get("line", record.line)
            row["file"] = row.get("file", record.file)
            e.rows.append(row)
            e.texts.append(None if text is None else text if isinstance(text, tuple) else text[start:end])
    return e
