from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError, TelerankError
from telerank.trec import read_qrels, read_topics
from telerank.types import Doc, Qrel, Query

SAMPLES = Path(__file__).parent / "samples"
QRELS = [Qrel("1", "2", 1), Qrel("2", "1", 1)]


def changed(tmp_path: Path, name: str, **files: str) -> Path:
    """A copy of a sample in which some files (their names with _ for a full stop) have other content."""
    folder = tmp_path / name
    shutil.copytree(SAMPLES / name, folder)
    for file, content in files.items():
        (folder / file.replace("_", ".")).write_text(content)
    return folder


def test_cranfield_counts_queries_by_position_and_its_best_grade_is_1():
    collection = open_collection(SAMPLES / "smart-cranfield")
    assert (collection.format, collection.splits) == ("smart", ("all",))
    docs = list(collection.docs())
    assert [doc.docno for doc in docs] == ["1", "2", "3"]
    assert docs[0].title == "lift of a slender wing at high incidence ."
    assert docs[2] == Doc("3", "", "notes on panel flutter .")
    assert [query.qid for query in collection.split_queries()] == ["1", "2"]
    assert list(collection.split_qrels()) == [Qrel("1", "1", 3), Qrel("1", "3", 0), Qrel("2", "2", 2)]
    assert collection.notes()["documents_with_fields_left_out"] == 2


@pytest.mark.parametrize(
    "judgments", ["", "1 0 2 1\n2 0 1 1\n", "1\t2\t1\n2\t1\t1\n", "1 2 0 0\n02 01 0 0.000\n"]
)
def test_adi_has_windows_line_ends_and_judgments_of_several_layouts(tmp_path, judgments):
    collection = open_collection(
        changed(tmp_path, "smart-adi", **({"ADI_REL": judgments} if judgments else {}))
    )
    assert list(collection.docs())[1] == Doc("2", "titles are drawn from abstracts.", "automatic titles")
    assert list(collection.split_queries()) == [
        Query("1", "How are titles made?"),
        Query("2", "Where are reports kept?"),
    ]
    assert list(collection.split_qrels()) == QRELS


def test_cacm_has_leading_zeros_documents_without_text_and_files_beside(tmp_path):
    folder = changed(tmp_path, "smart-cacm", common_words="a\nthe\n", README="CACM")
    (folder / "common.words").rename(folder / "common_words")
    collection = open_collection(folder)
    assert collection.unread == ("common_words",)
    assert list(collection.docs()) == [
        Doc("1", "", "A Language for Lists"),
        Doc("2", "Tapes are merged in two passes.", "Sorting on Tapes"),
    ]
    queries = ["What is written on sorting with tapes?", "Articles by Doe"]
    assert [query.text for query in collection.split_queries()] == queries
    assert list(collection.split_qrels()) == QRELS


def test_lines_before_the_first_document_are_skipped_and_a_wrong_number_is_replaced_by_the_position(tmp_path):
    numbers = ("1", "2", "2", "4", "5")
    documents = ".X\n" + "".join(f".I {number}\n.T\ntitle {number}\n" for number in numbers)
    collection = open_collection(changed(tmp_path, "smart-adi", ADI_ALL=documents))
    docs = [Doc(str(row + 1), "", f"title {number}") for row, number in enumerate(numbers)]
    assert list(collection.docs()) == docs
    assert collection.notes()["documents_renumbered"] == 1


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("ADI_ALL", ".I 1\n.T\na\n.I 1\n.T\nb\n", r"ADI.ALL:4: expected a number after .I that no other"),
        ("ADI_ALL", ".I 1\n.T\na\n.I x\n.T\nb\n", r"ADI.ALL:4: expected a number after .I .* got 'x'"),
        ("ADI_ALL", ".I 1\n.T\na\n.Q\nb\n", r"ADI.ALL:4: expected a field of .T .A .W"),
        ("ADI_ALL", ".I 1\nlost\n.T\na\n", r"ADI.ALL:2: expected a field"),
        ("ADI_QRY", ".I 1\n.W\na\n.I 01\n.W\nb\n", r"ADI.QRY:4: expected a number .* no other query"),
        ("ADI_QRY", ".I 1\n.A\na\n", r"ADI.QRY:1: .* a text after .W"),
        ("ADI_REL", "1 2 0 0\n1 2 3 4 5\n", r"ADI.REL:2: expected query and document, then two zeros"),
        ("ADI_REL", "1 2 3\n1 2 7\n", r"ADI.REL:2: expected a grade from -1 to 4, got '7'"),
        ("ADI_REL", "1 2 0 0\n9 2 0 0\n", r"expected numbers or positions of the 2 queries, got '9'"),
    ],
)
def test_a_mistake_is_named_by_file_and_line(tmp_path, file, content, message):
    collection = open_collection(changed(tmp_path, "smart-adi", **{file: content}))
    with pytest.raises(FormatError, match=message):
        list(collection.docs()) + list(collection.split_queries()) + list(collection.split_qrels())


def test_two_files_of_documents_must_be_told_apart(tmp_path):
    folder = changed(tmp_path, "smart-adi")
    (folder / "ADI.QRY").rename(folder / "ADI.Q")
    with pytest.raises(
        CollectionError, match=r"both ADI.ALL and ADI.Q have documents; choose one"
    ) as refused:
        open_collection(folder)
    assert refused.value.__notes__ == ["a file of queries has qry or query in its name"]
    collection = open_collection(folder, format="smart(documents=ADI.ALL, queries=ADI.Q)")
    assert len(list(collection.docs())) == len(list(collection.split_queries())) == 2


def test_backups_are_left_out_unless_what_they_are_backups_of_is_missing(tmp_path):
    folder = changed(tmp_path, "smart-adi")
    for backup in ("ADI.REL.OLD", "ADI.REL~", "adi.rel.bak"):
        (folder / backup).write_text("1 1 0 0\n")
    collection = open_collection(folder)
    assert collection.unread == ("ADI.REL.OLD", "ADI.REL~", "adi.rel.bak")
    assert list(collection.split_qrels()) == QRELS
    for backup in collection.unread:
        (folder / backup).unlink()
    (folder / "ADI.REL").rename(folder / "ADI.REL.OLD")
    assert list(open_collection(folder).split_qrels()) == QRELS


def test_the_format_chooses_among_copies(tmp_path):
    folder = changed(tmp_path, "smart-adi")
    for copy in ("ADI-2.ALL", "ADI 3.ALL"):
        (folder / copy).write_text(".I 7\n.W\nanother copy\n")
    (folder / "ADI.REL2").write_text("1 1 0 0\n")
    said = "ADI 3.ALL and ADI-2.ALL and ADI.ALL have documents; choose one"
    with pytest.raises(CollectionError, match=said) as refused:
        open_collection(folder)
    assert str(refused.value).endswith('''format="smart(documents='ADI 3.ALL')"''')
    collection = open_collection(folder, format="smart(documents='ADI 3.ALL', judgments=ADI.REL2)")
    assert [doc.docno for doc in collection.docs()] == ["7"]
    assert list(collection.split_qrels()) == [Qrel("1", "1", 1)]
    assert collection.unread == ("ADI-2.ALL", "ADI.ALL", "ADI.REL")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("smart(documents=ADI.NO)", "ADI.NO has no documents; files with documents: ADI.ALL$"),
        ("smart(judgments=ADI.QRY)", "ADI.QRY has no judgments; files with judgments: ADI.REL"),
        ("smart(docs=ADI.ALL)", "smart has no parameter 'docs'; did you mean 'documents'"),
        ("smart(documents=", "'smart.documents=': expected a name"),
        ("jsonl(documents=ADI.ALL)", "jsonl has no parameter 'documents'"),
        ("smarter(documents=ADI.ALL)", "unknown format 'smarter'; did you mean 'smart'"),
    ],
)
def test_a_choice_that_cannot_be_made_is_an_error(form, message):
    with pytest.raises(TelerankError, match=message):
        open_collection(SAMPLES / "smart-adi", format=form)


def test_queries_alone_are_topics_and_qrels_of_smart_are_not_read_as_those_of_trec():
    file = SAMPLES / "smart-cacm" / "query.text"
    assert list(read_topics(file))[1] == Query("2", "Articles by Doe")
    assert [query.qid for query in open_collection(file).split_queries()] == ["1", "2"]
    with pytest.raises(FormatError, match="qrels in a known format") as refused:
        list(read_qrels(SAMPLES / "smart-cacm" / "qrels.text"))
    assert "SMART's qrels: open their folder as a collection" in refused.value.__notes__[0]
