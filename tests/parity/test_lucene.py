"""Every ranking model against Lucene's own scores, document by document."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import lucene_oracle
import numpy as np
import pytest

from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.sparse.similarities.families import parse_similarity

FIXTURE = Path(__file__).with_name("lucene_oracle.json.gz")
ORACLE = lucene_oracle.read(FIXTURE)
DOCUMENTS = [text.split() for text in ORACLE["documents"]]
QUERIES = [text.split() for text in ORACLE["queries"]]

TOLERANCE = 5e-6
"""Lucene rounds to float32 (a relative 6e-8) each term's statistics, each term's score and their sum; BM25 takes a
difference of such numbers, which loses a digit where a term's score is small beside its idf."""


class Corpus:
    """Counts of the oracle's documents, made without the index."""

    def __init__(self, documents: list[list[str]]) -> None:
        self.tf = [Counter(terms) for terms in documents]
        self.lengths = [len(terms) for terms in documents]
        self.df = Counter(term for counts in self.tf for term in counts)
        self.cf = sum(self.tf, Counter())
        self.statistics = Statistics(sum(map(bool, documents)), sum(self.lengths))

    def score(self, model: Similarity, query: list[str], row: int) -> float:
        terms = [term for term in query if self.tf[row][term]]
        parts = [
            model.contributions(self.tf[row][t], self.lengths[row], self.df[t], self.cf[t], self.statistics)
            for t in terms
        ]
        return float(np.sum(parts))


CORPUS = Corpus(DOCUMENTS)


def test_lucene_finds_exactly_the_documents_that_hold_a_term():
    for query, rows in zip(QUERIES, ORACLE["matches"], strict=True):
        assert rows == [row for row, tf in enumerate(CORPUS.tf) if any(tf[term] for term in query)]


@pytest.mark.parametrize("text", ORACLE["scores"])
def test_scores_are_those_of_lucene(text):
    model = parse_similarity(text)
    assert repr(model) == text
    asked = ORACLE["scores"][text]
    ours = [
        [CORPUS.score(model, query, row) for row in rows]
        for query, rows, _ in zip(QUERIES, ORACLE["matches"], asked, strict=False)
    ]
    assert sum(map(len, ours)) > 400
    for query, mine, theirs in zip(QUERIES, ours, asked, strict=False):
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=1e-7, err_msg=" ".join(query))


@pytest.mark.java
def test_lucene_itself_gives_the_committed_numbers(tmp_path):
    if not (which("java") and find_spec("jpype") and all(jar.exists() for jar in lucene_oracle.JARS)):
        pytest.skip("needs Java, jpype1 and Debian's liblucene8-java")
    target = tmp_path / "again.json.gz"
    subprocess.run([sys.executable, lucene_oracle.__file__, FIXTURE, target], check=True)
    again = lucene_oracle.read(target)
    assert again["matches"] == ORACLE["matches"]
    assert again["scores"].keys() == ORACLE["scores"].keys()
    for model, scores in again["scores"].items():
        for ours, theirs in zip(ORACLE["scores"][model], scores, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9, err_msg=model)
