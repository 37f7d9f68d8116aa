"""A ranking set: questions split into train, dev and test, each with positives and negatives, on disk.

The folder is a BEIR folder with more in it::

    corpus.jsonl  queries.jsonl  qrels/{train,dev,test}.tsv
    negatives/{train,dev,test}.run   candidates that are not relevant, a TREC run, best first
    answers/{train,dev,test}.jsonl   the spans that answer, in the documents' texts
    ranking-set.json                 how it was made: recipe, sources, counts, leak, versions

The same sets and recipe give the same bytes.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from telerank.corpus.collection import Collection, Format
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
from telerank.errors import CollectionError, FormatError
from telerank.stage import Stage
from telerank.trec.files import numbered_lines, open_text
from telerank.trec.runs import read_run, write_run
from telerank.types import Answer, Doc, Progress, Ranking, silent

MANIFEST = "ranking-set.json"
SPLITTERS = {"question": split_by_question, "paragraph": split_by_paragraph}
FirstStage: TypeAlias = Callable[[Iterable[Doc]], AbstractContextManager[Stage]]
"""Makes a first stage over the documents, and lets go of it afterwards."""


@dataclass(frozen=True, slots=True)
class RankingSetSettings:
    """What a ranking set is made by; ``model`` says in words which first stage found the negatives.

    Raises
    ------
    ValueError
        If a strategy or a way to split is unknown, or the depth is not positive.
    """

    negatives: str = "bm25"
    depth: int = 10
    split_by: str = "question"
    seed: int = 0
    model: str = ""

    def __post_init__(self) -> None:
        if self.negatives not in STRATEGIES:
            raise ValueError(f"negatives must be one of {', '.join(STRATEGIES)}, got {self.negatives!r}")
        if self.split_by not in SPLITTERS:
            raise ValueError(f"split_by must be one of {', '.join(SPLITTERS)}, got {self.split_by!r}")
        if self.depth < 1:
            raise ValueError(f"depth must be positive, got {self.depth}")


@dataclass(frozen=True, eq=False)
class RankingSet:
    """The result of :func:`make_ranking_set`; ``negatives`` by part, one ranking a question, in its order."""

    recipe: RankingSetSettings
    sources: tuple[Collection, ...]
    merged: MergedSet
    split: Split
    negatives: Mapping[str, tuple[Ranking, ...]]
    refused: Mapping[str, int]

    @property
    def leaks(self) -> dict[str, Leak]:
        return count_leaks(self.split)

    def counts(self) -> dict[str, dict[str, int]]:
        """By part: questions, their pairs with documents, and how many have fewer negatives than asked."""
        return {
            part: {
                "questions": len(questions),
                "positives": sum(len(one.positives) for one in questions),
                "negatives": sum(map(len, self.negatives[part])),
                "short_of_negatives": sum(
                    len(ranking) < self.recipe.depth for ranking in self.negatives[part]
                ),
            }
            for part, questions in self.split.parts.items()
        }


def make_ranking_set(
    collections: Sequence[Collection],
    recipe: RankingSetSettings,
    *,
    first_stage: FirstStage | None = None,
    progress: Progress = silent,
) -> RankingSet:
    """The Piaf report's section 5: merge, remove duplicates, split 80/10/10, find negatives.

    Raises
    ------
    ValueError
        If negatives are to be found by a first stage and none is given.
    CollectionError
        If the sets cannot be merged (see :func:`.qa.merge`), or hold no question with a positive.
    """
    merged = merge(collections, progress=progress)
    if not merged.questions:
        raise CollectionError("no question of these sets has a relevant document")
    split = SPLITTERS[recipe.split_by](merged, seed=recipe.seed)
    screen = Screen(merged.docs, split.homes)
    if recipe.negatives == "bm25":
        if first_stage is None:
            raise ValueError("negatives 'bm25' need a first stage")
        with first_stage(merged.docs.values()) as stage:
            find = functools.partial(search_negatives, stage=stage, depth=recipe.depth, progress=progress)
            negatives = {part: tuple(find(ones, screen)) for part, ones in split.parts.items()}
    elif recipe.negatives == "random":
        candidates = tuple(dict.fromkeys(docno for one in merged.questions for docno in one.positives))
        draw = functools.partial(
            draw_random_negatives, candidates=candidates, depth=recipe.depth, seed=recipe.seed
        )
        negatives = {part: tuple(draw(ones, screen)) for part, ones in split.parts.items()}
    else:
        batch = functools.partial(take_batch_negatives, depth=recipe.depth, seed=recipe.seed)
        negatives = {part: tuple(batch(ones, screen)) for part, ones in split.parts.items()}
    return RankingSet(
        recipe, tuple(collections), merged, split, negatives, dict(sorted(screen.refused.items()))
    )


def check_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Refuse a place that a ranking set cannot be written to, before the work of making it.

    Raises
    ------
    CollectionError
        If something stands there already and is not to be overwritten, or is no ranking set.
    """
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise CollectionError(f"{folder}: is there already; overwrite it with --overwrite")
    if not (target / MANIFEST).is_file():
        raise CollectionError(f"{folder}: is no ranking set and is not overwritten")


def write_ranking_set(folder: str | Path, made: RankingSet, *, overwrite: bool = False) -> None:
    """Write the folder beside its name, and give it the name when all of it is there.

    Raises
    ------
    CollectionError
        As :func:`check_target` does.
    """
    check_target(folder, overwrite=overwrite)
    target = Path(folder)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _write(beside, made)
        if target.exists():
            shutil.rmtree(target)
        beside.replace(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(folder: Path, made: RankingSet) -> None:
    for name in ("qrels", "negatives", "answers"):
        (folder / name).mkdir(parents=True)
    _write_lines(
        folder / "corpus.jsonl",
        ({"_id": doc.docno, "title": doc.title, "text": doc.text} for doc in made.merged.docs.values()),
    )
    _write_lines(
        folder / "queries.jsonl",
        ({"_id": one.query.qid, "text": one.query.text} for one in made.merged.questions),
    )
    for part, questions in made.split.parts.items():
        with open_text(folder / "qrels" / f"{part}.tsv", "w") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{one.query.qid}\t{docno}\t1\n" for one in questions for docno in one.positives)
        write_run(folder / "negatives" / f"{part}.run", made.negatives[part], made.recipe.negatives)
        _write_lines(folder / "answers" / f"{part}.jsonl", _answers(questions))
    (folder / MANIFEST).write_text(json.dumps(manifest(made), ensure_ascii=False, indent=2) + "\n", "utf-8")


def _answers(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    return (
        {"query-id": answer.qid, "corpus-id": answer.docno, "text": answer.text, "start": answer.start}
        for one in questions
        for answer in one.answers
    )


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with open_text(path, "w") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def manifest(made: RankingSet) -> dict[str, Any]:
    """What ``ranking-set.json`` says."""
    return {
        "recipe": asdict(made.recipe),
        "sources": [
            {"name": one.name, "format": one.format, "licence": one.licence, "notes": dict(one.notes())}
            for one in made.sources
        ],
        "merged": asdict(made.merged.tally) | {"kept": len(made.merged.questions)},
        "parts": made.counts(),
        "refused_as_negative": dict(made.refused),
        "leak": {part: asdict(leak) for part, leak in made.leaks.items()},
        "versions": {"telerank": version("telerank")},
    }


def _recognises(path: Path) -> bool:
    return path.is_dir() and (path / MANIFEST).is_file()


def _open(path: Path, encoding: str) -> Collection:
    opened = BEIR.open(path, encoding)
    return replace(
        opened,
        format=RANKING_SET.name,
        answers={
            part: functools.partial(_read_answers, path / "answers" / f"{part}.jsonl") for part in PARTS
        },
        pools={f"{part}/negatives": functools.partial(_read_negatives, path, opened, part) for part in PARTS},
        source=f"made by telerank; {MANIFEST} names its sources",
    )


def _read_answers(path: Path) -> Iterator[Answer]:
    for number, line in numbered_lines(path):
        try:
            record = json.loads(line)
            yield Answer(record["query-id"], record["corpus-id"], record["text"], record["start"])
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                path, number, "an object with query-id, corpus-id, text and start", line
            ) from error


def _read_negatives(path: Path, opened: Collection, part: str) -> Iterator[Ranking]:
    queries = {query.qid: query for query in opened.split_queries(part)}
    for ranking in read_run(path / "negatives" / f"{part}.run"):
        query = queries.get(ranking.query.qid, ranking.query)
        yield Ranking.presorted(query, ranking.docnos, ranking.scores)


RANKING_SET = Format("ranking-set", _recognises, _open, f"ranking set made by telerank: {MANIFEST}")
"""The sources and their licences stand in the set's own ``ranking-set.json``."""
