from __future__ import annotations

import json

import pytest

import telerank as tr
from small_service import DOCS, make_index, serving, settings_of
from telerank.pipelines.functions import save_pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = make_index(tmp_path_factory.mktemp("search") / "idx")
    save_pipeline(tr.Index(folder), "best", "bm25(k1=0.9, b=0.4)")
    return folder


@pytest.fixture(scope="module")
def client(folder):
    with serving(settings_of(folder, pipelines={"mine": "best % 2"})) as client:
        yield client


def test_a_search_is_the_librarys(client, folder):
    reply = client.get("/v1/search", params={"query": "q1 x1", "k": 2})
    assert reply.status_code == 200
    ranking = tr.pipeline("bm25", folder).search("q1 x1")
    hits = reply.json()["hits"]
    assert [(hit["docno"], hit["score"]) for hit in hits] == list(ranking)[:2]
    assert [hit["rank"] for hit in hits] == [1, 2]
    assert reply.json()["more"] is True
    assert hits == client.post("/v1/search", json={"query": " q1 x1\n", "k": 2}).json()["hits"]


def test_pages_continue_the_ranking(client):
    whole = client.post("/v1/search", json={"query": "q1 x1", "k": 4}).json()["hits"]
    pages = [
        client.post("/v1/search", json={"query": "q1 x1", "k": 1, "page": page}).json()
        for page in (1, 2, 3, 4, 5)
    ]
    assert [hit for page in pages for hit in page["hits"]] == whole
    assert [page["more"] for page in pages] == [True, True, True, False, False]


@pytest.mark.parametrize("pipeline", ["best", "mine", "bm25(k1=0.9, b=0.4)", "rrf(bm25 % 9, best % 9)"])
def test_a_pipeline_has_a_name_or_a_text(client, folder, pipeline):
    reply = client.post("/v1/search", json={"query": "q1", "pipeline": pipeline}).json()
    texts = {"mine": "best % 2"}
    ranking = tr.pipeline(texts.get(pipeline, pipeline), folder).search("q1")
    assert [(hit["docno"], hit["score"]) for hit in reply["hits"]] == list(ranking)
    assert tr.pipeline(reply["pipeline"], folder).search("q1") == ranking
    assert sum(stage["milliseconds"] for stage in reply["stages"]) > 0


def test_hits_are_highlighted_and_explained(client):
    [hit, *_] = client.get(
        "/v1/search", params={"query": "Q1", "highlight": True, "explain": True, "k": 1}
    ).json()["hits"]
    assert [hit["text"][term["start"] : term["end"]] for term in hit["terms"]] == ["q1", "q1"]
    assert [part["text"] for part in hit["snippet"] if part.get("kind") == "match"] == ["q1 q1"]
    assert hit["explanation"]["value"] == pytest.approx(hit["score"])
    assert "text" not in client.get("/v1/search", params={"query": "q1", "text": False}).json()["hits"][0]


def test_a_score_is_explained(client, folder):
    reply = client.get("/v1/explain", params={"query": "q1", "docno": "b"}).json()
    explanation = tr.pipeline("bm25", folder).explain("q1", "b")
    assert reply["explanation"]["value"] == explanation.value
    assert reply["explanation"]["parts"][0]["what"] == explanation.parts[0].what
    assert client.get("/v1/explain", params={"query": "q1", "docno": "none"}).status_code == 404


def test_documents_by_name(client):
    docs = client.get("/v1/documents", params={"docno": [DOCS[2].docno, "a"]}).json()["documents"]
    assert docs == [
        {"docno": doc.docno, "title": doc.title, "url": doc.url, "text": doc.text}
        for doc in (DOCS[2], DOCS[0])
    ]
    missing = client.get("/v1/documents", params={"docno": ["a", "z"]})
    assert missing.status_code == 404
    assert missing.json()["message"] == "no document 'z' in the index idx"


def test_what_is_served_is_listed(client):
    reply = client.get("/v1/indexes").json()
    [index] = reply["indexes"]
    assert index == client.get("/v1/indexes/idx").json()
    assert index["documents"] == 4
    assert index["pipelines"] == {"best": "bm25(k1=0.9, b=0.4)", "mine": "best % 2", "bm25": "bm25"}
    assert client.get("/v1/indexes/other").status_code == 404


@pytest.mark.parametrize(
    ("values", "status", "message"),
    [
        ({}, 422, "query: Field required"),
        ({"query": " "}, 400, "query: it is empty"),
        ({"query": "q" * 2001}, 422, "query: at most 2,000 characters, got 2,001"),
        ({"query": "\ud800"}, 422, "query: half of a surrogate pair at character 0"),
        ({"query": "q1", "k": 0}, 422, "k: Input should be greater than or equal to 1"),
        ({"query": "q1", "page": 500, "k": 10}, 422, "documents ends at 5,000; at most 1,000 are ranked"),
        ({"query": "q1", "depth": 3}, 422, "depth: Extra inputs are not permitted"),
        ({"query": "q1", "index": "other"}, 404, "no index 'other'; known: idx"),
        ({"query": "q1", "pipeline": "bm25 >"}, 422, "'bm25 >': expected"),
        ({"query": "q1", "pipeline": "bm26"}, 422, "unknown name 'bm26'; did you mean 'bm25'?"),
        ({"query": "q1", "pipeline": "minmax(bm25)"}, 422, ") retrieves all documents; a request has at"),
        ({"query": "q1", "pipeline": "+".join(["bm25 % 9"] * 17)}, 422, "has at most 16 first stages"),
        ({"query": "q1", "pipeline": "bm25+" * 300 + "bm25"}, 422, "has at most 1,000 characters, got 1,504"),
        ({"query": "q1", "pipeline": "rrf(bm25 % 9, k=-1)"}, 422, "k"),
        ({"query": "q1", "segment": True}, 422, "no stage of it scores segments"),
        ({"query": "q1", "pipeline": "run('/etc/passwd')"}, 422, "unknown function 'run'"),  # no file is read
        ({"query": "q1", "pipeline": "a" * 100_000}, 422, "has at most 1,000 characters"),
        ({"query": "q1", "index": "a" * 100_000}, 404, "no index 'aaa"),
        ({"query": "q1", "k": "a" * 100_000}, 422, "k: Input should be a valid integer"),
        ({"query": "q1", "a" * 100_000: 1}, 422, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(client, values, status, message):
    reply = client.post(
        "/v1/search", content=json.dumps(values), headers={"content-type": "application/json"}
    )
    body = reply.json()
    assert reply.status_code == status, body
    assert message in body["message"]
    assert len(body["message"]) < 1010
    assert "\n" not in body["message"]
    assert body["detail"] == body["message"] == body["error"]
    assert body["error_type"]


def test_nothing_of_the_folder_is_said(client, folder):
    for pipeline in (
        "dense",
        "dense(minilm)",
        "rerank(m)",
        "read(m)",
        f"dense('{folder}')",
        f"rerank('{folder}')",
    ):
        reply = client.post("/v1/search", json={"query": "q1", "pipeline": f"bm25 % 3 >> {pipeline}"})
        assert reply.status_code in (404, 422)
        assert str(folder) in pipeline or str(folder) not in reply.text


def test_documents_like_one_are_found_and_feedback_is_a_pipeline(client, folder):
    reply = client.get("/v1/search", params={"like": "a", "k": 3, "explain": True}).json()
    ranking = tr.open(folder).like("a", 3)
    assert [(hit["docno"], hit["score"]) for hit in reply["hits"]] == list(ranking)
    assert reply["query"] == "a"
    assert reply["pipeline"].startswith("like(")
    assert (
        reply["hits"] == client.post("/v1/search", json={"like": "a", "k": 3, "explain": True}).json()["hits"]
    )
    grouped = client.get("/v1/search", params={"like": "a", "group": "file"})
    assert grouped.status_code == 200
    fed = client.get("/v1/search", params={"query": "q1 x1", "pipeline": "bm25 >> rm3(fb_docs=2)"}).json()
    ranked = tr.pipeline("bm25 >> rm3(fb_docs=2)", folder).search("q1 x1")
    assert [(hit["docno"], hit["score"]) for hit in fed["hits"]] == list(ranked)[:10]
    assert [stage["stage"].partition("(")[0] for stage in fed["stages"]] == ["bm25", "rm3"]


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ({"like": "no such"}, 404, "no document 'no such'"),
        ({"like": "a", "query": "q1"}, 422, "like: it stands instead"),
        ({"like": "a", "pipeline": "bm25"}, 422, "like: it stands instead"),
        ({}, 422, "query: Field required, or like"),
        (
            {"query": "q1", "pipeline": "bm25 >> rm3(fb_docs=101)"},
            422,
            "fb_docs is 101; a request has at most 100",
        ),
        ({"query": "q1", "pipeline": "bm25 >> bo1(fb_terms=5000)"}, 422, "fb_terms is 5,000"),
        ({"query": "q1", "pipeline": "bm25 >> rm3(max_df=7)"}, 422, "max_df must be from 0 to 1"),
        ({"query": "q1", "pipeline": "rm3 >> rm3(model=bm52)"}, 422, "bm52"),
    ],
)
def test_what_is_wrong_with_feedback_is_said(client, request_, status, message):
    reply = client.post("/v1/search", json=request_)
    assert reply.status_code == status, reply.text
    assert message in reply.text


def test_misspelt_words_and_suggestions_over_http(fiches):
    with serving(settings_of(fiches)) as client:
        ask = {"query": "aprenti", "spelling": True}
        reply = client.post("/v1/search", json=ask).json()
        assert reply["query"] == "apprenti"
        assert reply["spelling"] == {"typed": "aprenti", "meant": "apprenti", "searched": True}
        assert reply["hits"]
        both = client.get("/v1/search", params={"query": "prime aprenti", "spelling": "true"}).json()
        assert both["query"] == "prime aprenti"
        assert both["spelling"] == {"typed": "prime aprenti", "meant": "prime apprenti", "searched": False}
        for plain in (
            {"query": "aprenti"},
            {"query": "prime", "spelling": True},
            {"query": "zzzqq", "spelling": True},
        ):
            assert "spelling" not in client.post("/v1/search", json=plain).json()
        suggested = client.get("/v1/suggest", params={"query": "prime d'activite"}).json()
        assert suggested["suggestions"][0] == {"text": "Prime d’activité", "kind": "title", "documents": 1}
        assert (
            client.get("/v1/suggest", params={"query": "fiche", "k": 3}).json()["suggestions"][2]["kind"]
            == "title"
        )
        assert client.get("/v1/suggest", params={"query": "x" * 2001}).status_code == 422
        assert client.get("/v1/suggest", params={"query": "x", "k": 0}).status_code == 422
        assert client.get("/v1/suggest", params={"query": "x", "index": "no"}).status_code == 404
