"""An encoder made better by ``telerank train fine-tune``, beside sentence-transformers at the same updates.

``python benchmarks/fine_tuning.py [--only piaf] [--epochs 0.2] [--documents 4000] [--keep FOLDER] [--write]``

Of each collection (in TELERANK_DATA) the start, telerank's model and that of sentence-transformers rank all
documents for the test queries. telerank learns by its defaults, for a part of an epoch; its dev queries may
end it earlier, or keep the start. Sentence-transformers has its model and its MultipleNegativesRankingLoss
(scale 20) with telerank's learning rate, schedule and batch, the same queries and, ``with its negatives``,
the same hard negatives; its last weights are measured. With ``--documents`` a part of a collection is
searched, and as many of its queries are learned from as ``--learn`` says. PIAF's questions are parted by
article.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from results_page import write
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import get_linear_schedule_with_warmup

import telerank as tr
from telerank.corpus.derived.articles import ArticleParts, article_name
from telerank.corpus.derived.questions import shuffle
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import Evaluation, measure
from telerank.models.loading import locate
from telerank.show.tables import Table, render_markdown
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.log import read_log
from telerank.training.settings import read_settings
from telerank.training.trained import CONFIG, LOG
from telerank.trec import read_run

MEASURES = ["RR@10", "nDCG@10"]
Judged: TypeAlias = dict[str, list[tuple[str, str, int]]]  # queries, documents and grades by split
PARTS = ArticleParts(test=0.2, dev=0.1, seed=3)


@dataclass(frozen=True)
class Row:
    """A collection, the encoder that is made better, the split that measures, and a model's prompts."""

    collection: str
    start: str
    test: str
    dev: str | None = None
    analyzer: str = "english"
    prompts: tuple[str, str] = ("", "")


ROWS = (
    Row("msmarco-slice", "minilm", "dev.small"),
    Row("insuranceqa-v2", "minilm", "test", "valid"),
    Row("piaf", "e5-small", "test", "dev", "french", ("query: ", "passage: ")),
)


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=[row.collection for row in ROWS])
    parser.add_argument("--epochs", type=float, default=0.2, help="passes over the queries to learn from")
    parser.add_argument("--queries", type=int, default=300, help="most test queries")
    parser.add_argument("--documents", type=int, help="search in so many of a collection; default: all")
    parser.add_argument("--learn", type=int, default=1500, help="queries to learn from, with --documents")
    parser.add_argument("--keep", type=Path, help="where models stay, and are taken from by later runs")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/repbert.md")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        for row in ROWS:
            if options.only in (None, row.collection):
                lines += compare(row, (options.keep or Path(scratch)) / row.collection, options)
    tests = ["p, against the start", "p, against telerank"]
    heads = ["collection", "system", "updates", *MEASURES, *tests, "minutes"]
    text = render_markdown(Table.of(heads, lines))
    print(text)
    if options.write:
        write("repbert", "benchmarks/fine_tuning", text)


def compare(row: Row, folder: Path, options: argparse.Namespace) -> Iterator[list[str]]:
    """The rows of a collection."""
    source: str | Path = row.collection
    if row.collection == "piaf":
        source = write_parts(folder / "parts")
    if options.documents is not None:
        source = write_sample(source, row, folder / "sample", options)
    data = tr.collection(source)
    judged = data.judged(row.test)
    kept = set(shuffle(judged, str, seed=0)[: options.queries])
    queries = [query for query in data.split_queries(row.test) if query.qid in kept]
    qrels = {qid: grades for qid, grades in judged.items() if qid in kept}
    systems = train(row, data, str(source), folder, options.epochs)
    index = tr.index(data, folder / "index", analyzer=row.analyzer, overwrite=True)
    values = {}
    for number, (name, (model, _, _)) in enumerate(systems.items()):
        index.encode(model, name=f"vectors-{number}")
        values[name] = measure((index.dense(f"vectors-{number}") % 100).run(queries), qrels, MEASURES)
    yield from list_rows(row, systems, values)


def train(
    row: Row, data: tr.Collection, source: str, folder: Path, epochs: float
) -> dict[str, tuple[str, int, float]]:
    """The models: their folders, updates and seconds; those that are in the folder are not trained again."""
    ours, record = folder / "ours", folder / "systems.json"
    systems = json.loads(record.read_text()) if record.is_file() else {}

    def keep(name: str, model: str, updates: int, begun: float) -> None:
        systems[name] = (model, updates, time.perf_counter() - begun)
        record.write_text(json.dumps(systems))

    systems[f"{row.start}, as it is"] = (row.start, 0, 0.0)
    if "telerank train fine-tune" not in systems:
        begun = time.perf_counter()
        tuned = tr.fine_tune(source, row.start, ours, resume=True, epochs=epochs)
        keep("telerank train fine-tune", str(tuned.model), tuned.step, begun)
    updates = max(line.step for line in read_log(ours / LOG))
    for name, with_negatives in (("in-batch negatives", False), ("the same hard negatives", True)):
        if f"sentence-transformers, {name}" not in systems:
            begun, target = time.perf_counter(), str(folder / name.replace(" ", "-"))
            train_theirs(row, data, ours, updates, with_negatives).save(target)
            keep(f"sentence-transformers, {name}", target, updates, begun)
    return systems


def list_rows(
    row: Row, systems: Mapping[str, tuple[str, int, float]], values: Mapping[str, Evaluation]
) -> Iterator[list[str]]:
    """A row a system, with its tests against the start, and of sentence-transformers' against telerank's."""
    start, ours, *_ = systems
    against = compare_evaluations(values, [start, ours], measures=MEASURES)
    p = {(each.baseline, each.system, each.measure): each.p_holm for each in against.differences}
    for system, (_, updates, seconds) in systems.items():
        means = (f"{values[system].mean[name]:.3f}" for name in MEASURES)
        against_ours = None if system == start else ours
        tests = (p.get((baseline, system, "RR@10")) for baseline in (start, against_ours))
        shown = ("–" if value is None else f"{value:.4f}" for value in tests)
        yield [row.collection, system, f"{updates}", *means, *shown, f"{seconds / 60:.1f}"]


def write_parts(folder: Path) -> Path:
    """PIAF as a collection whose questions are parted by article, in BEIR's files."""
    data = tr.collection("piaf")
    names = {doc.docno: article_name(doc, data.name) for doc in data.docs()}
    lines: Judged = {part: [] for part in ("train", "dev", "test")}
    for qrel in data.split_qrels("all"):
        lines[PARTS.part_of(names[qrel.docno])].append((qrel.qid, qrel.docno, qrel.grade))
    return write_folder(folder, data.docs(), data.split_queries("all"), lines)


def write_sample(source: str | Path, row: Row, folder: Path, options: argparse.Namespace) -> Path:
    """So many documents of a collection: the relevant ones of the queries kept, and others by chance.

    ``--learn`` of the queries to learn from are kept, a tenth as many of dev if there is one, and
    ``--queries`` that measure.
    """
    data = tr.collection(source)
    splits = {"train": "train", row.test: row.test} | ({} if row.dev is None else {"dev": row.dev})
    sizes = {"train": options.learn, "dev": options.learn // 10, row.test: options.queries}
    lines: Judged = {}
    queries: list[tr.Query] = []
    for name, split in splits.items():
        kept = set(shuffle(data.judged(split), str, seed=0)[: sizes[name]])
        queries += [query for query in data.split_queries(split) if query.qid in kept]
        lines[name] = [
            (line.qid, line.docno, line.grade) for line in data.split_qrels(split) if line.qid in kept
        ]
    needed = {docno for part in lines.values() for _, docno, _ in part}
    others = shuffle((doc.docno for doc in data.docs() if doc.docno not in needed), str, seed=0)
    needed.update(others[: max(options.documents - len(needed), 0)])
    return write_folder(folder, (doc for doc in data.docs() if doc.docno in needed), queries, lines)


def write_folder(folder: Path, docs: Iterable[tr.Doc], queries: Iterable[tr.Query], judged: Judged) -> Path:
    """A collection in BEIR's files."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    records = ({"_id": doc.docno, "title": doc.title, "text": doc.text} for doc in docs)
    asked = ({"_id": query.qid, "text": query.text} for query in queries)
    for name, lines in (("corpus", records), ("queries", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    for part, rows in judged.items():
        text = "".join(f"{qid}\t{docno}\t{grade}\n" for qid, docno, grade in rows)
        head = "query-id\tcorpus-id\tscore\n"
        (folder / "qrels" / f"{part}.tsv").write_text(head + text, encoding="utf-8")
    return folder


def train_theirs(row: Row, data: tr.Collection, ours: Path, updates: int, hard: bool) -> SentenceTransformer:
    """A model of sentence-transformers after as many updates, with telerank's batches and rates."""
    config = read_settings(ours / CONFIG, BiEncoderTraining)
    size = config.optimisation.batch // (1 + config.data.negatives.per_positive)
    model = SentenceTransformer(str(locate(row.start)), device="cpu")
    model.max_seq_length = config.model.document_length
    loss = MultipleNegativesRankingLoss(model, scale=20)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.optimisation.learning_rate)
    schedule = get_linear_schedule_with_warmup(optimiser, math.ceil(0.1 * updates), updates)
    examples = list_examples(row, data, config)
    model.train()
    for update in range(updates):
        batch = [examples[(update * size + place) % len(examples)] for place in range(size)]
        columns = list(zip(*batch, strict=True))[: 3 if hard else 2]
        loss([model.preprocess(list(texts)) for texts in columns], torch.empty(0)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    return model.eval()


def list_examples(row: Row, data: tr.Collection, config: BiEncoderTraining) -> list[tuple[str, str, str]]:
    """A query, a relevant document and one of telerank's negatives, for each pair to learn from."""
    draw = random.Random(0)
    negatives = {ranking.query.qid: ranking.docnos for ranking in read_run(config.data.negatives.run)}
    relevant = data.relevant([config.data.split])
    texts = {doc.docno: row.prompts[1] + doc.full_text for doc in data.docs()}
    examples = [
        (row.prompts[0] + query.text, texts[docno], texts[draw.choice(negatives[query.qid])])
        for query in data.split_queries(config.data.split)
        if negatives.get(query.qid)
        for docno in relevant[query.qid]
    ]
    draw.shuffle(examples)
    return examples


if __name__ == "__main__":
    main()
