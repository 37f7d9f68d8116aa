"""Training triples as MS MARCO ships them: a group of two for each line of a file that is streamed.

The lines are either texts, or ids of a collection whose texts are then read from a docstore.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from filelock import FileLock

from telerank.corpus.collection import Collection
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.corpus.readers.by_split import Triple, read_triples
from telerank.drafts import DRAFT, remove, replace_folder
from telerank.errors import CollectionError, ModelError
from telerank.training.examples.groups import Group, Groups, Scores, shuffle_numbers
from telerank.training.examples.reading import Reading
from telerank.training.settings import Triples
from telerank.types import Progress, silent

_LONGEST_ID = 64  # characters; a text is longer, or contains a space


@dataclass(eq=False)
class TripleGroups(Groups):
    """The lines of ``path`` that ``accepts`` allows, each turned into a group by ``group``.

    A window of lines is in memory with the one before it, and shuffled by the seed; of small windows, which a
    batch may span, so many that they have ``held`` lines. Groups are best requested in rising order: the file
    is read on from the current position, and from its beginning when an earlier window is requested.
    """

    path: Path
    group: Callable[[Triple], Group]
    accepts: Callable[[Triple], bool]
    seed: int
    window: int = 100_000
    encoding: str = "utf-8"
    progress: Progress = silent
    held: int = 4096
    _total: int | None = field(default=None, init=False)
    _window: int = field(default=-1, init=False)  # the number of the window that was read last
    _held: dict[int, list[Triple]] = field(default_factory=dict, init=False)  # the last windows, by number
    _stream: Iterator[Triple] = field(default_factory=lambda: iter(()), init=False)

    def __len__(self) -> int:
        if self._total is None:
            count = 0
            for count, _ in enumerate(self._lines(), 1):
                if count % 1_000_000 == 0:
                    self.progress("counting triples", count, None)
            self._total = self._positive(count)
        return self._total

    @property
    def repeats_from(self) -> float:
        return math.inf if self._total is None else self._total

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        if self._total is None:
            self._read(number // self.window)
        epoch, within = divmod(number, self._total) if self._total is not None else (0, number)
        window, offset = divmod(within, self.window)
        lines = self._read(window)
        return self.group(lines[int(shuffle_numbers(len(lines), self.seed, epoch, window)[offset])])

    def _read(self, window: int) -> list[Triple]:
        """The lines of a window; none if the file ends before it, and then its lines are counted."""
        if window in self._held:
            return self._held[window]
        if window < self._window or self._window < 0:
            self._window, self._stream = -1, self._lines()
        while self._window < window:
            lines = list(islice(self._stream, self.window))
            if len(lines) < self.window and self._total is None:
                self._total = self._positive((self._window + 1) * self.window + len(lines))
            if not lines:
                self._window = -1  # the stream is at its end: the next window is read from the beginning
                return lines
            self._window += 1
            self._held.pop(self._window, None)  # so that it becomes the newest
            self._held[self._window] = lines
            if len(self._held) > max(2, -(-self.held // self.window)):
                del self._held[next(iter(self._held))]
        return self._held[window]

    def _lines(self) -> Iterator[Triple]:
        return filter(self.accepts, read_triples(self.path, self.encoding))

    def _positive(self, count: int) -> int:
        if not count:
            raise CollectionError(f"{self.path}: no triple to learn from")
        return count


def triple_groups(reading: Reading, triples: Triples, folder: Path) -> TripleGroups:
    """The groups of a file; if it has ids, ``folder`` gets a docstore of the collection.

    Raises CollectionError if the file has no triple; ModelError if the triples are texts, and a setting needs
    ids.
    """
    path = Path(triples.file)

    def groups(group: Callable[[Triple], Group], accepts: Callable[[Triple], bool]) -> TripleGroups:
        return TripleGroups(
            path,
            group,
            accepts,
            window=triples.window,
            seed=reading.seed,
            encoding=reading.data.encoding,
            progress=reading.progress,
        )

    first = next(islice(read_triples(path, reading.data.encoding), 1), None)
    if first is None:
        raise CollectionError(f"{path}: no triple to learn from")
    if any(len(column) > _LONGEST_ID or " " in column for column in first):
        if reading.teacher_run or reading.data.queries or reading.kept_back:
            needs = "a teacher, a choice of queries, or dev and test of the same split need ids"
            raise ModelError(f"{path}: these are triples of texts; {needs}")
        return groups(group_of_texts, lambda _: True)
    every = {query.qid: query.text for query in reading.collection.split_queries(reading.data.split)}
    queries = {qid: every[qid] for qid in reading.choose(every.keys())}
    reading.counts["queries of the split"] = len(queries)
    docs = stored_docs(reading.collection, folder, reading.progress)
    by_id = _ById(path, every, docs, reading.teacher(queries))
    # a query that the split lacks is an error, not a query that is left out
    left_out = every.keys() - queries.keys()
    return groups(by_id.group, lambda triple: triple.query not in left_out and by_id.is_scored(triple))


def group_of_texts(triple: Triple) -> Group:
    """The group of a triple of texts, which are named by themselves."""
    documents = triple.positive, triple.negative
    return Group(triple.query, documents, qid=triple.query, docnos=documents)


@dataclass(frozen=True, eq=False)
class _ById:
    path: Path
    queries: Mapping[str, str]
    docs: Docstore
    teacher: Scores | None = None

    def is_scored(self, triple: Triple) -> bool:
        """Whether the teacher, if there is one, has scored both documents."""
        if self.teacher is None:
            return True
        scores = self.teacher.get(triple.query, {})
        return triple.positive in scores and triple.negative in scores

    def group(self, triple: Triple) -> Group:
        qid, docnos = triple.query, (triple.positive, triple.negative)
        try:
            query, texts = self.queries[qid], tuple(self.docs[docno].full_text for docno in docnos)
        except KeyError as error:
            raise CollectionError(f"{self.path}: the collection has no {error.args[0]!r}") from error
        scores = tuple(self.teacher[qid][docno] for docno in docnos) if self.teacher else ()
        return Group(query, texts, scores, qid, docnos)


def stored_docs(collection: Collection, folder: Path, progress: Progress = silent) -> Docstore:
    """The collection's docstore in ``folder``, which is written first if it is missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # of several processes the first writes, and the others wait
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not folder.exists():
            draft = folder.with_name(folder.name + DRAFT)
            remove(draft)
            with DocstoreWriter(draft) as writer:
                for number, doc in enumerate(collection.docs(), 1):
                    writer.add(doc)
                    if number % 10_000 == 0:
                        progress("storing documents", number, collection.size)
            replace_folder(folder, draft)
    return Docstore(folder)
