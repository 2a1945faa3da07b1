#!/usr/bin/env python3
"""The precisions of the native engine on AMX's tiles, beside AVX-512 and, where they are installed, OpenVINO and torch.

    benches/corpus/make.sh
    pip install numpy openvino tokenizers torch transformers    # for the rows of OpenVINO and torch alone
    python3 benches/native/tiles.py [--embedctl target/release/embedctl] [--rounds 5] [FILE:ROWS...]

Settings take turns, so that all of them meet a neighbour who uses the core's tile unit: each runs once a round, on two threads.
embedctl's rate is that of its engine, without reading, measuring cosines and writing (`infer_seconds` of `--stats`); OpenVINO's has
its tokenization and pooling, of texts sorted by length in the best of three sizes of batches, on a stream for each core. So have
torch's, in bfloat16 and compiled. Prints the median and the best of all rounds, and the median of what tiles gain over AVX-512 in the
same round.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "fixtures/models/all-MiniLM-L6-v2"
CORPUS = ROOT / "target/corpus"
TOKENS = 256
THREADS = 2


def texts_of(path, rows):
    lines = path.read_text().split("\n")[:rows]
    return [json.loads(line)["text"] if path.suffix == ".jsonl" else line for line in lines]


class Native:
    def __init__(self, program, precision, cpu, folder):
        self.name, self.folder = f"embedctl, {precision}, {cpu}", folder
        self.line = [program, "embed", "-m", MODEL, "-p", "native", "--precision", precision, "--threads", str(THREADS),
                     "-o", folder / "out.npy", "--force", "-q"]
        self.environment = {**os.environ, "EMBEDCTL_CPU": cpu, "XDG_CACHE_HOME": str(folder)}

    def rate(self, texts):
        file, stats = self.folder / "texts.jsonl", self.folder / "stats.json"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        subprocess.run([*map(str, self.line), str(file), "--stats", str(stats)], check=True, env=self.environment)
        found = json.loads(stats.read_text())
        assert found["embedded"] == len(texts)
        return len(texts) * THREADS / found["stages"]["infer_seconds"]


def batches_of(texts, size):
    """Ids and masks of batches of texts of nearly one length."""
    import numpy
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    rows = sorted((encoding.ids for encoding in tokenizer.encode_batch(texts)), key=len)
    for start in range(0, len(rows), size):
        batch = rows[start:start + size]
        ids = numpy.zeros((len(batch), len(batch[-1])), dtype=numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, own in enumerate(batch):
            ids[row, :len(own)], mask[row, :len(own)] = own, 1
        yield ids, mask


class OpenVino:
    def __init__(self, precision, batch):
        import openvino

        self.name, self.batch = f"OpenVINO {openvino.__version__.split('-')[0]}, {precision}", batch
        core = openvino.Core()
        model = core.read_model(str(next(MODEL.glob("**/*.onnx"))))
        self.inputs = [name.get_any_name() for name in model.inputs]
        self.compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": str(THREADS), "INFERENCE_NUM_THREADS": str(THREADS)})

    def rate(self, texts):
        import numpy
        import openvino

        queue, found = openvino.AsyncInferQueue(self.compiled, THREADS), []

        def pooled(request, mask):
            states = request.get_output_tensor(0).data
            sums = (states * mask[:, :, None]).sum(axis=1)
            found.append(sums / numpy.linalg.norm(sums, axis=1, keepdims=True))

        queue.set_callback(pooled)
        began = time.monotonic()
        for ids, mask in batches_of(texts, self.batch):
            known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            queue.start_async({name: known[name] for name in self.inputs}, mask)
        queue.wait_all()
        took = time.monotonic() - began
        assert sum(map(len, found)) == len(texts)
        return len(texts) / took


class Torch:
    def __init__(self, batch):
        import torch
        import transformers

        torch.set_num_threads(THREADS)
        self.name, self.batch, self.warm = f"torch {torch.__version__.split('+')[0]}, bf16, compiled", batch, False
        self.network = torch.compile(transformers.AutoModel.from_pretrained(MODEL, dtype=torch.bfloat16).eval(), dynamic=True)

    def run(self, texts):
        import torch

        count = 0
        with torch.inference_mode():
            for ids, mask in batches_of(texts, self.batch):
                ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
                states = self.network(input_ids=ids, attention_mask=mask).last_hidden_state.float()
                sums = (states * mask[:, :, None]).sum(1)
                count += len(torch.nn.functional.normalize(sums))
        assert count == len(texts)

    def rate(self, texts):
        if not self.warm:
            self.run(texts[:4 * self.batch])
            self.warm = True
        began = time.monotonic()
        self.run(texts)
        return len(texts) / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=[f"{CORPUS}/short.txt:3000", f"{CORPUS}/long.jsonl:400"], metavar="FILE:ROWS")
    parser.add_argument("--embedctl", default=ROOT / "target/release/embedctl")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = [Native(asked.embedctl, precision, cpu, Path(folder))
                    for precision in ("int8", "bf16", "int16", "fp32") for cpu in ("avx512", "amx")]
        try:
            settings += [OpenVino(precision, batch) for precision in ("bf16", "f32") for batch in (8, 16, 32)]
        except ImportError as missing:
            print(f"without OpenVINO: {missing}", file=sys.stderr)
        try:
            settings += [Torch(batch) for batch in (16, 32)]
        except ImportError as missing:
            print(f"without torch: {missing}", file=sys.stderr)
        for file in asked.files:
            path, _, rows = file.rpartition(":")
            texts = texts_of(Path(path), int(rows))
            rates = {}
            for number in range(asked.rounds):
                first = number % len(settings)
                batches = {}
                for setting in settings[first:] + settings[:first]:
                    rate = setting.rate(texts)
                    batches[setting.name] = max(rate, batches.get(setting.name, 0))
                for name, rate in batches.items():
                    rates.setdefault(name, []).append(rate)
                print(number, {name: round(own[-1]) for name, own in rates.items()}, file=sys.stderr, flush=True)
            print(f"\n{Path(path).name}, {len(texts)} rows, {asked.rounds} rounds\n\n| setting | rows/s, median | best | of AVX-512 |\n|---|--:|--:|--:|")
            for name, own in rates.items():
                plain = rates.get(name.replace(", amx", ", avx512"), own)
                gain = f"{statistics.median(a / b for a, b in zip(own, plain)):.2f}" if name.endswith("amx") else ""
                print(f"| {name} | {statistics.median(own):,.0f} | {max(own):,.0f} | {gain} |", flush=True)


if __name__ == "__main__":
    main()
