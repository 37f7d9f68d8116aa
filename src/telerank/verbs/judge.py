"""``judge``: runs together with the qrels that they are measured by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.computing import Count
from telerank.corpus import in_memory
from telerank.corpus.collection import Collection, split_parts
from telerank.corpus.formats import open_collection
from telerank.corpus.reading import locate_data
from telerank.errors import ArgumentTypeError, ByName, CollectionError, FormatError, TelerankError
from telerank.evaluation.matching import describe_unmatched
from telerank.parameters import FirstStage
from telerank.pipelines.run_files import LazyRun
from telerank.stage import Stage
from telerank.trec import check_exists, load_qrels, read_qrels, read_run
from telerank.types import Qrels, Ranking

if TYPE_CHECKING:
    from telerank.retrieval.index import Index

# A run file (``-``: standard input), or rankings in memory.
RunSource: TypeAlias = str | Path | Iterable[Ranking]
# A qrels file, a collection or its path, or judgments in memory (:mod:`telerank.corpus.in_memory`).
JudgmentSource: TypeAlias = str | Path | Collection | Qrels | Any
# Run files, named by their files, runs by name, or one run in memory.
Runs: TypeAlias = Sequence[str | Path] | Mapping[str, Any] | Any

_PACKED, _RUN = {".gz", ".xz"}, {".run", ".trec", ".txt", ".res"}
_LOOKED_AT = 100  # queries of a run that decide which split judges it


@dataclass(frozen=True, eq=False)
class JudgedRuns:
    """Runs by name, each cut to ``depth`` documents, and the qrels of ``source``.

    ``remarks`` name the chosen split, if none was given, and the grades that count, if not all do. Run files
    that deviate from their format are read as by trec_eval, with a FormatWarning, unless ``strict``.
    """

    runs: Mapping[str, RunSource]
    qrels: Qrels
    source: str
    remarks: tuple[str, ...] = ()
    depth: int | None = None
    strict: bool = False

    def read(self, name: str) -> Iterator[Ranking]:
        """The rankings of a run; raises KeyError if there is none of this name."""
        return self._cut(self.runs[name])

    def _cut(self, run: RunSource) -> Iterator[Ranking]:
        for ranking in read_rankings(run, strict=self.strict):
            yield ranking if self.depth is None else ranking.cut(self.depth)

    def require_two(self, action: str) -> None:
        """Raise CollectionError if there are fewer than two runs."""
        if len(self.runs) < 2:
            raise CollectionError(f"there is nothing to {action}: give two runs or more")

    def check_judged(self, name: str, *, judged: int, first: str | None) -> None:
        """Raise CollectionError if no query of a run is judged; ``first`` is the first that is not."""
        if first is not None and not judged:
            run = self.runs[name]
            label = run if isinstance(run, str | Path) else name
            raise CollectionError(
                f"{label}: none of its queries is judged in {self.source} (the first is {first!r})"
            )


def judge(
    runs: Runs,
    data: JudgmentSource,
    *,
    split: str | None = None,
    depth: Count | None = None,
    strict: bool = False,
) -> JudgedRuns:
    """Pair runs with qrels, to evaluate, compare, combine them or tune their fusion.

    Runs are files, runs by name, or one run: rankings, a dict ``qid -> docno -> score``, a data frame.
    ``data`` is a qrels file (``-``: standard input), a collection (a folder, a file, an ir_datasets id, or
    opened), or judgments in memory: a dict ``qid -> docno -> grade``, a data frame, a list. If a collection
    has several splits and ``split`` is not given, it is the only split that judges the first queries of the
    run files. Runs are cut to ``depth`` documents. ``strict`` refuses files that only trec_eval reads, see
    :func:`~telerank.trec.read_run`.

    >>> runs = tr.judge(["bm25.run", "lmd.run"], "scifact", split="test")
    >>> print(tr.compare(runs, measures="nDCG@10 AP"))

    Raises
    ------
    CollectionError
        If ``data`` is neither a qrels file nor a collection, has no such split or no qrels, or a run is
        given twice.
    FormatError
        If the qrels are malformed.
    """
    by_name = name_runs(runs)
    qrels, source, remarks = read_judgments(data, by_name, split=split, strict=strict)
    remarks += _describe_indexes(by_name, qrels, source)
    return JudgedRuns(by_name, qrels, source, tuple(remarks), depth, strict)


def read_judgments(
    data: JudgmentSource,
    runs: Mapping[str, RunSource] | None = None,
    *,
    split: str | None = None,
    strict: bool = False,
) -> tuple[Qrels, str, list[str]]:
    """The judgments, of what they are, and remarks; ``data`` and ``split`` are those of :func:`judge`."""
    remarks: list[str] = []
    if not isinstance(data, str | Path | Collection):
        if split is not None:
            raise CollectionError(f"judgments in memory have no split {split!r}")
        qrels, source = in_memory.read_qrels(data), "the qrels"
    elif isinstance(data, str | Path) and _is_qrels_file(file := str(locate_data(data)), strict):
        if split is not None:
            raise CollectionError(f"{data} is a qrels file: it has no split {split!r}")
        qrels, source = load_qrels(read_qrels(file, strict=strict)), str(data)
    else:
        collection = _open(data) if isinstance(data, str | Path) else data
        chosen = split or _find_split(collection, runs or {}, strict)
        source = collection.name if isinstance(data, Collection) else str(data)
        qrels = collection.judged(chosen)
        if split is None and chosen is not None and len(collection.qrels) > 1:
            remarks.append(f"split {chosen}: the only one of {collection.name} that judges these runs")
        if (least := collection.relevant_from) > 1:
            grades = f"grades from {least} up are relevant; lower grades count as 0"
            remarks.append(f"{collection.name}: {grades}")
    if not qrels:
        raise CollectionError(f"{source}: there is no judgment")
    return qrels, source, remarks


def _describe_indexes(runs: Mapping[str, RunSource], qrels: Qrels, source: str) -> Iterator[str]:
    """A line for each index that runs were made of and that lacks documents of the qrels."""
    from telerank.sparse.index import SparseIndex  # loads numba

    folders = {folder: None for run in runs.values() for folder in _find_indexes(run)}
    judged = [docno for grades in qrels.values() for docno in grades]
    for folder in folders:
        with suppress(TelerankError, OSError):  # it may be gone or replaced
            docs = SparseIndex(folder).docs
            if any(docno not in docs and not docs.of_file(docno) for docno in dict.fromkeys(judged)):
                yield describe_unmatched(judged, docs, source, folder)[0]


def _find_indexes(run: RunSource) -> Iterator[str]:
    """The folders of the indexes that the record of a run names."""
    record: Any = {}
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(run, LazyRun):
            record = run.settings()
        elif isinstance(run, str | Path):
            record = json.loads(Path(f"{run}.json").read_bytes())
    sources = record.get("sources") if isinstance(record, Mapping) else None
    for facts in sources.values() if isinstance(sources, Mapping) else ():
        if isinstance(facts, Mapping) and isinstance(folder := facts.get("folder"), str):
            yield folder


def describe_judged(index: Index, collection: Collection, split: str | None) -> list[str]:
    """Lines about the documents that a split judges and the index lacks, and about judged files."""
    from telerank.corpus.docnos import Docnos

    documents = index.docs if index.has_texts else Docnos(index.folder)
    parts = [name for name in split_parts(collection.resolve_split(split)) if name in collection.qrels]
    judged = (qrel.docno for name in parts for qrel in collection.qrels[name]())
    try:
        return describe_unmatched(judged, documents, collection.name, str(index.folder))
    except (TelerankError, OSError) as error:  # to search, no judgments are needed
        return [f"the judgments of {collection.name} cannot be read: {error}"]


def judge_runs(runs: JudgedRuns | Runs, qrels: JudgmentSource | None) -> JudgedRuns:
    """The runs with their judgments, which they have already unless ``qrels`` are given.

    Raises
    ------
    ArgumentTypeError
        If there are none, or two.
    """
    if isinstance(runs, JudgedRuns) and qrels is None:
        return runs
    if isinstance(runs, JudgedRuns) or qrels is None:
        raise ArgumentTypeError("runs need judgments, once: tr.judge(runs, qrels), or qrels=…")
    return judge(runs, qrels)


def name_runs(runs: Runs) -> dict[str, RunSource]:
    """Runs by name: ``bm25`` for ``runs/bm25.run.gz``; the whole path if two files have the same name.

    A single run in memory is called ``run``.

    Raises
    ------
    CollectionError
        If there is no run, a file does not exist, or one is given twice.
    ArgumentTypeError
        If what is given is no run.
    """
    if isinstance(runs, JudgedRuns):
        return dict(runs.runs)
    if isinstance(runs, Mapping | list | tuple) and not runs:
        raise CollectionError("there is no run")
    if isinstance(runs, Mapping) and not _is_scored(runs):
        by_name = dict(runs)
    elif isinstance(runs, list | tuple) and all(isinstance(run, str | Path) for run in runs):
        by_name = name_files(runs, _name, "a run")
    elif isinstance(runs, str | Path):
        by_name = {_name(str(runs)): runs}
    else:
        by_name = {"run": runs}
    return ByName("run", {name: open_run(run, name) for name, run in by_name.items()})


def _is_scored(run: Mapping[Any, Any]) -> bool:
    """Whether a mapping is a run itself, ``qid -> docno -> score``, not runs by name."""
    first = next(iter(run.values()), None)
    return isinstance(first, Mapping) and not isinstance(next(iter(first.values()), None), Mapping)


def open_run(run: Any, name: str) -> RunSource:
    """A run file, rankings as they are, or those of a dict, a data frame, or an iterator.

    An iterator is read into memory, since it could be read only once.
    """
    for stage in run if isinstance(run, list | tuple) else [run]:
        if isinstance(stage, Stage | FirstStage):
            hint = "a stage makes a run by tr.search(index, queries, stage); stages are fused by tr.rrf"
            raise ArgumentTypeError(f"{name}: expected a run, got {stage!r:.60}: {hint}")
    if isinstance(run, str | Path):
        check_exists(run)
        return run
    return run if isinstance(run, LazyRun) else in_memory.read_run(run, name)


def name_files(files: Sequence[str | Path], name_of: Callable[[str], str], what: str) -> dict[str, Any]:
    """Files by their names; by the whole path if two files have the same name.

    Raises CollectionError if one is given twice.
    """
    paths = [str(file) for file in files]
    if len(set(paths)) < len(paths):
        raise CollectionError(f"{what} is given twice")
    names = [name_of(path) for path in paths]
    return {name if names.count(name) == 1 else path: path for name, path in zip(names, paths, strict=True)}


def read_rankings(run: RunSource, *, strict: bool = True) -> Iterable[Ranking]:
    """The rankings of a run file or of a run in memory."""
    return read_run(run, strict=strict) if isinstance(run, str | Path) else run


def _name(run: str) -> str:
    path = Path(run)
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    return path.stem if path.suffix in _RUN else path.name


def _is_qrels_file(path: str, strict: bool) -> bool:
    if path == "-":
        return True
    if not Path(path).is_file():
        return False
    try:
        next(read_qrels(path, strict=strict), None)
    except FormatError:
        return False
    return True


def _open(path: str | Path) -> Collection:
    try:
        return open_collection(path)
    except CollectionError:
        if locate_data(path).is_file():
            next(
                read_qrels(locate_data(path), strict=False), None
            )  # raises FormatError, which says what qrels are
        raise


def _find_split(collection: Collection, runs: Mapping[str, RunSource], strict: bool) -> str | None:
    """The only split that judges one of the first queries of the run files; None if there are several."""
    if len(collection.qrels) < 2:
        return next(iter(collection.qrels), None)
    files = [run for run in runs.values() if isinstance(run, str | Path) and str(run) != "-"]
    qids = {
        ranking.query.qid for run in files for ranking in islice(read_run(run, strict=strict), _LOOKED_AT)
    }
    splits = [name for name, qrels in collection.qrels.items() if any(qrel.qid in qids for qrel in qrels())]
    return splits[0] if len(splits) == 1 else None
