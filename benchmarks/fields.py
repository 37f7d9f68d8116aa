"""Fields, measured: ``python benchmarks/fields.py`` prints Markdown.

The quality of BM25, of BM25 over the title, of sums, and of BM25F, each tuned by folds, on collections with
titles, and what BM25F adds beside vectors; then what fields and positions cost in size and time, on the
first ``--passages`` of ``msdocs``, whose title is made of their first words. ``--write`` puts the tables into
``docs/results/fields.md``. The collections are in the folder that ``TELERANK_DATA`` names.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

from results_page import write

import telerank as tr
from telerank.corpus.collection import Collection
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import Evaluation
from telerank.show.tables import Table, render_markdown
from telerank.types import Doc, Qrel

MEASURE, SEED, FOLDS, DEPTH = "nDCG@10", 29, 5, 10
WEIGHTS = (0.25, 0.5, 1.0, 2.0)
SUMS = [
    f"{weight} * (bm25(k1={k1}, b={b}, field=title) % 1000) + bm25(k1={k1}, b={b}, field=text) % 1000"
    for weight in WEIGHTS
    for k1 in (0.6, 1.2, 2.0)
    for b in (0.3, 0.75)
]
SETS = {
    "scifact": "SciFact: title of the paper, abstract",
    "piaf": "PIAF: title of the article, paragraph",
    "fquad": "FQuAD: title of the article, paragraph",
    "covid-qa": "COVID-QA: first line of the paper, the rest",
    "sheets": "a CSV file of FQuAD's articles: title, introduction, text",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*SETS, "cost", "hybrid"], help="some of the parts")
    parser.add_argument(
        "--questions", type=int, default=1000, help="of a collection at most, drawn with a seed"
    )
    parser.add_argument("--passages", type=int, default=100_000, help="of msdocs")
    parser.add_argument(
        "--hybrid", nargs="*", default=["fquad"], help="collections that are encoded, too (minutes)"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/fields.md")
    options = parser.parse_args()
    chosen = options.only or [*SETS, "cost"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], Table]] = {
            each: partial(compare_models, each, folder, options.questions) for each in SETS if each in chosen
        }
        if "hybrid" in chosen:
            parts["hybrid"] = partial(compare_hybrids, options.hybrid, folder, options.questions)
        if "cost" in chosen:
            parts["cost"] = partial(measure_cost, folder, options.passages)
        for part, report in parts.items():
            text = render_markdown(report())
            print(text, flush=True)
            if options.write:
                write("fields", part, text)


def open_set(name: str, folder: Path, questions: int) -> tuple[Collection, tr.Index]:
    """A collection with at most so many questions, and an index of it with fields."""
    data = tr.collection("fquad" if name == "sheets" else name)
    fields = ["title", "text"]
    if name == "covid-qa":
        data = replace(data, docs=partial(split_titles, data.docs))
    if name == "sheets":
        data, fields = write_sheets(data, folder / "sheets.csv"), ["title", "introduction", "text"]
    split = "test" if name == "scifact" else data.splits[0]
    queries = sorted(data.split_queries(split), key=lambda query: query.qid)
    drawn = sorted(Random(SEED).sample(queries, min(questions, len(queries))), key=lambda query: query.qid)
    data = replace(data, queries={split: partial(iter, drawn)}, qrels={split: data.qrels[split]})
    language = "english" if name in ("scifact", "covid-qa") else "french"
    index = tr.index(data, folder / name, analyzer=language, fields=fields, workers=1, progress=False)
    return data, index


def split_titles(docs: Callable[[], Iterator[Doc]]) -> Iterator[Doc]:
    """The first line of each text as its title."""
    for doc in docs():
        title, _, text = doc.text.partition("\n")
        yield replace(doc, title=title.strip(), text=text.strip())


def write_sheets(data: Collection, path: Path) -> Collection:
    """The articles of FQuAD, each a row of a CSV file, with the questions about their paragraphs."""
    articles: dict[str, list[Doc]] = {}
    for doc in data.docs():
        articles.setdefault(doc.docno.partition("-")[0], []).append(doc)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("docno", "title", "introduction", "text"))
        for number, (first, *others) in articles.items():
            rows.writerow((number, first.title, first.text, "\n".join(doc.text for doc in others)))

    def qrels(split: str) -> Iterator[Qrel]:
        judged = {(qrel.qid, qrel.docno.partition("-")[0]): qrel.grade for qrel in data.qrels[split]()}
        return (Qrel(qid, docno, grade) for (qid, docno), grade in judged.items())

    judged = {split: partial(qrels, split) for split in data.qrels}
    return replace(tr.collection(path), queries=data.queries, qrels=judged)


def compare_models(name: str, folder: Path, questions: int) -> Table:
    """The held-out values of each model, each query under the setting that the other folds chose."""
    data, index = open_set(name, folder, questions)
    systems: dict[str, dict[str, list[str]]] = {
        "bm25": {"models": ["bm25"]},
        "bm25(field=title)": {"models": ["bm25(field=title)"]},
        "bm25(field=title) + bm25(field=text)": {"settings": SUMS},
        "bm25f(title, text)": {"models": ["bm25f(title=1, text=1)"]},
    }
    if name == "sheets":
        systems["bm25f(title, introduction, text)"] = {"models": ["bm25f"]}
    held_out, chosen = dict[str, Evaluation](), dict[str, str]()
    for label, tried in systems.items():
        result = tr.tune(index, data, **tried, measures=MEASURE, folds=FOLDS, seed=0, k=DEPTH, progress=False)
        held_out[label], chosen[label] = result.evaluation, result.best.pipeline
    caption = f"{SETS[name]}; {len(index):,} documents, {len(held_out['bm25'].qids):,} questions"
    return compare(caption, held_out, chosen, "the best setting of all queries")


def compare(caption: str, evaluations: dict[str, Evaluation], notes: dict[str, str], what: str) -> Table:
    """Means, and the differences from the first system with their significance."""
    baseline = next(iter(evaluations))
    differences = {row.system: row for row in compare_evaluations(evaluations, [baseline]).differences}
    rows = []
    for label, evaluation in evaluations.items():
        (mean,) = evaluation.mean.values()
        cells = [f"{mean:.4f}", "", "", ""]
        if row := differences.get(label):
            interval = f"{row.low:+.4f} to {row.high:+.4f}"
            cells = [f"{mean:.4f}", f"{row.delta:+.4f}", interval, f"{row.p_holm:.2g}"]
        rows.append([label, *cells, notes[label]])
    heads = ("system", MEASURE, f"to {baseline}", "95 %", "p (Holm)", what)
    return Table.of(heads, rows, caption=caption)


def compare_hybrids(names: list[str], folder: Path, questions: int) -> Table:
    """The tuned BM25 and BM25F of each collection with vectors, half each."""
    rows = []
    for name in names:
        data, index = open_set(name, folder, questions)
        index.encode("e5-small", progress=False)
        evaluations = dict[str, Evaluation]()
        for label, model in (("bm25", "bm25"), ("bm25f", "bm25f(title=1, text=1)")):
            tuned = tr.tune(index, data, model, measures=MEASURE, folds=FOLDS, k=DEPTH, progress=False)
            stage = f"0.5 * minmax({tuned.best.pipeline} % 100) + 0.5 * minmax(dense % 100)"
            result = tr.tune(
                index, data, settings=[stage], measures=MEASURE, folds=FOLDS, k=DEPTH, progress=False
            )
            evaluations[label] = result.evaluation
        [row] = compare_evaluations(evaluations, ["bm25"]).differences
        means = (f"{row.baseline_mean:.4f}", f"{row.mean:.4f}", f"{row.delta:+.4f}")
        rows.append([name, *means, f"{row.low:+.4f} to {row.high:+.4f}", f"{row.p_holm:.2g}"])
    heads = ("collection", "bm25 and vectors", "bm25f and vectors", "difference", "95 %", "p")
    note = "Vectors of e5-small, half and half; the sparse settings are the best of all queries, for both."
    return Table.of(heads, rows, caption=f"{MEASURE} of hybrids", notes=[note])


def title_passages(count: int) -> Iterator[Doc]:
    """Passages of msdocs whose title is their first six words."""
    for doc in islice(tr.collection("msdocs").docs(), count):
        words = doc.text.split(maxsplit=6)
        yield Doc(doc.docno, words[6] if len(words) > 6 else "", " ".join(words[:6]))


def measure_cost(folder: Path, passages: int) -> Table:
    """Sizes without texts, times of building, and of searching in turn, in one process."""
    docs = list(title_passages(passages))
    fields = ["title", "text"]
    kinds = {
        "whole texts": {},
        "with fields": {"fields": fields},
        "with positions": {"positions": True},
        "with both": {"fields": fields, "positions": True},
    }
    rows, plain = [], 0.0
    tr.index(
        docs[:1000], folder / "warm", analyzer="english", workers=1, progress=False, **kinds["with both"]
    )
    for label, options in kinds.items():
        begun = time.process_time()
        index = tr.index(docs, folder / label, analyzer="english", workers=1, progress=False, **options)
        taken = time.process_time() - begun
        size = int(str(index.info()["bytes of the rest"]))
        plain = plain or size
        speed = f"{len(docs) / taken:,.0f} documents a second"
        rows.append([label, f"{size / 1e6:.1f} MB, {size / plain:.2f}", speed])
    index = tr.open(folder / "with fields")
    draw = Random(SEED)
    words = (draw.choice(docs).text.split() for _ in range(400))
    queries = [" ".join(draw.sample(own, min(len(own), draw.randint(2, 5)))) for own in words if own]
    stages = {
        "bm25": index.bm25(),
        "bm25(field=title)": index.bm25(field="title"),
        "bm25(field=text)": index.bm25(field="text"),
        "bm25f": index.bm25f({"title": 3, "text": 1}),
    }
    for k in (10, 1000):
        times = search_times({label: stage % k for label, stage in stages.items()}, queries)
        for label, (first, later) in times.items():
            begun, after = (
                f"{own / base:.2f}" for own, base in zip(times[label], times["bm25"], strict=True)
            )
            cells = f"{later * 1e3:.2f} ms, {after}", f"{first * 1e3:.2f} ms, {begun}"
            rows.append([f"{label} % {k}", *cells])
    heads = (
        "index; search",
        "size without texts; a query, and the ratio",
        "built; a query of the first pass",
    )
    note = f"{len(queries)} queries; the mean processor time of a query, in the median of seven passes."
    return Table.of(heads, rows, caption=f"{passages:,} passages of msdocs", notes=[note])


def search_times(stages: dict[str, tr.Stage], queries: list[str]) -> dict[str, tuple[float, float]]:
    """Seconds for a query in the first pass, which computes contributions, and later; the stages in turn."""
    passes: dict[str, list[float]] = {label: [] for label in stages}
    for stage in stages.values():
        stage.search("warm up")
    for _ in range(8):
        for label, stage in stages.items():
            begun = time.process_time()
            for query in queries:
                stage.search(query)
            passes[label].append((time.process_time() - begun) / len(queries))
    return {label: (first, statistics.median(later)) for label, (first, *later) in passes.items()}


if __name__ == "__main__":
    main()
