from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from small_pages import Outline, page_client, page_settings
from small_readers import reader_with
from small_service import make_index
from telerank.models.readers import save_reader
from telerank.types import Doc

DOCS = [Doc(f"A{n}", f"La prime numéro {n} est versée en mars.", f"Prime {n}") for n in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_index(tmp_path_factory.mktemp("answers") / "fiches", DOCS, analyzer="french")


@pytest.fixture(scope="module")
def readers(tmp_path_factory) -> dict[str, dict[str, str]]:
    """A reader that always answers, and one that never does."""
    folder = tmp_path_factory.mktemp("readers")
    for name, threshold in (("always", 1000.0), ("never", -1000.0)):
        save_reader(reader_with(folder, "word pieces", threshold=threshold), folder / name)
    return {name: {"readers": {name: str(folder / name)}} for name in ("always", "never")}


def page_of(client: Any, address: str) -> Outline:
    reply = client.get(address)
    assert reply.status_code == 200, reply.text
    return Outline(reply.text)


def test_results_do_not_wait_for_the_answer(folder: Path, readers: dict[str, Any]):
    with page_client(page_settings(folder, **readers["always"])) as client:
        page = page_of(client, "/search?query=prime")
        assert "3 results" in page.text
        assert "answer-text" not in page.values("p", "class")
        assert "Reading for an answer" not in page.text
        assert "/answer?query=prime" in page.values("a", "href")
        assert "Look for an answer in the first documents" in page.text
        answer = page_of(client, "/answer?query=prime")
        assert "Reading for an answer" in answer.text
        assert "Words in common" in answer.text
        assert "/search?query=prime" in answer.values("a", "href")


def test_an_answer_below_the_confidence_of_the_settings_is_behind_a_click(
    folder: Path, readers: dict[str, Any]
):
    with page_client(page_settings(folder, **readers["always"], answer_confidence=0)) as client:
        sure = client.get("/answer?query=prime").text
    with page_client(page_settings(folder, **readers["always"], answer_confidence=1)) as client:
        unsure = client.get("/answer?query=prime").text
    text = re.search(r'answer-text"[^>]*>(.*?)</p>', sure)[1]
    assert sure.index("answer-text") < sure.index("<details")
    assert '<h2 id="answer">Answer</h2>' in sure
    assert '<h2 id="answer">No sure answer</h2>' in unsure
    shown, _, hidden = unsure.partition('<details class="unsure">')
    assert "answer-text" not in shown
    assert re.search(r'answer-text"[^>]*>(.*?)</p>', hidden)[1] == text
    assert re.search(r"Show what was marked with little confidence \(\d+%\)", hidden)


def test_where_nothing_is_found_nothing_is_read(folder: Path, readers: dict[str, Any]):
    with page_client(page_settings(folder, **readers["never"]), language="fr") as client:
        page = page_of(client, "/search?query=xyzzy")
        assert "Aucun résultat" in page.text
        assert "réponse" not in page.text
        assert not [link for link in page.values("a", "href") if link.startswith("/answer")]
        page = page_of(client, "/answer?query=prime").text
        assert "Aucune réponse trouvée" in page
        assert "Aucun des 3 documents lus" in page
        answer = page_of(client, "/answer?query=xyzzy").text
        assert "Aucun document où elle pourrait se trouver n’a été trouvé." in answer
        assert "lu ne contient pas" not in answer


def test_a_reader_with_documents_of_its_own_reads_them_where_nothing_else_is_found(
    folder: Path, readers: dict[str, Any]
):
    settings = page_settings(folder, **readers["always"], answer="dfi % 2 >> read(always)")
    with page_client(settings) as client:
        assert "/answer?query=xyzzy" in page_of(client, "/search?query=xyzzy").values("a", "href")
        assert "No document was found" in page_of(client, "/answer?query=xyzzy").text


def test_an_answer_goes_with_the_first_page_and_with_the_spelling_of_the_results(
    folder: Path, readers: dict[str, Any]
):
    with page_client(page_settings(folder, **readers["always"])) as client:
        links = page_of(client, "/search?query=versee").values("a", "href")
        assert "/answer?query=vers%C3%A9e" in links
        links = page_of(client, "/search?query=prime&page=2").values("a", "href")
        assert not [link for link in links if link.startswith("/answer")]
        assert client.get("/answer?query=+").headers["location"] == "/"


def test_a_reader_reads_what_a_default_pipeline_without_a_bound_finds(folder: Path, readers: dict[str, Any]):
    """The service's own pipelines are not bounded as those of requests are."""
    settings = page_settings(
        folder,
        **readers["always"],
        model="long",
        pipelines={"long": "bm25 % 5000"},
        limits={"reranked": 5, "depth": 10},
    )
    with page_client(settings) as client:
        assert page_of(client, "/answer?query=prime").text
        assert client.post("/v1/answer", json={"query": "prime"}).status_code == 200


def test_a_later_answer_of_a_higher_confidence_is_explained(tmp_path: Path, readers: dict[str, Any]):
    """The ranking alone orders these answers: that of the shorter text is first, the reader prefers the other."""
    docs = [Doc("A", "prime"), Doc("B", "La prime est versée en mars.")]
    line = "Answers are in the order of their scores"
    for mu, is_said in ((0, True), (1, False)):
        folder = make_index(tmp_path / f"idx{mu}", docs, analyzer="french")
        answer = f"bm25 >> read(always, mu={mu})"
        with page_client(page_settings(folder, **readers["always"], answer=answer)) as client:
            answers = client.post("/v1/answer", json={"query": "prime"}).json()["answers"]
            best, *others = (answer["confidence"] for answer in answers)
            assert (max(others) > best) is is_said
            assert (line in page_of(client, "/answer?query=prime").text) is is_said
