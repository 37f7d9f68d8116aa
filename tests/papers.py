"""The packaged experiments of the papers, and a folder of MS MARCO's layout, small enough to index in no time."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from telerank.experiments.packaged import FOLDER
from telerank.experiments.schema import Experiment, merge, read_experiment

WORDS = [f"{kind}{number}" for kind in "qdx" for number in range(40)]  # those that small encoders know


def small_msmarco(folder: Path, *, queries: int = 24, passages: int = 120) -> Path:
    """Passages of random words; a query has three of its one passage's words and one of another's."""
    rng = random.Random(7)
    folder.mkdir(parents=True)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(5, 25))) for _ in range(passages)]
    asked, judged = [], []
    listed: list[str] = []
    for qid in range(queries):
        right = rng.randrange(passages)
        query = " ".join([*rng.sample(texts[right].split(), 3), rng.choice(WORDS)])
        asked.append(f"{qid}\t{query}\n")
        judged.append(f"{qid}\t0\t{right}\t1\n")
        some = rng.sample(range(passages), 30)
        listed += [f"{qid}\t{place}\t{query}\t{texts[place]}\n" for place in some]
    write = {
        "collection.tsv": [f"{place}\t{text}\n" for place, text in enumerate(texts)],
        "queries.dev.small.tsv": [*asked, "999\tnobody knows\n"],
        "qrels.dev.small.tsv": judged,
        "top1000.dev.tsv": listed,
    }
    for name, lines in write.items():
        (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder


@cache
def read_paper(name: str, *, small: bool = False) -> Experiment:
    return read_experiment(FOLDER / f"{name}.yaml", small=small)


def training(experiment: Experiment, model: str):
    """The settings of a training, from the first of the models that it may start from."""
    from telerank.training.kinds import find_training_kind

    kind = experiment.trained[model].train
    settings = merge(experiment.training if kind == "reranker" else {}, experiment.trained[model].settings)
    start = settings["model"]["start"]
    settings["model"]["start"] = start if isinstance(start, str) else start[0]
    settings_class = find_training_kind(kind).settings
    return settings_class.model_validate(merge(settings, {"data": {"collection": "the data"}}))
