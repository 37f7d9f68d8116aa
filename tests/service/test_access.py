"""Filters and facets over HTTP, and keys that are bound to a filter: nothing tells of a hidden document."""

from __future__ import annotations

import itertools
import json
import logging

import pytest

import telerank as tr
from small_service import make_index, serving, settings_of
from telerank.errors import CollectionError
from telerank.service.settings import read_keys
from telerank.service.state import Served
from telerank.types import Doc

OPEN, RH, ALL = "key-of-the-public", "key-of-rh-people", "key-of-the-admins"
SECRET = "zanzibar"
DOCS = [
    Doc("a", "congé annuel demande", "Congés", columns={"groups": ("public", "rh"), "type": "fiche", "year": 2023}),
    Doc("b", "congé maladie demande", "Maladie", columns={"groups": ("public",), "type": "note", "year": 2024}),
    Doc(f"{SECRET}.pdf#congé-00000001", f"congé secret {SECRET} demande demande", f"Titre {SECRET}",
        f"https://example.org/{SECRET}", f"{SECRET}.pdf",
        columns={"groups": ("rh",), "type": f"type-{SECRET}", "year": 777123}),
    Doc("d", "congé sans groupe", columns={"type": "fiche"}),
]  # fmt: skip
RESTRICTED = '"public" in groups'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("access") / "idx", DOCS, analyzer="french")


@pytest.fixture(scope="module")
def client(folder, tmp_path_factory):
    access = {OPEN: RESTRICTED, RH: '"rh" in groups'}
    judgments = tmp_path_factory.mktemp("judged") / "judgments.csv"
    settings = settings_of(
        folder, keys=(ALL,), access=access, judgments=judgments, facets=("type", "year"), log_queries=True
    )
    with serving(settings) as client:
        yield client


def ask(client, path, key=ALL, **parameters):
    return client.get(path, params=parameters, headers={"x-api-key": key})


def docnos(reply):
    assert reply.status_code == 200, reply.text
    return [hit["docno"] for hit in reply.json()["hits"]]


def test_a_filter_is_the_ranking_without_the_others(client):
    every = docnos(ask(client, "/v1/search", query="congé demande"))
    assert len(every) == 4
    fiches = docnos(ask(client, "/v1/search", query="congé demande", filter="type == 'fiche'"))
    assert fiches == [docno for docno in every if docno in ("a", "d")]
    body = {"query": "congé demande", "filter": "year >= 2024 and year < 3000", "k": 1}
    reply = client.post("/v1/search", json=body, headers={"x-api-key": ALL})
    assert docnos(reply) == ["b"]
    assert reply.json()["hits"][0]["columns"] == {"groups": ["public"], "type": "note", "year": 2024}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("tipe == 'fiche'", "did you mean 'type'?"),
        ("year == 'x'", "the column year is a number"),
        ("year = 1", "equal is '=='"),
        ("(" * 1000, "more than 50 brackets"),
    ],
)
def test_a_wrong_filter_is_one_line(client, wrong, message):
    reply = ask(client, "/v1/search", query="congé", filter=wrong)
    assert reply.status_code == 422
    assert message in reply.text
    assert "\n" not in reply.json()["error"]


def test_facets_count_all_matches(client):
    reply = ask(client, "/v1/search", query="demande", k=1, facets=["type", "year"]).json()
    assert reply["facets"][0] == {
        "column": "type", "kind": "string", "by": "", "documents": 3, "missing": 0, "others": 0,
        "is_exact": True,
        "values": [
            {"text": "fiche", "count": 1, "filter": 'type == "fiche"'},
            {"text": "note", "count": 1, "filter": 'type == "note"'},
            {"text": f"type-{SECRET}", "count": 1, "filter": f'type == "type-{SECRET}"'},
        ],
    }  # fmt: skip
    assert [value["text"] for value in reply["facets"][1]["values"]] == ["2023", "2024", "777123"]
    over_depth = ask(client, "/v1/search", query="demande", pipeline="minmax(bm25 % 2)", facets="type").json()
    assert not over_depth["facets"][0]["is_exact"]
    assert over_depth["facets"][0]["documents"] == 2
    assert ask(client, "/v1/search", query="x", facets="tipe").status_code == 422


PATHS = {
    "/v1/search": [
        {"query": query, "pipeline": pipeline, **more}
        for query, pipeline, more in itertools.product(
            ("congé demande", SECRET, "conge"),
            ("bm25", "minmax(bm25 % 100) + bm25 % 10", "bm25 % 100 >> group(file)", "where(bm25, 'year > 3000') % 5"),
            (
                {"explain": True, "highlight": True, "facets": ["type", "year", "docno", "groups"]},
                {"filter": '"rh" in groups or year == 777123', "group": "file"},
                {"filter": 'not ("public" in groups)'},
                {"k": 2, "page": 2},
                {"spelling": True},
            ),
        )
    ],
    "/v1/explain": [
        {"query": "congé", "docno": docno, "pipeline": pipeline}
        for docno in (DOCS[2].docno, "a")
        for pipeline in ("bm25", "minmax(bm25 % 100)", "bm25 >> group(file)")
    ],
    "/v1/documents": [{"docno": DOCS[2].docno}, {"docno": "a"}],
    "/v1/suggest": [{"query": text} for text in ("zan", "Titre", "co")],
    "/v1/acronyms": [{}],
    "/v1/indexes": [{}],
    "/v1/indexes/idx": [{}],
    "/v1/models": [{}],
    "/metrics": [{}],
    "/": [{}],
    "/docs": [{}],
    "/search": [
        {"query": "congé"}, {"query": "conge"}, {"query": "congé", "group": "file"}, {"query": "zanzibâr"},
        {"query": "congé", "filter": "year > 3000"}, {"query": "congé", "filter": "type == 'fiche'"},
    ],
    "/compare": [{"query": "congé", "a": "bm25", "b": "lm_dirichlet"}],
    "/explain": [{"query": "congé", "docno": DOCS[2].docno}, {"query": "congé", "docno": "a"}],
    "/document": [{"docno": DOCS[2].docno}, {"docno": f"{SECRET}.pdf"}, {"docno": "a"}],
}  # fmt: skip


def told(reply, asked) -> bool:
    """Whether a reply says more of the hidden document than the request did."""
    text = reply.text
    for value in map(str, asked.values()):
        text = text.replace(value, "").replace(json.dumps(value)[1:-1], "")
    return "secret" in text or "777123" in text or (SECRET in text and SECRET not in str(asked))


def test_nothing_tells_of_a_hidden_document(client, caplog):
    caplog.set_level(logging.DEBUG)
    hidden = DOCS[2].docno
    for path, requests in PATHS.items():
        for asked in requests:
            reply = ask(client, path, OPEN, **asked)
            assert reply.status_code in (200, 404), (path, asked, reply.text)
            assert not told(reply, asked), (path, asked, reply.text[:2000])
            if path == "/v1/search":
                found = reply.json()
                assert hidden not in [hit["docno"] for hit in found["hits"]]
                assert all(facet["documents"] <= 2 for facet in found.get("facets", []))
    for line in caplog.messages:
        assert "secret" not in line


def test_a_hidden_document_is_as_one_that_is_not_there(client):
    for path, asked in (
        ("/v1/documents", {}),
        ("/v1/explain", {"query": "congé"}),
        ("/document", {}),
        ("/explain", {"query": "congé"}),
    ):
        replies = [
            ask(client, path, OPEN, docno=docno, **asked)
            for docno in (DOCS[2].docno, "zzzzzzzz.pdf#congé-00000001")
        ]
        assert [reply.status_code for reply in replies] == [404, 404], path
        texts = [reply.text.replace(SECRET, "zzzzzzzz") for reply in replies]
        assert texts[0].replace(replies[0].headers.get("x-request-id", "-"), "") == texts[1].replace(
            replies[1].headers.get("x-request-id", "-"), ""
        ), path
    judged = [
        client.post(
            "/v1/judgments",
            json={"query": "congé", "docno": docno, "grade": 1},
            headers={"x-api-key": OPEN},
        ).status_code
        for docno in (DOCS[2].docno, "nowhere", "a")
    ]
    assert judged == [404, 404, 201]


def test_counts_are_those_of_what_is_seen(client):
    assert ask(client, "/v1/indexes/idx", OPEN).json()["documents"] == 2
    assert ask(client, "/v1/indexes/idx", ALL).json()["documents"] == 4
    assert docnos(ask(client, "/v1/search", RH, query=SECRET)) == [DOCS[2].docno]
    assert docnos(ask(client, "/v1/search", OPEN, query=SECRET)) == []


def test_two_keys_see_what_both_see(client):
    headers = {"x-api-key": OPEN, "authorization": f"Bearer {RH}"}
    reply = client.get("/v1/search", params={"query": "congé demande"}, headers=headers)
    assert docnos(reply) == ["a"]


def test_a_service_with_bound_keys_alone_serves_nobody_without(folder):
    with serving(settings_of(folder, access={OPEN: RESTRICTED})) as client:
        assert client.get("/v1/search", params={"query": "congé"}).status_code == 401
        assert set(docnos(ask(client, "/v1/search", OPEN, query="congé"))) == {"a", "b"}


def test_a_filter_of_unknown_columns_is_refused_at_the_start(folder):
    served = Served(settings_of(folder, access={OPEN: "teams == 'x'"}))
    with pytest.raises(CollectionError, match="no index has the columns of this filter; the columns are"):
        served.open()
    served.close()


def test_a_file_of_keys_has_filters(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f'{ALL}  # everybody\n{OPEN} "public" in groups\n')
    assert read_keys(file) == {ALL: "", OPEN: RESTRICTED}
    file.write_text(f"{OPEN} public in\n")
    with pytest.raises(CollectionError, match=r":1: expected a filter behind the key") as caught:
        read_keys(file)
    assert OPEN not in str(caught.value)


def test_the_view_of_an_index(folder):
    from telerank.columns.filters import Filter

    view = tr.open(folder).within(Filter.parse(RESTRICTED))
    assert len(view) == 2
    assert list(view.docs) == ["a", "b"]
    assert DOCS[2].docno not in view.docs
    assert set(view.bm25().search("congé").docnos) == {"a", "b"}
    assert view.facets("congé", "type")[0].documents == 2
    with pytest.raises(KeyError):
        view.passages(f"{SECRET}.pdf")


FACETS = "//details[@class='facets']//li/a"
TITLES = "//h3/span[@class='title']/a"
CHIPS = "//ul[@class='chips']//a"
REASONS = "//a[@class='why']"


def page_links(text, what):
    from lxml.html import fromstring

    links = fromstring(text).xpath(what)
    return {" ".join(link.text_content().split()): link.get("href") for link in links}


def follow(client, href, key=ALL):
    return client.get(href, headers={"x-api-key": key, "accept-language": "en"})


def test_the_page_refines_by_links_and_forms(client):
    page = ask(client, "/search", query="congé demande", lang="en")
    facets = page_links(page.text, FACETS)
    assert set(facets) == {"fiche 2", "note 1", f"type-{SECRET} 1", "2023 1", "2024 1", "777123 1"}
    fiches = follow(client, facets["fiche 2"])
    assert page_links(fiches.text, TITLES).keys() == {"Congés", "congé sans groupe"}
    chips = page_links(fiches.text, CHIPS)
    assert list(chips) == ["type: fiche × (remove)"]
    assert page_links(follow(client, chips["type: fiche × (remove)"]).text, FACETS).keys() == facets.keys()
    ranged = follow(
        client, "/search?query=cong%C3%A9&filter=type+%3D%3D+%22fiche%22&from%3Ayear=2000&to%3Ayear=2023"
    )
    assert list(page_links(ranged.text, CHIPS)) == [
        "type: fiche × (remove)", "year ≥ 2000 × (remove)", "year ≤ 2023 × (remove)"
    ]  # fmt: skip
    assert list(page_links(ranged.text, TITLES)) == ["Congés"]
    assert 'value="2000"' in ranged.text
    wrong = follow(client, "/search?query=cong%C3%A9&from%3Ayear=hier")
    assert wrong.status_code == 422
    french = ask(client, "/search", query="congé", lang="fr")
    assert "Affiner les résultats" in french.text


def test_the_page_has_counts_of_what_a_key_sees(client):
    page = ask(client, "/search", OPEN, query="congé demande", lang="en")
    assert set(page_links(page.text, FACETS)) == {"fiche 1", "note 1", "2023 1", "2024 1"}
    shown = page_links(page.text, REASONS)
    for href in shown.values():
        assert follow(client, href, OPEN).status_code == 200


def test_what_is_like_a_hidden_document_is_not_told(client):
    hidden = DOCS[2].docno
    assert set(docnos(ask(client, "/v1/search", like=hidden))) >= {"a", "b"}
    assert ask(client, "/v1/search", OPEN, like=hidden).status_code == 404
    for pipeline in ("like % 10", "where(like % 10, 'year > 1')", "minmax(like % 10)"):
        assert docnos(ask(client, "/v1/search", OPEN, query=hidden, pipeline=pipeline)) == []
        assert docnos(ask(client, "/v1/search", OPEN, query="a", pipeline=pipeline)) == ["b"]
    fed = ask(client, "/v1/search", OPEN, query="congé", pipeline="bm25 % 10 >> rm3 % 10", explain=True)
    assert set(docnos(fed)) == {"a", "b"}
    assert SECRET not in fed.text
    words = ask(client, "/v1/search", OPEN, query="congé AND demande", pipeline="boolean % 10")
    assert set(docnos(words)) == {"a", "b"}
    assert ask(client, "/v1/suggest", ALL, query="titre").json()["suggestions"]
    assert ask(client, "/v1/suggest", OPEN, query="titre").json()["suggestions"] == []


def test_acronyms_are_those_of_the_documents_that_a_key_sees(tmp_path):
    docs = [
        Doc("a", "La carte nationale d'identité (CNI) est gratuite.", columns={"groups": ("public",)}),
        Doc("b", "Le plan de transition interne (PTI).", columns={"groups": ("rh",)}),
    ]
    folder = make_index(tmp_path / "idx", docs, analyzer="french")
    with serving(settings_of(folder, keys=(ALL,), access={OPEN: RESTRICTED})) as client:
        every, some = (ask(client, "/v1/acronyms", key).json() for key in (ALL, OPEN))
        assert [each["short"] for each in every["acronyms"]] == ["CNI", "PTI"]
        assert every["lines"][1:] == ["# 1 document", "CNI, carte nationale d'identité", "# 1 document",
                                      "PTI, plan de transition interne"]  # fmt: skip
        assert (some["read"], [each["short"] for each in some["acronyms"]]) == (1, ["CNI"])
        assert not ask(client, "/v1/acronyms", least=2).json()["acronyms"]
