from __future__ import annotations

from pathlib import Path

import pytest

from documents import in_process
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError, FormatWarning
from telerank.types import Doc, Qrel, Query


def folder(path: Path, *, queries=("q1", "q2", "q3"), **qrels: list[tuple[str, str, int]]) -> Path:
    (path / "qrels").mkdir()
    (path / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "T", "text": "x", "metadata": {}}\n', encoding="utf-8"
    )
    (path / "queries.jsonl").write_text(
        "".join(f'{{"_id": "{q}", "text": "x about {q}"}}\n' for q in queries)
    )
    for split, lines in qrels.items():
        text = "".join(f"{qid}\t{docno}\t{grade}\n" for qid, docno, grade in lines)
        (path / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{text}")
    return path


def test_a_split_has_the_queries_that_its_qrels_name(tmp_path):
    collection = open_collection(
        folder(tmp_path, test=[("q3", "d1", 1), ("q1", "d1", 0)], dev=[("q2", "d1", 2)])
    )
    assert collection.splits == ("dev", "test")
    assert [query.qid for query in collection.split_queries("test")] == ["q1", "q3"]
    assert list(collection.split_queries("dev")) == [Query("q2", "x about q2")]
    assert list(collection.split_qrels("dev")) == [Qrel("q2", "d1", 2)]
    assert list(collection.docs()) == [Doc("d1", "x", "T")]


def test_one_of_several_splits_must_be_named(tmp_path):
    judged = [("q1", "d1", 1)]
    collection = open_collection(folder(tmp_path, test=judged, dev=judged))
    with pytest.raises(CollectionError, match="several splits, choose one of them: dev, test"):
        collection.split_queries()
    with pytest.raises(CollectionError, match="has no split 'train'; it has: dev, test"):
        collection.resolve_split("train")
    (tmp_path / "qrels" / "dev.tsv").unlink()
    assert open_collection(tmp_path).resolve_split() == "test"


def test_without_qrels_all_queries_are_one_split_and_without_queries_there_are_documents_alone(tmp_path):
    collection = open_collection(folder(tmp_path))
    assert collection.splits == ("all",)
    assert len(list(collection.split_queries())) == 3
    with pytest.raises(CollectionError, match="split 'all' has no qrels; splits with qrels: none"):
        collection.split_qrels()
    (tmp_path / "queries.jsonl").unlink()
    with pytest.raises(CollectionError, match="only documents"):
        open_collection(tmp_path).split_queries()


def test_judged_queries_without_a_text_are_counted_and_left_out(tmp_path):
    qrels = [("q1", "d1", 1), *((f"q{n}", "d1", 1) for n in range(5, 10)), ("q3", "d1", 0)]
    collection = open_collection(folder(tmp_path, test=qrels))
    notice = (
        r"queries\.jsonl: 5 of the 7 queries that test\.tsv judges are missing, and left out: q5, q6, q7 …$"
    )
    assert [doc.docno for doc in collection.docs()] == ["d1"]
    with pytest.warns(FormatWarning, match=notice):
        assert [query.qid for query in collection.split_queries()] == ["q1", "q3"]
    with pytest.warns(FormatWarning, match=notice):
        assert collection.judged() == {"q1": {"d1": 1}, "q3": {"d1": 0}}


@pytest.mark.filterwarnings("default::telerank.errors.FormatWarning")
def test_a_folder_with_queries_missing_is_indexed_searched_and_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("set").mkdir()
    folder(Path("set"), queries=["q1"], test=[("q1", "d1", 1), ("q9", "d1", 1)])
    assert "indexed 1 document" in in_process(["telerank", "index", "set", "idx", "--workers", "1"])
    said = in_process(["telerank", "search", "idx", "set", "-o", "x.run"])
    assert said.count("1 of the 2 queries that test.tsv judges are missing, and left out: q9") == 1
    evaluation = in_process(["telerank", "evaluate", "set", "x.run", "-m", "RR"])
    assert "Means over 1 query" in evaluation


def test_judged_queries_that_are_all_missing_are_an_error_and_without_their_file_qrels_are_read(tmp_path):
    collection = open_collection(folder(tmp_path, test=[("q8", "d1", 1), ("q9", "d1", 1)]))
    message = r"queries\.jsonl: expected the queries of test\.tsv; all 2 are missing \(q8, q9\)"
    with pytest.raises(FormatError, match=message):
        list(collection.split_queries())
    (tmp_path / "queries.jsonl").unlink()
    collection = open_collection(tmp_path)
    assert [doc.docno for doc in collection.docs()] == ["d1"]
    assert collection.judged() == {"q8": {"d1": 1}, "q9": {"d1": 1}}
    with pytest.raises(CollectionError, match=r"qrels but no queries\.jsonl"):
        list(collection.split_queries())


def test_a_folder_that_is_forced_to_be_beir_says_what_it_lacks(tmp_path):
    with pytest.raises(CollectionError, match=r"no corpus\.jsonl"):
        open_collection(tmp_path, format="beir")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "count", "first", "last", "splits"),
    [
        ("scifact", 5183, ("4983", "Microstructural develop"), ("198309074", "Adhesion molecules and"),
         {"test": (300, 339), "train": (809, 919)}),
        ("dila", 2866, ("F1", "Le versement de cotisat"), ("F998", "Le paiement direct perm"), {"test": (1388, 1388)}),
    ],
)  # fmt: skip
def test_real_folders_hold_what_their_readme_states(data, name, count, first, last, splits):  # noqa: PLR0917
    collection = open_collection(data / name)
    docs = list(collection.docs())
    assert (collection.format, len(docs)) == ("beir", count)
    assert docs[0].docno == first[0]
    assert docs[0].full_text.startswith(first[1])
    assert docs[-1].docno == last[0]
    assert docs[-1].full_text.startswith(last[1])
    counts = {
        split: (len(list(collection.split_queries(split))), len(list(collection.split_qrels(split))))
        for split in collection.splits
    }
    assert counts == splits


@pytest.mark.data
def test_real_texts_keep_their_typography(data):
    dila = open_collection(data / "dila")
    assert "".join(doc.full_text for doc in dila.docs()).count("’") == 2457
    assert "".join(query.text for query in dila.split_queries()).count("\u00a0") == 937
