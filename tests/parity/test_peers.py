"""The engines that benchmarks measure compute what the formulas say: else their times would mean nothing."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import lucene_oracle
import pytest

from telerank.sparse.similarities.families import parse_similarity

pytestmark = pytest.mark.java

ORACLE = lucene_oracle.read(Path(__file__).with_name("lucene_oracle.json.gz"))
LUCENE = bool(which("javac")) and all(jar.exists() for jar in lucene_oracle.JARS)
BM25 = "bm25(k1=0.9, b=0.4)"
TANTIVY = "bm25(k1=1.2, b=0.75)"  # with the constant factor k1 + 1
MODELS = [
    *(BM25, "lm_dirichlet(mu=100)", "lm_jelinek_mercer(lambda=0.3)", "dfi(independence=saturated)"),
    "dfr(basic_model=ine, after_effect=b, normalization=h3(mu=80))",
]
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("length", [0, 23, 24, 40, 41, 42, 55, 56, 59, 60, 1000, 2**31 - 1])
def test_lengths_are_rounded_to_the_byte_as_lucene_rounds_them(length, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    check = pytest.importorskip("peers.check")
    exact_to_40 = {41: 40, 42: 42, 55: 54, 56: 56, 59: 56, 60: 60, 1000: 984, 2**31 - 1: 2013265944}
    assert int(check.one_byte(length)) == exact_to_40.get(length, length)


@pytest.mark.parametrize(
    ("name", "models"),
    [("lucene", MODELS), ("bm25s", [BM25]), ("bm25s-batch", [BM25]), ("tantivy", [TANTIVY])],
)
def test_a_peer_finds_the_best_documents_with_the_scores_of_the_formula(name, models, tmp_path, monkeypatch):
    if not (LUCENE if name == "lucene" else find_spec(name.removesuffix("-batch"))):
        pytest.skip(f"{name} is not here")
    monkeypatch.syspath_prepend(BENCHMARKS)
    from peers import check, open_peer

    texts, queries = ORACLE["documents"], [query.split() for query in ORACLE["queries"]]
    documents = tmp_path / "documents"
    documents.write_text("\n".join(texts) + "\n", encoding="utf-8")
    with open_peer(name, core=min(os.sched_getaffinity(0))) as peer:
        built = peer.build(documents, tmp_path / "index")
        peer.open(tmp_path / "index")
        found = {(model, k): peer.search(queries, k, model) for model in models for k in (3, 200)}
    assert built.documents == len(texts)
    for (model, k), lists in found.items():
        similarity, count_empty = parse_similarity(model), name != "lucene"
        truth = check.reference(texts, queries, similarity, check.one_byte, count_empty=count_empty)
        agreed = check.agreement(lists, truth, k, factor=2.2 if model == TANTIVY else 1)
        assert max(agreed.by_rank, agreed.by_document) < 5e-6, (model, k)
