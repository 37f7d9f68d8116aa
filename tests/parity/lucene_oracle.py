"""Makes ``lucene_oracle.json.gz``: what Debian’s Lucene 8 scores short documents, for every ranking model.

Needs a JVM, ``jpype1`` and Lucene's jars (Debian: ``liblucene8-java``); the test that reads the numbers
needs none of them. ::

    python tests/parity/lucene_oracle.py lucene_oracle.json.gz OUT.json.gz  # the same texts, scored anew

Debian’s jars are named 8.7.0 and hold Lucene 8.8.1; no formula differs. The documents are openings of
paragraphs of PIAF, and corner cases, of at most 40 terms, as Lucene keeps longer lengths in one lossy byte.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

JARS = [Path(f"/usr/share/java/lucene-{part}-8.7.0.jar") for part in ("core", "analyzers-common")]
LONG_QUERIES = 8
FIELD = "text"

Oracle = dict[str, Any]

_EVERY_DFR = [
    f"dfr(basic_model={basic}, after_effect={after}, normalization={normalization})"
    for basic, after, normalization in product(
        ("g", "if", "in", "ine"), ("b", "l", "none"), ("h1(c=1)", "h2(c=1)", "h3(mu=800)", "z(z=0.3)", "none")
    )
]
MODELS = [
    *("bm25(k1=1.2, b=0.75)", "bm25(k1=0.9, b=0.4)", "bm25(k1=0, b=1)", "bm25(k1=2.5, b=0)"),
    *("lm_dirichlet(mu=2000)", "lm_dirichlet(mu=10)", "lm_dirichlet(mu=0.5)"),
    *("lm_jelinek_mercer(lambda=0.1)", "lm_jelinek_mercer(lambda=0.7)", "lm_jelinek_mercer(lambda=1)"),
    *("dfi(independence=standardized)", "dfi(independence=saturated)", "dfi(independence=chisquared)"),
    *_EVERY_DFR,
    "dfr(basic_model=g, after_effect=b, normalization=h1(c=3.5))",
    "dfr(basic_model=if, after_effect=l, normalization=h2(c=7))",
    "dfr(basic_model=in, after_effect=l, normalization=h2(c=0))",
    "dfr(basic_model=ine, after_effect=b, normalization=h3(mu=20))",
    "dfr(basic_model=g, after_effect=l, normalization=z(z=0.1))",
]
"""As telerank writes them; Lucene's own objects are made from these by :func:`_similarity`."""


def read(path: Path) -> Oracle:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return dict(json.load(file))


def write(oracle: Oracle, path: Path) -> None:
    text = json.dumps(oracle, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def scored(oracle: Oracle) -> Oracle:
    """The texts with, for every query, the rows that hold a term of it, and for every model their scores.

    The many combinations of DFR are not asked the last, long queries: the file stays small.
    """
    lucene = Lucene(oracle["documents"])
    queries = [query.split() for query in oracle["queries"]]
    matches = [sorted(lucene.scores(MODELS[0], query)) for query in queries]
    scores: dict[str, list[list[float]]] = {}
    for model in MODELS:
        asked = queries[:-LONG_QUERIES] if model in _EVERY_DFR else queries
        found = [lucene.scores(model, query) for query in asked]
        scores[model] = [
            [_short(by_row[row]) for row in rows] for by_row, rows in zip(found, matches, strict=False)
        ]
    texts = {key: oracle[key] for key in ("source", "documents", "queries")}
    return {"made_with": f"Lucene {lucene.version}", **texts, "matches": matches, "scores": scores}


def _short(score: float) -> float:
    """The shortest number that is this float32 and no other."""
    return next(
        short for digits in (6, 7, 8, 9) if np.float32(short := float(f"{score:.{digits}g}")) == score
    )


class Lucene:
    """One index in memory, of texts that are terms with blanks between them."""

    def __init__(self, documents: list[str]) -> None:
        import jpype

        if not jpype.isJVMStarted():
            jpype.startJVM(classpath=[str(jar) for jar in JARS])
        self.java = jpype.JPackage("org").apache.lucene
        self.version = str(self.java.util.Version.LATEST)
        self.searcher = self.java.search.IndexSearcher(self._reader(documents))

    def _reader(self, documents: list[str]) -> Any:
        analyzer = self.java.analysis.core.WhitespaceAnalyzer()
        directory = self.java.store.ByteBuffersDirectory()
        writer = self.java.index.IndexWriter(directory, self.java.index.IndexWriterConfig(analyzer))
        for text in documents:
            document = self.java.document.Document()
            document.add(self.java.document.TextField(FIELD, text, self.java.document.Field.Store.NO))
            writer.addDocument(document)
        writer.forceMerge(1)
        writer.close()
        return self.java.index.DirectoryReader.open(directory)

    def scores(self, model: str, query: list[str]) -> dict[int, float]:
        """Row to score, of all documents that hold a term of the query."""
        if "after_effect=none" in model:
            return self._bare_scores(model, query)
        self.searcher.setSimilarity(self._similarity(model))
        should = self.java.search.BooleanClause.Occur.SHOULD
        terms = self.java.search.BooleanQuery.Builder()
        for term in query:
            terms.add(self.java.search.TermQuery(self.java.index.Term(FIELD, term)), should)
        hits = self.searcher.search(terms.build(), self.searcher.getIndexReader().maxDoc()).scoreDocs
        return {int(hit.doc): float(hit.score) for hit in hits}

    def _similarity(self, model: str) -> Any:
        known = self.java.search.similarities
        family, parameters = parsed(model)
        if family == "bm25":
            return known.BM25Similarity(float(parameters["k1"]), float(parameters["b"]))
        if family == "lm_dirichlet":
            return known.LMDirichletSimilarity(float(parameters["mu"]))
        if family == "lm_jelinek_mercer":
            return known.LMJelinekMercerSimilarity(float(parameters["lambda"]))
        if family == "dfi":
            measures = {
                "standardized": known.IndependenceStandardized,
                "saturated": known.IndependenceSaturated,
                "chisquared": known.IndependenceChiSquared,
            }
            return known.DFISimilarity(measures[parameters["independence"]]())
        after = {"b": known.AfterEffectB, "l": known.AfterEffectL}[parameters["after_effect"]]()
        return known.DFRSimilarity(self._basic_model(parameters), after, self._normalization(parameters))

    def _basic_model(self, parameters: dict[str, str]) -> Any:
        known = self.java.search.similarities
        models = {"g": known.BasicModelG, "if": known.BasicModelIF}
        return (models | {"in": known.BasicModelIn, "ine": known.BasicModelIne})[parameters["basic_model"]]()

    def _normalization(self, parameters: dict[str, str]) -> Any:
        known = self.java.search.similarities
        made = {"h1": known.NormalizationH1, "h2": known.NormalizationH2}
        made |= {"h3": known.NormalizationH3, "z": known.NormalizationZ}
        name, inner = parsed(parameters["normalization"])
        if name == "none":
            return known.Normalization.NoNormalization()
        return made[name](float(next(iter(inner.values()))))

    def _bare_scores(self, model: str, query: list[str]) -> dict[int, float]:
        """Without an after-effect, which ``DFRSimilarity`` no longer offers: Lucene's basic model alone.

        The after-effect is handed to the basic model as a factor times 1 + tfn, so that 1 is 1 + tfn.
        """
        _, parameters = parsed(model)
        basic, normalization = self._basic_model(parameters), self._normalization(parameters)
        totals: dict[int, float] = {}
        for term in query:
            stats = self._statistics(term)
            for row, (tf, length) in self._postings(term).items():
                tfn = normalization.tfn(stats, float(tf), float(length))
                totals[row] = totals.get(row, 0.0) + float(basic.score(stats, tfn, 1 + tfn))
        return {row: float(np.float32(total)) for row, total in totals.items()}

    def _statistics(self, term: str) -> Any:
        reader, whole = self.searcher.getIndexReader(), self.searcher.collectionStatistics(FIELD)
        stats = self.java.search.similarities.BasicStats(FIELD, 1.0)
        stats.setNumberOfDocuments(whole.docCount())
        stats.setNumberOfFieldTokens(whole.sumTotalTermFreq())
        stats.setAvgFieldLength(whole.sumTotalTermFreq() / whole.docCount())
        stats.setDocFreq(reader.docFreq(self.java.index.Term(FIELD, term)))
        stats.setTotalTermFreq(reader.totalTermFreq(self.java.index.Term(FIELD, term)))
        return stats

    def _postings(self, term: str) -> dict[int, tuple[int, int]]:
        """Row to tf and length, both as Lucene's index has them."""
        import jpype

        leaf = self.searcher.getIndexReader().leaves().get(0).reader()
        entries = leaf.postings(self.java.index.Term(FIELD, term))
        postings: dict[int, tuple[int, int]] = {}
        while entries is not None and entries.nextDoc() != entries.NO_MORE_DOCS:
            norms = leaf.getNormValues(FIELD)
            norms.advanceExact(entries.docID())
            length = self.java.util.SmallFloat.byte4ToInt(jpype.JByte(norms.longValue()))
            postings[int(entries.docID())] = (int(entries.freq()), int(length))
        return postings


def parsed(text: str) -> tuple[str, dict[str, str]]:
    """``name(key=value, key=inner(key=value))`` as the name and the values, in words of its own."""
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", text)
    if match is None:
        raise ValueError(f"not the text form of a model: {text}")
    pairs = re.findall(r"(\w+)=([\w.]+(?:\([^)]*\))?)", match[2] or "")
    return match[1], dict(pairs)


if __name__ == "__main__":
    write(scored(read(Path(sys.argv[1]))), Path(sys.argv[2]))
