"""What a trained re-ranker makes of its test: a run, and measures beside those of the order it was given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from telerank.stored import replace_file
from telerank.training.reranker.candidates import CandidateSet
from telerank.training.reranker.config import RerankerTest
from telerank.trec import write_run

RUN, RESULT = "test.run.gz", "test.json"


@dataclass(frozen=True)
class RerankerOutcome:
    """Means over ``queries`` by measure, after and before re-ranking ``candidates`` pairs.

    ``without`` queries have no candidates and count as not answered.
    """

    queries: int
    candidates: int
    without: int
    measures: Mapping[str, float]
    before: Mapping[str, float]


def measure_test(
    candidates: CandidateSet, scores: Sequence[float], wanted: RerankerTest, output: Path
) -> RerankerOutcome:
    """Write the run and its measures into ``output``."""
    if wanted.listed:
        asked = {one.query.qid for one in candidates.rankings}
        qrels = {qid: grades for qid, grades in candidates.qrels.items() if qid in asked}
        candidates = replace(candidates, qrels=qrels)
    rankings = candidates.ranked(scores)
    after = candidates.measured(rankings, wanted.measures)
    before = candidates.measured(candidates.rankings, wanted.measures)
    write_run(output / RUN, rankings)
    tested = RerankerOutcome(len(after.qids), len(scores), len(after.missing), after.mean, before.mean)
    replace_file(output / RESULT, f"{json.dumps(asdict(tested), indent=2)}\n".encode())
    return tested


def read_outcome(output: Path) -> RerankerOutcome:
    """What :func:`measure_test` wrote."""
    return RerankerOutcome(**json.loads((output / RESULT).read_text(encoding="utf-8")))


def together(parts: Sequence[RerankerOutcome]) -> RerankerOutcome:
    """The means over the queries of all parts, which have none in common."""
    queries = sum(one.queries for one in parts)

    def mean(of: Callable[[RerankerOutcome], Mapping[str, float]]) -> dict[str, float]:
        return {name: sum(of(one)[name] * one.queries for one in parts) / queries for name in of(parts[0])}

    counts = (sum(one.candidates for one in parts), sum(one.without for one in parts))
    return RerankerOutcome(queries, *counts, mean(lambda one: one.measures), mean(lambda one: one.before))
