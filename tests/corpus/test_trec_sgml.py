from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection
from telerank.corpus.readers.trec_sgml import read_docs, strip_markup
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Qrel, Query

FINANCIAL_TIMES = """<DOC>
<DOCNO>FT911-3</DOCNO>
<PROFILE>_AN-BEOA7AAIFT</PROFILE>
<DATE>910514</DATE>
<HEADLINE>
FT  14 MAY 91 / International Company News: AT&amp;T plans
project
</HEADLINE>
<BYLINE>By A WRITER</BYLINE>
<TEXT>
The first line.
The second, of &pound;3bn &amp; more.
</TEXT>
<PUB>The Financial Times</PUB>
</DOC>
"""
LA_TIMES = """<DOC>
<DOCNO> LA010189-0001 </DOCNO>
<DATE><P>January 1, 1989, Sunday, Home Edition</P></DATE>
<HEADLINE>
<P>
NEW FALLOUT;
</P>
<P>
A SECOND DECK
</P>
</HEADLINE>
<TEXT>
<P>
The onset of the &quot;new&quot; age.
</P>
<P>
It went on.
</P>
</TEXT>
<GRAPHIC><P>Photo, caption</P></GRAPHIC>
</DOC>
"""
FBIS = """<DOC>
<DOCNO> FBIS3-1 </DOCNO>
<HT>  "drweu048__a94009" </HT>
<HEADER>
<DATE1>  1 March 1994 </DATE1>
Article Type:FBIS
<H3> <TI>      OPINION POLLS ON
   PARTIES </TI></H3>
</HEADER>

<TEXT>
Language: <F P=105> English </F>
Article Text.
</TEXT>
</DOC>
"""
FEDERAL_REGISTER = """<DOC>
<DOCNO> FR940104-0-00001 </DOCNO>
<PARENT> FR940104-0-00001 </PARENT>
<TEXT>

<!-- PJG FTAG 4700 -->

<!-- PJG ITAG l=90 g=1 f=1 -->
Federal&blank;Register, &sect; 1.1 anti&hyph;dumping &unheard; &#38;
<!-- PJG /ITAG -->
</TEXT>
</DOC>
"""
EMPTY = "<DOC><DOCNO>1</DOCNO></DOC>"


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FINANCIAL_TIMES, Doc("FT911-3", "The first line.\nThe second, of £3bn & more.",
                              "FT 14 MAY 91 / International Company News: AT&T plans project")),
        (FBIS, Doc("FBIS3-1", "Language:   English  \nArticle Text.", "OPINION POLLS ON PARTIES")),
        (LA_TIMES, Doc("LA010189-0001", 'The onset of the "new" age.\n \n \nIt went on.', "NEW FALLOUT; A SECOND DECK")),
        (FEDERAL_REGISTER, Doc("FR940104-0-00001", "Federal Register, § 1.1 anti-dumping &unheard; &")),
        ("<DOC><DOCNO>a</DOCNO><HL>H</HL><LP>lead</LP><TEXT>one</TEXT><TEXT>two</TEXT></DOC>",
         Doc("a", "lead\none\ntwo", "H")),
        ("<?xml version='1.0'?>\n<root><doc id='7'><docno>a</docno>loose &amp; text</doc></root>\n<!-- end -->\x1a",
         Doc("a", "loose & text")),
        ("<DOC><DOCNO>b</DOCNO></DOC>", Doc("b", "")),
    ],
    ids=["ft", "fbis", "la times", "register", "several texts", "small letters", "empty"],
)  # fmt: skip
def test_a_document_gives_its_headline_and_text_alone(tmp_path, source, expected):
    assert list(read_docs(write(tmp_path / "x", source))) == [expected]


def test_the_tree_of_the_disks_is_walked_and_its_notes_passed_over(tmp_path):
    write(tmp_path / "disk4" / "FT" / "FT911" / "FT911_1", FINANCIAL_TIMES)
    write(tmp_path / "disk4" / "FT" / "READMEFT", "About the files.")
    write(tmp_path / "disk4" / "DTDS" / "FT.DTD", "<!ELEMENT DOC>")
    write(tmp_path / "disk5" / "FBIS" / "FB396001", FBIS)
    write(tmp_path / "disk5" / "LATIMES" / "LA010189.gz", gzip.compress(LA_TIMES.encode()))
    write(tmp_path / "topics.robust04.txt", "<top>\n<num> Number: 301\n<title> Crime\n</top>\n")
    write(tmp_path / "qrels.robust04.txt", "301 0 FBIS3-1 1\n")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("trec", ("robust04",))
    assert [doc.docno for doc in collection.docs()] == ["FT911-3", "FBIS3-1", "LA010189-0001"]
    assert list(collection.split_queries()) == [Query("301", "Crime")]
    assert list(collection.split_qrels()) == [Qrel("301", "FBIS3-1", 1)]


@pytest.mark.parametrize("name", ["FT911_1.z", "FT911_1.Z", "FR940104.0z"])
def test_files_of_compress_are_refused_with_the_way_out(tmp_path, name):
    write(tmp_path / "FT" / name, b"\x1f\x9d\x90rest")
    said = rf"{name}: packed by compress .* gzip -d -r -S \{Path(name).suffix} .*FT$"
    with pytest.raises(CollectionError, match=said):
        list(open_collection(tmp_path).docs())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b and c > d", "a < b and c > d"),
        ("5<6", "5<6"),
        ("a <b>bold</b> word", "a  bold  word"),
        ("x <!-- a > b --> y", "x   y"),
        ("&lt;P&gt; &copy &AMP; &#xe9; &#233;", "<P> &copy & é é"),
        ("R&D; AT&T", "R&D; AT&T"),
    ],
)
def test_tags_and_entities_of_a_text(text, expected):
    assert strip_markup(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<DOC>\n<DOCNO>1</DOCNO>\n<DOC>\n", ":3: expected </DOC> for the document of line 1"),
        ("\n<DOC>\n<DOCNO>1</DOCNO>\n", ":2: expected </DOC> for the document that begins here"),
        (f"{EMPTY}\n</DOC>\n", ":2: expected <DOC>"),
        ("<DOC>\n</DOC>\n", ":1: expected one <DOCNO> in the document that begins here, got '0'"),
        ("<DOC><DOCNO>1</DOCNO><DOCNO>2</DOCNO></DOC>", ":1: expected one <DOCNO>"),
        (f"{EMPTY}\nlost words\n<DOC>", ":3: expected nothing but <DOC> … </DOC>, got 'lost words'"),
        (f"{EMPTY}\nlost words\n", ": expected nothing but <DOC> … </DOC>, got 'lost words'"),
    ],
)
def test_documents_that_do_not_pair_are_named_by_line(tmp_path, text, message):
    with pytest.raises(FormatError) as caught:
        list(read_docs(write(tmp_path / "x", text)))
    assert f"x{message}" in str(caught.value)


def test_a_byte_of_another_encoding_is_named_by_line(tmp_path):
    text = "<DOC>\n<DOCNO>1</DOCNO>\nplain\ncaf\u00e9 au lait\n</DOC>\n"
    path = write(tmp_path / "x", text.encode("latin-1"))
    said = "x:4: expected utf-8 text .* got 'byte 0xe9 at position 4 of the line'"
    with pytest.raises(FormatError, match=said):
        list(read_docs(path))
    assert [doc.text for doc in open_collection(path, encoding="latin-1").docs()] == ["plain\ncafé au lait"]


def test_several_topics_files_are_splits_by_name(tmp_path):
    write(tmp_path / "docs.trec", "<DOC><DOCNO>1</DOCNO>x</DOC>")
    for name in ("one", "two"):
        write(tmp_path / f"topics.{name}.txt", f"<top>\n<num>1\n<title>{name}\n</top>\n")
    write(tmp_path / "qrels.two.txt", "1 0 1 1\n")
    collection = open_collection(tmp_path)
    assert collection.splits == ("one", "two")
    assert list(collection.split_queries("two")) == [Query("1", "two")]
    assert list(collection.qrels) == ["two"]
    write(tmp_path / "topics.two.trec", "<top>\n<num>1\n<title>twice\n</top>\n")
    with pytest.raises(CollectionError, match="a second file for the split 'two'"):
        open_collection(tmp_path)


@pytest.mark.data
def test_vaswani_holds_what_the_readme_states(data):
    collection = open_collection(data / "vaswani")
    docs = list(collection.docs())
    assert (collection.format, len(docs)) == ("trec", 11_429)
    assert docs[0].docno == "1"
    assert docs[0].text.startswith("compact memories have flexible capacities  a digital data storage\nsys")
    assert docs[9] == Doc("10", "highspeed microwave switching of semiconductors part")
    assert docs[-1].docno == "11429"
    assert docs[-1].text.endswith("reading handlettered sansserif alphanumeric characters")
    queries = {query.qid for query in collection.split_queries()}
    assert {qrel.qid for qrel in collection.split_qrels()} <= queries


@pytest.mark.data
def test_cranfield_holds_what_the_readme_states_with_queries_numbered_by_position(data):
    collection = open_collection(data / "cranfield")
    docs, queries = list(collection.docs()), list(collection.split_queries())
    assert (collection.format, collection.size, len(docs)) == ("cranfield", 1400, 1400)
    assert docs[0].title == "experimental investigation of the aerodynamics of a wing in a slipstream ."
    assert docs[-1].docno == "1400"
    assert docs[-1].text.endswith("graphical forms .")
    assert [doc.docno for doc in docs if not doc.full_text] == ["471", "995"]
    assert (len(queries), queries[0].qid, queries[-1].qid) == (225, "1", "225")
    assert queries[-1].text.startswith("what design factors can be used to control lift-drag ratios")
    qrels = list(collection.split_qrels())
    assert (len(qrels), qrels[0], qrels[-1]) == (1837, Qrel("1", "184", 1), Qrel("225", "1188", 0))
    assert {qrel.qid for qrel in qrels} == {query.qid for query in queries}
