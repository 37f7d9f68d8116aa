from __future__ import annotations

from telerank.corpus.readers.files.pdf_layout import Bookmark, Line, lay_out, split_repeated


def line(
    text: str, top: float, *, left: float = 50, right: float = 350, size: float = 10, bold: bool = False
) -> Line:
    return Line(text, left, right, top, top, size, bold)


def page(*texts: str, top: float = 700, size: float = 10) -> list[Line]:
    """Full lines below each other."""
    return [line(text, top - 12 * number, size=size) for number, text in enumerate(texts)]


def text(pages: dict[int, list[Line]], *bookmarks: Bookmark) -> list[tuple[int, str]]:
    return [(level, paragraph) for paragraph, level, _ in lay_out(pages, bookmarks, "")[1]]


def body(number: int) -> list[Line]:
    return page(*(f"la ligne {number * 10 + n} du texte de la page" for n in range(8)))


def test_heads_and_feet_repeat_and_page_numbers_grow():
    head, foot = "Ville de Valbrume 2024", "page {} sur 5"
    pages = {
        n: [line(head, 780), *body(n), line(foot.format(n), 30, left=200, right=240)] for n in range(1, 6)
    }
    rest, first, left_out = split_repeated(pages)
    assert [(number, own.text) for number, own in first] == [(1, head)]
    assert left_out == 9
    assert all([own.text for own in rest[n]] == [own.text for own in body(n)] for n in pages)


def test_headings_whose_numbers_grow_and_lines_at_another_height_or_in_the_middle_are_no_heads():
    texts = (
        {n: [line(f"Article {n}", 780, size=14, bold=True), *body(n)] for n in range(1, 6)},
        {n: [line(f"Annexe {n * n}", 780), *body(n)] for n in range(1, 6)},
        {n: [line("Signature du maire", 780 - 20 * n), *body(n)] for n in range(1, 6)},
        {1: page("Un", "deux", "trois")},
    )
    for pages in texts:
        assert split_repeated(pages) == (pages, [], 0)
    inside = {n: [*body(n), line("Total", 500), *page(*"abcd", top=400)] for n in range(1, 6)}
    assert all("Total" in [own.text for own in lines] for lines in split_repeated(inside)[0].values())


def test_paragraphs_end_at_gaps_at_indents_and_at_other_sizes():
    lines = [
        *page("Le premier paragraphe commence", "et finit ici."),
        line("Un autre est en retrait,", 676, left=70),
        *page("et continue à gauche", top=664),
        *page("Après un blanc.", top=630),
        *page("En petit.", top=618, size=7),
    ]
    assert text({1: lines}) == [
        (0, "Le premier paragraphe commence et finit ici."),
        (0, "Un autre est en retrait, et continue à gauche"),
        (0, "Après un blanc."),
        (0, "En petit."),
    ]


def test_lines_that_end_early_and_items_stay_lines():
    lines = [
        line("Tranche Prix", 700, right=150),
        line("de 0 à 50 1,20", 688, right=160),
        line("une ligne qui remplit toute la largeur", 676),
        line("• un point", 664),
        line("2. un autre", 652),
    ]
    assert text({1: lines}) == [
        (
            0,
            "Tranche Prix\nde 0 à 50 1,20\nune ligne qui remplit toute la largeur\n• un point\n2. un autre",
        )
    ]


def test_a_sentence_continues_over_a_page_and_the_note_at_its_foot():
    first = page("Une phrase commence sur cette", "page et continue adminis-")
    pages = {
        1: [*first, *page("1 Une note.", top=60, size=7)],
        2: page("tration sur la suivante. Puis une autre", "phrase."),
    }
    (title, paragraphs, _) = lay_out(pages, (), "Titre")
    joined = "Une phrase commence sur cette page et continue administration sur la suivante. Puis une autre phrase."
    assert (title, [paragraph.text for paragraph in paragraphs]) == ("Titre", [joined, "1 Une note."])
    assert paragraphs[0].pages == ((0, 1), (joined.index("sur la"), 2))


def test_sentences_that_end_and_headings_do_not_continue():
    pages = {
        1: page("Une phrase finit.", "Une ligne sans point"),
        3: page("une autre page"),
        4: page("Autre phrase"),
    }
    whole = "Une phrase finit. Une ligne sans point"
    assert [own for _, own in text(pages)] == [whole, "une autre page", "Autre phrase"]


def test_bookmarks_find_their_headings_with_and_without_numbers():
    lines = [
        line("2.1 Le prix", 720),
        *page("du repas est fixé. Le prix", top=700),
        line("Un titre sur", 650),
        line("deux lignes", 638),
        *page("texte", top=620),
        line("10 Le prix du repas", 600),
    ]
    read = text({1: lines}, Bookmark("Le prix", 2, 1), Bookmark("Un titre sur deux lignes", 1, 1))
    assert [(level, own) for level, own in read if level] == [
        (2, "2.1 Le prix"),
        (1, "Un titre sur deux lignes"),
    ]


def test_without_bookmarks_larger_letters_are_headings_by_their_sizes():
    lines = [
        *page("Guide", top=760, size=20),
        *page("Chapitre", top=730, size=14),
        *body(1),
        line("en gras", 590, bold=True),
        *page("texte après le gras", top=560),
    ]
    assert [own for own in text({1: lines}) if own[0]] == [(1, "Guide"), (2, "Chapitre")]
    assert lay_out({1: lines}, (), "")[0] == "Guide"


def test_a_drop_of_large_letters_that_is_long_is_text():
    lines = [
        *page(*["de grandes lettres qui remplissent toute la ligne"] * 5, top=760, size=20),
        *body(1) * 3,
    ]
    assert [level for level, _ in text({1: lines})] == [0] * len(text({1: lines}))
