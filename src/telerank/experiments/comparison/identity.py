"""What a stage's rankings depend on, as a text: kept runs are reused only if it is the same."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from telerank.dense.vectors import Vectors
from telerank.pipelines.run_files import RunFile
from telerank.reranking.scorer import Scorer
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.stage import Stage


def identify_stage(stage: Stage) -> str:
    """Class, settings and content of everything that the stage reads: indexes, vectors, models, files."""
    return json.dumps(_record(stage), ensure_ascii=False)


def file_checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def folder_checksum(folder: Path) -> str:
    """A hash of the names and the contents of the files in a folder."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    listing = json.dumps([[str(file.relative_to(folder)), file_checksum(file)] for file in files])
    return hashlib.sha256(listing.encode()).hexdigest()


def _record(value: object) -> object:
    match value:
        case SparseIndex() | IndexDocs():
            record: object = ["index", value.state]
        case Vectors():
            manifest = value.manifest
            record = ["vectors", manifest.fingerprint, manifest.source, manifest.dtype, len(value)]
        case Scorer():
            record = ["scorer", _model(value), value.changed, list(value.samples)]
        case RunFile():
            record = ["run", file_checksum(Path(value.file))]
        case tuple() | list():
            record = [_record(part) for part in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value) if field.compare]
            record = [type(value).__name__, {name: _record(getattr(value, name)) for name in names}]
        case _:
            record = repr(value)
    return record


def _model(scorer: Scorer) -> str:
    folder = Path(str(scorer.name))
    return folder_checksum(folder) if folder.is_dir() else scorer.name
