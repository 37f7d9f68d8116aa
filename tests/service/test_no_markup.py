from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_pages import HOSTILE, Outline, hostile_docs, page_client, page_settings
from small_service import make_index
from telerank.types import Doc


@contextmanager
def client_of(folder: Path, docs: list[Doc], **more: Any) -> Iterator[Any]:
    index = make_index(folder / "idx", docs, analyzer="standard")
    more |= {"judgments": folder / "judged.jsonl", "pipelines": {"p": "bm25"}}
    with page_client(page_settings(index, **more)) as client:
        yield client


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Iterator[Any]:
    with client_of(tmp_path_factory.mktemp("hostile"), hostile_docs(), title=HOSTILE[0]) as client:
        yield client


def structure(page: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """The elements with their attributes, in any order, without marks, which follow the words."""
    return Counter(
        element for element in Outline(page).elements if element[0] not in ("mark", "span", "option")
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_query_makes_the_same_page_as_a_plain_one(hostile: Any, text: str):
    docno = hostile_docs()[0].docno
    for path, values in (
        ("search", {}),
        ("compare", {"a": "bm25", "b": "p"}),
        ("document", {"docno": docno}),
    ):
        shown, expected = (
            structure(hostile.get(f"/{path}", params={**values, "query": query, "syntax": "none"}).text)
            for query in (f"prime {text}", "prime")
        )
        assert shown == expected, path
    explained, expected = (
        structure(
            hostile.get(
                "/explain", params={"docno": docno, "model": "bm25", "query": f"x {query}", "syntax": "none"}
            ).text
        )
        for query in (text, "prime")
    )
    assert {*explained} - {*expected} <= {("div", ("class",))}


def test_hostile_documents_make_the_same_page_as_plain_ones(hostile: Any, tmp_path: Path):
    urls = {2: "https://example.org/x"}
    docs = [Doc(f"d{n}", "prime x prime\nx", "x prime", urls.get(n, "x")) for n in range(5)]
    with client_of(tmp_path, docs) as plain:
        pages = [structure(client.get("/search?query=prime").text) for client in (hostile, plain)]
    assert pages[0] == pages[1]


def test_each_hostile_text_is_shown_as_it_is(hostile: Any):
    for doc in hostile_docs():
        page = Outline(hostile.get("/document", params={"docno": doc.docno, "query": "prime"}).text)
        assert " ".join(doc.title.split()) in " ".join(page.text.split())
        for line in re.split(r"[\n\u2028]", doc.text):
            assert line.strip().replace("\x00", "") in page.text.replace("\x00", "").replace("\ufffd", "")
        assert doc.docno in page.text


def test_addresses_of_documents_lead_to_the_web_alone(hostile: Any):
    page = Outline(hostile.get("/search?query=prime").text)
    schemes = {urlsplit(value).scheme for value in page.values("a", "href")}
    assert schemes <= {"", "https"}
    assert [value for value in page.values("a", "href") if "example.org" in value] == [hostile_docs()[2].url]
    assert not [value for value in page.values("a", "href") if value.startswith("//")]


@pytest.mark.parametrize(
    "address",
    [
        "/search?query=a&model={}",
        "/search?query=a&index={}",
        "/search?query=a&page={}",
        "/search?query=prime&judged={}&grade=1",
        "/compare?query=prime&a={}&b=bm25",
        "/document?docno={}",
        "/document?docno=d0&at={}&part={}&kind={}",
        "/explain?query=prime&docno={}",
        "/{}",
        "/?query={}&lang={}",
        "/search?query=prime&{}={}",
    ],
)
def test_a_hostile_value_of_an_address_is_no_markup(hostile: Any, address: str):
    for text in HOSTILE:
        page = hostile.get(address.replace("{}", quote(text.replace("\x00", "%00"), safe="")))
        outline = Outline(page.text)
        assert page.status_code < 500
        assert not {tag for tag, _ in outline.elements} & {"img", "b", "textarea"}
        assert all("src" in names for tag, names in outline.elements if tag == "script")
        assert not [name for _, names in outline.elements for name in names if name.startswith("on")]
        assert not [value for value in outline.values("a", "href") if "javascript:" in value.lower()[:20]]


@settings(max_examples=60)
@given(query=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80))
def test_any_query_is_the_value_of_the_box(hostile: Any, query: str):
    reply = hostile.get("/search", params={"query": query})
    if not query.split():
        assert reply.status_code == 303
        return
    assert reply.status_code == 200
    assert " ".join(query.split()) in Outline(reply.text).values("input", "value") or "\x00" in query
