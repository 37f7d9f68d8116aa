"""Writes what Lucene's analysis makes of the texts of lucene_analysis.json.

    python tests/parity/lucene_analysis.py FOLDER_OF_JARS

Needs Java, jpype1, and the jars lucene-core and lucene-analyzers-common (8.7.0 made the committed file). The
English sentences were written for this test; the French ones are the first of each twelfth paragraph of PIAF
v1.1 (MIT licence) and some written for this test. Of the texts of the part ``apart`` test_lucene_analysis.py
says why telerank differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jpype

FILE = Path(__file__).with_suffix(".json")


def main() -> None:
    jars = [
        *Path(sys.argv[1]).glob("lucene-core-*.jar"),
        *Path(sys.argv[1]).glob("lucene-analyzers-common-*.jar"),
    ]
    jpype.startJVM(classpath=[*map(str, jars)])
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    for row in rows:
        for name in ("words", "stems"):
            row[name] = " ".join(terms(row["language"], row["text"], stem=name == "stems"))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def terms(language: str, text: str, *, stem: bool) -> list[str]:
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
        stops = analysis.fr.FrenchAnalyzer.getDefaultStopSet()
        stream = analysis.StopFilter(analysis.core.LowerCaseFilter(stream), stops)
        stream = analysis.snowball.SnowballFilter(stream, "French") if stem else stream
    name = "org.apache.lucene.analysis.tokenattributes.CharTermAttribute"
    term = stream.getAttribute(jpype.JClass(name).class_)
    texts = []
    stream.reset()
    while stream.incrementToken():
        texts.append(str(term.toString()))
    stream.close()
    return texts


if __name__ == "__main__":
    main()
