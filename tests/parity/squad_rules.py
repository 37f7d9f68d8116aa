"""SQuAD's published rules of evaluation, written again from their description for the tests.

The steps of normalisation are done by hand, character by character, without regular expressions. Figures are in
percent, as the scripts print them.
"""

from __future__ import annotations

import string
from collections import defaultdict
from fractions import Fraction

ARTICLES = ("a", "an", "the")


def is_word_character(character):
    return character.isalnum() or character == "_"


def normalised_words(text):
    letters = [c for c in text.lower() if c not in string.punctuation]
    pieces, run = [], ""
    for c in letters:  # runs of word characters, and what is between them
        if run and is_word_character(c) != is_word_character(run[-1]):
            pieces.append(run)
            run = ""
        run += c
    pieces.append(run)
    kept = "".join(" " if piece in ARTICLES else piece for piece in pieces)
    return kept.split()


def exact(prediction, gold):
    return int(normalised_words(prediction) == normalised_words(gold))


def f1(prediction, gold, second):
    left, right = normalised_words(prediction), normalised_words(gold)
    if second and (not left or not right):
        return int(left == right)
    remaining = defaultdict(int)
    for word in right:
        remaining[word] += 1
    same = 0
    for word in left:
        if remaining[word]:
            remaining[word] -= 1
            same += 1
    if not same:
        return 0
    return Fraction(2 * same, len(left) + len(right))


def version_1(questions, predictions):
    """``questions[qid]`` are gold texts; a question without prediction scores 0."""
    exacts, f1s = [], []
    for qid, golds in questions.items():
        own = predictions.get(qid)
        exacts.append(0 if own is None else max(exact(own, gold) for gold in golds))
        f1s.append(0 if own is None else max(f1(own, gold, False) for gold in golds))
    return {"exact": 100 * Fraction(sum(exacts), len(exacts)), "f1": 100 * sum(f1s) / Fraction(len(f1s))}


def version_2(questions, predictions, no_answer, threshold):
    raw = {}
    for qid, golds in questions.items():
        kept = [gold for gold in golds if normalised_words(gold)] or [""]
        own = predictions[qid]
        raw[qid] = (max(exact(own, g) for g in kept), max(f1(own, g, True) for g in kept))
    figures = {}
    for i, name in enumerate(("exact", "f1")):
        final = {
            qid: (0 if questions[qid] else 1) if no_answer[qid] > threshold else raw[qid][i]
            for qid in questions
        }
        parts = {"": list(questions), "HasAns_": [q for q in questions if questions[q]]}
        parts["NoAns_"] = [q for q in questions if not questions[q]]
        for prefix, qids in parts.items():
            figures[prefix + name] = 100 * Fraction(sum(final[q] for q in qids)) / len(qids)
        figures[f"best_{name}"], figures[f"best_{name}_thresh"] = best(
            questions, predictions, raw, no_answer, i
        )
    return figures


def best(questions, predictions, raw, no_answer, i):
    """Start with no question answered; admit the questions by rising value of no-answer."""
    order = list(no_answer)
    order.sort(key=no_answer.get)
    totals = [Fraction(sum(1 for golds in questions.values() if not golds))]
    for qid in order:
        change = raw[qid][i] if questions[qid] else (-1 if predictions[qid] else 0)
        totals.append(totals[-1] + change)
    top = max(totals)
    position = totals.index(top)
    return 100 * top / len(questions), (0.0 if position == 0 else no_answer[order[position - 1]])
