"""Parts of question-answering sets with whole articles in them: train, dev, test.

The part of an article depends on its title and a seed alone, so an article that several sets have is in the
same part of all of them: XQuAD and SQuAD share articles, questions and paragraphs.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.ranking_sets.splits import digest
from telerank.drafts import draft_folder
from telerank.errors import CollectionError
from telerank.types import Doc

ArticlePart: TypeAlias = Literal["train", "dev", "test"]
PARTS: tuple[ArticlePart, ...] = ("train", "dev", "test")
_RECIPE = "parts.recipe"
_TAG = re.compile("<[^>]*>")


@dataclass(frozen=True)
class ArticleParts:
    """``test`` and ``dev`` are the shares of articles in these parts, drawn by ``seed``; the rest is train.

    Raises
    ------
    ValueError
        If a share is negative, or train has none.
    """

    test: float = 0.2
    dev: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.test, self.dev) < 0 or self.test + self.dev >= 1:
            raise ValueError(f"shares of articles leave none for training: test {self.test}, dev {self.dev}")

    def part_of(self, article: str) -> ArticlePart:
        """The part of an article, by its :func:`article_name`."""
        position = int.from_bytes(digest(self.seed, article)[:8], "big") / 2**64
        if position < self.test:
            return "test"
        return "dev" if position < self.test + self.dev else "train"


def article_name(doc: Doc, collection: str) -> str:
    """The title of a document's article without markup, case and punctuation.

    Without a title it is the number of the article in the collection, which the docno ``3-7`` begins with.
    """
    plain = unicodedata.normalize("NFKC", _TAG.sub("", doc.title)).casefold()
    words = "".join(c if c.isalnum() else " " for c in plain).split()
    return " ".join(words) or f"{collection}/{doc.docno.rpartition('-')[0] or doc.docno}"


def write_parts(collections: Sequence[Collection], parts: ArticleParts, folder: Path) -> None:
    """Write the questions of all splits of question-answering sets as one SQuAD-style set, a file for each
    part.

    Each paragraph is in the part of its article, those without a question, too; docnos begin with the part.
    Questions of several collections keep their ids, so they must differ.

    Raises CollectionError if a question comes twice, or its paragraph is not known.
    """
    articles: dict[ArticlePart, dict[str, list[dict[str, Any]]]] = {part: {} for part in PARTS}
    titles: dict[str, str] = {}
    known: set[str] = set()
    for collection in collections:
        by_docno = _read_asked(collection, known)
        for doc in collection.docs():
            name = article_name(doc, collection.name)
            titles.setdefault(name, doc.title)
            paragraph = {"context": doc.text, "qas": by_docno.pop(doc.docno, [])}
            articles[parts.part_of(name)].setdefault(name, []).append(paragraph)
        if by_docno:
            raise CollectionError(
                f"{collection.name}: no document {min(by_docno)!r}, which questions are about"
            )
    with draft_folder(folder) as draft:
        for part, own in articles.items():
            data = [{"title": titles[name], "paragraphs": paragraphs} for name, paragraphs in own.items()]
            if data:
                text = json.dumps({"version": "2.0", "data": data}, ensure_ascii=False)
                (draft / f"{part}.json").write_text(text, encoding="utf-8")
        (draft / _RECIPE).write_text(json.dumps(asdict(parts)), encoding="utf-8")


def is_parted_by(folder: Path, parts: ArticleParts) -> bool:
    """Whether the folder has what :func:`write_parts` writes with these shares and this seed."""
    recipe = folder / _RECIPE
    return recipe.is_file() and json.loads(recipe.read_text("utf-8")) == asdict(parts)


def _read_asked(collection: Collection, known: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The questions about each document, as SQuAD's file has them."""
    by_docno: dict[str, list[dict[str, Any]]] = {}
    for split, queries in collection.queries.items():
        contexts = collection.contexts.get(split, dict)()
        answers: dict[str, list[dict[str, Any]]] = {}
        for stream in (collection.answers, collection.unlocated):
            for answer in stream.get(split, tuple)():
                record = {"text": answer.text, "answer_start": answer.start}
                answers.setdefault(answer.qid, []).append(record)
        for query in queries():
            if query.qid in known:
                raise CollectionError(f"{collection.name}: the question {query.qid!r} comes twice")
            if query.qid not in contexts:
                raise CollectionError(
                    f"{collection.name}: the paragraph of question {query.qid!r} is not known"
                )
            known.add(query.qid)
            own = answers.get(query.qid, [])
            record = {"id": query.qid, "question": query.text, "answers": own, "is_impossible": not own}
            by_docno.setdefault(contexts[query.qid], []).append(record)
    return by_docno
