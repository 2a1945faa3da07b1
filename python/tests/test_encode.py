"""Vectors as NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import Case, pid_of
from embedctl import EmbedctlError, Embedder, TextError


def test_vectors_equal_those_of_sentence_transformers(embedder: Embedder, case: Case) -> None:
    vectors = embedder.encode(case.texts)
    assert vectors.dtype == np.float32 and vectors.flags.writeable
    np.testing.assert_allclose(vectors, case.expected, atol=2e-5)


def test_one_text_gives_one_vector_and_none_give_none(embedder: Embedder, case: Case) -> None:
    width = case.expected.shape[1]
    assert embedder.encode("A cat.").shape == (width,)
    assert embedder.encode(["A cat."]).shape == (1, width)
    assert embedder.encode([]).shape == (0, width)
    assert embedder.dimensions == width


def test_more_texts_than_a_batch_keep_their_order(embedder: Embedder) -> None:
    texts = [f"number {n % 97}" for n in range(20_000)]
    vectors = embedder.encode(texts)
    np.testing.assert_allclose(vectors, embedder.encode(texts[:97])[np.arange(20_000) % 97], atol=1e-5)


def test_sequences_of_other_kinds_are_texts_too(embedder: Embedder) -> None:
    expected = embedder.encode(["a", "b"])
    assert np.array_equal(embedder.encode(("a", "b")), expected)
    assert np.array_equal(embedder.encode(np.array(["a", "b"])), expected)


def test_prompts_are_those_of_the_model(prompted: Case) -> None:
    with Embedder(prompted.model, provider="native", threads=1) as embedder:
        queries = embedder.encode_query(prompted.texts)
        np.testing.assert_allclose(queries, prompted.expected, atol=2e-5)
        assert np.array_equal(embedder.encode(prompted.texts, prompt_name="query"), queries)
        assert np.array_equal(embedder.encode(prompted.texts, prompt="query: "), queries)
        documents = embedder.encode_document(prompted.texts)
        assert np.array_equal(embedder.encode(prompted.texts), documents)
        assert np.abs(documents - queries).max() > 0.01
        assert np.array_equal(embedder.encode_document("a", prompt="query: "), embedder.encode_query("a"))
        with pytest.raises(EmbedctlError, match="nonsense.*document, query"):
            embedder.encode("a", prompt_name="nonsense")
        # As in sentence-transformers, a prompt's text comes before a name.
        assert np.array_equal(embedder.encode("a", prompt_name="document", prompt="query: "), embedder.encode_query("a"))


def test_options_are_the_programs(prompted: Case) -> None:
    with Embedder(prompted.model, provider=["native"], threads=1, prompt_name="query", dimensions=8, normalize=True) as embedder:
        assert embedder.dimensions == 8
        vectors = embedder.encode(prompted.texts)
    cut = prompted.expected[:, :8]
    np.testing.assert_allclose(vectors, cut / np.linalg.norm(cut, axis=1, keepdims=True), atol=1e-4)


def test_vectors_are_scaled_where_asked_for(case: Case) -> None:
    with Embedder(case.model, provider="native", threads=1, normalize=False) as embedder:
        plain = embedder.encode(case.texts[:4])
        scaled = embedder.encode(case.texts[:4], normalize_embeddings=True)
    assert np.abs(np.linalg.norm(plain, axis=1) - 1).max() > 0.01
    np.testing.assert_allclose(scaled, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="'batch_token'; did you mean 'batch_tokens'"):
        Embedder("model", batch_token=1)
    with pytest.raises(TypeError, match="no option 'xyz'; options are provider"):
        Embedder("model", xyz=1)
    with pytest.raises(ValueError, match="similarity_fn_name is 'angle'"):
        Embedder("model", similarity_fn_name="angle")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cosine", [[1.0, 0.6], [0.0, 0.8]]),
        ("dot", [[3.0, 9.0], [0.0, 8.0]]),
        ("euclidean", [[-2.0, -4.0], [-np.sqrt(5), -np.sqrt(13)]]),
        ("manhattan", [[-2.0, -4.0], [-3.0, -5.0]]),
    ],
)
def test_similarity_is_that_of_sentence_transformers(name: str, expected: list[list[float]]) -> None:
    embedder = Embedder("model", similarity_fn_name=name)
    found = embedder.similarity(np.array([[3, 0], [0, 2]]), np.array([[1, 0], [3, 4]]))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert embedder.similarity([1, 0], [0, 1]).shape == (1, 1)


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ["a"]])
def test_what_is_no_text_is_refused_before_anything_is_sent(embedder: Embedder, bad: object) -> None:
    with pytest.raises(TypeError, match=f"text 1 is of type {type(bad).__name__}"):
        embedder.encode(["a", bad])
    assert not embedder._processes


def test_half_a_character_is_refused_with_its_number(embedder: Embedder) -> None:
    with pytest.raises(ValueError, match="text 1 is not Unicode text"):
        embedder.encode(["a", "\ud800"])
    assert embedder.encode("a").shape


def test_a_text_that_cannot_be_embedded_is_named_and_the_process_lives_on(case: Case) -> None:
    with Embedder(case.model, provider="native", threads=1, max_record_bytes=1000) as embedder:
        embedder.encode("a")
        pid = pid_of(embedder)
        texts = ["a"] * 9000
        texts[8500] = "long " * 1000
        with pytest.raises(TextError, match="row 8500: ") as raised:
            embedder.encode(texts)
        assert raised.value.row == 8500
        assert embedder.encode("a").shape and pid_of(embedder) == pid
