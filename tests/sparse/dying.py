"""Changes of an index, for a process whose children are killed on the way (see :mod:`accidents`)."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from small import docs

from accidents import Accidents, Change, serve
from telerank.errors import IndexFault
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.writer import IndexWriter, build_index
from telerank.text import Analyzer
from telerank.types import Doc

OLD = [f"a b w{number}" for number in range(60)]
NEW = [f"a c v{number}" for number in range(40)]


def prepare(folder: Path) -> None:
    """Two segments, one of them with a deletion."""
    build_index(docs(OLD[:40]), folder, analyzer="none", workers=1)
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs(OLD[40:], 40))
        writer.delete(["d3"])


def rebuild(folder: Path) -> None:
    """Build an index of more than one run, in place of another or where there is none."""
    with IndexWriter(folder, Analyzer.parse("none"), overwrite=True, workers=1, stretch=100) as writer:
        writer.add(docs(NEW))


def add(folder: Path) -> None:
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs(NEW, 50), update=True)


def delete(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        writer.delete(["d4", "d44"])


def merge(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        writer.merge()


def grow(folder: Path) -> None:
    """Add a quarter of a mebibyte of postings, in many runs."""
    with IndexWriter(folder, workers=1, stretch=10_000) as writer:
        writer.add(docs((" ".join(f"x{n + m}" for m in range(20)) for n in range(3000)), 100))


@dataclass(frozen=True)
class MadeWeights:
    """Weights of terms without a file, for the old documents and the new ones."""

    entry = WeightsEntry(files="made")

    def weigh(self, docs, _analyzer, take, _progress) -> None:
        for row in range(len(docs) - 1, -1, -1):
            take(row, {f"t{row % 7}": 1.5, f"t{row}": 2.25})


def weigh(folder: Path) -> None:
    """Build an index with weights of terms, in place of another."""
    with IndexWriter(folder, Analyzer.parse("none"), overwrite=True, workers=1) as writer:
        writer.choose_weights(MadeWeights())
        writer.add(docs(NEW))


def insist(folder: Path) -> None:
    """Go on with the same writer after a failure."""
    with IndexWriter(folder, workers=1) as writer:
        with suppress(IndexFault, KeyboardInterrupt):
            writer.add(docs(NEW, 100))
        Accidents.may_happen = False
        writer.add([Doc("z", "z")])


CHANGES: dict[str, Change] = {
    **{change.__name__: change for change in (rebuild, add, delete, merge, grow, insist, weigh)},
    "first": rebuild,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as warm:
        prepare(Path(warm) / "index")
        for change in (add, delete, merge, rebuild, weigh):
            change(Path(warm) / "index")
    serve(CHANGES)


if __name__ == "__main__":
    main()
