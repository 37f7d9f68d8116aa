from __future__ import annotations

import asyncio
import json

import cohere
import httpx
import numpy as np
import pytest

from small_rerankers import pairs
from small_service import held, listening, serving, wait_until
from telerank.reranking.scorer import Scorer
from telerank.service.app import create_app
from telerank.service.settings import make_settings

QUERY = "q1 q2"
TEXTS = [text for _, text in pairs(9, longest=25)]
LONG = "d1 d2 d3 " * 40
ROUTES = ("/rerank", "/v1/rerank", "/v2/rerank", "/reranking")
ERROR = {"detail", "message", "error", "error_type"}


def settings_with(models, **limits):
    return make_settings({"rerankers": {"small": str(models["reranker"])}, "limits": limits})


@pytest.fixture(scope="module")
def client(models):
    with serving(settings_with(models, texts=50)) as client:
        yield client


@pytest.fixture(scope="module")
def logits(models):
    return Scorer(str(models["reranker"])).score([(QUERY, text) for text in TEXTS])


@pytest.fixture(scope="module")
def order(logits):
    return np.argsort(-logits, kind="stable").tolist()


@pytest.fixture(scope="module")
def relevance(logits):
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("route", ROUTES)
def test_texts_get_the_array_of_tei_and_documents_the_object_of_cohere_and_jina(
    client, logits, order, relevance, route
):
    body = {"query": QUERY, "texts": TEXTS, "raw_scores": True, "return_text": True}
    reply = client.post(route, json=body).json()
    assert [(item["index"], item["text"]) for item in reply] == [(index, TEXTS[index]) for index in order]
    assert np.allclose([item["score"] for item in reply], logits[order], atol=2e-6)
    assert all(item.keys() == {"index", "score", "text"} for item in reply)
    body = {"model": "small", "query": QUERY, "documents": TEXTS, "top_n": 3, "return_documents": True}
    reply = client.post(route, json=body).json()
    assert [(item["index"], item["document"]["text"]) for item in reply["results"]] == [
        (index, TEXTS[index]) for index in order[:3]
    ]
    scores = [item["relevance_score"] for item in reply["results"]]
    assert np.allclose(scores, relevance[order[:3]], atol=2e-6)
    assert reply["model"] == "small"
    assert reply["usage"]["total_tokens"] == reply["meta"]["tokens"]["input_tokens"] > 9 * 5
    assert reply["meta"]["api_version"]["version"] == ("2" if "v2" in route else "1")
    assert "warnings" not in reply["meta"]


def test_coheres_packages_get_what_the_library_computes_and_understand_errors(models, relevance, order):
    given = {"query": QUERY, "documents": TEXTS}
    with listening(settings_with(models)) as address, httpx.Client(timeout=60) as http:
        first, second = (
            package(api_key="none", base_url=address, httpx_client=http)
            for package in (cohere.Client, cohere.ClientV2)
        )
        for version, package in (("1", first), ("2", second)):
            reply = package.rerank(**given, model="small", top_n=4)
            assert [item.index for item in reply.results] == order[:4]
            scores = [item.relevance_score for item in reply.results]
            assert np.allclose(scores, relevance[order[:4]], atol=2e-6)
            assert reply.meta.api_version.version == version
        [best] = first.rerank(**given, model="small", top_n=1, return_documents=True).results
        assert best.document.text == TEXTS[order[0]]
        with pytest.raises(cohere.NotFoundError) as missing:
            second.rerank(**given, model="other")
        assert missing.value.body["message"] == "no re-ranker 'other'; known: small"
        with pytest.raises(cohere.BadRequestError):
            second.rerank(model="small", query=QUERY, documents=[])
        with pytest.raises(cohere.UnprocessableEntityError):
            second.rerank(**given, model="small", max_tokens_per_doc=0)


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
    by_index = {item["index"]: item for item in results}
    assert [by_index[index].get("id") for index in range(3)] == ["a", 7, None]
    assert by_index[0]["document"] == documents[0]
    plain = {"query": QUERY, "documents": ["d1 d2 d3", "d4 d5 d6", "d7 d8"]}
    expected = client.post("/v1/rerank", json=plain).json()["results"]
    assert [item["index"] for item in results] == [item["index"] for item in expected]
    assert np.allclose(*([item["relevance_score"] for item in some] for some in (results, expected)))


def test_text_that_is_cut_is_said_and_refused_if_that_is_asked(client):
    documents = client.post("/rerank", json={"query": QUERY, "documents": ["d1", LONG, "d2"]})
    assert {item["index"] for item in documents.json()["results"] if item.get("truncated")} == {1}
    assert documents.json()["meta"]["warnings"] == [
        "1 of 3 texts are longer than is read: their ends were cut"
    ]
    assert documents.headers["x-truncated-texts"] == "1"
    texts = client.post("/rerank", json={"query": QUERY, "texts": ["d1", LONG], "truncate": True}).json()
    assert {item["index"] for item in texts if item.get("truncated")} == {1}
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
    assert np.ptp([item["score"] for item in scores]) < 2e-6
    assert all(item["truncated"] for item in scores)


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
        ({"query": "\ud800", "documents": ["d1"]}, 422, "surrogate"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(client, body, status, said):
    headers = {"content-type": "application/json"}
    reply = client.post("/rerank", content=json.dumps(body), headers=headers)
    assert reply.status_code == status
    if status != 200:
        assert reply.json().keys() == ERROR
        assert said in reply.json()["message"]


def test_scores_of_pairs_come_in_their_order(client, relevance):
    reply = client.post("/score", json={"text_1": QUERY, "text_2": TEXTS}).json()
    assert np.allclose([item["score"] for item in reply["data"]], relevance, atol=2e-6)
    assert [item["index"] for item in reply["data"]] == list(range(len(TEXTS)))
    paired = {"text_1": [QUERY] * len(TEXTS), "text_2": TEXTS}
    assert np.allclose(
        [item["score"] for item in client.post("/v1/score", json=paired).json()["data"]],
        [item["score"] for item in reply["data"]],
    )
    refused = client.post("/score", json={"text_1": ["q1", "q2"], "text_2": TEXTS})
    assert refused.status_code == 422


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


def test_a_reply_says_how_long_what_took_and_the_metrics_count_it(models):
    with serving(settings_with(models)) as client:
        reply = client.post("/rerank", json={"query": "q1", "texts": ["d1", "d1 d2 d3", LONG]})
        lines = client.get("/metrics").text.splitlines()
    names = ("queue", "tokenization", "inference", "total")
    queue, tokenise, infer, total = (float(reply.headers[f"x-{name}-time"]) for name in names)
    assert queue + tokenise + infer == pytest.approx(total, abs=0.2)
    assert infer > 0
    assert int(reply.headers["x-compute-tokens"]) == 5 + 7 + 48

    def value(name):
        values = (line.split()[-1] for line in lines if line.startswith(f'telerank_{name}{{model="small"}} '))
        return float(next(values))

    counts = [value(f"{name}_seconds_count") for name in ("queue", "tokenise", "infer")]
    assert counts == [1, 1, 1]
    assert value("batch_texts_sum") == value("text_tokens_count") == 3
    assert value("text_tokens_sum") == 5 + 7 + 48
    assert value("batch_tokens_sum") - value("padding_tokens_total") == 5 + 7 + 48
    assert value("truncated_texts_total") == 1


def test_clients_that_leave_a_full_queue_and_a_passed_deadline(models):
    settings, texts = settings_with(models, queue=2), {"query": QUERY, "texts": TEXTS}
    app = create_app(settings)
    served = app.state.served

    async def run(address: str) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            batcher = served.batchers.of("small", served.snapshot().models.rerankers.find())

            async def post(count: int) -> asyncio.Task:
                task = asyncio.create_task(http.post("/rerank", json=texts))
                await asyncio.to_thread(wait_until, lambda: batcher.requests == count)
                return task

            with held(served.prepare):
                waiting = [await post(1), await post(2)]
                refused = await http.post("/rerank", json=texts)
                assert refused.status_code == 429
                assert int(refused.headers["Retry-After"]) >= 1
                assert "2 requests with 18 texts wait" in refused.json()["error"]
                waiting.pop().cancel()
                await asyncio.to_thread(wait_until, lambda: batcher.requests == 1)
            assert (await waiting[0]).status_code == 200
            lines = (await http.get("/metrics")).text.splitlines()
            for reason in ("full", "left"):
                name = "telerank_dropped_requests_total"
                assert f'{name}{{model="small",reason="{reason}"}} 1.0' in lines

    with listening(settings, app) as address:
        asyncio.run(run(address))
    with serving(settings_with(models, seconds=0.0001)) as client:
        late = client.post("/rerank", json=texts)
    assert (late.status_code, late.json()["detail"]) == (503, "not done within 0.0001 seconds")
    assert late.headers["Retry-After"]
