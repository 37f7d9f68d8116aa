from __future__ import annotations

import base64

import numpy as np
import openai
import pytest

import telerank as tr
from small_late import small_late
from small_models import small_encoder, small_masked
from small_rerankers import pairs
from small_service import make_index, serving
from telerank.dense.encoder import TorchEncoder
from telerank.models.encoders.term_weight_folders import save_term_weights, start_term_weights
from telerank.models.encoders.term_weights import TermWeightSettings
from telerank.pipelines.functions import save_pipeline
from telerank.service.settings import make_settings
from telerank.sparse.weights.encoder import TermEncoder

TEXTS = [text for _, text in pairs(9, longest=25)]
LONG = "d1 d2 d3 " * 200


@pytest.fixture(scope="module")
def client(models):
    settings = make_settings({"encoders": {"small": str(models["encoder"])}, "limits": {"texts": 50}})
    with serving(settings) as client:
        yield client


@pytest.fixture(scope="module")
def small_masked_folder(tmp_path_factory):
    return small_masked(tmp_path_factory.mktemp("masked") / "splade")


@pytest.fixture(scope="module")
def vectors(models):
    encoder = TorchEncoder(str(models["encoder"]))
    return encoder.encode_tokens(encoder.tokenize(TEXTS)[0])


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_openais_package_gets_what_the_library_computes_and_understands_errors(client, vectors):
    package = openai.OpenAI(
        api_key="none", base_url="http://testserver/v1", max_retries=0, http_client=client
    )
    for given in ({}, {"encoding_format": "float"}):  # by default the package takes base64
        reply = package.embeddings.create(model="small", input=TEXTS, **given)
        assert np.allclose([item.embedding for item in reply.data], vectors, atol=2e-6)
        assert reply.usage.prompt_tokens > 0
    body = {"model": "small", "input": TEXTS}
    plain = [client.post(route, json=body).json() for route in ("/v1/embeddings", "/embeddings")]
    assert plain[0] == plain[1]
    assert [item["index"] for item in plain[0]["data"]] == list(range(len(TEXTS)))
    assert plain[0]["usage"]["prompt_tokens"] == plain[0]["usage"]["total_tokens"] > len(TEXTS)
    assert plain[0]["model"] == "small"
    encoded = package.embeddings.create(model="small", input=TEXTS, encoding_format="base64").data[0]
    assert np.allclose(np.frombuffer(base64.b64decode(encoded.embedding), "<f4"), vectors[0], atol=2e-6)
    short = package.embeddings.create(model="small", input=TEXTS[0], dimensions=3).data[0].embedding
    assert np.allclose(short, unit(vectors[:1, :3])[0], atol=2e-6)
    assert [model.id for model in package.models.list()] == ["small"]
    with pytest.raises(openai.NotFoundError) as missing:
        package.embeddings.create(model="other", input=TEXTS)
    assert str(missing.value) == "Error code: 404 - no encoder 'other'; known: small"
    with pytest.raises(openai.UnprocessableEntityError, match="got tokens"):
        package.embeddings.create(model="small", input=[[1, 2, 3]])


def test_fewer_dimensions_are_the_first_ones_of_length_1(client, vectors):
    body = {"input": TEXTS, "dimensions": 5}
    data = client.post("/v1/embeddings", json=body).json()["data"]
    assert np.allclose([item["embedding"] for item in data], unit(vectors[:, :5]), atol=2e-6)
    reply = client.post("/embed", json={"inputs": TEXTS, "dimensions": 5}).json()
    assert np.allclose(reply, unit(vectors[:, :5]), atol=2e-6)
    refused = client.post("/v1/embeddings", json={"input": "d1", "dimensions": 33})
    assert refused.status_code == 422
    assert "small has 32, got 33" in refused.json()["message"]


def test_teis_embeddings_have_length_1_unless_they_should_not(client, vectors):
    assert np.allclose(client.post("/embed", json={"inputs": TEXTS}).json(), unit(vectors), atol=2e-6)
    plain = client.post("/embed", json={"inputs": TEXTS, "normalize": False}).json()
    assert np.allclose(plain, vectors, atol=2e-6)
    assert np.shape(client.post("/embed", json={"inputs": "d1"}).json()) == (1, 32)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/embed", {"inputs": TEXTS, "prompt_name": "query", "normalize": False}),
        ("/v1/embeddings", {"input": TEXTS, "input_type": "search_query"}),
    ],
)
def test_queries_are_encoded_as_queries(client, models, vectors, route, body):
    reply = client.post(route, json=body).json()
    encoded = reply if route == "/embed" else [item["embedding"] for item in reply["data"]]
    assert np.allclose(encoded, TorchEncoder(str(models["encoder"])).encode_queries(TEXTS).vectors, atol=2e-6)
    assert not np.allclose(encoded, vectors, atol=1e-3)


def test_text_that_is_cut_is_said_and_refused_if_that_is_asked(client):
    reply = client.post("/v1/embeddings", json={"input": ["d1", LONG]})
    assert [item.get("truncated") for item in reply.json()["data"]] == [None, True]
    assert client.post("/embed", json={"inputs": ["d1", LONG]}).headers["x-truncated-texts"] == "1"
    for route, name in (("/embed", "inputs"), ("/v1/embeddings", "input")):
        refused = client.post(route, json={name: ["d1", LONG], "truncate": False})
        assert refused.status_code == 422
        assert "text 1 is longer" in refused.json()["message"]


@pytest.mark.parametrize(
    ("route", "body", "status", "said"),
    [
        ("/v1/embeddings", {"input": []}, 400, "no texts"),
        ("/v1/embeddings", {"input": [1, 2]}, 422, "expected texts, got tokens"),
        ("/v1/embeddings", {"input": ["d1"] * 51}, 413, "51 texts, at most 50"),
        ("/embed", {"inputs": "d1", "truncation_direction": "Left"}, 422, "truncation_direction"),
        ("/embed_sparse", {"inputs": "d1"}, 424, "no model here gives sparse vectors"),
        ("/rerank", {"query": "q1", "texts": ["d1"]}, 404, "no re-ranker"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(client, route, body, status, said):
    reply = client.post(route, json=body)
    assert reply.status_code == status
    assert said in reply.json()["message"]
    assert reply.json().keys() == {"detail", "message", "error", "error_type"}


def test_the_encoder_describes_itself(client):
    info = client.get("/info").json()
    assert (info["model_id"], info["model_type"]) == ("small", {"embedding": {"pooling": "mean"}})
    tokens = client.post("/tokenize", json={"inputs": "d1"}).json()
    assert [token["text"] for token in tokens[0]] == ["[CLS]", "d1", "[SEP]"]


def test_late_interaction_re_ranks_in_a_pipeline_of_the_service(tmp_path):
    folder, model = make_index(tmp_path / "idx"), small_late(tmp_path / "late")
    index = tr.open(folder)
    index.encode_tokens(str(model), name="late")
    save_pipeline(index, "best", "bm25 % 10 >> maxsim(late)")
    expected = (index.bm25() % 10 >> index.maxsim("late")).search("q1 d1 x1")
    with serving(make_settings({"indexes": {"docs": str(folder)}})) as client:
        asked = {"query": "q1 d1 x1", "pipeline": "bm25 % 10 >> maxsim(late)", "explain": "true"}
        reply = client.get("/v1/search", params=asked)
        assert reply.status_code == 200, reply.text
        named = client.get("/v1/search", params={**asked, "pipeline": "best"})
        assert named.status_code == 200, named.text
        assert [hit["score"] for hit in named.json()["hits"]] == [h["score"] for h in reply.json()["hits"]]
        assert reply.status_code == 200, reply.text
        hits = reply.json()["hits"]
        assert [hit["docno"] for hit in hits] == list(expected.docnos)[: len(hits)]
        assert hits
        assert [hit["score"] for hit in hits] == pytest.approx(
            expected.scores[: len(hits)].tolist(), abs=1e-5
        )
        wrong = client.get("/v1/search", params={**asked, "pipeline": "bm25 >> maxsim(other)"})
        assert wrong.status_code in (400, 404, 422)


def test_sparse_vectors_are_those_of_the_model_of_an_index(tmp_path, small_masked_folder):
    folder, model = make_index(tmp_path / "idx", weights_model=str(small_masked_folder)), small_masked_folder
    with serving(make_settings({"indexes": {"docs": str(folder)}})) as client:
        reply = client.post("/embed_sparse", json={"inputs": TEXTS, "prompt_name": "query"})
        assert reply.headers["x-truncated-texts"] == "0"
        expected = TermEncoder(str(model)).encode(TEXTS, queries=True)
        for got, (numbers, weights, _) in zip(reply.json(), expected, strict=True):
            assert [item["index"] for item in got] == numbers.tolist()
            assert np.allclose([item["value"] for item in got], weights, atol=1e-5)
        long = client.post("/embed_sparse", json={"inputs": ["d1 " * 70, "d1"]})
        assert long.headers["x-truncated-texts"] == "1"
        name = client.get("/v1/models").json()["data"][0]
        assert (name["id"], name["kind"]) == (model.name, "sparse encoder")  # and no path
        assert client.post("/embed_sparse", json={"inputs": "d1", "model": "other"}).status_code == 404
        assert client.post("/embed_sparse", json={"inputs": []}).status_code == 400
        found = client.get("/v1/search", params={"query": "q1 x1", "pipeline": "impact", "explain": "true"})
        assert found.status_code == 200, found.text
        assert found.json()["hits"]
        for refused in ("impact(queries='/etc/passwd')", "impact(table='/etc/passwd')", "impact('/etc')"):
            wrong = client.get("/v1/search", params={"query": "q1", "pipeline": refused})
            assert wrong.status_code in (404, 422)
            assert "root" not in wrong.text


def test_a_model_of_words_searches_but_gives_no_numbers_of_pieces(tmp_path):
    settings = TermWeightSettings("deepct", scale=100, document_length=64)
    model = start_term_weights(small_encoder(tmp_path / "encoder"), settings, 0)
    save_term_weights(*model, tmp_path / "words")
    folder = make_index(tmp_path / "idx", weights_model=str(tmp_path / "words"))
    with serving(make_settings({"indexes": {"docs": str(folder)}})) as client:
        refused = client.post("/embed_sparse", json={"inputs": "d1"})
        assert refused.status_code == 422
        assert "weighs words, which have no numbers" in refused.json()["message"]
        for pipeline in ("impact", "bm25(over=weights)"):
            found = client.get(
                "/v1/search", params={"query": "q1 x1", "pipeline": pipeline, "explain": "true"}
            )
            assert found.status_code == 200, found.json()
