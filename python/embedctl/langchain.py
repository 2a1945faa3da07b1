"""Vectors for LangChain: ``EmbedctlEmbeddings`` wherever it takes ``Embeddings``. Needs langchain-core."""

from __future__ import annotations

import os
from typing import Any

from langchain_core.embeddings import Embeddings

from ._embedder import Embedder


class EmbedctlEmbeddings(Embeddings):
    """A model's vectors: documents with its prompt for documents, queries with that for queries.

    ``model`` and ``options`` are those of ``Embedder``, which is the attribute ``embedder``.
    """

    def __init__(self, model: str | os.PathLike[str], **options: Any) -> None:
        self.embedder = Embedder(model, **options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, in their order."""
        vectors: list[list[float]] = self.embedder.encode_document(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        vector: list[float] = self.embedder.encode_query(text).tolist()
        return vector
