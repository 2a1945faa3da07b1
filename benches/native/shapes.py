#!/usr/bin/env python3
"""The shapes of published embedders with random weights: cosines, memory and speed of each precision, beside other programs.

    python3 -m venv venv && venv/bin/pip install -r fixtures/parity/requirements.txt
    venv/bin/pip install xllamacpp gguf     # llama.cpp, and a writer of its files
    venv/bin/python benches/native/shapes.py [--embedctl target/release/embedctl] [--work FOLDER] [--only accuracy|speed|sink] [SHAPE...]

Each network is made once in --work by transformers, with weights from a seed. Four channels of the token table and of every
norm but the last are scaled up, as trained networks have a few channels of large magnitude. Weights are stored in the type that the
model is published in.

- accuracy: 40 texts of 1 to 400 words in fp32, bf16, int16 and int8 of the native engine. Prints the greatest difference of fp32
  from transformers in fp32, the least cosine of each precision to fp32, and the memory at most beside the size of the weights in
  that precision.
- sink: one row of 8,192 tokens whose first token takes most of the attention, in every precision beside transformers in fp32.
- speed: texts of at most 100 tokens, two threads, all in one sitting: torch in fp32 and bf16 (the better of batches of 8 and 32 rows
  that are sorted by length), ONNX Runtime on the graph that embedctl builds, llama.cpp in F16 and Q8_0 (where it has the
  architecture), and the native engine. Loading is not counted.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches/kinds"))
MINILM = ROOT / "fixtures/models/all-MiniLM-L6-v2"
LOUD = [7, 101, 202, 303]
# Tokenizers of the kind that a configuration's class reads, from the fixtures; the vocabularies are small, and the tables
# as large as all-MiniLM-L6-v2's.
PARITY = ROOT / "fixtures/parity"
TOKENIZERS = {"Qwen3Config": PARITY / "qwen3-lasttoken/model", "Qwen2Config": PARITY / "qwen3-lasttoken/model",
              "Gemma3TextConfig": PARITY / "family-gemma3-bidirectional/model",
              "MistralConfig": PARITY / "class-llama-metaspace/model"}
# Tokens of a text at most where speed is measured.
SPEED_TOKENS = 100
# Class of the configuration, its settings, the published type, pooling, and llama.cpp's name of the architecture.
SHAPES = {
    "e5-small": ("BertConfig", {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536},
                 "float32", "mean", "bert"),
    "gte-modernbert-base": ("ModernBertConfig", {"hidden_size": 768, "num_hidden_layers": 22, "num_attention_heads": 12,
                            "intermediate_size": 1152, "max_position_embeddings": 8192}, "float16", "cls", None),
    "gte-modernbert-large": ("ModernBertConfig", {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
                             "intermediate_size": 2624, "max_position_embeddings": 8192}, "float16", "cls", None),
    "bge-m3": ("XLMRobertaConfig", {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
               "intermediate_size": 4096, "max_position_embeddings": 8194, "type_vocab_size": 1}, "float32", "cls", "bert"),
    "EmbeddingGemma-300M": ("Gemma3TextConfig", {"hidden_size": 768, "num_hidden_layers": 24, "num_attention_heads": 3,
                            "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 1152, "sliding_window": 512,
                            "query_pre_attn_scalar": 256, "use_bidirectional_attention": True,
                            "max_position_embeddings": 2048}, "bfloat16", "mean", None),
    "Qwen3-Embedding-0.6B": ("Qwen3Config", {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
                             "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "rope_theta": 1_000_000,
                             "max_position_embeddings": 32_768}, "bfloat16", "lasttoken", "qwen3"),
    "gte-Qwen2-1.5B, 4 layers": ("Qwen2Config", {"hidden_size": 1536, "num_hidden_layers": 4, "num_attention_heads": 12,
                                 "num_key_value_heads": 2, "intermediate_size": 8960, "rope_theta": 1_000_000,
                                 "max_position_embeddings": 32_768}, "float32", "lasttoken", "qwen2"),
    "e5-mistral-7B, 2 layers": ("MistralConfig", {"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
                                "num_key_value_heads": 8, "intermediate_size": 14_336, "sliding_window": None,
                                "max_position_embeddings": 32_768}, "bfloat16", "lasttoken", "llama"),
}
SINKS = ["bge-m3", "Qwen3-Embedding-0.6B"]
PRECISIONS = ["fp32", "bf16", "int16", "int8"]
# Random weights may lose more than trained ones; the loss is printed.
LIMIT = {True: [], False: ["--min-cosine", "0.5"]}
BYTES = {"fp32": 4, "bf16": 2, "int16": 2, "int8": 1}


def make(name, folder):
    """The checkpoint, with a tokenizer of its kind."""
    import torch
    import transformers

    kind, settings, dtype, pooling, _ = SHAPES[name]
    torch.manual_seed(3)
    padding = {"pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102, "cls_token_id": 101, "sep_token_id": 102}
    config = getattr(transformers, kind)(vocab_size=30_522, use_cache=False, **padding, **settings)
    network = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if "word_embeddings" in key or "embed_tokens" in key or "tok_embeddings" in key:
                parameter[:, LOUD] *= 30
            elif parameter.dim() == 1 and "norm" in key.lower() and key.endswith("weight") and len(parameter) == config.hidden_size:
                parameter[LOUD] = parameter[LOUD] * 4 + 1
                last = parameter
        # The vectors themselves have no loud channel, which would decide every cosine.
        last[LOUD] = 0.05 - config.model_type.startswith("gemma")  # whose weights are added to 1
    network.to(getattr(torch, dtype)).save_pretrained(folder)
    for file in TOKENIZERS.get(kind, MINILM).glob("*token*"):
        shutil.copy(file, folder / file.name)
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for i, (kind, path) in enumerate([("Transformer", ""), ("Pooling", "1_Pooling")])]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}": mode.startswith(pooling) for mode in ["cls_token", "mean_tokens", "lasttoken"]}
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": config.hidden_size, **modes}))
    longest = min(8192, config.max_position_embeddings - (2 if kind == "XLMRobertaConfig" else 0))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest, "do_lower_case": False}))


def add_sink(model, folder, token):
    """The same network, whose first token has a channel of its own that every query of the first layer looks for."""
    import torch
    import transformers

    network = transformers.AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    config, own = network.config, 5
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    with torch.no_grad():
        table = network.get_input_embeddings().weight
        table[:, own] = 0
        table[token] = 0
        table[101, own] = 200
        for layer in getattr(getattr(network, "encoder", network), "layer", None) or network.layers[:1]:
            attention = getattr(layer, "attention", None)
            attention = attention.self if attention is not None else layer.self_attn
            query, key = (getattr(attention, a, None) or getattr(attention, b) for a, b in [("query", "q_proj"), ("key", "k_proj")])
            for head in range(heads):
                # The last component turns slowest where positions rotate it.
                at = head * width + width - 1
                key.weight[at] = 0
                key.weight[at, own] = 1
            for head in range(config.num_attention_heads):
                at = head * width + width - 1
                if query.bias is not None:
                    query.bias[at] = 3
                else:
                    query.weight[at] = query.weight.std() * 60 / config.hidden_size**0.5
    network.save_pretrained(folder)
    for file in [*model.glob("*token*"), model / "modules.json",
                 model / "sentence_bert_config.json"]:
        shutil.copy(file, folder / file.name)
    shutil.copytree(model / "1_Pooling", folder / "1_Pooling", dirs_exist_ok=True)


def rows_of(model, texts, length):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    return tokenizer(texts, truncation=True, max_length=length)["input_ids"]


def by_transformers(model, rows, pooling, dtype="float32"):
    """Vectors of rows, one at a time."""
    import numpy as np
    import torch
    import transformers

    network = transformers.AutoModel.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
    vectors = []
    with torch.inference_mode():
        for ids in rows:
            states = network(input_ids=torch.tensor([ids])).last_hidden_state[0].float()
            vectors.append({"mean": states.mean(0), "cls": states[0], "lasttoken": states[-1]}[pooling].numpy())
    return np.stack(vectors)


def memory_of(command):
    """MB at most of a program: a process of its own runs this, whose own memory, without torch, would count otherwise."""
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    print(used.ru_maxrss / 1e3)


def cosine(a, b):
    import numpy as np

    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


def embed(args, model, texts, out, precision, *more):
    return own_process("--memory", args.embedctl, "embed", texts, "-m", model, "-o", out, "--force", "-q", "-p", "native", "--precision",
                       precision, "--no-cache", "--normalize", "false", *more,
                       *LIMIT[precision == "fp32"])


def accuracy(args, name, model):
    import numpy as np
    from compare import draw

    words = [1, 2, 3, 5, 8, 13, 20, 30, 45, 60, 80, 100, 130, 160, 200, 250, 300, 400]
    texts = [next(iter(draw(1, count, seed))) for seed, count in enumerate(words * 2 + words[:4])]
    source = args.work / "accuracy.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    reference = by_transformers(model, rows_of(model, texts, 512), SHAPES[name][3]).astype(np.float64)
    scale = np.linalg.norm(reference, axis=1, keepdims=True)
    tensors = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    stored = {"float32": 4, "float16": 2, "bfloat16": 2}[SHAPES[name][2]]
    table = 30_522 * SHAPES[name][1]["hidden_size"] * stored
    cells = []
    for precision in PRECISIONS:
        out = args.work / f"{precision}.npy"
        memory = embed(args, model, source, out, precision, "--max-length", "512")
        vectors = np.load(out).astype(np.float64)
        # Tables of tokens stay in their own type.
        weights = ((tensors - table) / stored * BYTES[precision] + table) / 1e6
        cells.append(f"{np.abs((vectors - reference) / scale).max():.1e}" if precision == "fp32" else f"{cosine(vectors, reference):.5f}")
        cells.append(f"{memory:,.0f} / {weights:,.0f}")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def sink(args, name, model):
    import numpy as np
    from compare import draw

    folder = args.work / f"{model.name}-sink"
    # A word that no other text has, so that its first token stands at the start alone.
    text = "zyzzyva " + " ".join(draw(60, 200, 5))
    row = rows_of(model, [text], 8192)
    if not (folder / "modules.json").exists():
        folder.mkdir(exist_ok=True)
        add_sink(model, folder, row[0][0])
    source = args.work / "sink.jsonl"
    source.write_text(json.dumps({"text": text}) + "\n")
    vectors = {}
    for precision in PRECISIONS:
        out = args.work / "sink.npy"
        embed(args, folder, source, out, precision)
        vectors[precision] = np.load(out).astype(np.float64)
    reference = by_transformers(folder, row, SHAPES[name][3]).astype(np.float64)
    cells = [f"{cosine(vectors[precision], reference):.6f}" for precision in PRECISIONS]
    print(f"| {name} | {len(row[0]):,} | {' | '.join(cells)} |", flush=True)


def by_torch(model, source, dtype, batch):
    """Tokens of a text file a second: a process of its own runs this."""
    import torch
    import transformers

    torch.set_num_threads(2)
    network = transformers.AutoModel.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
    rows = sorted(rows_of(model, [json.loads(line)["text"] for line in open(source)], SPEED_TOKENS), key=len)
    best = 0.0
    with torch.inference_mode():
        for turn in range(3):
            start = time.monotonic()
            for first in range(0, len(rows), batch):
                some = rows[first:first + batch]
                width = max(map(len, some))
                ids = torch.zeros(len(some), width, dtype=torch.long)
                mask = torch.zeros_like(ids)
                for place, row in enumerate(some):
                    ids[place, :len(row)] = torch.tensor(row)
                    mask[place, :len(row)] = 1
                network(input_ids=ids, attention_mask=mask)
            if turn:
                best = max(best, sum(map(len, rows)) / (time.monotonic() - start))
    print(json.dumps(best))


def gguf_file(name, model, path, quantized):
    """The checkpoint in llama.cpp's form."""
    import gguf
    import numpy as np
    import torch
    from safetensors.torch import load_file

    _, settings, _, pooling, kind = SHAPES[name]
    config = json.loads((model / "config.json").read_text())
    tensors = {}
    for file in sorted(model.glob("*.safetensors")):
        tensors.update(load_file(file))
    writer = gguf.GGUFWriter(str(path), kind)
    writer.add_context_length(min(8192, config["max_position_embeddings"]))
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_pooling_type({"mean": gguf.PoolingType.MEAN, "cls": gguf.PoolingType.CLS, "lasttoken": gguf.PoolingType.LAST}[pooling])
    # Rows come as ids, so any vocabulary of the table's size will do.
    vocabulary = json.loads((MINILM / "tokenizer.json").read_text())["model"]["vocab"]
    pieces = [piece for piece, _ in sorted(vocabulary.items(), key=lambda it: it[1])]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece[2:] if piece.startswith("##") else "\u2581" + piece for piece in pieces])
    writer.add_token_types([3 if piece.startswith("[") and piece.endswith("]") else 1 for piece in pieces])
    writer.add_token_type_count(config.get("type_vocab_size", 1))
    for setter, token in [(writer.add_bos_token_id, 101), (writer.add_eos_token_id, 102), (writer.add_unk_token_id, 100),
                          (writer.add_sep_token_id, 102), (writer.add_pad_token_id, 0)]:
        setter(token)
    if kind == "bert":
        writer.add_layer_norm_eps(config["layer_norm_eps"])
        writer.add_causal_attention(False)
        names = {
            "embeddings.word_embeddings.weight": "token_embd.weight", "embeddings.position_embeddings.weight": "position_embd.weight",
            "embeddings.token_type_embeddings.weight": "token_types.weight", "embeddings.LayerNorm": "token_embd_norm",
            "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
            "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
            "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
    else:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        if "head_dim" in config:
            writer.add_key_length(config["head_dim"])
            writer.add_value_length(config["head_dim"])
        theta = config.get("rope_theta") or config.get("rope_parameters", {}).get("rope_theta", 10_000.0)
        writer.add_rope_freq_base(float(theta))
        if kind == "llama":
            writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
        names = {
            "embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "self_attn.q_proj": "attn_q",
            "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
            "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
            "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
            "post_attention_layernorm": "ffn_norm"}
    for key, tensor in tensors.items():
        own = key.removeprefix("encoder.").removeprefix("model.")
        for prefix in ["layer.", "layers."]:
            if own.startswith(prefix):
                number, _, own = own.removeprefix(prefix).partition(".")
                stem, _, ending = own.rpartition(".")
                own = f"blk.{number}.{names[stem]}.{ending}" if stem in names else None
                break
        else:
            stem, _, ending = own.rpartition(".")
            own = names.get(own) or (f"{names[stem]}.{ending}" if stem in names else None)
        if own is None:
            continue
        values = tensor.to(torch.float32).numpy()
        if own.startswith("position_embd") and "XLMRoberta" in SHAPES[name][0]:
            values = values[2:]
        if values.ndim == 1 or own.startswith(("position", "token_types")):
            writer.add_tensor(own, values)
        elif quantized:
            kind_of = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(own, gguf.quants.quantize(values, kind_of), raw_dtype=kind_of)
        else:
            writer.add_tensor(own, values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def by_llama(path, model, source):
    """Tokens of a text file a second: a process of its own runs this."""
    import xllamacpp

    rows = rows_of(model, [json.loads(line)["text"] for line in open(source)], SPEED_TOKENS)
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.embedding = True
    params.n_parallel, params.n_ctx, params.n_batch, params.n_ubatch = 8, 8 * 512, 2048, 2048
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.warmup = True
    server = xllamacpp.Server(params)
    best = 0.0
    for _ in range(2):
        start = time.monotonic()
        answer = server.handle_embeddings({"input": rows, "encoding_format": "float"})
        if "data" not in answer and not isinstance(answer, list):
            raise SystemExit(f"llama.cpp: {json.dumps(answer)[:500]}")
        best = max(best, sum(map(len, rows)) / (time.monotonic() - start))
    print(json.dumps(best))


def own_process(*words):
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None if words[0] != "--memory" else sys.exit(1)
    return json.loads(done.stdout.strip().splitlines()[-1])


def by_embedctl(args, model, source, provider, precision):
    told = [args.embedctl, "bench", "--input", source, "-m", model, "-p", provider, "--precision", precision, "--threads", "2",
            "--duration", args.duration, "--json", "--max-length", str(SPEED_TOKENS), *LIMIT[precision == "fp32"]]
    done = subprocess.run(list(map(str, told)), capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return json.loads(done.stdout)["rows"][0]["measured"]["tokens_per_second"]["median"]


def speed(args, name, model):
    from compare import draw

    _, settings, *_, kind = SHAPES[name]
    wide, inner, layers = (settings[key] for key in ["hidden_size", "intermediate_size", "num_hidden_layers"])
    count = max(24, min(400, int(6e11 / (2 * layers * (4 * wide * wide + 3 * wide * inner)) / 100)))
    source = args.work / "speed.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in draw(count, 76, 9)))
    runs = {}
    for dtype in ["float32", "bfloat16"]:
        runs[f"torch {dtype}"] = lambda dtype=dtype: max(
            own_process("--torch", model, source, dtype, batch) or 0.0 for batch in [8, 32])
    runs["ONNX Runtime"] = lambda: by_embedctl(args, model, source, "cpu", "fp32")
    if kind:
        for ending, quantized in [("F16", False), ("Q8_0", True)]:
            path = args.work / f"{model.name}-{ending}.gguf"
            if not path.exists():
                gguf_file(name, model, path, quantized)
            runs[f"llama.cpp {ending}"] = lambda path=path: own_process("--llama", path, model, source)
    for precision in PRECISIONS:
        runs[f"native {precision}"] = lambda precision=precision: by_embedctl(args, model, source, "native", precision)
    found = {key: [] for key in runs}
    for _ in range(args.rounds):
        for key, run in runs.items():
            found[key].append(run())
    rates = {key: statistics.median(values) for key, values in found.items() if all(values)}
    columns = ["torch float32", "torch bfloat16", "ONNX Runtime", "llama.cpp F16", "llama.cpp Q8_0", *(f"native {p}" for p in PRECISIONS)]
    cells = [f"{rates[key]:,.0f}" if key in rates else "–" for key in columns]
    others = max((rates[key] for key in columns[:5] if key in rates), default=0.0)
    beside = f"{rates['native int8'] / others:.2f}" if others and "native int8" in rates else "–"
    print(f"| {name} | {' | '.join(cells)} | {beside} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedctl", type=Path, default=ROOT / "target/release/embedctl")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "shapes")
    parser.add_argument("--only", choices=["accuracy", "speed", "sink"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--duration", default="6", help="seconds of a measurement of embedctl")
    parser.add_argument("--torch", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--llama", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []], default=[])
    args = parser.parse_args()
    if args.memory:
        return memory_of(args.memory)
    if args.torch:
        model, source, dtype, batch = args.torch
        return by_torch(model, source, dtype, int(batch))
    if args.llama:
        return by_llama(*args.llama)
    heads = {
        "accuracy": "| shape | fp32, largest difference | MB / weights | bf16, cosine | MB / weights | int16 | MB / weights "
                    "| int8 | MB / weights |\n|---|" + "--:|" * 8,
        "sink": f"| shape | tokens | {' | '.join(PRECISIONS)} |\n|---|" + "--:|" * 5,
        "speed": "| tokens/s | torch fp32 | torch bf16 | ONNX Runtime | llama.cpp F16 | Q8_0 | native fp32 | bf16 | int16 | int8 "
                 "| int8 beside the best other |\n|---|" + "--:|" * 10,
    }
    for part in [args.only] if args.only else heads:
        print(f"\n{heads[part]}", flush=True)
        for name in args.shapes or (SINKS if part == "sink" else SHAPES):
            model = args.work / name.split(",")[0]
            if not (model / "sentence_bert_config.json").exists():
                shutil.rmtree(model, ignore_errors=True)
                model.mkdir(parents=True)
                make(name, model)
            {"accuracy": accuracy, "sink": sink, "speed": speed}[part](args, name, model)


if __name__ == "__main__":
    main()
