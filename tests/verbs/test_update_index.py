"""An index of a folder of files follows the folder: by the files' contents, in one commit, whatever happens."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import telerank as tr
from telerank.corpus.readers.files.folder import FolderFiles
from telerank.errors import CollectionError, DocumentError, IndexFault, UnreadFiles
from telerank.retrieval.folder_update import read_record, write_record
from telerank.sparse.writer import IndexWriter
from telerank.types import Location

MADE = Path(__file__).parent.parent / "corpus/made_documents"
LONG = "La mairie répond aux questions des habitants du village. " * 50


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A folder of files, ``docs``, and an index of it, ``idx``."""
    built = tmp_path_factory.mktemp("built")
    files = {"a.md": "# Eau\n\nle compteur", "b.md": "la taxe", "sub/long.md": LONG, "bad.docx": "x"}
    write(built / "docs", files)
    with pytest.warns(UnreadFiles, match="1 not read, broken: bad.docx"):
        tr.index(built / "docs", built / "idx", analyzer="french", workers=1)
    return built


@pytest.fixture
def folder(built, tmp_path) -> Path:
    return Path(shutil.copytree(built / "docs", tmp_path / "docs"))


@pytest.fixture
def index(built, tmp_path) -> Path:
    return Path(shutil.copytree(built / "idx", tmp_path / "idx"))


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def update(folder: Path, index: Path):
    with pytest.warns(UnreadFiles):
        return tr.open(index).update(folder, workers=1)


def texts(index: Path) -> dict[str, str]:
    return {doc.docno: doc.text for doc in tr.open(index).docs.values()}


def rebuilt(folder: Path, index: Path) -> dict[str, str]:
    other = index.with_name("other")
    with pytest.warns(UnreadFiles):
        tr.index(folder, other, analyzer="french", overwrite=True, workers=1)
    return texts(other)


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The names of the files that are read, not only hashed."""
    names: list[str] = []
    read = FolderFiles.read

    def remember(self, files):
        files = list(files)
        names.extend(file.name for file in files if not file.record.problem)
        return read(self, files)

    monkeypatch.setattr(FolderFiles, "read", remember)
    return names


def test_an_index_keeps_what_it_was_made_from_until_it_is_overwritten(index):
    record = read_record(index)
    assert (record.collection_format, record.encoding) == ("documents", "utf-8")
    documents = {name: file.documents for name, file in record.files.items()}
    assert documents == {"a.md": 1, "b.md": 1, "bad.docx": 0, "sub/long.md": 3}
    facts = tr.open(index).info()
    assert facts["files"] == 4
    assert facts["files not read"].keys() == {"bad.docx"}
    tr.open(index).sparse.verify()
    with pytest.raises(DocumentError, match="no document"):
        tr.index({}, index, overwrite=True, workers=1)
    assert read_record(index) == record
    tr.index({"d": "texte"}, index, overwrite=True, workers=1)
    assert read_record(index) is None


def test_nothing_is_read_and_nothing_is_written_if_nothing_changed(folder, index, parsed):
    before = (index / "manifest.json").read_bytes()
    (folder / "a.md").touch()
    changes = update(folder, index)
    assert changes.unchanged == ("a.md", "b.md", "bad.docx", "sub/long.md")
    assert [*changes.added, *changes.changed, *changes.moved, *changes.gone] == []
    assert parsed == []
    assert (index / "manifest.json").read_bytes() == before


def test_added_changed_moved_and_gone_files_are_counted_and_only_new_contents_read(folder, index, parsed):
    (folder / "a.md").write_text("# Eau\n\nla fuite")
    (folder / "b.md").unlink()
    shutil.move(folder / "sub/long.md", folder / "plus long.md")
    write(folder, {"new.md": "le vote", "copy.md": LONG})
    changes = update(folder, index)
    assert changes.changed == ("a.md",)
    assert changes.gone == ("b.md",)
    assert set(changes.moved.values()) == {"sub/long.md"}
    assert {*changes.added, *changes.moved} == {"new.md", "copy.md", "plus long.md"}
    assert changes.unchanged == ("bad.docx",)
    assert sorted(parsed) == ["a.md", "new.md"]
    assert texts(index) == rebuilt(folder, index)
    passages = tr.open(index).passages("plus long.md")
    assert len(passages) == 3
    assert tr.open(index).locate(passages[1]) == Location("plus long.md")
    assert update(folder, index).unchanged == ("a.md", "bad.docx", "copy.md", "new.md", "plus long.md")


def test_a_file_that_broke_loses_its_documents_and_one_that_was_repaired_gets_some(folder, index):
    shutil.copy(MADE / "budget.docx", folder / "bad.docx")
    (folder / "a.md").write_bytes(b"\xff")
    changes = update(folder, index)
    assert changes.changed == ("a.md", "bad.docx")
    assert {name for name, file in changes.files.items() if file.problem} == {"a.md"}
    assert texts(index).keys() == {"b.md", "bad.docx", *tr.open(index).passages("sub/long.md")}


def test_a_change_is_one_commit_that_keeps_other_documents_and_leaves_no_passages(folder, index):
    tr.open(index).add({"other": "texte"}, workers=1)
    generation = tr.open(index).sparse.manifest.generation
    write(folder, {"sub/long.md": "court", "a.md": "autre", "new.md": "neuf"})
    (folder / "b.md").unlink()
    update(folder, index)
    assert tr.open(index).sparse.manifest.generation == generation + 1
    assert texts(index) == {"a.md": "autre", "new.md": "neuf", "other": "texte", "sub/long.md": "court"}
    (folder / "sub/long.md").unlink()
    assert update(folder, index).gone == ("sub/long.md",)
    assert texts(index).keys() == {"a.md", "new.md", "other"}


def test_after_a_kill_the_files_are_read_again_and_nothing_is_left_of_them(folder, index, monkeypatch):
    write(folder, {"sub/long.md": f"{LONG}autre", "new.md": LONG})
    (folder / "b.md").unlink()
    change = IndexWriter.replace

    def die(self, *args, **settings):
        change(self, *args, **settings)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(IndexWriter, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            tr.open(index).update(folder, workers=1)
    unknown = {name for name, file in read_record(index).files.items() if not file.sha256}
    assert unknown == {"sub/long.md", "new.md", "b.md"}
    write(folder, {"sub/long.md": "court"})  # fewer passages than were written
    (folder / "new.md").unlink()
    update(folder, index)
    assert texts(index) == rebuilt(folder, index)


def test_another_folder_and_an_index_of_something_else_are_refused(folder, index, tmp_path):
    write(tmp_path / "others", {"x.md": "autre"})
    with pytest.raises(CollectionError, match=r"has none of the 4 files of .* \(1 by other names\): another"):
        tr.open(index).update(folder / "sub")  # which would lose all other files
    with pytest.raises(CollectionError, match=r"has none of the 4 files of .*: another folder"):
        tr.open(index).update(tmp_path / "others")
    tr.index({"d": "texte"}, tmp_path / "plain", workers=1)
    with pytest.raises(IndexFault, match="was not made from a folder of files"):
        tr.open(tmp_path / "plain").update(folder)
    assert len(texts(index)) == 5


def test_a_damaged_record_is_said(folder, index):
    file = index / "files/manifest.json"
    record = json.loads(file.read_text())
    record["files"]["a.md"]["sha256"] = "0"
    file.write_text(json.dumps(record))
    with pytest.raises(IndexFault, match="its checksum differs"):
        tr.open(index).update(folder)


def test_files_that_took_too_long_are_tried_again(folder, index, parsed):
    record = read_record(index)
    slow = replace(record.files["b.md"], documents=0, problem="too slow to read")
    write_record(index, replace(record, files={**record.files, "b.md": slow}))
    assert update(folder, index).changed == ("b.md",)
    assert parsed == ["b.md"]


def test_a_hit_leads_to_its_page_and_heading(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("eaux.pdf", "ecole.pdf"):
        shutil.copy(MADE / name, tmp_path / "docs")
    with pytest.warns(UnreadFiles, match="left out, repeated lines at the head or foot of pages: 10"):
        index = tr.index(tmp_path / "docs", tmp_path / "idx", analyzer="french", workers=1)
    query = "à quelle heure part le car scolaire"
    best = index.bm25().search(query).docnos[0]
    assert best == "ecole.pdf"
    assert index.locate(best) == Location("ecole.pdf", 1, 3)
    assert index.locate_hit(best, query) == Location("ecole.pdf", 2, 2, "Transport scolaire")
    assert index.locate_hit(best, "quotient familial") == Location("ecole.pdf", 1, 1, "Cantine")
    assert index.locate_hit(best, "zèbre") == index.locate(best)
    text = index[best].text
    start = text.index("le premier lundi")
    assert index.locate(best, start, start + 16) == Location("ecole.pdf", 3, 3, "Transport scolaire")
