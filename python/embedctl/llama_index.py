"""Vectors for LlamaIndex: ``EmbedctlEmbedding`` wherever it takes an ``embed_model``. Needs llama-index-core."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr

from ._embedder import Embedder


class EmbedctlEmbedding(BaseEmbedding):
    """A model's vectors: nodes with its prompt for documents, queries with that for queries.

    ``model_name`` is a folder or a Hub id, and ``options`` are those of ``Embedder``, which is the property ``embedder``.
    ``embed_batch_size`` is the number of nodes that LlamaIndex hands over at a time: the more, the fewer calls.
    """

    options: dict[str, Any] = Field(default_factory=dict, description="Options of Embedder.")
    _embedder: Embedder = PrivateAttr()

    def __init__(self, model_name: str, *, embed_batch_size: int = 2048, options: dict[str, Any] | None = None, **more: Any) -> None:
        fields: dict[str, Any] = {"model_name": str(model_name), "options": options or {}, **more}
        super().__init__(embed_batch_size=embed_batch_size, **fields)
        self._embedder = Embedder(self.model_name, **self.options)

    @classmethod
    def class_name(cls) -> str:
        return "EmbedctlEmbedding"

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.encode_query(query).tolist()
        return vector

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.encode_document(texts).tolist()
        return vectors

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)
