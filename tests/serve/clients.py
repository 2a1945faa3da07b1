"""Asks a server by the clients that others have made, and compares with the vectors of the batch job."""

import os
import sys

# LiteLLM fetches a list of prices otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import numpy
import ollama
import openai
from huggingface_hub import InferenceClient
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

url, key = sys.argv[1:]
texts = open("texts.txt").read().splitlines()
expected = numpy.load("vectors.npy")


def same(vectors, who):
    vectors = numpy.asarray(vectors, dtype=numpy.float32)
    assert vectors.shape == expected.shape, (who, vectors.shape)
    assert (vectors == expected).all(), (who, abs(vectors - expected).max())


client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
models = [model.id for model in client.models.list()]
assert len(models) == 1, models
model = models[0]
assert client.models.retrieve(model).id == model
try:
    client.models.retrieve("another")
    raise AssertionError("a model that is not there was found")
except openai.NotFoundError:
    pass
for form in ("float", "base64", None):
    options = {"encoding_format": form} if form else {}
    answer = client.embeddings.create(model=model, input=texts, **options)
    assert answer.usage.prompt_tokens > len(texts) and answer.model == model
    if form == "base64":
        import base64

        rows = [numpy.frombuffer(base64.b64decode(one.embedding), "<f4") for one in answer.data]
        same(rows, "openai, base64")
    else:
        same([one.embedding for one in answer.data], f"openai, {form}")
one = client.embeddings.create(model=model, input=texts[0])
assert (numpy.asarray(one.data[0].embedding, dtype=numpy.float32) == expected[0]).all()
for wrong, kind in (
    ({"model": "text-embedding-3-small", "input": "a"}, openai.NotFoundError),
    ({"model": model, "input": []}, openai.BadRequestError),
    ({"model": model, "input": "a", "dimensions": 7}, openai.BadRequestError),
):
    try:
        client.embeddings.create(**wrong)
        raise SystemExit(f"{wrong} was taken")
    except kind as error:
        assert error.body["message"], error
try:
    client.with_options(api_key="wrong").embeddings.create(model=model, input="a")
    raise SystemExit("a wrong key was taken")
except openai.AuthenticationError:
    pass

# Without the check it sends text; with it, ids of OpenAI's vocabulary.
langchain = OpenAIEmbeddings(model=model, base_url=f"{url}/v1", api_key=key, check_embedding_ctx_length=False)
same(langchain.embed_documents(texts), "langchain-openai")
assert (numpy.asarray(langchain.embed_query(texts[1]), dtype=numpy.float32) == expected[1]).all()

llama = OpenAILikeEmbedding(model_name=model, api_base=f"{url}/v1", api_key=key)
same(llama.get_text_embedding_batch(texts), "llama-index")
assert (numpy.asarray(llama.get_query_embedding(texts[2]), dtype=numpy.float32) == expected[2]).all()

hub = InferenceClient(base_url=url, token=key)
same([hub.feature_extraction(text)[0] for text in texts], "huggingface_hub")
same(hub.feature_extraction(texts), "huggingface_hub, several")
same(hub.feature_extraction(texts, normalize=True, truncate=True), "huggingface_hub, settings")

answer = litellm.embedding(model=f"hosted_vllm/{model}", input=texts, api_base=f"{url}/v1", api_key=key)
same([one["embedding"] for one in answer.data], "litellm, hosted_vllm")

client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})
assert [one.model for one in client.list().models] == [model]
assert [one.model for one in client.ps().models] == [model]
shown = client.show(model)
assert shown.capabilities == ["embedding"], shown
assert shown.modelinfo["embedctl.embedding_length"] == expected.shape[1], shown
same(client.embed(model=model, input=texts).embeddings, "ollama")
same(client.embed(model=f"{model}:latest", input=texts).embeddings, "ollama, with a tag")
assert (numpy.asarray(client.embeddings(model=model, prompt=texts[0]).embedding, dtype=numpy.float32) == expected[0]).all()
try:
    client.embed(model="llama3", input="a")
    raise SystemExit("another model was taken")
except ollama.ResponseError as error:
    assert error.status_code == 404 and "no model" in error.error, error
print("all clients agree")
