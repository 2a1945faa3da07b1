#!/usr/bin/env python3
"""Rerankers, sparse vectors and vectors of tokens beside sentence-transformers: whole processes, in turn.

    python3 -m venv venv && venv/bin/pip install -r fixtures/parity/requirements.txt scipy pyarrow
    venv/bin/python benches/kinds/compare.py [--embedctl target/release/embedctl] [--rounds 2] [KIND...]

Three shapes with random weights, made in --work once: ms-marco-MiniLM's (6 layers of 384) over 5,000 pairs, SPLADE's
(DistilBERT, 768, a vocabulary of 30,522) and ColBERT's (BERT base, 128 dimensions) over 2,000 texts. Texts are drawn from
this repository's own documents, some 100 tokens each. `--texts` takes fewer of them.

The reference runs in fp32 with its best of the batch sizes 32 and 128, tried on a tenth of the texts. Prints a table:
seconds by the clock (least to most), and how int8 agrees with fp32: Spearman's correlation of scores, or the share of the
ten nearest texts of 50 queries by dot product or MaxSim.
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "fixtures/models/all-MiniLM-L6-v2"
COUNTS = {"score": 5000, "sparse": 2000, "multi": 2000}
WORDS = {"score": 38, "sparse": 76, "multi": 76}


def draw(count, words, seed):
    """Texts of whole words from the documents, each from another place."""
    text = " ".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    all_words = re.findall(r"[A-Za-z0-9][\w,.'-]*", text)
    chance = random.Random(seed)
    for _ in range(count):
        length = max(5, int(chance.gauss(words, words / 4)))
        start = chance.randrange(len(all_words) - length)
        yield " ".join(all_words[start:start + length])


def make_model(kind, folder):
    """A random model of the kind's shape."""
    import torch
    import transformers

    torch.manual_seed(7)
    plain = folder / "plain"
    tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    if kind == "score":
        config = transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
                                         num_labels=1)
        network = transformers.BertForSequenceClassification(config)
        network.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        return
    if kind == "sparse":
        from sentence_transformers import SparseEncoder
        from sentence_transformers.sparse_encoder.models import MLMTransformer, SpladePooling
        transformers.DistilBertForMaskedLM(transformers.DistilBertConfig()).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        modules = [MLMTransformer(str(plain)), SpladePooling()]
        SparseEncoder(modules=modules, device="cpu").save_pretrained(str(folder / "model"), create_model_card=False)
    else:
        from sentence_transformers import MultiVectorEncoder
        from sentence_transformers.base.modules import Normalize, Transformer
        from sentence_transformers.base.modules.dense import Dense
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
        transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        dense = Dense(768, 128, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings")
        modules = [Transformer(str(plain)), dense, MultiVectorMask(), Normalize(module_input_name="token_embeddings")]
        MultiVectorEncoder(modules=modules, device="cpu").save_pretrained(str(folder / "model"), create_model_card=False)
    shutil.rmtree(plain)


def reference(kind, model, source, batch, count):
    """The reference's process: encodes `count` of the texts and prints its seconds and texts."""
    import torch

    torch.set_num_threads(2)
    rows = [json.loads(line) for line in open(source)][:count]
    if kind == "score":
        from sentence_transformers import CrossEncoder
        CrossEncoder(model, device="cpu").predict([(row["query"], row["text"]) for row in rows], batch_size=batch)
    elif kind == "sparse":
        from sentence_transformers import SparseEncoder
        SparseEncoder(model, device="cpu").encode([row["text"] for row in rows], batch_size=batch)
    else:
        from sentence_transformers import MultiVectorEncoder
        MultiVectorEncoder(model, device="cpu").encode_document([row["text"] for row in rows], batch_size=batch)


def timed(command, quiet=True):
    began = time.monotonic()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "EMBEDCTL_NO_CONFIG": "1"}
    done = subprocess.run([str(part) for part in command], capture_output=quiet, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return time.monotonic() - began


def agreement(kind, exact, rough, count):
    """How the rows of int8 agree with those of fp32."""
    import numpy as np
    import pyarrow.parquet as pq

    tables = [pq.read_table(path) for path in (exact, rough)]
    if kind == "score":
        ranks = [np.argsort(np.argsort(table["score"].to_numpy())) for table in tables]
        return f"Spearman {np.corrcoef(*ranks)[0, 1]:.5f}"
    queries = range(0, count, max(1, count // 50))
    nearest = []
    for table in tables:
        rows = table.column(table.num_columns - 1).to_pylist()
        if kind == "sparse":
            import scipy.sparse as sp
            ends = np.cumsum([0] + [len(row["indices"]) for row in rows])
            indices = np.concatenate([row["indices"] for row in rows])
            values = np.concatenate([row["values"] for row in rows])
            matrix = sp.csr_matrix((values, indices, ends))
            scores = (matrix[list(queries)] @ matrix.T).toarray()
        else:
            rows = [np.array(row, dtype=np.float32) for row in rows]
            ends = np.cumsum([0] + [len(row) for row in rows])[:-1]
            flat = np.concatenate(rows)
            # The first 32 tokens of a text as a query.
            scores = np.array([np.maximum.reduceat(rows[query][:32] @ flat.T, ends, axis=1).sum(axis=0) for query in queries])
        for place, query in enumerate(queries):
            scores[place, query] = -np.inf
        nearest.append([set(row) for row in np.argsort(-scores, axis=1)[:, :10]])
    shared = [len(a & b) / 10 for a, b in zip(*nearest)]
    return f"top ten {100 * sum(shared) / len(shared):.1f} %"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--embedctl", default=ROOT / "target/release/embedctl")
    parser.add_argument("--work", type=Path, default=ROOT / "target/kinds")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--texts", type=int)
    parser.add_argument("--reference", nargs=5, metavar=("KIND", "MODEL", "SOURCE", "BATCH", "COUNT"), help=argparse.SUPPRESS)
    parser.add_argument("kinds", nargs="*", default=[])
    args = parser.parse_args()
    if args.reference:
        kind, model, source, batch, count = args.reference
        return reference(kind, model, source, int(batch), int(count))
    print("| shape | program | seconds | times the reference's speed | agreement with fp32 |\n|---|---|--:|--:|---|", flush=True)
    for kind in args.kinds or COUNTS:
        folder = args.work / kind
        if not (folder / "model").exists():
            make_model(kind, folder)
        count = args.texts or COUNTS[kind]
        source = folder / f"{count}.jsonl"
        with open(source, "w") as out:
            queries = draw(count, 12, 1)
            for number, (query, text) in enumerate(zip(queries, draw(count, WORDS[kind] * (2 if kind == "score" else 1), 2))):
                out.write(json.dumps({"id": number, "query": query, "text": text}) + "\n")
        model = folder / "model"

        def by_reference(batch, texts):
            return timed([sys.executable, __file__, "--reference", kind, model, source, batch, texts])

        best = min((32, 128), key=lambda batch: by_reference(batch, max(64, count // 10)))
        with tempfile.TemporaryDirectory() as work:
            outputs = {precision: Path(work) / f"{precision}.parquet" for precision in ("fp32", "int8")}
            programs = {f"sentence-transformers, fp32, batches of {best}": lambda: by_reference(best, count)}
            for precision, output in outputs.items():
                told = ["score", "--query-field", "query"] if kind == "score" else ["embed"]
                command = [args.embedctl, *told, source, "-m", model, "-p", "native", "--precision", precision, "--no-cache",
                           "-o", output, "--force", "-q"]
                programs[f"embedctl, {precision}"] = lambda command=command: timed(command)
            times = {name: [] for name in programs}
            for _ in range(args.rounds):
                for name, run in programs.items():
                    times[name].append(run())
            base = min(next(iter(times.values())))
            for name, seconds in times.items():
                agrees = agreement(kind, outputs["fp32"], outputs["int8"], count) if name.endswith("int8") else ""
                spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
                print(f"| {kind}, {count:,} | {name} | {spread} | {base / min(seconds):.2f} | {agrees} |", flush=True)


if __name__ == "__main__":
    main()
