from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import telerank as tr
from small_pages import Outline, check_page, page_client, page_settings
from small_service import make_index
from telerank.service.settings import make_settings
from telerank.types import Doc

FEW = [Doc(f"A{n}", f"La prime numéro {n} de l’école.", f"Prime {n}") for n in range(12)]
HYBRID = {"hybrid": "rrf(bm25 % 20, dense(nowhere) % 20)"}


class Ways(HTMLParser):
    """The addresses to which links lead, and those that forms ask for as they stand, for each option.

    Links that programs are asked not to follow lead to ``aside``: they can be put together without end.
    """

    def __init__(self, page: str, query: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.aside: list[str] = []
        self._query, self._select = query, ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        value = given.get("value") or ""
        if tag == "a" and "lang" not in given:
            further = self.aside if "nofollow" in (given.get("rel") or "").split() else self.addresses
            further.append((given["href"] or "").partition("#")[0])
        elif tag == "form" and given["method"] == "get":
            self._action, self._values, self._options = given["action"], {}, {}
        elif tag == "input" and hasattr(self, "_values") and given["name"] in ("query", "a", "b"):
            self._values[given["name"]] = value or (self._query if given["name"] == "query" else "bm25")
        elif tag == "select":
            self._select = given["name"] or ""
        elif tag == "option" and self._select:
            self._options.setdefault(self._select, []).append(given.get("value"))

    def handle_data(self, data: str) -> None:
        options = self._options.get(self._select, []) if self._select else []
        if options and options[-1] is None and data.strip():
            options[-1] = data

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""
        elif tag == "form" and hasattr(self, "_values"):
            self.addresses.append(f"{self._action}?{urlencode(self._values)}")
            for name, options in self._options.items():
                self.addresses += [
                    f"{self._action}?{urlencode({**self._values, name: each})}" for each in options
                ]
            del self._values


def crawl(client: Any, query: str = "prime", language: str = "en") -> dict[str, int]:
    """The statuses of all pages that links and forms lead to, from the first page on; each is checked.

    Of a page aside no link is opened.
    """
    statuses: dict[str, int] = {}
    waiting, aside = ["/", "/nothing"], []
    while waiting or aside:
        is_aside = not waiting
        address = (waiting or aside).pop()
        if address in statuses or not address.startswith("/") or "lang=" in address:
            continue
        reply = client.get(address)
        statuses[address] = reply.status_code
        if reply.headers["content-type"].startswith("text/html"):
            ways = Ways(reply.text, query)
            if not is_aside:
                waiting += ways.addresses
                aside += ways.aside
            if address != "/docs":
                check_page(reply, language)
    assert statuses.pop("/nothing") == 404
    assert {address: status for address, status in statuses.items() if status >= 400} == {}
    return statuses


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_index(tmp_path_factory.mktemp("states") / "few", FEW, analyzer="french")


def text_of(client: Any, address: str, status: int = 200, **headers: str) -> str:
    reply = client.get(address, headers=headers)
    assert reply.status_code == status, reply.text
    return " ".join(Outline(reply.text).text.split())


STATES = {
    "no pipelines": {},
    "a pipeline that cannot be run": {"pipelines": HYBRID},
    "a default pipeline": {"model": "other", "pipelines": {"other": "dfi % 5", "fused": "rrf(bm25, dfi)"}},
}


@pytest.mark.parametrize("state", STATES)
def test_every_link_leads_to_a_page(folder: Path, tmp_path: Path, state: str):
    with page_client(page_settings(folder, judgments=tmp_path / "judged.jsonl", **STATES[state])) as client:
        for query in ("prime", "xyzzy"):
            assert {"/compare", "/docs", f"/search?query={query}"} <= {*crawl(client, query)}


def test_every_link_of_several_indexes_leads_to_a_page(folder: Path, tmp_path: Path):
    empty = make_index(tmp_path / "empty", FEW[:1])
    tr.open(empty).delete(["A0"])
    other = make_index(tmp_path / "other", [Doc("x", "prime")])
    indexes = {"few": folder, "empty": empty, "other": other}
    with page_client(page_settings(folder, indexes=indexes, pipelines=HYBRID), language="fr") as client:
        statuses = crawl(client, language="fr")
        assert "/search?query=prime&index=empty" in statuses
        assert "/document?docno=x&query=prime&index=other" in str(statuses)
        assert "There are no documents here yet." in text_of(
            client, "/search?query=prime&index=empty&lang=en"
        )


def test_every_link_leads_to_a_page_with_a_reader_and_with_vectors_alone(
    models: dict[str, Path], folder: Path, tmp_path: Path
):
    texts = tmp_path / "docs.jsonl"
    texts.write_text("".join(f'{{"docno": "d{n}", "text": "x{n} q1"}}\n' for n in range(3)))
    tr.encode(texts, tmp_path / "vectors", model=str(models["encoder"]))
    settings = page_settings(
        folder,
        indexes={"few": folder, "vectors": tmp_path / "vectors"},
        encoders={"small-encoder": str(models["encoder"])},
        readers={"small": str(models["reader"])},
    )
    with page_client(settings) as client:
        statuses = crawl(client)
        page = text_of(client, "/search?query=q1+x2&index=vectors")
    assert "/answer?query=prime" in statuses
    assert "/search?query=prime&index=vectors" in statuses
    assert "/answer?query=prime&index=vectors" not in statuses
    assert "Nearness of meaning" in page
    assert "3 results" in page


def test_a_service_of_models_alone_has_a_page_that_says_so(models: dict[str, Path]):
    with page_client(make_settings({"readers": {"small": str(models["reader"])}})) as client:
        assert crawl(client) == {"/": 200, "/docs": 200, "/openapi.json": 200}
        assert "There are no texts to search here." in text_of(client, "/")


def test_a_pipeline_that_cannot_be_run_is_named_and_the_usual_one_searches(folder: Path):
    with page_client(page_settings(folder, pipelines=HYBRID)) as client:
        page = text_of(client, "/search?query=prime&model=hybrid")
        assert "“hybrid” cannot be used with this index. Ranked instead by: the usual way (bm25)." in page
        assert "no vectors of nowhere" in page
        assert "Results 1 to 10" in page
        assert (
            "hybrid"
            not in Outline(client.get("/search?query=prime&model=hybrid").text).values("a", "href")[4]
        )
        french = text_of(client, "/search?query=prime&model=hybrid&lang=fr")
        assert "cet index n’a pas de vecteurs de nowhere" in french
        compared = text_of(client, "/compare?query=prime&a=bm25&b=hybrid")
        assert "“hybrid” cannot be used with this index." in compared


def test_a_pipeline_of_another_index_is_named_too(folder: Path, tmp_path: Path):
    from telerank.pipelines.functions import save_pipeline

    other = make_index(tmp_path / "other", FEW[:3], analyzer="french")
    save_pipeline(tr.open(other), "best", "dfi % 5")
    with page_client(page_settings(folder, indexes={"few": folder, "other": other})) as client:
        assert "dfi" in text_of(client, "/search?query=prime&index=other&model=best")
        assert "“best” cannot be used with this index" in text_of(client, "/search?query=prime&model=best")
        text_of(client, "/search?query=prime&model=worst", 422)


@pytest.mark.parametrize(
    ("query", "english", "french"),
    [
        ("le+la+de", "only words that the index leaves out", "que des mots que l’index laisse de côté"),
        ("%3F!", "This search has no words.", "ne contient pas de mots"),
        ("xyzzy", "No document has one of these words.", "Aucun document ne contient un de ces mots."),
    ],
)
def test_why_nothing_is_found_is_said(folder: Path, query: str, english: str, french: str):
    with page_client(page_settings(folder)) as client:
        page = text_of(client, f"/search?query={query}")
        assert "Nothing found" in page
        assert english in page
        assert french in text_of(client, f"/search?query={query}&lang=fr")


def test_a_word_without_its_accents_is_searched_with_them(folder: Path, tmp_path: Path):
    with page_client(page_settings(folder, judgments=tmp_path / "judged.jsonl")) as client:
        reply = client.get("/search?query=L'ecole")
        page = Outline(reply.text)
        assert "No document has “L'ecole”. These are the results for “L'école”." in page.text
        assert "Results 1 to 10 of 12" in " ".join(page.text.split())
        assert "<mark>école</mark>" in reply.text
        following = [link for link in page.values("a", "href") if "page=2" in link and "lang" not in link]
        assert following == ["/search?query=L%27%C3%A9cole&page=2"]
        assert ("input", "value", "L'ecole") in page.attributes  # what was typed stays in the box
        assert "No document has" not in text_of(client, "/search?query=prime+ecole")


def test_results_have_a_total_where_it_is_known(folder: Path):
    pipelines = {"short": "bm25 % 11", "fused": "rrf(bm25 % 20, dfi % 20)"}
    with page_client(page_settings(folder, pipelines=pipelines)) as client:
        assert "Results 1 to 10 of 12" in text_of(client, "/search?query=prime")
        assert "Résultats 11 à 12 sur 12" in text_of(client, "/search?query=prime&page=2&lang=fr")
        assert "Results 1 to 10 of 11" in text_of(client, "/search?query=prime&model=short")
        assert "Next page" not in text_of(client, "/search?query=prime&model=short&page=2")
        assert "There are no results on this page." in text_of(
            client, "/search?query=prime&model=short&page=3"
        )
        assert "Results 1 to 10 of more than 10" in text_of(client, "/search?query=prime&model=fused")
        assert "Results 11 to 12 of 12" in text_of(client, "/search?query=prime&model=fused&page=2")
