"""ANTIQUE, on small files in its format: the real ones may not be passed on."""

from __future__ import annotations

import gzip

import pytest

from telerank.corpus.readers.by_split import ANTIQUE
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Qrel, Query


@pytest.fixture
def small(tmp_path):
    docs = (
        '2020338_0\tA small "group" of politicians\r of old.\n1908421_1\t\n1908421_2\tWhen\tnobody looks.\n'
    )
    (tmp_path / "antique-collection.txt").write_bytes(docs.encode())
    (tmp_path / "antique-train-queries.txt").write_text("3097310\tWhat causes severe swelling?\n")
    (tmp_path / "antique-test-queries.txt").write_text('1908421\tWhat do you mean by "weed"?\n')
    with gzip.open(tmp_path / "antique-train.qrel.gz", "wt") as file:
        file.write("3097310 U0 2020338_0 4\n3097310 Q0 1908421_2 2\n")
    (tmp_path / "antique-test.qrel").write_text("1908421\tE0\t1908421_2\t3\n1908421\tQ0\t1908421_1\t1\n")
    return tmp_path


def test_the_files_become_documents_queries_and_qrels_by_split(small):
    assert ANTIQUE.recognises(small)
    collection = ANTIQUE.read(small, "utf-8")
    assert list(collection.docs()) == [
        Doc("2020338_0", 'A small "group" of politicians\r of old.'),
        Doc("1908421_1", ""),
        Doc("1908421_2", "When\tnobody looks."),
    ]
    assert collection.splits == ("train", "test")
    assert list(collection.split_queries("test")) == [Query("1908421", 'What do you mean by "weed"?')]
    assert list(collection.split_qrels("train")) == [
        Qrel("3097310", "2020338_0", 4),
        Qrel("3097310", "1908421_2", 2),
    ]
    assert [qrel.grade for qrel in collection.split_qrels("test")] == [3, 1]
    assert collection.relevant_from == 3


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("-collection.txt", "no tab", "collection.txt:4: expected 2 columns with a tab between: docno text"),
        ("-test-queries.txt", "a b\ttext", "queries.txt:2: expected a qid that is not empty"),
        ("-test.qrel", "1908421 Q0 2020338_0 5", "expected a grade from 1 to 4 .* query 1908421, got '5'"),
        ("-test.qrel", "1908421 Q0 2020338_0 0", "expected a grade from 1 to 4 .* query 1908421, got '0'"),
        ("-test.qrel", "1908421 Q0 2020338_0", "antique-test.qrel:3: expected 4 columns"),
    ],
)
def test_a_line_that_does_not_follow_the_format_is_named(small, file, line, message):
    with (small / f"antique{file}").open("a") as opened:
        opened.write(line + "\n")
    collection = ANTIQUE.read(small, "utf-8")
    with pytest.raises(FormatError, match=message):
        [*collection.docs(), *collection.split_queries("test"), *collection.split_qrels("test")]


def test_a_folder_without_the_collection_file_is_not_antique(tmp_path):
    assert not ANTIQUE.recognises(tmp_path)
    with pytest.raises(CollectionError, match=r"antique-collection\.txt"):
        ANTIQUE.read(tmp_path, "utf-8")
