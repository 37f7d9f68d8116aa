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

from telerank.corpus.readers.files.processes import cut_passages
from telerank.corpus.readers.files.text import FileLimits, FileText, Problem, UnreadableFile, read_file
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


SCHOOL = (
    "Inscriptions à l’école",
    [(1, "Qui peut s’inscrire ?"), (2, "Pièces à fournir"), (1, "Cantine"), (1, "Transport scolaire")],
    [
        "Tout enfant qui a trois ans dans l’année civile est inscrit à l’école maternelle.",
        "Les certificats difficiles à obtenir sont demandés à l’office de l’état civil.",
        "Il part de la place du Marché à sept heures et quart, et s’arrête au hameau de la Combe.",
        "Le retour se fait à seize heures quarante.",
        "La rentrée a lieu le premier lundi de septembre.",
    ],
    [],
)
BUDGET = [
    "La commune perçoit la taxe foncière et des dotations de l'État.",
    "Impôt | Montant en euros\ntaxe foncière | 120 000\ntaxe de séjour | 8 500",
    "- l'école et la cantine ;\n- la voirie :\n- les trottoirs ;\n- l'éclairage.",
    "Le conseil a voté ce budget à l'unanimité.",
    "report = recettes - dépenses",
    "Une note de bas de page sur le report.",
]
WASTE = [(1, "Collecte des déchets"), (2, "Encombrants"), (2, "Déchetterie")]
NOTICE = (
    "Avis de travaux",
    [(1, "Avis de travaux"), (2, "1. Rue des Tilleuls"), (2, "2. Déviation")],
    ["Les riverains gardent un accès à pied."],
    [],
)
HOURS = (
    "إعلان البلدية",
    [(1, "ساعات العمل")],
    ["مكتب البلدية مفتوح من الساعة 9 إلى الساعة 17 كل يوم.", "שעות הקבלה הן בבוקר בלבד."],
    [],
)
READ = {
    "eaux.pdf": (
        "Règlement du service des eaux",
        [
            (1, "1 Objet du règlement"),
            (2, "1.1 Compteurs"),
            (1, "2 Tarifs"),
            (1, "3 Fuites"),
            (1, "4 Litiges"),
            (1, "5 Entrée en vigueur"),
        ],
        [
            *("conditions", "administrativement", "proportionnellement", "surconsommation", "septembre"),
            *("c’est-à-dire", "Peut-être viendrez-vous", "après-demain", "rendez-vous"),
            "avec efficacité et suffisance. L’office affiche les tarifs officiels",
            "La sœur de Noël a où déjà dû payer un cœur de robinet naïf",
            "et la phrase continue jusqu’à la page suivante, où elle se termine.",
            "a un compteur 1 qui est lu",
            "1 Le compteur est la propriété",
        ],
        ["rendezvous", "\x02", "page 1 sur 3"],
    ),
    "ecole.pdf": SCHOOL,
    "ecole.html": SCHOOL,
    "ecole.docx": (
        *SCHOOL[:2],
        [
            *SCHOOL[2],
            "- le livret de famille ;\n- une facture d’électricité récente.",
            "Quotient | Prix du repas\nmoins de 500 | 1 euro\n500 et plus | 4 euros",
        ],
        ["Page 1"],
    ),
    "arabe.pdf": HOURS,
    "arabe.docx": HOURS,
    **{
        f"budget.{kind}": ("Budget de Valbrume", None, BUDGET, ["**", "valbrume.example"])
        for kind in ("md", "docx", "html")
    },
    "dechets.html": (
        "Collecte des déchets",
        WASTE,
        ["verre | mercredi"],
        ["texte de script", "Nous contacter", "cookies", "site officiel"],
    ),
    "dechets.pdf": (
        None,
        WASTE,
        ["Appelez la mairie au plus tard le lundi précédent, et décrivez les objets"],
        [],
    ),
    "avis.pdf": NOTICE,
    "verrouille.pdf": NOTICE,
}
"""Title and headings, what the text has, and what it has not.

``eaux``: words divided at line ends, ligatures, bookmarks; ``ecole``: one text in three formats; ``arabe``: text
from right to left in its logical order; ``budget``: Markdown and what pandoc makes of it; ``dechets``: the main
text of a page, and headings by the size of letters; ``avis``: bold headings, ``verrouille`` forbids changes."""


@pytest.mark.parametrize("name", READ)
def test_a_file_has_its_title_headings_and_words(name):
    title, expected, present, absent = READ[name]
    file = read(name)
    text = file.text.replace("’", "'") if name.startswith("budget") else file.text
    assert title is None or file.title == title
    if expected is not None:
        assert headings(file) == expected
    else:
        assert [heading for _, heading in headings(file)][-3:] == ["Recettes", "Impôts", "Dépenses"]
    assert [words for words in present if words not in text] == []
    assert [words for words in absent if words in text] == []


def test_accents_beside_their_letters_are_joined_with_them():
    text = read("vieux-accents.pdf").text
    assert text == "L’été dernier, où êtes-vous allé? Noël à la façade, naïve forêt, île."


def test_columns_are_read_one_after_the_other_and_pages_are_known():
    file = read("eaux.pdf")
    order = {
        "Le présent règlement": 1,
        "Chaque logement": 1,
        "Les prix comprennent": 1,
        "En cas de fuite": 2,
        "Le médiateur": 2,
        "entre en vigueur le premier": 3,
    }
    assert [*order] == sorted(order, key=file.text.index)
    assert {words: page_of(file, words) for words in order} == order
    assert file.text.count("Commune de Valbrume") == 1
    assert file.counts == {"repeated lines at the head or foot of pages": 5}
    (passage,) = cut_passages(file, None)
    position = file.text.index("deux fois par an")
    (_, page, heading) = [mark for mark in passage.marks if mark.start <= position][-1]
    assert (page, heading) == (1, "1 Objet du règlement › 1.1 Compteurs")


def test_only_pdf_files_have_pages():
    file = read("ecole.pdf")
    assert [page for _, page in file.pages] == [1, 2, 3]
    assert page_of(file, "Transport scolaire") == 2
    assert page_of(file, "La dernière page") == 3
    assert read("ecole.docx").pages == read("ecole.html").pages == ()
    columns = ["le chauffeur en est averti", "Le retour se fait", "seconde colonne"]
    assert columns == sorted(columns, key=file.text.index)


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


MENU = "".join(f"<li><a href='/{n}'>Rubrique numéro {n}</a></li>" for n in range(9))
XHTML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "xhtml1-strict.dtd" [
  <!-- it's ]> no end -->
  <!ENTITY nbsp "&#160;">
  <!ENTITY firm "A ]> B">
] >
<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Tarif de l&rsquo;eau.</p></body></html>"""


def test_without_a_main_part_menus_are_left_out_and_counted_and_headings_stay():
    body = "".join(
        f"<h2>Titre {n}</h2><p>Le paragraphe {n} explique longuement comment la commune organise ce service, "
        "avec ses horaires, ses tarifs et les pièces qu'il faut apporter au guichet.</p>"
        for n in range(4)
    )
    menu = f"<html><body><div class='menu'><ul>{MENU}</ul></div>"
    file = read_html(f"{menu}<div>{body}</div><div id='footer'>Contact</div>".encode())
    assert [text for _, text in headings(file)] == [f"Titre {n}" for n in range(4)]
    assert "Rubrique numéro 3" not in file.text
    assert file.counts["paragraphs beside the main text"] >= 1
    assert "Rubrique numéro 3" in read_html(f"{menu}</body>".encode()).text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<table><tr><td><h1>Un</h1><p>texte</p></td><td><ul><li>a</li><li>b</li></ul></td></tr></table>",
            [(1, "Un"), (0, "texte"), (0, "- a\n- b")],  # a table that only places things is none
        ),
        (
            "<p>un<br>deux</p><pre>def f():\n    return 1\n</pre><p>H<sub>2</sub>O, 3 m<sup>2</sup></p>",
            [(0, "un\ndeux"), (0, "def f():\n    return 1"), (0, "H2O, 3 m2")],
        ),
        (XHTML, [(0, "Tarif de l’eau.")]),
    ],
)
def test_elements_of_a_page_are_its_paragraphs(page, expected):
    assert parts(read_html(page.encode())) == expected


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


def test_markdown_has_the_title_of_its_only_highest_heading_or_of_its_front_matter():
    assert read_markdown("# Un\n\ntexte\n\n## Deux\n").title == "Un"
    assert read_markdown("# Un\n\n# Deux\n").title == ""
    assert read_markdown("---\ntitle: 'Le titre'\nlang: fr\n---\ntexte\n").title == "Le titre"
    assert read_markdown("---\r\n\r\ntexte\r\n").text == "texte"
    table = "<table><tr><td>a</td><td>b</td></tr></table>"
    marked = read_markdown(f"un <b>gras</b>\n\n<script>alert(1)</script>\n\n{table}")
    assert marked.text == "un gras\n\na | b"


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


def test_markdown_is_read_within_many_quotations_and_lists_but_not_too_many():
    for mark in ("> ", "- ", "1. "):
        assert read_markdown(f"{mark * 30}deep\n\nnot deep\n").text.endswith("deep\n\nnot deep")
    for text in (">" * 20_000 + " deep\n", "before\n\n" + "- " * 200 + "deep\n"):
        with pytest.raises(UnreadableFile) as refused:
            read_markdown(text)
        assert refused.value.problem == Problem.broken
        assert refused.value.reason == "lists or quotations nested too deeply"


def test_a_page_without_an_element_is_empty_and_declarations_that_do_not_end_cost_linear_time():
    for content in ("<!DOCTYPE html>", "<!-- only a comment -->", "<!DOCTYPE x []"):
        with pytest.raises(UnreadableFile, match=r"^empty$"):
            read_html(content.encode())
    for content in ("<!DOCTYPE x [" * 20_000, "<!DOCTYPE x [" + "<!--" * 20_000):
        assert read_html(f"<p>Tarif</p>{content}".encode()).text.startswith("Tarif")
