"""Hits of one file are grouped, in the API and on the page: the best passage, and how many further ones."""

from __future__ import annotations

import re

import pytest

import telerank as tr
from small_pages import Outline, check_page, page_client, page_settings
from small_service import make_index
from telerank.service.page.messages import NARROW
from telerank.types import Doc, whole_docno

FILES = {"loi": 30, "guide": 3, "avis": 1}
LIMITS = {"limits": {"depth": 31, "documents": 30}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Passages of three files about a bonus, the shorter the better, and a file that is not about it."""
    docs = [
        Doc(
            f"{name}.pdf#{n}",
            f"La prime de {name}." + " Encore un mot." * n,
            f"{name} › {n}",
            file=f"{name}.pdf",
        )
        for name, count in FILES.items()
        for n in range(1, count + 1)
    ]
    docs += [Doc(f"autre.md#{n}", f"Le vélo numéro {n}.", file="autre.md") for n in range(40)]
    return make_index(tmp_path_factory.mktemp("groups") / "fiches", docs, analyzer="french")


@pytest.fixture(scope="module")
def client(folder):
    pipelines = {"grouped": "bm25 >> group(file) % 2", "cut": "bm25 % 30 >> group(file)"}
    with page_client(page_settings(folder, pipelines=pipelines)) as client:
        yield client


@pytest.fixture(scope="module")
def strict(folder):
    """A client of a service whose first stages retrieve 31 documents."""
    with page_client(page_settings(folder, **LIMITS)) as client:
        yield client


def search(client, **values):
    return client.get("/v1/search", params={"query": "prime", **values}).json()


def test_a_hit_is_the_best_passage_of_a_file_with_those_behind_it(client, folder):
    flat = tr.pipeline("bm25", folder).search("prime")
    reply = search(client, group="file")
    assert reply["total"] == 3
    assert reply["more"] is False
    assert {hit["group"]["file"]: hit["group"]["more"] for hit in reply["hits"]} == {
        f"{name}.pdf": count - 1 for name, count in FILES.items()
    }
    for hit in reply["hits"]:
        passages = [docno for docno in flat.docnos if whole_docno(docno) == hit["group"]["file"]]
        assert [hit["docno"], *hit["group"]["docnos"]] == passages[:11]
        assert hit["score"] == dict(flat)[hit["docno"]]
    assert reply["pipeline"] == tr.pipeline("bm25 >> group(file, depth=1000)", folder).text
    pages = [search(client, group="file", k=1, page=page) for page in (1, 2, 3, 4)]
    assert [hit for page in pages for hit in page["hits"]] == reply["hits"]
    assert [page["more"] for page in pages] == [True, True, False, False]
    assert "group" not in search(client)["hits"][0]


@pytest.mark.parametrize(
    ("values", "total", "hits"),
    [
        ({"pipeline": "grouped"}, 2, 2),
        ({"pipeline": "bm25 >> group(file) % 1"}, 1, 1),
        ({"pipeline": "rrf(bm25 % 50, dfi % 50)", "group": "file"}, 3, 3),
        ({"pipeline": "bm25 >> group(file) % 2 >> bm25 % 40 >> group(file)"}, 3, 3),
        ({"pipeline": "grouped", "query": "xyzzy"}, 0, 0),
    ],
)
def test_a_pipeline_may_group_itself(client, values, total, hits):
    reply = search(client, **values)
    assert (reply["total"], len(reply["hits"])) == (total, hits)


def test_what_is_behind_the_limit_is_said(client, strict):
    for reply, documents in ((search(strict, group="file"), 31), (search(client, pipeline="cut"), 30)):
        assert reply["warnings"] == [
            f"the first {documents} documents are grouped; those behind them are not counted"
        ]
        assert "total" not in reply
        assert sum(1 + hit["group"]["more"] for hit in reply["hits"]) == documents
    refused = search(strict, pipeline="bm25 >> group(file, depth=32)")["message"]
    assert "% 32 retrieves 32 documents; a request has at most 31" in refused
    assert "has no bound" not in search(client, pipeline="bm25 % 9 >> minmax(group)").get("message", "")


def test_an_explanation_says_why_the_passage_stands_for_the_file(client):
    [hit] = search(client, group="file", explain=True, k=1)["hits"]
    file, count = hit["group"]["file"], hit["group"]["more"] + 1
    assert f"of {file} in the ranking" in hit["explanation"]["what"]
    assert hit["explanation"]["value"] == pytest.approx(hit["score"])
    assert count in (1, 3, 30)
    other = {"query": "prime", "docno": "loi.pdf#9", "group": "file"}
    what = client.get("/v1/explain", params=other).json()["explanation"]["what"]
    assert what == "loi.pdf#1 stands for the file loi.pdf: its score is higher"
    assert client.get("/v1/search", params={"query": "a", "group": "page"}).status_code == 422


@pytest.mark.parametrize("language", ["en", "fr"])
def test_the_page_shows_a_file_once_and_opens_its_further_passages(folder, language):
    names = {
        "en": ("One result per file", "29 further passages", "and 19 more", "Show all results one by one"),
        "fr": (
            "Un résultat par fichier",
            "29 autres passages",
            "et 19 de plus",
            "Voir tous les résultats un à un",
        ),
    }[language]
    with page_client(page_settings(folder), language) as client:
        reply = client.get("/search?query=prime&group=file")
        check_page(reply, language)
        page = Outline(reply.text)
        assert all(name in page.text for name in names)
        assert reply.text.count('class="result"') == 3
        assert re.search(r'<input type="checkbox" name="group" value="file" checked>', reply.text)
        kept = [link for link in page.values("a", "href") if "/document?" in link or "/explain?" in link]
        assert len(kept) == 3 + 10 + 2 + 3 + 3  # titles, further passages, explanations, similar documents
        assert all("group=file" in link for link in kept)
        flat = client.get("/search?query=prime").text
        assert "checked" not in flat
        assert "further" not in flat
        docno = re.search(r"/explain\?docno=([^&]+)&amp;query=prime&amp;group=file", reply.text)[1]
        why = Outline(client.get(f"/explain?docno={docno}&query=prime&group=file").text).text
        assert names[0] in why
        assert client.get("/search?group=file").headers["location"] == "/?group=file"
        assert client.get("/search?query=a&group=x").status_code == 422


def test_the_page_says_what_was_not_looked_at(strict):
    assert (
        "Only the first 31 passages were looked at"
        in Outline(strict.get("/search?query=prime&group=file").text).text
    )
    french = Outline(strict.get("/search?query=prime&group=file&lang=fr").text).text
    assert f"Seuls les 31 premiers passages ont été regardés{NARROW}:" in french


def test_nothing_offers_groups_where_there_are_no_passages(tmp_path):
    folder = make_index(tmp_path / "fiches", [Doc("a", "prime"), Doc("b#c", "prime")], analyzer="french")
    with page_client(page_settings(folder)) as client:
        assert "checkbox" not in client.get("/search?query=prime").text
