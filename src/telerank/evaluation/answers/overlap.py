"""How alike a predicted answer and a gold answer are: equality, and F1 of words or characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from telerank.evaluation.answers.normalise import Normalisation

Overlap = Callable[[str, str], float]
"""``overlap(prediction, gold)``, from 0 to 1."""


def exact_match(normalise: Normalisation) -> Overlap:
    """1 if the normalised texts are equal, else 0."""
    return lambda prediction, gold: float(normalise(prediction) == normalise(gold))


def word_f1(normalise: Normalisation, *, empty_is_an_answer: bool) -> Overlap:
    """F1 of the words of the normalised texts, each counted as often as it occurs.

    Two texts that have no word are alike if ``empty_is_an_answer``, as in the script of SQuAD 2.0; in that of
    SQuAD 1.1 they are not.
    """

    def overlap(prediction: str, gold: str) -> float:
        words, gold_words = normalise(prediction).split(), normalise(gold).split()
        if not words or not gold_words:
            return float(empty_is_an_answer and words == gold_words)
        return bag_f1(words, gold_words)

    return overlap


def character_f1(prediction: str, gold: str) -> float:
    """F1 of the characters of the texts as they stand (the Piaf report, section 2.1.3).

    TP counts the characters that both texts have, each as often as it occurs in both, wherever it stands: two
    texts of the same letters have 1. Two empty texts are alike.
    """
    return bag_f1(prediction, gold) if prediction and gold else float(prediction == gold)


def bag_f1(items: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two bags that are not empty: the harmonic mean of precision and recall."""
    shared = sum((Counter(items) & Counter(gold)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(items), shared / len(gold)  # in the order of SQuAD's, to the last digit
    return 2 * precision * recall / (precision + recall)
