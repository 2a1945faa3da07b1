"""Embeds a file with sentence-transformers and prints one JSON line with the rate.

What is timed is `SentenceTransformer.encode` alone, which sorts by length, tokenizes, runs the
model, pools and normalizes. The backend `torch` needs model.safetensors in the folder.
`--processes` uses a multi-process pool, which
the backend `onnx` cannot: its session cannot be sent to another process. What cannot be run prints
a line with the reason in `skipped`.
"""

import json
import os
import time
from importlib.metadata import version
from importlib.util import find_spec

from common import LONG_TEXT, arguments, check_lengths, read_texts, report

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["onnx", "torch"], default="onnx")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32")
    parser.add_argument("--attention", help="torch's attention, such as flash_attention_2, which leaves padding out")
    args = parser.parse_args()
    tool = f"sentence-transformers ({args.backend})"
    skipped = None
    if args.backend == "torch" and not (args.model_dir / "model.safetensors").exists():
        skipped = "no model.safetensors in the folder"
    elif args.backend == "onnx" and args.processes:
        skipped = "the backend onnx cannot run in a multi-process pool"
    elif args.attention == "flash_attention_2" and not find_spec("flash_attn"):
        skipped = "flash_attn is not installed"
    if skipped:
        print(json.dumps({"tool": tool, "skipped": skipped}))
        return

    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if args.processes:
        os.environ["OMP_NUM_THREADS"] = "1"  # of each worker process
    import torch
    from sentence_transformers import SentenceTransformer

    texts = read_texts(args.input)
    if args.backend == "onnx":
        kwargs = {"provider": PROVIDERS[args.device], "file_name": args.model_file}
    else:
        kwargs = {"dtype": args.dtype}
        if args.attention:
            kwargs["attn_implementation"] = args.attention
    start = time.perf_counter()
    model = SentenceTransformer(
        str(args.model_dir), backend=args.backend, device=args.device, model_kwargs=kwargs
    )
    model.max_seq_length = args.max_length
    check_lengths(
        *(model.preprocess([text])["input_ids"].shape[1] for text in ("a", LONG_TEXT)),
        args.max_length,
    )
    pool = model.start_multi_process_pool(["cpu"] * args.processes) if args.processes else None

    def encode(rows):
        return model.encode(rows, batch_size=args.batch_size, pool=pool, show_progress_bar=False)

    encode(texts[: max(1, args.processes)])
    load_s = time.perf_counter() - start
    if pool:
        time.sleep(5)  # one worker may have done it all while another was still starting
    start = time.perf_counter()
    vectors = encode(texts)
    embed_s = time.perf_counter() - start
    if pool:
        model.stop_multi_process_pool(pool)

    settings = {
        "batch_size": args.batch_size,
        "max_length": args.max_length,
        "processes": args.processes,
        "backend": args.backend,
        "dtype": args.dtype,
        "attention": args.attention,
        "onnxruntime" if args.backend == "onnx" else "torch": (
            version("onnxruntime") if args.backend == "onnx" else torch.__version__
        ),
    }
    report(
        tool,
        version("sentence-transformers"),
        vectors,
        load_s,
        embed_s,
        len(texts),
        settings,
        args.out,
    )


if __name__ == "__main__":  # worker processes import this file again
    main()
