"""The trainings of the packaged experiments: settings as the papers have them."""

from __future__ import annotations

import pytest
import yaml

from papers import read_paper, training
from telerank.experiments.packaged import TRAININGS, packaged_names
from telerank.experiments.schema import merge
from telerank.model_names import READER
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.mlm.config import MaskedTraining
from telerank.training.reader.config import ReaderTraining
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan

FROZEN = {
    "model": {"frozen": True, "head": {"hidden": [1024, 1024, 1024], "dropout": 0.3}},
    "optimisation": {
        "optimiser": "adam",
        "learning_rate": 5e-4,
        "schedule": "constant",
        "warm_up": 0,
        "max_gradient_norm": None,
    },
    "dev": {
        "measures": "loss",
        "every": "1 epochs",
        "patience": "10 epochs",
        "split": "dev",
        "pool": "negatives",
    },
    "data": {"negatives": {"per_positive": 10}},
}
NO_MARGIN = {"objective": "margin", "margin": 0.0, "of": "probability"}
UNCUT = {
    "model": {"max_query": None, "max_length": 512},
    "optimisation": {"batch": 12},
    "data": {"negatives": {"per_group": 1}},  # 24 inputs
}
SETTINGS = {
    ("repbert/table1", "msmarco", "RepBERT"): {
        "data": {"triples": {"file": "qidpidtriples.train.full.2.tsv.gz"}},
        "optimisation": {
            "batch": 26,
            "accumulation": 2,
            "steps": 350_000,  # 18.2 million triples
            "learning_rate": 3e-6,
            "betas": (0.9, 0.999),
            "warm_up": 10_000,
        },
        "model": {"query_length": 20, "document_length": 256, "dropout": 0.1},
        "loss": {"objective": "margin", "margin": 1.0},
        "dev": None,
    },
    ("bert-dmn/table2", "insuranceqa-v2", "BERT-DMN"): {
        "loss": {"objective": "margin", "margin": 0.2, "of": "probability"},
        "optimisation": {"optimiser": "adamw", "learning_rate": 3e-5, "batch": 32, "warm_up": 1000},
        "model": {
            "head": {"hidden": 256, "episodes": 4, "dropout": 0.1},
            "start": "bert-base-uncased",
            "max_length": 512,
            "max_query": 256,  # inputs alone are cut
        },
    },
    ("bert-dmn/table2", "insuranceqa-v2", "DMN"): {
        "model": {"head": {"hidden": 256, "episodes": 4, "dropout": 0.1}}
    },
    ("bert-dmn/table2", "insuranceqa-v2", "K-NRM"): {
        "optimisation": {"optimiser": "adam", "learning_rate": 1e-3, "eps": 1e-5, "batch": 16}
    },
    ("bert-dmn/table2", "insuranceqa-v2", "QA-LSTM"): {
        "model": {"head": {"hidden": 256, "dropout": 0.5}},
        "optimisation": {"optimiser": "adamw", "learning_rate": 3e-5, "batch": 32},
        "loss": {"of": "logit"},
    },
    ("bert-dmn/table2", "antique", "BERT-DMN"): {
        "data": {"negatives": {"judged": True, "pool": None}},
        "dev": {"split": "train", "queries": 20},  # of 2,426, so that 2,406 are left
    },
    ("monobert/table1", "trec-car", "monoBERT"): {
        "data": {
            "split": "+".join(f"train.fold{fold}" for fold in range(4)),
            "listed": {"depth": 10},
            "negatives": None,
            "triples": None,
        },
        "dev": {"split": "train.fold4", "patience": 400_000},
        "optimisation": {"steps": 400_000, "batch": 32},  # 12.8 million pairs
        "model": {"start": "bert-large-half-wikipedia"},
    },
    ("piaf/table5", "piaf-fquad", "MonoBERT classifier"): {
        **FROZEN,
        "loss": {"objective": "pointwise", "class_weights": True},
    },
    ("piaf/table5", "piaf-fquad", "MonoBERT ranker"): {**FROZEN, "loss": NO_MARGIN},
    ("piaf/table5", "piaf-fquad", "MonoBERT ranker, fine-tuned"): {
        **UNCUT,
        "loss": NO_MARGIN,
        "optimisation": {"batch": 12, "epochs": 3, "learning_rate": 1e-5},
        "model": {"max_query": None, "max_length": 512, "head": {"dropout": 0.3}, "frozen": False},
    },
}


@pytest.mark.parametrize(("training_of", "expected"), SETTINGS.items())
def test_models_are_trained_as_the_papers_say(training_of, expected):
    name, data, model = training_of
    record = training(read_paper(name).on(data), model).model_dump()
    assert select(record, expected) == expected


def select(record, names):
    """The settings that have these names."""
    if not isinstance(record, dict) or not isinstance(names, dict):
        return record
    return {name: select(record[name], inner) for name, inner in names.items()}


def test_monobert_has_the_defaults_of_its_kind_and_its_base_another_start():
    experiment = read_paper("monobert/table1").on("msmarco")
    large, base = (training(experiment, name) for name in ("monoBERT", "monoBERT-base"))
    assert (large.model.start, base.model.start) == ("bert-large-uncased", "bert-base-uncased")
    assert large.model_copy(update={"model": base.model}) == base
    triples = {"file": "qidpidtriples.train.full.2.tsv.gz"}
    assert large == RerankerTraining.model_validate(
        {"data": {"collection": "the data", "triples": triples}, "model": {"kind": "monobert"}}
    )
    assert (large.optimisation.steps * large.optimisation.batch * 2, large.dev) == (12_800_000, None)


def test_the_rankers_of_the_report_have_a_margin_in_a_second_model_and_one_layer_if_fine_tuned():
    experiment = read_paper("piaf/table5")
    for name in ("MonoBERT ranker", "MonoBERT ranker, fine-tuned"):
        loss = training(experiment, f"{name}, margin").loss
        assert (loss.objective, loss.margin > 0) == ("margin", True)
    assert len(training(experiment, "MonoBERT ranker, fine-tuned").model.head["hidden"]) == 1


def test_the_size_curve_counts_pairs_and_has_the_two_points_of_the_text():
    experiment = read_paper("monobert/figure1")
    (analysis,) = experiment.analyses
    assert (analysis.kind, analysis.pairs[2], analysis.pairs[-1]) == ("sizes", 100_000, 12_800_000)
    irnet = read_paper("monobert/table1").published["msmarco"]["IRNet"]["RR@10"]
    assert experiment.published["msmarco"]["BERT large"] == {
        "100000": round(irnet + 0.014, 3),
        "12800000": 0.365,
    }
    changed = merge(experiment.on("msmarco").trained["monoBERT"].settings, analysis.changes)
    settings = merge(changed, {"data": {"collection": "x", "pairs": 12_800_000}})
    optimisation = RerankerTraining.model_validate(settings).optimisation
    updates = 12_800_000 // (2 * optimisation.batch)
    assert (updates, updates * optimisation.warm_up) == (400_000, 10_000)
    small = read_paper("monobert/figure1", small=True)
    assert small.analyses[0].pairs[-1] == small.trained["monoBERT"].settings["data"]["pairs"]


def read_training(name: str) -> dict:
    return yaml.safe_load((TRAININGS / f"{name}.yaml").read_text(encoding="utf-8"))


def test_packaged_trainings_are_settings():
    reader = ReaderTraining.model_validate(read_training("piaf/answers"))
    assert (reader.model.language, reader.dev.measures, reader.model.start) == ("fr", "F1(fr)", "e5-small")
    assert [source.collection for source in reader.data.sets] == ["piaf"]  # which is installed
    authors = RerankerTraining.model_validate(read_training("bert-dmn/authors"))
    assert (authors.model.head["gate"], authors.optimisation.schedule) == ("authors", "constant")
    assert (authors.dev.measures, authors.dev.every, authors.dev.patience) == ("AP", "1 epochs", "3 epochs")
    deep = TrainingPlan.model_validate(read_training("best/trec-dl-2019"))
    assert (deep.loss.objective, deep.loss.margin, deep.loss.of) == ("margin", 1.0, "logit")
    assert (deep.data.negatives.only, deep.data.negatives.per_positive) == ("unjudged", 1)
    assert (deep.data.segments.leading, deep.data.segments.iterations, deep.dev.measures) == (4, 4, "RR")
    robust = TrainingPlan.model_validate(read_training("best/robust04"))
    assert (len(robust.variants), len({variant.repetition for variant in robust.variants})) == (25, 5)
    assert (robust.loss.objective, robust.data.negatives.per_positive) == ("pointwise", 10)
    shipped = ReaderTraining.model_validate(read_training("e5/reader"))
    assert shipped.model.frozen_embeddings
    assert {own.part for own in shipped.data.sets} == {"train"}
    ranker = RerankerTraining.model_validate(read_training("e5/reranker"))
    assert (ranker.model.start, ranker.model.frozen_embeddings) == (READER, True)
    assert (ranker.data.made_of.split_by, ranker.data.made_of.seed) == ("article", shipped.articles.seed)
    assert set(ranker.data.made_of.sets) <= {own.collection for own in shipped.data.sets}
    sheets = MaskedTraining.model_validate(read_training("piaf/mlm-sheets"))
    experiment = read_paper("piaf/mlm").models["sheets"].settings
    assert sheets.optimisation == MaskedTraining.model_validate(experiment | {"model": {}}).optimisation
    half = MaskedTraining.model_validate(read_training("monobert/wikipedia-half"))
    assert (half.model.fresh, half.masks.share, half.optimisation.learning_rate) == (True, 0.15, 1e-4)
    triples = {"file": "msmarco/qidpidtriples.train.full.2.tsv.gz"}
    record = {"data": {"collection": "msmarco", "triples": triples}, "model": {"document_segment": 1}}
    names = [name for name in packaged_names(TRAININGS) if name.startswith("repbert/")]
    repbert = {name: BiEncoderTraining.model_validate(read_training(name)) for name in names}
    assert repbert["repbert/msmarco"] == BiEncoderTraining.model_validate(record)


def test_the_grid_has_the_108_heads_of_the_report():
    (analysis,) = read_paper("piaf/grid").analyses
    plan = TrainingPlan.model_validate(read_training("piaf/grid"))
    assert {name: list(values) for name, values in analysis.settings.items()} == {
        name: list(values) for name, values in plan.grid.items()
    }
    assert len(plan.combinations) == 108
    assert (plan.dev.measures, plan.dev.patience, plan.model.max_query) == ("loss", "10 epochs", None)
    (small,) = read_paper("piaf/grid", small=True).analyses
    assert all(
        {*map(str, values)} <= {*map(str, analysis.settings[name])} for name, values in small.settings.items()
    )


@pytest.mark.parametrize(
    ("packaged", "paper", "data", "model"),
    [
        ("monobert/msmarco", "monobert/table1", "msmarco", "monoBERT"),
        ("bert-dmn/insuranceqa", "bert-dmn/table2", "insuranceqa-v2", "BERT-DMN"),
        ("piaf/ranker", "piaf/table5", "squadfr-fquad-piaf", "MonoBERT ranker, fine-tuned"),
    ],
)
def test_the_trainings_of_papers_are_those_of_their_experiments(packaged, paper, data, model):
    """But for the first of several encoders, lists, which are pipelines there, and the test."""
    record = read_training(packaged)
    expected = training(read_paper(paper).on(data), model).model_dump(mode="json")
    if isinstance(expected["model"]["start"], list):
        expected["model"]["start"] = expected["model"]["start"][0]
    expected = {**expected, "test": record.get("test")}
    assert settings_alone(record) == settings_alone(expected)


@pytest.mark.parametrize(("name", "data"), [("trec-dl-2019", "trec-dl-2019"), ("robust04", "robust04-title")])
def test_the_trainings_of_best_are_those_of_its_experiment(name, data):
    """The settings of both, but for where the lists and the test are: there a pipeline, here a file."""
    spec = read_paper("best/table1").on(data)
    settings = merge(spec.training, spec.models["BeST"].settings)
    settings["data"] = {**settings["data"], "collection": "here"}
    record = read_training(f"best/{name}")
    repeated = record.pop("repetitions", None)
    assert repeated == (len(spec.seeds) if len(spec.seeds) > 1 else None)
    assert settings_alone(record) == settings_alone({**settings, "test": record["test"]})


def settings_alone(record):
    settings = RerankerTraining.model_validate(record).model_dump(mode="json")
    settings.pop("test")
    settings["data"].pop("collection")
    for lists in filter(None, (settings["data"]["negatives"], settings["dev"])):
        lists |= {"run": None, "pool": None}
    if settings["loss"]["objective"] != "margin":
        settings["loss"].pop("of")  # nothing but a margin is of something
    return settings
