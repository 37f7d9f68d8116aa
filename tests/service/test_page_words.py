"""Misspelt words and suggestions on the page, without script; hostile ones take bounded time."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest

from small_pages import HOSTILE, Outline, check_page, page_client, page_settings


@pytest.fixture(scope="module")
def page(fiches):
    with page_client(page_settings(fiches)) as client:
        yield client


@pytest.fixture(scope="module")
def french(fiches):
    with page_client(page_settings(fiches), "fr") as client:
        yield client


def links(text: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]*)"', text)]


def test_what_finds_nothing_is_searched_as_it_was_meant_and_one_click_leads_back(page, french):
    shown = page.get("/search", params={"query": "aprenti"})
    check_page(shown, "en")
    assert "No document has “aprenti”. These are the results for “apprenti”." in unescape(shown.text)
    [back] = [link for link in links(shown.text) if "spelling=off" in link]
    typed = page.get(back)
    check_page(typed, "en")
    assert "Nothing found" in typed.text
    assert "apprenti" not in typed.text
    assert "tel quel" in french.get("/search", params={"query": "aprenti"}).text


def test_what_was_meant_is_a_link_if_there_are_results(page, french):
    shown = page.get("/search", params={"query": "prime aprenti"})
    check_page(shown, "en")
    assert "Did you mean:" in shown.text
    [meant] = {link for link in links(shown.text) if "prime+apprenti" in link and link.startswith("/search")}
    corrected = page.get(meant)
    assert "Did you mean" not in corrected.text
    assert "Results for “prime apprenti”" in unescape(corrected.text)
    assert "Vouliez-vous dire" in french.get("/search", params={"query": "prime aprenti"}).text
    for params in ({"query": "prime apprenti"}, {"query": "prime aprenti", "spelling": "off"}):
        assert "Did you mean" not in page.get("/search", params=params).text
    assert "Did you mean" not in page.get("/search", params={"query": "prime aprenti", "page": 2}).text


def test_the_box_names_what_its_script_asks_for_suggestions(page):
    shown = page.get("/search", params={"query": "prime"})
    assert Outline(shown.text).values("input", "data-suggest") == ["/v1/suggest"]
    assert page.get("/v1/suggest", params={"query": "alloc"}).json()["suggestions"][0]["kind"] == "title"


@pytest.mark.parametrize(
    "query", [*HOSTILE, "prlme " * 300, "x" * 2000, "e\u0301" * 300, "漢字" * 300, "\U0001f600" * 500]
)
def test_hostile_words_are_answered_in_bounded_time(page, query):
    started = time.process_time()
    check_page(page.get("/search", params={"query": query.strip()}), "en")
    assert page.get("/v1/suggest", params={"query": query}).status_code == 200
    reply = page.post("/v1/search", json={"query": query, "spelling": True})
    assert reply.status_code == 200
    assert time.process_time() - started < 5


@pytest.mark.parametrize("query", ["a" * 100_000, "mot " * 25_000])
def test_what_is_too_long_is_refused(page, query):
    assert page.get("/v1/suggest", params={"query": query[:50_000]}).status_code == 413
    assert page.post("/v1/search", json={"query": query, "spelling": True}).status_code == 422
