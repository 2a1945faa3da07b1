"""Embeds a file with the Python package fastembed and prints one JSON line with the rate.

What is timed is `TextEmbedding.embed` alone. With `--processes` it runs fastembed's own data
parallel mode (`parallel=N`: each worker a process with one thread); such a pool starts anew in
every call, so a call with one text is timed first and taken off as start-up.
"""

import json
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from common import LONG_TEXT, arguments, check_lengths, read_texts, report
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

NAME = "local/all-MiniLM-L6-v2"


def prepared(model_dir, max_length, folder):
    """A copy of the model whose tokenizer_config.json names the true limit.

    fastembed reads the limit from there (512 in this model) and nowhere else; its worker
    processes read the files again, so changing a loaded tokenizer would not reach them.
    """
    copy = Path(folder) / "model"
    shutil.copytree(model_dir, copy, copy_function=shutil.copyfile)
    path = copy / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"model_max_length": max_length}))
    return copy


def main():
    args = arguments(__doc__.splitlines()[0]).parse_args()
    texts = read_texts(args.input)
    # The source is never asked: the files come from `specific_model_path`.
    TextEmbedding.add_custom_model(
        NAME, PoolingType.MEAN, True, ModelSource(hf=NAME), dim=384, model_file=args.model_file
    )
    with tempfile.TemporaryDirectory() as folder:
        model_dir = prepared(args.model_dir, args.max_length, folder)
        start = time.perf_counter()
        model = TextEmbedding(NAME, specific_model_path=str(model_dir), cuda=args.device == "cuda")
        tokenizer = model.model.tokenizer
        check_lengths(
            *(len(tokenizer.encode_batch([text])[0]) for text in ("a", LONG_TEXT)),
            args.max_length,
        )

        def embed(rows):
            # An iterator, because a list shorter than a batch would not use the workers.
            return list(model.embed(iter(rows), args.batch_size, args.processes or None))

        embed(texts[:1])
        load_s = time.perf_counter() - start
        startup_s = 0.0
        if args.processes:
            start = time.perf_counter()
            embed(texts[:1])
            startup_s = time.perf_counter() - start
        start = time.perf_counter()
        vectors = embed(texts)
        embed_s = time.perf_counter() - start

    # Of the start-up one row is measured too; it belongs to neither side.
    rows = len(texts) - 1 if args.processes else len(texts)
    settings = {
        "batch_size": args.batch_size,
        "max_length": args.max_length,
        "processes": args.processes,
        "onnxruntime": version("onnxruntime"),
    }
    report(
        "fastembed (Python)",
        version("fastembed"),
        vectors,
        load_s + startup_s,
        embed_s - startup_s,
        rows,
        settings,
        args.out,
    )


if __name__ == "__main__":  # the workers import this file again
    main()
