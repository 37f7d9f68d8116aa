from __future__ import annotations

import gzip
import io
import itertools
import json
import lzma
import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.errors import FormatError, FormatWarning
from telerank.trec import (
    load_qrels,
    numbered_lines,
    open_to_write,
    read_qrels,
    read_run,
    read_topics,
    write_qrels,
    write_run,
)
from telerank.types import Qrel, Query, Ranking

IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\0"), min_size=1, max_size=5
).filter(lambda name: name[0] != "\ufeff")
SCORES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0])
RUNS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=6), max_size=4).map(
    lambda run: [
        Ranking.ranked(Query(qid, ""), tuple(found), list(found.values())) for qid, found in run.items()
    ]
)

PACKED = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress}


def written(tmp_path, text: str | bytes, name: str = "file"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(read, path) -> str:
    with pytest.raises(FormatError) as caught:
        list(read(path))
    return str(caught.value).replace(f"{path.parent}/", "")


@given(RUNS, st.sampled_from(list(PACKED)))
def test_a_run_is_written_in_trec_evals_order_and_read_back_as_it_was(tmp_path_factory, rankings, ending):
    path = tmp_path_factory.mktemp("run") / f"run{ending}"
    write_run(path, rankings)
    assert list(read_run(path)) == rankings
    rows = [line.split() for line in PACKED[ending](path.read_bytes()).splitlines()]
    keys = [(row[0], float(row[4]), row[2]) for row in rows]
    for one, other in itertools.pairwise(keys):
        assert one[0] != other[0] or one[1:] > other[1:]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 Q0 a 1 0.5 t\n1 Q0 c 9 7 t\n1\tQ0\tb  2 0.5 t\n", [("c", 7.0), ("b", 0.5), ("a", 0.5)]),
        ("1 Q0 b 1 1.4567891230 t\n1 Q0 a 2 1.4567891234 t\n", [("a", 1.4567891234), ("b", 1.4567891230)]),
        ("\ufeff\r\n1 Q0 a 1 2 t\r\n\n  \n1 Q0 b 2 1 t", [("a", 2.0), ("b", 1.0)]),
        ("1 Q0 a\u00a0b\u2028c 1 2 t\n", [("a\u00a0b\u2028c", 2.0)]),
        (f"1 Q0 a {'9' * 5000} 1 t\n", [("a", 1.0)]),
        (" 1 Q0 a 1 1e-3 t\n", [("a", 0.001)]),
    ],
    ids=["by score and docno", "as doubles", "mark, blank lines, crlf", "unicode blanks", "rank", "blank"],
)
def test_a_run_is_read_as_it_stands_whatever_its_ranks(tmp_path, text, expected, strict):
    (ranking,) = read_run(written(tmp_path, text), strict=strict)
    assert ranking.query == Query("1", "")
    assert list(ranking) == expected


def test_a_run_is_read_as_it_streams(tmp_path):
    path = written(tmp_path, "1 Q0 a 1 2 t\n2 Q0 a 1 2 t\nnonsense\n")
    run = read_run(path)
    assert next(run).query.qid == "1"
    with pytest.raises(FormatError, match="file:3: expected 6 columns"):
        next(run)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("1 Q0 a 1 2\n", 1, "6 columns: qid Q0 docno rank score tag, got '1 Q0 a 1 2'"),
        ("\n1 Q0 a 1 2 t x\n", 2, "6 columns: qid Q0 docno rank score tag, got '1 Q0 a 1 2 t x'"),
        ("1 Q0 a 1 high t\n", 1, "a score that is a finite number, got 'high'"),
        ("1 Q0 a 1 nan t\n", 1, "a score that is a finite number, got 'nan'"),
        ("1 Q0 a 1 -inf t\n", 1, "a score that is a finite number, got '-inf'"),
        ("1 Q0 a 1 1e309 t\n", 1, "a score that is a finite number, got '1e309'"),
        (f"1 Q0 a 1 {'9' * 5000} t\n", 1, "a score that is a finite number, got '9999"),
        ("1 Q0 a 1 1_0 t\n", 1, "a score that is a finite number, got '1_0'"),
        ("1 Q0 a 1 2 t\n1 Q0 b 1 2 t\n1 Q0 a 3 1 t\n", 3, "document a once for query 1, as on line 1"),
        ("1 Q0 a 1 2 t\n2 Q0 a 1 2 t\n1 Q0 b 2 1 t\n", 3, "the lines of query 1 together, from line 1 on"),
        ("1 Q0 a\0b 1 2 t\n", 1, "6 columns: qid Q0 docno rank score tag, got '1 Q0 a\\x00b 1 2 t'"),
        (b"1 Q0 a 1 2 t\n2 Q0 \xe9 1 2 t\n", 2, "ids in UTF-8 in this line and those of its query"),
    ],
)
def test_a_run_that_is_wrong_is_refused_by_line(tmp_path, text, line, said):
    assert refusal(read_run, written(tmp_path, text)).startswith(f"file:{line}: expected {said}")


def test_a_run_has_six_columns_ranks_from_one_and_each_query_once(tmp_path):
    path = tmp_path / "run"
    ranking = Ranking(Query("7", "bears"), ("b", "a"), [0.1, 0.1])
    write_run(path, [ranking], tag="bm25")
    assert path.read_text() == "7 Q0 b 1 0.1 bm25\n7 Q0 a 2 0.1 bm25\n"
    with pytest.raises(ValueError, match="run: query 7 comes twice"):
        write_run(path, [ranking] * 2)
    path.unlink()
    said = "expected a docno that is not empty and has no blank"
    for docno in ("", "a b", "a\tb", "a\nb", "a\0b", "\ufeffa"):
        with pytest.raises(FormatError, match=f"run: {said}"):
            write_run(path, [Ranking(Query("1", ""), (docno,), [1.0])])
        with pytest.raises(FormatError, match=f"qrels: {said}"):
            write_qrels(tmp_path / "qrels", [Qrel("1", docno, 1)])
    assert list(tmp_path.iterdir()) == []


BEIR = "query-id\tcorpus-id\tscore\n"
QIDS = IDS.filter(lambda qid: not qid.startswith("#"))  # a first line that begins with # may be a comment
QRELS = st.dictionaries(QIDS, st.dictionaries(IDS, st.integers(-2, 4), min_size=1, max_size=5), max_size=5)


@given(QRELS)
def test_qrels_are_read_back_as_they_were(tmp_path_factory, qrels):
    path = tmp_path_factory.mktemp("qrels") / "qrels.gz"
    write_qrels(path, qrels)
    flat = list(read_qrels(path))
    assert load_qrels(flat) == qrels
    write_qrels(path, flat)
    assert list(read_qrels(path)) == flat


def test_trec_beir_and_ms_marco_qrels_say_the_same(tmp_path):
    for text in (
        "1 0 a 2\n1 0 b -1\n",
        f"{BEIR}1\ta\t2\n1\tb\t-1\n".replace("\n", "\r\n"),
        "1\ta\t2\n1\tb\t-1\n",
        "1\t0\ta\t2\n1\t0\tb\t-1\n",
    ):
        assert list(read_qrels(written(tmp_path, text))) == [Qrel("1", "a", 2), Qrel("1", "b", -1)]


def test_a_document_has_one_grade_from_the_least_to_the_greatest(tmp_path):
    path = written(tmp_path, "1 0 a -32768\n1 0 b +0032767\n1 0 a -32768\n")
    assert load_qrels(read_qrels(path)) == {"1": {"a": -32768, "b": 32767}}
    with pytest.raises(FormatError, match="one grade for document a of query 1, 1 as before, got '2'"):
        load_qrels([Qrel("1", "a", 1), Qrel("1", "a", 2)])
    with pytest.raises(FormatError, match="from -32,768 to 32,767 for document c"):
        load_qrels([Qrel("1", "c", 2**32 + 1)])


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("1 0 a\n", 1, "qrels in a known format, got '1 0 a'"),
        ("1 0 a 1\n1 0 b\n", 2, "4 columns: qid iteration docno grade, got '1 0 b'"),
        (f"{BEIR}1 a 1\n", 2, "3 columns with tabs between: query-id corpus-id score, got '1 a 1'"),
        (f"{BEIR}1\ta b\t1\n", 2, "a docno that is not empty and has no blank, got 'a b'"),
        (f"{BEIR}\ta\t1\n", 2, "a qid that is not empty and has no blank, got ''"),
        ("1 0 a 1.5\n", 1, "a grade that is a whole number from -32,768 to 32,767, got '1.5'"),
        ("1 0 a 1_0\n", 1, "a grade that is a whole number from -32,768 to 32,767, got '1_0'"),
        ("1 0 a 1\n1 0 a 2\n", 2, "one grade for document a of query 1, 1 as before, got '2'"),
        (b"1 0 \xff 1\n", 1, "ids in UTF-8, got \"b'1 0 \\\\xff 1'\""),
    ],
)
def test_qrels_that_are_wrong_are_refused_by_line(tmp_path, text, line, said):
    assert refusal(read_qrels, written(tmp_path, text)).startswith(f"file:{line}: expected {said}")


TSV_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=8)


@given(st.dictionaries(IDS, TSV_TEXTS, max_size=5))
def test_topics_are_read_back_as_they_were(tmp_path_factory, topics):
    path = tmp_path_factory.mktemp("topics") / "topics"
    queries = [Query(*pair) for pair in topics.items()]
    with open_to_write(path) as file:
        file.writelines(f"{query.qid}\t{query.text}\n" for query in queries)
    assert list(read_topics(path, format="tsv")) == queries
    with open_to_write(path.with_suffix(".jsonl.gz")) as file:
        file.writelines(json.dumps({"_id": query.qid, "text": f"\n{query.text}"}) + "\n" for query in queries)
    assert [(query.qid, query.text[1:]) for query in read_topics(path.with_suffix(".jsonl.gz"))] == [
        *topics.items()
    ]


OUTLINE = "enwiki:Green%20tea/Brewing%20%26%20serving"
NINES = "9" * 5000
HALF = "whole characters, got 'half of a surrogate pair"
SGML = """<top>
<num> Number: 301
<title> Topic: International Organized
Crime &amp; AT&T

<desc> Description:
Identify <i>the</i> <b>organizations</b> of
Europe.

<narr> Narrative:
None.
</top>

<top><num>302</num><title>Poliomyelitis</title><desc></desc><narr>x</narr></top>
"""


LATER = """<?xml version="1.0"?>
<topics task="COVIDSearch" batch="1">
  <topic number="1">
    <query>coronavirus origin</query>
    <question>what is the origin of COVID-19</question>
    <narrative>seeking information</narrative>
  </topic>
  <topic number='2' type="faceted"><query>x &lt; y</query><description>d</description></topic>
</topics>
"""
JSON = """{"_id": "a", "text": "one"}
{"qid": 2, "query": "two"}
{"id": "c", "title": "three", "body": "four"}
"""
DOCUMENTS = """<DOC>
<DOCNO>
1
</DOCNO>
Which articles treat <time> sharing &amp; tapes,
and discs?
</DOC>

<doc>
<docno> 2 </docno>
 by <au>Doe</au>
</doc>
"""
CRIME = "International Organized Crime & AT&T"


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        (SGML, "", {"301": CRIME, "302": "Poliomyelitis"}),
        (SGML, "desc", {"301": "Identify the organizations of Europe.", "302": ""}),
        (SGML, "title+narr", {"301": f"{CRIME} None.", "302": "Poliomyelitis x"}),
        (LATER, "", {"1": "coronavirus origin", "2": "x < y"}),
        (LATER, "desc", {"1": "what is the origin of COVID-19", "2": "d"}),
        (DOCUMENTS, "", {"1": "Which articles treat sharing & tapes, and discs?", "2": "by Doe"}),
        (JSON, "", {"a": "one", "2": "two", "c": "three"}),
        (JSON.splitlines()[-1], "title+body", {"c": "three four"}),
        ("\ufeff2\t Androgen receptor define \r\n3\t\r\n", "", {"2": " Androgen receptor define ", "3": ""}),
        (f"{OUTLINE}\n", "", {OUTLINE: "Green tea Brewing & serving"}),
        (".I 001\n.W\nwhat is\nthis\n.I 4\n.W\nthat\n", "", {"1": "what is this", "4": "that"}),
        ('{"_id": "1", "text": "\\ud83d\\ude00 \\\\ud83d"}\n', "", {"1": "\U0001f600 \\ud83d"}),
        (f"<top><num>1<title>&#{NINES}; &#65;</top>", "", {"1": f"&#{NINES}; A"}),
    ],
    ids=[
        *("sgml", "desc", "title+narr", "later", "later desc", "documents", "json", "title+body"),
        *("tabs", "outline", "smart", "whole surrogate pair", "reference beyond unicode"),
    ],
)
def test_topics_have_fields_to_choose_from_and_texts_are_kept_as_they_stand(tmp_path, text, field, expected):
    queries = read_topics(written(tmp_path, text), *filter(None, [field]))
    assert list(queries) == [Query(*pair) for pair in expected.items()]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("what is this\n", 1, "topics in a known format, got 'what is this'"),
        ("1\tone\n2 two\n", 2, "2 columns with a tab between: qid text, got '2 two'"),
        ("1\tone\ttwo\n", 1, "2 columns with a tab between: qid text, got '1\\tone\\ttwo'"),
        ("1\tone\n\n1\ttwo\n", 3, "query 1 once, as on line 1"),
        ("a b\tone\n", 1, "a qid that is not empty and has no blank, got 'a b'"),
        ('{"_id": "1", "text": "x"}\n[]\n', 2, "a JSON object, got '[]'"),
        ('{"_id": "1", "text": 3}\n', 1, "a text as text or query or title or question, got"),
        ('{"_id": true, "text": "x"}\n', 1, "a qid as _id or qid or id or query_id, got"),
        ('{"text": "x"}\n', 1, "a qid as _id or qid or id or query_id, got"),
        ('{"_id": "1"\n', 1, "a JSON object (Expecting ',' delimiter: line 1 column 12 (char 11)), got"),
        ("<top>\n<num>1\n<title>x\n", 1, "</top> for the topic that begins here, before the file ends"),
        ("<top>\n<num>1\n<top>\n", 3, "</top> for the topic of line 1, got '<top>'"),
        ("</top>\n", 1, "<top> before </top>, got '</top>'"),
        ("<top>\n<num>1<title>x</top>\ny <top>\n", 3, "no text outside of <top> and </top>, got 'y'"),
        ("<top>\n<num>1\n</top>\n", 1, "a <title> in the topic that begins here"),
        ("<top>\n<title>x\n</top>\n", 1, "a <num> in the topic that begins here"),
        ("<top>\n<num>\n<title>x\n</top>\n", 1, "a qid that is not empty and has no blank, got ''"),
        (b"1\tcaf\xe9\n", 1, 'utf-8 text (for another encoding: encoding="latin-1"), got \'byte 0xe9 at'),
        ('{"_id": "1", "text": "\\ud83d"}\n', 1, f"{HALF}, U+D83D'"),
        ('{"_id": "1", "text": "\\ude00\\ud83d"}\n', 1, f"{HALF}, U+DE00'"),
        ('{"_id": "1", "text": "a", "text": "b"}\n', 1, "a JSON object (the key 'text' comes twice in one"),
        (f'{{"_id": "1", "text": {"[" * 100_000}\n', 1, "a JSON object (maximum recursion depth exceeded"),
        (f'{{"_id": {NINES}}}\n', 1, "a JSON object (Exceeds the limit (4300 digits)"),
        ("<DOC>\n1\n</DOC>\n", 1, "a <DOCNO> in the topic that begins here"),
        ("<DOC>\n<DOCNO>1</DOCNO>\n", 1, "</doc> for the topic that begins here"),
    ],
)
def test_topics_that_are_wrong_are_refused_by_line(tmp_path, text, line, said):
    assert refusal(read_topics, written(tmp_path, text)).startswith(f"file:{line}: expected {said}")


def test_a_format_that_is_not_known_and_a_field_where_there_are_none_are_errors(tmp_path):
    path = written(tmp_path, "1\tone\n")
    with pytest.raises(ValueError, match="one of trec, jsonl, smart, tsv, car, docs, got 'xml'"):
        list(read_topics(path, format="xml"))
    with pytest.raises(ValueError, match="in the format tsv have no fields, got field='desc'"):
        list(read_topics(path, "desc"))
    path.write_text("\n")
    assert [*read_topics(path)] == [*read_qrels(path)] == [*read_run(path)] == []


@pytest.mark.parametrize("ending", PACKED)
def test_the_name_says_how_a_file_is_packed_and_the_same_text_gives_the_same_bytes(tmp_path, ending):
    paths = [tmp_path / f"{name}{ending}" for name in ("one", "two")]
    for path in paths:
        with open_to_write(path) as file:
            file.write("é\r\nb")
        assert PACKED[ending](path.read_bytes()) == b"\xc3\xa9\r\nb"
        assert list(numbered_lines(path)) == [(1, "é"), (2, "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert list(numbered_lines(written(tmp_path, b"\xe9"), "latin-1")) == [(1, "é")]


def test_a_failed_write_leaves_what_was_there_and_another_goes_through_a_link(tmp_path):
    path = written(tmp_path, "before")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(ZeroDivisionError), open_to_write(path) as file:
        file.write(f"after {1 / 0}")
    with pytest.raises(UnicodeEncodeError), open_to_write(tmp_path / "link") as file:
        file.write("\ud800")
    assert path.read_text() == "before"
    assert set(tmp_path.iterdir()) == {path, tmp_path / "link"}
    with open_to_write(tmp_path / "link") as file:
        file.write("after")
    assert (tmp_path / "link").is_symlink()
    assert path.read_text() == "after"
    missing = tmp_path / "none" / "deeper" / "run"
    with pytest.raises(FileNotFoundError) as caught, open_to_write(missing):
        pass
    assert caught.value.filename == str(missing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_is_written_itself_and_a_full_one_is_an_error():
    with open_to_write(os.devnull) as file:
        file.write("x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    for length in (1, 100_000):
        with pytest.raises(OSError, match="No space left"), open_to_write("/dev/full") as file:
            file.write("x" * length)


@pytest.mark.parametrize("name", ["f.gz", "f.xz"])
def test_a_packed_file_that_is_cut_is_an_error_that_names_it(tmp_path, name):
    with open_to_write(tmp_path / name) as file:
        file.write("1 Q0 a 1 2 t\n" * 1000)
    cut = written(tmp_path, (tmp_path / name).read_bytes()[:-6], f"cut-{name}")
    assert refusal(read_run, cut).startswith(f"cut-{name}: expected a whole .{name[2:]} file")
    plain = written(tmp_path, "plain text", f"plain-{name}")
    assert refusal(numbered_lines, plain).startswith(f"plain-{name}: expected a whole .{name[2:]} file")


def test_a_dash_is_standard_input_and_output(monkeypatch, capfdbinary):
    stdin = io.TextIOWrapper(io.BytesIO(b"1 Q0 a 1 2 t\r\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    rankings = list(read_run("-"))
    write_run("-", rankings)
    write_qrels("-", [Qrel("1", "é", 1)])
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == "1 Q0 a 1 2.0 telerank\n1 0 é 1\n".encode()
    assert list(numbered_lines("-")) == []
    assert not stdin.closed
    assert not sys.stdout.closed


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "count", "queries", "first"),
    [
        ("topics-qrels/qrels.robust04.txt.gz", 311_410, 249, Qrel("301", "FBIS3-10082", 1)),
        ("topics-qrels/qrels.msmarco-passage.dev-subset.txt.gz", 7_437, 6_980, Qrel("300674", "7067032", 1)),
        ("topics-qrels/qrels.dl19-doc.txt.gz", 16_258, 43, Qrel("19335", "D1035833", 0)),
        ("topics-qrels/qrels.car17v2.0.benchmarkY1test.txt.gz", 6_192, 2_254, None),
        ("vaswani/qrels", 2_083, 93, Qrel("1", "1239", 1)),
    ],
)
def test_real_qrels_are_read_whole(data, name, count, queries, first):
    qrels = list(read_qrels(data / name))
    assert (len(qrels), len(load_qrels(qrels))) == (count, queries)
    assert first is None or qrels[0] == first


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "count", "first", "last"),
    [
        ("topics-qrels/topics.robust04.txt.gz", 250, Query("301", "International Organized Crime"), Query("700", "gasoline tax U.S.")),
        ("topics-qrels/topics.msmarco-passage.dev-subset.txt.gz", 6_980, Query("1048585", "what is paula deen's brother"), Query("1048565", "who plays sebastian michaelis")),
        ("topics-qrels/topics.dl19-passage.txt.gz", 43, Query("156493", "do goldfish grow"), Query("146187", "difference between a mcdouble and a double cheeseburger")),
        ("topics-qrels/topics.dl20.txt.gz", 200, Query("1030303", "who is aziz hashim"), Query("132622", "definition of attempted arson")),
        ("topics-qrels/topics.car17v2.0.benchmarkY1test.txt.gz", 2_254, Query("enwiki:Aftertaste", "Aftertaste"), Query("enwiki:Yellowstone%20National%20Park/Recreation", "Yellowstone National Park Recreation")),
        ("scifact/queries.jsonl", 1_109, Query("0", "0-dimensional biomaterials lack inductive properties."), Query("1407", "β1/Ketel is able to bind microtubules.")),
        ("cranfield/cran.qry.xml", 225, Query("1", "what similarity laws must be obeyed when constructing aeroelastic models of heated high speed aircraft ."), Query("365", "what design factors can be used to control lift-drag ratios at mach numbers above 5 .")),
        ("vaswani/query-text.trec", 93, Query("1", "MEASUREMENT OF DIELECTRIC CONSTANT OF LIQUIDS BY THE USE OF MICROWAVE TECHNIQUES"), Query("93", "HIGH FREQUENCY OSCILLATORS USING TRANSISTORS THEORETICAL TREATMENT AND PRACTICAL CIRCUIT DETAILS")),
    ],
)  # fmt: skip
def test_real_topics_are_read_whole(data, name, count, first, last):
    queries = list(read_topics(data / name))
    assert (len(queries), queries[0], queries[-1]) == (count, first, last)
    if "robust04" in name:
        fields = {field: list(read_topics(data / name, field)) for field in ("desc", "narr", "title+desc")}
        assert all(query.text for topics in fields.values() for query in topics)
        assert fields["desc"][0].text.startswith(
            "Identify organizations that participate in international cri"
        )


UNTIDY = """1\tQ0\ta\t1\t2.5\trunA more junk at the end
2\tQ0\tc\t1\t21.4567891230\trunA
1\tQ0\tb\t2\t2.5\trunA
# 2\tQ0\tx\t1\t99\trunA
2\tQ0\te\t2\t21.4567891234\trunA
"""


def test_a_run_that_only_trec_eval_reads_is_read_with_one_warning_for_each_deviation(tmp_path):
    path = written(tmp_path, UNTIDY)
    with pytest.warns(FormatWarning) as warned:
        first, second = read_run(path, strict=False)
    assert list(first) == [("b", 2.5), ("a", 2.5)]
    assert list(second) == [("e", 21.4567891234), ("c", 21.4567891230)]
    assert [str(warning.message) for warning in warned] == [
        f"{path}:3: the lines of a query are not together: the run is sorted, as by trec_eval",
        f"{path}:1: more than 6 columns: the others are ignored, as by trec_eval",
        f"{path}:4: a comment (trec_eval 10.0; earlier versions refuse it)",
    ]
    path = written(tmp_path, "".join(f"{i} Q0 a 1 2 t x\n" for i in range(1000)))
    with pytest.warns(FormatWarning, match=r"file:1: more than 6 columns.* \(and 999 more\)"):
        assert len(list(read_run(path, strict=False))) == 1000


def test_qrels_that_only_trec_eval_reads_are_read_with_warnings(tmp_path):
    text = "# judged by two people\n1 0 a 1\n1 0 b 0 # unsure\n2 0 c 2.0\n3 0 d -0.5\n"
    path = written(tmp_path, text)
    with pytest.warns(FormatWarning) as warned:
        qrels = load_qrels(read_qrels(path, strict=False))
    assert qrels == {"1": {"a": 1, "b": 0}, "2": {"c": 2}, "3": {"d": 0}}
    assert [str(warning.message) for warning in warned] == [
        f"{path}:1: a comment (trec_eval 10.0; earlier versions refuse it) (and 1 more)",
        f"{path}:4: a grade with decimals is cut, as trec_eval reads it (and 1 more)",
    ]
    with pytest.raises(FormatError, match=r"file:1: expected 4 columns: .*; comments are refused"):
        list(read_qrels(path))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1 1 a 2\n", "1: expected 4 columns: .*; preferences .* are not read"),
        ("1 map 0.25 0.1\n", "1: expected 4 columns: .*; z-scores .* are not read"),
        ("1 x a 1\n1 y a 0\n", r"2: expected one grade .* 1 as before \(judgment groups are not.*, got '0'"),
        *(
            (f"1 0 a {grade}\n", f"1: expected a grade .* from -32,768 to 32,767, got '{grade[:4]}")
            for grade in ("32768", "-32769", "4294967297", NINES)
        ),
    ],
)
def test_other_formats_of_trec_eval_and_grades_beyond_the_limits_are_refused(tmp_path, text, said, strict):
    with pytest.raises(FormatError, match=f"file:{said}"):
        list(read_qrels(written(tmp_path, text), strict=strict))


@pytest.mark.parametrize(
    ("read", "text", "nearest"),
    [
        (read_qrels, "1,0,a,1\n", ["trec: its first line has 1 column, not 4", "beir: "]),
        (read_qrels, "1 a 1\n", ["beir: its first line does not have two tabs", "trec: "]),
        (read_qrels, "1 Q0 a 1 2.5 x\n", ["trec: qid, Q0, docno, rank, score, tag are a run", "beir: "]),
        (read_topics, "1 what\n", ["tsv: its first line has no tab", "trec: "]),
        (read_topics, "[1]\n", ["car: its first line is not an outline path: no slash", "trec: "]),
    ],
)
def test_qrels_and_topics_of_no_format_name_the_two_nearest(tmp_path, read, text, nearest):
    with pytest.raises(FormatError, match="in a known format, got") as refused:
        list(read(written(tmp_path, text)))
    *notes, last = refused.value.__notes__
    assert len(notes) == 2
    assert all(note.startswith(f"not {start}") for note, start in zip(notes, nearest, strict=True))
    assert last == "all formats: telerank data ls"
