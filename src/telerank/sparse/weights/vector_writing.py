"""The vectors of a model in a file of JSON lines, as :mod:`.vectors` reads them; it can be gone on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from telerank.corpus.derived.kept import DocSource, KeptFile, continue_lines, keeping
from telerank.drafts import remove
from telerank.errors import CollectionError, count_noun
from telerank.sparse.weights.encoder import TermEncoder
from telerank.text import Analyzer
from telerank.trec import open_to_write
from telerank.types import Doc, Progress

_WINDOW = 1024  # documents that are encoded together, and written


@dataclass(frozen=True)
class WrittenVectors:
    """What was written to ``output``: ``weights`` above 0 of the terms of all documents.

    ``cut`` documents were longer than the model reads. ``settings`` stand in ``OUT.json``, too.
    """

    output: Path
    documents: int
    weights: int
    cut: int
    settings: Mapping[str, Any] = field(compare=False)

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        counts = {"documents": self.documents, "weights": self.weights, "cut": self.cut}
        return {"output": str(self.output), **counts, "settings": dict(self.settings)}

    def __str__(self) -> str:
        terms = f"{self.weights / self.documents:.1f} terms each" if self.documents else "no terms"
        documents = count_noun(self.documents, "document")
        line = f"wrote {self.output}: {documents}, {terms}, by {self.settings['model']}"
        if not self.cut:
            return line
        cut = count_noun(self.cut, "document")
        return f"{line}\n{cut} longer than {self.settings['max_length']} tokens: the terms before are weighed"


def write_vectors(
    source: DocSource,
    output: Path,
    model: tuple[str, TermEncoder],
    analyzer: Analyzer | None,
    progress: Progress,
) -> WrittenVectors:
    """Write the vectors of all documents, a line of JSON each, in their order.

    Numbers have all digits: an index of the file equals one whose documents the model weighs while they are
    indexed. ``model`` is the name that is recorded, and the model; ``analyzer`` is that of the index, whose
    terms a model of words weighs.

    Raises
    ------
    ModelError
        If there is no such model, it weighs words and there is no index, or another process writes it.
    CollectionError
        If there is no document.
    """
    name, encoder = model
    settings: dict[str, Any] = {"model": name, "fingerprint": encoder.fingerprint}
    settings |= {"max_length": encoder.longest, "device": encoder.computes_on}
    if encoder.has_words:
        settings |= {"analyzer": str(encoder.require_analyzer(analyzer))}
    chain = analyzer or Analyzer.parse("none")  # of a model of pieces: not asked

    def make(docs: Sequence[Doc]) -> tuple[bytes, Mapping[str, int]]:
        content, counts = [], {"weights": 0, "cut": 0}
        for doc, (weights, is_cut) in zip(docs, encoder.weigh_documents(docs, chain), strict=True):
            content.append(json.dumps({"id": doc.docno, "vector": weights}) + "\n")  # in ASCII
            counts["weights"] += len(weights)
            counts["cut"] += is_cut
        return "".join(content).encode(), counts

    with keeping(output) as scratch:
        lines = KeptFile(scratch / "vectors.jsonl", json.dumps(settings, sort_keys=True))
        continue_lines(source, lines, _WINDOW, make, lambda: progress("encoding", lines.items, source.size))
        if not lines.items:
            raise CollectionError(f"{source.name} has no document")
        counts = {"documents": lines.items, **lines.counts}
        record = {"collection": source.name, "settings": settings, **counts}
        with open_to_write(output, lambda: record) as file, lines.path.open(encoding="ascii") as kept:
            file.writelines(islice(kept, lines.items))
        remove(scratch)
    return WrittenVectors(output, settings=settings, **counts)
