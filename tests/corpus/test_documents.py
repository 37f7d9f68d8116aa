"""Files that other programs made: their text comes out with its headings, pages, words and order.

``made_documents/make.py`` makes the files with LaTeX, LibreOffice, pandoc, Chromium and groff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("docx")
pytest.importorskip("trafilatura")
pytest.importorskip("markdown_it")

from telerank.corpus.readers.files.kinds import read_file
from telerank.corpus.readers.files.limits import FileLimits
from telerank.corpus.readers.files.passages import cut_passages
from telerank.corpus.readers.files.text import FileText, Problem, UnreadableFile
from telerank.corpus.readers.files.web import decode_html, read_html, read_markdown
from telerank.corpus.readers.files.word import read_docx

MADE = Path(__file__).parent / "made_documents"


def read(name: str) -> FileText:
    return read_file(MADE / name, "utf-8", FileLimits())


def parts(file: FileText) -> list[tuple[int, str]]:
    return [(level, file.text[start:end]) for start, end, level in file.parts]


def headings(file: FileText) -> list[tuple[int, str]]:
    return [(level, text) for level, text in parts(file) if level]


def page_of(file: FileText, words: str) -> int:
    position = file.text.index(words)
    return [page for start, page in file.pages if start <= position][-1]


def marked(file: FileText, words: str) -> tuple[int, str]:
    (passage,) = cut_passages(file, None)
    position = file.text.index(words)
    return [mark[1:] for mark in passage.marks if mark.start <= position][-1]


# --- LaTeX: two columns, hyphens, ligatures, notes, heads and feet of pages


def test_words_divided_at_line_ends_are_joined_and_compounds_keep_their_hyphens():
    text = read("eaux.pdf").text
    for word in ("conditions", "administrativement", "proportionnellement", "surconsommation", "septembre"):
        assert word in text
    for compound in ("c’est-à-dire", "Peut-être viendrez-vous", "après-demain", "rendez-vous"):
        assert compound in text
    assert "rendezvous" not in text
    assert "\x02" not in text


def test_ligatures_and_accents_are_letters():
    text = read("eaux.pdf").text
    assert "avec efficacité et suffisance. L’office affiche les tarifs officiels" in text
    assert "La sœur de Noël a où déjà dû payer un cœur de robinet naïf" in text


def test_accents_beside_their_letters_are_joined_with_them():
    text = read("vieux-accents.pdf").text
    assert text == "L’été dernier, où êtes-vous allé? Noël à la façade, naïve forêt, île."


def test_columns_are_read_one_after_the_other_and_pages_are_known():
    file = read("eaux.pdf")
    order = [
        "Le présent règlement",
        "Chaque logement",
        "Les prix comprennent",
        "En cas de fuite",
        "Le médiateur",
    ]
    positions = [file.text.index(words) for words in order]
    assert positions == sorted(positions)
    assert [page_of(file, words) for words in order] == [1, 1, 1, 2, 2]
    assert page_of(file, "entre en vigueur le premier") == 3


def test_a_paragraph_continues_in_the_next_column():
    assert "et la phrase continue jusqu’à la page suivante, où elle se termine." in read("eaux.pdf").text


def test_heads_of_pages_stand_once_and_page_numbers_not_at_all():
    file = read("eaux.pdf")
    assert file.text.count("Commune de Valbrume") == 1
    assert "page 1 sur 3" not in file.text
    assert file.counts == {"repeated lines at the head or foot of pages": 5}


def test_bookmarks_are_the_headings_and_the_largest_letters_the_title():
    file = read("eaux.pdf")
    assert file.title == "Règlement du service des eaux"
    assert headings(file) == [
        (1, "1 Objet du règlement"),
        (2, "1.1 Compteurs"),
        (1, "2 Tarifs"),
        (1, "3 Fuites"),
        (1, "4 Litiges"),
        (1, "5 Entrée en vigueur"),
    ]
    assert marked(file, "deux fois par an") == (1, "1 Objet du règlement › 1.1 Compteurs")


def test_the_number_of_a_note_is_no_part_of_a_word():
    text = read("eaux.pdf").text
    assert "a un compteur 1 qui est lu" in text
    assert "1 Le compteur est la propriété" in text


# --- LibreOffice: one text in three formats


def test_one_text_in_three_formats_has_the_same_headings_and_sentences():
    files = {suffix: read(f"ecole.{suffix}") for suffix in ("pdf", "docx", "html")}
    expected = [
        (1, "Qui peut s’inscrire ?"),
        (2, "Pièces à fournir"),
        (1, "Cantine"),
        (1, "Transport scolaire"),
    ]
    for suffix, file in files.items():
        assert file.title == "Inscriptions à l’école", suffix
        assert headings(file) == expected, suffix
        for sentence in (
            "Tout enfant qui a trois ans dans l’année civile est inscrit à l’école maternelle.",
            "Les certificats difficiles à obtenir sont demandés à l’office de l’état civil.",
            "Il part de la place du Marché à sept heures et quart, et s’arrête au hameau de la Combe.",
            "Le retour se fait à seize heures quarante.",
            "La rentrée a lieu le premier lundi de septembre.",
        ):
            assert sentence in file.text, suffix
    docx = files["docx"]
    assert "- le livret de famille ;\n- une facture d’électricité récente." in docx.text
    assert "Quotient | Prix du repas\nmoins de 500 | 1 euro\n500 et plus | 4 euros" in docx.text
    assert "Page 1" not in docx.text


def test_only_pdf_files_have_pages():
    pdf = read("ecole.pdf")
    assert [page for _, page in pdf.pages] == [1, 2, 3]
    assert page_of(pdf, "Transport scolaire") == 2
    assert page_of(pdf, "La dernière page") == 3
    assert read("ecole.docx").pages == read("ecole.html").pages == ()


def test_columns_of_libreoffice_are_read_one_after_the_other():
    text = read("ecole.pdf").text
    assert (
        text.index("le chauffeur en est averti")
        < text.index("Le retour se fait")
        < text.index("seconde colonne")
    )


@pytest.mark.parametrize("suffix", ["pdf", "docx"])
def test_text_from_right_to_left_is_in_its_logical_order(suffix):
    file = read(f"arabe.{suffix}")
    assert file.title == "إعلان البلدية"
    assert headings(file) == [(1, "ساعات العمل")]
    assert "مكتب البلدية مفتوح من الساعة 9 إلى الساعة 17 كل يوم." in file.text
    assert "שעות הקבלה הן בבוקר בלבד." in file.text


# --- pandoc, Chromium, groff


@pytest.mark.parametrize("name", ["budget.md", "budget.docx", "budget.html"])
def test_markdown_and_what_pandoc_makes_of_it_are_read_alike(name):
    file = read(name)
    assert file.title == "Budget de Valbrume"
    assert [text for _, text in headings(file)][-3:] == ["Recettes", "Impôts", "Dépenses"]
    text = file.text.replace("’", "'")
    assert "La commune perçoit la taxe foncière et des dotations de l'État." in text
    assert "Impôt | Montant en euros\ntaxe foncière | 120 000\ntaxe de séjour | 8 500" in text
    assert "- l'école et la cantine ;\n- la voirie :\n- les trottoirs ;\n- l'éclairage." in text
    assert "Le conseil a voté ce budget à l'unanimité." in text
    assert "report = recettes - dépenses" in text
    assert "Une note de bas de page sur le report." in text
    assert "**" not in text
    assert "valbrume.example" not in text


def test_of_a_page_of_a_site_the_main_text_is_read():
    file = read("dechets.html")
    assert file.title == "Collecte des déchets"
    assert headings(file) == [(1, "Collecte des déchets"), (2, "Encombrants"), (2, "Déchetterie")]
    assert "verre | mercredi" in file.text
    for beside in ("texte de script", "Nous contacter", "cookies", "site officiel"):
        assert beside not in file.text


def test_a_page_that_chromium_printed_has_headings_by_the_size_of_letters():
    file = read("dechets.pdf")
    assert headings(file) == [(1, "Collecte des déchets"), (2, "Encombrants"), (2, "Déchetterie")]
    assert "Appelez la mairie au plus tard le lundi précédent, et décrivez les objets" in file.text


@pytest.mark.parametrize("name", ["avis.pdf", "verrouille.pdf"])
def test_bold_lines_are_headings_and_a_file_that_only_forbids_changes_is_read(name):
    file = read(name)
    assert file.title == "Avis de travaux"
    assert headings(file) == [(1, "Avis de travaux"), (2, "1. Rue des Tilleuls"), (2, "2. Déviation")]
    assert "Les riverains gardent un accès à pied." in file.text


@pytest.mark.parametrize(
    ("name", "problem"), [("chiffre.pdf", Problem.encrypted), ("numerise.pdf", Problem.scanned)]
)
def test_encrypted_and_scanned_files_are_refused_as_such(name, problem):
    with pytest.raises(UnreadableFile) as refused:
        read(name)
    assert refused.value.problem == problem


@pytest.mark.parametrize("degrees", [90, 180, 270])
@pytest.mark.parametrize("drawn", [True, False])
def test_pages_that_are_turned_are_read_like_upright_ones(tmp_path, degrees, drawn):
    import pypdfium2

    document = pypdfium2.PdfDocument(MADE / "ecole.pdf")
    for page in document:
        if drawn:
            for item in page.get_objects(max_depth=1):
                item.transform(pypdfium2.PdfMatrix().rotate(degrees))
            page.gen_content()
        page.set_rotation(degrees)
    document.save(tmp_path / "turned.pdf")
    turned = read_file(tmp_path / "turned.pdf", "utf-8", FileLimits())
    upright = read("ecole.pdf")
    # PDFium may tear off the number of a page when the letters themselves are turned
    assert [part for part in parts(turned) if part[1] != "Page 3 /"] == parts(upright)
    assert turned.pages == upright.pages


# --- HTML and Markdown beyond the files


MENU = "".join(f"<li><a href='/{n}'>Rubrique numéro {n}</a></li>" for n in range(9))


def test_without_a_main_part_menus_are_left_out_and_counted_and_headings_stay():
    body = "".join(
        f"<h2>Titre {n}</h2><p>Le paragraphe {n} explique longuement comment la commune organise ce service, "
        "avec ses horaires, ses tarifs et les pièces qu'il faut apporter au guichet.</p>"
        for n in range(4)
    )
    page = (
        f"<html><body><div class='menu'><ul>{MENU}</ul></div><div>{body}</div><div id='footer'>Contact</div>"
    )
    file = read_html(page.encode())
    assert [text for _, text in headings(file)] == [f"Titre {n}" for n in range(4)]
    assert "Rubrique numéro 3" not in file.text
    assert file.counts["paragraphs beside the main text"] >= 1


def test_a_page_of_menus_alone_keeps_its_text():
    assert (
        "Rubrique numéro 3"
        in read_html(f"<body><div class='menu'><ul>{MENU}</ul></div></body>".encode()).text
    )


def test_a_table_that_only_places_things_is_no_table():
    page = "<table><tr><td><h1>Un</h1><p>texte</p></td><td><ul><li>a</li><li>b</li></ul></td></tr></table>"
    assert parts(read_html(page.encode())) == [(1, "Un"), (0, "texte"), (0, "- a\n- b")]


def test_lines_of_preformatted_text_stay_lines():
    page = "<p>un<br>deux</p><pre>def f():\n    return 1\n</pre><p>H<sub>2</sub>O, 3 m<sup>2</sup></p>"
    assert [text for _, text in parts(read_html(page.encode()))] == [
        "un\ndeux",
        "def f():\n    return 1",
        "H2O, 3 m2",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("é".encode(), "é"),
        ("\ufeffé".encode(), "é"),
        ("é".encode("utf-16"), "é"),
        (b"\xe9\x80", "é€"),
        (b"<meta charset='iso-8859-2'>\xb1", "<meta charset='iso-8859-2'>ą"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">\x92', None),
        (b"<meta charset=nothing>\xe9", "<meta charset=nothing>é"),
    ],
)
def test_pages_are_decoded_as_browsers_do(content, expected):
    decoded = decode_html(content)
    assert decoded == expected if expected is not None else decoded.endswith("’")


def test_markdown_without_front_matter_has_the_title_of_its_only_highest_heading():
    assert read_markdown("# Un\n\ntexte\n\n## Deux\n").title == "Un"
    assert read_markdown("# Un\n\n# Deux\n").title == ""
    assert read_markdown("---\ntitle: 'Le titre'\nlang: fr\n---\ntexte\n").title == "Le titre"
    assert read_markdown("---\r\n\r\ntexte\r\n").text == "texte"


def test_markup_in_markdown_is_read_as_in_a_page():
    file = read_markdown(
        "un <b>gras</b>\n\n<script>alert(1)</script>\n\n<table><tr><td>a</td><td>b</td></tr></table>"
    )
    assert file.text == "un gras\n\na | b"


def with_header(content: bytes, local: int, central: int, value: int) -> bytes:
    """A ZIP file in which every part has another value of two bytes in both of its headers."""
    for mark, at in ((b"PK\3\4", local), (b"PK\1\2", central)):
        pieces = content.split(mark)
        number = value.to_bytes(2, "little")
        content = mark.join([pieces[0], *(one[: at - 4] + number + one[at - 2 :] for one in pieces[1:])])
    return content


@pytest.mark.parametrize(
    ("header", "problem", "says"),
    [
        ((6, 8, 1), Problem.encrypted, "^encrypted$"),
        ((8, 10, 99), Problem.broken, "compression method"),
        ((4, 6, 90), Problem.broken, "zip file version"),
    ],
    ids=["password", "method", "version"],
)
def test_a_docx_file_that_zip_does_not_open_is_refused_as_such(header, problem, says):
    content = with_header((MADE / "budget.docx").read_bytes(), *header)
    with pytest.raises(UnreadableFile, match=says) as raised:
        read_docx(content)
    assert raised.value.problem == problem


# --- nesting, declarations


@pytest.mark.parametrize("mark", ["> ", "- ", "1. "])
def test_markdown_is_read_within_many_quotations_and_lists(mark):
    assert read_markdown(f"{mark * 30}deep\n\nnot deep\n").text.endswith("deep\n\nnot deep")


@pytest.mark.parametrize("text", [">" * 20_000 + " deep\n", "before\n\n" + "- " * 200 + "deep\n"])
def test_markdown_that_is_nested_too_deeply_says_so(text):
    with pytest.raises(UnreadableFile) as refused:
        read_markdown(text)
    assert refused.value.problem == Problem.broken
    assert refused.value.reason == "lists or quotations nested too deeply"


XHTML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "xhtml1-strict.dtd" [
  <!-- it's ]> no end -->
  <!ENTITY nbsp "&#160;">
  <!ENTITY firm "A ]> B">
] >
<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Tarif de l&rsquo;eau.</p></body></html>"""


def test_declarations_of_an_xhtml_page_are_no_part_of_its_text():
    assert read_html(XHTML.encode()).text == "Tarif de l’eau."


@pytest.mark.parametrize("content", ["<!DOCTYPE html>", "<!-- only a comment -->", "<!DOCTYPE x []"])
def test_a_page_without_an_element_is_empty(content):
    with pytest.raises(UnreadableFile, match=r"^empty$"):
        read_html(content.encode())


@pytest.mark.parametrize("content", ["<!DOCTYPE x [" * 20_000, "<!DOCTYPE x [" + "<!--" * 20_000])
def test_declarations_that_do_not_end_cost_linear_time(content):
    assert read_html(f"<p>Tarif</p>{content}".encode()).text.startswith("Tarif")
