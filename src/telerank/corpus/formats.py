"""Every format that telerank reads, in one place, and the opening of a collection in any of them."""

from __future__ import annotations

from pathlib import Path

from telerank.corpus.antique import ANTIQUE
from telerank.corpus.beir import BEIR
from telerank.corpus.car_folder import TREC_CAR
from telerank.corpus.collection import Collection, Format
from telerank.corpus.cranfield import CRANFIELD
from telerank.corpus.csv_files import CSV, PASSAGES
from telerank.corpus.folder import FOLDER
from telerank.corpus.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.corpus.ir_datasets_ids import IR_DATASETS, open_id
from telerank.corpus.jsonl import JSONL
from telerank.corpus.msmarco import MSMARCO
from telerank.corpus.ranking_set import RANKING_SET
from telerank.corpus.squad import SQUAD
from telerank.corpus.topics_qrels import TOPICS
from telerank.corpus.trec_sgml import TREC
from telerank.errors import CollectionError

FORMATS: tuple[Format, ...] = (
    ANTIQUE,
    BEIR,
    CRANFIELD,
    CSV,
    FOLDER,
    INSURANCEQA,
    INSURANCEQA_TOKEN,
    JSONL,
    MSMARCO,
    PASSAGES,
    RANKING_SET,
    SQUAD,
    TOPICS,
    TREC,
    TREC_CAR,
)


def open_collection(where: str | Path, *, format: str | None = None, encoding: str = "utf-8") -> Collection:  # noqa: A002
    """The collection in a folder or a file, or of an ``ir_datasets`` id (``beir/scifact/test``).

    Its format is recognised by layout and content, or forced with ``format``.

    Raises
    ------
    CollectionError
        where nothing is there, or no format, or more than one, is recognised.
    FormatError
        where a file turns out not to follow its format (often later, while it is read).
    MissingExtra
        where an id is given and ``ir_datasets`` is not installed.
    """
    path = Path(where)
    known = {one.name: one for one in FORMATS}
    if format is not None and format not in (*known, IR_DATASETS):
        raise CollectionError(f"unknown format {format!r}; known: {', '.join((*known, IR_DATASETS))}")
    if format == IR_DATASETS or (format is None and not path.exists()):
        return open_id(str(where))
    if not path.exists():
        raise CollectionError(f"{where}: no such file or folder")
    return (known[format] if format else _recognised(path)).open(path, encoding)


def _recognised(path: Path) -> Format:
    found = [one for one in FORMATS if one.recognises(path)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.name for one in found)
        raise CollectionError(f"{path}: may be {names}: force one with format= (--format)")
    looked = "; ".join(f"{one.name} ({one.description})" for one in FORMATS)
    raise CollectionError(f"{path}: no known collection format; looked for: {looked}")
