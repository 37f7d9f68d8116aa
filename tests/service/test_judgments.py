from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import telerank as tr
from small_ranking import ranking_settings, small_ranking
from telerank.cli.main import app
from telerank.corpus.answers import Judgment, read_judgments
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError, FormatWarning
from telerank.service.errors import Unsaved
from telerank.service.judgments import JudgmentFile, query_id
from telerank.types import Query
from telerank.verbs.data import with_documents


@pytest.fixture
def file(tmp_path: Path) -> JudgmentFile:
    return JudgmentFile(tmp_path / "judged.jsonl")


def test_a_judgment_has_query_document_grade_and_time(file: JudgmentFile):
    file.check()
    assert not file.path.exists()
    judgment = file.add("prime d'activité", "F1", 1, "dila")
    file.check()
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


@pytest.mark.parametrize("left", ['{"qid": "q', '{"qid": "q1", "query": "x", "docno": "d"', "\udcff{"])
def test_what_a_killed_writer_left_of_a_line_is_removed(file: JudgmentFile, left: str, caplog):
    file.add("one", "d1", 1, "a")
    with file.path.open("ab") as damaged:
        damaged.write(left.encode(errors="surrogateescape"))
    file.add("two", "d2", 1, "a")
    assert [judgment.query for judgment in read_judgments(file.path)] == ["one", "two"]
    assert "removed a line that a writer did not complete" in caplog.text


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


JUDGED = '{"qid": "q", "query": "x", "docno": "d"'


@pytest.mark.parametrize(
    ("line", "damage"),
    [
        (1, 'a"}'),
        (2, '{"qid": "q1", "que{"qid": "q1"}'),
        (3, "\udcff"),
        (1, '{"qid": "q"}'),
        (2, f"{JUDGED}}}"),
        (3, f'{JUDGED}, "grade": true}}'),
        (1, f'{JUDGED}, "grade": 1.5}}'),
        (2, f'{JUDGED.replace("x", "")[:-1]}", "grade": 1, "query": 3}}'),
        (3, f'{JUDGED[:-1]} b", "grade": 1}}'),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(file: JudgmentFile, damage: str, line: int):
    file.add("one", "d1", 1, "a")
    file.add("two", "d2", 1, "a")
    lines = file.path.read_bytes().splitlines(keepends=True)
    lines[line - 1 : line - 1] = [damage.encode(errors="surrogateescape") + b"\n"] * 3
    file.path.write_bytes(b"".join(lines))
    file.check()
    file.add("three", "d3", 1, "a")
    with pytest.warns(
        FormatWarning, match=rf"judged\.jsonl:{line}: expected .*left out \(and 2 more\)$"
    ) as notices:
        collection = open_collection(file.path)
    assert len(notices) == 1
    with pytest.warns(FormatWarning):
        assert [query.text for query in collection.split_queries("a")] == ["one", "two", "three"]


@pytest.mark.parametrize(
    "content", ["key-of-ann\n", '{"docno": "d1", "text": "x"}\n', "\udcff\n", "key-of-ann"]
)
def test_a_file_of_something_else_is_refused_and_left_alone(file: JudgmentFile, content: str):
    file.path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(FormatError, match=r"judged\.jsonl:1: expected"):
        file.check()
    assert file.path.read_bytes() == content.encode(errors="surrogateescape")


WRITER = """
import sys
from pathlib import Path
from telerank.service.judgments import JudgmentFile
for number in range(50):
    JudgmentFile(Path(sys.argv[1])).add(f"{sys.argv[2]} {number} " + "word " * 300, f"d{number}", 1, "a")
"""


def test_several_processes_write_one_file(file: JudgmentFile):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file.path), name]) for name in "ab"]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert len(list(read_judgments(file.path))) == 100


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    for name, reason in (
        ("none/judged.jsonl", "cannot be written: there is no such folder"),
        ("folder", "cannot be written: Is a directory"),
        ("judged.jsonl.gz", "expected a file that is not compressed"),
    ):
        with pytest.raises(CollectionError, match=f"judgments: .*{name}: {reason}"):
            JudgmentFile(tmp_path / name).check()


@pytest.mark.parametrize(
    ("docno", "grade", "query"), [("", 1, "q"), ("a b", 1, "q"), ("d", 2**15, "q"), ("d", 1, "\ud800")]
)
def test_what_no_reader_accepts_is_refused(file: JudgmentFile, docno: str, grade: int, query: str):
    with pytest.raises(ValueError):
        file.add(query, docno, grade, "a")
    assert not file.path.exists()


def test_what_was_judged_is_a_collection_that_is_evaluated_and_learned_from(
    tmp_path: Path, file: JudgmentFile
):
    """From thumbs to a trained re-ranker: judgments, the documents of the index, candidates, training."""
    start = small_ranking(tmp_path / "start")
    index = tr.index(start / "collection", tmp_path / "idx", workers=1, analyzer="standard")
    for number in range(12):
        file.add(f"q{number} x{number % 5}", f"d{number}", 1, "idx")
        file.add(f"q{number} x{number % 5}", f"d{number + 1}", 0, "idx")
    run = tr.search(index, file.path, "bm25")
    measured = tr.evaluate(tr.judge({"bm25": run}, file.path), "R@40").evaluations["bm25"].mean
    assert measured == {"R@40": 1.0}
    judged = tmp_path / "judged"
    words = ["data", "convert", file.path, judged, "--to", "jsonl", "--index", index.folder]
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    assert "40 documents, 12 queries, 24 qrels" in result.output
    with pytest.raises(CollectionError, match="has documents of its own"):
        with_documents(open_collection(judged), index.folder)
    tr.search(index, judged, "bm25 % 10").save(tmp_path / "train.run")
    settings = ranking_settings(start, optimisation={"steps": 2, "warm_up": 1})
    negatives = {"run": str(tmp_path / "train.run"), "per_positive": 2}
    settings["data"] = {"collection": str(judged), "split": "idx", "negatives": negatives}
    trained = tr.train("reranker", settings, tmp_path / "trained")
    assert (trained.model / "config.json").exists()
    assert next(iter(trained.counts.values()))["relevant pairs"] == 12
