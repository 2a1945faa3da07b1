"""The inputs of cases: a few records in every format, in files, folders, patterns and streams."""

import bz2, csv, gzip, io, json, lzma, os

import pyarrow as pa
import pyarrow.ipc, pyarrow.parquet

LONG = """# The harbour

The baker sold bread, cakes and coffee at dawn. A small boat crossed the harbour twice. Two cities are written here!

## Lines

- the list is long
- the same sentence twice

After the list there is a text. It has two sentences, and the third one is long: all of the cities and all of the lines.

# The end

This is the end of the text."""

ROWS = [
    dict(id=11, key=101, text="The baker sold bread and cakes.", title="Alpha", body="two small cities", query="who sold bread"),
    dict(id=12, key=102, text="A small boat crossed the harbour at dawn.", title='Be "ta", x;y|z', body="the list", query="boat"),
    dict(id=13, key=103, text="the same sentence twice", title="crème brûlée", body="the same sentence twice", query="boat"),
    dict(id=14, key=104, text="the same sentence twice", title=None, body="again and again", query="who sold bread"),
    dict(id=15, key=105, text="", title="Empty", body="one, two", query="coffee"),
    dict(id=16, key=106, text=LONG, title="Long", body="one list of numbers", query="what is at the end"),
    dict(id=17, key=107, text="crème brûlée, naïve 京東 [SEP] it's 50%", title="Words", body="", query="京"),
    dict(id=18, key=108, text="two", title="Short", body="bread", query="two"),
]
for number, row in enumerate(ROWS):
    row.update(year=None if number == 6 else 1990 + number, ok=number % 2 == 0, meta={"lang": "de" if number % 3 else "en"},
               embedding=[0.5, float(number)], embedding_sparse=f"old {number}")
BAD = 5  # the place of the record whose text is null
BIG = "boat " * 1200  # longer than 4 KiB

FIELDS = {
    "text": ["text"], "file": ["text"], "openai-batch": ["id", "index", "text"],
    **{content: list(ROWS[0]) for content in ("jsonl", "json", "parquet", "arrow")},
    **{content: ["meta.lang" if name == "meta" else name for name in ROWS[0]] for content in ("csv", "tsv")},
}
ENDING = {"text": "txt", "file": "md", "openai-batch": "jsonl"}
# The words of a case that decide where its inputs lie and which fields they have.
DECIDING = {"content", "source"}


def describe(c):
    """Adds to a case its files, the fields of its records, and the objects among them with their keys."""
    content, source = c["content"], c["source"]
    ending = ENDING.get(content, content)
    names = {
        "odd": ["in/data.dat"], "stdin": ["standard input"], "folder": [f"in/a.{ending}", f"in/sub/b.{ending}"],
        "pattern": [f"in/a.{ending}", f"in/sub/b.{ending}"], "several": [f"in/b.{ending}", f"in/a.{ending}"],
        "hive": [f"in/shelf=7/a.{ending}", f"in/shelf=8/b.{ending}"],
        "clash": [f"in/text=yyy/b.{ending}", f"in/text=zzz/a.{ending}"],
    }.get(source, [f"in/data.{ending}" + (f".{source}" if source != "file" else "")])
    c["files"] = [(content, name) for name in names]
    c["fields"] = FIELDS[content]
    c["objects"] = {"meta": ["lang"]} if "meta" in c["fields"] else {}
    c["piped"] = None
    return c


def named(c):
    """The inputs as the command line names them."""
    return {"stdin": ["-"], "folder": ["in"], "hive": ["in"], "clash": ["in"],
            "pattern": [f"in/**/*.{ENDING.get(c['content'], c['content'])}"]}.get(c["source"]) or [name for _, name in c["files"]]


def write(c, folder):
    """Writes the inputs of a case below `folder`; its files, and the one that is standard input."""
    rows = [] if c["records"] == "none" else [dict(row) for row in ROWS]
    if c.get("max-record-bytes") == "4KiB" and rows:
        rows[4]["text"] = rows[4]["body"] = BIG
    if c["records"] == "bad":
        rows[BAD].update(text=None, body=None, title=None)
    flat = c["content"] == "text" or c["content"] in ("csv", "tsv") and c.get("csv-quote") == "none"
    if flat:
        for row in rows:
            for name, value in row.items():
                if isinstance(value, str):
                    row[name] = " ".join(value.replace(";", ":").replace("|", ":").replace(",", ":").split("\n"))
    if c["content"] == "file" and c["source"] not in ("folder", "pattern", "several", "hive", "clash"):
        rows = rows[5:6]
    files = c["files"]
    parts = [rows] if len(files) == 1 else [rows[:5], rows[5:]]
    if c["content"] == "file":
        parts = [rows[5 - n:6 - n] for n in range(len(files))]
    piped = None
    for (content, name), part in zip(files, parts):
        if c["source"] == "stdin":
            piped = "piped"
        path = os.path.join(folder, piped or name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(compressed(encoded(c, content, part), path))
    return files, piped


def compressed(content, path):
    if path.endswith(".gz"):
        return gzip.compress(content)
    if path.endswith(".bz2"):
        return bz2.compress(content)
    if path.endswith(".xz"):
        return lzma.compress(content)
    if path.endswith(".zst"):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as file:
            file.write(content)
        return sink.getvalue().to_pybytes()
    return content


def encoded(c, content, rows):
    lines = lambda values: "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()
    if content == "text":
        return "".join(row["text"] + "\n" for row in rows).encode()
    if content == "file":
        return "".join(row["text"] for row in rows).encode()
    if content == "jsonl":
        return lines(rows)
    if content == "json":
        return json.dumps(rows, indent=1).encode()
    if content == "openai-batch":
        texts = [[row["text"]] if number % 2 else row["text"] for number, row in enumerate(rows)]
        texts[1:2] = [[rows[1]["text"], rows[1]["body"]]] if len(rows) > 1 else texts[1:2]
        return lines({"custom_id": str(row["key"]), "method": "POST", "url": "/v1/embeddings", "body": {"model": "m", "input": text}}
                     for row, text in zip(rows, texts))
    if content in ("csv", "tsv"):
        return separated(c, content, rows)
    return table(content, rows)


def separated(c, content, rows):
    quote, escape, null = c.get("csv-quote") or '"', c.get("csv-escape"), c.get("csv-null")
    style = dict(quoting=csv.QUOTE_NONE, quotechar=None) if quote == "none" else dict(quotechar=quote)
    if escape and quote != "none":
        style["quoting"] = csv.QUOTE_ALL  # without quotes around it the character stands for itself
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=c.get("csv-delimiter") or {"csv": ",", "tsv": "\t"}[content], escapechar=escape,
                        doublequote=escape is None, lineterminator="\n", **style)
    writer.writerow(FIELDS[content])
    for row in rows:
        values = {**row, "meta.lang": row["meta"]["lang"], "embedding": json.dumps(row["embedding"]).replace(",", "")}
        values = [null if values[name] is None and null else "" if values[name] is None else str(values[name])
                  for name in FIELDS[content]]
        if row["text"] is None and not null:
            values = values[:2]  # a row with too few fields
        writer.writerow(values)
    return file.getvalue().encode()


def table(content, rows):
    schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("text", pa.string()), ("title", pa.string()),
                        ("body", pa.string()), ("query", pa.string()), ("year", pa.int32()), ("ok", pa.bool_()),
                        ("meta", pa.struct([("lang", pa.string())])), ("embedding", pa.list_(pa.float64())),
                        ("embedding_sparse", pa.string())])
    found, sink = pa.Table.from_pylist([{**row, "key": str(row["key"])} for row in rows], schema), io.BytesIO()
    if content == "parquet":
        pa.parquet.write_table(found, sink, row_group_size=3)
    else:
        with pa.ipc.new_stream(sink, schema) as file:
            file.write_table(found, max_chunksize=3)
    return sink.getvalue()


def half(texts):
    """The texts that the earlier output holds: every other one."""
    return [text for text in dict.fromkeys(texts) if text is not None][::2]
