from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import telerank as tr
from small_pages import DOCS, Outline, page_client, page_settings
from small_service import make_index
from telerank.service.page.pages import PART_LENGTH as LENGTH
from telerank.types import Doc, Mark

PIPELINES = {"other": "lm_dirichlet(mu=100) % 20", "short": "bm25 % 3", "fused": "rrf(bm25 % 9, dfi % 9)"}


@pytest.fixture(scope="module")
def client(fiches: Path, tmp_path_factory) -> Iterator[Any]:
    judged = tmp_path_factory.mktemp("judged") / "judged.jsonl"
    with page_client(page_settings(fiches, pipelines=PIPELINES, judgments=judged)) as client:
        yield client


def outline(client: Any, address: str, status: int = 200, **headers: str) -> Outline:
    reply = client.get(address, headers=headers)
    assert reply.status_code == status, reply.text
    return Outline(reply.text)


def marked(page: str) -> list[str]:
    return re.findall(r"<mark>(.*?)</mark>", page)


def docnos(page: Outline) -> list[str]:
    links = [
        value
        for value in page.values("a", "href")
        if value.startswith("/document") and not value.endswith("#similar")
    ]
    return [re.search(r"docno=([^&#]+)", link)[1] for link in links]


def test_results_are_the_pipelines_ranking_with_marked_words(client: Any, fiches: Path):
    reply = client.get("/search?query=prime+de+l'apprenti")
    page = Outline(reply.text)
    ranking = tr.open(fiches).bm25().search("prime de l'apprenti")
    assert docnos(page)[:10] == list(ranking.docnos[:10])
    assert {"Apprenti", "apprenti", "prime"} <= {*marked(reply.text)}
    assert "l'" not in marked(reply.text)
    assert "Results 1 to 10" in page.text
    assert "www.example.org/fiches/F1?a=1&b=2" in page.text


def test_pages_of_results_follow_one_another(client: Any, fiches: Path):
    ranking = tr.open(fiches).bm25().search("prime")
    shown, address = [], "/search?query=prime"
    for number in range(1, 5):
        page = outline(client, address)
        shown += docnos(page)
        assert f"Page {number}" in page.text
        following = [
            value
            for tag, names in page.elements
            if tag == "a" and "rel" in names
            for value in page.values("a", "href")
            if f"page={number + 1}" in value and value.startswith("/search") and "lang" not in value
        ]
        if not following:
            break
        address = following[0]
    assert shown == list(ranking.docnos)


def test_the_chosen_pipeline_answers_and_its_stages_are_shown(client: Any, fiches: Path):
    page = outline(client, "/search?query=prime&model=other")
    ranking = tr.open(fiches).lm_dirichlet(100).search("prime")
    assert docnos(page)[:10] == list(ranking.docnos[:10])
    assert "lm_dirichlet(mu=100) % 20" in page.text
    assert "Words in common" in page.text
    assert re.search(r"\d\s*m?s", page.text)
    assert ("option", "value", "other") in page.attributes


def test_the_language_of_the_address_comes_before_the_browsers_and_stays(client: Any):
    page = outline(client, "/search?query=prime&lang=fr")
    assert "Résultats 1 à 10" in page.text
    links = [
        value for value in page.values("a", "href") if value.startswith(("/search", "/document", "/explain"))
    ]
    other = "/search?query=prime&lang=en"
    assert other in links
    assert all("lang=fr" in link for link in links if link != other)


def test_two_pipelines_are_compared_rank_by_rank(client: Any, fiches: Path):
    page = outline(client, "/compare?query=prime+apprenti&a=bm25&b=other")
    index = tr.open(fiches)
    left = index.bm25().search("prime apprenti").docnos[:10]
    right = (index.lm_dirichlet(100) % 20).search("prime apprenti").docnos[:10]
    assert docnos(page) == [*left, *right]
    assert f"{len({*left} & {*right})} of the first 10 documents are in both lists." in page.text
    for rank, docno in enumerate(left, 1):
        other = right.index(docno) + 1 if docno in right else None
        if other is not None and other != rank:
            number = abs(other - rank)
            word = f"{number} rank{'s' if number > 1 else ''} {'higher' if other > rank else 'lower'}"
            assert word in page.text


def test_a_document_is_shown_whole_with_its_words_marked(client: Any):
    reply = client.get("/document?docno=F1&query=prime+activité")
    page = Outline(reply.text)
    for line in DOCS[0].text.splitlines():
        assert line in page.text
    assert marked(reply.text) == ["prime", "activité"]
    assert "https://www.example.org/fiches/F1?a=1&b=2" in page.values("a", "href")


def test_a_place_in_a_document_is_marked(client: Any):
    start = DOCS[0].text.index("plus de 18 ans")
    address = f"/document?docno=F1&query=prime&at={start}-{start + 14}"
    reply = client.get(f"{address}&kind=answer")
    assert '<mark class="answer-mark">plus de 18 ans</mark>' in reply.text
    passage = Outline(client.get(address).text)
    assert ("p", ("dir", "id", "tabindex", "class")) in passage.elements
    assert "#passage" in passage.values("a", "href")


def test_a_long_document_has_parts_that_are_the_whole(tmp_path: Path):
    lines = [f"line {number} of the report " + "word " * 20 for number in range(400)]
    docs = [Doc("R", "\n".join(lines), "Report"), Doc("S", "word")]
    with page_client(page_settings(make_index(tmp_path / "long", docs, analyzer="english"))) as client:
        texts, part = "", 1
        while True:
            page = outline(client, f"/document?docno=R&part={part}")
            texts += page.text
            if "Next part" not in page.text:
                break
            part += 1
        assert part == pytest.approx(len("\n".join(lines)) / LENGTH, abs=1)
        assert all(line.strip() in texts for line in lines)
        start = "\n".join(lines).index("line 300 ")
        page = outline(client, f"/document?docno=R&at={start}-{start + 8}")
        assert "line 300 of" in page.text
        assert "passage" in page.values("p", "id")


MESSAGES = {
    404: ("does not exist", "n’existe pas"),
    422: ("cannot be carried out", "ne peut pas être faite"),
}


@pytest.mark.parametrize(
    ("address", "status", "detail"),
    [
        ("/search?query=a&index=none", 404, ""),
        ("/search?query=a&model=bm25(k2%3D1)", 422, "k2"),
        ("/search?query=a&model=rerank(unknown)", 404, ""),
        ("/search?query=a&page=0", 422, "un nombre entier à partir de 1 est attendu"),
        ("/search?query=a&page=101", 422, "page 101\u202f: il y a les pages 1 à 100"),
        ("/search?query=" + "a" * 2001, 422, "la recherche a 2\u202f001 caractères, 2\u202f000 au plus"),
        (
            "/search?query=a&model=" + "a" * 1001,
            422,
            "la méthode a 1\u202f001 caractères, 1\u202f000 au plus",
        ),
        ("/compare?query=a&a=bm25&b=" + "a" * 1001, 422, "la méthode a 1\u202f001 caractères"),
        ("/document?docno=none", 404, ""),
        ("/document", 422, "il manque le numéro du document"),
        ("/explain?query=a&docno=none", 404, ""),
        ("/answer?query=a", 404, ""),  # no reader
        ("/static/../settings.py", 404, ""),
        ("/static/base.html", 404, ""),
        ("/nothing", 404, ""),
    ],
)
def test_errors_are_pages_in_both_languages(client: Any, address: str, status: int, detail: str):
    english, french = MESSAGES[status]
    assert english in outline(client, address, status).text
    page = outline(client, address, status, **{"Accept-Language": "fr"})
    assert french in page.text
    assert "Nouvelle recherche" in page.text
    assert detail in page.text
    is_foreign = detail == "k2"  # what has no translation is behind a click
    assert page.values("pre", "lang") == ["en"] * is_foreign
    assert ("Détails techniques (en anglais)" in page.text) is is_foreign


def test_why_a_document_has_its_rank_or_is_not_in_a_ranking(client: Any):
    page = outline(client, "/explain?query=prime+mois&docno=F1")
    assert "Why this document has rank" in page.text
    assert "“mois”: 1 × in this document" in page.text
    widths = [float(value.rstrip("%")) for value in page.values("rect", "width") if value != "100%"]
    assert sum(widths) == pytest.approx(100, abs=0.5)
    french = outline(client, "/explain?query=prime+mois&docno=F1", **{"Accept-Language": "fr"})
    assert "«\u202fmois\u202f»\u202f: 1 fois dans ce document" in french.text
    page = outline(client, "/explain?query=prime&docno=F3&model=short")
    assert "not in the ranking" in page.text
    assert "not in this list" in page.text


def test_a_head_request_has_the_headers_alone_and_an_empty_query_leads_to_the_box(client: Any):
    for address in ("/", "/search?query=prime", "/document?docno=F1"):
        reply = client.head(address)
        assert (reply.status_code, reply.content) == (200, b"")
    for path in ("search", "answer"):
        reply = client.get(f"/{path}?query=++")
        assert (reply.status_code, reply.headers["location"]) == (303, "/")


def test_a_program_gets_its_errors_as_json(client: Any):
    assert client.get("/nothing", headers={"Accept": "*/*"}).json()["error_type"] == "not_found"
    assert client.get("/v1/nothing").json()["error_type"] == "not_found"


def test_files_of_the_page_are_kept_by_their_version(client: Any):
    page = outline(client, "/")
    for address in (*page.values("script", "src"), *page.values("link", "href")):
        reply = client.get(address)
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert client.get(address.partition("?")[0]).headers["cache-control"] == "no-cache"
        again = client.get(address, headers={"If-None-Match": reply.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_below_a_prefix_every_address_has_it(fiches: Path, tmp_path: Path):
    settings = page_settings(fiches, prefix="/chercher/ici", judgments=tmp_path / "judged.jsonl")
    with page_client(settings) as client:
        for address in (
            "/",
            "/search?query=prime",
            "/compare?query=prime&a=bm25&b=dfi",
            "/document?docno=F1",
        ):
            page = outline(client, address)
            values = [
                value
                for tag, name in (("a", "href"), ("form", "action"), ("link", "href"), ("script", "src"))
                for value in page.values(tag, name)
                if not value.startswith(("#", "http"))
            ]
            assert values
            assert all(value.startswith("/chercher/ici/") for value in values)


FILE = Doc(
    "guides/tarifs.pdf#2",
    "Tarifs\nLa cantine coûte 3 euros.\nGarderie\nLa garderie est gratuite\npour les petits.",
    "Guide › Tarifs",
    file="guides/tarifs.pdf",
    marks=(Mark(0, 3, "Tarifs"), Mark(33, 4, "Tarifs"), Mark(33, 4, "Tarifs › Garderie")),
)


def test_a_hit_of_a_file_says_on_which_page_it_stands(tmp_path: Path):
    docs = [FILE, Doc("guides/tarifs.pdf#1", "Un sommaire.", file="guides/tarifs.pdf", marks=(Mark(0, 1),))]
    with page_client(page_settings(make_index(tmp_path / "files", docs, analyzer="french"))) as client:
        assert "guides/tarifs.pdf, pages 3–4" in outline(client, "/search?query=cantine+garderie").text
        assert "guides/tarifs.pdf, pages 3 à 4" in outline(client, "/search?query=cantine&lang=fr").text
        reply = client.get("/document?docno=guides/tarifs.pdf%232&query=garderie")
        page = Outline(reply.text)
        assert page.values("p", "id") == ["p3", "p4"]
        assert reply.text.index("Page 3") < reply.text.index("cantine") < reply.text.index("Page 4")
        assert re.findall(r"<h2[^>]*>(.*?)</h2>", reply.text) == ["Tarifs", "<mark>Garderie</mark>"]
        links = [value for value in page.values("a", "href") if "docno=" in value and "lang" not in value]
        assert links == ["/document?docno=guides%2Ftarifs.pdf%231&query=garderie"]
