#!/usr/bin/env python3
"""Writes a checkpoint of a published model's shape with random weights, and no ONNX file: embedctl builds its graph.

    make_checkpoint.py minilm|e5-small|bge-base|bge-large|qwen3-0.6b MODEL FOLDER

MODEL is a model repository whose tokenizer is taken (fixtures/models/all-MiniLM-L6-v2), so all have its 30,522 tokens.
Needs the package numpy. The vectors mean nothing; the time that they take is that of the model.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np

TOKENS = 30_522
BERT = {"model_type": "bert", "vocab_size": TOKENS, "max_position_embeddings": 512, "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "num_hidden_layers": 12, "num_attention_heads": 12}  # fmt: skip
SHAPES = {
    "minilm": {**BERT, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6},
    "e5-small": {**BERT, "hidden_size": 384, "intermediate_size": 1536},
    "bge-base": {**BERT, "hidden_size": 768, "intermediate_size": 3072},
    "bge-large": {**BERT, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16},
    "qwen3-0.6b": {
        "model_type": "qwen3", "vocab_size": TOKENS, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 32768, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    },
}  # fmt: skip


def bert(config):
    """Names and shapes of BERT's tensors."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    yield "embeddings.word_embeddings.weight", (TOKENS, width)
    yield "embeddings.position_embeddings.weight", (config["max_position_embeddings"], width)
    yield "embeddings.token_type_embeddings.weight", (2, width)
    norms = ["embeddings.LayerNorm"]
    for layer in range(config["num_hidden_layers"]):
        own = f"encoder.layer.{layer}."
        square = [f"attention.self.{part}" for part in ("query", "key", "value")] + ["attention.output.dense"]
        products = [(part, width, width) for part in square]
        for part, rows, columns in [*products, ("intermediate.dense", inner, width), ("output.dense", width, inner)]:
            yield f"{own}{part}.weight", (rows, columns)
            yield f"{own}{part}.bias", (rows,)
        norms += [f"{own}attention.output.LayerNorm", f"{own}output.LayerNorm"]
    for norm in norms:
        yield f"{norm}.weight", (width,)
        yield f"{norm}.bias", (width,)


def qwen3(config):
    """Names and shapes of Qwen3's tensors."""
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query, key = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    yield "embed_tokens.weight", (TOKENS, width)
    yield "norm.weight", (width,)
    for layer in range(config["num_hidden_layers"]):
        own = f"layers.{layer}."
        for norm, size in [("input_layernorm", width), ("post_attention_layernorm", width),
                           ("self_attn.q_norm", head), ("self_attn.k_norm", head)]:  # fmt: skip
            yield f"{own}{norm}.weight", (size,)
        for part, rows, columns in [("q", query, width), ("k", key, width), ("v", key, width), ("o", width, query)]:
            yield f"{own}self_attn.{part}_proj.weight", (rows, columns)
        for part, rows, columns in [("gate", inner, width), ("up", inner, width), ("down", width, inner)]:
            yield f"{own}mlp.{part}_proj.weight", (rows, columns)


def main():
    shape, model, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    config = SHAPES[shape]
    folder.mkdir(parents=True, exist_ok=True)
    for path in model.iterdir():
        if path.name.startswith("token") or path.name in ("special_tokens_map.json", "modules.json"):
            shutil.copy(path, folder)
    shutil.copytree(model / "1_Pooling", folder / "1_Pooling", dirs_exist_ok=True)
    pooling = folder / "1_Pooling" / "config.json"
    settings = json.loads(pooling.read_text())
    settings["word_embedding_dimension"] = config["hidden_size"]
    pooling.write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    tensors = list((bert if config["model_type"] == "bert" else qwen3)(config))
    header, place = {}, 0
    for name, dims in tensors:
        end = place + 2 * int(np.prod(dims))
        header[name] = {"dtype": "F16", "shape": dims, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(7)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name, dims in tensors:
            values = random.standard_normal(dims, np.float32) * np.float32(0.02)
            if "norm" in name.lower() and name.endswith("weight"):
                values += 1
            out.write(values.astype("<f2").tobytes())


main()
