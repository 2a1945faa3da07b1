"""How one embeds with sentence-transformers on a cluster today, at its best: the model is loaded once a worker.

A file of its own, since workers of Spark and Ray import it: what they would be sent instead would be new in every task.
"""

import os
from functools import lru_cache

#: The better of 32 and 64 for short texts (benches/peers).
BATCH = 64


@lru_cache(maxsize=1)
def opened(model, threads):
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "true"}
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    # The file holds float16; without a word about it torch would compute in that.
    return SentenceTransformer(model, device="cpu", model_kwargs={"dtype": "float32"})


def encode(model, threads, texts):
    return opened(model, threads).encode(list(texts), batch_size=BATCH, show_progress_bar=False)


def partition(model, threads, frames):
    """A task of `DataFrame.mapInPandas`."""
    for frame in frames:
        frame["embedding"] = list(encode(model, threads, frame["text"]))
        yield frame


class Actor:
    """A class for `Dataset.map_batches`."""

    def __init__(self, model, threads):
        self.model, self.threads = model, threads
        opened(model, threads)

    def __call__(self, batch):
        batch["embedding"] = encode(self.model, self.threads, batch["text"])
        return batch
