"""Judged questions in CSV files and sheets, as spreadsheets write them, are a collection wherever one is named."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

import telerank as tr
from commands import ok, refusal, typed
from telerank.errors import CollectionError, FormatError, FormatWarning

ROWS = [
    ["Question", "Fichier", "Note", "remarque"],
    ["Où jeter l’amiante ?", "my notes.txt", "2", 'é; "x",\n\tà'],
    ["", "tri#eau-0123abcd", "0", ""],
    ["Quels\nhoraires ?", "guide.pdf", "oui", ""],
]
JUDGED = {
    "Où jeter l’amiante ?": {"my%20notes.txt": 2, "tri#eau-0123abcd": 0},
    "Quels horaires ?": {"guide.pdf": 1},
}


def csv_text(rows: list[list[str]], sign: str, end: str = "\r\n") -> str:
    def cell(text: str) -> str:
        quoted = text.replace('"', '""')
        return f'"{quoted}"' if any(one in text for one in f'{sign}"\n\r') else text

    return "".join(sign.join(map(cell, row)) + end for row in rows)


def judged(path: Path) -> dict[str, dict[str, int]]:
    collection = tr.collection(path)
    assert (collection.format, collection.splits) == ("judged", ("all",))
    texts = {query.qid: query.text for query in collection.split_queries()}
    return {texts[qid]: dict(grades) for qid, grades in collection.judged().items()}


@pytest.mark.parametrize("sign", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("before", ["", "sep=?\r\n", "\r\n"])
def test_separators_encodings_and_headers_of_spreadsheets(tmp_path, sign, encoding, before):
    text = before.replace("?", sign) + csv_text(ROWS, sign)
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    file = tmp_path / ("questions.txt" if encoding == "utf-16" else "questions.csv")  # "Unicode text"
    file.write_bytes(f"{mark}{text}".encode(encoding))
    if encoding == "cp1252":
        with pytest.warns(FormatWarning, match="not UTF-8; read as Windows-1252"):
            assert judged(file) == JUDGED
    else:
        assert judged(file) == JUDGED


@pytest.mark.parametrize(
    "header",
    [
        "question,document,grade",
        " Query , DocNo,Relevance",
        "requête,fichier,pertinence",
        "REQUÊTE,file,label",
    ],
)
def test_columns_have_english_and_french_names_in_any_order(tmp_path, header):
    file = tmp_path / "qrels.csv"  # which is no file of qrels in columns
    rows = [header.split(","), ["q", "d", "1,0"], ["r", "d", "-1"]]
    file.write_text(csv_text(rows, ";", "\n"))
    assert judged(file) == {"q": {"d": 1}, "r": {"d": -1}}
    file.write_text(csv_text([row[::-1][1:] for row in rows], "\t", "\r"))
    assert judged(file) == {"q": {"d": 1}, "r": {"d": 1}}
    file.write_text(csv_text(rows, ";"), encoding="cp1252")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        assert judged(file) == {"q": {"d": 1}, "r": {"d": -1}}


def xlsx(path: Path, sheets: dict[str, list[list[str]]], first: int = 1) -> None:
    """A workbook as Excel writes it, with texts in their cells."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    documents = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    numbers = range(1, len(sheets) + 1)
    names = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in zip(numbers, sheets, strict=True)
    )
    links = "".join(
        f'<Relationship Id="r{n}" Type="{documents}/worksheet" Target="worksheets/s{n}.xml"/>'
        for n in numbers
    )
    start = f'<Relationship Id="r" Type="{documents}/officeDocument" Target="xl/workbook.xml"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        file.writestr(
            "_rels/.rels", f'<Relationships xmlns="{package}/relationships">{start}</Relationships>'
        )
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{documents}"><sheets>{names}</sheets></workbook>',
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{links}</Relationships>',
        )
        for n, rows in zip(numbers, sheets.values(), strict=True):
            cells = "".join(_xlsx_row(number, row) for number, row in enumerate(rows, first))
            file.writestr(
                f"xl/worksheets/s{n}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
            )


def _xlsx_row(number: int, row: list[str]) -> str:
    cells = "".join(
        f'<c r="{chr(65 + n)}{number}"><v>{text}</v></c>'
        if text.isdecimal()
        else f'<c r="{chr(65 + n)}{number}" t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'
        for n, text in enumerate(row)
        if text
    )
    return f'<row r="{number}">{cells}</row>'


def ods(path: Path, rows: list[list[str]]) -> None:
    """A sheet as LibreOffice writes it, with the empty rest of the sheet as repeated cells."""
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    cells = "".join(
        "<table:table-row>" + "".join(_ods_cell(text) for text in row) + "</table:table-row>" for row in rows
    )
    rest = '<table:table-row table:number-rows-repeated="1048570"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    body = f'<office:body><office:spreadsheet><table:table table:name="A">{cells}{rest}</table:table></office:spreadsheet></office:body>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet", zipfile.ZIP_STORED)
        file.writestr("META-INF/manifest.xml", "<manifest/>")
        file.writestr("content.xml", f"<office:document-content{spaces}>{body}</office:document-content>")


def _ods_cell(text: str) -> str:
    if text.isdecimal():
        return f'<table:table-cell office:value-type="float" office:value="{text}"><text:p>{text}</text:p></table:table-cell>'
    lines = "".join(f"<text:p>{escape(line)}</text:p>" for line in text.split("\n"))
    return (
        f'<table:table-cell office:value-type="string">{lines}</table:table-cell>'
        if text
        else "<table:table-cell/>"
    )


def test_sheets_are_read_alike_and_of_several_the_first_with_the_columns(tmp_path):
    pytest.importorskip("python_calamine")
    xlsx(tmp_path / "q.xlsx", {"notes": [["a", "b"]], "judged": ROWS})
    ods(tmp_path / "q.ods", ROWS)
    assert judged(tmp_path / "q.xlsx") == judged(tmp_path / "q.ods") == JUDGED
    xlsx(tmp_path / "bad.xlsx", {"judged": [*ROWS, ["q", "", "1"]]}, first=4)
    with pytest.raises(FormatError, match=r"bad\.xlsx:8: expected a document, got 'q; ; 1'"):
        judged(tmp_path / "bad.xlsx")
    xlsx(tmp_path / "other.xlsx", {"notes": [["a", "b"]]})
    with pytest.raises(
        FormatError,
        match="expected a sheet with a first row that names question and document, or qid, document and grade, got 'notes'",
    ):
        judged(tmp_path / "other.xlsx")


def test_hostile_sheets_are_refused_within_bounds(tmp_path):
    pytest.importorskip("python_calamine")
    broken = tmp_path / "broken.xlsx"
    broken.write_bytes(b"PK\x03\x04" + bytes(100))
    bomb = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/s1.xml", "")
        file.infolist()[0].file_size = 600 << 20  # as its directory says
    wide = tmp_path / "wide.xlsx"
    xlsx(wide, {"a": [["question", "document"]]})
    with zipfile.ZipFile(wide) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    far = parts["xl/worksheets/s1.xml"].replace(
        b"</sheetData>", b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    )
    with zipfile.ZipFile(wide, "w") as file:
        for name, content in (parts | {"xl/worksheets/s1.xml": far}).items():
            file.writestr(name, content)
    repeated = tmp_path / "repeated.ods"
    ods(repeated, [["question", "document"]])
    with zipfile.ZipFile(repeated) as file:
        content = file.read("content.xml").replace(
            b'repeated="16384"/>', b'repeated="16384" office:value-type="float" office:value="1"/>'
        )
    with zipfile.ZipFile(repeated, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", "<manifest/>")
        file.writestr("content.xml", content)
    for path, reason in ((broken, ""), (bomb, "unpacks to more than 512 MiB"), (wide, ""), (repeated, "")):
        with pytest.raises(FormatError, match=rf"{path.name}: expected a spreadsheet \(.*{reason}"):
            judged(path)


def test_blanks_in_the_name_of_a_file_count(tmp_path):
    """Not those around it."""
    (tmp_path / "docs").mkdir()
    for name in ("a  b.md", "a\u00a0b.md", "a b.md"):
        (tmp_path / "docs" / name).write_text(f"Le texte de {name!r}.")
    index = tr.index(tmp_path / "docs", tmp_path / "idx", workers=1)
    names = sorted(doc.file for doc in index.docs.values())
    rows = "".join(f"question {n}; {name} ;{n}\n" for n, name in enumerate(names, 1))
    (tmp_path / "q.csv").write_text(f"question;file;grade\n{rows}")
    grades = tr.collection(tmp_path / "q.csv").judged().values()
    assert {docno: n for own in grades for docno, n in own.items()} == {
        doc.docno: names.index(doc.file) + 1 for doc in index.docs.values()
    }


@pytest.mark.parametrize("header", ["Frage;Document", "question|document", "Question posée;Fichier"])
def test_a_table_that_is_not_read_is_told_what_its_columns_may_be_called(tmp_path, monkeypatch, header):
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text(f"{header}\r\na;b\r\n", encoding="utf-8")
    printed = typed("data ls q.csv")
    assert f"no known collection format; its first line is '{header}'\n" in printed.stderr
    what = "its first row, separated by commas, semicolons or tabs, has no column question (or questions, query, "
    assert f"not judged: {what}requête, recherche)" in printed.stderr
    assert ("no column document (or " in printed.stderr) == ("|" in header)


def test_qrels_may_be_given_by_that_name_to_all_that_measures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"guide.pdf#1": "la collecte du verre", "guide.pdf#2": "horaires", "my%20notes.txt": "amiante"}
    index = tr.index(texts, "idx", analyzer="french", workers=1)
    Path("judged.csv").write_text(csv_text(ROWS, ";"), encoding="utf-8-sig")
    for name in ("a.run", "b.run"):
        ok(f"search idx judged.csv -o {name}")
    for command in ("evaluate", "compare", "combine"):
        expected = ok(f"{command} judged.csv a.run b.run -m RR").stdout
        for given in ("--qrels judged.csv a.run b.run", "a.run b.run --qrels=judged.csv"):
            assert ok(f"{command} {given} -m RR").stdout == expected
        assert "Error: Option '--qrels' requires an argument." in typed(f"{command} a.run --qrels").stderr
        assert "Missing argument 'RUN...'" in typed(f"{command} --qrels judged.csv").stderr
    tuned = ok("tune idx judged.csv --folds 2 -m RR").stdout
    assert ok("tune --qrels judged.csv idx --folds 2 -m RR").stdout == tuned
    assert ok("tune idx --folds 2 -m RR --qrels=judged.csv").stdout == tuned
    systems = {"bm25": index.bm25()}
    result = tr.experiment(systems, qrels="judged.csv", measures="RR nDCG")
    same = tr.experiment(systems, "judged.csv", "judged.csv", measures="RR nDCG")
    assert result.evaluations["bm25"].mean == same.evaluations["bm25"].mean
    ids = [query.qid for query in tr.collection("judged.csv").split_queries()]
    Path("topics.tsv").write_text("".join(f"{qid}\tamiante\n" for qid in ids))
    other = tr.experiment(systems, "topics.tsv", "judged.csv", measures="RR")
    assert other.evaluations["bm25"].mean == {"RR": 0.5}  # of a file each, and one query finds the other
    with pytest.raises(
        CollectionError, match=r"no query is judged by judged\.csv, whose qids are such as .*, not 'q9'"
    ):
        tr.experiment(systems, {"q9": "amiante"}, "judged.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("q,d,x", r":2: expected a grade: a whole number, or yes or no, got 'x'"),
        ("q,d,", r":2: expected a grade"),
        ("q,d,1.5", r":2: expected a grade"),
        ("q,d,99999", r":2: expected a grade"),
        (",d,1", r":2: expected a question, got '; d; 1'"),
        ('"a\nb",d,1\nq,,1', r":4: expected a document, got 'q; ; 1'"),
        ("q,d,1\n\nq,d,2", r":4: expected the grade of d as in row 2, 1, got '2'"),
        ("a, b,d,1", r":2: expected 3 columns as in the header"),
        ('q,"d,1', r":2: expected CSV \("),
    ],
)
def test_a_bad_row_is_one_line_with_file_and_row(tmp_path, rows, message):
    (tmp_path / "q.csv").write_text(f"question,document,grade\n{rows}\n")
    with pytest.raises(FormatError, match=f"q.csv{message}"):
        judged(tmp_path / "q.csv")


def test_a_table_of_judged_questions_is_a_collection_for_every_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"guide.pdf#1": "la collecte du verre", "guide.pdf#2": "horaires", "my%20notes.txt": "amiante"}
    tr.index(texts, "idx", analyzer="french", workers=1)
    Path("questions.csv").write_text(csv_text(ROWS, ";"), encoding="utf-8-sig")
    ok("search idx --queries questions.csv -o topics.run")
    assert Path("topics.run").read_text().split()[0].startswith("ou-jeter-l-amiante-")
    errors = ok("search idx questions.csv -o some.run").stderr
    assert "1 of 3 documents judged in questions.csv is not in" in errors
    assert "1 of 3 documents judged in questions.csv is a file" in errors
    printed = ok("evaluate questions.csv some.run -m RR")
    assert "1.0000" in printed.stdout
    assert "1 judgment is of a file" in printed.stderr
    assert "judged" in ok("data ls questions.csv").stdout
    assert "3 pairs of a question and a document: 2 relevant" in ok("data stats questions.csv").stdout
    Path("other.run").write_bytes(Path("some.run").read_bytes())
    assert "1.0000" in ok("compare questions.csv some.run other.run -m RR").stdout
    assert "tuned: bm25" in ok("tune idx questions.csv --folds 2 -m RR").stdout
    result = tr.experiment({"bm25": tr.open("idx").bm25()}, "questions.csv", measures="RR")
    assert result.evaluations["bm25"].mean == {"RR": 1}
    with pytest.raises(CollectionError, match="has only judged questions: no documents"):
        tr.index("questions.csv", "other")
    Path("q.csv").write_text("question,answer\n1,2\n")
    assert "no known collection format" in refusal("data ls q.csv")
