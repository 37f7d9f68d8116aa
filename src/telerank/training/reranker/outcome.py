"""Measure a trained re-ranker on its test: a run, and measures beside those of the order it was given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.evaluation.measures import measure
from telerank.records import read_record
from telerank.training.reranker.candidates import CandidateSet
from telerank.training.reranker.config import RerankerTest
from telerank.training.reranker.pair_logits import CutCounts
from telerank.trec import write_run

RUN, RESULT = "test.run.gz", "test.json"


@dataclass(frozen=True)
class RerankerOutcome:
    """Means over ``queries`` by measure, after and before re-ranking ``candidates`` pairs.

    ``without`` of the queries have no candidates and count as not answered. The query is longer than the
    model reads in ``cut_queries`` of the pairs, the document in ``cut_documents``; of segments,
    the document has text behind those that are read, and ``cut_titles`` have a cut title.
    """

    queries: int
    candidates: int
    without: int
    measures: Mapping[str, float]
    before: Mapping[str, float]
    cut_queries: int = 0
    cut_documents: int = 0
    cut_titles: int = 0


def measure_test(
    candidates: CandidateSet,
    scores: Sequence[float],
    cut: CutCounts,
    settings: RerankerTest,
    output: Path,
    *,
    cut_titles: int = 0,
) -> None:
    """Write the run and its measures into ``output``; ``cut`` counts the pairs of the candidates.

    ``cut_titles`` of them have a document whose title is cut.
    """
    qrels = candidates.qrels
    if settings.listed:
        listed = {ranking.query.qid for ranking in candidates.rankings}
        qrels = {qid: grades for qid, grades in qrels.items() if qid in listed}
    rankings = candidates.rerank(scores)
    after = measure(rankings, qrels, settings.measures)
    before = measure(candidates.rankings, qrels, settings.measures)
    write_run(output / RUN, rankings)
    sizes = len(after.qids), len(scores), len(after.missing)
    outcome = RerankerOutcome(*sizes, after.mean, before.mean, cut.queries, cut.passages, cut_titles)
    replace_file(output / RESULT, f"{json.dumps(asdict(outcome), indent=2)}\n".encode())


def read_outcome(output: Path) -> RerankerOutcome:
    """Read what :func:`measure_test` has written. Raises ModelError if the file is damaged."""
    return read_record(output / RESULT, RerankerOutcome, ModelError)


def join_outcomes(outcomes: Sequence[RerankerOutcome]) -> RerankerOutcome:
    """The means over all queries of outcomes that have no query in common."""
    if len(outcomes) == 1:
        return outcomes[0]
    queries = sum(outcome.queries for outcome in outcomes)

    def mean(measures: Callable[[RerankerOutcome], Mapping[str, float]]) -> dict[str, float]:
        return {
            name: sum(measures(outcome)[name] * outcome.queries for outcome in outcomes) / queries
            for name in measures(outcomes[0])
        }

    return RerankerOutcome(
        queries,
        candidates=sum(outcome.candidates for outcome in outcomes),
        without=sum(outcome.without for outcome in outcomes),
        measures=mean(lambda outcome: outcome.measures),
        before=mean(lambda outcome: outcome.before),
        cut_queries=sum(outcome.cut_queries for outcome in outcomes),
        cut_documents=sum(outcome.cut_documents for outcome in outcomes),
        cut_titles=sum(outcome.cut_titles for outcome in outcomes),
    )
