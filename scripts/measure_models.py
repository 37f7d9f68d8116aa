"""Measure the models that come with telerank on articles that no training saw, and write their cards.

``python scripts/measure_models.py [reader-fr-en] [reranker-fr-en] [--model NAME=FOLDER] [--questions N]
[--keep FOLDER] [--precision P]``

The collections are those of ``TELERANK_DATA``; one that is not there has no row. ``--model`` measures another
folder under a name, such as the weights before they were packed, and ``--questions`` only as many of each
set; with either the cards stay as they are. ``--keep`` is a folder for indexes and vectors, which a second
run takes from there; ``--precision`` is that of products of matrices while vectors and pairs are computed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import telerank as tr
from telerank.answers.scorer import SpanReader
from telerank.corpus.derived.articles import ArticleParts, article_name
from telerank.corpus.derived.questions import shuffle
from telerank.errors import CollectionError
from telerank.evaluation.answers.measures import measure_answers
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import Evaluation, measure
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.fusion import scale_scores
from telerank.fusion.lists import shares
from telerank.model_names import READER, SHIPPED
from telerank.training.reader.config import ArticleShares, QuestionSource
from telerank.training.reader.questions import QuestionSet, TextQuestion, read_questions
from telerank.training.reader.train import ReadQuestions, read_sets
from telerank.types import Qrels, Query

SHARES = ArticleShares(test=0.2, dev=0.1, seed=3)
PARTS = ArticleParts(SHARES.test, SHARES.dev, SHARES.seed)
SETS = (("piaf", "test"), ("fquad", None), ("squad2-dev-half", "test"))
"""Each set with the part that is measured; of FQuAD no article was learned from."""
BEGIN, END = "<!-- measures -->\n", "<!-- end of measures -->"
AP = "AP@15"
DEEP = 20  # documents that are re-ranked
RANKED = (
    ("piaf", "dev", 150),
    *((collection, part, 300) for collection, part in SETS),
    ("scifact", None, 150),
    ("msmarco-slice", None, 150),
)
"""Each set, its part and the most questions that a re-ranker is measured on; the first has its weight."""
WEIGHTS = [step / 10 for step in range(11)]


def measure_reader(name: str, most: int | None, precision: str) -> str:
    """The table of a reader."""
    reader = SpanReader(name, precision=precision)
    rows = []
    for collection, part in SETS:
        source = QuestionSource(
            collection=collection, part=part, unrelated=1.0, questions=most, unanswerable=False
        )
        try:
            questions = read_questions(source, SHARES, 0)
        except CollectionError as error:
            print(f"{collection}: {error}")
            continue
        rows.append((collection, *read_rows(reader, questions)))
    names = (
        "set",
        "questions",
        "F1, threshold",
        "EM, threshold",
        "F1, always an answer",
        "declined, unrelated text",
    )
    return table(names, rows)


def read_rows(reader: SpanReader, questions: QuestionSet) -> Iterator[str]:
    """The values of a set: of the questions with an answer, and of the same with another article's text."""
    related = [own for own in questions.questions if own.answers]
    others = [own for own in questions.questions if own.unrelated]
    read = read_part(reader, questions, related)
    rules = reader.rules()
    yield f"{len(related):,}"
    predictions = read.predict(rules)
    for name in ("F1(fr)", "EM(fr)"):
        yield show(measure_answers(read.gold, predictions, name), name, 100)
    always = read.predict(replace(rules, threshold=None))
    yield show(measure_answers(read.gold, always, "F1(fr)"), "F1(fr)", 100)
    declined = read_part(reader, questions, others).predict(rules)
    yield f"{100 * sum(not text for text in declined.values()) / max(1, len(declined)):.1f} %"


def read_part(reader: SpanReader, questions: QuestionSet, part: Sequence[TextQuestion]) -> ReadQuestions:
    return read_sets(reader, [replace(questions, questions=tuple(part))])


def measure_reranker(name: str, fewer: int | None, keep: Path, precision: str) -> str:
    """The table of a re-ranker; the weight is chosen on PIAF's dev."""
    names = ("set", "system", "questions", AP)
    rows: list[tuple[str, ...]] = []
    weight: float | None = None
    for collection, part, most in RANKED:
        try:
            data = tr.collection(collection)
        except CollectionError as error:
            print(f"{collection}: {error}")
            continue
        queries, qrels = held_out(data, part, fewer or most)
        french = collection in ("piaf", "fquad")
        index = tr.index(data, keep / collection, analyzer="french" if french else "english")
        tr.encode(index, model="e5-small", precision=precision)
        stage = tr.rerank(name, index, precision=precision)
        found = evaluate(index, stage, queries, qrels, [weight] if weight is not None else WEIGHTS)
        if weight is None:
            weight = choose_weight({own: found[f"fused {own}"].values[AP] for own in WEIGHTS})
            means = [(collection, system, show(own, AP, 1)) for system, own in found.items()]
            print(table(("chosen on", "system", AP), means), flush=True)
            continue
        rows += ranking_rows(collection, found, f"fused {weight}")
        print(table(names, rows), flush=True)
    note = (
        "\n\n† differs from the hybrid: p < 0.05 in a paired t-test, with Holm's correction. Fused: "
        f"`{weight} * softmax(H >> rerank) + {round(1 - weight, 1)} * minmax(H)`, where `H` is the hybrid."
    )
    return table(names, rows) + note


def choose_weight(values: Mapping[float, np.ndarray]) -> float:
    """The least weight whose mean is at most one standard error of the difference below the best mean.

    Breiman and others' rule of one standard error (Classification and Regression Trees, 1984, section 3.4.3):
    of weights that the questions do not tell apart, the one with the least of the re-ranker, which knows less
    of other texts.
    """
    best = max(values.values(), key=np.mean)
    below = {weight: best - own for weight, own in values.items()}
    return min(weight for weight, own in below.items() if own.mean() <= own.std(ddof=1) / math.sqrt(len(own)))


def held_out(data: tr.collection, part: str | None, most: int | None) -> tuple[list[Query], Qrels]:
    """The questions about the articles of a part, and their qrels; None: of test, dev or the first split."""
    split = next((name for name in ("test", "dev") if name in data.splits), data.splits[0])
    names = {doc.docno: article_name(doc, data.name) for doc in data.docs()} if part else {}
    qrels: dict[str, dict[str, int]] = {}
    for qrel in data.split_qrels(split):
        if part is None or PARTS.part_of(names[qrel.docno]) == part:
            qrels.setdefault(qrel.qid, {})[qrel.docno] = qrel.grade
    kept = dict.fromkeys(shuffle(qrels, str, seed=SHARES.seed)[:most])
    queries = [query for query in data.split_queries(split) if query.qid in kept]
    return queries, {qid: grades for qid, grades in qrels.items() if qid in kept}


def evaluate(
    index: tr.Index, reranker: tr.Stage, queries: Sequence[Query], qrels: Qrels, weights: Sequence[float]
) -> dict[str, Evaluation]:
    """The values of each system; the hybrid and the re-ranker's scores are computed once."""
    hybrid = tr.pipeline("0.5 * minmax(bm25 % 100) + 0.5 * minmax(dense % 100)", index) % DEEP
    systems = {"BM25": index.bm25() % DEEP, "e5-small": index.dense() % DEEP, "hybrid": hybrid}
    runs = {system: list(stage.run(queries)) for system, stage in systems.items()}
    runs["re-ranked"] = list(reranker(iter(runs["hybrid"])))
    before, after = runs["hybrid"], runs["re-ranked"]
    for weight in weights:
        runs[f"fused {weight}"] = [fuse(weight, *both) for both in zip(after, before, strict=True)]
    return {system: measure(run, qrels, AP) for system, run in runs.items()}


def fuse(weight: float, first: tr.Ranking, second: tr.Ranking) -> tr.Ranking:
    """``weight * softmax(first) + (1 - weight) * minmax(second)``, of the same documents."""
    share = dict(zip(first.docnos, shares(first.scores), strict=True))
    scaled = dict(scale_scores(second))
    docnos = list(scaled)
    return tr.Ranking.ranked(
        first.query, docnos, [weight * share[d] + (1 - weight) * scaled[d] for d in docnos]
    )


def ranking_rows(collection: str, found: dict[str, Evaluation], fused: str) -> Iterator[tuple[str, ...]]:
    shown = {"fused" if system == fused else system: own for system, own in found.items()}
    compared = compare_evaluations(shown, ["hybrid"], measures=[AP])
    significant = {own.system for own in compared.differences if own.p_holm < 0.05}
    for system, own in shown.items():
        yield (
            collection,
            system,
            f"{len(own.qids):,}",
            show(own, AP, 1) + ("†" if system in significant else ""),
        )


def show(evaluation: Evaluation, name: str, factor: int) -> str:
    """A mean with its interval."""
    values = evaluation.values[name]
    ((low, high),) = bootstrap_intervals([values])
    digits = 1 if factor == 100 else 3
    return f"{factor * values.mean():.{digits}f} [{factor * low:.{digits}f}, {factor * high:.{digits}f}]"


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_card(card: Path, text: str) -> None:
    """Replace what stands between the marks of a card."""
    before, mark, rest = card.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{card}: expected the marks {BEGIN.strip()} and {END}")
    card.write_text(f"{before}{BEGIN}{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="by default both")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--questions", type=int, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--precision", default="auto", metavar="P")
    options = parser.parse_args()
    folders = dict(pair.split("=", 1) for pair in options.model)
    if unknown := {*options.names, *folders} - SHIPPED.keys():
        parser.error(f"expected {' or '.join(SHIPPED)}, got {min(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or SHIPPED:
            model = folders.get(name, name)
            if name == READER:
                text = measure_reader(model, options.questions, options.precision)
            else:
                keep = options.keep or Path(folder)
                text = measure_reranker(model, options.questions, keep, options.precision)
            print(f"{name}\n\n{text}\n")
            if not folders and options.questions is None:
                write_card(SHIPPED[name].folder / "README.md", text)


if __name__ == "__main__":
    main()
