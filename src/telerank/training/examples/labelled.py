"""Pairs with labels of their own: the first documents of lists, relevant or not (monoBERT on TREC-CAR)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.errors import CollectionError
from telerank.training.examples.groups import Group, shuffle_numbers
from telerank.training.examples.reading import Reading, candidate_lists, relevant_pairs
from telerank.training.examples.triples import stored_docs
from telerank.training.reading import check_complete
from telerank.training.settings import ListSettings


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """A group for each document of each list; texts are read when they are needed.

    ``rows`` is (pairs, 2): the positions of query and document in ``qids`` and ``docnos``. ``relevant`` is
    (pairs,).
    """

    qids: Sequence[str]
    queries: Mapping[str, str]
    docnos: Sequence[str]
    docs: Docstore
    rows: npt.NDArray[np.int32]
    relevant: npt.NDArray[np.bool_]
    seed: int

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def window(self) -> int:
        return len(self.rows)

    @property
    def repeats_from(self) -> float:
        return len(self.rows)

    @property
    def most_pairs(self) -> float:
        return len(self.rows)

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        epoch, within = divmod(number, len(self.rows))
        pair = int(shuffle_numbers(len(self.rows), self.seed, epoch)[within])
        qid, docno = self.qids[self.rows[pair, 0]], self.docnos[self.rows[pair, 1]]
        try:
            text = self.docs[docno].full_text
        except KeyError as error:
            raise CollectionError(f"the collection has no document {docno!r} of a list of {qid}") from error
        is_relevant = bool(self.relevant[pair])
        return Group(self.queries[qid], (text,), qid=qid, docnos=(docno,), relevant=is_relevant)


def labelled_pairs(reading: Reading, lists: ListSettings, folder: Path) -> LabelledPairs:
    """The first documents of the lists of the split's judged queries; ``folder`` gets a docstore.

    Raises CollectionError if no query has a list, or the collection lacks a query that is judged.
    """
    collection, split = reading.collection, reading.data.split
    relevant = relevant_pairs(collection, split)
    positions = {qid: row for row, qid in enumerate(reading.choose(relevant))}
    docnos: dict[str, int] = {}
    rows, labels = array("i"), array("b")
    listed = 0
    for ranking in candidate_lists(collection, split, run=lists.run, pool=lists.pool):
        qid = ranking.query.qid
        if qid in positions and len(ranking):
            listed += 1
            for docno in ranking.docnos[: lists.depth]:
                rows.extend((positions[qid], docnos.setdefault(docno, len(docnos))))
                labels.append(docno in relevant[qid])
    if not listed:
        raise CollectionError(f"{collection.name}: no judged query of split {split!r} has a list")
    queries = {query.qid: query.text for query in collection.split_queries(split) if query.qid in positions}
    check_complete(positions, queries, f"{collection.name}: split {split!r} has no query")
    counts = {"queries": listed, "pairs": len(labels), "relevant pairs": sum(labels)}
    reading.counts.update({**counts, "queries without a list, left out": len(positions) - listed})
    docs = stored_docs(collection, folder, reading.progress)
    pairs = np.array(rows, np.int32).reshape(-1, 2)
    return LabelledPairs(
        tuple(positions), queries, tuple(docnos), docs, pairs, np.array(labels, np.bool_), reading.seed
    )
