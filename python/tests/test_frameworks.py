"""LangChain, LlamaIndex and Hugging Face's datasets themselves, with the model's vectors."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from conftest import Case
from embedctl import Embedder, find_embedctl_bin


def needs(module: str) -> pytest.MarkDecorator:
    """Skips a test where the module is missing, unless the tests of frameworks are required."""
    missing = importlib.util.find_spec(module) is None
    required = "frameworks" in os.environ.get("EMBEDCTL_TEST_REQUIRE", "").split(",")
    return pytest.mark.skipif(missing and not required, reason=f"{module} is not installed")


@needs("langchain_core")
def test_langchain_finds_the_nearest_document(prompted: Case) -> None:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from embedctl.langchain import EmbedctlEmbeddings

    embeddings = EmbedctlEmbeddings(prompted.model, provider="native", threads=1)
    assert isinstance(embeddings, Embeddings)
    np.testing.assert_allclose([embeddings.embed_query(text) for text in prompted.texts[:3]], prompted.expected[:3], atol=2e-5)
    documents = embeddings.embed_documents(prompted.texts)
    assert isinstance(documents[0][0], float)
    assert np.array_equal(documents, embeddings.embedder.encode_document(prompted.texts))
    assert asyncio.run(embeddings.aembed_query("a")) == embeddings.embed_query("a")
    store = InMemoryVectorStore.from_texts(prompted.texts, embeddings)
    query = embeddings.embedder.encode_query(prompted.texts[1])
    cosines = embeddings.embedder.similarity(query, documents)[0]
    (found,) = store.similarity_search(prompted.texts[1], k=1)
    assert found.page_content == prompted.texts[int(np.argmax(cosines))]
    assert pickle.loads(pickle.dumps(embeddings)).embed_query("a") == embeddings.embed_query("a")


@needs("llama_index")
def test_llama_index_retrieves_a_node(prompted: Case) -> None:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import TextNode

    from embedctl.llama_index import EmbedctlEmbedding

    model = EmbedctlEmbedding(prompted.model, options={"provider": "native", "threads": 1})
    np.testing.assert_allclose(model.get_query_embedding(prompted.texts[0]), prompted.expected[0], atol=2e-5)
    documents = model.get_text_embedding_batch(prompted.texts)
    assert np.array_equal(documents, model.embedder.encode_document(prompted.texts))
    assert asyncio.run(model.aget_text_embedding("a")) == model.get_text_embedding("a")
    index = VectorStoreIndex([TextNode(text=text) for text in prompted.texts if text.strip()], embed_model=model)
    (found,) = index.as_retriever(similarity_top_k=1).retrieve(prompted.texts[1])
    cosines = model.embedder.similarity(model.get_query_embedding(prompted.texts[1]), documents)[0]
    assert found.node.get_content() == prompted.texts[int(np.argmax(cosines))]


@needs("datasets")
def test_datasets_maps_lists_arrays_and_tables(embedder: Embedder) -> None:
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    texts = [f"text {number}" for number in range(25)]
    data = Dataset.from_dict({"id": range(25), "text": texts})
    expected = embedder.encode(texts)

    def of_lists(batch: dict[str, list[str]]) -> dict[str, object]:
        return {"embedding": embedder.encode(batch["text"])}

    def of_tables(batch: pa.Table) -> pa.Table:
        return embedder.encode_arrow(batch)

    table = data.with_format("arrow")
    for mapped, columns in (
        (data.map(of_lists, batched=True, batch_size=10), ["id", "text", "embedding"]),
        (data.with_format("numpy").map(of_lists, batched=True, batch_size=10), ["id", "text", "embedding"]),
        # Of a table, the library keeps what the function returns, and nothing else.
        (table.map(of_lists, batched=True, batch_size=10), ["embedding"]),
        (table.map(of_tables, batched=True, batch_size=10), ["id", "text", "embedding"]),
    ):
        assert mapped.column_names == columns
        assert np.array_equal(np.array(mapped.with_format("numpy")["embedding"]), expected)
    assert np.array_equal(embedder.encode(data["text"]), expected)


def folder_of_parts(case: Case, folder: Path, form: str) -> Path:
    """What `embedctl embed -o OUT/` writes, in parts of three rows."""
    (folder / "in.txt").write_text("".join(f"{' '.join(text.split())}\n" for text in case.texts))
    output = folder / form
    command = [find_embedctl_bin(), "embed", folder / "in.txt", "-o", f"{output}/", "-f", form, "--part-rows", "3", "--window", "3"]
    subprocess.run([*command, "-m", case.model, "-p", "native"], check=True)
    assert len(list(output.glob("part-*"))) > 1
    return output


@needs("datasets")
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_datasets_loads_a_folder_of_parts(case: Case, tmp_path: Path, form: str) -> None:
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    output = folder_of_parts(case, tmp_path, form)
    found = load_dataset(str(output), cache_dir=str(tmp_path / "cache"))["train"]
    assert [str(it) for it in found["id"]] == [str(n + 1) for n in range(len(case.texts))]
    assert set(found.column_names) == {"id", "embedding"}


@needs("polars")
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_polars_reads_a_folder_of_parts(case: Case, tmp_path: Path, form: str) -> None:
    import polars

    output = folder_of_parts(case, tmp_path, form)
    found = polars.read_parquet(output) if form == "parquet" else polars.scan_ndjson(output).collect()
    assert [str(it) for it in found["id"].to_list()] == [str(n + 1) for n in range(len(case.texts))]
    assert found.columns == ["id", "embedding"]
