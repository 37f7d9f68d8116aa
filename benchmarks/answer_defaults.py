"""What answers over several texts are chosen by: the reader's weight, and the rule of no answer, on dev.

The questions are those of PIAF and FQuAD about the articles of the part ``dev``, which the reader that comes
with telerank has not learned from (its last update was chosen, and its threshold fitted, on 300 of PIAF's);
nothing is measured on the part ``test``. All paragraphs are ranked by BM25, and the first ones read. Each
question is asked a second time with the paragraphs of its own article left out: none of the others answers
it.

    python benchmarks/answer_defaults.py [--reader FOLDER] [--precision bfloat16]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from results_page import write

import telerank as tr
from telerank.answers.calibration import fit_threshold
from telerank.answers.combine import MU, AnswerRules, ReadText, SpanTable, choose_answers
from telerank.answers.scorer import SpanReader
from telerank.corpus.derived.articles import ArticleParts, article_name, write_parts
from telerank.evaluation.answers.measures import GoldAnswers, measure_answers
from telerank.model_names import READER
from telerank.show.tables import Table, render_markdown
from telerank.types import Query

PARTS = ArticleParts(test=0.2, dev=0.1, seed=3)  # of the experiments piaf/answers…
WEIGHTS = tuple(number / 10 for number in range(11))
MEASURES = "EM(fr) F1(fr)"
BATCH, DEEP = 50, 200  # questions read at a time; documents ranked, so that enough are of other articles


@dataclass(frozen=True)
class Asked:
    """A question, the texts that were read for it, and its answers: none if its article is left out."""

    query: Query
    texts: Sequence[ReadText]
    answers: tuple[str, ...]

    def worth(self, text: str) -> np.ndarray:
        """EM(fr) and F1(fr) of an answer; the text of no answer is empty."""
        gold = GoldAnswers({"q": self.query.text}, {"q": self.answers})
        return np.array(list(measure_answers(gold, {"q": text}, MEASURES).mean.values()))


def best_text(texts: Sequence[ReadText], table: SpanTable) -> float:
    number, span = table.spans[table.order[0]]
    return texts[number].reading.null - span.score


RULES: dict[str, Callable[[Sequence[ReadText], SpanTable], float]] = {
    "all texts together": lambda _, table: table.null - float(table.scores.max()),
    "the text of the best answer": best_text,
    "the first text": lambda _, table: table.no_answer,
}
"""The score of no answer, minus that of a span, by which an answer is withheld."""


def ask(reader: SpanReader, folder: Path, count: int, most: int | None) -> Iterator[tuple[Asked, Asked]]:
    """Each question of dev with the first ``count`` paragraphs, and with those of other articles."""
    sources = [tr.collection(Path(os.environ["TELERANK_DATA"], name)) for name in ("piaf", "fquad")]
    write_parts(sources, PARTS, folder / "parts")
    data = tr.collection(folder / "parts")
    docs = {doc.docno: doc for doc in data.docs()}
    articles = {docno: article_name(doc, data.name) for docno, doc in docs.items()}
    gold = GoldAnswers.of(data.queries["dev"](), data.answers["dev"]())
    queries = [query for query in data.queries["dev"]() if gold.answers[query.qid]][:most]
    ranked = tr.index(data, folder / "index", analyzer="french").bm25() % DEEP
    for first in range(0, len(queries), BATCH):
        part = queries[first : first + BATCH]
        lists = []
        for query, ranking in zip(part, ranked.run(part), strict=True):
            own = {articles[docno] for docno in gold.paragraphs[query.qid]}
            rows = list(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            lists.append((rows[:count], [row for row in rows if articles[row[0]] not in own][:count]))
        pairs = dict.fromkeys(
            (query, docno)
            for query, both in zip(part, lists, strict=True)
            for rows in both
            for docno, _ in rows
        )
        readings = reader.read([(query.text, docs[docno].text) for query, docno in pairs])
        read = dict(zip(pairs, readings, strict=True))
        for query, both in zip(part, lists, strict=True):
            with_it, without = (
                [ReadText(docno, docs[docno].text, read[query, docno], score) for docno, score in rows]
                for rows in both
            )
            yield Asked(query, with_it, gold.answers[query.qid]), Asked(query, without, ())


def best(asked: Asked, rules: AnswerRules, mu: float) -> str:
    """The best answer, whatever the threshold."""
    always = AnswerRules(None, rules.temperature, rules.language, mu)
    return choose_answers(asked.query, asked.texts, always).text


def weights_table(answerable: Sequence[Asked], rules: AnswerRules, count: int) -> Table:
    rows = []
    for mu in WEIGHTS:
        means = np.mean([asked.worth(best(asked, rules, mu)) for asked in answerable], axis=0)
        rows.append([f"{mu:g}", *(f"{100 * value:.1f}" for value in means)])
    notes = [f"{len(answerable):,} questions, each with BM25's first {count} paragraphs; in percent."]
    return Table.of(("mu", *MEASURES.split()), rows, caption="The reader's weight, on dev", notes=notes)


def rules_table(pairs: Sequence[tuple[Asked, Asked]], rules: AnswerRules, mu: float) -> Table:
    """For each rule: at the reader's threshold, and at one that the other half of the questions fits."""
    asked = [one for pair in pairs for one in pair]
    tables = [SpanTable.of(one.texts, mu) for one in asked]
    has = np.array([bool(one.answers) for one in asked])
    value = np.array([one.worth(best(one, rules, mu))[1] for one in asked])
    silent = (~has).astype(float)
    half = np.arange(len(asked)) // 2 % 2
    rows = []
    for name, margin in RULES.items():
        margins = np.array(
            [
                margin(one.texts, table) if table.spans else np.inf
                for one, table in zip(asked, tables, strict=True)
            ]
        )
        fitted = np.array(
            [fit_threshold(margins[half != h], value[half != h], silent[half != h]).threshold for h in (0, 1)]
        )
        thresholds = {"the reader's": np.full(len(asked), rules.threshold), "fitted": fitted[half]}
        for whose, threshold in thresholds.items():
            declined = margins > threshold
            mean = np.where(declined, silent, value)
            cells = (declined[has], declined[~has], mean[has], mean)
            rows.append([name, whose, *(f"{100 * float(cell.mean()):.1f}" for cell in cells)])
    columns = ("decides", "threshold", "declined, answer", "declined, none", "F1(fr), answer", "F1(fr), all")
    note = (
        f"In percent, at mu {mu:g}; answer: the {len(pairs):,} questions with all paragraphs, none: the same "
        "questions without those of their own article. fitted: on the other half of the questions."
    )
    return Table.of(columns, rows, caption="No answer over several texts, on dev", notes=[note], left=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reader", default=READER, help="the folder of a reader with a threshold")
    parser.add_argument("--documents", type=int, default=5, help="paragraphs that are read")
    parser.add_argument("--questions", type=int, help="the first questions alone")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/results/answers.md")
    args = parser.parse_args()
    reader = SpanReader(args.reader, precision=args.precision)
    with tempfile.TemporaryDirectory() as folder:
        pairs = list(ask(reader, Path(folder), args.documents, args.questions))
    report(pairs, reader.rules(), args.documents, to_page=args.write)


def report(pairs: Sequence[tuple[Asked, Asked]], rules: AnswerRules, count: int, *, to_page: bool) -> None:
    """Print the tables, and write them into the page of results."""
    tables = [weights_table([asked for asked, _ in pairs], rules, count), rules_table(pairs, rules, MU)]
    text = "\n\n".join(render_markdown(table).strip() for table in tables)
    print(text)
    if to_page:
        write("answers", "answer_defaults", text)


if __name__ == "__main__":
    main()
