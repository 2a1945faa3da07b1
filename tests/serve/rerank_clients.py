"""Asks a server by the clients of rerankers that others have made. rerank_clients.py URL KEY reads `expected.json`: the query,
the documents, and the relevance of each."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import cohere
import litellm

url, key = sys.argv[1:]
wanted = json.load(open("expected.json"))
query, documents, relevance, model = (wanted[name] for name in ("query", "documents", "relevance", "model"))
best = sorted(range(len(documents)), key=lambda index: -relevance[index])


def same(found, who, count=len(documents)):
    """`found` are pairs of an index and a score."""
    found = list(found)
    assert [index for index, _ in found] == best[:count], (who, found)
    for index, score in found:
        assert abs(score - relevance[index]) < 1e-6, (who, index, score)


def results(answer):
    return [(one.index, one.relevance_score) for one in answer.results]


first = cohere.Client(api_key=key, base_url=url)
same(results(first.rerank(model=model, query=query, documents=documents)), "cohere")
answer = first.rerank(model=model, query=query, documents=[{"text": it} for it in documents], top_n=2, return_documents=True)
same(results(answer), "cohere, top_n", 2)
assert [one.document.text for one in answer.results] == [documents[index] for index in best[:2]], answer
second = cohere.ClientV2(api_key=key, base_url=url)
same(results(second.rerank(model=model, query=query, documents=documents, top_n=3)), "cohere, version 2", 3)
for wrong, kind in (
    (lambda: second.rerank(model="rerank-v3.5", query=query, documents=documents), cohere.NotFoundError),
    (lambda: second.rerank(model=model, query=query, documents=[]), cohere.BadRequestError),
    (lambda: cohere.ClientV2(api_key="wrong", base_url=url).rerank(model=model, query=query, documents=documents),
     cohere.UnauthorizedError),
):
    try:
        wrong()
        raise SystemExit(f"{kind} was not raised")
    except kind:
        pass

for provider, base in (
    ("hosted_vllm", url),
    ("hosted_vllm", f"{url}/v1/rerank"),
    ("cohere", url),
    ("jina_ai", f"{url}/v1/rerank"),
    # It sends `texts`, and has no `top_n`.
    ("huggingface", url),
):
    answer = litellm.rerank(
        model=f"{provider}/{model}", query=query, documents=documents, top_n=3, api_base=base, api_key=key
    )
    found = [(one["index"], one["relevance_score"]) for one in answer.results]
    same(found[:3], f"litellm, {provider} at {base}", 3)
print("all clients agree")
