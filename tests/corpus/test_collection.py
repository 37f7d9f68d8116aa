"""How a collection is found and recognised; the forms of files that need few words."""

from __future__ import annotations

import ast
import csv
import datetime as dt
import gzip
import io
import lzma
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import telerank.corpus
from telerank.corpus.collection import Collection
from telerank.corpus.formats import FORMATS, open_collection
from telerank.corpus.readers.plain import read_table
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Qrel, Query, Ranking

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"), max_size=12)


def write(path: Path, text: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("where", ["nowhere", "nowhere.jsonl"])
def test_what_is_not_there_is_named(tmp_path, where):
    for form in ("", "beir"):
        with pytest.raises(CollectionError, match=f"{where}: no such file or folder"):
            open_collection(tmp_path / where, **({"format": form} if form else {}))


def test_what_is_no_collection_is_told_what_was_looked_for(tmp_path):
    with pytest.raises(CollectionError, match="an empty folder"):
        open_collection(tmp_path)
    write(tmp_path / "idx/manifest.json", "{}")
    (tmp_path / "idx/segments").mkdir()
    with pytest.raises(CollectionError, match="idx: an index, not a collection"):
        open_collection(tmp_path / "idx")
    write(tmp_path / "x/picture.png", b"\x89PNG\r\n")
    with pytest.raises(CollectionError, match=r"no known collection format; it has 'picture.png'"):
        open_collection(tmp_path / "x")
    with pytest.raises(CollectionError, match="no known collection format"):
        open_collection(tmp_path / "x/picture.png")
    known = r"unknown format 'warc'; known: antique, beir, .*, ir_datasets, .* more"
    with pytest.raises(CollectionError, match=known):
        open_collection(tmp_path, format="warc")


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("a.jsonl", b"", "an empty file"),
        ("a.jsonl", "\ufeff{}".encode("utf-16-le"), "text in UTF-16, .* convert it to UTF-8"),
        ("a.jsonl", "\ufeff{}".encode("utf-16-be"), "text in UTF-16, .* convert it to UTF-8"),
        ("a.jsonl", gzip.compress(b"{}", mtime=0), "compressed by gzip: its name must end in .gz"),
        ("a.jsonl", lzma.compress(b"{}"), "compressed by xz: its name must end in .xz"),
        ("a.jsonl.gz", b"{}", "expected a whole .gz file"),
        ("a.jsonl.gz", gzip.compress(b"{}" * 1000, mtime=0)[:-9], "expected a whole .gz file"),
        ("a.zip", b"PK\x03\x04", "a zip archive: unpack it"),
    ],
    ids=["empty", "utf-16-le", "utf-16-be", "gzip", "xz", "not gzip", "cut gzip", "zip"],
)
def test_a_file_that_no_reader_could_read_says_why(tmp_path, name, held, said):
    write(tmp_path / name, held)
    with pytest.raises((CollectionError, FormatError), match=said):
        open_collection(tmp_path / name)


def test_standard_input_is_json_lines_and_read_once(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"docno": "d", "text": "t"}\n')))
    opened = open_collection("-")
    assert list(opened.docs()) == [Doc("d", "t")]
    with pytest.raises(CollectionError, match="can be read once only"):
        opened.docs()
    with pytest.raises(CollectionError, match="is read as jsonl, not as squad"):
        open_collection("-", format="squad")


def test_what_may_be_two_things_must_be_forced(tmp_path):
    write(tmp_path / "corpus.jsonl", '{"_id": "beir", "text": ""}\n')
    write(tmp_path / "collection.tsv", "msmarco\t\n")
    with pytest.raises(CollectionError, match="may be beir, msmarco: choose one"):
        open_collection(tmp_path)
    for form in ("beir", "msmarco"):
        assert list(open_collection(tmp_path, format=form).docs()) == [Doc(form, "")]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("scifact", "beir"), ("dila", "beir"), ("cranfield", "cranfield"), ("vaswani", "trec"),
        ("msmarco-slice", "msmarco"), ("msdocs", "passages"), ("topics-qrels", "topics"),
        ("insuranceqa-v2", "insuranceqa"), ("piaf", "squad"), ("covid-qa", "squad"),
    ],
)  # fmt: skip
def test_real_collections_are_recognised_as_they_stand(data, name, format_):
    assert open_collection(data / name).format == format_


def test_every_reader_has_a_name_and_states_source_and_licence():
    assert len({form.name for form in FORMATS}) == len(FORMATS)
    folder = Path(telerank.corpus.__file__).parent
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    records = {name: len(re.findall(r"\bFormat\('", ast.unparse(tree))) for name, tree in trees.items()}
    readers = [name for name, count in records.items() if count]
    assert sum(records.values()) == len(FORMATS)
    for name in readers:
        tree = trees[name]
        alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]  # docstrings
        said = " ".join(str(one.value) for one in alone if isinstance(one, ast.Constant)).lower()
        assert "source" in said, name
        assert "licence" in said, name


def test_splits_are_those_of_all_members():
    one = Collection(
        "c", "f", lambda: iter([Doc("d", "x")]),
        queries={"dev": lambda: iter([Query("q", "?")])},
        qrels={"test": lambda: iter([Qrel("q", "d", 1)])},
        pools={"train/5": lambda: iter([Ranking(Query("q", "?"), ("d",), [1])])},
    )  # fmt: skip
    assert one.splits == ("dev", "test", "train")
    with pytest.raises(CollectionError, match="split 'test' has no queries; splits with queries: dev"):
        one.split_queries("test")
    with pytest.raises(CollectionError, match="split 'dev' has no qrels; splits with qrels: test"):
        one.split_qrels("dev")


def test_several_splits_are_one_by_their_names_with_plus():
    folds = {"f0": ["1"], "f1": ["2", "3"], "f2": ["4"]}
    collection = Collection(
        "c",
        "none",
        lambda: iter(()),
        {fold: lambda qids=qids: iter([Query(qid, "?") for qid in qids]) for fold, qids in folds.items()},
        {fold: lambda qid=folds[fold][0]: iter([Qrel(qid, "d", 1)]) for fold in ("f0", "f1")},
    )
    assert [query.qid for query in collection.split_queries("f0+f1")] == ["1", "2", "3"]
    assert collection.judged("f1+f0") == {"2": {"d": 1}, "1": {"d": 1}}
    with pytest.raises(CollectionError, match="c has no split 'f9'; it has: f0, f1, f2"):
        collection.split_queries("f0+f9")
    with pytest.raises(CollectionError, match="split 'f2' has no qrels; splits with qrels: f0, f1"):
        collection.judged("f0+f2")


def test_a_folder_of_texts_gives_a_document_for_each_file(tmp_path):
    texts = {"b.txt": "two\r\n", "a/x.text": "# one", "a/.hidden": "no", ".git/x": "no", "c d%.txt": ""}
    for name, text in texts.items():
        write(tmp_path / name, text)
    collection = open_collection(tmp_path)
    assert collection.format == "folder"
    today = {"modified": dt.datetime.now(dt.UTC).date()}
    assert list(collection.docs()) == [
        Doc("a/x.text", "# one", file="a/x.text", columns={"folders": ("a",), **today}),
        Doc("b.txt", "two\r\n", file="b.txt", columns=today),
        Doc("c%20d%25.txt", "", file="c d%.txt", columns=today),
    ]
    write(tmp_path / "b.dat", "x")
    with pytest.raises(CollectionError, match="no known collection format"):
        open_collection(tmp_path)
    assert len(list(open_collection(tmp_path, format="folder").docs())) == 3


def test_a_byte_that_is_no_text_is_named_by_file_and_line(tmp_path):
    write(tmp_path / "a.txt", b"\xef\xbb\xbfone\ntw\xf6\n")
    with pytest.raises(FormatError, match=r"a\.txt:2: expected utf-8 text .* got 'byte 0xf6 at position 3"):
        list(open_collection(tmp_path).docs())
    assert [doc.text for doc in open_collection(tmp_path, encoding="latin-1").docs()] == ["one\ntwö\n"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "one"),
        ("a.md", "one"),
        ("a.jsonl", '{"id": "1", "text": "one"}\n'),
        ("a.csv", "id,text\n1,one\n"),
        ("a.trec", "<DOC>\n<DOCNO>1</DOCNO>\none\n</DOC>\n"),
        ("ft/ft911", "<DOC>\n<DOCNO>1</DOCNO>\none\n</DOC>\n"),
        ("topics.a.txt", "1\tone\n"),
    ],
)
@pytest.mark.parametrize("ending", ["~", ".bak", ".OLD"])
def test_a_backup_beside_its_file_is_not_read_and_is_named(tmp_path, name, content, ending):
    write(tmp_path / name, content)
    alone = open_collection(tmp_path)
    write(tmp_path / f"{name}{ending}", content)
    collection = open_collection(tmp_path)
    assert (collection.format, collection.unread) == (alone.format, (f"{name}{ending}",))
    if collection.size != 0:
        assert len(list(collection.docs())) == 1


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), max_size=8), st.permutations(["url", "Title", "text", "ID"])
)
def test_csv_is_read_as_it_was_written(records, header):
    docs = [Doc(f"d{docno}", text, title, url) for docno, text, title, url in records]
    rows = ({"ID": doc.docno, "text": doc.text, "Title": doc.title, "url": doc.url} for doc in docs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docs.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
        assert list(read_table(path)) == docs
        assert open_collection(path).format == "csv"


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_the_header_of_csv_shows_what_separates_columns_and_a_field_may_hold_a_megabyte(tmp_path, sign):
    rows = (("id", "text", "title"), ("1", '"a, b; ""c"""', "d"), ("2", "word " * 200_000, ""))
    path = write(tmp_path / "x.csv", "\ufeff" + "".join(sign.join(row) + "\r\n" for row in rows))
    assert list(open_collection(path).docs()) == [Doc("1", 'a, b; "c"', "d"), Doc("2", "word " * 200_000)]


def test_a_folder_of_csv_and_tsv_files_is_one_collection_and_tsv_knows_no_quotes(tmp_path):
    write(tmp_path / "b.tsv", 'doc_id\tother\tcontents\nd\t-\tan "inch" is 1"\n')
    write(tmp_path / "a.csv", 'id,text\n1,"x, and\n\nmore"\n')
    assert list(open_collection(tmp_path).docs()) == [
        Doc("1", "x, and\n\nmore"),
        Doc("d", 'an "inch" is 1"', columns={"other": "-"}),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "docno,title\na,b\n", ":1: expected a header with a column docno or .*'docno, title'"),
        ("x.csv", "", ":1: expected a header"),
        ("x.csv", "docno,text\na,b\na,b,c\n", ":3: expected 2 columns as in the header, got 'a, b, c'"),
        ("x.csv", 'docno,text\na,"b\n', r":2: expected CSV \(unexpected end of data\)"),
        ("x.csv", b"docno,text\na,\xe9\n", ":2: expected utf-8 text"),
        ("x.tsv", "docno\ttext\na\n", ":2: expected 2 columns"),
    ],
)
def test_a_table_that_is_none_is_named(tmp_path, name, text, message):
    with pytest.raises(FormatError, match=name + message):
        list(open_collection(write(tmp_path / name, text), format="csv").docs())


def test_numbered_passages_keep_their_source_as_url(tmp_path):
    write(tmp_path / "passages.tsv", "1\twin32\tA text\twith a tab\n2\tazure\tMore\n")
    collection = open_collection(tmp_path)
    assert collection.format == "passages"
    docs = [Doc("1", "A text\twith a tab", "", "win32"), Doc("2", "More", "", "azure")]
    assert list(collection.docs()) == docs
    write(tmp_path / "passages.tsv", "1\twin32\n")
    with pytest.raises(FormatError, match=r"passages\.tsv:1: expected 3 columns"):
        list(collection.docs())
    assert open_collection(write(tmp_path / "passages.tsv", "id\ttext\n1\tx\n")).format == "csv"


@pytest.mark.scale
@pytest.mark.data
def test_all_of_msdocs_is_read(data):
    count = characters = 0
    for doc in open_collection(data / "msdocs").docs():
        count += 1
        characters += len(doc.text)
    assert (count, doc.docno) == (1_154_982, "1154982")
    assert characters == 214_830_040


def test_topics_and_qrels_alone_are_a_collection_without_documents(tmp_path):
    path = write(tmp_path / "topics.dl.txt", "1\twhat\n")
    assert list(open_collection(path).split_queries()) == [Query("1", "what")]
    write(tmp_path / "topics.car.txt", "enwiki:Taste/Sweet%20things\n")
    write(tmp_path / "qrels.dl.txt", "1 0 d 1\n")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("topics", ("car", "dl"))
    assert list(collection.split_queries("dl")) == [Query("1", "what")]
    assert list(collection.split_qrels("dl")) == [Qrel("1", "d", 1)]
    with pytest.raises(CollectionError, match="only topics and qrels: no documents"):
        collection.docs()


@pytest.mark.data
def test_the_fields_topics_and_qrels_hold_what_their_readme_states(data):
    collection = open_collection(data / "topics-qrels")
    topics = {"robust04": 250, "msmarco-passage.dev-subset": 6980}
    assert {split: len(list(collection.split_queries(split))) for split in topics} == topics
    qrels = {"msmarco-passage.dev-subset": 7437, "dl19-passage": 9260, "dl20-passage": 11_386}
    assert {split: len(list(collection.split_qrels(split))) for split in qrels} == qrels


LAYOUTS = {
    "jsonl": ("x.jsonl", b'{"id": "1", "text": "x"}\n'),
    "beir": ("corpus.jsonl", b'{"_id": "1", "text": "x"}\n'),
    "csv": ("x.csv", b"id,text\n1,x\n"),
    "passages": ("passages.tsv", b"1\ts\tx\n"),
    "msmarco": ("collection.tsv", b"1\tx\n"),
    "trec": ("docs.trec", b"<DOC><DOCNO>1</DOCNO>x</DOC>\n"),
    "folder": ("a.txt", b"x\n"),
}
SCRAPS = [
    b'"',
    b"}",
    b"\t",
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"&",
    b'{"id": "',
    b"\\ud8",
    b"<DOC>",
    b"</DOC>",
    b"<DOCNO>",
]


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(st.sampled_from(SCRAPS) | st.binary(max_size=4), max_size=8).map(b"".join),
    st.sampled_from(["utf-8", "latin-1"]),
)
def test_any_bytes_are_documents_or_an_error_that_names_the_file(format_, scraps, encoding):
    name, good = LAYOUTS[format_]
    with tempfile.TemporaryDirectory() as folder:
        place = write(Path(folder) / name, good + scraps)
        try:
            docs = list(open_collection(folder, format=format_, encoding=encoding).docs())
        except FormatError as error:
            assert str(place) in str(error)  # noqa: PT017 — an error is one of two good ends
        else:
            assert docs
            for doc in docs:
                doc.full_text.encode()
