"""Long documents out of question-answering sets: spans move with their paragraphs, folds are by article."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from telerank.corpus.answers import read_answers, write_answers
from telerank.corpus.derived.articles import ArticleSettings, join_articles, leave_out_repeated
from telerank.corpus.formats import open_collection
from telerank.corpus.lengths import (
    RelevantPosition,
    find_positions,
    share_beyond,
    tokenizer_spans,
    word_spans,
)
from telerank.corpus.writing import MANIFEST, check_target, write_long_documents
from telerank.errors import CollectionError, FormatError
from telerank.types import Answer
from telerank.verbs.data import collection_statistics


def article(title: str, *paragraphs: tuple[str, ...]) -> dict:
    """A SQuAD article; a paragraph is its text, and the words that are asked for (``?x`` cannot be answered)."""

    def question(text: str, word: str) -> dict:
        return {
            "id": f"{title}-{word}".replace(" ", "_"),
            "question": f"where is {word} of {title}",
            "answers": [] if word[0] == "?" else [{"text": word, "answer_start": text.index(word)}],
            "is_impossible": word[0] == "?",
        }

    return {
        "title": title,
        "paragraphs": [
            {"context": text, "qas": [question(text, word) for word in asked]} for text, *asked in paragraphs
        ],
    }


def squad(path: Path, *articles: dict) -> Path:
    path.mkdir()
    (path / "dev.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    return path


@pytest.fixture
def towns(tmp_path):
    """Twelve articles of two paragraphs."""
    return squad(
        tmp_path / "towns",
        *(
            article(
                f"Town_{n}",
                (f"first paragraph of town {n} beside river{n}", f"river{n}"),
                (f"the second is about church{n} and ?", f"church{n}", f"?{n}"),
            )
            for n in range(12)
        ),
    )


def write(folder: Path, *sets: Path, **settings):
    documents = join_articles([open_collection(path) for path in sets], ArticleSettings(**settings))
    return write_long_documents(folder, documents)


def test_paragraphs_are_joined_and_answers_move_with_them(towns, tmp_path):
    write(tmp_path / "long", towns, folds=1)
    collection = open_collection(tmp_path / "long")
    docs = {doc.docno: doc for doc in collection.docs()}
    assert len(docs) == 12
    first = docs["towns-0"]
    assert first.text == "first paragraph of town 0 beside river0\n\nthe second is about church0 and ?"
    assert first.title == "Town 0"
    answers = {answer.text: answer for answer in collection.answers["all"]()}
    assert answers["church0"].start == first.text.index("church0") > len("first paragraph of town 0")
    for answer in answers.values():
        assert docs[answer.docno].text[answer.start : answer.end] == answer.text
    assert collection.unread == ()


def test_a_fold_has_articles_of_its_own_and_all_questions_that_have_an_answer(towns, tmp_path):
    written = write(tmp_path / "long", towns, folds=3)
    collection = open_collection(tmp_path / "long")
    assert collection.splits == ("fold1", "fold2", "fold3")
    articles = [{qrel.docno for qrel in collection.split_qrels(split)} for split in collection.splits]
    assert [len(own) for own in articles] == [4, 4, 4]
    assert len(set().union(*articles)) == 12
    assert sum(counts["queries"] for counts in written.counts.values()) == 24
    assert written.manifest["left_out"]["questions_without_answer"] == 12
    for split in collection.splits:
        asked = {query.qid for query in collection.split_queries(split)}
        assert asked == {answer.qid for answer in collection.answers[split]()}


def test_the_same_seed_gives_the_same_bytes_and_another_other_folds(towns, tmp_path):
    content = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, towns, folds=3, seed=seed)
        files = [file for file in (tmp_path / name).rglob("*") if file.is_file()]
        content.append({file.relative_to(tmp_path / name): file.read_bytes() for file in files})
    assert content[0] == content[1]
    assert content[0] != content[2]


def test_short_articles_are_joined_in_their_order_with_their_titles_and_questions(towns, tmp_path):
    """Each town has 14 words: two are too few, and the last one of twelve is not left alone."""
    long = squad(tmp_path / "long-towns", article("Long", (f"word {'word ' * 50}here", "here")))
    written = write(tmp_path / "long", towns, long, least_words=30, folds=1)
    assert written.manifest["documents"] == {"relevant": 5}
    assert written.manifest["joined"] == {"short_articles": 12, "documents": 4}
    collection = open_collection(tmp_path / "long")
    docs = {doc.docno: doc for doc in collection.docs()}
    assert [*docs] == ["towns-0", "towns-3", "towns-6", "towns-9", "long-towns-0"]
    assert docs["towns-3"].title == "Town 3; Town 4; Town 5"
    assert all(len(doc.text.split()) > 30 for doc in docs.values())
    answers = [*collection.answers["all"]()]
    assert len(answers) == 24 + 1
    for answer in answers:
        assert docs[answer.docno].text[answer.start : answer.end] == answer.text
    assert {answer.docno for answer in answers if answer.text in ("river4", "church5")} == {"towns-3"}


def test_short_articles_that_are_left_over_join_the_last_document_of_such(towns, tmp_path):
    write(tmp_path / "long", towns, least_words=60, folds=1)  # five towns have 70 words
    docs = [*open_collection(tmp_path / "long").docs()]
    assert [doc.docno for doc in docs] == ["towns-0", "towns-5"]
    assert len(docs[1].text.split()) == 7 * 14
    with pytest.raises(
        CollectionError, match=r"12 articles of at most 200 words have 168 together: .* below 168"
    ):
        join_articles([open_collection(towns)], ArticleSettings(least_words=200))


def test_no_property_tells_which_of_the_joined_documents_are_relevant(tmp_path):
    """Until short articles were joined, nobody asked about them: the length said what is relevant."""
    rng, sets = random.Random(2), []
    for n in range(60):
        words = [f"w{n}x{m}" for m in range(rng.choice((8, 30)))]
        sets.append(article(f"Town {n}", (" ".join(words), words[3], words[5])))
    towns = squad(tmp_path / "towns", *sets)
    write(tmp_path / "long", towns, least_words=20)
    found = collection_statistics(tmp_path / "long").confounds
    assert found.others == 0
    assert found.warnings() == []
    distractors = squad(
        tmp_path / "alone",
        *({**one, "paragraphs": [asked_if_long(p) for p in one["paragraphs"]]} for one in sets),
    )
    write(tmp_path / "old", distractors, folds=1)
    (warning,) = collection_statistics(tmp_path / "old").remarks
    assert "the length of the text alone orders 100 % (documents)" in warning


def asked_if_long(paragraph: dict) -> dict:
    return paragraph if len(paragraph["context"].split()) > 20 else {**paragraph, "qas": []}


def test_an_article_of_an_earlier_set_is_left_out_with_its_questions(towns, tmp_path):
    other = squad(
        tmp_path / "other",
        article("town 3", ("another text about mill3", "mill3")),
        article("Village", ("the village has a pond", "pond")),
        article("", ("without a title there is a bridge", "bridge")),
        article("", ("nor has this tower one", "tower")),
    )
    kept, repeated = leave_out_repeated([open_collection(towns), open_collection(other)])
    assert repeated == 1
    assert [doc.docno for doc in kept[1].docs()] == ["1-0", "2-0", "3-0"]
    assert {query.text for query in kept[1].split_queries()} == {
        "where is pond of Village",
        "where is bridge of ",
        "where is tower of ",
    }
    written = write(tmp_path / "long", towns, other, folds=1)
    assert written.manifest["left_out"]["articles_of_an_earlier_set"] == 1
    assert "mill3" not in (tmp_path / "long" / "corpus.jsonl").read_text(encoding="utf-8")


def test_articles_that_cannot_be_joined_are_refused(towns, tmp_path):
    with pytest.raises(CollectionError, match="12 documents with questions cannot be dealt into 13 parts"):
        join_articles([open_collection(towns)], ArticleSettings(folds=13))
    for settings in ({"least_words": -1}, {"folds": 0}):
        with pytest.raises(ValueError, match="least_words from 0 on and folds from 1 on"):
            ArticleSettings(**settings)
    write(tmp_path / "long", towns)
    with pytest.raises(CollectionError, match="long is of the format beir: only squad has articles"):
        join_articles([open_collection(tmp_path / "long")], ArticleSettings())
    with pytest.raises(CollectionError, match="already exists"):
        check_target(tmp_path / "long")
    check_target(tmp_path / "long", overwrite=True)
    with pytest.raises(CollectionError, match="no long documents made by telerank"):
        check_target(towns, overwrite=True)
    assert (tmp_path / "long" / MANIFEST).is_file()


def test_answers_that_no_document_has_are_refused(towns, tmp_path):
    write(tmp_path / "long", towns, folds=1)
    file = tmp_path / "long" / "answers" / "all.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"river3"', '"rover3"'), encoding="utf-8")
    with pytest.raises(CollectionError, match=r"'towns-3' does not have the answer of query .*: 'rover3'"):
        list(find_positions(open_collection(tmp_path / "long")))
    write_answers(file, [Answer("q", "nowhere", "x", 0)])
    with pytest.raises(CollectionError, match="has answers in 'nowhere', but no such document"):
        list(find_positions(open_collection(tmp_path / "long")))
    with pytest.raises(CollectionError, match="has no answers in all"):
        list(find_positions(open_collection(towns), ["all"]))


def test_positions_are_counted_in_tokens_up_to_the_answer_that_ends_first(towns, tmp_path):
    write(tmp_path / "long", towns, folds=1)
    (position, *_) = sorted(find_positions(open_collection(tmp_path / "long")), key=lambda one: one.docno)
    assert position == RelevantPosition("towns-Town_0-river0", "towns-0", before=6, end=7, length=14)
    answers = list(read_answers(tmp_path / "long" / "answers" / "all.jsonl"))
    later = next(answer for answer in answers if answer.text == "church0")
    both = [*answers, Answer("towns-Town_0-river0", "towns-0", later.text, later.start)]
    write_answers(tmp_path / "long" / "answers" / "all.jsonl", both)
    again = list(find_positions(open_collection(tmp_path / "long")))
    assert position in again
    assert len(again) == 24


def test_the_share_beyond_a_limit_is_of_pairs_whose_text_does_not_end_before_it():
    positions = [RelevantPosition("q", str(end), end - 2, end, 900) for end in (10, 512, 513, 800)]
    assert share_beyond(positions, [9, 10, 512, 800]) == {9: 1.0, 10: 0.75, 512: 0.5, 800: 0.0}
    assert share_beyond([], [9])[9] != share_beyond([], [9])[9]
    assert word_spans("a bc-def\n\ng") == [(0, 1), (2, 8), (10, 11)]


def test_tokens_of_a_tokenizer_are_counted_as_the_model_reads_them(tmp_path):
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, ".": 2}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.enable_truncation(2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert tokenizer_spans(path)("a b. a") == [(0, 1), (2, 3), (3, 4), (5, 6)]
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match=r"a tokenizer\.json"):
        tokenizer_spans(tmp_path)


def test_answers_are_read_as_they_were_written_and_a_line_that_is_none_is_named(tmp_path):
    answers = [Answer("q1", "d1", "l'été", 7), Answer("q1", "d1", 'a "b"\n', 0)]
    write_answers(tmp_path / "answers.jsonl.gz", answers)
    assert list(read_answers(tmp_path / "answers.jsonl.gz")) == answers
    good = {"query-id": "q", "corpus-id": "d", "text": "x", "start": 0}
    for wrong in ({"start": None}, {"text": ""}, {"start": -1}, {"start": True}, {"query-id": 1}):
        record = {name: value for name, value in {**good, **wrong}.items() if value is not None}
        (tmp_path / "answers.jsonl").write_text(f"\n{json.dumps(record)}\n")
        with pytest.raises(FormatError, match=r"answers\.jsonl.*2.*query-id, corpus-id, text and start"):
            list(read_answers(tmp_path / "answers.jsonl"))


@pytest.mark.data
def test_the_english_pool_has_each_article_once_and_the_french_joins_short_ones(data, tmp_path):
    sets = [data / name for name in ("covid-qa", "squad2-dev-half", "xquad-en")]
    written = write(tmp_path / "english", *sets)
    assert written.manifest["documents"] == {"relevant": 146}
    assert written.manifest["left_out"]["articles_of_an_earlier_set"] == 16
    offsets = {"answers": 12_622, "exact": 12_388, "moved": 227, "nearest": 7, "absent": 0}
    assert written.manifest["offsets"] == offsets
    assert sum(counts["queries"] for counts in written.counts.values()) == 5_097
    written = write(tmp_path / "french", data / "fquad", data / "piaf", least_words=400)
    assert written.manifest["documents"] == {"relevant": 18 + 149 + 114}
    assert written.manifest["joined"] == {"short_articles": 331, "documents": 114}
    assert [counts["queries"] for counts in written.counts.values()] == [2136, 2135, 2143, 2174, 2159]
