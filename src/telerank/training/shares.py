"""Encoding and re-ranking by processes that ``torchrun`` has started, a GPU each: every one takes a share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from telerank.dense.encode import Encoding, VectorWriter, describe_vectors, find_vectors, sweep_vectors
from telerank.dense.encoder import Encoder
from telerank.dense.kinds import Floats
from telerank.dense.vectors import Vectors
from telerank.errors import DocumentError
from telerank.reranking.stage import CrossReranker
from telerank.training.launched import working_together
from telerank.training.parallel import Processes
from telerank.types import Doc, Progress, Ranking, silent


def encode_shares(
    docs: Iterable[Doc],
    folder: str | Path,
    encoder: Encoder,
    *,
    encoding: Encoding,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Vectors:
    """The vectors that :func:`~telerank.dense.encode.encode_documents` makes, by all processes of the group.

    Process r of n encodes shards r, r + n, …; each reads all documents, and the first one writes. It raises
    as that function does; the error of one process is raised in all.
    """

    def is_complete() -> bool:
        sweep_vectors(Path(folder).resolve())
        return not overwrite and find_vectors(docs, folder, encoder, encoding) is not None

    with working_together() as processes, ExitStack() as stack:
        if not processes.first(is_complete):
            manifest = processes.each(lambda: describe_vectors(encoder, encoding))
            writing = partial(VectorWriter, folder, manifest, overwrite=overwrite)
            writer = processes.alone(lambda: stack.enter_context(writing()), None)
            shares = _Shares(processes, encoder, encoding, encoding.read(docs), writer)
            shares.encode(progress)
            processes.alone(stack.close, None)  # the folder gets its name
        return processes.each(lambda: Vectors(folder))


class _Round(NamedTuple):
    """The documents of a shard for each process, and the tokens of this one's: ``cut`` of them were cut."""

    parts: list[list[Doc]]
    tokens: list[list[int]]
    cut: int


@dataclass
class _Shares:
    """A process's share of the shards; ``writer`` is that of the first one."""

    processes: Processes
    encoder: Encoder
    encoding: Encoding
    stream: Iterator[Doc]
    writer: VectorWriter | None
    done: int = field(default=0, init=False)

    def encode(self, progress: Progress) -> None:
        """Encode all shards: while one is encoded, the next is tokenised and the one before is written."""
        processes, written = self.processes, list[Future[None]]()
        kept = processes.first(lambda: 0 if self.writer is None else len(self.writer.kept))
        processes.each(lambda: self._skip(kept))
        with ThreadPoolExecutor(1, "tokenising") as reading, ThreadPoolExecutor(1, "writing") as writing:
            waiting = reading.submit(self._read)
            while (given := processes.each(waiting.result)).parts:
                waiting = reading.submit(self._read)
                vectors = processes.each(partial(self._compute, given, written))
                shares = processes.bring((vectors, given.cut))
                if self.writer is not None:
                    written[:] = [writing.submit(self._write, given.parts, shares)]
                self.done += sum(map(len, given.parts))
                progress("encoding", self.done, None)
            processes.each(lambda: _wait(written))
        if not self.done:
            raise DocumentError("there is no document to encode")

    def _skip(self, kept: int) -> None:
        """Skip the documents of finished shards."""
        for _ in range(kept):
            part = self._take()
            if self.writer is not None:
                self.writer.skip(part)
            self.done += len(part)

    def _take(self) -> list[Doc]:
        return list(islice(self.stream, self.encoding.shard))

    def _read(self) -> _Round:
        """Read a shard for each process, and tokenise this one's."""
        parts = [part for _ in range(self.processes.size) if (part := self._take())]
        if self.processes.rank >= len(parts):
            return _Round(parts, [], 0)
        return _Round(parts, *self.encoder.tokenize([doc.full_text for doc in parts[self.processes.rank]]))

    def _compute(self, given: _Round, written: list[Future[None]]) -> Floats | None:
        """The vectors of this process's shard, if there is one, when the last shards are written, too."""
        tokens = given.tokens
        vectors = self.encoder.encode_tokens(tokens, self.encoding.batch_tokens) if tokens else None
        _wait(written)
        return vectors

    def _write(self, parts: list[list[Doc]], shares: list[tuple[Floats | None, int]]) -> None:
        for part, (vectors, cut) in zip(parts, shares, strict=False):
            if self.writer is not None and vectors is not None:
                self.writer.add(part, vectors, cut=cut)


def _wait(written: list[Future[None]]) -> None:
    for future in written:
        future.result()


_ROUND = 256  # rankings of each process that are exchanged together


def rerank_shares(stage: CrossReranker, rankings: Iterable[Ranking]) -> Iterator[Ranking]:
    """The rankings of ``stage``, in order, in each of the processes; they must all read them to the end.

    Process r of n scores rankings r, r + n, …; the counts of what was scored and cut are then those of all,
    and batches as large as fit into the memory of each. The error of one process is raised in all.
    """
    with working_together() as processes:
        own = stage(islice(rankings, processes.rank, None, processes.size))
        counts, room = stage.scorer.counts, stage.scorer.room
        longest = _ROUND
        while longest == _ROUND:
            scored = processes.each(lambda: list(islice(own, _ROUND)))
            parts = processes.gather_values(scored)
            yield from (ranking for row in zip_longest(*parts) for ranking in row if ranking is not None)
            longest = max(map(len, parts))
        every = processes.gather_values((counts.pairs, counts.cut, counts.cut_pairs))
        counts.pairs, counts.cut, counts.cut_pairs = (sum(numbers) for numbers in zip(*every, strict=True))
        room.take_least(processes.gather_values(room.tokens))
