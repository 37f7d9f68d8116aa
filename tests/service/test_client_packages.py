"""Unmodified client packages get what the library computes, and understand errors."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("cohere")
pytest.importorskip("openai")

import cohere
import openai
from running import listening

from small_rerankers import pairs
from small_service import save_models
from telerank.dense.encoder import TorchEncoder
from telerank.reranking.scorer import Scorer
from telerank.service.settings import make_settings

QUERY = "q1 q2"
TEXTS = [text for _, text in pairs(12, longest=25)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def address(folders):
    models = {"rerankers": {"small": folders["reranker"]}, "encoders": {"vectors": folders["encoder"]}}
    given = {kind: {name: str(folder) for name, folder in named.items()} for kind, named in models.items()}
    with listening(make_settings(given)) as address:
        yield address


@pytest.fixture
def http():
    """What the clients send with, since they leave it open."""
    with httpx.Client(timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
def relevance(folders):
    logits = Scorer(str(folders["reranker"])).score([(QUERY, text) for text in TEXTS])
    return 1 / (1 + np.exp(-logits))


@pytest.fixture(scope="module")
def vectors(folders):
    encoder = TorchEncoder(str(folders["encoder"]))
    return encoder.encode_tokens(encoder.tokenize(TEXTS)[0])


def check(results, relevance, top):
    order = np.argsort(-relevance, kind="stable")[:top]
    assert [found.index for found in results] == order.tolist()
    assert np.allclose([found.relevance_score for found in results], relevance[order], atol=2e-6)


def test_cohere_v1(address, http, relevance):
    client = cohere.Client(api_key="none", base_url=address, httpx_client=http)
    documents = [{"text": text, "number": str(number)} for number, text in enumerate(TEXTS)]
    reply = client.rerank(
        query=QUERY, documents=documents, model="small", top_n=4, return_documents=True, max_chunks_per_doc=1
    )
    check(reply.results, relevance, 4)
    assert [found.document.text for found in reply.results] == [TEXTS[found.index] for found in reply.results]
    assert reply.meta.api_version.version == "1"
    assert reply.meta.tokens.input_tokens > 0


def test_cohere_v2(address, http, relevance):
    client = cohere.ClientV2(api_key="none", base_url=address, httpx_client=http)
    reply = client.rerank(model="small", query=QUERY, documents=TEXTS, top_n=5, max_tokens_per_doc=4096)
    check(reply.results, relevance, 5)
    assert reply.meta.api_version.version == "2"
    assert reply.meta.warnings is None


def test_cohere_v2_of_many_requests_at_once(address, relevance):
    async def run():
        async with httpx.AsyncClient(timeout=60) as http:
            client = cohere.AsyncClientV2(api_key="none", base_url=address, httpx_client=http)
            asking = [client.rerank(model="small", query=QUERY, documents=TEXTS) for _ in range(8)]
            return await asyncio.gather(*asking)

    for reply in asyncio.run(run()):
        check(reply.results, relevance, None)


def test_cohere_understands_errors(address, http):
    client = cohere.ClientV2(api_key="none", base_url=address, httpx_client=http)
    with pytest.raises(cohere.NotFoundError) as missing:
        client.rerank(model="other", query=QUERY, documents=TEXTS)
    assert missing.value.body["message"] == "no re-ranker 'other'; known: small"
    with pytest.raises(cohere.BadRequestError):
        client.rerank(model="small", query=QUERY, documents=[])
    with pytest.raises(cohere.UnprocessableEntityError):
        client.rerank(model="small", query=QUERY, documents=TEXTS, max_tokens_per_doc=0)


@pytest.mark.parametrize("form", ["float", "base64", None])
def test_openai(address, http, vectors, form):
    client = openai.OpenAI(api_key="none", base_url=f"{address}/v1", http_client=http)
    given = {} if form is None else {"encoding_format": form}
    reply = client.embeddings.create(model="vectors", input=TEXTS, **given)
    if form == "base64":
        assert isinstance(reply.data[0].embedding, str)
        return
    assert np.allclose([found.embedding for found in reply.data], vectors, atol=2e-6)
    assert reply.usage.prompt_tokens > 0


def test_openai_dimensions_models_and_errors(address, http, vectors):
    client = openai.OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0, http_client=http)
    short = client.embeddings.create(model="vectors", input=TEXTS[0], dimensions=3).data[0].embedding
    assert np.allclose(short, vectors[0, :3] / np.linalg.norm(vectors[0, :3]), atol=2e-6)
    assert [model.id for model in client.models.list()] == ["small", "vectors"]
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="other", input=TEXTS)
    assert str(missing.value) == "Error code: 404 - no encoder 'other'; known: vectors"
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.embeddings.create(model="vectors", input=[[1, 2, 3]])
    assert "got tokens" in str(refused.value)


def test_a_plain_request_of_open_webui(address, relevance):
    """It sends a bearer token, and sorts what it gets by ``index``."""
    body = {"model": "small", "query": QUERY, "documents": TEXTS, "top_n": len(TEXTS)}
    headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
    results = httpx.post(f"{address}/v1/rerank", headers=headers, json=body).json()["results"]
    scores = [found["relevance_score"] for found in sorted(results, key=lambda found: found["index"])]
    assert np.allclose(scores, relevance, atol=2e-6)
