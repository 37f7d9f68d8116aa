"""What the page says and offers in every state of a service: whatever is served, each of its links leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi")

import telerank as tr
from small_pages import Outline, make_index, page_client, page_settings
from telerank.types import Doc
from telerank.verbs.index import delete_documents

FEW = [Doc(f"A{n}", f"La prime numéro {n} de l’école.", f"Prime {n}") for n in range(12)]
HYBRID = {"hybrid": "rrf(bm25 % 20, dense(nowhere) % 20)"}


class Ways(HTMLParser):
    """The addresses to which links lead, and those that forms ask for as they stand, for each option."""

    def __init__(self, page: str, query: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._query, self._select = query, ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        value = given.get("value") or ""
        if tag == "a" and "lang" not in given:
            self.addresses.append((given["href"] or "").partition("#")[0])
        elif tag == "form" and given["method"] == "get":
            self._action, self._values, self._options = given["action"], {}, {}
        elif tag == "input" and given["name"] in ("q", "a", "b"):
            self._values[given["name"]] = value or (self._query if given["name"] == "q" else "bm25")
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


def crawl(client: Any, query: str = "prime") -> dict[str, int]:
    """The statuses of all pages that links and forms lead to, from the first page on."""
    statuses: dict[str, int] = {}
    waiting = ["/", "/nothing"]
    while waiting:
        address = waiting.pop()
        if address in statuses or not address.startswith("/") or "lang=" in address:
            continue
        reply = client.get(address)
        statuses[address] = reply.status_code
        if reply.headers["content-type"].startswith("text/html"):
            waiting += Ways(reply.text, query).addresses
    assert statuses.pop("/nothing") == 404
    return statuses


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_index(tmp_path_factory.mktemp("states") / "few", FEW)


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Path:
    folder = make_index(tmp_path_factory.mktemp("states") / "empty", FEW[:1])
    delete_documents(folder, ["A0"])
    return folder


def text_of(client: Any, address: str, status: int = 200, **headers: str) -> str:
    reply = client.get(address, headers=headers)
    assert reply.status_code == status, reply.text
    return " ".join(Outline(reply.text).text.split())


STATES = {
    "no pipelines": {},
    "one pipeline": {"pipelines": {"other": "dfi % 5"}},
    "a pipeline that cannot be run": {"pipelines": HYBRID},
    "a default pipeline": {"model": "other", "pipelines": {"other": "dfi % 5", "long": "bm25"}},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("query", ["prime", "xyzzy"])
def test_every_link_leads_to_a_page(folder: Path, state: str, query: str):
    with page_client(page_settings(folder, **STATES[state])) as client:
        statuses = crawl(client, query)
    assert {address: status for address, status in statuses.items() if status >= 400} == {}
    assert {"/compare", "/docs", f"/search?q={query}"} <= {*statuses}


def test_every_link_of_several_indexes_leads_to_a_page(folder: Path, empty: Path):
    settings = page_settings(folder, indexes={"few": folder, "empty": empty}, pipelines=HYBRID)
    with page_client(settings) as client:
        statuses = crawl(client)
        assert "/search?q=prime&index=empty" in statuses
        assert {address: status for address, status in statuses.items() if status >= 400} == {}
        assert "There are no documents here yet." in text_of(client, "/search?q=prime&index=empty")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Iterator[dict[str, Path]]:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from small_service import save_models

    return save_models(tmp_path_factory.mktemp("models"))


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
    assert {address: status for address, status in statuses.items() if status >= 400} == {}
    assert "/answer?q=prime" in statuses
    assert "/search?q=prime&index=vectors" in statuses
    assert "/answer?q=prime&index=vectors" not in statuses


def test_a_service_of_models_alone_has_a_page_that_says_so(models: dict[str, Path]):
    from telerank.service.settings import make_settings

    readers = {"small": str(models["reader"])}
    with page_client(make_settings({"readers": readers, "allowed_hosts": ["testserver"]})) as client:
        assert crawl(client) == {"/": 200, "/docs": 200, "/openapi.json": 200}
        assert "There are no texts to search here." in text_of(client, "/")


def test_a_pipeline_that_cannot_be_run_is_named_and_the_usual_one_searches(folder: Path):
    with page_client(page_settings(folder, pipelines=HYBRID)) as client:
        page = text_of(client, "/search?q=prime&model=hybrid")
        assert "“hybrid” cannot be used with this index. Ranked instead by: the usual way (bm25)." in page
        assert "no vectors of nowhere" in page
        assert "Results 1 to 10" in page
        assert "hybrid" not in Outline(client.get("/search?q=prime&model=hybrid").text).values("a", "href")[4]
        french = text_of(client, "/search?q=prime&model=hybrid&lang=fr")
        assert "cet index n’a pas de vecteurs de nowhere" in french
        compared = text_of(client, "/compare?q=prime&a=bm25&b=hybrid")
        assert "“hybrid” cannot be used with this index." in compared


def test_a_pipeline_of_another_index_is_named_too(folder: Path, tmp_path: Path):
    from telerank.pipelines.saved import save_pipeline

    other = make_index(tmp_path / "other", FEW[:3])
    save_pipeline(tr.open(other), "best", "dfi % 5")
    with page_client(page_settings(folder, indexes={"few": folder, "other": other})) as client:
        assert "dfi" in text_of(client, "/search?q=prime&index=other&model=best")
        assert "“best” cannot be used with this index" in text_of(client, "/search?q=prime&model=best")
        text_of(client, "/search?q=prime&model=worst", 422)


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
        assert english in text_of(client, f"/search?q={query}")
        assert french in text_of(client, f"/search?q={query}&lang=fr")


def test_a_word_without_its_accents_is_searched_with_them(folder: Path, tmp_path: Path):
    with page_client(page_settings(folder, judgments=tmp_path / "judged.jsonl")) as client:
        reply = client.get("/search?q=L'ecole")
        page = Outline(reply.text)
        assert "No document has “L'ecole”. These are the results for “L'école”." in page.text
        assert "Results 1 to 10 of 12" in " ".join(page.text.split())
        assert "<mark>école</mark>" in reply.text
        following = [link for link in page.values("a", "href") if "page=2" in link and "lang" not in link]
        assert following == ["/search?q=L%27%C3%A9cole&page=2"]
        assert ("input", "value", "L'ecole") in page.attributes  # what was typed stays in the box
        assert "No document has" not in text_of(client, "/search?q=prime+ecole")


def test_results_have_a_total_where_it_is_known(folder: Path):
    pipelines = {"short": "bm25 % 11", "fused": "rrf(bm25 % 20, dfi % 20)"}
    with page_client(page_settings(folder, pipelines=pipelines)) as client:
        assert "Results 1 to 10 of 12" in text_of(client, "/search?q=prime")
        assert "Résultats 11 à 12 sur 12" in text_of(client, "/search?q=prime&page=2&lang=fr")
        assert "Results 1 to 10 of 11" in text_of(client, "/search?q=prime&model=short")
        assert "Results 1 to 10 of more than 10" in text_of(client, "/search?q=prime&model=fused")
        assert "Results 11 to 12 of 12" in text_of(client, "/search?q=prime&model=fused&page=2")


@pytest.mark.parametrize(
    ("address", "detail"),
    [
        ("/search?q=" + "a" * 2001, "la recherche a 2\u202f001 caractères, 2\u202f000 au plus"),
        ("/search?q=a&page=101", "page 101\u202f: il y a les pages 1 à 100"),
        ("/search?q=a&page=x", "un nombre entier à partir de 1 est attendu"),
        ("/document", "il manque le numéro du document"),
    ],
)
def test_details_of_errors_are_french_on_a_french_page(folder: Path, address: str, detail: str):
    with page_client(page_settings(folder), language="fr") as client:
        page = Outline(client.get(address).text)
    assert detail in page.text
    assert page.values("pre", "lang") == []


def test_what_has_no_translation_is_marked_as_english_behind_a_click(folder: Path):
    with page_client(page_settings(folder), language="fr") as client:
        page = Outline(client.get("/search?q=a&model=bm25(k2%3D1)").text)
    assert page.values("pre", "lang") == ["en"]
    assert "Détails techniques (en anglais)" in page.text
