"""What a person may be typing: titles that begin so, and frequent words that the last word begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from telerank.sparse.index import SparseIndex
from telerank.types import Progress, silent
from telerank.vocabulary.lexicon import LONGEST_TITLE, LONGEST_WORD, fold, open_lexicon, split_words

MOST = 8
_SHORTEST = 2  # letters from which words are completed
_LEAST = 2  # documents of a word that is suggested


@dataclass(frozen=True)
class Suggestion:
    """A text to search for: a ``title``, or what was typed with its last ``word`` completed.

    ``documents`` have that title or that word.
    """

    text: str
    kind: Literal["title", "word"]
    documents: int


def suggest(index: SparseIndex, typed: str, k: int = MOST, progress: Progress = silent) -> list[Suggestion]:
    """At most ``k`` suggestions for what was typed: titles, then words; accents and case do not count."""
    prefix = fold(typed[: LONGEST_TITLE + LONGEST_WORD])
    if not prefix or k < 1 or len(typed) > LONGEST_TITLE + LONGEST_WORD:
        return []
    lexicon = open_lexicon(index, progress)
    titles = lexicon.titles_starting(prefix, k)
    suggestions = [Suggestion(text, "title", documents) for text, documents in titles]
    *_, last = (None, *split_words(typed))
    if last is not None and last.end() == len(typed) and len(last[0]) >= _SHORTEST:
        taken = {fold(each.text) for each in suggestions}
        for word, documents in lexicon.words_starting(fold(last[0]), 2 * k):
            text = typed[: last.start()] + word
            if documents >= _LEAST and fold(text) not in taken and fold(word) != fold(last[0]):
                suggestions.append(Suggestion(text, "word", documents))
    return _share(suggestions, k)


def _share(suggestions: list[Suggestion], k: int) -> list[Suggestion]:
    """The first ``k``, half of them words if there are so many."""
    words = [each for each in suggestions if each.kind == "word"]
    titles = [each for each in suggestions if each.kind == "title"]
    count = max(k - len(words), (k + 1) // 2)
    return [*titles[:count], *words][:k]
