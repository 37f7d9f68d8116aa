"""How long the documents and segments of a collection are, and what lies beyond a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telerank.corpus.collection import Collection
from telerank.corpus.lengths import Lengths, check_answer
from telerank.errors import count_noun
from telerank.segments.split import Segmenter, Segments
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Answer, Progress, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Median and 90th percentile of the documents' lengths in subwords (Kim et al. 2021, section 4).
PAPER = {"TREC DL 2019 (BeST)": (797, 3259), "Robust04 (BeST)": (594, 1561)}
_LEADING = 4  # segments, from which BeST learns
_PLOTTED = tuple(round(2 ** (power / 2)) for power in range(10, 29))  # 32 to 16,384
_DOCUMENTS = 256  # that are cut together


class Known(NamedTuple):
    """A known relevant text: the tokens up to its end, its segment, and whether one segment has all of it.

    ``segment`` is the number of the first that has its end.
    """

    end: int
    segment: int
    whole: bool


@dataclass(frozen=True)
class Beyond:
    """The shares, 0 to 1, that are not within the first tokens; None where there is nothing to count.

    ``documents`` and ``relevant`` documents, of each judged pair, are longer; the ``known`` relevant text of
    a pair does not end within the limit.
    """

    limit: str
    documents: float
    relevant: float | None
    known: float | None


@dataclass(frozen=True, eq=False)
class SegmentStatistics(Report):
    """Lengths in the tokens of a model, without titles, and shares beyond limits.

    ``counts`` are the segments of a document; ``relevant`` the lengths of the documents that are relevant to
    a query, once for each; ``known`` has the known relevant text of each pair of a query and a document: of
    several the one that ends first. ``cut_titles`` are longer than half of a segment.
    """

    name: str
    model: str
    settings: Mapping[str, Any]
    room: int
    documents: Lengths
    segments: Lengths
    counts: Lengths
    relevant: Lengths
    relevant_counts: Lengths
    known: Sequence[Known]
    limits: Sequence[int]
    cut_titles: int = 0

    @property
    def title(self) -> str:
        return f"Segments of {self.name}"

    def tables(self) -> list[Table]:
        rows = [
            [
                what,
                f"{lengths.total:,}",
                f"{lengths.mean:,.1f}",
                *(f"{lengths.quantile(q):,}" for q in (0.5, 0.9, 1.0)),
            ]
            for what, lengths in (
                ("documents", self.documents),
                ("segments", self.segments),
                ("segments of a document", self.counts),
            )
        ]
        rows += [
            [f"documents of {name}", "–", "–", f"{median:,}", f"{high:,}", "–"]
            for name, (median, high) in PAPER.items()
        ]
        notes = [
            f"Tokens of {self.model}, without titles. A segment and its title have at most {self.room:,}."
        ]
        if self.cut_titles:
            notes.append(
                f"{count_noun(self.cut_titles, 'document')} with a title longer than half of a segment."
            )
        columns = ("lengths in tokens", "count", "mean", "median", "90 %", "max")
        return [Table.of(columns, rows, caption=self.name, notes=notes), self._beyond_table()]

    def _beyond_table(self) -> Table:
        rows = [
            [row.limit, *(_percent(share) for share in (row.documents, row.relevant, row.known))]
            for row in self.beyond()
        ]
        notes = ["Not within the first tokens, in percent; relevant documents and text once for each query."]
        if self.known:
            split = 1 - sum(known.whole for known in self.known) / len(self.known)
            notes.append(f"{100 * split:.1f} % of the known relevant text stands across segments.")
        columns = (
            "beyond",
            f"documents ({self.documents.total:,})",
            f"relevant documents ({self.relevant.total:,})",
            f"known relevant text ({len(self.known):,})",
        )
        return Table.of(columns, rows, caption="beyond a limit [%]", notes=notes)

    def beyond(self) -> list[Beyond]:
        """The shares beyond each limit, the first segment, and the four that BeST learns from."""
        return [
            *(self._beyond(f"{count_noun(limit, 'token')}", limit) for limit in self.limits),
            self._beyond("the first segment", 1, of_segments=True),
            self._beyond(f"the first {count_noun(_LEADING, 'segment')}", _LEADING, of_segments=True),
        ]

    def _beyond(self, name: str, limit: int, *, of_segments: bool = False) -> Beyond:
        """The shares beyond so many tokens, or ``of_segments``."""
        documents, relevant = self.documents, self.relevant
        if of_segments:
            documents, relevant = self.counts, self.relevant_counts
        ends = [known.segment + 1 if of_segments else known.end for known in self.known]
        outside = sum(end > limit for end in ends) / len(ends) if ends else None
        return Beyond(name, _longer(documents, limit) or 0.0, _longer(relevant, limit), outside)

    def plot(self) -> Figure:
        """The shares beyond each limit, and the share of segments that are longer."""
        from telerank.show.plots import line_plot

        shares = [self._beyond("", limit) for limit in _PLOTTED]
        lines: dict[str, list[float | None]] = {
            "documents": [row.documents for row in shares],
            "relevant documents": [row.relevant for row in shares],
            "known relevant text": [row.known for row in shares],
            "segments": [_longer(self.segments, limit) or 0.0 for limit in _PLOTTED],
        }
        # without anything to count there is no line
        percent = {
            name: [100 * (share or 0.0) for share in values]
            for name, values in lines.items()
            if None not in values
        }
        return line_plot({"beyond the limit [%]": percent}, _PLOTTED, x_label="tokens", logarithmic=True)

    def save_plots(self, folder: str | Path, *, format: str = "png") -> list[Path]:  # noqa: A002
        """Save the plot as ``segments.png``, svg or pdf; the files."""
        from telerank.show.plots import save_plot

        path = Path(folder, f"segments.{format}")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_plot(self.plot(), path)
        return [path]

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "model": self.model,
            "segments": dict(self.settings),
            "room": self.room,
            "documents": self.documents.record(),
            "segment_lengths": self.segments.record(),
            "segments_of_a_document": self.counts.record(),
            "paper": {name: {"median": low, "90 %": high} for name, (low, high) in PAPER.items()},
            "pairs": {"relevant": self.relevant.total, "known": len(self.known)},
            "beyond": [asdict(row) for row in self.beyond()],
            "across_segments": sum(not known.whole for known in self.known),
            "cut_titles": self.cut_titles,
        }


def describe_segments(
    collection: Collection,
    segmenter: Segmenter,
    *,
    model: str,
    splits: Sequence[str] | None = None,
    limits: Sequence[int],
    progress: Progress = silent,
) -> SegmentStatistics:
    """Cut all documents of a collection; look at the relevant ones and the answers of ``splits`` (all).

    Memory holds the lengths and the answers.

    Raises
    ------
    CollectionError
        If there is no such split, or an answer does not stand at its offset.
    """
    names = collection.splits if splits is None else tuple(map(collection.resolve_split, splits))
    relevant_to = _count_relevant(collection, names)
    answers = _answers_by_document(collection, names)
    documents, segments, counts = list[int](), list[int](), list[int]()
    relevant, relevant_counts, known, cut_titles = list[int](), list[int](), list[Known](), 0
    docs = iter(collection.docs())
    parts = iter(lambda: list(islice(docs, _DOCUMENTS)), [])
    for done, cut in enumerate(chain.from_iterable(map(segmenter.split, parts)), 1):
        documents.append(len(cut.ids))
        counts.append(len(cut))
        segments += cut.lengths.tolist()
        queries = relevant_to[cut.doc.docno]
        relevant += [len(cut.ids)] * queries
        relevant_counts += [len(cut)] * queries
        cut_titles += cut.cut_title > 0
        for of_query in answers.get(cut.doc.docno, {}).values():
            for answer in of_query:
                check_answer(answer, cut.doc.text)
            known.append(_locate(cut, min(of_query, key=lambda answer: answer.end)))
        if done % _DOCUMENTS == 0:
            progress("cutting documents", done, collection.size)
    return SegmentStatistics(
        collection.name,
        model,
        segmenter.settings.model_dump(),
        segmenter.room,
        documents=Lengths.of(documents),
        segments=Lengths.of(segments),
        counts=Lengths.of(counts),
        relevant=Lengths.of(relevant),
        relevant_counts=Lengths.of(relevant_counts),
        known=known,
        limits=sorted(limits),
        cut_titles=cut_titles,
    )


def _count_relevant(collection: Collection, splits: Sequence[str]) -> Counter[str]:
    """The number of queries that each document is relevant to."""
    pairs = {
        (qid, docno)
        for split in splits
        if split in collection.qrels
        for qid, grades in collection.judged(split).items()
        for docno, grade in grades.items()
        if grade > 0
    }
    return Counter(docno for _, docno in pairs)


def _answers_by_document(collection: Collection, splits: Sequence[str]) -> dict[str, dict[str, list[Answer]]]:
    """The answers of each document, by qid."""
    answers: dict[str, dict[str, list[Answer]]] = {}
    for split in splits:
        for answer in collection.answers.get(split, tuple)():
            answers.setdefault(answer.docno, {}).setdefault(answer.qid, []).append(answer)
    return answers


def _locate(own: Segments, answer: Answer) -> Known:
    begins, ends = own.offsets[:, 0], own.offsets[:, 1]
    last = int((begins < answer.end).sum())  # tokens that begin before its end
    start = int((ends <= answer.start).sum())  # tokens that end before it
    firsts, afters = own.windows[:, 0], own.windows[:, 1]
    holding = (afters >= last).nonzero()[0]
    segment = int(holding[0]) if len(holding) else len(own)
    return Known(last, segment, bool(((firsts <= start) & (afters >= last)).any()))


def _longer(lengths: Lengths, limit: int) -> float | None:
    longer = sum(count for length, count in lengths.counts.items() if length > limit)
    return longer / lengths.total if lengths.total else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
