from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection
from telerank.errors import FormatError
from telerank.types import Doc, Qrel, Query

SAMPLE = Path(__file__).parent / "samples" / "lisa"
REFS = "Query 1\n2 Relevant Refs:\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE, tmp_path / "lisa")
    return tmp_path / "lisa"


def test_documents_queries_and_judgments_are_read():
    collection = open_collection(SAMPLE)
    assert (collection.format, collection.unread) == ("lisa", ("LISARJ.NUM",))
    assert list(collection.docs()) == [
        Doc("1", "DESCRIBES A CATALOGUE ON CARDS.", "THE SMALL LIBRARY AND ITS CATALOGUE."),
        Doc("2", "BOOKS ARE SENT TO READERS WHO LIVE FAR AWAY.", "READERS BY POST."),
    ]
    assert list(collection.split_queries()) == [
        Query("1", "I AM INTERESTED IN CATALOGUES ON CARDS. CARDS, CATALOGUES."),
        Query("2", "BOOKS SENT BY POST."),
    ]
    assert list(collection.split_qrels()) == [Qrel("1", "1", 1), Qrel("2", "2", 1)]


def test_several_files_are_one_collection_and_columns_serve_alone(folder):
    (folder / "LISA0.002").write_text("Document  3\nTHIRD.\n   \nTEXT\n" + "*" * 44 + "\n")
    (folder / "LISA.REL").unlink()
    (folder / "LISARJ.NUM").write_text("   1   3   1   2\n       3\n   2   0\n   3   1   2\n")
    collection = open_collection(folder)
    assert [doc.docno for doc in collection.docs()] == ["1", "2", "3"]
    assert list(collection.split_qrels()) == [
        *(Qrel("1", docno, 1) for docno in "123"),
        Qrel("3", "2", 1),
    ]


def test_files_are_told_by_their_content(folder):
    for name, other in (("LISA0.001", "lisa.all.txt"), ("LISA.QUE", "lisa.queries.txt")):
        (folder / name).rename(folder / other)
    (folder / "LISA.REL").unlink()
    (folder / "LISARJ.NUM").unlink()
    (folder / "lisa.relevance.txt").write_text("1\n2\n1 2 \n\n2\n1\n2\n")
    (folder / "README.txt").write_text("This folder contains the LISA collection\n")
    collection = open_collection(folder)
    assert (collection.format, collection.unread) == ("lisa", ())
    assert [doc.docno for doc in collection.docs()] == ["1", "2"]
    assert list(collection.split_queries())[1] == Query("2", "BOOKS SENT BY POST.")
    assert list(collection.split_qrels()) == [Qrel("1", "1", 1), Qrel("1", "2", 1), Qrel("2", "2", 1)]


def test_the_format_chooses_among_judgments_and_qrels_of_trec_are_none_in_numbers(folder):
    (folder / "LISARJ.NUM").write_text("1 1 2\n")
    collection = open_collection(folder, format="lisa(judgments=LISARJ.NUM)")
    assert (collection.unread, list(collection.split_qrels())) == (("LISA.REL",), [Qrel("1", "2", 1)])
    (folder / "LISA.REL").unlink()
    (folder / "qrels.txt").write_text("1 0 12 1\n")
    collection = open_collection(folder)
    assert (collection.unread, list(collection.split_qrels())) == (("qrels.txt",), [Qrel("1", "2", 1)])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("LISA0.001", "Document 1\nA\n", "LISA0.001:1: expected a line of asterisks"),
        ("LISA0.001", f"Document 1\nA\n{'*' * 20}\nlost\n", "LISA0.001:4: expected Document and a number"),
        ("LISA.QUE", "1\nA\n", "LISA.QUE: expected # at the end of query 1"),
        ("LISA.QUE", "lost #\n", "LISA.QUE:1: expected the number of a query"),
        ("LISA.REL", f"{REFS}1 -1\n", "LISA.REL:3: expected 2 docnos of query 1, got '1'"),
        ("LISA.REL", f"{REFS}1\n".replace("2 R", "1 R"), "LISA.REL: expected -1 after"),
        ("LISA.REL", "lost\n", "LISA.REL:1: expected Query, Relevant Refs"),
        ("LISARJ.NUM", "1 2 1\n", "LISARJ.NUM: expected 2 docnos of query 1, got '1'"),
        ("LISARJ.NUM", "1 1 2 3\n", "LISARJ.NUM:1: expected 1 docnos of query 1, got '2 3'"),
        (
            "LISARJ.NUM",
            "1\n2 1 2\nx 1 2\n",
            "NUM:3: expected query, number of documents, docnos, got 'x 1 2'",
        ),
    ],
)
def test_a_mistake_is_named(folder, file, content, message):
    if file == "LISARJ.NUM":
        (folder / "LISA.REL").unlink()
    (folder / file).write_text(content)
    collection = open_collection(folder)
    with pytest.raises(FormatError, match=message):
        list(collection.docs()) + list(collection.split_queries()) + list(collection.split_qrels())
