from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.corpus.readers.squad import SQUAD, locate_answer, read_squad
from telerank.errors import FormatError
from telerank.types import Answer, Doc, Qrel, Query


def question(qid="q1", text="Where is it?", answers=(("Paris", 6),), **more):
    spans = [{"text": answer, "answer_start": start} for answer, start in answers]
    return {"id": qid, "question": text, "answers": spans, **more}


def article(*paragraphs, title="Towers"):
    return {"title": title, "paragraphs": [{"context": text, "qas": list(qas)} for text, qas in paragraphs]}


def written(folder: Path, *articles, name="set.json") -> Path:
    path = folder / name
    text = json.dumps({"version": "1.1", "data": list(articles)})
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


FACTS = {
    "piaf": ("all", "piaf-v1.1.json.gz", 1518, 7569, 7569, 9572, {"exact": 9571, "moved": 1}),
    "fquad": ("valid", "valid.json.gz", 768, 3188, 3188, 3188, {"exact": 3188}),
    "covid-qa": (
        "all", "200423_covidQA.json.gz", 98, 1380, 1380, 1380, {"exact": 1146, "moved": 227, "nearest": 7},
    ),
    "squad2-dev-half": ("dev", "dev-v2.0.json.gz", 646, 6078, 2910, 10052, {"exact": 10052, "unanswerable": 3168}),
    "xquad-en": ("all", "xquad.en.json.gz", 240, 1190, 1190, 1190, {"exact": 1190}),
}  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", FACTS)
def test_a_real_set_has_the_counts_of_its_makers_and_answers_begin_where_they_say(data, name):
    split, file, docs, queries, qrels, answers, notes = FACTS[name]
    for path in (data / name, data / name / file):
        assert SQUAD.recognises(path)
        collection = SQUAD.read(path, "utf-8")
        assert collection.splits == (split,)
        texts = {doc.docno: doc.text for doc in collection.docs()}
        assert len(texts) == docs
        assert len(list(collection.split_queries())) == queries
        assert len(list(collection.split_qrels())) == qrels
        spans = list(collection.answers[split]())
        assert len(spans) == answers
        assert all(texts[one.docno][one.start : one.end] == one.text for one in spans)
        known = {key: count for key, count in collection.notes().items() if count}
        rest = {"articles": known["articles"], "paragraphs": docs, "questions": queries, "answers": answers}
        assert known == rest | notes


@pytest.mark.data
def test_the_first_and_the_last_record_of_piaf_and_the_numbers_of_covid_qa(data):
    piaf = read_squad(data / "piaf" / "piaf-v1.1.json.gz")
    docs, queries = list(piaf.docs.values()), list(piaf.queries.values())
    assert docs[0].docno == "0-0"
    assert docs[0].title == "Sport"
    assert docs[0].text.startswith("Les dépenses des ménages représentent plus de 50 %")
    assert queries[0] == Query("p140295443291664", "Combien de personnes travaillent au ministère des sports")
    assert piaf.answers[0] == Answer("p140295443291664", "0-0", "100 000", 472)
    assert queries[-1].qid == piaf.answers[-1].qid
    assert piaf.paragraphs[queries[-1].qid] == docs[-1].docno == "479-1"
    moved = next(one for one in piaf.answers if one.qid == "p140295202893328")
    assert (moved.text, moved.start) == ("sa voiture entre en collision avec un train", 89)
    covid = read_squad(data / "covid-qa" / "200423_covidQA.json.gz")
    assert all(isinstance(query.qid, str) and query.qid.isdecimal() for query in covid.queries.values())
    assert next(iter(covid.docs.values())).title == ""


def test_a_file_becomes_documents_queries_qrels_and_answers(tmp_path):
    path = written(
        tmp_path,
        article(("It is Paris.", [question()])),
        article(("Rome.", [question("q2", "And this?", [("Rome", 0)])]), title="Fountains"),
    )
    qa = read_squad(path)
    assert list(qa.docs.values()) == [Doc("0-0", "It is Paris.", "Towers"), Doc("1-0", "Rome.", "Fountains")]
    assert list(qa.queries.values()) == [Query("q1", "Where is it?"), Query("q2", "And this?")]
    assert list(qa.qrels) == [Qrel("q1", "0-0", 1), Qrel("q2", "1-0", 1)]
    assert qa.answers == [Answer("q1", "0-0", "Paris", 6), Answer("q2", "1-0", "Rome", 0)]
    counts = {name: count for name, count in qa.tally.items() if count}
    assert counts == {"articles": 2, "paragraphs": 2, "questions": 2, "answers": 2, "exact": 2}


def test_what_stands_twice_is_one_paragraph_or_one_question_with_the_answers_of_both(tmp_path):
    again = question(answers=[("It", 0)])
    path = written(
        tmp_path,
        article(("It is Paris.", [question(), again]), ("Else.", []), ("It is Paris.", [question("q2")])),
    )
    qa = read_squad(path)
    assert [doc.docno for doc in qa.docs.values()] == ["0-0", "0-1"]
    assert qa.paragraphs == {"q1": "0-0", "q2": "0-0"}
    assert [(answer.qid, answer.text) for answer in qa.answers] == [
        ("q1", "Paris"),
        ("q1", "It"),
        ("q2", "Paris"),
    ]
    assert (qa.tally["merged_paragraphs"], qa.tally["merged_questions"]) == (1, 1)


def test_an_unanswerable_question_has_no_qrel_and_one_whose_answers_are_hidden_has_its_paragraph(tmp_path):
    plausible = [{"text": "It", "answer_start": 0}]
    impossible = question("q2", answers=(), is_impossible=True, plausible_answers=plausible)
    hidden = {"id": "q3", "question": "Where is it?"}
    qa = read_squad(written(tmp_path, article(("It is Paris.", [question(), impossible, hidden]))))
    assert list(qa.queries) == ["q1", "q2", "q3"]
    assert list(qa.qrels) == [Qrel("q1", "0-0", 1), Qrel("q3", "0-0", 1)]
    assert qa.unanswerable == {"q2"}
    assert qa.paragraphs["q2"] == "0-0"
    assert [answer.qid for answer in qa.answers] == ["q1"]


def test_an_answer_that_stands_nowhere_is_listed_not_dropped(tmp_path):
    qa = read_squad(written(tmp_path, article(("It is Paris.", [question(answers=[("Rome", 6), (" ", 2)])]))))
    assert qa.answers == []
    assert qa.unlocated == [Answer("q1", "0-0", "Rome", 6), Answer("q1", "0-0", " ", 2)]
    assert qa.tally["absent"] == 2
    assert list(qa.qrels) == [Qrel("q1", "0-0", 1)]


def test_an_answer_moves_to_the_nearest_place_of_its_text():
    exact, nearest = {3: 3, 10: 10}, {4: 3, 9: 10, -1: 3, 99: 10}
    for how, starts in (("exact", exact), ("nearest", nearest)):
        for stated, start in starts.items():
            assert locate_answer("xx ab xxxxab", "ab", stated) == (start, how)
    assert locate_answer("ab..ab", "ab", 2) == (0, "nearest")  # between two, the earlier
    assert locate_answer("..ab", "ab", 0) == (2, "moved")


@given(st.text("ab ", max_size=12), st.text("ab ", max_size=4), st.integers(-3, 15))
def test_a_placed_answer_begins_where_its_place_says(text, answer, stated):
    start, how = locate_answer(text, answer, stated)
    if how == "absent":
        assert start == stated
        assert not answer.strip() or answer not in text
    else:
        assert text[start : start + len(answer)] == answer
        assert (how == "exact") == (start == stated)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda q: q.pop("question"), r"expected a string as 'question' of data\[0\].paragraphs\[0\].qas\[0\], got 'nothing'"),
        (lambda q: q.update(id="a b"), "question id that is not empty and has no blank"),
        (lambda q: q.update(id=True), "a string as 'id'|a whole number as 'id'"),
        (lambda q: q.update(answers="Paris"), "a list as 'answers'"),
        (lambda q: q["answers"][0].update(answer_start="6"), r"a whole number as 'answer_start' of .*answers\[0\]"),
        (lambda q: q["answers"].append("Paris"), "an object as"),
        (lambda q: q.update(is_impossible=True), "which is marked is_impossible"),
    ],
)  # fmt: skip
def test_a_field_that_is_not_as_expected_is_named_with_its_place(tmp_path, spoil, message):
    spoiled = question()
    spoil(spoiled)
    with pytest.raises(FormatError, match=message):
        read_squad(written(tmp_path, article(("It is Paris.", [spoiled]))))


def test_an_id_of_two_questions_and_what_is_not_json_are_named_with_their_place(tmp_path):
    twice = written(tmp_path, article(("It is Paris.", [question(), question(text="What?")])))
    with pytest.raises(FormatError, match=r"data\[0\]\.paragraphs\[0\]\.qas\[1\].*'q1'"):
        read_squad(twice)
    half = written(tmp_path, article(("It is \ud83d Paris.", [question()])))
    with pytest.raises(FormatError, match=r"half of a surrogate pair, U\+D83D"):
        read_squad(half)
    half.write_text('{"data": [\n{"paragraphs": [}]}')
    with pytest.raises(FormatError, match=r"set\.json:2: expected JSON"):
        read_squad(half)
    whole = read_squad(written(tmp_path, article(("😀 Paris.", [question(answers=[("Paris", 2)])]))))
    assert whole.tally["exact"] == 1


def test_a_folder_has_a_split_for_each_file_and_tells_docnos_apart(tmp_path):
    written(tmp_path, article(("It is Paris.", [question()])), name="train-v1.1.json")
    written(tmp_path, article(("Rome.", [question("q2", answers=[("Rome", 0)])])), name="dev-v1.1.json.gz")
    (tmp_path / "licence.json").write_text('{"licence": "none"}')
    collection = SQUAD.read(tmp_path, "utf-8")
    assert sorted(collection.splits) == ["dev", "train"]
    assert [doc.docno for doc in collection.docs()] == ["dev-0-0", "train-0-0"]
    assert list(collection.split_qrels("train")) == [Qrel("q1", "train-0-0", 1)]
    assert collection.notes()["questions"] == 2
    same = tmp_path / "same"  # splits of files that name the same are told apart by the files' names
    same.mkdir()
    for name in ("xquad.de.json", "xquad.en.json"):
        written(same, article(("It is Paris.", [question()])), name=name)
    assert SQUAD.read(same, "utf-8").splits == ("xquad.de", "xquad.en")
    other = tmp_path / "other" / "other.json"
    other.parent.mkdir()
    other.write_text('{"data": [{"text": "paragraphs"}]}')
    assert not any(map(SQUAD.recognises, (other, other.parent)))
