"""Predicted queries: kept and gone on with, filtered, read as others publish them, and searched as a field."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import filelock
import numpy as np
import pytest
from dying_expansion import DOCS, Digests, expand, score

import telerank as tr
from accidents import Dying
from small_models import small_masked
from small_rerankers import small_reranker
from small_seq2seq import small_t5
from telerank.corpus.collection import Collection
from telerank.corpus.derived.kept import KeptFile
from telerank.corpus.derived.predicted import PredictedQueries
from telerank.corpus.formats import open_collection
from telerank.corpus.writing import convert
from telerank.errors import (
    ArgumentError,
    CollectionError,
    FormatError,
    IndexFault,
    MissingQueries,
    ModelError,
    UnlikelySetting,
)
from telerank.models.rerankers.reranker import save_reranker
from telerank.types import Doc, Qrel, Query

TEXTS = {"a": "the press of Gutenberg", "b": "a press for olives", "c": "the Bible"}
QUERIES = {
    "a": ["printing history", "who printed books"],
    "b": ["olive oil press"],
    "c": ["printing of the bible"],
}


def read(path):
    return {
        each["id"]: each["predicted_queries"] for each in map(json.loads, Path(path).read_text().splitlines())
    }


def write(path, queries=QUERIES):
    lines = (json.dumps({"id": docno, "predicted_queries": own}) for docno, own in queries.items())
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt") as file:
        file.write("\n".join(lines))
    return path


def test_the_best_share_of_all_queries_is_kept(tmp_path):
    whole = expand(tmp_path, chosen=None)
    everything = read(tmp_path / "out.jsonl")
    assert (whole.documents, whole.predicted, whole.queries, whole.cut) == (300, 900, 900, 30)
    best = expand(tmp_path)
    scores = score([(query, "text ") for own in everything.values() for query in own])
    least = np.sort(scores)[-270]
    kept = {docno: [q for q in own if int(q, 16) % 1000 >= least] for docno, own in everything.items()}
    assert read(tmp_path / "out.jsonl") == kept
    assert best.queries == sum(map(len, kept.values())) >= 270
    assert best.without == sum(not own for own in kept.values()) > 0
    record = json.loads((tmp_path / "out.jsonl.json").read_text())
    assert record["settings"] == {"model": "digests", "filter": {"model": "modulo"}, "keep": 0.3}
    assert record["queries"] == best.queries
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.fixture(scope="module")
def dying():
    process = Dying(Path(__file__).with_name("dying_expansion.py"))
    yield process
    process.close()


@pytest.mark.process
def test_a_killed_expansion_goes_on_to_the_same_bytes(dying, tmp_path):
    (tmp_path / "whole").mkdir()
    expand(tmp_path / "whole")
    expected = [(tmp_path / "whole" / name).read_bytes() for name in ("out.jsonl", "out.jsonl.json")]
    (tmp_path / "counted").mkdir()
    steps = int(re.fullmatch(r"done after (\d+)", dying.change("expand", tmp_path / "counted").said)[1])
    windows = []
    for step in (*range(1, steps - 8, -(-steps // 12)), *range(steps - 8, steps + 1)):
        folder = tmp_path / f"s{step}"
        folder.mkdir()
        assert dying.change("expand", folder, at=step).status == -signal.SIGKILL
        if (folder / "out.jsonl").exists():
            assert (folder / "out.jsonl").read_bytes() == expected[0]
        predictor = Digests()
        expand(folder, predictor=predictor)
        assert [(folder / name).read_bytes() for name in ("out.jsonl", "out.jsonl.json")] == expected
        assert not list(folder.glob("*.unfinished"))
        windows.append(predictor.windows)
    assert set(windows) >= {0, 5}
    assert len(set(windows)) > 3


def test_what_was_kept_of_other_documents_or_settings_is_dropped(tmp_path):
    class Stops(Digests):
        def predict(self, docs):
            if self.windows == 3:
                raise KeyboardInterrupt
            return super().predict(docs)

    def stop():
        with pytest.raises(KeyboardInterrupt):
            expand(tmp_path, predictor=Stops())

    stop()
    predictor = Digests()
    expand(tmp_path, predictor=predictor)
    assert predictor.windows == 2
    expected = (tmp_path / "out.jsonl").read_bytes()
    stop()
    others = [Doc("d0", "text 0"), Doc("d1", "text of another"), *DOCS[2:]]
    predictor = Digests()
    expand(tmp_path, docs=others, predictor=predictor)
    assert predictor.windows == 5
    stop()
    predictor = Digests()
    predictor.settings = {"model": "others"}
    expand(tmp_path, predictor=predictor)
    assert predictor.windows == 5
    stop()
    with (tmp_path / "out.jsonl.unfinished" / "queries.jsonl").open("ab") as file:
        file.write(b'{"id": "half')
    expand(tmp_path)
    assert (tmp_path / "out.jsonl").read_bytes() == expected


def test_a_damaged_record_begins_anew(tmp_path):
    kept = KeptFile(tmp_path / "x", "key")
    kept.append(b"abc", 1, "d", {"n": 2})
    assert KeptFile(tmp_path / "x", "key").read() == b"abc"
    for damaged in (
        "",
        "[]",
        '{"key": "key"}',
        '{"key": "key", "bytes": 99, "items": 1, "digest": "", "counts": {}}',
    ):
        (tmp_path / "x.json").write_text(damaged)
        assert KeptFile(tmp_path / "x", "key").items == 0


def test_a_second_process_is_refused(tmp_path):
    (tmp_path / "out.jsonl.unfinished").mkdir()
    with (
        filelock.FileLock(tmp_path / "out.jsonl.unfinished" / ".lock"),
        pytest.raises(ModelError, match="another process is writing it"),
    ):
        expand(tmp_path)


def publish(folder, form):
    """The queries in a form of published files, in the order of the documents."""
    lines = [own + [""] * (2 - len(own)) for own in QUERIES.values()]
    if form == "lines":
        (folder / "q.txt").write_text("".join("\t".join(filter(None, own)) + "\n" for own in lines))
        return folder / "q.txt"
    if form in ("jsonl", "jsonl.gz"):
        return write(folder / f"q.{form}", dict(reversed(QUERIES.items())))
    if form == "querygen":
        records = (
            {"docno": docno, "text": "x", "querygen": "\n".join(own)} for docno, own in QUERIES.items()
        )
        (folder / "q.jsonl").write_text("\n".join(map(json.dumps, records)))
        return folder / "q.jsonl"
    parts = {
        f"predicted_queries_topk_sample{sample:03}.txt{part:03}-1004000": "".join(
            f"{own[sample]}\n" for own in (lines[:2], lines[2:])[part]
        )
        for sample in range(2)
        for part in range(2)
    }
    if form == "zip":
        with zipfile.ZipFile(folder / "q.zip", "w") as archive:
            for name, content in parts.items():
                archive.writestr(f"queries/{name}", content)
        return folder / "q.zip"
    (folder / "q").mkdir()
    for name, content in parts.items():
        (folder / "q" / name).write_text(content)
    return folder / "q"


@pytest.mark.parametrize("form", ["lines", "jsonl", "jsonl.gz", "querygen", "zip", "folder"])
def test_published_files_are_read(tmp_path, form):
    written = tr.expand(TEXTS, tmp_path / "out.jsonl", predicted=str(publish(tmp_path, form)))
    assert read(tmp_path / "out.jsonl") == QUERIES
    assert (written.documents, written.queries) == (3, 4)


@pytest.mark.parametrize("form", ["lines", "jsonl", "zip", "folder"])
def test_files_of_other_documents_are_refused(tmp_path, form):
    file = str(publish(tmp_path, form))
    with pytest.raises(FormatError, match="a line for each document, got "):
        tr.expand({**TEXTS, "d": "more"}, tmp_path / "out.jsonl", predicted=file)
    if form != "jsonl":
        with pytest.raises(FormatError, match="a line for each document, got 'a line more'"):
            tr.expand({"a": "x", "b": "x"}, tmp_path / "out.jsonl", predicted=file)
    assert not (tmp_path / "out.jsonl").exists()


def test_damaged_and_huge_files_of_an_archive_are_named(tmp_path):
    file = publish(tmp_path, "zip")
    content = bytearray(file.read_bytes())
    content[content.index(b"printing history")] ^= 1
    file.write_bytes(content)
    with pytest.raises(FormatError, match=r"q.zip: queries/.*sample000.*expected a whole file of an archive"):
        tr.expand(TEXTS, tmp_path / "out.jsonl", predicted=str(file))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q_sample000.txt000-100", b"\n" * (70 << 20))
    with pytest.raises(
        FormatError, match=r"a file that unpacks to at most 67,108,864 bytes, got .*73,400,320"
    ):
        tr.expand(TEXTS, tmp_path / "out.jsonl", predicted=str(file))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", ":2: expected a JSON object"),
        ('{"predicted_queries": []}', ':2: expected an "id", a docno, got'),
        ('{"id": "b"}', ':2: expected "predicted_queries", a list of texts, got'),
        ('{"id": "b", "predicted_queries": [1]}', "a list of texts"),
        ('{"id": "a", "predicted_queries": []}', "expected one line a document, got 'a'"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, expected):
    (tmp_path / "q.jsonl").write_text('{"id": "a", "predicted_queries": ["x"]}\n' + line + "\n")
    with pytest.raises(FormatError, match=re.escape(expected)):
        tr.index(TEXTS, tmp_path / "idx", expansion=tmp_path / "q.jsonl")
    assert not (tmp_path / "idx" / "manifest.json").exists()


def test_what_is_no_file_of_queries_is_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "q.zip").write_bytes(b"no archive")
    for path, error in (("none", CollectionError), ("empty", CollectionError), ("q.zip", FormatError)):
        with pytest.raises(error, match=path):
            tr.expand(TEXTS, tmp_path / "out.jsonl", predicted=str(tmp_path / path))
    for given in ({}, {"model": "x", "predicted": "y"}):
        with pytest.raises(ArgumentError, match="give a model or a file of predicted queries"):
            tr.expand(TEXTS, tmp_path / "out.jsonl", **given)
    with pytest.raises(CollectionError, match="documents has no document"):
        tr.expand({}, tmp_path / "out.jsonl", predicted=str(write(tmp_path / "q.jsonl")))
    (tmp_path / "out.jsonl").touch()
    with pytest.raises(ArgumentError, match="is there already"):
        tr.expand(TEXTS, tmp_path / "out.jsonl", predicted=str(tmp_path / "q.jsonl"))


PIPELINE = "bm25f(title=1, text=1, expansion=1, lengths=combined)"


@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz"])
def test_an_expansion_is_a_field_that_an_explanation_names(tmp_path, name):
    file = write(tmp_path / name, dict(reversed(QUERIES.items())))
    index = tr.index(TEXTS, tmp_path / "idx", expansion=file)
    assert index.sparse.fields == ("title", "text", "expansion")
    assert index.docs["a"].columns == {"expansion": tuple(QUERIES["a"])}
    assert index.docs["a"].full_text == TEXTS["a"]
    assert not index.bm25().search("printing")
    stage = tr.pipeline(PIPELINE, index)
    appended = tr.index({d: f"{TEXTS[d]} {' '.join(QUERIES[d])}" for d in TEXTS}, tmp_path / "appended")
    for query in ("printing", "printing press", "the bible", "books of olives"):
        found, expected = stage.search(query), appended.bm25().search(query)
        assert found.docnos == expected.docnos
        assert found.scores == pytest.approx(expected.scores, abs=1e-5)
    said = str(stage.explain("printing press", "a"))
    assert re.search(r"'printing'.*\n +.*expansion: tf 1", said)
    assert re.search(r"'press'.*\n +.*text: tf 1", said)
    assert tr.index(TEXTS, tmp_path / "idx", expansion=file) == index  # it is there already
    more = write(tmp_path / "more.jsonl", {"d": ["printing"]})
    index.add({"d": "new"}, expansion=more)
    assert "d" in tr.pipeline(PIPELINE, index).search("printing").docnos
    with pytest.warns(MissingQueries, match="1 new document has no predicted queries"):
        index.add({"e": "new"})
    plain = tr.index(TEXTS, tmp_path / "plain")
    with pytest.raises(IndexFault, match="its documents are not expanded"):
        plain.add({"d": "new"}, expansion=more)


def test_a_collection_has_predicted_queries_in_its_texts(tmp_path):
    docs = [Doc("a", "the press", "Presses"), Doc("b", ""), Doc("c", "the Bible", columns={"year": 1455})]
    asked = {"dev": lambda: iter([Query("q", "printing")])}
    data = Collection("made", "memory", lambda: iter(docs), asked, {"dev": lambda: iter([Qrel("q", "a", 1)])})
    expanded = data.expanded(write(tmp_path / "q.jsonl.gz"))
    texts = {"a": "the press printing history who printed books", "b": "olive oil press"}
    assert {doc.docno: doc.text for doc in expanded.docs()} == texts | {
        "c": "the Bible printing of the bible"
    }
    assert [replace(doc, text="") for doc in expanded.docs()] == [replace(doc, text="") for doc in docs]
    for to in ("jsonl", "msmarco"):  # the latter reads the documents twice
        convert(expanded, tmp_path / to, to)
        read = open_collection(tmp_path / to)
        assert [doc.text for doc in read.docs()] == [doc.text for doc in expanded.docs()]
        assert ([*read.split_queries()], read.judged()) == ([Query("q", "printing")], {"q": {"a": 1}})
    assert [doc.text for doc in data.docs()] == [doc.text for doc in docs]
    some = data.expanded(write(tmp_path / "some.jsonl", {"c": ["bible"], "x": ["y"]}))
    next(some.docs())  # of documents that are not read nothing is counted
    with pytest.warns(MissingQueries) as said:
        convert(some, tmp_path / "some", "msmarco")
    counted = ["2 documents have no line there", "1 line is of no document"]
    assert [str(each.message).partition(": ")[2] for each in said] == counted


def test_an_expanded_folder_is_indexed_with_its_queries(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "press.txt").write_text("Gutenberg")
    data = open_collection(folder).expanded(write(tmp_path / "q.jsonl", {"press.txt": ["printing"]}))
    assert tr.index(data, tmp_path / "idx").bm25().search("printing").docnos == ("press.txt",)


def test_what_is_no_file_of_queries_expands_no_collection(tmp_path):
    with pytest.raises(CollectionError, match=r"none\.jsonl"):
        tr.piaf().expanded(tmp_path / "none.jsonl")
    (tmp_path / "q.jsonl").write_text("{")
    with pytest.raises(FormatError, match=":1: expected a JSON object"):
        next(tr.piaf().expanded(tmp_path / "q.jsonl").docs())


def test_weights_of_a_model_are_those_of_the_texts_which_an_index_with_the_field_says(tmp_path):
    model, file = str(small_masked(tmp_path / "masked")), write(tmp_path / "q.jsonl")
    data = Collection("made", "memory", lambda: (Doc(docno, text) for docno, text in TEXTS.items()))
    said = r"masked does not read the field expansion, the predicted queries \(telerank data convert"
    with pytest.warns(UnlikelySetting, match=said):
        field = tr.index(data, tmp_path / "field", expansion=file, weights_model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        appended = tr.index(data.expanded(file), tmp_path / "appended", weights_model=model)
        plain = tr.index(data, tmp_path / "plain", weights_model=model)
        tr.index(data, tmp_path / "counts", expansion=file)
    scores = [dict(index.impact().search("printing of books")) for index in (plain, field, appended)]
    assert scores[0] == scores[1] != scores[2]


def test_documents_that_an_update_finds_with_their_text_keep_their_queries(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in (("presses", "Gutenberg"), ("boats", "a boat"), ("olives", "oil")):
        (folder / f"{name}.txt").write_text(text)
    file = write(
        tmp_path / "q.jsonl", {name: [f"about {name}"] for name in ("presses.txt", "boats.txt", "olives.txt")}
    )
    index = tr.index(folder, tmp_path / "idx", expansion=file)
    (folder / "boats.txt").rename(folder / "ships.txt")
    (folder / "olives.txt").write_text("another text")
    (folder / "presses.txt").write_text("Gutenberg", encoding="utf-8-sig")  # other bytes, the same text
    with pytest.warns(MissingQueries, match="1 new document has no predicted queries"):
        index.update(folder)
    kept = {docno: doc.columns.get("expansion") for docno, doc in index.docs.items()}
    assert kept == {
        "presses.txt": ("about presses.txt",),
        "ships.txt": ("about boats.txt",),
        "olives.txt": None,
    }


def test_an_update_takes_a_files_own_expansion_from_the_file(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    page = "---\nexpansion: {}\n---\nGutenberg\n"
    (folder / "press.md").write_text(page.format("printing"))
    index = tr.index(folder, tmp_path / "idx", fields=["expansion"])
    (folder / "press.md").write_text(page.format("books"))
    index.update(folder)
    assert index.docs["press.md"].columns["expansion"] == "books"
    assert not tr.pipeline("bm25(field=expansion)", index).search("printing")
    assert tr.pipeline("bm25(field=expansion)", index).search("books").docnos == ("press.md",)


def test_documents_without_a_line_and_lines_without_a_document_are_counted(tmp_path):
    file = write(tmp_path / "q.jsonl", {"a": ["x"], "y": ["x"], "z": ["x"]})
    with pytest.warns(MissingQueries) as warned:
        tr.index(TEXTS, tmp_path / "idx", expansion=file)
    notes = [str(each.message).removeprefix(f"{file}: ") for each in warned]
    assert notes == ["2 documents have no line there", "2 lines are of no document"]
    with pytest.raises(CollectionError, match="has a column 'expansion' already"):
        tr.index([Doc("a", "x", columns={"expansion": "y"})], tmp_path / "other", expansion=file)


def test_two_docnos_of_the_same_number_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("telerank.corpus.derived.predicted._key", lambda _: 7)
    with PredictedQueries(write(tmp_path / "q.jsonl")) as predicted:
        assert {docno: list(predicted.find(docno)) for docno in QUERIES} == QUERIES
        assert predicted.find("none") is None


def test_a_model_and_a_reranker_from_python(tmp_path):
    docs = {f"d{n}": " ".join(f"d{n + m}" for m in range(n)) for n in range(6)}
    model, reranker = small_t5(tmp_path / "t5"), tmp_path / "reranker"
    save_reranker(small_reranker(tmp_path / "start"), reranker)
    settings = {"queries": 4, "max_query": 6, "max_length": 5, "filter": str(reranker), "keep": 0.5}
    written = tr.expand(docs, tmp_path / "out.jsonl.gz", model=str(model), **settings)
    assert written.documents == 6
    assert written.predicted == 20
    assert 10 <= written.queries < 20
    assert written.cut == 2
    assert written.without >= 1
    assert "2 documents longer than 5 pieces" in str(written)
    first = (tmp_path / "out.jsonl.gz").read_bytes()
    tr.expand(docs, tmp_path / "out.jsonl.gz", model=str(model), overwrite=True, **settings)
    assert (tmp_path / "out.jsonl.gz").read_bytes() == first


@pytest.mark.process
def test_reading_needs_no_torch(tmp_path):
    program = (
        "import sys, telerank as tr; "
        f"tr.expand({TEXTS}, {str(tmp_path / 'out.jsonl')!r}, predicted={str(write(tmp_path / 'q.jsonl'))!r}); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
