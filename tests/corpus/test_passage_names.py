"""Names of passages stay while a passage's text stays, are valid in runs, and lead to their file and back."""

from __future__ import annotations

import random
import re

import pytest

import telerank as tr
from telerank.corpus.readers.files.folder import FolderRecord, name_passages
from telerank.corpus.readers.files.processes import FilePassage, cut_passages
from telerank.corpus.readers.files.text import Paragraph, join_paragraphs
from telerank.errors import UnknownDocument
from telerank.retrieval.folder_update import read_record, write_record
from telerank.types import Doc, Mark, whole_docno


@pytest.mark.parametrize(
    ("heading", "text", "words"),
    [
        ("Chauffage", "Le gaz.", "chauffage"),
        ("Tarifs › Réseaux d’eau (2024)", "x", "reseaux-d-eau-2024"),
        ("", "La mairie répond aux questions des habitants.", "la-mairie-repond-aux"),
        ("Rindfleischetikettierungsüberwachung", "x", "rindfleischetikettierung"),
        ("第一章", "x", "第一章"),
        ("***", "—", "text"),
        ("a#b c\t\u00a0d", "x", "a-b-c-d"),
    ],
)
def test_a_name_has_the_nearest_heading_or_the_first_words(heading, text, words):
    passage = FilePassage("Guide", text, (Mark(0, 1, heading),))
    (name,) = name_passages([passage])
    assert re.fullmatch(rf"{re.escape(words)}-[0-9a-f]{{8}}", name)
    moved = FilePassage("Another title", f" {text}\n", (Mark(0, 9, heading), Mark(2, 10, "Other")))
    assert name_passages([moved, passage]) == [name, f"{name}-2"]
    for docno in (f"my%20guide#.pdf#{name}", f"my%20guide#.pdf#{name}-2", "my%20guide#.pdf#12"):
        assert whole_docno(docno) == "my%20guide#.pdf"
    assert whole_docno(f"#{name}") == f"#{name}"


@pytest.mark.process
def test_an_edit_renames_few_passages_and_an_update_writes_only_those(tmp_path):
    rng = random.Random(3)
    words = [f"mot{n}" for n in range(500)]
    sections = [[f"# Section {n}", *(_paragraph(rng, words) for _ in range(6))] for n in range(20)]
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs/guide.md"
    (tmp_path / "docs/note.md").write_text("une note")
    _write(file, sections)
    index = tr.index(tmp_path / "docs", tmp_path / "idx", workers=1)
    before = index.passages("guide.md")
    assert len(before) > 20
    assert [index[docno].file for docno in before] == ["guide.md"] * len(before)
    for number in range(3):
        sections[5 * number][2] += " une ligne de plus."
        _write(file, sections)
        changes = index.update(tmp_path / "docs", workers=1)
        after = index.passages("guide.md")
        new = {*after} - {*before}
        assert 0 < len(new) <= 4
        assert changes.written == len(new)
        rebuilt = tr.index(tmp_path / "docs", tmp_path / "new", workers=1, overwrite=True)
        assert after == rebuilt.passages("guide.md")
        assert dict(index.docs.items()) == dict(rebuilt.docs.items())
        before = after


def _paragraph(rng: random.Random, words: list[str]) -> str:
    return " ".join(rng.choices(words, k=rng.randint(15, 70)))


def _write(file, sections) -> None:
    file.write_text("\n\n".join(part for section in sections for part in section))


def test_equal_passages_have_different_names_and_only_the_last_goes_with_one_of_them():
    def names(copies: int) -> list[str]:
        parts = [Paragraph("Tarif", 1), Paragraph("mot " * 190)] * copies
        return name_passages(FilePassage(*each) for each in cut_passages(join_paragraphs(parts)))

    three = names(3)
    assert len({*three}) == 3
    assert names(2) == three[:2]


def test_an_index_with_numbered_passages_opens_and_its_first_update_renames_them_once(tmp_path):
    texts = [" ".join([f"mot{n}"] * 150) for n in range(3)]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("\n\n".join(texts))
    (tmp_path / "docs/b.md").write_text("court")
    index = tr.index(tmp_path / "docs", tmp_path / "idx", workers=1)
    record = read_record(index.folder)
    names = index.passages("a.md")
    # as telerank wrote it when passages had numbers
    numbered = [Doc(f"a.md#{n}", text, file="a.md") for n, text in enumerate(texts, 1)]
    index.delete("a.md")
    index.add(numbered, workers=1)
    file = record.files["a.md"].__class__(record.files["a.md"].sha256, record.files["a.md"].bytes, 3)
    write_record(
        index.folder, FolderRecord(record.collection_format, record.encoding, {**record.files, "a.md": file})
    )
    index = tr.open(tmp_path / "idx")
    assert index.passages("a.md") == ["a.md#1", "a.md#2", "a.md#3"]
    assert index.bm25().search("mot1").docnos == ("a.md#2",)
    changes = index.update(tmp_path / "docs", workers=1)
    assert (changes.renamed, changes.unchanged, changes.written) == (("a.md",), ("b.md",), 3)
    assert index.passages("a.md") == names
    assert index.update(tmp_path / "docs", workers=1).renamed == ()


def test_a_file_is_deleted_whole_a_docno_alone_and_a_wrong_name_gets_the_nearest(tmp_path):
    texts = {f"guide.pdf#{n}": f"mot{n}" for n in range(1, 11)} | {"guide.pdf.txt": "x", "sub/Note.md": "y"}
    index = tr.index(texts, tmp_path / "idx", workers=1)
    assert index.passages("guide.pdf") == [f"guide.pdf#{n}" for n in range(1, 11)]
    assert index.delete("guide.pdf#3") == 1
    for name, near in (
        ("guid.pdf", "guide.pdf"),
        ("note.md", "sub/Note.md"),
        ("guide.pdf#33", "guide.pdf#1"),
    ):
        with pytest.raises(UnknownDocument, match=f"no file and no document '{name}'; did you mean '{near}'"):
            index.delete(["guide.pdf.txt", name])
    with pytest.raises(UnknownDocument, match=r"no document 'zzz'$"):
        index.delete("zzz")
    assert len(index) == 11
    assert index.delete(["guide.pdf", "guide.pdf#4"]) == 9
    assert sorted(index.docs) == ["guide.pdf.txt", "sub/Note.md"]


def test_a_deleted_file_stays_away_until_it_changes_and_its_copy_is_read(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "docs" / name).write_text(f"mot {name} " * 200)
    index = tr.index(tmp_path / "docs", tmp_path / "idx", workers=1)
    assert index.delete("a.md") > 1
    assert index.update(tmp_path / "docs", workers=1).unchanged == ("a.md", "b.md")
    (tmp_path / "docs/c.md").write_text((tmp_path / "docs/a.md").read_text())
    assert index.update(tmp_path / "docs", workers=1).added == ("c.md",)
    assert len(index.passages("c.md")) > 1
