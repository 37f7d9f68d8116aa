"""No text of a document, of a query or of an address is ever markup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from small_pages import HOSTILE, Outline, hostile_docs, make_index, page_client, page_settings
from telerank.types import Doc

PLAIN = "prime"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_index(tmp_path_factory.mktemp("hostile") / "idx", hostile_docs(), "standard")


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory) -> Path:
    docs = [
        Doc(f"d{n}", "prime x prime\nx", "x prime", "https://example.org/x" if n == 2 else "x")
        for n in range(5)
    ]
    return make_index(tmp_path_factory.mktemp("plain") / "idx", docs, "standard")


@pytest.fixture(scope="module")
def hostile(folder: Path, tmp_path_factory) -> Iterator[Any]:
    judged = tmp_path_factory.mktemp("judged") / "judged.jsonl"
    pipelines = {"p": "bm25"}
    settings = page_settings(folder, judgments=judged, pipelines=pipelines, title=HOSTILE[0])
    with page_client(settings) as client:
        yield client


@pytest.fixture(scope="module")
def plain(plain_folder: Path, tmp_path_factory) -> Iterator[Any]:
    judged = tmp_path_factory.mktemp("judged") / "judged.jsonl"
    with page_client(page_settings(plain_folder, judgments=judged, pipelines={"p": "bm25"})) as client:
        yield client


def structure(page: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """The elements with their attributes, in any order, without marks, which follow the words."""
    return Counter(
        element for element in Outline(page).elements if element[0] not in ("mark", "span", "option")
    )


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "address", ["/search?q={}", "/compare?q={}&a=bm25&b=p", "/document?docno={docno}&q={}"]
)
def test_a_hostile_query_makes_the_same_page_as_a_plain_one(hostile: Any, address: str, text: str):
    docno = quote(hostile_docs()[0].docno)
    found, expected = (
        structure(hostile.get(address.format(quote(query), docno=docno)).text)
        for query in (f"prime {text}", PLAIN)
    )
    assert found == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_query_is_explained_with_more_parts_alone(hostile: Any, text: str):
    values = {"docno": hostile_docs()[0].docno, "model": "bm25"}
    found = structure(hostile.get("/explain", params={**values, "q": f"x {text}"}).text)
    expected = structure(hostile.get("/explain", params={**values, "q": "x prime"}).text)
    assert {*found} - {*expected} <= {("div", ("class",))}


def test_hostile_documents_make_the_same_page_as_plain_ones(hostile: Any, plain: Any):
    found, expected = (structure(client.get("/search?q=prime").text) for client in (hostile, plain))
    assert found == expected


def test_each_hostile_text_is_shown_as_it_is(hostile: Any):
    for doc in hostile_docs():
        page = Outline(hostile.get("/document", params={"docno": doc.docno, "q": "prime"}).text)
        assert " ".join(doc.title.split()) in " ".join(page.text.split())
        for line in re.split(r"[\n\u2028]", doc.text):
            assert line.strip().replace("\x00", "") in page.text.replace("\x00", "").replace("\ufffd", "")
        assert doc.docno in page.text


def test_addresses_of_documents_lead_to_the_web_alone(hostile: Any):
    page = Outline(hostile.get("/search?q=prime").text)
    schemes = {urlsplit(value).scheme for value in page.values("a", "href")}
    assert schemes <= {"", "https"}
    assert [value for value in page.values("a", "href") if "example.org" in value] == [hostile_docs()[2].url]
    assert not [value for value in page.values("a", "href") if value.startswith("//")]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "address",
    [
        "/search?q=a&model={}",
        "/search?q=a&index={}",
        "/search?q=a&page={}",
        "/search?q=prime&judged={}&grade=1",
        "/compare?q=prime&a={}&b=bm25",
        "/document?docno={}",
        "/document?docno=d0&at={}&part={}&kind={}",
        "/explain?q=prime&docno={}",
        "/{}",
        "/?q={}&lang={}",
        "/search?q=prime&{}={}",
    ],
)
def test_a_hostile_value_of_an_address_is_no_markup(hostile: Any, address: str, text: str):
    text = text.replace("\x00", "%00")
    page = hostile.get(address.replace("{}", quote(text, safe="")))
    outline = Outline(page.text)
    assert page.status_code < 500
    assert not {tag for tag, _ in outline.elements} & {"img", "b", "textarea"}
    assert all("src" in names for tag, names in outline.elements if tag == "script")
    assert not [name for _, names in outline.elements for name in names if name.startswith("on")]
    assert not [value for value in outline.values("a", "href") if "javascript:" in value.lower()[:20]]


@settings(max_examples=60)
@given(query=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80))
def test_any_query_is_the_value_of_the_box(hostile: Any, query: str):
    reply = hostile.get("/search", params={"q": query})
    if not query.split():
        assert reply.status_code == 303
        return
    assert reply.status_code == 200
    assert " ".join(query.split()) in Outline(reply.text).values("input", "value") or "\x00" in query
