from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from telerank.corpus.readers.files.processes import PASSAGE_WORDS, cut_passages
from telerank.corpus.readers.files.text import FileText, Paragraph, join_paragraphs, read_plain
from telerank.types import Mark

SENTENCE = "Le service répond aux questions des habitants. "
WORDS = st.lists(st.sampled_from(["mot", "phrase.", "Titre", "l’eau", "\n"]), min_size=1, max_size=30).map(
    " ".join
)
PARAGRAPHS = st.lists(st.tuples(WORDS, st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=25)


def made(paragraphs) -> FileText:
    """Paragraphs with levels; each number adds to the page."""
    page, read = 1, []
    for text, level, turns in paragraphs:
        page += turns
        read.append(Paragraph(f"x {text}", level, ((0, page),)))
    return join_paragraphs(read, "Guide")


@settings(deadline=None, max_examples=100)
@given(PARAGRAPHS, st.integers(5, 60))
def test_nothing_is_lost_no_passage_is_longer_and_marks_say_what_those_of_the_file_say(paragraphs, words):
    file = made(paragraphs)
    passages = cut_passages(file, words)
    assert " ".join(passage.text for passage in passages).split() == file.text.split()
    assert all(0 < len(passage.text.split()) <= words for passage in passages)
    (whole,) = cut_passages(file, None)
    position = 0
    for passage in passages:
        start = file.text.index(passage.text, position)
        position = start + len(passage.text)
        assert passage.marks[0].start == 0
        for offset in range(len(passage.text)):
            assert at(passage.marks, offset) == at(whole.marks, start + offset)


def at(marks: tuple[Mark, ...], position: int) -> tuple[int, str]:
    return [mark[1:] for mark in marks if mark.start <= position][-1]


def test_a_paragraph_is_cut_between_sentences_and_before_headings_or_else_between_words():
    (passage,) = cut_passages(read_plain("  un\r\n\r\ndeux \n"))
    assert passage == ("", "  un\r\n\r\ndeux \n", ())
    passages = cut_passages(join_paragraphs([Paragraph(SENTENCE * 100)]))
    assert [len(passage.text.split()) for passage in passages][:-1] == [196] * 3
    assert all(passage.text.endswith("habitants.") for passage in passages)
    passages = cut_passages(join_paragraphs([Paragraph("mot " * 450)]))
    assert [len(passage.text.split()) for passage in passages] == [200, 200, 50]
    file = join_paragraphs([Paragraph("mot " * 195), Paragraph("Titre", 1), Paragraph("mot " * 20)])
    assert [passage.text.split()[0] for passage in cut_passages(file)] == ["mot", "Titre"]
    passages = cut_passages(join_paragraphs([Paragraph("Un titre de cinq mots", 1)] * 100))
    assert all(len(passage.text.split()) <= PASSAGE_WORDS for passage in passages)
    assert len(passages) > 2


def test_a_passage_ends_at_a_heading_once_it_is_half_full_and_its_title_has_the_headings_above():
    def section(name: str, level: int, words: int):
        return [Paragraph(name, level), Paragraph("mot " * words)]

    file = join_paragraphs(
        [*section("Un", 1, 50), *section("Court", 2, 30), *section("Deux", 2, 150), *section("Fin", 1, 20)],
        "Guide",
    )
    passages = cut_passages(file, PASSAGE_WORDS)
    assert [(passage.title, passage.text.split()[0]) for passage in passages] == [
        ("Guide", "Un"),
        ("Guide › Un", "Deux"),
        ("Guide", "Fin"),
    ]
    assert passages[0].marks == (Mark(0, 0, "Un"), Mark(passages[0].text.index("Court"), 0, "Un › Court"))
    file = join_paragraphs(
        [*section("Guide", 1, 0), *section("Eau", 2, 0), *[Paragraph(SENTENCE * 20)] * 3], "Guide"
    )
    assert [passage.title for passage in cut_passages(file)] == ["Guide", "Guide › Eau", "Guide › Eau"]


def test_slides_are_passages_of_few_pages():
    slides = [Paragraph("mot " * 30, 0, ((0, page),)) for page in range(1, 13)]
    pages = [{mark.page for mark in passage.marks} for passage in cut_passages(join_paragraphs(slides))]
    assert pages == [{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}]
