from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection
from telerank.errors import FormatError
from telerank.types import Doc, Qrel, Query

SAMPLES = Path(__file__).parent / "samples"
PAIRS = "<QApairs id='1'>\n"


def test_wikiqa_keeps_questions_without_a_right_sentence_and_does_not_read_the_sum_of_its_splits(tmp_path):
    for name in ("WikiQA-test.tsv", "WikiQA.tsv"):
        shutil.copy(SAMPLES / "wikiqa" / "WikiQA-test.tsv", tmp_path / name)
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits, collection.unread) == ("wikiqa", ("test",), ("WikiQA.tsv",))
    assert next(collection.docs()) == Doc("D1-0", "The lake is 90 metres deep .", "A Lake")
    assert [query.qid for query in collection.split_queries()] == ["Q1", "Q2"]
    assert list(collection.split_qrels()) == [
        Qrel("Q1", "D1-0", 1),
        Qrel("Q1", "D1-1", 0),
        Qrel("Q2", "D2-0", 0),
    ]
    assert collection.notes() == {"questions_without_answer": 1}
    pools = [ranking.docnos for ranking in collection.pools["test/candidates"]()]
    assert pools == [("D1-0", "D1-1"), ("D2-0",)]


def test_parallel_files_are_numbered_by_line_and_their_folders_are_splits(tmp_path):
    collection = open_collection(SAMPLES / "castorini")
    assert (collection.format, collection.splits) == ("parallel", ("all",))
    assert list(collection.docs())[2] == Doc("3", "the bridge is made of stone .")
    assert next(collection.split_queries()) == Query("1", "how deep is the lake")
    assert list(collection.split_qrels()) == [Qrel("1", "1", 1), Qrel("1", "2", 0), Qrel("2", "3", 0)]
    for split in ("train", "test"):
        shutil.copytree(SAMPLES / "castorini", tmp_path / split)
    collection = open_collection(tmp_path)
    assert collection.splits == ("test", "train")
    docnos = [f"{split}-{n}" for split in ("test", "train") for n in (1, 2, 3)]
    assert [doc.docno for doc in collection.docs()] == docnos
    (tmp_path / "train" / "sim.txt").write_text("1\n0\n")
    with pytest.raises(FormatError, match=r"sim.txt:3: expected as many lines as the longest"):
        list(open_collection(tmp_path / "train").docs())


def test_trecqa_takes_the_first_line_of_each_element(tmp_path):
    collection = open_collection(SAMPLES / "trecqa")
    assert (collection.format, collection.splits) == ("trecqa", ("test",))
    docs = [Doc("1-0", "The play was written by Doe ."), Doc("1-1", "The play has five acts .")]
    assert list(collection.docs()) == docs
    assert list(collection.split_queries()) == [Query("1", "Who wrote the play ?")]
    assert list(collection.split_qrels()) == [Qrel("1", "1-0", 1), Qrel("1", "1-1", 0)]
    text = (SAMPLES / "trecqa" / "TEST.xml").read_text()
    more = text.replace("</positive>", "0\t1\t2\nPERSON\t-\n</positive>")
    (tmp_path / "TRAIN.xml").write_text(more)
    assert list(open_collection(tmp_path / "TRAIN.xml").docs()) == docs


def test_selqa_is_read_from_json_and_from_tsv_and_from_json_if_both_are_there():
    for file in ("selqa-ass-dev.json", "selqa-ass-dev.tsv"):
        collection = open_collection(SAMPLES / "selqa" / file)
        assert collection.format == "selqa"
        assert list(collection.split_qrels()) == [Qrel("1", "1-0", 0), Qrel("1", "1-1", 1)]
        assert len(list(collection.split_queries())) == 1
    collection = open_collection(SAMPLES / "selqa")
    assert (collection.splits, collection.unread) == (("dev",), ("selqa-ass-dev.tsv",))
    assert next(collection.split_queries()).text == "How deep is the lake?"


def selqa(**fields: object) -> str:
    return json.dumps([{"question": "q", "candidates": ["a", "b"], "answers": [1], **fields}])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("s.json", selqa(answers=[2]), "answers of item 1 that are positions of its candidates, got '2'"),
        ("s.json", selqa(answers=[True]), "positions of its candidates, got 'true'"),
        ("s.json", selqa(candidates="a"), "a question with candidates and answers as item 1"),
        ("s.tsv", "q ?\ta b .\t0\nq ?\ta\n", r"s.tsv:2: expected 3 columns"),
        ("s.xml", f"{PAIRS}<question>\na\n", "expected </QApairs> of 1 before the file ends"),
        ("s.xml", f"{PAIRS}lost\n", "s.xml:2: expected <question>"),
        (
            "s.xml",
            f"{PAIRS}<question>\n</question>\n</QApairs>\n",
            "s.xml:2: expected a line of text in <ques",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(FormatError, match=message):
        list(open_collection(tmp_path / file).docs())


def test_a_question_in_two_pieces_is_refused(tmp_path):
    lines = (SAMPLES / "wikiqa" / "WikiQA-test.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "WikiQA-dev.tsv").write_text("".join((*lines[:2], lines[3], lines[2])))
    with pytest.raises(FormatError, match="query Q1 once, with its candidates together"):
        list(open_collection(tmp_path).docs())
