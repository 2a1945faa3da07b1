"""The arguments of sentence-transformers: every one of them is followed, or refused with a reason."""

from __future__ import annotations

import pickle
import sys
import types

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from conftest import Case
from embedctl import Embedder, EmbedctlError
from embedctl._options import device_options, translated
from embedctl._vectors import quantized

TEXTS = ["A small boat crossed the harbour.", "Rates rose.", ""]


def test_every_argument_of_encode_is_known(embedder: Embedder, capsys: pytest.CaptureFixture[str]) -> None:
    expected = embedder.encode(TEXTS)
    found = embedder.encode(
        inputs=TEXTS,
        prompt_name=None,
        prompt=None,
        batch_size=32,
        show_progress_bar=True,
        output_value="sentence_embedding",
        precision="float32",
        convert_to_numpy=True,
        convert_to_tensor=False,
        device=None,
        normalize_embeddings=False,
        truncate_dim=None,
        pool=None,
        chunk_size=None,
    )
    assert np.array_equal(found, expected)
    assert capsys.readouterr().err.endswith("3 of 3 texts\n")
    # The order of places is that of sentence-transformers, and older names are known.
    assert np.array_equal(embedder.encode(TEXTS, None, None, 32, False, "sentence_embedding", "float32"), expected)
    assert np.array_equal(embedder.encode_query(TEXTS, None, None, 8), expected)
    assert np.array_equal(embedder.encode(sentences=TEXTS), expected)
    assert np.array_equal(embedder.encode_document(texts=TEXTS), expected)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"output_value": "token_embeddings"}, ValueError, "token states are not kept"),
        ({"precision": "int4"}, ValueError, "'int4': give one of float32, int8"),
        ({"pool": {}}, TypeError, "one process uses all cores"),
        ({"batch_size": 0}, ValueError, "batch_size is 0"),
        ({"truncate_dim": 0}, ValueError, "truncate_dim is 0"),
        ({"device": "tpu"}, ValueError, "one of cpu, cuda, mps"),
        ({"device": ["cuda:0", "cpu"]}, ValueError, "device is"),
        ({"sentences": TEXTS}, TypeError, "takes texts once"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_arguments_that_cannot_be_followed(
    embedder: Embedder, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        embedder.encode(TEXTS, **arguments)
    assert not embedder._processes


def test_no_texts_are_refused(embedder: Embedder) -> None:
    with pytest.raises(TypeError, match="takes texts"):
        embedder.encode()


def test_vectors_are_cut_before_they_are_scaled(case: Case) -> None:
    with Embedder(case.model, provider="native", threads=1, normalize=False) as embedder:
        whole = embedder.encode(TEXTS)
        assert np.array_equal(embedder.encode(TEXTS, truncate_dim=5), whole[:, :5])
        scaled = embedder.encode(TEXTS, truncate_dim=5, normalize_embeddings=True)
        np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1, atol=1e-6)
    with Embedder(case.model, provider="native", threads=1, normalize=False, truncate_dim=7) as embedder:
        assert embedder.dimensions == embedder.get_sentence_embedding_dimension() == 7
        assert np.array_equal(embedder.encode(TEXTS), whole[:, :7])
        assert embedder.encode(TEXTS, truncate_dim=3).shape == (3, 3)
        assert pickle.loads(pickle.dumps(embedder)).truncate_dim == 7


# By sentence-transformers 6.2's quantize_embeddings; the fourth component is constant.
QUANTIZED = {
    "int8": ([-15, 22, -17, -128, -36, -59, -3, 66, -35, -30, 32, 9], -24272),
    "uint8": ([113, 150, 111, 0, 92, 69, 125, 194, 93, 98, 160, 137], 160048),
    "binary": ([83, -80], -2095),
    "ubinary": ([211, 48], 28625),
}


@pytest.mark.parametrize("precision", QUANTIZED)
def test_types_of_components_are_those_of_sentence_transformers(precision: str) -> None:
    matrix = np.random.default_rng(7).standard_normal((120, 12)).astype(np.float32)
    matrix[:, 3] = 0.5
    found = quantized(matrix, precision)
    first, total = QUANTIZED[precision]
    assert found[0].tolist() == first and int(found.astype(np.int64).sum()) == total


def test_precision_is_of_the_answer(embedder: Embedder) -> None:
    plain = embedder.encode(TEXTS)
    assert np.array_equal(embedder.encode(TEXTS, precision="ubinary"), np.packbits(plain > 0, axis=-1))
    assert embedder.encode("one", precision="binary").dtype == np.int8
    with pytest.warns(UserWarning, match="from 3 texts"):
        assert embedder.encode(TEXTS, precision="int8").dtype == np.int8
    with pytest.raises(ValueError, match="one text alone"):
        embedder.encode("one", precision="uint8")


def test_tensors_need_torch(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="not installed"):
        embedder.encode(TEXTS, convert_to_tensor=True)
    plain = embedder.encode(TEXTS)
    torch = types.SimpleNamespace(from_numpy=lambda array: array.view(np.recarray))
    monkeypatch.setitem(sys.modules, "torch", torch)
    tensor = embedder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, np.recarray) and np.array_equal(tensor, plain)
    assert len(embedder.encode(TEXTS, convert_to_numpy=False)) == 3
    assert embedder.encode("one", convert_to_tensor=True).shape == plain.shape[1:]


@pytest.mark.parametrize(
    "of",
    [
        pa.array,
        lambda texts: pa.array(texts, pa.string_view()),
        lambda texts: pa.array(texts).dictionary_encode(),
        lambda texts: pa.chunked_array([texts[:1], texts[1:]]),
        pl.Series,
        lambda texts: pl.Series(texts).cast(pl.Categorical),
        lambda texts: pl.DataFrame({"text": texts})["text"],
        lambda texts: iter(texts),
        lambda texts: {text: 0 for text in texts}.keys(),
    ],
)
def test_arrays_of_texts(embedder: Embedder, of: object) -> None:
    assert callable(of)
    assert np.array_equal(embedder.encode(of(TEXTS)), embedder.encode(TEXTS))
    assert embedder.encode(of([])).shape == (0, embedder.dimensions) or of is pl.Series


def test_arrays_of_something_else(embedder: Embedder) -> None:
    for array in (pa.array([1, 2]), pl.Series([1.5])):
        with pytest.raises(TypeError, match="holds no texts"):
            embedder.encode(array)
    with pytest.raises(TypeError, match="text 1 is null"):
        embedder.encode(pa.array(["a", None]))
    assert not embedder._processes


def test_prompts_of_the_caller(prompted: Case) -> None:
    with Embedder(prompted.model, provider="native", threads=1, prompts={"mine": "query: "}) as embedder:
        np.testing.assert_allclose(embedder.encode(prompted.texts, prompt_name="mine"), prompted.expected, atol=2e-5)
        assert np.array_equal(embedder.encode("a", "query"), embedder.encode("a", "mine"))
        assert pickle.loads(pickle.dumps(embedder)).prompts == {"mine": "query: "}
    with Embedder(prompted.model, provider="native", threads=1, default_prompt_name="query") as embedder:
        np.testing.assert_allclose(embedder.encode(prompted.texts), prompted.expected, atol=2e-5)


def test_a_call_with_a_device_has_a_process_of_its_own(case: Case) -> None:
    with Embedder(case.model, provider="native", threads=1) as embedder:
        expected = embedder.encode(TEXTS)
        assert np.array_equal(embedder.encode(TEXTS, device="cpu"), expected)
        assert np.array_equal(embedder.encode(TEXTS, device=["cpu", "cpu"]), expected)
        with pytest.raises(EmbedctlError, match="(?i)gpu|cuda"):
            embedder.encode(TEXTS, device="cuda:99")
        assert np.array_equal(embedder.encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("device", "provider", "options"),
    [
        (None, None, {}),
        (1, None, {"device": 1}),
        ("0,1", None, {"device": "0,1"}),
        ([0, 1], None, {"device": [0, 1]}),
        ("all", None, {"device": "all"}),
        ("cuda", None, {"provider": "cuda"}),
        ("cuda:1", None, {"provider": "cuda", "device": [1]}),
        (["cuda:0", "cuda:2"], None, {"provider": "cuda", "device": [0, 2]}),
        ("cuda:1", "tensorrt", {"device": [1]}),
        ("cpu", None, {"provider": ["native", "cpu", "rten"]}),
        ("mps", None, {"provider": "coreml"}),
    ],
)
def test_devices(device: object, provider: str | None, options: dict[str, object]) -> None:
    assert device_options(device, provider) == options


def test_arguments_of_the_model(tmp_path: object) -> None:
    assert translated("org/name", {"revision": "abc", "threads": 2}) == ("org/name@abc", {"threads": 2})
    assert translated("m", {"cache_folder": "c", "local_files_only": True}) == ("m", {"cache_dir": "c", "offline": True})
    assert translated("m", {"backend": "onnx"})[1] == {"provider": "cpu"}
    assert translated("m", {"backend": "torch", "model_kwargs": None})[1] == {}
    assert translated("m", {"backend": "openvino", "device": "cpu"})[1] == {"provider": "openvino"}
    with pytest.raises(ValueError, match="a folder: it has no revisions"):
        Embedder(str(tmp_path), revision="main")
    with pytest.raises(ValueError, match="backend is 'jax': give one of torch, onnx"):
        Embedder("org/name", backend="jax")
    with pytest.raises(TypeError, match="model_kwargs has no effect: the type of the arithmetic is precision="):
        Embedder("org/name", model_kwargs={"dtype": "float16"})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="HF_TOKEN"):
        Embedder("org/name", token="secret")  # type: ignore[call-arg]
    with pytest.warns(UserWarning, match="no code of a repository"):
        Embedder("org/name", trust_remote_code=True)
