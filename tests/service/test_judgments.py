"""What users judge is written whole or not at all, and read as queries and qrels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import telerank as tr
from telerank.corpus.formats import open_collection
from telerank.corpus.judgments import Judgment, read_judgments
from telerank.errors import CollectionError, FormatError, FormatWarning
from telerank.service.errors import Unsaved
from telerank.service.judgments import JudgmentFile, query_id
from telerank.types import Query


@pytest.fixture
def file(tmp_path: Path) -> JudgmentFile:
    return JudgmentFile(tmp_path / "judged.jsonl")


def test_a_judgment_has_query_document_grade_and_time(file: JudgmentFile):
    judgment = file.add("prime d'activité", "F1", 1, "dila")
    assert list(read_judgments(file.path)) == [judgment]
    record = json.loads(file.path.read_text("utf-8"))
    assert (record["query"], record["docno"], record["grade"], record["index"]) == (
        "prime d'activité", "F1", 1, "dila",
    )  # fmt: skip
    assert record["time"].endswith("Z")
    assert record["qid"] == query_id("Prime  D'ACTIVITÉ ")


def test_the_file_is_queries_and_qrels_of_which_the_last_judgment_counts(file: JudgmentFile):
    file.add("Prime", "d1", 1, "a")
    file.add("prime", "d1", 0, "a")
    file.add("prime", "d2", 1, "a")
    file.add("other", "d1", 1, "b")
    collection = open_collection(file.path)
    assert collection.format == "judgments"
    assert collection.splits == ("a", "b")
    assert list(collection.split_queries("a")) == [Query(query_id("prime"), "Prime")]
    assert collection.judged("a") == {query_id("prime"): {"d1": 0, "d2": 1}}
    with pytest.raises(CollectionError, match="no documents"):
        next(collection.docs())


def test_a_search_for_its_queries_is_evaluated_with_it(file: JudgmentFile, tmp_path: Path):
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"docno": "d1", "text": "red apple"}\n{"docno": "d2", "text": "green pear"}\n')
    tr.index(docs, tmp_path / "idx")
    file.add("apple", "d1", 1, "idx")
    file.add("pear", "d1", 0, "idx")
    file.add("pear", "d2", 1, "idx")
    tr.search(tmp_path / "idx", file.path, "bm25").save(tmp_path / "found.run")
    evaluation = tr.evaluate(tr.judge([tmp_path / "found.run"], file.path), "P@1")
    assert evaluation.evaluations["found"].mean == {"P@1": 1.0}


@pytest.mark.parametrize("left", ['{"qid": "q', '{"qid": "q1", "query": "x", "docno": "d"', "\udcff{"])
def test_what_a_killed_writer_left_of_a_line_is_removed(file: JudgmentFile, left: str, caplog):
    file.add("one", "d1", 1, "a")
    with file.path.open("ab") as damaged:
        damaged.write(left.encode(errors="surrogateescape"))
    file.add("two", "d2", 1, "a")
    assert [judgment.query for judgment in read_judgments(file.path)] == ["one", "two"]
    assert "removed a line that a writer did not complete" in caplog.text


def test_a_whole_last_line_without_its_end_stays(file: JudgmentFile):
    file.add("one", "d1", 1, "a")
    file.path.write_text(file.path.read_text("utf-8").rstrip("\n"), "utf-8")
    file.add("two", "d2", 1, "a")
    assert [judgment.query for judgment in read_judgments(file.path)] == ["one", "two"]


def test_a_full_disk_leaves_no_part_of_a_line(file: JudgmentFile, monkeypatch: pytest.MonkeyPatch):
    file.add("one", "d1", 1, "a")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(Unsaved, match="could not be saved: No space left on device"):
        file.add("two", "d2", 1, "a")
    monkeypatch.undo()
    assert [judgment.query for judgment in read_judgments(file.path)] == ["one"]


def add_within(file: JudgmentFile, size: int) -> Judgment | None:
    """What is added where the file may grow to ``size`` bytes; None if it could not be saved."""
    resource = pytest.importorskip("resource")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        return file.add("deux étés", "d2", 1, "a")
    except Unsaved:
        return None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("end", ["\n", ""])
def test_at_every_byte_of_space_left_a_line_is_whole_or_not_there(
    file: JudgmentFile, end: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("os.fsync", lambda _: None)
    first = file.add("one", "d1", 1, "a")
    before = file.path.read_bytes().removesuffix(b"\n") + end.encode()
    for space in range(200):
        file.path.write_bytes(before)
        saved = add_within(file, len(before) + space)
        after = file.path.read_bytes()
        if saved is None:
            assert after == before
            continue
        assert list(read_judgments(file.path)) == [first, saved]
        assert len(after) == len(before) + space
        break
    assert saved is not None


DAMAGE = ['a"}\n', '{"qid": "q1", "que{"qid": "q1"}\n', "\udcff\n", '{"qid": "q"}\n']


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_bad_line_is_named_and_the_others_are_read(file: JudgmentFile, damage: str, line: int):
    file.add("one", "d1", 1, "a")
    file.add("two", "d2", 1, "a")
    lines = file.path.read_bytes().splitlines(keepends=True)
    lines.insert(line - 1, damage.encode(errors="surrogateescape"))
    file.path.write_bytes(b"".join(lines))
    file.check()
    file.add("three", "d3", 1, "a")
    with pytest.warns(FormatWarning, match=rf"judged\.jsonl:{line}: expected .*; the line is left out$"):
        collection = open_collection(file.path)
    with pytest.warns(FormatWarning):
        assert [query.text for query in collection.split_queries("a")] == ["one", "two", "three"]


def test_several_bad_lines_are_counted_in_one_notice(file: JudgmentFile):
    file.add("one", "d1", 1, "a")
    with file.path.open("a") as damaged:
        damaged.write('"}\n' * 3)
    with pytest.warns(
        FormatWarning, match=r"judged\.jsonl:2: .*; the line is left out \(and 2 more\)"
    ) as told:
        assert [judgment.query for judgment in read_judgments(file.path)] == ["one"]
    assert len(told) == 1


def test_a_packed_file_is_refused_since_no_line_can_be_added(tmp_path: Path):
    with pytest.raises(CollectionError, match=r"judged\.jsonl\.gz: expected a file that is not compressed"):
        JudgmentFile(tmp_path / "judged.jsonl.gz").check()


def test_a_file_that_can_be_written_is_checked_without_a_trace(file: JudgmentFile):
    file.check()
    assert not file.path.exists()
    judgment = file.add("one", "d1", 1, "a")
    file.check()
    assert list(read_judgments(file.path)) == [judgment]


@pytest.mark.parametrize(
    "content", ["key-of-ann\n", '{"docno": "d1", "text": "x"}\n', "\udcff\n", "key-of-ann"]
)
def test_a_file_of_something_else_is_refused_and_left_alone(file: JudgmentFile, content: str):
    file.path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(FormatError, match=r"judged\.jsonl:1: expected"):
        file.check()
    assert file.path.read_bytes() == content.encode(errors="surrogateescape")


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    for path, reason in (
        (tmp_path / "none" / "judged.jsonl", "no such folder"),
        (tmp_path / "folder", "directory"),
    ):
        with pytest.raises(CollectionError, match=rf"judgments: .*: cannot be written: .*{reason}"):
            JudgmentFile(path).check()


WRITER = """
import sys
from pathlib import Path
from telerank.service.judgments import JudgmentFile
for number in range(50):
    JudgmentFile(Path(sys.argv[1])).add(f"{sys.argv[2]} {number} " + "word " * 300, f"d{number}", 1, "a")
"""


def test_several_processes_write_one_file(file: JudgmentFile):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file.path), name]) for name in "abc"]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert len(list(read_judgments(file.path))) == 150


@pytest.mark.parametrize(
    ("docno", "grade", "query"), [("", 1, "q"), ("a b", 1, "q"), ("d", 2**15, "q"), ("d", 1, "\ud800")]
)
def test_what_no_reader_accepts_is_refused(file: JudgmentFile, docno: str, grade: int, query: str):
    with pytest.raises(ValueError):
        file.add(query, docno, grade, "a")
    assert not file.path.exists()


@pytest.mark.parametrize(
    "line",
    [
        '{"qid": "q", "query": "x", "docno": "d", "grade": true}',
        '{"qid": "q", "query": "x", "docno": "d", "grade": 1.5}',
        '{"qid": "q", "query": "x", "docno": "d"}',
        '{"qid": "q", "query": 3, "docno": "d", "grade": 1}',
        '{"qid": "q", "query": "x", "docno": "a b", "grade": 1}',
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str):
    path = tmp_path / "judged.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(FormatError, match=r"judged\.jsonl"):
        list(read_judgments(path))


def test_what_was_judged_is_a_collection_that_a_model_learns_from(tmp_path: Path, file: JudgmentFile):
    """From thumbs to a trained re-ranker: judgments, the documents of the index, candidates, training."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from typer.testing import CliRunner

    from small_ranking import ranking_settings, small_ranking
    from telerank.cli.main import app

    place = small_ranking(tmp_path / "place")
    tr.index(place / "collection", tmp_path / "idx", workers=1, analyzer="standard")
    for number in range(12):
        file.add(f"q{number} x{number % 5}", f"d{number}", 1, "idx")
        file.add(f"q{number} x{number % 5}", f"d{number + 1}", 0, "idx")
    result = CliRunner().invoke(
        app,
        [
            "data",
            "convert",
            str(file.path),
            str(tmp_path / "judged"),
            "--to",
            "jsonl",
            "--index",
            str(tmp_path / "idx"),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "40 documents, 12 queries, 24 qrels" in result.output
    tr.search(tmp_path / "idx", tmp_path / "judged", "bm25 % 10").save(tmp_path / "train.run")
    settings = ranking_settings(place, optimisation={"steps": 2, "warm_up": 1})
    settings["data"] = {
        "collection": str(tmp_path / "judged"),
        "split": "idx",
        "negatives": {"run": str(tmp_path / "train.run"), "per_positive": 2},
    }
    trained = tr.train("reranker", settings, tmp_path / "trained")
    assert (trained.model / "config.json").exists()
    assert next(iter(trained.counts.values()))["relevant pairs"] == 12


def test_documents_of_an_index_are_given_to_judgments_alone(tmp_path: Path, file: JudgmentFile):
    from telerank.verbs.data import with_documents

    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"docno": "d1", "text": "red apple"}\n')
    tr.index(docs, tmp_path / "idx", workers=1)
    file.add("apple", "d1", 1, "idx")
    given = with_documents(open_collection(file.path), tmp_path / "idx")
    assert [doc.docno for doc in given.docs()] == ["d1"]
    assert given.size == 1
    with pytest.raises(CollectionError, match="has documents of its own"):
        with_documents(open_collection(docs), tmp_path / "idx")
