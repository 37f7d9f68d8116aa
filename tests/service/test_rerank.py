"""Re-ranking over HTTP: both families of requests, what is cut, what is refused, clients that leave."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi")

from running import listening

from small_rerankers import pairs
from small_service import save_models, serving
from telerank.reranking.scorer import Scorer
from telerank.service.settings import make_settings

QUERY = "q1 q2"
TEXTS = [text for _, text in pairs(9, longest=25)]
LONG = "d1 d2 d3 " * 40
ROUTES = ("/rerank", "/v1/rerank", "/v2/rerank", "/reranking")
ERROR = {"detail", "message", "error", "error_type"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def settings(folders):
    return make_settings({"rerankers": {"small": str(folders["reranker"])}, "limits": {"texts": 50}})


@pytest.fixture(scope="module")
def client(settings):
    with serving(settings) as client:
        yield client


@pytest.fixture(scope="module")
def logits(folders):
    return Scorer(str(folders["reranker"])).score([(QUERY, text) for text in TEXTS])


def order(logits):
    return np.argsort(-logits, kind="stable").tolist()


@pytest.mark.parametrize("route", ROUTES)
def test_texts_get_the_array_of_tei(client, logits, route):
    body = {"query": QUERY, "texts": TEXTS, "raw_scores": True, "return_text": True}
    reply = client.post(route, json=body).json()
    assert [found["index"] for found in reply] == order(logits)
    assert [found["text"] for found in reply] == [TEXTS[index] for index in order(logits)]
    assert np.allclose([found["score"] for found in reply], logits[order(logits)], atol=2e-6)
    assert all(found.keys() == {"index", "score", "text"} for found in reply)


@pytest.mark.parametrize("route", ROUTES)
def test_documents_get_the_object_of_cohere_and_jina(client, logits, route):
    body = {"model": "small", "query": QUERY, "documents": TEXTS, "top_n": 3, "return_documents": True}
    reply = client.post(route, json=body).json()
    assert [found["index"] for found in reply["results"]] == order(logits)[:3]
    relevance = 1 / (1 + np.exp(-logits[order(logits)[:3]]))
    assert np.allclose([found["relevance_score"] for found in reply["results"]], relevance, atol=2e-6)
    assert [found["document"]["text"] for found in reply["results"]] == [
        TEXTS[index] for index in order(logits)[:3]
    ]
    assert reply["model"] == "small"
    assert reply["usage"]["total_tokens"] == reply["meta"]["tokens"]["input_tokens"] > 9 * 5
    assert reply["meta"]["api_version"]["version"] == ("2" if "v2" in route else "1")
    assert "warnings" not in reply["meta"]


def test_documents_that_are_objects_keep_their_ids_and_fields(client):
    documents = [
        {"id": "a", "title": "d1", "text": "d2 d3", "year": 1450},
        {"id": 7, "title": "d4 d5", "text": "d6"},
        {"title": "d7", "text": "d8"},
    ]
    body = {
        "query": QUERY,
        "documents": documents,
        "return_documents": True,
        "rank_fields": ["title", "text"],
    }
    results = client.post("/v1/rerank", json=body).json()["results"]
    by_index = {found["index"]: found for found in results}
    assert [by_index[index].get("id") for index in range(3)] == ["a", 7, None]
    assert by_index[0]["document"] == documents[0]
    plain = {"query": QUERY, "documents": ["d1 d2 d3", "d4 d5 d6", "d7 d8"]}
    expected = client.post("/v1/rerank", json=plain).json()["results"]
    assert [found["index"] for found in results] == [found["index"] for found in expected]
    assert np.allclose(*([found["relevance_score"] for found in some] for some in (results, expected)))


def test_text_that_is_cut_is_said_and_refused_if_that_is_asked(client):
    documents = client.post("/rerank", json={"query": QUERY, "documents": ["d1", LONG, "d2"]})
    assert {found["index"] for found in documents.json()["results"] if found.get("truncated")} == {1}
    assert documents.json()["meta"]["warnings"] == [
        "1 of 3 texts are longer than is read: their ends were cut"
    ]
    assert documents.headers["x-truncated-texts"] == "1"
    texts = client.post("/rerank", json={"query": QUERY, "texts": ["d1", LONG], "truncate": True}).json()
    assert {found["index"] for found in texts if found.get("truncated")} == {1}
    for name in ("documents", "texts"):
        refused = client.post("/rerank", json={"query": QUERY, name: ["d1", LONG], "truncate": False})
        assert refused.status_code == 422
        assert refused.json().keys() == ERROR
        assert "text 1 is longer than the model reads" in refused.json()["message"]
    short = {"query": QUERY, "documents": ["d1 d2 d3"], "max_tokens_per_doc": 2}
    assert client.post("/v2/rerank", json=short).json()["results"][0]["truncated"] is True


def test_a_text_may_lose_its_beginning(client):
    end = "d7 " * 60
    scores = [
        client.post("/rerank", json={"query": QUERY, "texts": [text], "truncation_direction": way}).json()[0]
        for text, way in (("d1 d2 d3 d4 " + end, "Left"), ("d5 d6 d8 d9 " + end, "Left"), (end, "Right"))
    ]
    assert np.ptp([found["score"] for found in scores]) < 2e-6
    assert all(found["truncated"] for found in scores)


def test_fields_that_are_not_read_are_named(client):
    body = {"query": QUERY, "documents": TEXTS, "priority": 1, "top_k": 2}
    reply = client.post("/v2/rerank", json=body).json()
    assert reply["meta"]["warnings"] == ["priority is not read", "top_k is not read"]
    assert len(reply["results"]) == len(TEXTS)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"query": "", "documents": ["d1"]}, 400, "query: it is empty"),
        ({"query": " ", "texts": ["d1"]}, 400, "query: it is empty"),
        ({"query": QUERY, "documents": []}, 400, "no texts"),
        ({"query": QUERY, "texts": []}, 400, "no texts"),
        ({"query": QUERY}, 422, "expected documents"),
        ([1], 422, "expected documents"),
        ({"documents": ["d1"]}, 422, "query: Field required"),
        ({"query": 3, "documents": ["d1"]}, 422, "query: Input should be a valid string"),
        ({"query": QUERY, "documents": ["d1"], "top_n": -1}, 422, "top_n"),
        ({"query": QUERY, "documents": [{"title": "d1"}]}, 422, "documents.0: expected a text in text"),
        ({"query": QUERY, "documents": [{"text": 3}]}, 422, "documents.0: expected a text in text"),
        ({"query": QUERY, "documents": ["d1"], "rank_fields": ["x"]}, 200, ""),
        ({"query": QUERY, "documents": [{"text": "d1"}], "rank_fields": []}, 422, "rank_fields"),
        ({"query": QUERY, "documents": ["d1"] * 51}, 413, "51 texts, at most 50"),
        ({"query": QUERY, "documents": ["d" * 200_000]}, 413, "200,000 characters"),
        ({"model": "other", "query": QUERY, "documents": ["d1"]}, 404, "no re-ranker 'other'; known: small"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(client, body, status, said):
    reply = client.post("/rerank", json=body)
    assert reply.status_code == status
    if status != 200:
        assert reply.json().keys() == ERROR
        assert said in reply.json()["message"]


def test_half_a_surrogate_pair_is_refused(client):
    body = b'{"query": "\\ud800", "documents": ["d1"]}'
    reply = client.post("/rerank", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 422
    assert "surrogate" in reply.json()["message"]


def test_scores_of_pairs_come_in_their_order(client, logits):
    reply = client.post("/score", json={"text_1": QUERY, "text_2": TEXTS}).json()
    assert np.allclose([found["score"] for found in reply["data"]], 1 / (1 + np.exp(-logits)), atol=2e-6)
    assert [found["index"] for found in reply["data"]] == list(range(len(TEXTS)))
    paired = {"text_1": [QUERY] * len(TEXTS), "text_2": TEXTS}
    assert np.allclose(
        [found["score"] for found in client.post("/v1/score", json=paired).json()["data"]],
        [found["score"] for found in reply["data"]],
    )
    refused = client.post("/score", json={"text_1": ["q1", "q2"], "text_2": TEXTS})
    assert refused.status_code == 422


def test_a_reply_says_how_long_what_took(client):
    headers = client.post("/rerank", json={"query": QUERY, "texts": TEXTS}).headers
    times = [float(headers[f"x-{name}-time"]) for name in ("queue", "tokenization", "inference", "total")]
    assert sum(times[:3]) == pytest.approx(times[3], abs=0.2)
    assert times[2] > 0
    assert int(headers["x-compute-tokens"]) > 0


def test_the_models_and_their_tokens(client):
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["small"]
    info = client.get("/info").json()
    assert (info["model_id"], info["max_input_length"]) == ("small", 48)
    assert "reranker" in info["model_type"]
    tokens = client.post("/tokenize", json={"inputs": ["q1 d2", LONG]}).json()
    assert [token["text"] for token in tokens[0]] == ["[CLS]", "q1", "d2", "[SEP]"]
    assert [(token["start"], token["stop"]) for token in tokens[0]] == [
        (None, None),
        (0, 2),
        (3, 5),
        (None, None),
    ]
    assert len(tokens[1]) == 122
    plain = client.post("/tokenize", json={"inputs": "q1", "add_special_tokens": False}).json()
    assert [token["special"] for token in plain[0]] == [False]


def test_without_an_encoder_there_are_no_vectors(client):
    reply = client.post("/v1/embeddings", json={"input": "d1"})
    assert reply.status_code == 404
    assert "no encoder" in reply.json()["message"]


@pytest.fixture
def held(monkeypatch):
    """Scoring waits for this event; ``held.batches`` has what was scored."""
    gate = threading.Event()
    gate.batches, score = [], Scorer.score_batch

    def score_batch(self, parts):
        gate.batches.append(sum(len(rows) for _, rows in parts))
        assert gate.wait(60)
        return score(self, parts)

    monkeypatch.setattr(Scorer, "score_batch", score_batch)
    yield gate
    gate.set()


async def until(condition):
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


def test_what_a_client_has_left_is_not_computed(settings, held):
    """The client closes its connection while its texts wait for the batch before them."""

    async def run(address: str) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            first = asyncio.create_task(http.post("/rerank", json={"query": QUERY, "texts": ["d1"]}))
            await until(lambda: held.batches == [1])
            leaving = asyncio.create_task(http.post("/rerank", json={"query": QUERY, "texts": ["d2"] * 7}))
            staying = asyncio.create_task(http.post("/rerank", json={"query": QUERY, "texts": ["d3"] * 5}))
            await asyncio.sleep(1)  # both are tokenised, and wait
            leaving.cancel()
            await asyncio.wait([leaving])
            await asyncio.sleep(1)  # the service has seen that it left
            held.set()
            assert (await first).status_code == (await staying).status_code == 200
            assert held.batches == [1, 5]

    with listening(settings) as address:
        asyncio.run(run(address))


def test_a_full_queue_and_a_passed_deadline_are_said(folders, held):
    limits = {"queue": 2, "seconds": 2.0}
    settings = make_settings({"rerankers": {"small": str(folders["reranker"])}, "limits": limits})
    body = {"query": QUERY, "texts": ["d1"]}

    async def run(address: str) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            waiting = [asyncio.create_task(http.post("/rerank", json=body)) for _ in range(2)]
            await asyncio.sleep(1)
            refused = await http.post("/rerank", json=body)
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) >= 1
            assert "2 requests with 2 texts wait" in refused.json()["error"]
            for late in await asyncio.gather(*waiting):
                assert late.status_code == 503
                assert late.headers["Retry-After"]
                assert "not done within 2 seconds" in late.json()["detail"]
            held.set()
            assert (await http.post("/rerank", json=body)).status_code == 200

    with listening(settings) as address:
        asyncio.run(run(address))


def test_the_documented_reply_is_the_reply(client):
    schema = client.get("/openapi.json").json()
    for route in (*ROUTES, "/score", "/embed", "/v1/embeddings", "/embed_sparse", "/info", "/tokenize"):
        assert route in schema["paths"]
    assert "example" in json.dumps(schema["paths"]["/rerank"]) or "examples" in json.dumps(
        schema["components"]
    )


def test_batches_are_counted_in_the_metrics(client):
    client.post("/rerank", json={"query": QUERY, "texts": ["d1", LONG]})
    lines = client.get("/metrics").text.splitlines()
    for name in ("queue_seconds", "tokenise_seconds", "infer_seconds", "batch_texts", "text_tokens"):
        count = next(line for line in lines if line.startswith(f'telerank_{name}_count{{model="small"}}'))
        assert float(count.split()[-1]) > 0
    cut = next(line for line in lines if line.startswith('telerank_truncated_texts_total{model="small"}'))
    assert float(cut.split()[-1]) > 0
