"""Analyzers with files of words, and with tokenizers of a program."""

from __future__ import annotations

import pickle

import pytest

from telerank.errors import AnalyzerError
from telerank.text import Analyzer
from telerank.text.analyzer import locate_terms


def split_on_dashes(text: str) -> list[str]:
    return text.split("-")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into the folder in which the test runs."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, *lines: str) -> None:
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")

    return write


def test_the_entries_of_a_file_pass_through_the_steps_before_it(write):
    write("mots.txt", "# of our own", "", "L'Impôt", "Communes")
    analyzer = Analyzer.parse("french|stop(mots.txt)")
    assert analyzer("les impôts de la commune de Nantes") == ["nant"]
    with_accents = Analyzer.parse("words|stop(mots.txt)")
    assert with_accents("Impôt L'Impôt") == ["Impôt"]


def test_a_query_gets_synonyms_of_several_words_and_a_document_those_of_one(write):
    rules = (
        "carte d'identité, cni",
        "Voiture, auto",
        "papiers => pièces justificatives",
        r"rue\, numéro => adresse",
    )
    write("synonymes.txt", *rules)
    analyzer = Analyzer.parse("french|synonyms(synonymes.txt)")
    assert analyzer("la carte d'identité et les voitures") == ["cart", "ident", "voitur"]
    assert analyzer.query("la carte d'identité et les voitures") == ["cart", "ident", "cni", "voitur", "auto"]
    assert analyzer.query("CNI") == ["cni", "cart", "ident"]
    assert analyzer.query("la rue et le numéro") == ["adress"]
    assert analyzer.query("des papiers pour la carte") == ["piec", "justif", "cart"]
    *_, (step, shown) = analyzer.steps("mon auto")
    assert (step, shown) == ("synonyms(synonymes.txt)", ["auto", "voitur"])
    write("single.txt", "voiture, auto", "colour => color")
    both = Analyzer.parse("standard|synonyms(single.txt, index)")
    assert both("une auto") == both.query("une auto") == ["une", "auto", "voiture"]
    assert both("colour") == ["color"]


def test_rules_of_several_lines_are_joined_and_the_longest_entry_counts(write):
    write("s.txt", "new york => big apple", "new => recent", "new => fresh", "new york times => paper")
    query = Analyzer.parse("standard|synonyms(s.txt)").query
    assert query("new york times in new york is new") == [
        *("paper", "in", "big", "apple", "is", "recent", "fresh")
    ]


def test_compounds_get_the_words_that_they_hold(write):
    write("teile.txt", "dampf", "schiff", "fahrt", "am")
    analyzer = Analyzer.parse("standard|decompound(teile.txt)")
    assert analyzer("Dampfschifffahrt am Rhein") == [
        *("dampfschifffahrt", "dampf", "am", "schiff", "fahrt", "am", "rhein")
    ]
    places = [(place.term, place.start, place.end) for place in locate_terms(analyzer, "ein Dampfschiff")]
    compound = [(term, 4, 15) for term in ("dampfschiff", "dampf", "am", "schiff")]
    assert places == [("ein", 0, 3), *compound]


def test_an_analyzer_keeps_the_lines_of_its_files(write, tmp_path):
    write("my words (old).txt", "un", "deux")
    analyzer = Analyzer.parse('standard|stop("my words (old).txt")|snowball(french)')
    assert str(analyzer) == "nfkc|casefold|words|stop('my words (old).txt')|snowball(french)"
    assert analyzer.files == {"my words (old).txt": ("un", "deux")}
    (tmp_path / "my words (old).txt").unlink()
    copies = (pickle.loads(pickle.dumps(analyzer)), Analyzer.parse(str(analyzer), analyzer.files))
    for copy in copies:
        assert (copy, copy.fingerprint(), copy("un trois")) == (analyzer, analyzer.fingerprint(), ["trois"])
    other = Analyzer.parse(str(analyzer), {"my words (old).txt": ["un", "trois"]})
    assert other != analyzer
    assert other.fingerprint() != analyzer.fingerprint()


def test_a_function_finds_tokens_where_a_program_names_it():
    analyzer = Analyzer.of(split_on_dashes, "stop(english)")
    assert str(analyzer) == f"python({__name__}:split_on_dashes)|stop(english)"
    assert analyzer("black bear-the-attacks") == ["black bear", "attacks"]
    assert list(locate_terms(analyzer, "a-black bear")) == [("black bear", 2, 12)]
    before = analyzer.fingerprint()
    split_on_dashes.__version__ = "2"
    try:
        assert Analyzer.parse(str(analyzer)).fingerprint() != before
    finally:
        del split_on_dashes.__version__
    with pytest.raises(AnalyzerError, match=r"the tokenizer os:system is not here: the program must name it"):
        Analyzer.parse("python(os:system)")
    with pytest.raises(AnalyzerError, match="gave 3, expected texts"):
        Analyzer.of(lambda text: [len(text)])("abc")


@pytest.mark.parametrize(
    ("written", "lines", "says"),
    [
        ("standard|stop(w.txt)", ["one two"], "stop(w.txt), line 1: expected one word, got 'one two'"),
        ("standard|synonyms(w.txt)", ["#", "a => b => c"], "synonyms(w.txt), line 2: expected words, as in"),
        ("standard|synonyms(w.txt)", ["a, , b"], "synonyms(w.txt), line 1: expected words, as in"),
        ("standard|synonyms(w.txt)", ["a =>"], "synonyms(w.txt), line 1: expected words, as in"),
        ("french|synonyms(w.txt)", ["de la => x"], "line 1: expected words, as in"),
        ("standard|synonyms(w.txt, index)", ["a b, c"], "line 1: at indexing an entry is one word"),
        ("standard|synonyms(w.txt, query)", ["a"], "step 'synonyms' takes no second argument 'query'"),
        ("standard|stop(w.txt)", [""], "the file w.txt has no line"),
        (
            "standard|stop(none.txt)",
            ["a"],
            "needs one of (english, french) or a file of words, got 'none.txt'",
        ),
        ("standard|decompound", ["a"], "step 'decompound' needs a file of words, got ''"),
        ("standard|stop", ["a"], "step 'stop' needs one of (english, french) or a file of words, got ''"),
        ("standard|synonyms(none.txt)", ["a"], "cannot read the file none.txt"),
        ("standard|stop(w.txt", ["a"], "expected a step such as casefold"),
        ("standard|casefold(w.txt)", ["a"], "step 'casefold' takes no argument, got 'w.txt'"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(write, written, lines, says):
    write("w.txt", *lines)
    with pytest.raises(AnalyzerError) as caught:
        Analyzer.parse(written)
    assert says in str(caught.value)


def test_a_file_that_is_no_text_or_too_large_is_refused(write, tmp_path):
    (tmp_path / "w.txt").write_bytes(b"\xff\xfe\0")
    with pytest.raises(AnalyzerError, match=r"cannot read the file w\.txt \('utf-8' codec"):
        Analyzer.parse("standard|stop(w.txt)")
    with (tmp_path / "w.txt").open("wb") as file:
        file.truncate(2**26)
    with pytest.raises(AnalyzerError, match="is larger than 4 MiB"):
        Analyzer.parse("standard|stop(w.txt)")
