"""A ranking set: questions split into train, dev and test, each with positives and negatives, on disk.

The folder is an extended BEIR folder::

    corpus.jsonl  queries.jsonl  qrels/{train,dev,test}.tsv
    negatives/{train,dev,test}.run   candidates that are not relevant, a TREC run, best first
    answers/{train,dev,test}.jsonl   the answers as spans of the documents' texts
    ranking-set.json                 its settings, sources, counts, leak and versions

The same sets and settings give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from telerank.corpus.answers import read_answers, write_answers, write_records
from telerank.corpus.collection import Collection
from telerank.corpus.ranking_sets.negatives import (
    STRATEGIES,
    Screen,
    draw_random_negatives,
    search_negatives,
    take_batch_negatives,
)
from telerank.corpus.ranking_sets.qa import MergedSet, Question, merge
from telerank.corpus.ranking_sets.splits import (
    PARTS,
    Leak,
    Split,
    count_leaks,
    split_by_paragraph,
    split_by_question,
)
from telerank.corpus.readers.beir import BEIR
from telerank.corpus.reading import has_file
from telerank.drafts import draft_folder
from telerank.errors import CollectionError
from telerank.stage import Stage
from telerank.trec.files import open_to_write
from telerank.trec.recognition import Format
from telerank.trec.runs import read_run, write_run
from telerank.types import Doc, Progress, Ranking, silent

MANIFEST = "ranking-set.json"
SPLITTERS = {"question": split_by_question, "paragraph": split_by_paragraph}
FirstStage: TypeAlias = Callable[[Iterable[Doc]], AbstractContextManager[Stage]]
"""Opens a first stage over the documents, as a context manager that releases it."""
_Negatives: TypeAlias = dict[str, tuple[Ranking, ...]]


@dataclass(frozen=True, slots=True)
class RankingSetSettings:
    """How a ranking set is made; ``model`` describes the first stage that found the negatives.

    Without ``titles`` a document is its text alone, as the contexts of the Piaf report, without the title of
    its article before it. Raises ValueError if ``negatives`` or ``split_by`` is unknown, or the depth is
    below 1.
    """

    negatives: str = "bm25"
    depth: int = 10
    split_by: str = "question"
    seed: int = 0
    model: str = ""
    titles: bool = True

    def __post_init__(self) -> None:
        if self.negatives not in STRATEGIES:
            raise ValueError(f"negatives must be one of {', '.join(STRATEGIES)}, got {self.negatives!r}")
        if self.split_by not in SPLITTERS:
            raise ValueError(f"split_by must be one of {', '.join(SPLITTERS)}, got {self.split_by!r}")
        if self.depth < 1:
            raise ValueError(f"depth must be positive, got {self.depth}")


@dataclass(frozen=True, eq=False)
class RankingSet:
    """A result of :func:`make_ranking_set`; ``negatives`` has for each part one ranking a question."""

    settings: RankingSetSettings
    sources: tuple[Collection, ...]
    merged: MergedSet
    split: Split
    negatives: Mapping[str, tuple[Ranking, ...]]
    refused: Mapping[str, int]

    @property
    def leaks(self) -> dict[str, Leak]:
        return count_leaks(self.split)

    def counts(self) -> dict[str, dict[str, int]]:
        """For each part its questions, pairs with documents, and questions with too few negatives."""
        return {
            part: {
                "questions": len(questions),
                "positives": sum(len(question.positives) for question in questions),
                "negatives": sum(map(len, self.negatives[part])),
                "short_of_negatives": sum(
                    len(ranking) < self.settings.depth for ranking in self.negatives[part]
                ),
            }
            for part, questions in self.split.parts.items()
        }

    def manifest(self) -> dict[str, Any]:
        """The content of ``ranking-set.json``."""
        from importlib.metadata import version

        return {
            "recipe": asdict(self.settings),
            "sources": [
                {"name": one.name, "format": one.format, "licence": one.licence, "notes": dict(one.notes())}
                for one in self.sources
            ],
            "merged": asdict(self.merged.tally) | {"kept": len(self.merged.questions)},
            "parts": self.counts(),
            "refused_as_negative": dict(self.refused),
            "leak": {part: asdict(leak) for part, leak in self.leaks.items()},
            "versions": {"telerank": version("telerank")},
        }


def make_ranking_set(
    collections: Sequence[Collection],
    settings: RankingSetSettings,
    *,
    first_stage: FirstStage | None = None,
    progress: Progress = silent,
) -> RankingSet:
    """Merge sets, remove duplicates, split 80/10/10 and find negatives (section 5 of the Piaf report).

    Raises
    ------
    ValueError
        If the negatives need a first stage and none is given.
    CollectionError
        If the sets cannot be merged (see :func:`.qa.merge`), or no question has a positive.
    """
    read = collections if settings.titles else [*map(_without_titles, collections)]
    merged = merge(read, progress=progress)
    if not merged.questions:
        raise CollectionError("no question of these sets has a relevant document")
    split = SPLITTERS[settings.split_by](merged, seed=settings.seed)
    screen = Screen(merged.docs, split.homes)
    depth, seed = settings.depth, settings.seed

    def find_all(find: Callable[[tuple[Question, ...], Screen], Iterator[Ranking]]) -> _Negatives:
        return {part: tuple(find(questions, screen)) for part, questions in split.parts.items()}

    if settings.negatives == "bm25":
        if first_stage is None:
            raise ValueError("negatives 'bm25' need a first stage")
        with first_stage(merged.docs.values()) as stage:
            negatives = find_all(partial(search_negatives, stage=stage, depth=depth, progress=progress))
    elif settings.negatives == "random":
        candidates = tuple(dict.fromkeys(docno for one in merged.questions for docno in one.positives))
        negatives = find_all(partial(draw_random_negatives, candidates=candidates, depth=depth, seed=seed))
    else:
        negatives = find_all(partial(take_batch_negatives, depth=depth, seed=seed))
    refused = dict(sorted(screen.refused.items()))
    return RankingSet(settings, tuple(collections), merged, split, negatives, refused)


def _without_titles(collection: Collection) -> Collection:
    return replace(collection, docs=lambda: (replace(doc, title="") for doc in collection.docs()))


def is_made_by(folder: str | Path, settings: RankingSetSettings) -> bool:
    """Whether a folder holds a ranking set that was made by these settings."""
    manifest = Path(folder, MANIFEST)
    return manifest.is_file() and json.loads(manifest.read_text("utf-8")).get("recipe") == asdict(settings)


def check_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise CollectionError if a ranking set cannot be written to ``folder``: only a set is replaced."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise CollectionError(f"{folder}: already exists; replace it with --overwrite")
    if not (target / MANIFEST).is_file():
        raise CollectionError(f"{folder}: not a ranking set, so it is not overwritten")


def write_ranking_set(folder: str | Path, ranking_set: RankingSet, *, overwrite: bool = False) -> None:
    """Write a ranking set, if :func:`check_target` allows it; the folder appears only when complete."""
    check_target(folder, overwrite=overwrite)
    with draft_folder(Path(folder)) as draft:
        _write(draft, ranking_set)


def _write(folder: Path, ranking_set: RankingSet) -> None:
    for name in ("qrels", "negatives", "answers"):
        (folder / name).mkdir(parents=True)
    write_records(
        folder / "corpus.jsonl",
        (
            {"_id": doc.docno, "title": doc.title, "text": doc.text}
            for doc in ranking_set.merged.docs.values()
        ),
    )
    write_records(
        folder / "queries.jsonl",
        ({"_id": one.query.qid, "text": one.query.text} for one in ranking_set.merged.questions),
    )
    for part, questions in ranking_set.split.parts.items():
        with open_to_write(folder / "qrels" / f"{part}.tsv") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{one.query.qid}\t{docno}\t1\n" for one in questions for docno in one.positives)
        write_run(
            folder / "negatives" / f"{part}.run", ranking_set.negatives[part], ranking_set.settings.negatives
        )
        write_answers(
            folder / "answers" / f"{part}.jsonl", (answer for one in questions for answer in one.answers)
        )
    text = json.dumps(ranking_set.manifest(), ensure_ascii=False, indent=2)
    (folder / MANIFEST).write_text(text + "\n", "utf-8")


def _open(path: Path, encoding: str) -> Collection:
    collection = BEIR.read(path, encoding)
    own = {"answers", "negatives", MANIFEST}
    return replace(
        collection,
        format=RANKING_SET.name,
        answers={part: partial(read_answers, path / "answers" / f"{part}.jsonl") for part in PARTS},
        pools={f"{part}/negatives": partial(_read_negatives, path, collection, part) for part in PARTS},
        source=f"made by telerank; {MANIFEST} names its sources",
        unread=tuple(name for name in collection.unread if name not in own),
    )


def _read_negatives(path: Path, collection: Collection, part: str) -> Iterator[Ranking]:
    queries = {query.qid: query for query in collection.split_queries(part)}
    for ranking in read_run(path / "negatives" / f"{part}.run"):
        query = queries.get(ranking.query.qid, ranking.query)
        yield Ranking.presorted(query, ranking.docnos, ranking.scores)


RANKING_SET = Format(
    "ranking-set",
    partial(has_file, name=MANIFEST),
    _open,
    f"ranking set made by telerank: {MANIFEST}",
)
"""Sources and licences are in the set's ``ranking-set.json``."""
