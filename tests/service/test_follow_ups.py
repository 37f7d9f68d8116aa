"""A conversation over HTTP and on the page: the client keeps the questions, the reply says what was completed."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

import telerank as tr
from small_pages import Outline, page_client
from small_service import make_index, save_models, serving, settings_of
from telerank.types import Doc

DOCS = [
    Doc("adult", "Le passeport coûte 86 euros pour un adulte."),
    Doc("minor", "Le passeport coûte 42 euros pour un mineur de 15 ans."),
    Doc("card", "La carte est gratuite pour un mineur."),
]
FIRST, NEXT = "Combien coûte un passeport pour un adulte ?", "Et pour un mineur ?"
WHOLE = "Combien coûte un passeport pour un mineur ?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("talk") / "idx", DOCS, analyzer="french")


@pytest.fixture(scope="module")
def client(folder):
    with serving(settings_of(folder)) as client:
        yield client


@pytest.fixture(scope="module")
def browser(folder):
    with page_client(settings_of(folder), "fr") as client:
        yield client


def test_answers_take_the_history_too(folder, tmp_path):
    reader = str(save_models(tmp_path)["reader"])
    with serving(settings_of(folder, readers={"answers": reader})) as client:
        body = {"query": NEXT, "history": [FIRST], "pipeline": "bm25 % 2 >> read(answers)"}
        reply = client.post("/v1/answer", json=body).json()
    assert (reply["query"], reply["follow_up"]["earlier"]) == (WHOLE, FIRST)


def test_a_follow_up_is_completed_from_the_history_of_the_request(client, folder):
    reply = client.post("/v1/search", json={"query": NEXT, "history": [FIRST]}).json()
    assert reply["query"] == WHOLE
    assert reply["follow_up"] == {"typed": NEXT, "text": WHOLE, "rule": "replaced", "earlier": FIRST}
    assert [hit["docno"] for hit in reply["hits"]] == list(tr.open(folder).bm25().search(WHOLE).docnos)
    by_url = client.get("/v1/search", params={"query": NEXT, "history": ["Bonjour", FIRST]}).json()
    assert by_url["follow_up"] == reply["follow_up"]


def test_without_a_history_or_a_follow_up_the_query_is_as_typed_and_nothing_is_kept(client):
    for body in ({"query": NEXT}, {"query": FIRST, "history": [WHOLE]}, {"query": NEXT, "history": []}):
        reply = client.post("/v1/search", json=body).json()
        assert reply["query"] == body["query"]
        assert "follow_up" not in reply


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (["x" * 100_000], "history.0: at most"),
        (["x"] * 101, "history: "),
        ("x", "history: "),
        ([1], "history.0: "),
    ],
)
def test_a_history_is_bounded(client, history, says):
    reply = client.post("/v1/search", json={"query": NEXT, "history": history})
    assert reply.status_code == 422
    assert says in reply.json()["detail"]


def test_half_of_a_surrogate_pair_is_refused(client):
    body = b'{"query": "prix", "history": ["\\ud800"]}'
    reply = client.post("/v1/search", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 422
    assert "half of a surrogate pair" in reply.json()["detail"]


def test_a_completed_query_that_would_be_too_long_is_as_typed(folder):
    with serving(settings_of(folder, limits={"query_characters": 30})) as client:
        history = ["Combien pour un adulte ici ?"]
        reply = client.post("/v1/search", json={"query": "et pour un mineur de 14 ans ?", "history": history})
        assert "follow_up" not in reply.json()
        assert reply.json()["query"] == "et pour un mineur de 14 ans ?"


def form_of(page: str) -> list[tuple[str, str]]:
    """The hidden fields of the form of a page."""
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page)
    return [(name, html.unescape(value)) for name, value in fields]


def test_the_page_keeps_the_questions_in_its_form_and_says_what_it_completed(browser):
    first = browser.get("/search", params={"query": FIRST})
    assert form_of(first.text) == [("before", FIRST)]
    second = browser.get("/search", params=[*form_of(first.text), ("query", NEXT)])
    page = Outline(second.text)
    assert f"a pris la place d’une partie de la question précédente, «\u202f{FIRST}" in page.text
    assert f'value="{WHOLE}"' in second.text
    assert form_of(second.text) == [("before", FIRST), ("before", WHOLE)]
    links = [value for value in page.values("a", "href") if "docno=" in value]
    assert all(dict(parse_qsl(urlsplit(link).query))["query"] == WHOLE for link in links)


def test_one_click_searches_as_typed(browser):
    second = browser.get("/search", params={"before": FIRST, "query": NEXT}).text
    [undo] = [link for link in Outline(second).values("a", "href") if "final=1" in link and "Et+pour" in link]
    third = browser.get(undo)
    assert third.status_code == 200
    assert f'value="{NEXT}"' in third.text
    assert "question précédente" not in third.text
    assert form_of(third.text) == [("before", FIRST), ("before", NEXT)]


def test_other_pages_and_the_other_language_keep_the_questions(browser):
    shown = browser.get("/search", params={"before": FIRST, "query": NEXT}).text
    [why, *_] = [value for value in Outline(shown).values("a", "href") if value.startswith("/explain")]
    explained = browser.get(why)
    assert explained.status_code == 200
    [back] = [value for value in Outline(explained.text).values("a", "href") if value.startswith("/search")]
    assert form_of(browser.get(back).text) == [("before", FIRST), ("before", WHOLE)]
    [english] = [value for value in Outline(shown).values("a", "href") if "lang=en" in value]
    assert "took the place of a part of the question before" in browser.get(english).text


def test_the_page_bounds_what_it_is_given(browser):
    assert browser.get("/search", params={"before": "x" * 5_000, "query": NEXT}).status_code == 422
    kept = browser.get("/search", params=[*[("before", f"q{n}") for n in range(9)], ("query", "prix")])
    assert form_of(kept.text) == [("before", f"q{n}") for n in range(5, 9)] + [("before", "prix")]
    assert browser.get("/search", params=[("before", "x")] * 101 + [("query", "prix")]).status_code == 422
