"""TREC-CAR in small: a made collection in the layout of release 1.5, with five folds and benchmarkY1test."""

from __future__ import annotations

import random
from pathlib import Path

import cbor2

FOLDS, TEST = tuple(f"train.fold{fold}" for fold in range(5)), "test.benchmarkY1test"


def car_set(folder: Path, *, pages: int = 6) -> Path:
    """Pages of two sections, each with two paragraphs, which have the words of page and section."""
    rng = random.Random(3)
    folder.mkdir(parents=True)
    paragraphs: list[bytes] = []
    for fold, split in enumerate((*FOLDS, TEST)):
        outlines, judged = b"", ""
        for page in range(pages):
            name = f"x{fold}"
            sections = []
            for section in (f"q{(page + fold) % 20}", f"q{(page + fold + 7) % 20}"):
                sections.append([0, section, section.encode(), []])
                for copy in range(2):
                    docno = f"{fold:02}{page:02}{section}{copy}".ljust(40, "0")
                    text = f"d{section[1:]} x{fold} {' '.join(rng.choices(['x1', 'x2', 'x3', section], k=4))}"
                    paragraphs.append(cbor2.dumps([0, docno.encode(), [[0, text]]]))
                    judged += f"page{fold}{page}/{section} 0 {docno} 1\n"
            outlines += cbor2.dumps([0, name, f"page{fold}{page}".encode(), sections])
        (folder / f"{split}.cbor.outlines").write_bytes(outlines)
        (folder / f"{split}.cbor.hierarchical.qrels").write_text(judged)
    (folder / "release-v1.5.paragraphs.cbor").write_bytes(b"".join(paragraphs))
    return folder
