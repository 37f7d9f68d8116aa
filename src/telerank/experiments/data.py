"""The data of an experiment: where it is, its judged queries, its indexes."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

from telerank import model_names
from telerank.corpus.collection import Collection
from telerank.corpus.formats import PIAF, open_collection, piaf
from telerank.dense.manifest import is_vectors
from telerank.errors import CollectionError, ModelError
from telerank.experiments.comparison import plain_name
from telerank.experiments.judged_queries import JudgedQueries
from telerank.experiments.made_sets import is_made, make_set
from telerank.experiments.schema import DataSpec, Experiment
from telerank.retrieval.index import Index
from telerank.sparse.index import SparseIndex
from telerank.sparse.writer import build_index
from telerank.types import Progress, silent

DATA, MODELS = ("--data", "TELERANK_DATA"), ("--model", model_names.VARIABLE)
"""The option and the environment variable that say where collections are, and models."""


@dataclass(frozen=True)
class Sources:
    """Where things are: ``named`` by name, ``folders`` that hold them under their names."""

    named: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, options: Sequence[str], kind: tuple[str, str] = DATA) -> Sources:
        """What an option says (``NAME=PATH``, or a folder), and what the environment says.

        Raises CollectionError if a folder does not exist.
        """
        (option, variable), named, folders = kind, {}, []
        for text in options:
            name, equals, path = text.partition("=")
            if equals and name and path:
                named[name] = path
            elif Path(text).is_dir():
                folders.append(Path(text))
            else:
                raise CollectionError(f"{option} {text}: expected NAME=PATH, or a folder of them")
        folders += [Path(folder) for folder in os.environ.get(variable, "").split(os.pathsep) if folder]
        return cls(named, tuple(folders))

    def find(self, name: str) -> str | None:
        """The path of a name; None if it is nowhere."""
        if name in self.named:
            return self.named[name]
        return next((str(folder / name) for folder in self.folders if (folder / name).exists()), None)


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """A collection of an experiment, open; ``source`` is its path, ``folder`` keeps its indexes and models.

    ``judged`` are the queries that measure, ``dev`` those that choose, if the experiment has them.
    ``sources`` say where other collections are.
    """

    name: str
    spec: DataSpec
    source: str
    collection: Collection
    folder: Path
    judged: JudgedQueries
    dev: JudgedQueries | None
    progress: Progress = silent
    sources: Sources = field(default_factory=Sources)
    _indexes: dict[str, Index] = field(default_factory=dict)

    @property
    def split(self) -> str:
        """The split whose queries measure."""
        return self.collection.resolve_split(self.spec.split)

    @property
    def queries(self) -> JudgedQueries:
        """The queries that choose and those that measure."""
        if self.dev is None:
            return self.judged
        return JudgedQueries(
            (*self.dev.queries, *self.judged.queries), {**self.dev.qrels, **self.judged.qrels}
        )

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of things by name: documents, queries."""
        documents = self.collection.size or len(self.usual_index)
        choosing = {} if self.dev is None else {"queries that choose": len(self.dev.queries)}
        return {"documents": documents, "judged queries": len(self.judged.queries), **choosing}

    @property
    def usual_index(self) -> Index:
        """The index with the analyzer of the data."""
        return self.index(self.spec.analyzer)

    def index(self, analyzer: str) -> Index:
        """The index with an analyzer: the one that is there, if it holds these documents, or a new one."""
        if analyzer not in self._indexes:
            self._indexes[analyzer] = self._open_index(analyzer)
        return self._indexes[analyzer]

    @cached_property
    def content(self) -> str:
        """A hash of the documents, queries and qrels."""
        digest = hashlib.sha256()
        collection = self.collection
        streams = [collection.docs, *collection.queries.values(), *collection.qrels.values()]
        for record in chain.from_iterable(stream() for stream in streams):
            digest.update(repr(record).encode())
        return digest.hexdigest()

    @cached_property
    def known_text(self) -> str | None:
        """A hash of the known relevant text, which may change without the documents; None without any."""
        digest = hashlib.sha256()
        of_nothing = digest.digest()
        for answer in chain.from_iterable(stream() for stream in self.collection.answers.values()):
            digest.update(repr(answer).encode())
        return None if digest.digest() == of_nothing else digest.hexdigest()

    def _open_index(self, analyzer: str) -> Index:
        folder = self.folder / f"index-{plain_name(analyzer)}"
        if (folder / "manifest.json").is_file():
            docs = SparseIndex(folder).docs
            if all(ours == theirs for ours, theirs in zip_longest(docs, self.collection.docs())):
                return Index(folder)
        docs_now = self.collection.docs()
        build_index(docs_now, folder, analyzer=analyzer, overwrite=True, progress=self.progress)
        return Index(folder)


def choose_data(spec: Experiment, sources: Sources, only: Sequence[str], folder: Path) -> dict[str, DataSpec]:
    """The data to run on: those named in ``only``, also by their pool; or those of the paper that are here.

    Without any it is the first that is, with the others of its pool.

    Raises CollectionError if a name is none of the experiment's, or no data is here.
    """
    spec.require_data(*sources.named)
    here = {name: data for name, data in spec.data.items() if is_here(name, data, sources, folder)}
    if only:
        chosen = {name: spec.data[name] for name in spec.expand(*only)}
    else:
        first = [data.pool or name for name, data in list(here.items())[:1]]
        chosen = {name: data for name, data in here.items() if data.paper} or {
            name: here[name] for name in spec.expand(*first) if name in here
        }
    missing = [name for name in chosen if name not in here]
    if not chosen or missing:
        names = ", ".join(missing or spec.data)
        how = f"give {DATA[0]} NAME=PATH, or set {DATA[1]} to a folder of them"
        raise CollectionError(f"no data here for this experiment ({names}): {how}")
    return chosen


def open_data(
    name: str, spec: Experiment, sources: Sources, folder: Path, progress: Progress = silent
) -> ExperimentData:
    """Open a collection and draw its queries; a ranking set is made if it is not there.

    Raises CollectionError if it cannot be opened, or has too few judged queries in the split.
    """
    data = spec.data[name]
    source = sources.find(name) or ""
    if data.bundled and not source:
        collection = piaf()
        source = str(PIAF)
    else:
        source = source or str(_make_set(name, data, sources, folder, progress))
        collection = open_collection(source)
    judged = JudgedQueries.of(collection, data.split)
    dev, measuring = _draw(judged, spec)
    own = folder / plain_name(name)
    return ExperimentData(name, data, source, collection, own, measuring, dev, progress, sources)


def _draw(judged: JudgedQueries, spec: Experiment) -> tuple[JudgedQueries | None, JudgedQueries]:
    if spec.dev is None:
        if spec.queries is None or spec.queries >= len(judged.queries):
            return None, judged
        positions = random.Random(spec.seed).sample(range(len(judged.queries)), spec.queries)
        return None, judged.select(judged.queries[i].qid for i in positions)
    return judged.deal(spec.dev, spec.queries, spec.seed)


def is_here(name: str, data: DataSpec, sources: Sources, folder: Path | None = None) -> bool:
    """Whether the data, or all that it is made of, is here; ``folder`` may hold a ranking set made before."""
    if data.bundled or sources.find(name) is not None:
        return True
    if folder is not None and data.made_of and is_made(data, _made_folder(name, data, folder)):
        return True
    return bool(data.made_of) and all(sources.find(part) is not None for part in data.made_of)


def _made_folder(name: str, data: DataSpec, folder: Path) -> Path:
    return folder / plain_name(name) / data.made_as


def _make_set(name: str, data: DataSpec, sources: Sources, folder: Path, progress: Progress) -> Path:
    """The collection that is made of others; one that is there is used."""
    target = _made_folder(name, data, folder)
    if not is_made(data, target):
        parts = [open_collection(sources.find(part) or part) for part in data.made_of]
        make_set(data, parts, target, progress)
    return target


def recognise_folder(folder: Path) -> str:
    """``a bi-encoder``, ``a re-ranker``, ``an index``, ``vectors``; raises ModelError if it is none of these.

    A cross-encoder of any library is a re-ranker; an encoder without a head of its own is a bi-encoder.
    """
    if is_vectors(folder):
        return "vectors"
    if (folder / "segments").is_dir():
        return "an index"
    if (folder / "reranker.json").is_file():
        return "a re-ranker"
    if any((folder / name).is_file() for name in ("bi_encoder.json", "modules.json")):
        return "a bi-encoder"
    try:
        architectures = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
        first = str(architectures[0])
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ModelError(f"{folder}: holds no model that is known (expected a config.json)") from error
    return "a re-ranker" if first.endswith("ForSequenceClassification") else "a bi-encoder"
