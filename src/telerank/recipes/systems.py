"""The systems of a recipe, made on a collection: a run file each and, where there is one, a stage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, MissingExtra
from telerank.evaluate.tune import Folds
from telerank.fuse.join import join_runs
from telerank.fuse.methods import Fusion, make_fusion_stage
from telerank.recipes.made import Made, Unavailable, plain, runs_by_seed
from telerank.recipes.places import Places
from telerank.recipes.rerankers import reranked
from telerank.recipes.schema import Data, Recipe, System
from telerank.recipes.tuned import held_out_sum
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities import parse_similarity
from telerank.sparse.writer import build_index
from telerank.stage import Stage
from telerank.trec import read_run, write_run
from telerank.types import Progress, Qrels, Query, Ranking, silent


@dataclass(frozen=True)
class Own:
    """What the user has of systems: by name a run file or a model's folder; and those to leave out.

    ``starts`` are places of what trainings start from: encoders, word vectors.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    starts: Places = field(default_factory=lambda: Places({}, ()))


@dataclass(frozen=True)
class Workshop:
    """Makes systems over one collection, which lies at ``place``.

    Indexes, vectors and trained re-rankers stay in ``folder`` for other recipes.
    """

    data: Data
    place: str
    collection: Collection
    queries: tuple[Query, ...]
    qrels: Qrels
    folder: Path
    own: Own = Own()
    progress: Progress = silent

    def make(self, recipe: Recipe, runs: Path) -> tuple[dict[str, Made], dict[str, str]]:
        """The systems that can be made, and why the others cannot, by name.

        Raises
        ------
        CollectionError
            where the user gives a system that the recipe does not have, or that is not there.
        """
        runs.mkdir(parents=True, exist_ok=True)
        made: dict[str, Made] = {}
        lacking: dict[str, str] = {}
        for name, system in recipe.systems.items():
            self.progress(f"system {name}", 0, 1)
            try:
                made[name] = self._made(name, self.chosen(name, system), recipe, made, runs)
            except (Unavailable, MissingExtra) as reason:
                lacking[name] = str(reason)
            self.progress(f"system {name}", 1, 1)
        return made, lacking

    def chosen(self, name: str, system: System) -> System:
        """The system as the recipe says, or what the user gives in its place.

        Raises
        ------
        Unavailable
            where the user leaves it out.
        CollectionError
            where what the user gives is not there.
        """
        if name in self.own.skip:
            raise Unavailable("left out")
        if name not in self.own.given:
            return system
        place = Path(self.own.given[name])
        if not place.exists():
            raise CollectionError(f"--system {name}={place}: no such file or folder")
        if place.is_dir() and system.rerank is not None:
            return System(rerank=system.rerank, depth=system.depth, reranker=str(place))
        return System(dense=str(place)) if place.is_dir() else System(run=str(place))

    @property
    def docs(self) -> IndexDocs:
        """The collection's documents by docno."""
        return self._index().docs

    @cached_property
    def content(self) -> str:
        """A hash of the collection's documents, queries and qrels."""
        digest = hashlib.sha256()
        every = [self.collection.docs, *self.collection.queries.values(), *self.collection.qrels.values()]
        for record in chain.from_iterable(stream() for stream in every):
            digest.update(repr(record).encode())
        return digest.hexdigest()

    def split_run(self, system: System, split: str, depth: int) -> Path:
        """The run of a system over another split's queries; one that is there is taken.

        Raises
        ------
        Unavailable
            where the system is no retriever.
        """
        stage = None if system.pool is not None else self.stage(system) % depth
        seen = b"" if stage is None else (self._index().folder / "manifest.json").read_bytes()
        digest = hashlib.sha256(repr((system, split, depth)).encode() + seen).hexdigest()[:12]
        path = self.folder / "runs" / f"{plain(split)}-{digest}.run.gz"
        if stage is None:
            name = f"{split}/{str(system.pool).rpartition('/')[2]}"
            path.parent.mkdir(exist_ok=True, parents=True)
            write_run(path, self._pool(system.model_copy(update={"pool": name}), split))
        elif not path.exists():
            path.parent.mkdir(exist_ok=True, parents=True)
            queries = self.collection.split_queries(split)
            write_run(path, self._told(f"split {split}", stage.run(queries)))
        return path

    def stage(self, system: System) -> Stage:
        """The retriever of a sparse model or a bi-encoder, all of the collection deep.

        Raises
        ------
        Unavailable
            where the system is neither.
        """
        if system.model is not None:
            return SparseRetriever(self._index(), parse_similarity(system.model))
        if system.dense is not None:
            return self._dense(system.dense)
        raise Unavailable(f"not given: {system.given}" if system.given else "it has no stage of its own")

    def _made(self, name: str, system: System, recipe: Recipe, made: Mapping[str, Made], runs: Path) -> Made:
        path = runs / f"{plain(name)}.run.gz"
        if system.run is not None:
            return self._of_run(Path(system.run))
        if system.rerank is not None:
            chosen = recipe.model_copy(update={"systems": {**recipe.systems, name: system}})
            return reranked(name, chosen, self, made, runs)
        if system.fuse is not None:
            return self._fused(system, recipe, made, path)
        if system.pool is not None:
            write_run(path, self._asked(self._pool(system, self.data.split)))
            first = f"the first {system.depth} of " if system.depth else ""
            added = " and what it lacks of the relevant documents" if system.with_relevant else ""
            return Made(path, f"{first}the collection's {system.pool}{added}")
        stage = self.stage(system) % recipe.depth
        write_run(path, self._told(name, stage.run(self.queries)))
        return Made(path, system.model or f"bi-encoder {Path(system.dense or '').name}", stage)

    def _of_run(self, path: Path) -> Made:
        asked = {query.qid for query in self.queries}
        answered = sum(ranking.query.qid in asked for ranking in read_run(path))
        if not answered:
            raise CollectionError(f"{path}: no query of it is in {self.data.name}, split {self.data.split}")
        short = "" if answered == len(asked) else f", which answers {answered} of {len(asked)} queries"
        return Made(path, f"the run {path.name}{short}")

    def _fused(self, system: System, recipe: Recipe, made: Mapping[str, Made], path: Path) -> Made:
        parts = system.fuse or ()
        if lacking := [name for name in parts if name not in made]:
            raise Unavailable(f"it needs {lacking[0]}")
        by_seed = runs_by_seed([made[name] for name in parts])
        paths = [path.with_name(f"{seed or ''}{path.name}") for seed in range(len(by_seed))]
        if system.weights == "tuned":
            told = [self._tuned(runs, recipe, to) for runs, to in zip(by_seed, paths, strict=True)]
            which = f" (the first of {len(told)} seeds)" if len(told) > 1 else ""
            return Made(path, f"{' and '.join(parts)}, {told[0]}{which}", seeds=tuple(paths))
        weights = system.weights or (1.0 / len(parts),) * len(parts)
        fusion = Fusion(system.method, weights if system.method == "linear" else ())
        for runs, to in zip(by_seed, paths, strict=True):
            lists = join_runs([read_run(one) for one in runs])
            write_run(
                to, (fusion([one.cut(recipe.depth) for one in some]).cut(recipe.depth) for some in lists)
            )
        stages = [made[name].stage for name in parts]
        found = [one for one in stages if one is not None]
        stage = (
            make_fusion_stage(system.method, found, weights) % recipe.depth
            if len(found) == len(parts)
            else None
        )
        shown = f", weights {', '.join(f'{one:g}' for one in weights)}" if system.method == "linear" else ""
        return Made(path, f"{system.method} of {' and '.join(parts)}{shown}", stage, tuple(paths))

    def _tuned(self, runs: Sequence[Path], recipe: Recipe, path: Path) -> str:
        folds = Folds(seed=recipe.seed)
        fused, told = held_out_sum(runs, self.qrels, _objective(recipe), folds=folds, depth=recipe.depth)
        write_run(path, fused)
        return told

    def _pool(self, system: System, split: str) -> Iterator[Ranking]:
        """The lists of a pool as the system takes them.

        Raises
        ------
        Unavailable
            where the collection has no such pool.
        """
        pool = self.collection.pools.get(str(system.pool))
        if pool is None:
            raise Unavailable(f"{self.collection.name} has no candidate list {system.pool}")
        qrels = self.collection.judged(split) if system.with_relevant else {}
        for ranking in pool():
            cut = ranking if system.depth is None else ranking.cut(system.depth)
            yield _with_relevant(cut, qrels.get(ranking.query.qid, {}))

    def _asked(self, rankings: Iterable[Ranking]) -> Iterator[Ranking]:
        """Those of the split's queries, first come."""
        wanted = {query.qid for query in self.queries}
        return (ranking for ranking in rankings if ranking.query.qid in wanted)

    def _told(self, name: str, rankings: Iterable[Ranking]) -> Iterator[Ranking]:
        for done, ranking in enumerate(rankings, 1):
            self.progress(f"searching with {name}", done, len(self.queries))
            yield ranking

    def _index(self) -> SparseIndex:
        """The index that an earlier recipe left, if it holds these documents, or a new one."""
        place = self.folder / f"index-{plain(self.data.analyzer)}"
        if (place / "manifest.json").is_file():
            index = SparseIndex(place)
            if all(one == other for one, other in zip_longest(index.docs, self.collection.docs())):
                return index
        return build_index(
            self.collection.docs(),
            place,
            analyzer=self.data.analyzer,
            overwrite=True,
            progress=self.progress,
        )

    def _dense(self, name: str) -> Stage:
        """The bi-encoder's retriever, over vectors that an earlier recipe left or new ones."""
        from telerank.dense.encode import Encoding, encode_documents
        from telerank.dense.encoder import TorchEncoder
        from telerank.dense.manifest import is_vectors
        from telerank.dense.retriever import DenseRetriever
        from telerank.dense.vectors import Vectors

        encoder = TorchEncoder(name)
        place = self.folder / f"vectors-{plain(Path(name).name)}-{encoder.fingerprint[:12]}"
        if is_vectors(place) and self._are_of_these(vectors := Vectors(place)):
            return DenseRetriever(vectors, encoder)
        made = encode_documents(
            self.collection.docs(),
            place,
            encoder,
            encoding=Encoding(collection=self.collection.name),
            overwrite=is_vectors(place),
            progress=self.progress,
        )
        return DenseRetriever(made, encoder)

    def _are_of_these(self, vectors: object) -> bool:
        from telerank.dense.writer import checksum

        docs = self.collection.docs()
        for shard in vectors.manifest.shards:  # type: ignore[attr-defined]
            part = [doc for _, doc in zip(range(shard.rows), docs, strict=False)]
            if checksum([doc.docno for doc in part], [doc.full_text for doc in part]) != shard.texts:
                return False
        return next(docs, None) is None


def _with_relevant(ranking: Ranking, grades: Mapping[str, int]) -> Ranking:
    """The list and, after its last, the relevant documents that it lacks, their docnos descending."""
    there = set(ranking.docnos)
    lacking = [docno for docno, grade in grades.items() if grade > 0 and docno not in there]
    if not lacking:
        return ranking
    last = float(ranking.scores[-1]) if len(ranking) else 0.0
    scores = [*ranking.scores.tolist(), *(last - 1.0 for _ in lacking)]
    return Ranking.ranked(ranking.query, (*ranking.docnos, *lacking), scores)


def _objective(recipe: Recipe) -> str:
    """What weights are chosen by: the last measure of the analysis."""
    spec = recipe.analysis
    measures = getattr(spec, "measures", None) or (getattr(spec, "measure", "AP"),)
    return str(measures[-1])
