"""Small collections in every format and with their usual mistakes: recognised, or refused by the mistake's name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import cbor2
import pytest

from telerank.corpus.formats import FORMATS, list_formats, open_collection
from telerank.errors import TelerankError

Files = Mapping[str, str | bytes]
SAMPLES = Path(__file__).parent / "samples"
TWO_DOCS = '{"id": "1", "text": "one"}\n{"id": "2", "text": "two"}\n'
QUERIES = '{"_id": "q1", "text": "which"}\n{"_id": "q2", "text": "what"}\n'
BEIR_QRELS = "q1\t1\t1\nq2\t2\t1\n"
HEADER = "query-id\tcorpus-id\tscore\n"
SGML = (
    "<DOC>\n<DOCNO>1</DOCNO>\n<TEXT>one</TEXT>\n</DOC>\n<DOC>\n<DOCNO>2</DOCNO>\n<TEXT>two</TEXT>\n</DOC>\n"
)
TOPICS = (
    "<top>\n<num>q1</num>\n<title>which</title>\n</top>\n<top>\n<num>q2</num>\n<title>what</title>\n</top>\n"
)
QRELS = "q1 0 1 1\nq2 0 2 1\n"
WORDS = "idx_1\tone\nidx_2\ttwo\n"
QUESTIONS = "domain\tidx_1\t1\t1 2\ndomain\tidx_2\t2\t1 2\n"


def squad(**ids: str) -> str:
    questions = [{"question": text, **({"id": ids[text]} if ids else {})} for text in ("which", "what")]
    answers = [{**one, "answers": [{"text": "one", "answer_start": 0}]} for one in questions]
    paragraphs = [{"context": "one", "qas": answers}, {"context": "two", "qas": []}]
    return json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]})


def sample(name: str, *files: str) -> Files:
    paths = sorted((SAMPLES / name).iterdir())
    return {path.name: path.read_bytes() for path in paths if not files or path.name in files}


def car() -> bytes:
    return b"".join(cbor2.dumps([0, str(n).encode(), [[0, text]]]) for n, text in ((1, "one"), (2, "two")))


GOOD: dict[str, tuple[str, Files]] = {
    "documents in lines": ("jsonl", {"docs.jsonl": TWO_DOCS}),
    "a document that is a file": ("jsonl", {"docs.json": json.dumps({"id": 1, "contents": "one"}, indent=1)}),
    "Anserini's folder": ("jsonl", sample("anserini-json")),
    "Anserini's CACM": (
        "jsonl",
        {
            **{f"jsonl/{name}": content for name, content in sample("anserini-json").items()},
            "topics.cacm.txt": "<DOC>\n<DOCNO>\nq1\n</DOCNO>\nhow deep?\n</DOC>\n",
            "qrels.cacm.txt": "q1 Q0 a-1 1\n",
        },
    ),
    "JSON lines with splits": (
        "jsonl",
        {"docs.jsonl": TWO_DOCS, "queries.dev.jsonl": QUERIES, "qrels.dev.txt": QRELS, "README.md": "x"},
    ),
    "CSV": ("csv", {"docs.csv": "id,text\n1,one\n2,two\n"}),
    "TSV": ("csv", {"docs.tsv": "docno\tcontents\n1\tone\n2\ttwo\n"}),
    "passages": ("passages", {"passages.tsv": "1\ts\tone\n2\ts\ttwo\n"}),
    "texts": ("folder", {"a.txt": "one", "notes/b.text": "two", "README.md": "three"}),
    "documents": ("documents", {"a.txt": "one", "notes/b.md": "two", "README.md": "three"}),
    "BEIR": (
        "beir",
        {"corpus.jsonl": TWO_DOCS, "queries.jsonl": QUERIES, "qrels/test.tsv": HEADER + BEIR_QRELS},
    ),
    "BEIR without a header": (
        "beir",
        {"corpus.jsonl": TWO_DOCS, "queries.jsonl": QUERIES, "qrels/test.tsv": BEIR_QRELS},
    ),
    "BEIR without a folder of qrels": (
        "beir",
        {"corpus.jsonl": TWO_DOCS, "queries.jsonl": QUERIES, "qrels.tsv": BEIR_QRELS},
    ),
    "MS MARCO": (
        "msmarco",
        {
            "collection.tsv": "1\tone\n2\ttwo\n",
            "queries.dev.tsv": "q1\twhich\n",
            "qrels.dev.tsv": "q1\t0\t1\t1\n",
        },
    ),
    "MS MARCO documents": ("msmarco", {"msmarco-docs.tsv": "1\tu\tt\tone\n2\tu\tt\ttwo\n"}),
    "TREC": ("trec", {"docs.trec": SGML, "topics.txt": TOPICS, "qrels.txt": QRELS}),
    "Robust04": (
        "robust04",
        {
            "ft911": SGML,
            "topics.robust04.txt": TOPICS.replace("</top>", "<desc> Description:\nabout it\n</top>"),
            "qrels.robust04.txt": QRELS,
        },
    ),
    "topics as documents": ("topics", {"topics.a.txt": "<DOC>\n<DOCNO>q1</DOCNO>\nwhich\n</DOC>\n"}),
    "topics and qrels": ("topics", {"topics.dl.txt": TOPICS, "qrels.dl.txt": QRELS}),
    "SQuAD": ("squad", {"dev.json": squad(which="q1", what="q2")}),
    "SQuAD without ids": ("squad", {"dev.json": squad()}),
    "InsuranceQA": (
        "insuranceqa",
        {
            "vocabulary": WORDS,
            "InsuranceQA.label2answer.raw.encoded": "1\tidx_1\n2\tidx_2\n",
            "InsuranceQA.question.anslabel.raw.100.pool.solr.test.encoded": QUESTIONS,
        },
    ),
    "InsuranceQA in tokens": (
        "insuranceqa-token",
        {"vocabulary": WORDS, "InsuranceQA.label2answer.token.encoded": "1\tidx_1\n2\tidx_2\n"},
    ),
    "ANTIQUE": (
        "antique",
        {
            "antique-collection.txt": "1\tone\n2\ttwo\n",
            "antique-test-queries.txt": "q1\twhich\n",
            "antique-test.qrel": "q1 U0 1 4\n",
        },
    ),
    "TREC-CAR": ("trec-car", {"paragraphs.cbor": car()}),
    "Cranfield as XML": (
        "cranfield",
        {"cran.all.1400.xml": SGML, "cran.qry.xml": TOPICS, "cranqrel.trec.txt": "1 0 1 1\n"},
    ),
    "Cranfield as it usually comes": ("smart", sample("smart-cranfield")),
    "ADI": ("smart", sample("smart-adi")),
    "CACM": ("smart", sample("smart-cacm")),
    "MED": (
        "smart",
        {
            "MED.ALL": ".I 1\n.W\none\n.I 2\n.W\ntwo\n",
            "MED.QRY": ".I 1\n.W\nwhich\n",
            "MED.REL": "1 0 1 1\n",
            "MED.REL.OLD": "1\t0\t2\t1\n",
            "MED.REL.OLD.txt.pdf": "%PDF",
        },
    ),
    "CISI": (
        "smart",
        {"CISI.ALL": ".X\n.I 1\n.T\none\n.X\n1\t5\t1\n", "CISI.REL": "   1   1\t0\t0.000000\n"},
    ),
    "LISA": ("lisa", sample("lisa")),
    "WikiQA": ("wikiqa", sample("wikiqa")),
    "parallel files": ("parallel", sample("castorini")),
    "TREC-QA": ("trecqa", sample("trecqa")),
    "SelQA": ("selqa", sample("selqa")),
    "judgments of a service": (
        "judgments",
        {
            "judged.jsonl": '{"qid": "q1", "query": "which", "docno": "1", "grade": 1, "time": "", "index": "a"}\n'
        },
    ),
}


def write(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(as_bytes(content))
    return folder


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


WAYS = {
    "as it is": lambda content: content,
    "with Windows line ends": lambda content: content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "with a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "compressed": lambda content: gzip.compress(content, mtime=0),
}
"""What becomes of files of text, and the last of all files."""


def ids(folder: Path) -> tuple[list[str], dict[str, list[str]], dict[str, list[tuple[str, str, int]]]]:
    collection = open_collection(folder)
    return (
        [] if collection.size == 0 else [doc.docno.removesuffix(".gz") for doc in collection.docs()],
        {split: [query.qid for query in stream()] for split, stream in collection.queries.items()},
        {
            split: [(qrel.qid, qrel.docno, qrel.grade) for qrel in stream()]
            for split, stream in collection.qrels.items()
        },
    )


@pytest.mark.parametrize("name", GOOD)
def test_a_good_collection_is_recognised_and_read(tmp_path, name):
    form, files = GOOD[name]
    plain = None
    for way, turn in WAYS.items():
        packed = way == "compressed"
        turned = {
            f"{file}{'.gz' * packed}": turn(as_bytes(content))
            if packed or not file.endswith(".cbor")
            else content
            for file, content in files.items()
        }
        folder = write(tmp_path / way / "x", turned)
        assert open_collection(folder).format == form, way
        plain = plain or ids(folder)
        assert ids(folder) == plain, way
    assert plain[0] or form in ("topics", "judgments")


def test_every_format_is_among_the_good_collections():
    # a folder that only telerank makes (test_ranking_set.py), documents that nobody cuts, and a single file
    others = {"ranking-set", "whole-documents", "judged"}
    assert {form for form, _ in GOOD.values()} | others == {form.name for form in FORMATS}


def without(name: str, file: str) -> Files:
    return {other: content for other, content in GOOD[name][1].items() if other != file}


MISTAKES: dict[str, tuple[Files, str]] = {
    "JSON lines named .txt": ({"docs.txt": TWO_DOCS, "b.dat": "x"}, "b.dat: not a text by its name"),
    "no docno": (
        {"docs.jsonl": '{"key": "1", "text": "one"}\n'},
        "the first object of docs.jsonl has no docno or",
    ),
    "JSON in a list a line": ({"docs.jsonl": '["1", "one"]\n'}, "jsonl: no file of JSON objects"),
    "an array cut off": ({"docs.json": '[{"id": "1", "text": "one"}'}, "docs.json:1: expected JSON"),
    "a picture beside JSON lines in a folder": (
        {"jsonl/docs.jsonl": TWO_DOCS, "jsonl/x.png": "x", "qrels.txt": QRELS},
        "jsonl: x.png: neither JSON nor queries",
    ),
    "a picture beside JSON lines": (
        {"docs.jsonl": TWO_DOCS, "x.png": "x"},
        "jsonl: x.png: neither JSON nor queries",
    ),
    "two files of qrels for a split": (
        {"docs.jsonl": TWO_DOCS, "queries.jsonl": QUERIES, "qrels.tsv": BEIR_QRELS, "qrels.txt": QRELS},
        "qrels.txt: a second file for the split 'all', beside qrels.tsv",
    ),
    "UTF-16": ({"docs.jsonl": TWO_DOCS.encode("utf-16")}, "no file of JSON objects"),
    "CSV without a header": (
        {"docs.csv": "1,one\n2,two\n"},
        "the first line of docs.csv does not name docno",
    ),
    "CSV beside a note": (
        {"docs.csv": "id,text\n1,one\n", "x.pdf": "x"},
        "csv: x.pdf: its name ends neither",
    ),
    "README, queries and judgments": (
        {"README.md": "x", "docs.txt": "x", "queries.txt": "1\tx\n", "judgments.txt": "1 0 d 1\n"},
        "folder: queries.txt and judgments.txt are queries and judgments by their names",
    ),
    "judgments among texts": (
        {"README.txt": "x", "a.txt": "x", "answers.txt": "1 0 d1 1\n1 0 d2 0\n"},
        "folder: answers.txt has many records, and is not one text",
    ),
    "SMART with another ending": (
        {"docs.txt": "a", "b.txt": "b", "rel.old": "1 2 0 0"},
        "folder: rel.old: not a text by its name",
    ),
    "BEIR without queries": (without("BEIR", "queries.jsonl"), "qrels but no queries.jsonl"),
    "BEIR without a corpus": (without("BEIR", "corpus.jsonl"), "beir: no corpus.jsonl"),
    "BEIR with qrels in CSV": (
        {"corpus.jsonl": TWO_DOCS, "queries.jsonl": QUERIES, "qrels/test.tsv": "q1,1,1\n"},
        "beir: its first line has 1 column, not 3",
    ),
    "MS MARCO of two kinds": (
        {"collection.tsv": "1\tone\n", "msmarco-docs.tsv": "1\tu\tt\tone\n"},
        "both collection.tsv and msmarco-docs.tsv: which",
    ),
    "MS MARCO without a collection": (
        without("MS MARCO", "collection.tsv"),
        "only topics and qrels: no documents",
    ),
    "TREC beside a picture": ({"docs.trec": SGML, "x.png": "x"}, "trec: x.png: neither documents nor topics"),
    "InsuranceQA without words": (
        without("InsuranceQA in tokens", "vocabulary"),
        "insuranceqa.*: no vocabulary",
    ),
    "Cranfield without queries": (without("Cranfield as XML", "cran.qry.xml"), "no cran.qry.xml"),
    "SMART with two files of judgments": (
        {**GOOD["ADI"][1], "ADI.REL2": "1 1 0 0\n"},
        "both ADI.REL and ADI.REL2 have judgments",
    ),
    "WikiQA with a label of 2": (
        {"WikiQA-dev.tsv": as_bytes(GOOD["WikiQA"][1]["WikiQA-test.tsv"]).replace(b"1\n", b"2\n")},
        "WikiQA-dev.tsv:2: expected 7 columns",
    ),
    "parallel files without labels": (without("parallel files", "sim.txt"), "parallel: no sim.txt in it"),
    "a run": ({"bm25.run": "q1 Q0 d1 1 2.5 tag\n"}, "no known collection format"),
    "one text of no kind": (
        {"x.odt": "PK"},
        "not folder: no file in it is a text|not jsonl: no file of JSON",
    ),
}


def everything(folder: Path) -> Iterator[object]:
    collection = open_collection(folder)
    yield from collection.docs()
    for streams in (collection.queries, collection.qrels, collection.answers):
        for stream in streams.values():
            yield from stream()


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_by_its_name(tmp_path, name):
    files, message = MISTAKES[name]
    with pytest.raises(TelerankError, match=message) as refused:
        list(everything(write(tmp_path / "x", files)))
    lines = [str(refused.value), *getattr(refused.value, "__notes__", ())]
    assert len(lines) <= 5
    assert all("\n" not in line and len(line) < 600 for line in lines)


FILES = {
    "a run": ("q1 Q0 d1 1 2.5 tag\n", "a run .qid Q0 docno rank score tag., not a collection"),
    "judgments": ("q1 0 d1 1\nq1 0 d2 0\n", "judgments .qrels., not a collection"),
    "words": (
        "hello there\n",
        "its first line is 'hello there'\nnot jsonl: its first line is not a JSON object",
    ),
    "JSON lines": (TWO_DOCS, "not jsonl: its name ends neither in .jsonl nor in .json"),
    "SQuAD": (squad(), "not squad: its name does not end in .json"),
    "a table": ("id,title\n1,one\n", "not csv: the first line of x.dat does not name docno"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_no_format_says_what_it_came_nearest_to(tmp_path, name):
    content, message = FILES[name]
    (tmp_path / "x.dat").write_text(content)
    with pytest.raises(TelerankError, match=message) as refused:
        open_collection(tmp_path / "x.dat")
    assert len(getattr(refused.value, "__notes__", ())) in {0, 3}


def test_the_command_that_lists_all_formats_lists_those_of_topics_and_qrels():
    assert {
        "jsonl",
        "smart",
        "topics: trec",
        "topics: smart",
        "qrels: trec",
        "qrels: beir",
    } <= list_formats().keys()
