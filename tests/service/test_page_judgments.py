"""Thumbs write judgments: from the page's own forms alone, and never of what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from small_pages import Outline, make_index, page_client, page_settings
from telerank.corpus.formats import open_collection
from telerank.corpus.judgments import read_judgments
from telerank.service.judgments import query_id

OWN = {"Origin": "http://testserver"}
FORM = {
    "q": "prime  d'activité",
    "docno": "F1",
    "grade": "1",
    "page": "2",
    "rank": "3",
    "index": "",
    "model": "dfi",
}
JUDGMENT = {"query": "prime d'activité", "docno": "F1", "grade": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_index(tmp_path_factory.mktemp("judged") / "fiches")


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    return tmp_path / "judged.jsonl"


@pytest.fixture
def client(folder: Path, judged: Path):
    with page_client(page_settings(folder, judgments=judged, cors=("https://own.example.org",))) as client:
        yield client


def test_a_thumb_saves_a_judgment_and_leads_back_with_thanks(client: Any, judged: Path):
    reply = client.post("/judge", data={**FORM, "lang": "fr"}, headers=OWN)
    assert reply.status_code == 303
    location = reply.headers["location"]
    assert location.startswith(
        "/search?q=prime++d%27activit%C3%A9&model=dfi&page=2&judged=F1&grade=1&lang=fr"
    )
    assert location.endswith("#r3")
    (judgment,) = read_judgments(judged)
    assert (judgment.query, judgment.docno, judgment.grade) == ("prime d'activité", "F1", 1)
    assert judgment.index == "fiches"
    assert open_collection(judged).judged("fiches") == {query_id("Prime d'activité"): {"F1": 1}}


def test_the_page_shows_which_thumb_was_pressed(client: Any):
    page = Outline(client.get("/search?q=apprenti&judged=F2&grade=0").text)
    assert page.values("button", "aria-pressed") == ["false", "true"]
    assert "Thank you, your opinion is saved." in page.text


def test_the_script_gets_json(client: Any, judged: Path):
    reply = client.post("/judge", data=FORM, headers={**OWN, "Accept": "application/json"})
    assert reply.status_code == 201
    assert reply.json()["qid"] == query_id("prime d'activité")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Origin": "http://testserver.evil.example.org"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"},
        {"Referer": "https://evil.example.org/testserver"},
    ],
)
def test_a_form_of_another_host_is_refused(client: Any, judged: Path, headers: dict[str, str]):
    reply = client.post("/judge", data=FORM, headers=headers)
    assert reply.status_code == 403
    assert "was not sent from this page" in Outline(reply.text).text
    assert not judged.exists()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://testserver"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Referer": "http://testserver/search?q=prime"},
        {"Origin": "https://own.example.org", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_the_services_own_page_is_accepted(client: Any, headers: dict[str, str]):
    assert client.post("/judge", data=FORM, headers=headers).status_code == 303


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"docno": "none"}, 404),
        ({"index": "none"}, 404),
        ({"grade": "x"}, 422),
        ({"grade": ""}, 422),
        ({"grade": "99999999"}, 422),
        ({"q": "  "}, 422),
        ({"q": "a" * 2001}, 422),
    ],
)
def test_what_cannot_be_judged_is_an_error_page(
    client: Any, judged: Path, change: dict[str, str], status: int
):
    reply = client.post("/judge", data={**FORM, **change}, headers=OWN)
    assert reply.status_code == status
    assert Outline(reply.text).values("html", "lang") == ["en"]
    assert not judged.exists()


@pytest.mark.parametrize("body", [b"\xff\xfe", b"q=%ff&docno=F1&grade=1", b"&".join([b"a=1"] * 50)])
def test_a_form_that_cannot_be_read_is_an_error_page(client: Any, judged: Path, body: bytes):
    reply = client.post("/judge", content=body, headers=OWN)
    assert reply.status_code == 400
    assert not judged.exists()


def test_a_form_cannot_lead_to_another_place(client: Any):
    """What a form says of its page becomes values of an address here, never an address."""
    change = {
        "page": "//evil.example.org",
        "rank": "1\r\nX: 1",
        "model": "https://evil.example.org",
        "lang": "x&y=1",
    }
    location = client.post("/judge", data={**FORM, **change}, headers=OWN).headers["location"]
    assert location.startswith("/search?q=")
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


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"docno": "none"}, 404),
        ({"grade": True}, 422),
        ({"grade": 1.5}, 422),
        ({"grade": 2**20}, 422),
        ({"query": ""}, 422),
        ({"query": "\ud800"}, 422),
        ({"more": 1}, 422),
    ],
)
def test_json_that_cannot_be_judged_is_refused(
    client: Any, judged: Path, change: dict[str, Any], status: int
):
    import json

    body = json.dumps({**JUDGMENT, **change})
    reply = client.post("/v1/judgments", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    assert "error_type" in reply.json()
    assert not judged.exists()


def test_json_of_another_hosts_page_is_refused(client: Any, judged: Path):
    for headers in ({"Origin": "https://evil.example.org"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/v1/judgments", json=JUDGMENT, headers=headers).status_code == 403
    assert not judged.exists()


def test_a_judgment_that_cannot_be_saved_says_so(folder: Path, tmp_path: Path):
    file = tmp_path / "judged.jsonl"
    with page_client(page_settings(folder, judgments=file)) as client:
        file.mkdir()
        page = client.post("/judge", data=FORM, headers=OWN)
        assert page.status_code == 507
        assert "This could not be saved." in page.text
        reply = client.post("/v1/judgments", json={"query": "prime", "docno": "F1", "grade": 1})
        assert reply.status_code == 507
        assert reply.json()["message"] == "the judgment could not be saved: Is a directory"


def test_a_service_without_judgments_has_no_thumbs_and_takes_none(folder: Path):
    with page_client(page_settings(folder)) as client:
        assert "judge" not in client.get("/search?q=prime").text
        assert client.post("/judge", data=FORM, headers=OWN).status_code == 404
        assert client.post("/v1/judgments", json=JUDGMENT).status_code == 404


def test_a_document_is_judged_where_it_is_read(client: Any, judged: Path):
    page = Outline(client.get("/document?docno=F1&q=prime&lang=fr").text)
    assert ("input", "value", "document") in page.attributes
    reply = client.post("/judge", data={**FORM, "on": "document", "lang": "fr"}, headers=OWN)
    assert reply.headers["location"].startswith("/document?q=prime")
    page = Outline(client.get(reply.headers["location"]).text)
    assert page.values("button", "aria-pressed") == ["true", "false"]
    assert "Merci, votre avis est enregistré." in page.text
    assert "judge" not in client.get("/document?docno=F1").text
