"""Feedback and corrected words, measured: ``python benchmarks/words.py`` prints Markdown.

Feedback is measured behind BM25 on Cranfield, Vaswani, SciFact and PIAF, at its defaults and tuned by folds;
corrections on questions of PIAF and SciFact with a made misspelling each; suggestions while typing on a
million passages of ``msdocs``, whose first words are their titles. ``--write`` puts the tables into
``docs/results/words.md``. The collections are in the folder that ``TELERANK_DATA`` names.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
from peers.corpus import passages
from results_page import write

import telerank as tr
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import measure
from telerank.feedback.methods import METHODS
from telerank.show.tables import Table, render_markdown
from telerank.text.steps import fold_accents
from telerank.types import Doc, Query
from telerank.vocabulary.spelling import NEIGHBOURS

FEEDBACK = (
    ("cranfield", "english", None),
    ("vaswani", "english", None),
    ("scifact", "english", "test"),
    ("piaf", "french", None),
)
SPELLING = (("piaf", "french", None), ("scifact", "english", "train+test"))
MEASURES = ("nDCG@10", "AP", "R@100")
QUESTIONS, MISSPELT, SEED = 300, 500, 30
SUGGESTED, TYPED, TITLE_WORDS = 1_000_000, 300, 6
SLOWEST = 20.0  # milliseconds that suggestions may take


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    reports = {"feedback": report_feedback, "spelling": report_spelling, "suggestions": report_suggestions}
    parser.add_argument("--only", choices=reports, help="one of them")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/words.md")
    options = parser.parse_args()
    for name, report in reports.items():
        if options.only in (None, name):
            text = render_markdown(report())
            print(text, flush=True)
            if options.write:
                write("words", name, text)


def report_suggestions() -> Table:
    """Times of the suggestions for each beginning of titles, as a person types them."""
    path = Path(os.environ["TELERANK_DATA"]) / "msdocs" / "passages.tsv.xz"
    docs = (
        Doc(f"d{number}", text, " ".join(text.split()[:TITLE_WORDS]))
        for number, text in enumerate(passages(path, SUGGESTED))
    )
    with tempfile.TemporaryDirectory() as folder:
        index = tr.index(docs, Path(folder) / "idx", analyzer="english", workers=1, progress=False)
        os.environ["XDG_CACHE_HOME"] = folder  # where there is nothing yet
        began = time.perf_counter()
        index.suggest("a")  # makes the files of words and titles
        made = time.perf_counter() - began
        began = time.perf_counter()
        index = tr.open(index.folder)
        index.suggest("a")
        opened = time.perf_counter() - began
        random = Random(SEED)
        titles = [index.docs[f"d{random.randrange(len(index))}"].title for _ in range(TYPED)]
        times: dict[str, list[float]] = {"1 or 2": [], "3 to 5": [], "6 and more": []}
        for title in titles:
            for end in range(1, len(title) + 1):
                began = time.process_time()  # other work of the machine is not counted
                index.suggest(title[:end])
                taken = 1000 * (time.process_time() - began)
                times["1 or 2" if end < 3 else "3 to 5" if end < 6 else "6 and more"].append(taken)
    rows = [
        (kind, f"{len(own):,}", *(f"{np.percentile(own, share):.2f}" for share in (50, 99, 100)))
        for kind, own in times.items()
    ]
    caption = f"{len(titles)} titles typed letter by letter; {SUGGESTED:,} documents; processor time"
    slowest = max(map(max, times.values()))
    reached = f"At most {SLOWEST:g} ms: {'reached' if slowest <= SLOWEST else 'missed'}."
    notes = [f"{reached} Words and titles are collected in {made:.0f} s once, and opened in {opened:.1f} s."]
    columns = ("characters typed", "times", "p50 ms", "p99 ms", "max ms")
    return Table.of(columns, rows, caption=caption, notes=notes, left=1)


def open_data(name: str, analyzer: str, folder: str) -> tuple[tr.Index, object]:
    data = tr.collection(Path(os.environ["TELERANK_DATA"]) / name)
    return tr.index(data, Path(folder) / name, analyzer=analyzer, workers=1, progress=False), data


def report_feedback() -> Table:
    """The means of BM25 and of each method behind it."""
    rows = []
    for name, analyzer, split in FEEDBACK:
        with tempfile.TemporaryDirectory() as folder:
            index, data = open_data(name, analyzer, folder)
            qrels = data.judged(split)
            queries = sorted((q for q in data.split_queries(split) if q.qid in qrels), key=lambda q: q.qid)
            if len(queries) > QUESTIONS:
                queries = Random(SEED).sample(queries, QUESTIONS)
            qrels = {query.qid: qrels[query.qid] for query in queries}
            measured = {
                label: measure(runs, qrels, list(MEASURES))
                for label, runs in list_systems(index, queries, qrels)
            }
            compared = compare_evaluations(measured, ["bm25"], measures=["nDCG@10"])
            ps = {each.system: f"{each.p_holm:.3f}" for each in compared.differences}
            for label, evaluation in measured.items():
                means = (f"{evaluation.mean[m]:.4f}" for m in MEASURES)
                rows.append([f"{data.name} ({len(queries)})", label, *means, ps.get(label, "")])
    notes = [
        (
            "Tuned by nDCG@10: each question has the setting that the other four of 5 folds chose; "
            f"no feedback is one of the settings. Of more than {QUESTIONS} questions {QUESTIONS} are drawn, "
            f"with the seed {SEED}. 1000 documents retrieved. "
            "p: of nDCG@10 against bm25, by a paired t-test with Holm's correction over the systems of a "
            "collection; systems that are equal to bm25 in every question have none to test."
        )
    ]
    return Table.of(("collection (questions)", "system", *MEASURES, "p"), rows, left=2, notes=notes)


def list_systems(index: tr.Index, queries: Sequence[Query], qrels) -> Iterator[tuple[str, list]]:
    """The label and the rankings of each system."""
    from telerank.evaluation.tune import Folds, Objective, tune
    from telerank.feedback.methods import make_feedback_grid

    yield "bm25", list((index.bm25() % 1000).run(queries))
    by_qid = {query.qid: query for query in queries}
    for name in METHODS:
        yield f"{name}, default", list((tr.pipeline(f"bm25 >> {name}", index) % 1000).run(queries))
        texts = ["bm25", *(f"bm25 >> {method!r}" for method in make_feedback_grid(name))]

        def run(text, some, k=10):
            return list((tr.pipeline(text, index) % k).run(some))

        result = tune(texts, run, Objective(queries, qrels, "nDCG@10"), held_out=Folds())
        folds = zip(result.folds, result.choices, strict=True)
        yield (
            f"{name}, tuned ({result.best})",
            [ranking for fold, text in folds for ranking in run(text, [by_qid[qid] for qid in fold], 1000)],
        )


def report_spelling() -> Table:
    """RR@10 of questions without a misspelling, with one, and corrected."""
    rows = []
    for name, analyzer, split in SPELLING:
        with tempfile.TemporaryDirectory() as folder:
            index, data = open_data(name, analyzer, folder)
            qrels = data.judged(split)
            queries = sorted((q for q in data.split_queries(split) if q.qid in qrels), key=lambda q: q.qid)
            drawn = Random(SEED).sample([q for q in queries if find_eligible(q.text)], MISSPELT)
            made = [(query, *misspell(query.text, Random(f"{SEED} {query.qid}"))) for query in drawn]
            kinds = sorted({kind for _, _, kind in made})
            for kind in ("all", *kinds):
                some = [each for each in made if kind in ("all", each[2])]
                forms = {
                    "without": [query for query, _, _ in some],
                    "without, corrected": [
                        Query(query.qid, index.correct(query.text)) for query, _, _ in some
                    ],
                    "misspelt": [Query(query.qid, text) for query, text, _ in some],
                    "corrected": [Query(query.qid, index.correct(text)) for query, text, _ in some],
                }
                judged = {query.qid: qrels[query.qid] for query, _, _ in some}
                values = [
                    measure((index.bm25() % 10).run(form), judged, ["RR@10"]).mean["RR@10"]
                    for form in forms.values()
                ]
                pairs = list(zip(forms["without"], forms["corrected"], forms["misspelt"], strict=True))
                changed = sum(corrected != typed for _, corrected, typed in pairs)
                right = sum(
                    query.text.casefold() == corrected.text.casefold() for query, corrected, _ in pairs
                )
                rows.append(
                    [
                        data.name,
                        kind,
                        str(len(some)),
                        *(f"{value:.4f}" for value in values),
                        str(changed),
                        str(right),
                    ]
                )
    heads = (
        "collection",
        "misspelling",
        "questions",
        "RR@10 without",
        "without, corrected",
        "misspelt",
        "corrected",
        "changed",
        "as it was",
    )
    notes = [
        (
            "BM25; one word of each question, which has 4 letters or more, is misspelt, drawn with the seed "
            f"{SEED}. Neighbour keys are those of the corrector's own table."
        )
    ]
    return Table.of(heads, rows, left=2, notes=notes)


def find_eligible(text: str) -> list[int]:
    """The numbers of the words of a text that can be misspelt."""
    return [n for n, word in enumerate(text.split(" ")) if len(word) >= 4 and word.isalpha()]


def misspell(text: str, random: Random) -> tuple[str, str]:
    """A text with one misspelt word, and the kind of the misspelling.

    A word with accents loses them in half of all cases.
    """
    words = text.split(" ")
    number = random.choice(find_eligible(text))
    word = words[number]
    kinds = [
        "swap",
        "neighbour key",
        "doubled letter",
        *(["dropped accent"] if fold_accents(word) != word else []),
    ]
    kind = "dropped accent" if len(kinds) == 4 and random.random() < 0.5 else random.choice(kinds[:3])
    at = random.randrange(1, len(word) - 1)
    if kind == "dropped accent":
        words[number] = fold_accents(word)
    elif kind == "swap":
        words[number] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    elif kind == "doubled letter":
        words[number] = word[:at] + word[at] + word[at:]
    else:
        beside = sorted(other for letter, other in NEIGHBOURS if letter == fold_accents(word[at]).casefold())
        words[number] = word[:at] + (random.choice(beside) if beside else word[at]) + word[at + 1 :]
    return " ".join(words), kind


if __name__ == "__main__":
    main()
