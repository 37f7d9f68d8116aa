"""A re-ranker as a teacher: it scores all pairs of relevant documents and negatives before the training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from telerank.reranking.scorer import Scorer
from telerank.training.examples.groups import ListedNegatives, QrelGroups
from telerank.training.examples.reading import Reading, read_groups
from telerank.trec import write_run
from telerank.types import Query, Ranking

TEACHER = "teacher.run.gz"
"""The run with the scores, beside the model."""


def write_teacher_run(model: str, reading: Reading, file: Path, device: torch.device) -> None:
    """Write the re-ranker's scores of the pairs that a training may learn from, ranked, to a run file.

    They are those of the relevant documents and the negatives that are drawn, or all listed ones if they are
    drawn anew in each epoch.

    Raises
    ------
    ModelError
        If there is no such re-ranker.
    """
    scorer = Scorer(model, device=str(device))
    data = reading.data.model_copy(update={"pairs": None})
    groups = read_groups(replace(reading, data=data, teacher_run=None, counts={}), Path())
    assert isinstance(groups, QrelGroups)  # the settings ask for negatives of lists
    documents = collect_documents(groups)

    def rankings() -> Iterator[Ranking]:
        texts = (
            [(groups.queries[qid], groups.documents[docno]) for docno in own]
            for qid, own in documents.items()
        )
        for done, scores in enumerate(scorer.stream(texts), 1):
            qid = qids[done - 1]
            reading.progress("scoring by the teacher", done, len(qids))
            yield Ranking.ranked(Query(qid, groups.queries[qid]), list(documents[qid]), scores)

    qids = list(documents)
    write_run(file, rankings(), tag="teacher")


def collect_documents(groups: QrelGroups) -> dict[str, dict[str, None]]:
    """The documents of each query that are learned from, each once."""
    documents = dict[str, dict[str, None]]()
    for pair, (qid, docno) in enumerate(groups.pairs):
        own = documents.setdefault(qid, {})
        if groups.resample and isinstance(groups.source, ListedNegatives):
            source = groups.source
            own.update(dict.fromkeys([docno, *(source.docnos[row] for row in source.lists[qid].tolist())]))
        else:
            own.update(dict.fromkeys(groups.docnos(pair)))
    return documents
