"""Writes lucene_analysis.json: what Lucene's analysis makes of English and French sentences.

    python tests/parity/lucene_analysis.py FOLDER_OF_JARS PIAF_JSON_GZ

Needs Java, jpype1, and the jars lucene-core and lucene-analyzers-common (8.7.0 made the committed file). The
English sentences were written for this test; the French ones are the first of each twelfth paragraph of PIAF
v1.1 (MIT licence) and some written for this test.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import jpype

ENGLISH = """\
The quick brown foxes weren't jumping over the lazy dogs' kennels yesterday.
It's the library's 3,500 volumes that the city's children borrowed most often in 1998.
Relational databases and their indexes were being generated conditionally, if at all.
Does aspirin prevent cancer, or will it only delay the patients' dying?
Hopefully the electrical engineers' organization is operating oscillators at 1.5 volts.
A well-known state-of-the-art method (see the 2nd chapter) was sensitive to noise.
They possibly agreed that such generosity and friendliness had been feudalistic.
Rock'n'roll records cost $12.99 each; O'Neill's sold 40% of them by 10 o'clock.
What is the adjustability of a replacement policy for the insured's motor car?
“Nothing,” she said, “is as effective as trees, ponies, caresses and skies.”
The max_length parameter of parse_args limits the number of characters in a line.
Analogies between national identities and nationalities are not universally accepted.
These hopping rabbits were controlled, then hissed at, and there was no failing.
On the electron's angular momentum: theory, measurements and interpretations.
A triplicate formative formalization of communism is callousness with hopefulness.
Protein-protein interactions regulate gene expression in CD4+ T cells at 37 degrees.
Into the hands of whom will this be put, and for whose benefit are these taxes raised?
"""

FRENCH = """\
L'État verse aujourd'hui l'allocation aux salariés qu'il emploie jusqu'à leur départ.
Lorsqu'elle s'est présentée, on n'a pas su dire si c'était d'elle qu'on parlait.
Les conseils de prud'hommes jugent les litiges entre l'employeur et quelqu'un qu'il a licencié.
Puisqu'on t'avait prévenu, j'ai cru que tu m'attendrais sur la presqu'île.
Quoiqu'ils aient eu 3,14 % de hausse, les loyers n'étaient pas plus élevés qu'en 2019.
Peut-être êtes-vous majeure, mariée et résidez-vous à l'étranger depuis 10.000 jours ?
Quelles démarches administratives effectuer pour déclarer la naissance d'un enfant ?
Les généraux majestueusement naïfs continuaient évidemment leurs activités.
Une décision défavorable du tribunal judiciaire peut faire l'objet d'un appel.
Nous finissions de travailler ; les chevaux jouaient ; les grévistes négociaient.
"""

# each on its own: why telerank differs is said beside it in test_lucene_analysis.py
APART = {
    "english": [
        "the U.S.A. and e.g. Ph.D.",
        "www.example.com",
        "key:value",
        "_emphasis_ __init__",
        "1;2",
        "Straße",
        "ﬁne x² ½",
        "Windows™",
        "3'UTR",
        "co\u00adoperate",
        "cafe\u0301",
        "☂ 💡",
        "東京",
    ],
    "french": [
        "aujourd’hui",
        "étudiant·e·s",
        "l'œuvre, l'oeuvre",
        "ﬁlle",
        "l′arbre",
        "d'1 euro",
        "S.N.C.F.",
        "M.Dupont",
    ],
}


def main() -> None:
    jars, piaf = sys.argv[1:]
    jpype.startJVM(
        classpath=[
            str(jar)
            for name in ("core", "analyzers-common")
            for jar in Path(jars).glob(f"lucene-{name}-*.jar")
        ]
    )
    texts = {"english": ENGLISH.splitlines(), "french": [*FRENCH.splitlines(), *_sentences_of(piaf)]}
    rows = [
        {"part": part, "language": language, "text": text}
        | {name: " ".join(_terms(language, text, stem=name == "stems")) for name in ("words", "stems")}
        for part, chosen in (("sentences", texts), ("apart", APART))
        for language, of in chosen.items()
        for text in of
    ]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    Path(__file__).with_suffix(".json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _sentences_of(piaf: str) -> list[str]:
    with gzip.open(piaf, "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    paragraphs = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    return [paragraph.partition(". ")[0] for paragraph in paragraphs[::12]]


def _terms(language: str, text: str, *, stem: bool) -> list[str]:
    """The chain of EnglishAnalyzer, or that of FrenchAnalyzer with Snowball instead of its light stemmer."""
    analysis = jpype.JPackage("org").apache.lucene.analysis
    stream = source = analysis.standard.StandardTokenizer()
    source.setReader(jpype.java.io.StringReader(text))
    if language == "english":
        stream = analysis.core.LowerCaseFilter(analysis.en.EnglishPossessiveFilter(stream))
        stream = analysis.StopFilter(stream, analysis.en.EnglishAnalyzer.getDefaultStopSet())
        stream = analysis.en.PorterStemFilter(stream) if stem else stream
    else:
        stream = analysis.util.ElisionFilter(stream, analysis.fr.FrenchAnalyzer.DEFAULT_ARTICLES)
        stream = analysis.StopFilter(
            analysis.core.LowerCaseFilter(stream), analysis.fr.FrenchAnalyzer.getDefaultStopSet()
        )
        stream = analysis.snowball.SnowballFilter(stream, "French") if stem else stream
    term = stream.getAttribute(
        jpype.JClass("org.apache.lucene.analysis.tokenattributes.CharTermAttribute").class_
    )
    terms = []
    stream.reset()
    while stream.incrementToken():
        terms.append(str(term.toString()))
    stream.close()
    return terms


if __name__ == "__main__":
    main()
