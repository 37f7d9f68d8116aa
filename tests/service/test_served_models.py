from __future__ import annotations

import shutil

import numpy as np
import pytest

import telerank as tr
from small_service import make_index, serving, settings_of
from telerank.errors import TelerankError
from telerank.pipelines.functions import save_pipeline
from telerank.reranking.scorer import Scorer
from telerank.service.state import Served


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    folder = make_index(tmp_path_factory.mktemp("served") / "idx")
    tr.encode(folder, model=str(models["encoder"]))
    return folder


@pytest.fixture(scope="module")
def client(folder, models):
    settings = settings_of(
        folder,
        model="bm25 % 4 >> rerank(mine)",
        rerankers={"mine": str(models["reranker"])},
        readers={"answers": str(models["reader"])},
        pipelines={"vectors": f"dense({models['encoder']})", "long": "bm25 >> maxp(rerank(mine), window=8)"},
    )
    with serving(settings) as client:
        yield client


def hits(reply):
    assert reply.status_code == 200, reply.text
    return [(hit["docno"], pytest.approx(hit["score"], abs=1e-5)) for hit in reply.json()["hits"]]


def test_the_default_pipeline_re_ranks(client, folder, models):
    reply = client.post("/v1/search", json={"query": "q1 x1"})
    ranking = tr.pipeline(f"bm25 % 4 >> rerank('{models['reranker']}')", folder).search("q1 x1")
    assert hits(reply) == list(ranking)
    assert [stage["stage"] for stage in reply.json()["stages"]] == [
        "bm25(k1=1.2, b=0.75) % 4",
        "rerank(mine) % 11",
    ]


def test_a_pipeline_answers_or_ranks(client):
    """Also a text that was just asked for the other."""
    answering = "bm25 % 2 >> read(answers)"
    assert client.post("/v1/answer", json={"query": "q1", "pipeline": answering}).status_code == 200
    assert client.post("/v1/search", json={"query": "q1", "pipeline": answering}).status_code == 422
    for ranking in ("long", "bm25"):
        assert client.post("/v1/search", json={"query": "q1", "pipeline": ranking}).status_code == 200
        assert client.post("/v1/answer", json={"query": "q1", "pipeline": ranking}).status_code == 422


def test_a_question_in_the_simple_syntax_is_answered_from_what_fulfils_it(client, folder):
    asked = {"query": "q1 x1", "pipeline": "bm25 % 9 >> read(answers)", "k": 9}
    plain = client.post("/v1/answer", json=asked).json()
    assert "syntax" not in plain
    same = client.post("/v1/answer", json={**asked, "syntax": "simple"}).json()
    assert (same["answers"], same["syntax"]["words"]) == (plain["answers"], "q1 x1")
    typed = {**asked, "query": "q1 -x1", "syntax": "simple", "explain": True}
    without = client.post("/v1/answer", json=typed).json()
    holding = {doc.docno for doc in tr.open(folder).docs.values() if "x1" in doc.full_text.split()}
    assert without["syntax"]["words"] == "q1"
    assert "bm25" in without["pipeline"]
    assert holding
    assert without["answers"]
    assert not {answer["docno"] for answer in without["answers"]} & holding
    assert "fulfils the expression" in without["answers"][0]["explanation"]["what"]
    none = client.post("/v1/answer", json={**asked, "query": "-x1", "syntax": "simple"})
    assert (none.status_code, "no question" in none.text) == (422, True)


def test_no_path_of_a_model_is_shown(folder, models, tmp_path):
    """Two folders with one name, in the settings and in a pipeline that is saved with the index."""
    folder, other = (
        shutil.copytree(*copy)
        for copy in ((folder, tmp_path / "idx"), (models["reranker"], tmp_path / models["reranker"].name))
    )
    save_pipeline(tr.open(folder), "saved", f"bm25 % 4 >> rerank('{other}')")
    texts = {
        "model": f"bm25 % 4 >> rerank({models['reranker']})",
        "pipelines": {"p": f"bm25 >> rerank('{other}')"},
    }
    name = models["reranker"].name
    with serving(settings_of(folder, **texts)) as client:
        replies = [client.get("/v1/indexes"), client.get("/search?query=q1"), client.get("/compare?query=q1")]
        for model in ("", "p", "saved"):
            values = {"query": "q1 x1", **({"pipeline": model} if model else {})}
            replies.append(client.get("/v1/search", params=values))
            replies.append(client.get("/v1/explain", params={**values, "docno": "a"}))
            replies.append(client.get("/explain", params={"query": "q1 x1", "docno": "a", "model": model}))
        assert not [reply.text for reply in replies if reply.status_code != 200]
        assert not [reply.text for reply in replies if str(models["reranker"].parent) in reply.text]
        assert not [reply.text for reply in replies if str(tmp_path) in reply.text]
        assert f"rerank({name})" in replies[3].text
        assert f"rerank({name}-2)" in replies[6].text


def test_vectors_are_searched(client, folder, models):
    ranking = tr.pipeline(f"dense({models['encoder']})", folder).search("q1 x1")
    assert hits(client.post("/v1/search", json={"query": "q1 x1", "pipeline": "vectors"})) == list(ranking)
    for pipeline, model in (("bm25 % 4 >> rerank(mine)", "logit by mine"), ("vectors", "small-encoder")):
        values = {"query": "q1 x1", "docno": "a", "pipeline": pipeline}
        explanation = client.post("/v1/explain", json=values).json()["explanation"]
        assert str(models["encoder"].parent) not in str(explanation)
        assert model in explanation["what"]


def test_models_read_the_fields_that_a_request_names(client, folder, models):
    titles = "bm25 % 4 >> rerank(mine, fields=title)"
    reply = client.post("/v1/search", json={"query": "q1 x1", "pipeline": titles})
    stage = tr.open(folder).bm25() % 4 >> tr.rerank(str(models["reranker"]), tr.open(folder), fields="title")
    assert hits(reply) == list(stage.search("q1 x1"))
    asked = {"query": "q1", "pipeline": "bm25 % 9 >> read(answers, field=title)"}
    reply = client.post("/v1/answer", json=asked)
    assert reply.status_code == 200, reply.text
    for answer in reply.json()["answers"]:
        title = tr.open(folder)[answer["docno"]].title
        assert answer["field"] == "title"
        assert answer["text"] == title[answer["start"] : answer["end"]]
    refused = client.post(
        "/v1/answer", json={**asked, "pipeline": "bm25 % 9 >> read(answers, field=nothing)"}
    )
    assert (refused.status_code, "nothing" in refused.text) == (422, True)


def test_the_segment_that_counts_most_is_shown(client, folder):
    reply = client.post("/v1/search", json={"query": "q1", "pipeline": "long", "segment": True})
    index = tr.Index(folder)
    for hit in reply.json()["hits"]:
        segment = hit["segment"]
        assert index[hit["docno"]].text[segment["start"] : segment["end"]] == segment["text"]
        assert segment["score"] == pytest.approx(hit["score"], abs=1e-5)


@pytest.mark.parametrize(
    ("pipeline", "status"),
    [
        ("bm25 % 9 >> rerank(minilm)", 404),
        ("bm25 % 9 >> rerank('{reranker}')", 404),
        ("bm25 % 9 >> rerank('../models/small-reranker')", 404),
        ("dense('{reader}')", 404),
        ("bm25 % 9 >> rerank(mine, backend=onnx)", 422),
        ("bm25 % 9 >> rerank(mine, tokens=1000000)", 422),
        ("bm25 % 9 >> rerank(mine, fields='nothing')", 422),
        ("bm25 % 9 >> rerank(mine, fields='title,title')", 422),
        ("bm25 % 201 >> rerank(mine)", 422),
        ("bm25 % 101 >> rerank(mine) >> rerank(mine)", 422),
        ("bm25 % 9 >> maxp(rerank(mine))", 422),
        ("bm25 % 9 >> maxp(rerank(mine), first=23)", 422),
        ("passages(bm25 % 9, rerank(mine), alpha=0.5, beta=0.5)", 422),
        ("bm25 % 9 >> maxp(rerank(mine), first=22)", 200),
        ("bm25 % 9 >> rerank(mine)", 200),
        ("bm25 % 9 >> rerank(mine) + long % 3", 422),
        ("passages(bm25 % 9, rerank(mine), alpha=0.5, beta=0.5, first=2)", 200),
        ("dense % 3", 200),
        ("minmax(vectors % 9) + minmax(bm25 % 9)", 200),
    ],
)
def test_a_pipeline_of_a_valuesis_bounded(client, models, pipeline, status):
    text = pipeline.format(**models)
    reply = client.post("/v1/search", json={"query": "q1", "pipeline": text})
    assert reply.status_code == status, reply.text


def test_answers_are_the_librarys(client, folder, models):
    text = f"bm25 % 20 >> read('{models['reader']}') % 3"
    expected = tr.pipelines.functions.answer_pipeline(text, folder).answer("q1 x1")
    values = {"query": "q1 x1", "pipeline": "bm25 % 20 >> read(answers)"}
    reply = client.post("/v1/answer", json=values).json()
    answers = reply["answers"]
    assert [(each["text"], each["docno"], each["start"]) for each in answers] == [
        (each.text, each.docno, each.start) for each in expected
    ]
    for each in answers:
        text = tr.Index(folder)[each["docno"]].text
        assert text[each["start"] : each["end"]] == each["text"]
        assert f"{each['before']}{each['text']}{each['after']}" in text
    named = {"query": "q1 x1", "pipeline": "bm25", "reader": "answers", "explain": True}
    again = client.post("/v1/answer", json=named).json()["answers"]
    assert [each.pop("explanation")["value"] for each in again] == pytest.approx(
        [each["score"] for each in answers]
    )
    assert again == answers


def test_a_question_that_was_cut_has_a_warning(client, models):
    reader = {"pipeline": "bm25", "reader": "answers", "explain": True}  # an explanation reads once more
    for count, cut in ((70, True), (2, False)):
        words = ["q1"] * count
        reply = client.post("/v1/answer", json={"query": " ".join(words), **reader}).json()
        assert reply["answers"]
        limit = tr.reader(str(models["reader"])).reader.texts.longest_query
        line = f"read(answers): 1 question longer than {limit} tokens: cut there, {count - limit} tokens were"
        assert reply.get("warnings") == ([f"{line} not read"] if cut else None)
    for count, line in (
        (2, ""),
        (limit + 1, "The question is too long: its last word piece was not read."),
        (limit + 6, "The question is too long: its last 6 word pieces were not read."),
    ):
        page = client.get(f"/answer?query={'+'.join(['q1'] * count)}", headers={"accept-language": "en"}).text
        assert line in page
        assert ("too long" in page) is bool(line)


def test_the_default_answers_read_what_the_default_pipeline_ranks(client):
    reply = client.post("/v1/answer", json={"query": "q1"}).json()
    assert [stage["stage"].partition("(")[0] for stage in reply["stages"]] == ["bm25", "rerank", "read"]
    for more in (
        {"reader": "other"},
        {"pipeline": "bm25 % 201", "reader": "answers", "depth": 201},
        {"pipeline": "bm25 % 9"},
        {"depth": 9},
        {"pipeline": "read(answers)"},
    ):
        assert client.post("/v1/answer", json={"query": "q1", **more}).status_code in (404, 422), more


def test_a_model_kept_with_an_index_is_of_that_index_alone(tmp_path, models):
    first, other = make_index(tmp_path / "first"), make_index(tmp_path / "other")
    shutil.copytree(models["reranker"], first / "models" / "own")
    save_pipeline(tr.Index(first), "best", "bm25 % 9 >> rerank(own)")
    with serving(settings_of(first, indexes={"first": first, "other": other})) as client:
        request = {"query": "q1", "pipeline": "bm25 % 9 >> rerank(own)"}
        assert client.post("/v1/search", json=request).status_code == 200
        reply = client.post("/v1/search", json={**request, "index": "other"})
        assert reply.status_code == 404, reply.text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model": "dense(minilm)"}, "no vectors of minilm"),
        ({"judgments": "/none/judged.jsonl"}, "judgments: .*: cannot be written: there is no such folder"),
    ],
)
def test_what_cannot_be_served_ends_the_start(more, message, tmp_path):
    with pytest.raises(TelerankError, match=message):
        Served(settings_of(make_index(tmp_path / "idx"), **more)).open()


def test_rerankers_are_computed_as_the_settings_say(models, tmp_path, monkeypatch):
    """Also those of pipelines that say nothing themselves: there is one copy of the model."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, reranker = make_index(tmp_path / "idx"), str(models["reranker"])
    settings = settings_of(
        folder, rerankers={"small": reranker}, backend="onnx", batch_tokens=64, model="bm25 >> rerank(small)"
    )
    with serving(settings) as client:
        (scorer,) = client.app.state.served.snapshot().models.rerankers
        assert (scorer.backend, scorer.budget) == ("onnx", 64)
        body = {"query": "q1", "texts": ["x1 x2", "q1 x3"], "raw_scores": True}
        scores = {item["index"]: item["score"] for item in client.post("/rerank", json=body).json()}
        assert client.get("/v1/search", params={"query": "q1"}).status_code == 200
    expected = Scorer(reranker).score([("q1", "x1 x2"), ("q1", "q1 x3")])
    assert np.allclose([scores[0], scores[1]], expected, atol=1e-5)
