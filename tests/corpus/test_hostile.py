"""Every reader takes time in proportion to its file, whatever is in it, and memory within a limit."""

from __future__ import annotations

import gzip
import json
import signal
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection, recognise_formats
from telerank.corpus.readers.squad import locate_answer
from telerank.errors import FormatError, TelerankError

SIZE = 500_000  # bytes
SECONDS = 10  # of the processor: a reader of quadratic cost would take minutes to hours


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError(f"longer than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


SCRAPS = (
    *("<", ">", "<a ", "<aaaa", "<a>", "</a>", "<!-- ", "<!---->", "<!-->", "-->", "<?", "<? ?>", "&", "&#", "&a", "&1;"),
    *("<text>", "</text>", "<text ", "<doc>", "<doc ", "<doc></doc>", "<docno>", "</docno ", "<title>", "<top>", "<num>"),
    *("number=", "number = ' ", "a", " ", "9", "\\", '"', '\\"', "\\u", "\\ud83d", "[", "{", '{"a":', '"a":', "]}", ","),
    *("\t", "a\t", "\n", "\r", "\0", "\n\n", "1 0 d 1\n", "1\t", ".I 1\n", ".W\n", ".X\n.I ", "*", "*\n", "#", "#\n"),
    *("-1 ", "1 Relevant Refs:\n", "Document 1\n", "Query 1\n", "<positive>\n", "<QApairs id='1'>\n", "é", "\N{RIGHT-TO-LEFT OVERRIDE}"),
)  # fmt: skip
WIKIQA = ("QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label")
SQUAD = '{"data": [{"paragraphs": [{"context": "'
READERS = {
    "jsonl": ("x.jsonl", "", '{"id": "1", "text": "'),
    "jsonl array": ("x.json", "[", '[{"id": "1", "text": "'),
    "csv": ("x.csv", "id,text\n", 'id,text\n1,"'),
    "tsv": ("x.tsv", "id\ttext\n", "id\ttext\n1\t"),
    "passages": ("passages.tsv", "", "1\ts\t"),
    "beir": ("corpus.jsonl", "", '{"id": "1", "text": "'),
    "msmarco": ("collection.tsv", "", "1\t"),
    "trec": ("x.trec", "<DOC>\n<DOCNO>1</DOCNO>\n", "<DOC>\n<DOCNO>1</DOCNO>\n<TEXT>"),
    "trec between": ("x.trec", "<DOC><DOCNO>1</DOCNO></DOC>\n", ""),
    "folder": ("x.txt", "", "a"),
    "squad": ("x.json", SQUAD, '{"data": [{"paragraphs": [{"qas": [{"id": '),
    "smart": ("x.all", ".I 1\n", ".I 1\n.W\n"),
    "smart queries": ("x.qry", ".I 1\n", ".I 1\n.W\n"),
    "lisa": ("LISA0.001", "Document 1\n", "Document 1\n\n"),
    "wikiqa": ("x.tsv", "\t".join(WIKIQA) + "\n", ""),
    "trecqa": ("x.xml", "<QApairs id='1'>\n", "<QApairs id='1'>\n<question>\n"),
    "selqa": ("x.json", '[{"question": "', '[{"question": "a", "candidates": ["'),
    "antique": ("antique-collection.txt", "", "1\t"),
    "trec-car": ("x.cbor", "", "\x83\x00\x41"),
    "insuranceqa": ("InsuranceQA.label2answer.raw.encoded", "", "1\tidx_1 "),
    "topics": ("topics.x.txt", "<top><num>1<title>", "<top>\n<num>1\n<title>"),
    "topics number": ("topics.x.txt", "<topic number=", "<topic number='"),
    "topics in lines": ("topics.x.jsonl", '{"id": "1", "text": "', ""),
    "topics with tabs": ("topics.x.tsv", "1\t", ""),
    "qrels": ("qrels.x.txt", "1 0 d 1\n", ""),
}  # fmt: skip
"""A file's name, and two beginnings that the scraps follow."""


def read_everything(path: Path, form: str | None = None) -> list[object]:
    collection = open_collection(path, format=form)
    streams = [collection.docs] if collection.size != 0 else []
    return [
        record
        for stream in (*streams, *collection.queries.values(), *collection.qrels.values())
        for record in stream()
    ]


def refusal(path: Path, form: str | None = None) -> str:
    with pytest.raises(TelerankError) as refused:
        read_everything(path, form)
    return str(refused.value)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", READERS)
def test_half_a_megabyte_of_anything_is_read_or_refused_in_linear_time(tmp_path, name):
    file, *beginnings = READERS[name]
    form = {"tsv": "csv", "qrels": "topics"}.get(name.split()[0], name.split()[0])
    path = tmp_path / file
    (tmp_path / "vocabulary").write_text("idx_1\tone\n")
    source = tmp_path if form in {"passages", "beir", "antique", "insuranceqa"} else path
    for scrap in SCRAPS:
        for beginning in beginnings:
            path.write_text(beginning + scrap * (SIZE // len(scrap.encode())), encoding="utf-8")
            with time_limit():
                recognise_formats(path)
                with suppress(TelerankError):
                    read_everything(source, form)


@pytest.mark.parametrize(
    ("name", "head", "scrap", "tail"),
    [
        ("topics.x.txt", "<top><num>1<title>", "a", ""),
        ("topics.x.txt", "<top><num>1<title>", "<aaa", ""),
        ("topics.x.txt", "<top><num>1<", "a", ""),
        ("topics.x.txt", "<top><num>1<title>", "<b>", "</top>"),
        ("topics.x.txt", "<topic number=", " ", ">"),
        ("x.trec", "<DOC><DOCNO>1</DOCNO>", "<!-- ", "</DOC>"),
        ("x.trec", "", "<!---->", "<DOC><DOCNO>1</DOCNO></DOC>"),
        ("x.trec", "<DOC><DOCNO>1</DOCNO></DOC>", "<!---->", "lost"),
        ("x.trec", "<DOC><DOCNO>1</DOCNO>", "<text>", "</DOC>"),
        ("x.json", "", '{"data": [', ""),
        ("x.json", '{"', '\\"', ""),
    ],
)
def test_what_took_minutes_takes_seconds(tmp_path, name, head, scrap, tail):
    (tmp_path / name).write_text(head + scrap * (SIZE // len(scrap)) + tail)
    with time_limit():
        recognise_formats(tmp_path / name)
        with suppress(TelerankError):
            read_everything(tmp_path / name)


def test_an_answer_is_found_in_linear_time():
    with time_limit():
        assert locate_answer("a" * SIZE, "a" * (SIZE // 2), SIZE) == (SIZE // 2, "nearest")
        assert locate_answer("a" * SIZE, "b" + "a" * (SIZE // 2), 3) == (3, "absent")


DEEP = 100_000
NESTED = ("[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "9" * 5000)
SQUAD_ID = '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": %s, "question": "a"}]}]}]}'


@pytest.mark.parametrize(
    ("name", "form", "text"),
    [
        ("x.jsonl", "jsonl", '{"id": "1", "text": %s}'),
        ("x.jsonl", "jsonl", '{"id": %s, "text": "a"}'),
        ("x.json", "jsonl", '[{"id": "1", "text": %s}]'),
        ("queries.jsonl", "topics", '{"id": "1", "text": %s}'),
        ("queries.jsonl", "topics", '{"id": %s, "text": "a"}'),
        ("x.json", "squad", '{"data": %s}'),
        ("x.json", "squad", SQUAD_ID),
        ("x.json", "selqa", '[{"question": "a", "candidates": %s, "answers": []}]'),
    ],
)
def test_deep_json_and_long_numbers_are_one_line(tmp_path, name, form, text):
    for value in NESTED:
        (tmp_path / name).write_text(text % value)
        message = refusal(tmp_path / name, form)
        assert message.startswith(f"{tmp_path / name}:1: expected ")
        assert len(message) < 600


def test_a_depth_that_can_be_parsed_is_described(tmp_path):
    for depth in range(900, 1000):
        (tmp_path / "x.jsonl").write_text('{"id": %s, "text": "a"}' % ("[" * depth + "]" * depth))
        assert "x.jsonl:1: expected a" in refusal(tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("x.jsonl", b'{"id": "1", "text": "'),
        ("x.json", b'[{"id": "1", "text": "'),
        ("x.csv", b'id,text\n1,"'),
        ("x.trec", b"<DOC><DOCNO>1</DOCNO>"),
        ("collection.tsv", b"1\t"),
        ("topics.txt", b"<top><num>1<title>"),
        ("qrels.txt", b"1 0 d "),
        ("A.ALL", b".I 1\n.W\n"),
        ("LISA0", b"Document 1\n"),
        ("x.cbor", b"\x83\x00\x41a\x80\x83\x00\x41a\x81\x82\x00\x7b\x00\x00\x00\xff\xff\xff\xff\xff"),
        ("WikiQA.tsv", "\t".join(WIKIQA).encode() + b"\n"),
        ("dev.json", SQUAD.encode()),
    ],
)
def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, name, head):
    path = bomb(tmp_path / f"{name}.gz", head, b"0" * (1 << 20))
    form = "trec-car" if ".cbor" in name else None
    assert MUCH in refusal(path, form)


def test_so_is_one_of_many_documents(tmp_path):
    path = bomb(tmp_path / "collection.tsv.gz", b"", b"1\t" + b"0" * (1 << 20) + b"\n")
    docs = open_collection(path).docs()
    assert len(next(docs).text) == 1 << 20
    with pytest.raises(FormatError, match=MUCH):
        list(docs)


MUCH = "does not unpack to more than 200 times its size"


def bomb(path: Path, head: bytes, filling: bytes) -> Path:
    path.write_bytes(gzip.compress(head) + 70 * gzip.compress(filling))  # 64 MiB may be unpacked of any file
    return path


def test_a_large_file_that_compresses_as_texts_do_is_read_and_a_zip_archive_is_not_unpacked(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    words = " ".join(f"word{n}" for n in range(1000))
    with gzip.open(path, "wt", compresslevel=1) as file:
        for n in range(10_000):
            file.write(json.dumps({"id": n, "text": f"{n} {words}"}) + "\n")
    assert sum(1 for _ in open_collection(path).docs()) == 10_000
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.jsonl", b"0" * 1000)
    assert "a zip archive: unpack it" in refusal(tmp_path / "x.zip")
