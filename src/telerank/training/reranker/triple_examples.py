"""Triples to groups: those of texts as they stand, those of ids with a collection's texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from telerank.corpus.readers.msmarco import Triple, read_triples
from telerank.errors import CollectionError, ModelError
from telerank.training.reranker.config import Triples
from telerank.training.reranker.groups import Group, Scores
from telerank.training.reranker.reading import Reading
from telerank.training.reranker.stored_texts import StoredTexts, stored_texts
from telerank.training.reranker.triples import TripleGroups

_LONGEST_ID = 64  # a text is longer, or has a blank


def triple_groups(reading: Reading, wanted: Triples, folder: Path) -> TripleGroups:
    """The groups of a file; where it has ids, the texts lie in ``folder``."""
    path, config = Path(wanted.file), reading.config

    def made(group: Callable[[Triple], Group], passes: Callable[[Triple], bool]) -> TripleGroups:
        return TripleGroups(
            path,
            group,
            passes,
            window=wanted.window,
            seed=config.data_seed,
            encoding=config.data.encoding,
            progress=reading.progress,
        )

    first = next(islice(read_triples(path, config.data.encoding), 1), None)
    if first is None:
        raise CollectionError(f"{path}: no triple to learn from")
    if any(len(one) > _LONGEST_ID or " " in one for one in first):
        if config.loss.teacher or config.data.queries or reading.kept_back:
            says = "a teacher, a choice of queries, or dev and test of the same split need ids"
            raise ModelError(f"{path}: these are triples of texts; {says}")
        return made(_of_texts, lambda _: True)
    asked = {one.qid: one.text for one in reading.collection.split_queries(config.data.split)}
    queries = {qid: asked[qid] for qid in reading.chosen(asked.keys())}
    reading.counts["queries of the split"] = len(queries)
    texts = stored_texts(reading.collection, folder, reading.progress)
    by_id = _ById(path, asked, texts, reading.teacher(queries))
    # a query that the split lacks is an error, not one that is left out
    left_out = asked.keys() - queries.keys()
    return made(by_id.group, lambda triple: triple.query not in left_out and by_id.is_taught(triple))


@dataclass(frozen=True, eq=False)
class _ById:
    path: Path
    queries: Mapping[str, str]
    documents: StoredTexts
    teacher: Scores | None = None

    def is_taught(self, triple: Triple) -> bool:
        if self.teacher is None:
            return True
        told = self.teacher.get(triple.query, {})
        return triple.positive in told and triple.negative in told

    def group(self, triple: Triple) -> Group:
        qid, *docnos = triple
        try:
            query, texts = self.queries[qid], tuple(self.documents[one] for one in docnos)
        except KeyError as error:
            raise CollectionError(f"{self.path}: the collection has no {error.args[0]!r}") from error
        return Group(query, texts, tuple(self.teacher[qid][one] for one in docnos) if self.teacher else ())


def _of_texts(triple: Triple) -> Group:
    return Group(triple.query, (triple.positive, triple.negative))
