"""The data of an experiment: where it is or what it is made of, its judged queries, its indexes."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeAlias

from telerank import model_names
from telerank.columns.filters import Filter
from telerank.corpus import writing as long_documents
from telerank.corpus.collection import Collection
from telerank.corpus.derived.articles import (
    VERSION,
    ArticleSettings,
    is_parted_by,
    join_articles,
    write_parts,
)
from telerank.corpus.derived.far import FarSettings, make_far_relevant
from telerank.corpus.derived.questions import ArticleParts
from telerank.corpus.derived.ranking_set import (
    RankingSetSettings,
    is_made_by,
    make_ranking_set,
    write_ranking_set,
)
from telerank.corpus.formats import PIAF, open_collection, piaf
from telerank.corpus.passages import cut_passages
from telerank.corpus.reading import DATA_VARIABLE
from telerank.dense.manifest import is_vectors
from telerank.errors import CollectionError, ModelError
from telerank.experiments.comparison import JudgedQueries, plain_name
from telerank.experiments.schema import DataSpec, Experiment
from telerank.retrieval.index import Index
from telerank.sparse.index import SparseIndex
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import BM25
from telerank.sparse.writer import IndexWriter, build_index
from telerank.stage import Stage
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

# The option and the environment variable that say where collections are, and models.
DATA, MODELS = ("data=…", DATA_VARIABLE), ("models=…", model_names.VARIABLE)


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
                raise CollectionError(f"{option}: {text}: expected NAME=PATH, or a folder of them")
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
        return {
            "documents": self.collection.size or len(self.index()),
            "judged queries": len(self.judged.queries),
            **({} if self.dev is None else {"queries that choose": len(self.dev.queries)}),
        }

    def index(self, analyzer: str | None = None) -> Index:
        """The index with an analyzer, by default that of the data, with its fields, and within its filter.

        The one that is there is used, if it holds these documents, or else a new one.
        """
        analyzer = analyzer or self.spec.analyzer
        if analyzer not in self._indexes:
            folder = self.folder / f"index-{plain_name(analyzer)}"
            present = SparseIndex(folder) if (folder / "manifest.json").is_file() else None
            if present is None or not self._is_indexed(present):
                with IndexWriter(folder, Analyzer.parse(analyzer), overwrite=True) as writer:
                    writer.choose_fields(self.spec.fields)
                    writer.add(self.collection.docs(), progress=self.progress)
            opened, chosen = Index(folder), self.spec.filter
            self._indexes[analyzer] = opened if chosen is None else opened.within(Filter.parse(chosen))
        return self._indexes[analyzer]

    def _is_indexed(self, index: SparseIndex) -> bool:
        """Whether an index has these documents, and their fields."""
        pairs = zip_longest(index.docs.values(), self.collection.docs())
        return index.fields == self.spec.fields and all(present == doc for present, doc in pairs)

    @cached_property
    def content(self) -> str:
        """A hash of the documents, queries and qrels, and of what chooses among the documents."""
        collection, chosen = self.collection, self.spec.filter
        streams = [collection.docs, *collection.queries.values(), *collection.qrels.values()]
        return _hash_records(streams if chosen is None else [*streams, lambda: [chosen]])

    @cached_property
    def known_text(self) -> str | None:
        """A hash of the known relevant text, which may change without the documents; None without any."""
        known = _hash_records(self.collection.answers.values())
        return None if known == _hash_records([]) else known


def _hash_records(streams: Iterable[Callable[[], Iterable[object]]]) -> str:
    digest = hashlib.sha256()
    for record in chain.from_iterable(stream() for stream in streams):
        digest.update(repr(record).encode())
    return digest.hexdigest()


def choose_data(
    spec: Experiment, sources: Sources, only: Sequence[str], folder: Path
) -> dict[str, Experiment]:
    """The experiment on each of the data to run on, by name.

    They are those named in ``only``, also by their pool; or those of the paper that are here. Without any it
    is the first that is, with the others of its pool.

    Raises CollectionError if a name is none of the experiment's, or no data is here.
    """
    spec.require_data(*sources.named)
    chosen, alone = spec.expand(*only), {name: spec.on(name) for name in spec.data}
    here = {name: data for name, data in spec.data.items() if is_here(name, data, sources, folder)}
    pools = {name: data.pool or name for name, data in here.items()}
    if not only:
        chosen = [name for name, data in here.items() if data.paper]
        chosen = chosen or [name for name in here if pools[name] == next(iter(pools.values()))]
    missing = [name for name in chosen if name not in here]
    if not chosen or missing:
        names = ", ".join(missing or spec.data)
        how = f"give {DATA[0]} NAME=PATH, or set {DATA[1]} to a folder of them"
        raise CollectionError(f"no data here for this experiment ({names}): {how}")
    return {name: alone[name] for name in chosen}


def open_data(
    name: str, spec: Experiment, sources: Sources, folder: Path, progress: Progress = silent
) -> ExperimentData:
    """Open a collection and draw its queries; a ranking set is made if it is not there.

    Raises CollectionError if it cannot be opened, or has too few judged queries in the split.
    """
    data, own = spec.data[name], folder / plain_name(name)
    source = sources.find(name) or ""
    if data.bundled and not source and not data.recipe:
        collection, source = piaf(), str(PIAF)
    else:
        if not source:
            source = str(own / data.made_as)
            if not is_made(data, Path(source)):
                made_of = [open_collection(sources.find(part) or part) for part in data.made_of]
                parts = [piaf()] if data.bundled else made_of
                make_set(data, parts, Path(source), progress)
        collection = open_collection(source)
    if (words := data.passages) is not None:
        whole = collection.docs
        collection = replace(collection, docs=lambda: cut_passages(whole(), words), size=None)
    dev, judged = None, JudgedQueries.of(collection, data.split)
    if spec.dev is not None:
        dev, judged = judged.deal(spec.dev, spec.queries, spec.seed)
    elif spec.queries is not None and spec.queries < len(judged.queries):
        positions = random.Random(spec.seed).sample(range(len(judged.queries)), spec.queries)
        judged = judged.select(judged.queries[i].qid for i in positions)
    return ExperimentData(name, data, source, collection, own, judged, dev, progress, sources)


def is_here(name: str, data: DataSpec, sources: Sources, folder: Path | None = None) -> bool:
    """Whether the data, or all that it is made of, is here; ``folder`` may hold a ranking set made before."""
    if data.bundled or sources.find(name) is not None:
        return True
    if folder is not None and data.made_of and is_made(data, folder / plain_name(name) / data.made_as):
        return True
    return bool(data.made_of) and all(sources.find(part) is not None for part in data.made_of)


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
        first = str(json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0])
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ModelError(f"{folder}: holds no model that is known (expected a config.json)") from error
    return "a re-ranker" if first.endswith("ForSequenceClassification") else "a bi-encoder"


def is_made(data: DataSpec, target: Path) -> bool:
    """Whether the folder has the set that :func:`make_set` makes, of the same recipe."""
    settings = _read_recipe(data)
    match settings:
        case RankingSetSettings():
            return is_made_by(target, settings)
        case ArticleParts():
            return is_parted_by(target, settings)
    manifest = target / long_documents.MANIFEST
    if not manifest.is_file():
        return False
    recipe = json.loads(manifest.read_text("utf-8")).get("recipe", {})
    expected = asdict(settings) | ({"version": VERSION} if isinstance(settings, ArticleSettings) else {})
    return {key: recipe.get(key) for key in expected} == expected


def make_set(data: DataSpec, parts: Sequence[Collection], target: Path, progress: Progress) -> None:
    """Make the set of ``parts`` as the data says: its kind ``made_as``, the settings of its ``recipe``.

    Raises CollectionError if the recipe has a setting that the kind does not have, or the set cannot be made.
    """
    settings = _read_recipe(data)
    match settings:
        case RankingSetSettings():

            @contextmanager
            def first_stage(docs: Iterable[Doc]) -> Iterator[Stage]:
                built = build_index(
                    docs,
                    target.with_name("ranking-set-index"),
                    analyzer=data.analyzer,
                    overwrite=True,
                    progress=progress,
                )
                yield SparseRetriever(built, BM25())

            write_ranking_set(
                target,
                make_ranking_set(parts, settings, first_stage=first_stage, progress=progress),
                overwrite=True,
            )
        case ArticleParts():
            progress("parting articles", 0, None)
            write_parts(parts, settings, target)
        case ArticleSettings():
            documents = join_articles(parts, settings, progress=progress)
            long_documents.write_long_documents(target, documents, overwrite=True, progress=progress)
        case FarSettings():
            if len(parts) != 1:
                raise CollectionError(
                    f"far-relevant documents are made of one collection, not of {len(parts)}"
                )
            with ExitStack() as resources:
                documents = make_far_relevant(parts[0], settings, resources=resources, progress=progress)
                long_documents.write_long_documents(target, documents, overwrite=True, progress=progress)


Settings: TypeAlias = RankingSetSettings | ArticleSettings | FarSettings | ArticleParts
_KINDS: Mapping[str, Callable[..., Settings]] = {
    "ranking-set": RankingSetSettings,
    "articles": ArticleSettings,
    "far-relevant": FarSettings,
    "article-parts": ArticleParts,
}


def _read_recipe(data: DataSpec) -> Settings:
    """The settings of what is made; a ranking set has the Piaf report's by default (section 5.2).

    Its documents are contexts, without the titles of their articles.
    """
    usual = {"model": f"bm25 over {data.analyzer}", "titles": False} if data.made_as == "ranking-set" else {}
    try:
        return _KINDS[data.made_as](**{**usual, **data.recipe})
    except (TypeError, ValueError) as error:
        raise CollectionError(f"recipe of {data.made_as}: {error}") from error
