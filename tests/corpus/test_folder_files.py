from __future__ import annotations

import datetime as dt
import gzip
import io
import os
import zipfile
import zlib
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("docx")
pytest.importorskip("trafilatura")
pytest.importorskip("markdown_it")

from telerank.corpus.formats import open_collection
from telerank.corpus.readers.files.folder import FileContents, FolderFiles
from telerank.corpus.readers.files.text import FileLimits, Problem, UnreadableFile
from telerank.corpus.readers.files.word import read_docx
from telerank.errors import CollectionError, UnreadFiles
from telerank.types import Doc, Location

MADE = Path(__file__).parent / "made_documents"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # of the files of old programs, and of encrypted ones
LONG = "Le service répond aux questions des habitants. " * 60


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def read(folder: Path, limits: FileLimits | None = None, **settings) -> dict[str, FileContents]:
    files = FolderFiles(folder, limits=limits or FileLimits(), processes=1, words=200, **settings)
    return {contents.name: contents for contents in files.read(files.scan())}


def problems(folder: Path, **settings) -> dict[str, tuple[str, str]]:
    contents = read(folder, **settings)
    return {
        name: (own.record.problem, own.record.reason) for name, own in contents.items() if own.record.problem
    }


def pdf(stream: bytes) -> bytes:
    """A PDF file of one page; PDFium finds the objects without a table of them."""
    packed = zlib.compress(stream, 9)
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 100000]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(packed), packed),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body = b"".join(b"%d 0 obj%s endobj\n" % (n, text) for n, text in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>"


def test_files_of_all_kinds_are_documents_or_passages_with_their_file_and_page(tmp_path):
    write(
        tmp_path,
        {
            "a b%.md": "# Titre\n\nun texte",
            "notes/long.txt": LONG,
            "c.PDF": pdf(b"BT /F 12 Tf 50 700 Td (Une page) Tj ET"),
            "d.docx": (MADE / "budget.docx").read_bytes(),
            "e.htm": "<p>une page</p>",
            ".hidden/x.md": "non",
            "picture.png": b"\x89PNG",
        },
    )
    collection = open_collection(tmp_path)
    assert (collection.format, collection.unread) == ("documents", ("picture.png",))
    docs = {doc.docno: doc for doc in collection.docs()}
    assert list(docs) == [
        "a%20b%25.md",
        "c.PDF",
        "d.docx",
        "e.htm",
        "notes/long.txt#le-service-repond-aux-bc9ec1c1",
        "notes/long.txt#le-service-repond-aux-bc9ec1c1-2",
        *list(docs)[-1:],
    ]
    assert docs["a%20b%25.md"].title == "Titre"
    assert docs["a%20b%25.md"].locate() == Location("a b%.md", heading="Titre")
    assert docs["c.PDF"].locate() == Location("c.PDF", 1, 1)
    assert " ".join(doc.text for doc in docs.values() if doc.file == "notes/long.txt") == LONG.strip()
    assert list(docs.values()) == list(collection.docs())  # each call starts again


def test_whole_documents_and_a_folder_of_plain_texts_are_not_cut(tmp_path):
    write(tmp_path, {"long.txt": LONG, "README.md": "# x"})
    today = {"modified": dt.datetime.now(dt.UTC).date()}
    for form in ("whole-documents", "folder", None):
        collection = open_collection(tmp_path, **({"format": form} if form else {}))
        assert collection.format == (form or "folder")
        assert list(collection.docs())[1] == Doc("long.txt", LONG, file="long.txt", columns=today)
    assert next(collection.docs()) == Doc("README.md", "# x", file="README.md", columns=today)


def test_text_and_markdown_may_be_packed_and_have_other_encodings(tmp_path):
    write(tmp_path, {"a.md.gz": gzip.compress("# é".encode("latin-1")), "b.txt": "é".encode("latin-1")})
    texts = [doc.text for doc in open_collection(tmp_path, encoding="latin-1").docs()]
    assert texts == ["é", "é"]


def test_a_folder_with_files_that_may_be_data_is_recognised_only_by_name_and_a_file_is_none(tmp_path):
    write(tmp_path, {"a.md": "x", "table.csv": "a,b\n"})
    with pytest.raises(CollectionError) as refused:
        open_collection(tmp_path)
    assert "not documents: table.csv: neither a document by its name" in "\n".join(refused.value.__notes__)
    assert [doc.docno for doc in open_collection(tmp_path, format="documents").docs()] == ["a.md"]
    with pytest.raises(CollectionError, match=r"a\.md: a file, not a folder of files"):
        open_collection(tmp_path / "a.md", format="documents")


def test_files_that_cannot_be_read_are_counted_and_named(tmp_path):
    held = {
        Problem.encrypted: {
            "chiffre.pdf": (MADE / "chiffre.pdf").read_bytes(),
            "secret.docx": OLE + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
        },
        Problem.scanned: {"numerise.pdf": (MADE / "numerise.pdf").read_bytes()},
        Problem.empty: {
            "empty.pdf": b"",
            "blank.docx": made_docx(""),
            "blank.html": "<html><body> </body></html>",
            "blank.md": " \n",
        },
        Problem.broken: {
            "cut.pdf": (MADE / "eaux.pdf").read_bytes()[:5000],
            "cut.docx": (MADE / "ecole.docx").read_bytes()[:3000],
            "page.pdf": "<html>Erreur 404</html>",
            "old.docx": OLE,
            "latin.txt": b"caf\xe9",
            "packed.txt.gz": b"no gzip",
            "other.docx": zipped({"x.txt": b"x"}),
        },
    }
    write(tmp_path, {"good.md": "texte"})
    for files in held.values():
        write(tmp_path, files)
    refused = problems(tmp_path)
    assert {name: problem for name, (problem, _) in refused.items()} == {
        name: problem for problem, files in held.items() for name in files
    }
    assert refused["old.docx"][1] == "an old DOC file, not DOCX"
    assert 'encoding="latin-1"' in refused["latin.txt"][1]
    with pytest.warns(UnreadFiles) as warned:
        assert [doc.docno for doc in open_collection(tmp_path).docs()] == ["good.md"]
    lines = sorted(str(each.message) for each in warned)
    assert lines[1] == "2 not read, encrypted: chiffre.pdf, secret.docx"
    assert lines[2] == "4 not read, empty: blank.docx, blank.html, blank.md, empty.pdf"
    assert lines[3].startswith("7 not read, broken: ")
    assert lines[3].endswith(", …")


def test_links_out_of_the_folder_and_what_is_no_file_are_not_opened(tmp_path):
    (tmp_path / "outside.md").write_text("geheim")
    folder = write(tmp_path / "docs", {"a.md": "dedans"})
    (folder / "out.md").symlink_to("../outside.md")
    (folder / "in.md").symlink_to("a.md")
    (folder / "nothing.md").symlink_to("none")
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.txt")
    os.mkfifo(folder / "pipe.pdf")
    assert {name: problem for name, (problem, _) in problems(folder).items()} == {
        "out.md": Problem.outside,
        "nothing.md": Problem.broken,
        "pipe.txt": Problem.broken,
        "pipe.pdf": Problem.broken,
    }
    with pytest.warns(UnreadFiles):
        assert [doc.docno for doc in open_collection(folder).docs()] == ["a.md", "in.md"]


def test_files_and_texts_beyond_a_limit_are_refused_and_a_name_that_is_no_text_is_named(tmp_path):
    write(tmp_path, {"a.md": "x" * 101, "b.md": "x" * 100, "c.md.gz": gzip.compress(b"x" * 1000)})
    large = {name: problem for name, (problem, _) in problems(tmp_path, limits=FileLimits(bytes=100)).items()}
    assert large == {"a.md": Problem.too_large, "c.md.gz": Problem.too_large}
    (tmp_path / "c.md.gz").unlink()
    said = {"a.md": (Problem.too_large, "101 characters of text")}
    assert problems(tmp_path, limits=FileLimits(characters=100)) == said
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("x")
    assert problems(tmp_path) == {r"\xff.md": (Problem.broken, "its name is not UTF-8")}
    with pytest.raises(ValueError, match="limits of a file must be positive"):
        FileLimits(seconds=0)


def zipped(parts: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def made_docx(body: str, declaration: str = "") -> bytes:
    """A DOCX file whose body has this XML."""
    with zipfile.ZipFile(MADE / "ecole.docx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    xml = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    xml += ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
    return zipped(
        {**parts, "word/document.xml": f"{declaration}{xml}<w:body>{body}</w:body></w:document>".encode()}
    )


def test_an_archive_that_unpacks_to_very_much_is_refused():
    file = io.BytesIO(made_docx(""))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("much", b"")
        archive.getinfo("much").file_size = 256 << 20  # as its list of parts says
    with pytest.raises(UnreadableFile) as refused:
        read_docx(file.getvalue())
    assert refused.value.problem == Problem.too_large


def test_entities_of_a_docx_file_are_not_expanded(tmp_path):
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    declaration = f'<!DOCTYPE w [<!ENTITY l0 "lol"><!ENTITY file SYSTEM "file:///etc/hostname">{laughs}]>'
    write(tmp_path, {"a.docx": made_docx("<w:p><w:r><w:t>ha &l11; &file;</w:t></w:r></w:p>", declaration)})
    contents = read(tmp_path, FileLimits(seconds=60))["a.docx"]
    assert contents.record.problem or contents.docs[0].text.strip() == "ha"


def test_deleted_text_is_left_out_and_controls_and_boxes_are_read():
    def paragraph(text: str) -> str:
        return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"

    body = (
        f"<w:sdt><w:sdtContent>{paragraph('un contrôle')}</w:sdtContent></w:sdt>"
        "<w:p><w:del><w:r><w:delText>supprimé</w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t>inséré</w:t></w:r></w:ins></w:p>"
        f"<w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>{paragraph('une zone')}</w:txbxContent></mc:Choice>"
        f"<mc:Fallback><w:txbxContent>{paragraph('une zone')}</w:txbxContent></mc:Fallback>"
        "</mc:AlternateContent><w:t>autour</w:t></w:r></w:p>"
        f"<w:tbl><w:tr><w:tc>{paragraph('a')}</w:tc><w:tc><w:tbl><w:tr><w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>"
        "</w:tc></w:tr></w:tbl>"
    )
    assert read_docx(made_docx(body)).text == "un contrôle\n\ninséré\n\nautour\n\nune zone\n\na | b"


@pytest.mark.parametrize("suffix", ["html", "md"])
def test_very_deep_elements_are_an_end_not_a_crash(tmp_path, suffix):
    depth = 100_000
    write(tmp_path, {f"a.{suffix}": "<div>" * depth + "fond" + "</div>" * depth, f"b.{suffix}": "texte"})
    contents = read(tmp_path, FileLimits(seconds=60))
    assert contents[f"a.{suffix}"].record.problem == Problem.broken
    assert [doc.text for doc in contents[f"b.{suffix}"].docs] == ["texte"]


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_is_read(tmp_path):
    lines = b"BT /F 1 Tf 10 99990 Td " + b"0 -1.2 Td (a b) Tj " * 30_000 + b"ET"
    write(tmp_path, {"a.md": "avant", "b.pdf": pdf(lines), "c.md": "après"})
    contents = read(tmp_path, FileLimits(seconds=8))
    assert contents["b.pdf"].record.problem == Problem.too_slow
    assert contents["b.pdf"].record.reason == "more than 8 seconds"
    assert [doc.text for name in ("a.md", "c.md") for doc in contents[name].docs] == ["avant", "après"]


def test_a_process_that_ends_is_said_and_nothing_waits_for_it(tmp_path):
    write(tmp_path, {"a.md": "un", "b.md": "deux"})
    found = problems(tmp_path, limits=FileLimits(memory=1 << 20))  # too little for Python itself
    assert found.keys() == {"a.md", "b.md"}
    reasons = [reason for _, reason in found.values()]
    assert all("ended with" in reason or "memory" in reason for reason in reasons), reasons


def test_no_process_is_left_when_reading_is_broken_off(tmp_path):
    write(tmp_path, {f"{n}.md": "texte" for n in range(20)})
    before = {child.pid for child in psutil.Process().children()}
    docs = open_collection(tmp_path).docs()
    assert next(docs).text == "texte"
    assert {child.pid for child in psutil.Process().children()} > before
    docs.close()
    assert {child.pid for child in psutil.Process().children()} == before
