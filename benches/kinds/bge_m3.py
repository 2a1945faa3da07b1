#!/usr/bin/env python3
"""The three kinds of vectors of a model of bge-m3's real shape, in one pass, beside FlagEmbedding's BGEM3FlagModel.

    python3 -m venv venv && venv/bin/pip install -r fixtures/parity/requirements.txt scipy pyarrow
    venv/bin/pip install --no-deps FlagEmbedding==1.4.2
    venv/bin/python benches/kinds/bge_m3.py [--embedctl target/release/embedctl] [--work FOLDER]

Makes an XLM-RoBERTa-large of 24 layers with a vocabulary of 250,002 and random weights in --work (2.3 GB), with the
tokenizer of fixtures/parity/e5-prompts, whose ids are the first of the vocabulary. Fifteen texts of 1 to 700 words go through
both programs in fp32. Prints the greatest difference between two numbers of each kind.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
TOKENIZER = ROOT / "fixtures/parity/e5-prompts/model"
WORDS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 500, 700]


def make(folder):
    """A checkpoint of the shape, with bge-m3's layers beside the network."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.XLMRobertaConfig(
        vocab_size=250_002, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        max_position_embeddings=8194, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    network = transformers.XLMRobertaModel(config).eval()
    network.save_pretrained(folder)
    with torch.no_grad():
        states = network(torch.randint(3, 1000, (1, 200))).last_hidden_state[0]
    for path in TOKENIZER.iterdir():
        if "token" in path.name or path.suffix == ".model":
            shutil.copy(path, folder / path.name)
    for name, width in {"sparse_linear.pt": 1, "colbert_linear.pt": 1024}.items():
        layer = torch.nn.Linear(1024, width).to(torch.float16)
        torch.nn.init.normal_(layer.weight, std=0.05)
        if width == 1:
            # About half of the tokens have a weight: states of a random network are alike, and could all be negative.
            torch.nn.init.constant_(layer.bias, -float((states @ layer.weight.detach().float().T).mean()))
        torch.save(layer.state_dict(), folder / name)
    modules = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    made = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(zip(modules, paths, strict=True))]
    (folder / "modules.json").write_text(json.dumps(made))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 1024, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8192, "do_lower_case": false}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedctl", type=Path, default=ROOT / "target/release/embedctl")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "bge-m3")
    args = parser.parse_args()
    import numpy as np
    import pyarrow.parquet
    from compare import draw

    model = args.work / "model"
    if not (model / "colbert_linear.pt").exists():
        shutil.rmtree(model, ignore_errors=True)
        model.mkdir(parents=True)
        make(model)
    texts = [next(iter(draw(1, words, words))) for words in WORDS]
    (args.work / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    out = args.work / "vectors.parquet"
    start = time.monotonic()
    embed = [args.embedctl, "embed", "-q", "--no-cache", "-p", "native", "-m", model, args.work / "texts.jsonl",
             "-o", out, "--overwrite", "--vectors", "dense,sparse,multi"]
    process = subprocess.Popen(embed)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("embedctl failed")
    print(f"embedctl: {time.monotonic() - start:.1f} s, {used.ru_maxrss / 1e6:.2f} GB at most")
    ours = pyarrow.parquet.read_table(out)

    import sentence_transformers  # noqa: F401  before the stand-ins, for which transformers would look
    import transformers.training_args  # noqa: F401

    for training in ["datasets", "peft", "ir_datasets", "accelerate", "accelerate.utils"]:
        sys.modules.setdefault(training, mock.MagicMock(__spec__=None))
    from FlagEmbedding import BGEM3FlagModel

    reference = BGEM3FlagModel(str(model), use_fp16=False, devices="cpu")
    asked = {"return_dense": True, "return_sparse": True, "return_colbert_vecs": True, "max_length": 8192}
    apart = {"dense": 0.0, "sparse": 0.0, "multi": 0.0}
    counts = dict.fromkeys(apart, 0)
    for row, text in enumerate(texts):
        theirs = reference.encode([text], **asked)
        dense = np.array(ours["embedding"][row].as_py())
        apart["dense"] = max(apart["dense"], float(np.abs(dense - theirs["dense_vecs"][0]).max()))
        counts["dense"] += 1
        sparse = ours["embedding_sparse"][row].as_py()
        entries = dict(zip(sparse["indices"], sparse["values"], strict=True))
        weights = {int(key): float(value) for key, value in theirs["lexical_weights"][0].items()}
        for key in entries.keys() | weights.keys():
            apart["sparse"] = max(apart["sparse"], abs(entries.get(key, 0.0) - weights.get(key, 0.0)))
        counts["sparse"] += len(weights)
        multi = np.array(ours["embedding_multi"][row].as_py())
        vectors = np.array(theirs["colbert_vecs"][0])
        if multi.shape != vectors.shape:
            raise SystemExit(f"text {row}: {multi.shape} vectors of tokens, and FlagEmbedding has {vectors.shape}")
        apart["multi"] = max(apart["multi"], float(np.abs(multi - vectors).max()))
        counts["multi"] += len(multi)
    for kind, difference in apart.items():
        print(f"{kind}: {counts[kind]:,} {'entries' if kind == 'sparse' else 'vectors'}, at most {difference:.1e} apart")


if __name__ == "__main__":
    main()
