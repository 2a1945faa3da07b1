"""sentence-transformers behind a minimal FastAPI server, with the route of text-embeddings-inference."""

import os

from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(os.environ["MODEL"], device="cpu", model_kwargs={"dtype": "float32"})
app = FastAPI()


class Inputs(BaseModel):
    inputs: str | list[str]


@app.get("/health")
def health():
    return {}


@app.post("/embed")
def embed(request: Inputs):
    texts = [request.inputs] if isinstance(request.inputs, str) else request.inputs
    return model.encode(texts, show_progress_bar=False).tolist()
