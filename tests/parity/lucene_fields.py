"""Makes ``lucene_fields.json``: what Debian's Lucene 8 scores documents of two fields, read together.

Its ``BM25FQuery`` was renamed to ``CombinedFieldQuery`` later. Needs a JVM, ``jpype1`` and Lucene's jars
(Debian: ``liblucene8-java``); the test that reads the numbers needs none of them. ::

    python tests/parity/lucene_fields.py OUT.json

The documents are the first 16 terms of those of ``lucene_oracle.json.gz``, the titles their first three: Lucene takes for
the document frequency the largest of a field, which is that of the text then, and keeps whole lengths up to 40 exactly. Terms of
queries are in some title: of one that no document has in a field, Lucene 8 leaves out the lengths of that field.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lucene_oracle

JARS = [Path(f"/usr/share/java/lucene-{part}-8.7.0.jar") for part in ("core", "analyzers-common", "sandbox")]
TERMS, TITLE, DOCUMENTS, QUERIES = 16, 3, 120, 20
# Weights of title and text; in Lucene 8 k1 is 1.2 and b 0.75, whatever the searcher's similarity.
SETTINGS = ((1, 1), (3, 1), (2, 2), (5, 1), (1, 2))


def read_documents(path: Path) -> tuple[list[tuple[str, str]], list[list[str]]]:
    """Titles and texts, and the terms of queries."""
    oracle = lucene_oracle.read(path)
    texts = [text.split()[:TERMS] for text in oracle["documents"][:DOCUMENTS]]
    documents = [(" ".join(terms[:TITLE]), " ".join(terms)) for terms in texts]
    in_titles = {term for title, _ in documents for term in title.split()}
    held = [sorted(in_titles.intersection(terms)) for terms in texts if terms]
    queries = [terms[n % len(terms) :: 3] for n, terms in enumerate(held[:QUERIES])]
    return documents, queries


def score_all(documents: list[tuple[str, str]], queries: list[list[str]]) -> dict[str, Any]:
    """Row to score of each query, for each setting."""
    import jpype

    jpype.startJVM(classpath=[str(jar) for jar in JARS])
    java = jpype.JPackage("org").apache.lucene
    directory = java.store.ByteBuffersDirectory()
    config = java.index.IndexWriterConfig(java.analysis.core.WhitespaceAnalyzer())
    writer = java.index.IndexWriter(directory, config)
    for texts in documents:
        document = java.document.Document()
        for field, text in zip(("title", "text"), texts, strict=True):
            document.add(java.document.TextField(field, text, java.document.Field.Store.NO))
        writer.addDocument(document)
    writer.forceMerge(1)
    writer.close()
    searcher = java.search.IndexSearcher(java.index.DirectoryReader.open(directory))
    scores = []
    for title, text in SETTINGS:
        found = []
        for query in queries:
            whole = java.search.BooleanQuery.Builder()
            for term in query:
                own = java.search.BM25FQuery.Builder()
                own.addField("title", title).addField("text", text).addTerm(java.util.BytesRef(term))
                whole.add(own.build(), java.search.BooleanClause.Occur.SHOULD)
            hits = searcher.search(whole.build(), len(documents)).scoreDocs
            found.append({str(hit.doc): float(f"{float(hit.score):.7g}") for hit in hits})
        scores.append(found)
    return {"made_with": f"Lucene {java.util.Version.LATEST}", "settings": SETTINGS, "scores": scores}


if __name__ == "__main__":
    made = score_all(*read_documents(Path(__file__).with_name("lucene_oracle.json.gz")))
    Path(sys.argv[1]).write_text(json.dumps(made, separators=(",", ":")) + "\n", encoding="utf-8")
