"""The simple syntax over HTTP and on the page, without script; keys; hostile queries in bounded time."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest

from small_pages import HOSTILE, Outline, check_page, page_client, page_settings
from small_service import make_index
from telerank.types import Doc

DOCS = [
    Doc("F1", "La prime d’activité complète les revenus.", "Prime d’activité", columns={"type": "fiche"}),
    Doc("F2", "Un apprenti peut demander la prime.", "Apprenti", columns={"type": "fiche"}),
    Doc("N1", "La prime exceptionnelle est une activité de l’État.", "Annonce", columns={"type": "news"}),
]
KEYS = {"access": {"sees-the-news": 'type == "news"'}, "keys": ("sees-all-of-it",)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("syntax") / "fiches", DOCS, analyzer="french")


@pytest.fixture(scope="module")
def page(folder):
    with page_client(page_settings(folder, facets=("type",))) as client:
        yield client


@pytest.fixture(scope="module")
def keyed(folder):
    with page_client(page_settings(folder, **KEYS)) as client:
        yield client


def search(client, query: str, **more) -> dict:
    reply = client.post("/v1/search", json={"query": query, "syntax": "simple", **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def docnos(reply: dict) -> list[str]:
    return [hit["docno"] for hit in reply["hits"]]


def test_a_request_says_how_queries_are_read(page):
    assert docnos(search(page, '"prime d\'activité"')) == ["F1"]
    plain = page.post("/v1/search", json={"query": '"prime d\'activité"'}).json()
    assert set(docnos(plain)) == {"F1", "F2", "N1"}
    assert "syntax" not in plain
    address = page.get("/v1/search", params={"query": "prime -type:fiche", "syntax": "simple"}).json()
    assert docnos(address) == ["N1"]
    assert address["query"] == "prime -type:fiche"
    assert address["pipeline"].startswith("bm25")
    assert [(part["text"], part["effect"]) for part in address["syntax"]["parts"]] == [
        ("prime", "ranks"),
        ("type:fiche", "excludes"),
    ]
    assert page.post("/v1/search", json={"query": "prime", "syntax": "lucene"}).status_code == 422


def test_pages_facets_groups_and_listings_follow_the_conditions(page):
    listed = search(page, "type:fiche", k=1, facets=["type"])
    assert docnos(listed) == ["F2"]
    assert listed["more"]
    assert listed["facets"][0]["values"] == [{"text": "fiche", "count": 2, "filter": 'type == "fiche"'}]
    assert docnos(search(page, "type:fiche", k=1, page=2)) == ["F1"]
    assert docnos(search(page, "type:fiche", group="file")) == ["F2", "F1"]
    assert docnos(search(page, "prime AND activité", filter='type == "news"')) == ["N1"]
    counted = search(page, "prime -apprenti", facets=["type"])["facets"][0]
    assert {each["text"]: each["count"] for each in counted["values"]} == {"fiche": 1, "news": 1}


def test_explanations_name_the_parts(page):
    body = {"query": '"prime d\'activité" -apprenti', "docno": "F1", "syntax": "simple"}
    explained = page.post("/v1/explain", json=body).json()["explanation"]
    assert explained["what"] == 'fulfils the expression "prime d\'activité" -apprenti'
    assert [part["what"] for part in explained["parts"][1:]] == [
        "'\"prime d\\'activité\"': in the document",
        "'apprenti': not in the document",
    ]
    hit = search(page, "prime -type:fiche", explain=True)["hits"][0]
    assert hit["explanation"]["value"] == hit["score"]


def test_misspelt_words_are_corrected_but_not_operators_and_columns(page):
    reply = search(page, "prlme AND apprenti -typ:x title:apprenti", spelling=True)
    assert reply["spelling"]["meant"] == "prime AND apprenti -typ:x title:apprenti"
    assert "spelling" not in search(page, "apprenti SAUF type:fiches apprent*", spelling=True)


def test_the_page_says_how_it_read_a_query_and_one_click_searches_its_words(page):
    shown = page.get("/search", params={"query": '"prime d’activité" -apprenti'})
    check_page(shown, "en")
    text = Outline(shown.text).text
    assert "How this search was read." in text
    assert "1 result" in text
    assert "must not be there, 1 document" in text
    [words] = {unescape(link) for link in re.findall(r'href="([^"]*syntax=none[^"]*)"', shown.text)}
    plain = page.get(words)
    check_page(plain, "en")
    assert "3 results" in plain.text
    assert "How this search was read" not in plain.text
    assert 'name="syntax" value="none"' in plain.text  # of the form: the next query is words, too
    explained = page.get("/explain", params={"query": "prime -apprenti", "docno": "F1"})
    check_page(explained, "en")
    assert "“apprenti”: not in this document" in unescape(explained.text)


def test_the_page_says_what_it_could_not_read_and_that_nothing_fulfils_the_conditions(page, folder):
    broken = page.get("/search", params={"query": 'prime "activité'})
    check_page(broken, "en")
    assert "This was searched as words alone: " in broken.text
    assert "3 results" in broken.text
    nothing = page.get("/search", params={"query": "prime -prime"})
    assert "No document fulfils all conditions" in nothing.text
    with page_client(page_settings(folder), "fr") as french:
        shown = french.get("/search", params={"query": "prime SAUF apprenti"})
        check_page(shown, "fr")
        assert "Comment cette recherche a été lue." in shown.text
        for query, told in (
            ('prime "activité', "un guillemet &#34; n’est pas fermé"),
            ("prime ET", "il manque un mot après AND"),
            ("(prime OU -x", "une parenthèse n’est pas fermée"),
            ("prime typ:x -y", "n’est pas une colonne des documents"),
        ):
            assert told in french.get("/search", params={"query": query}).text
        for address in ("/compare?a=bm25&b=bm25", "/document?docno=F1"):
            check_page(french.get(address, params={"query": "prime SAUF apprenti"}), "fr")


def test_a_key_learns_nothing_of_documents_that_it_does_not_see(keyed):
    headers = {"Authorization": "Bearer sees-the-news"}
    reply = keyed.post(
        "/v1/search", json={"query": "prime AND act* -appr* -type:fiche", "syntax": "simple"}, headers=headers
    ).json()
    assert docnos(reply) == ["N1"]
    parts = {part["text"]: part for part in reply["syntax"]["parts"]}
    assert parts["prime"]["documents"] == 1
    assert (parts["appr*"]["terms"], parts["appr*"]["documents"]) == ([], 0)
    assert parts["type:fiche"]["documents"] == 0
    listed = {"query": "-zzz", "syntax": "simple"}
    assert docnos(keyed.post("/v1/search", json=listed, headers=headers).json()) == ["N1"]
    listed["query"] = "docno:F1 OR docno:N1"
    assert docnos(keyed.post("/v1/search", json=listed, headers=headers).json()) == ["N1"]


@pytest.mark.parametrize(
    "query",
    [*HOSTILE, "(" * 1999 + "a", "NOT " * 499 + "a", "a AND " * 300 + "b", '"' * 1999, "pr* OR " * 200 + "a"],
)
def test_hostile_queries_are_answered_in_bounded_time(page, query):
    started = time.process_time()
    check_page(page.get("/search", params={"query": query.strip()}), "en")
    search(page, query, spelling=True)
    assert time.process_time() - started < 5


def test_a_language_that_is_not_sure_is_told(tmp_path):
    folder = make_index(tmp_path / "both", DOCS, analyzer="language(fr=french, en=english)")
    with page_client(page_settings(folder)) as client:
        reply = client.post("/v1/search", json={"query": "relations"}).json()
        assert max(reply["languages"].values()) < 0.9
        shown = client.get("/search", params={"query": "prime relations"})
        check_page(shown, "en")
        assert "The language of this search is not sure" in shown.text
        sure = client.get("/search", params={"query": "comment demander la prime d’activité ?"})
        assert "is not sure" not in sure.text


def test_a_document_leads_to_those_most_like_it(page, keyed):
    shown = page.get("/document", params={"docno": "F1"})
    check_page(shown, "en")
    section = shown.text.split('id="similar"')[1]
    assert "Apprenti" in section
    assert "Annonce" in section
    assert "Prime d’activité" not in section
    assert "#similar" in page.get("/search", params={"query": "prime"}).text
    headers = {"Authorization": "Bearer sees-the-news"}
    assert 'id="similar"' not in keyed.get("/document", params={"docno": "N1"}, headers=headers).text


def test_synonyms_are_read_anew_when_their_file_changes(folder, tmp_path):
    file = tmp_path / "synonyms.txt"
    file.write_text("bonus, prime\n", encoding="utf-8")
    with page_client(page_settings(folder, synonyms=file)) as client:
        found = client.post("/v1/search", json={"query": "bonus"}).json()
        assert len(found["hits"]) == 3
        assert str(file) not in str(found)
        assert "of synonyms(synonyms.txt)" in found["pipeline"]
        assert "3 results" in client.get("/search", params={"query": "bonus"}).text
        file.write_text("autre, chose, mots\n", encoding="utf-8")
        assert not client.post("/v1/search", json={"query": "bonus"}).json()["hits"]
        file.write_text("boni, prime\nle, la, les\n", encoding="utf-8")  # a faulty one is not used
        assert client.post("/v1/search", json={"query": "prime"}).status_code == 200
        reply = client.post("/v1/search", json={"query": "x", "pipeline": f"synonyms(bm25, '{file}')"})
        assert reply.status_code == 422
