"""Small hostile files of the formats that the program reads, made with the standard library alone."""

import base64
import json
import struct

# Two rows of text and numbers as an Arrow file, compressed with LZ4: each buffer begins with the length that it claims.
LZ4_FILE = (
    "QVJST1cxAAD/////qAAAABAAAAAAAAoADAAGAAUACAAKAAAAAAEEAAwAAAAIAAgAAAAEAAgAAAAEAAAAAgAAAEwAAAAEAAAAzP///wAAAQIQAAAA"
    "HAAAAAQAAAAAAAAAAQAAAG4AAAAIAAwACAAHAAgAAAAAAAABQAAAABAAFAAIAAYABwAMAAAAEAAQAAAAAAABBRAAAAAcAAAABAAAAAAAAAAEAAAA"
    "dGV4dAAAAAAEAAQABAAAAP/////YAAAAFAAAAAAAAAAMABgABgAFAAgADAAMAAAAAAMEABwAAACQAAAAAAAAAAAAAAAMABwAEAAEAAgADAAMAAAA"
    "eAAAABwAAAAUAAAAAgAAAAAAAAAAAAAABAAEAAQAAAAFAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIwAAAAAAAAAoAAAAAAAAAEAAAAAAAAAA"
    "aAAAAAAAAAAAAAAAAAAAAGgAAAAAAAAAJAAAAAAAAAAAAAAAAgAAAAIAAAAAAAAAAAAAAAAAAAACAAAAAAAAAAAAAAAAAAAADAAAAAAAAAAEIk0Y"
    "YECCDAAAgAAAAAAYAQAAMAIAAAAAAAAAAAAAADACAAAAAAAABCJNGGBAgikAAADvb25lIHR3byB0aHJlZSAOAPffZm91ciBmaXZlIHNpeA4A81Ag"
    "c2l4IAAAAAAQAAAAAAAAAAQiTRhgQIINAAAAEwABAIABAAAAAAAAAAAAAAAAAAAA/////wAAAAAQAAAADAAUAAYACAAMABAADAAAAAAABAA0AAAA"
    "JAAAAAQAAAABAAAAuAAAAAAAAADgAAAAAAAAAJAAAAAAAAAAAAAAAAgACAAAAAQACAAAAAQAAAACAAAATAAAAAQAAADM////AAABAhAAAAAcAAAA"
    "BAAAAAAAAAABAAAAbgAAAAgADAAIAAcACAAAAAAAAAFAAAAAEAAUAAgABgAHAAwAAAAQABAAAAAAAAEFEAAAABwAAAAEAAAAAAAAAAQAAAB0ZXh0"
    "AAAAAAQABAAEAAAA0AAAAEFSUk9XMQ=="
)


def thrift(number):
    """A number in Thrift's compact encoding, with its sign in the lowest bit."""
    number = number << 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def length(size):
    out = b""
    while size > 0x7F:
        out += bytes([size & 0x7F | 0x80])
        size >>= 7
    return out + bytes([size])


def parquet(elements, rows=0):
    """A Parquet file without row groups, whose schema has these elements: (name, children, is a string)."""
    schema = b""
    for name, children, is_leaf in elements:
        name = name.encode()
        if is_leaf:
            # type BYTE_ARRAY, optional, name, UTF8
            schema += b"\x15" + thrift(6) + b"\x25" + thrift(1) + b"\x18" + length(len(name)) + name + b"\x25" + thrift(0) + b"\x00"
        else:
            # optional, name, number of children
            schema += b"\x35" + thrift(1) + b"\x18" + length(len(name)) + name + b"\x15" + thrift(children) + b"\x00"
    count = bytes([len(elements) << 4 | 12]) if len(elements) < 15 else b"\xfc" + length(len(elements))
    footer = b"\x15" + thrift(1) + b"\x19" + count + schema + b"\x16" + thrift(rows) + b"\x19\x0c\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def nested(levels):
    """Groups within groups."""
    return parquet([("schema", 1, False)] + [("group", 1, False)] * (levels - 1) + [("text", 0, True)])


def wide_parquet(columns):
    return parquet([("schema", columns + 1, False), ("text", 0, True)] + [(f"c{n}", 0, True) for n in range(columns)])


def wide_lines(keys):
    more = {f"key {n}": n for n in range(keys)}
    return (json.dumps({"text": "one", **more}) + "\n").encode() * 2


def wide_csv(columns):
    names = ",".join(f"c{n}" for n in range(columns))
    return f"text,{names}\none{',1' * columns}\n".encode()


def long_piece(tokenizer, size):
    """A Unigram tokenizer with a piece of so many bytes."""
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a" * size, -1.0]], "byte_fallback": False}
    return json.dumps({**json.loads(tokenizer), "model": model, "post_processor": None}).encode()


def claiming(claim):
    """The Arrow file, whose buffers claim to hold `claim` bytes."""
    content = bytearray(base64.b64decode(LZ4_FILE))
    magic = struct.pack("<I", 0x184D2204)
    at = content.find(magic)
    while at >= 8:
        content[at - 8:at] = struct.pack("<q", claim)
        at = content.find(magic, at + 1)
    return bytes(content)
