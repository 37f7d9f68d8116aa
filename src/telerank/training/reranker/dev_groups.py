"""The dev queries with their candidates, and the groups that the dev loss is a mean over.

The groups are made as those of the training: a relevant document, from the qrels, and others of the dev
lists. They are the same for every seed and at every update.
"""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from telerank.reranking.texts import TextPair
from telerank.training.examples.groups import Group, ListedNegatives, QrelGroups, Scores
from telerank.training.examples.reading import Reading
from telerank.training.reranker.candidates import FIXED_SEED, NO_CANDIDATES, CandidateSet, read_candidates
from telerank.training.reranker.config import RerankerDev
from telerank.training.settings import NegativeSettings


@dataclass(frozen=True, eq=False)
class RerankerDevSet:
    """``pairs`` are those that are scored: of ``groups``, and of ``candidates`` if they are measured."""

    candidates: CandidateSet
    groups: Sequence[Group]
    pairs: Sequence[TextPair]


NO_DEV = RerankerDevSet(NO_CANDIDATES, (), ())
"""What processes have that are not the first, which shares out its pairs."""


def read_dev_set(reading: Reading, settings: RerankerDev, qids: Container[str]) -> RerankerDevSet:
    """The candidates of the dev queries ``qids``, and the groups of the dev loss.

    A query without a relevant or without another document is left out of the dev loss, and counted in
    ``reading.counts``. Raises CollectionError if no query has candidates, or a text is missing.
    """
    candidates = read_candidates(reading.collection, settings, qids, reading.progress, with_relevant=True)
    drawn = _dev_groups(candidates, reading.data.negatives, reading.teacher(qids))
    groups = [drawn[number] for number in range(len(drawn))]
    left_out = "dev queries without a relevant or without another document, left out of the dev loss"
    reading.counts[left_out] = len(qids) - len({qid for qid, _ in drawn.pairs})
    measured = [] if settings.by_loss else candidates.pairs
    pairs = dict.fromkeys([*measured, *(pair for group in groups for pair in group.pairs)])
    return RerankerDevSet(candidates, groups, list(pairs))


def _dev_groups(
    candidates: CandidateSet, negatives: NegativeSettings | None, teacher: Scores | None
) -> QrelGroups:
    relevant: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for ranking in candidates.rankings:
        qid = ranking.query.qid
        grades, scored = candidates.qrels[qid], None if teacher is None else teacher.get(qid, {})
        relevant[qid] = _known([docno for docno in grades if grades[docno] > 0], candidates.documents, scored)
        allowed = [
            docno
            for docno in ranking.docnos
            if grades.get(docno, 0) <= 0 and (negatives is None or negatives.allows(grades.get(docno)))
        ]
        others[qid] = _known(allowed, candidates.documents, scored)
    rows: dict[str, int] = {}
    lists = {
        qid: np.array([rows.setdefault(docno, len(rows)) for docno in own], np.int32)
        for qid, own in others.items()
        if own
    }
    return QrelGroups(
        [(qid, docno) for qid in lists for docno in relevant[qid]],
        {ranking.query.qid: ranking.query.text for ranking in candidates.rankings},
        candidates.documents,
        ListedNegatives(list(rows), lists),
        negatives=negatives.per_positive if negatives else 1,
        seed=FIXED_SEED,
        teacher=teacher,
        per_group=negatives.per_group if negatives else None,
    )


def _known(
    docnos: Sequence[str], documents: Mapping[str, str], scored: Mapping[str, float] | None
) -> list[str]:
    """The documents that have a text, and a teacher's score if there is a teacher."""
    return [docno for docno in docnos if docno in documents and (scored is None or docno in scored)]
