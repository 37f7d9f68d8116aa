"""Relevant passages of MS MARCO's passage ranking in the documents of its document ranking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from telerank.cli.main import app
from telerank.corpus.formats import open_collection
from telerank.corpus.lengths import align_passages
from telerank.errors import CollectionError
from telerank.types import Answer

DOCS = {
    "D1": ("A river", "The Loire is long.  It  flows\tto the west. The mill stands still."),
    "D2": (
        "Mills",
        "Nothing here. A mill grinds grain, it says: \u201ca mill grinds grain\u201d; a mill ends.",
    ),
    "D3": ("Empty", ""),
    "D4": ("Towns", "A town of Brittany has walls"),
}
PASSAGES = {
    "0": "It flows to the west",  # of other blanks
    "1": "A MILL grinds grain.",  # twice in D2, with other marks and in other case
    "2": "the mill stands in the town",  # not as it stands in D1
    "3": "town of Britt",  # ends within a word of D4
    "4": "...",
    "6": "the loire is long",  # relevant to no query of the documents
}
QRELS = {
    "train": {"t1": ("D1", "0 2"), "t2": ("D2", "1"), "t3": ("D4", "3 4")},
    "dev": {"v1": ("D1", "2"), "v2": ("D2", "5"), "v3": ("D3", "1")},
}


def marco(folder: Path) -> tuple[Path, Path]:
    """The two collections, as MS MARCO's files; the passages have queries and a split of their own, too."""
    documents, passages = folder / "documents", folder / "passages"
    documents.mkdir(parents=True)
    passages.mkdir()
    lines = (f"{docno}\thttps://a.org\t{title}\t{body}\n" for docno, (title, body) in DOCS.items())
    (documents / "msmarco-docs.tsv").write_text("".join(lines))
    (passages / "collection.tsv").write_text("".join(f"{pid}\t{text}\n" for pid, text in PASSAGES.items()))
    for split, own in QRELS.items():
        queries = "".join(f"{qid}\twhat is {qid}\n" for qid in own)
        (documents / f"msmarco-doc{split}-queries.tsv").write_text(queries)
        (documents / f"msmarco-doc{split}-qrels.tsv").write_text(
            "".join(f"{qid} 0 {docno} 1\n" for qid, (docno, _) in own.items())
        )
        name = "dev.small" if split == "dev" else split
        (passages / f"queries.{name}.tsv").write_text(f"{queries}x9\twhat is x9\n")
        judged = [(qid, pid) for qid, (_, pids) in own.items() for pid in pids.split()]
        rows = [*judged, *judged[:1], ("x9", "6")]  # some are listed twice at the source
        (passages / f"qrels.{name}.tsv").write_text("".join(f"{q}\t0\t{p}\t1\n" for q, p in rows))
    return documents, passages


def test_a_passage_is_found_by_its_words_in_the_documents_of_its_query(tmp_path):
    documents, passages = marco(tmp_path)
    alignment = align_passages(open_collection(documents), open_collection(passages))
    answers = list(alignment.answers())
    found = {(answer.qid, answer.docno, answer.text) for answer in answers}
    assert found == {
        ("t1", "D1", "It  flows\tto the west"),
        ("t2", "D2", "A mill grinds grain"),
        ("t2", "D2", "a mill grinds grain"),
    }
    assert all(DOCS[own.docno][1][own.start : own.end] == own.text for own in answers)
    train, dev = alignment.splits["train"], alignment.splits["dev"]
    assert (train.passages, train.aligned, train.missing, train.share) == (5, 2, 0, 0.4)
    assert (dev.passages, dev.aligned, dev.missing) == (3, 0, 1)
    assert alignment.every == 9  # x9's is in both of its splits: it counts once


def test_a_query_of_two_splits_is_sought_in_the_documents_of_both_and_counts_once(tmp_path):
    documents, passages = marco(tmp_path)
    qrels = documents / "msmarco-docdev-qrels.tsv"
    qrels.write_text(f"{qrels.read_text()}t1 0 D2 1\n")
    docs = documents / "msmarco-docs.tsv"
    docs.write_text(docs.read_text().replace("Nothing here.", "It flows to the west."))
    alignment = align_passages(open_collection(documents), open_collection(passages), ["train", "dev"])
    found = [answer.docno for answer in alignment.answers() if answer.qid == "t1"]
    assert found == ["D1", "D2"]
    counts = {name: (own.passages, own.aligned) for name, own in alignment.splits.items()}
    assert counts == {"train": (5, 2), "dev": (3, 0)}


def test_only_some_splits_are_aligned_and_collections_of_other_queries_cannot_be(tmp_path):
    folders = marco(tmp_path)
    documents, passages = map(open_collection, folders)
    alignment = align_passages(documents, passages, ["dev"])
    assert list(alignment.answers()) == []
    assert [*alignment.splits] == ["dev"]
    with pytest.raises(CollectionError, match="no split 'test'"):
        align_passages(documents, passages, ["test"])
    for name in ("train", "dev.small"):
        (folders[1] / f"qrels.{name}.tsv").write_text("x9\t0\t6\t1\n")
    with pytest.raises(CollectionError, match="no query has a relevant document and a relevant passage"):
        align_passages(*map(open_collection, folders))


def test_the_command_writes_what_the_collection_then_reads_as_answers(tmp_path):
    documents, passages = marco(tmp_path)
    out = documents / "answers.jsonl"
    asked = ["data", "align-passages", str(out), str(documents), str(passages)]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    for said in (
        "40.0 %",
        "1 are not in passages",
        "aligned: 22.2 % of the 9 relevant passages of any query",
    ):
        assert said in " ".join(shown.output.split())
    collection = open_collection(documents)
    assert collection.unread == ()
    assert {*collection.splits} == {"train", "dev"}
    first = Answer("t1", "D1", "It  flows\tto the west", 20)
    assert next(collection.answers["train"]()) == first
    assert len(list(collection.answers["train"]())) == 3
    assert list(collection.answers["dev"]()) == []
    assert collection.notes() == {"answers_of_unknown_queries": 0}
    with out.open("a") as file:
        file.write(json.dumps({"query-id": "t77", "corpus-id": "D1", "text": "west", "start": 0}) + "\n")
    assert open_collection(documents).notes() == {"answers_of_unknown_queries": 1}
    folder = CliRunner().invoke(app, [*asked[:2], str(documents), *asked[3:], "--overwrite"])
    assert "expected a file to write" in str(folder.exception)
    again = CliRunner().invoke(app, asked)
    assert isinstance(again.exception, CollectionError)
    assert "--overwrite" in str(again.exception)
    record = json.loads(CliRunner().invoke(app, [*asked, "--overwrite", "--split", "train", "--json"]).stdout)
    train = {"passages": 5, "missing": 0, "aligned": 2, "share": 0.4}
    assert record == {"splits": {"train": train}, "relevant_passages": 9}
