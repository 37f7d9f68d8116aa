from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from small_pages import Outline, page_client, page_settings
from telerank.corpus.answers import read_judgments
from telerank.corpus.formats import open_collection
from telerank.service.judgments import query_id

SAME = {"Origin": "http://testserver"}
FORM = {
    "query": "prime  d'activité",
    "docno": "F1",
    "grade": "1",
    "page": "2",
    "rank": "3",
    "index": "",
    "model": "dfi",
}
JUDGMENT = {"query": "prime d'activité", "docno": "F1", "grade": 1}


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    return tmp_path / "judged.jsonl"


@pytest.fixture
def client(fiches: Path, judged: Path):
    with page_client(page_settings(fiches, judgments=judged, cors=("https://other.example.org",))) as client:
        yield client


def test_a_thumb_saves_a_judgment_and_leads_back_with_thanks(client: Any, judged: Path):
    reply = client.post("/judge", data={**FORM, "lang": "fr"}, headers=SAME)
    assert reply.status_code == 303
    location = reply.headers["location"]
    assert location.startswith(
        "/search?query=prime++d%27activit%C3%A9&model=dfi&page=2&judged=F1&grade=1&lang=fr"
    )
    assert location.endswith("#r3")
    (judgment,) = read_judgments(judged)
    assert (judgment.query, judgment.docno, judgment.grade) == ("prime d'activité", "F1", 1)
    assert judgment.index == "fiches"
    assert open_collection(judged).judged("fiches") == {query_id("Prime d'activité"): {"F1": 1}}
    page = Outline(client.get(location.replace("page=2", "page=1")).text)
    assert page.values("button", "aria-pressed")[:2] == ["true", "false"]
    assert "Merci, votre avis est enregistré." in page.text
    reply = client.post("/judge", data=FORM, headers={**SAME, "Accept": "application/json"})
    assert reply.status_code == 201
    assert reply.json()["qid"] == query_id("prime d'activité")


@pytest.mark.parametrize(
    ("headers", "is_accepted"),
    [
        ({}, False),
        ({"Origin": "https://evil.example.org"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://testserver.evil.example.org"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"}, False),
        ({"Referer": "https://evil.example.org/testserver"}, False),
        ({"Origin": "http://testserver"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Referer": "http://testserver/search?query=prime"}, True),
        ({"Origin": "https://other.example.org", "Sec-Fetch-Site": "cross-site"}, True),
    ],
)
def test_judgments_are_taken_from_the_services_page_and_those_of_cors_alone(
    client: Any, judged: Path, headers: dict[str, str], is_accepted: bool
):
    form = client.post("/judge", data=FORM, headers=headers)
    assert form.status_code == (303 if is_accepted else 403)
    assert is_accepted or "was not sent from this page" in Outline(form.text).text
    program = client.post("/v1/judgments", json=JUDGMENT, headers=headers)
    assert program.status_code == (201 if is_accepted or not headers else 403)
    assert judged.exists() is (is_accepted or not headers)


BAD_FORMS = [
    ({"docno": "none"}, 404),
    ({"index": "none"}, 404),
    ({"grade": "x"}, 422),
    ({"grade": "99999999"}, 422),
    ({"query": "  "}, 422),
    ({"query": "a" * 2001}, 422),
    (b"\xff\xfe", 400),
    (b"q=%ff&docno=F1&grade=1", 400),
    (b"&".join([b"a=1"] * 50), 400),
]
BAD_JSON = [
    ({"docno": "none"}, 404),
    ({"grade": True}, 422),
    ({"grade": 1.5}, 422),
    ({"grade": 2**20}, 422),
    ({"query": ""}, 422),
    ({"query": "\ud800"}, 422),
    ({"more": 1}, 422),
]


def test_what_cannot_be_judged_is_an_error(client: Any, judged: Path):
    for change, status in BAD_FORMS:
        sent = {"content": change} if isinstance(change, bytes) else {"data": {**FORM, **change}}
        reply = client.post("/judge", **sent, headers=SAME)
        assert reply.status_code == status, change
        assert Outline(reply.text).values("html", "lang") == ["en"]
    for change, status in BAD_JSON:
        body = json.dumps({**JUDGMENT, **change})
        reply = client.post("/v1/judgments", content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code == status, change
        assert "error_type" in reply.json()
    assert not judged.exists()


def test_a_form_cannot_lead_to_another_place(client: Any):
    """What a form says of its page becomes values of an address here, never an address."""
    evil = "https://evil.example.org"
    change = {"page": evil[6:], "rank": "1\r\nX: 1", "model": evil, "lang": "x&y=1"}
    location = client.post("/judge", data={**FORM, **change}, headers=SAME).headers["location"]
    assert location.startswith("/search?query=")
    assert "\r" not in location
    assert "https%3A%2F%2Fevil" in location


def test_a_program_judges_with_json(client: Any, judged: Path):
    reply = client.post("/v1/judgments", json=JUDGMENT)
    assert reply.status_code == 201
    assert reply.json() == {
        "qid": query_id("prime d'activité"),
        "query": "prime d'activité",
        "docno": "F1",
        "grade": 1,
        "time": next(read_judgments(judged)).time,
        "index": "fiches",
    }


def test_a_judgment_that_cannot_be_saved_says_so(fiches: Path, tmp_path: Path):
    file = tmp_path / "judged.jsonl"
    with page_client(page_settings(fiches, judgments=file)) as client:
        file.mkdir()
        page = client.post("/judge", data=FORM, headers=SAME)
        assert page.status_code == 507
        assert "This could not be saved." in page.text
        reply = client.post("/v1/judgments", json={"query": "prime", "docno": "F1", "grade": 1})
        assert reply.status_code == 507
        assert reply.json()["message"] == "the judgment could not be saved: Is a directory"


def test_a_service_without_judgments_has_no_thumbs_and_takes_none(fiches: Path):
    with page_client(page_settings(fiches)) as client:
        assert "judge" not in client.get("/search?query=prime").text
        assert client.post("/judge", data=FORM, headers=SAME).status_code == 404
        assert client.post("/v1/judgments", json=JUDGMENT).status_code == 404


def test_a_document_is_judged_where_it_is_read(client: Any, judged: Path):
    page = Outline(client.get("/document?docno=F1&query=prime&lang=fr").text)
    assert ("input", "value", "document") in page.attributes
    reply = client.post("/judge", data={**FORM, "on": "document", "lang": "fr"}, headers=SAME)
    assert reply.headers["location"].startswith("/document?query=prime")
    page = Outline(client.get(reply.headers["location"]).text)
    assert page.values("button", "aria-pressed") == ["true", "false"]
    assert "Merci, votre avis est enregistré." in page.text
    assert "judge" not in client.get("/document?docno=F1").text


def test_a_thumb_up_leads_to_a_search_with_that_document(client: Any):
    plain = Outline(client.get("/search?query=prime").text)
    [hidden] = {names for tag, names in plain.elements if tag == "a" and "hidden" in names}
    assert hidden
    shown = client.get("/search?query=prime&judged=F1&grade=1")
    links = [
        value
        for value in Outline(shown.text).values("a", "href")
        if "documents%28" in value or "documents(" in value
    ]
    page = client.get(next(link for link in links if "F1" in link))
    assert page.status_code == 200
    assert "rocchio" in page.text
    again = [
        value
        for value in Outline(page.text).values("a", "href")
        if ("documents%28" in value or "documents(" in value) and "F1" in value
    ]
    assert client.get(again[1]).status_code == 200


def test_opened_results_are_kept_as_judgments_with_their_rank(fiches: Path, tmp_path: Path):
    clicks = tmp_path / "clicks.jsonl"
    with page_client(page_settings(fiches, clicks=clicks)) as client:
        results = Outline(client.get("/search?query=prime").text).values("a", "href")
        opened = [link for link in results if link.startswith("/document") and "rank=2" in link]
        assert len(opened) == 1
        for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Referer": "https://evil.example.org/"}):
            assert client.get(opened[0], headers=headers).status_code == 200
        assert not clicks.exists()
        assert client.get(opened[0], headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        client.get(opened[0].replace("rank=2", "rank=7"), headers={"Referer": "http://testserver/search"})
    kept = [*read_judgments(clicks)]
    assert [(each.query, each.grade, each.rank) for each in kept] == [("prime", 1, 2), ("prime", 1, 7)]
    assert open_collection(clicks).notes() == {"clicks": 2, "clicks on the first rank": 0}
    with page_client(page_settings(fiches)) as client:
        assert "rank=" not in client.get("/search?query=prime").text
