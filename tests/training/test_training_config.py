"""A training is a file, and what it does not say is the paper's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from pydantic import BaseModel

import telerank
from telerank.errors import FormatError
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.settings import read_settings, write_settings

TRAININGS = Path(telerank.__file__).parent / "experiments" / "trainings" / "repbert"
ROOT = Path(__file__).parents[2]


def config(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    return read_settings(tmp_path / "config.yaml", BiEncoderTraining)


def test_the_defaults_are_those_of_section_4_3_1(tmp_path):
    wanted = config(tmp_path, "data: {collection: msmarco}")
    model, how = wanted.model, wanted.optimisation
    assert (model.start, model.query_length, model.document_length) == ("bert-base-uncased", 20, 256)
    assert (model.pooling, model.similarity, model.towers, model.dropout) == (
        "mean",
        "inner_product",
        "shared",
        0.1,
    )
    assert (model.query_segment, model.document_segment) == (
        0,
        None,
    )  # 1, unless prompts tell the sides apart
    assert (how.batch, how.accumulation, how.steps) == (26, 2, 350_000)
    assert how.batch * how.accumulation * how.steps == 18_200_000  # pairs, as the paper counts them
    assert (how.learning_rate, how.betas, how.weight_decay, how.warm_up) == (3e-6, (0.9, 0.999), 0.01, 10_000)
    assert (wanted.loss.objective, wanted.loss.margin, how.max_gradient_norm) == ("margin", 1.0, 1.0)
    triples = config(tmp_path, "data: {collection: msmarco, triples: {file: triples.tsv}}")
    assert how.batch // triples.data.group_size == 13  # queries, each with its own negative of BM25


def test_a_batch_has_whole_groups(tmp_path):
    negatives = "data: {collection: c, negatives: {pool: '100', per_positive: 12}}"
    assert config(tmp_path, negatives).data.group_size == 13
    with pytest.raises(FormatError, match=r"batch \(32\) must be a multiple of 13: each query has 13 pairs"):
        config(tmp_path, f"{negatives}\noptimisation: {{batch: 32}}")
    with pytest.raises(FormatError, match=r"optimisation.batch \(27\) must be a multiple of 2"):
        config(tmp_path, "data: {collection: c, triples: {file: t}}\noptimisation: {batch: 27}")


def test_what_is_written_is_read_back(tmp_path):
    wanted = config(tmp_path, "data: {collection: c, negatives: {run: r}}\ndev: {split: d}\nseed: 4")
    write_settings(wanted, tmp_path / "again.yaml")
    assert read_settings(tmp_path / "again.yaml", BiEncoderTraining) == wanted


def test_of_steps_and_epochs_the_one_that_counts_is_written(tmp_path):
    wanted = config(tmp_path, "data: {collection: c}\noptimisation: {epochs: 2}")
    write_settings(wanted, tmp_path / "again.yaml")
    assert "steps: null\n  epochs: 2.0\n" in (tmp_path / "again.yaml").read_text()
    assert read_settings(tmp_path / "again.yaml", BiEncoderTraining) == wanted
    write_settings(config(tmp_path, "data: {collection: c}"), tmp_path / "again.yaml")
    assert "steps: 350000\n  epochs: null\n" in (tmp_path / "again.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("data: {collection: c}\nlearning_rate: 1", "known keys, not 'learning_rate'"),
        ("data: {collection: c}\noptimisation: {lr: 1}", "known keys, not 'optimisation.lr'"),
        (
            "data: {collection: c}\noptimisation: {warmup: 5}",
            r"not 'optimisation\.warmup'; did you mean 'warm_up'\?",
        ),
        ("data: {collection: c}\nxyz: 5", "not 'xyz'$"),
        ("data: {collection: c}\noptimisation: {learning_rate: .inf}", "learning_rate: .* finite number"),
        ("data: {collection: c}\nseed: 100000000000000000000", "seed: Input should be less than"),
        ("data: {}", "data.collection: Field required"),
        (
            "optimisation: {batch: 0, steps: 0}\ndata: {collection: c}",
            r"optimisation.steps: .* \(and 1 more\)",
        ),
        (
            "data: {collection: c}\noptimisation: {steps: 100}",
            r"warm_up \(10000\) must be less than steps \(100\)",
        ),
        (
            "data: {collection: c}\noptimisation: {steps: 9, epochs: 2}",
            "optimisation: .*steps or epochs, got both",
        ),
        ("data: {collection: c}\ndev: {split: d, measure: APP}", "dev.measure: there is no measure 'APP'"),
        (
            "data: {collection: c}\ndev: {split: d, measure: AP RR}",
            "dev.measure: expected one .*, got AP, RR",
        ),
        (
            "data: {collection: c}\ndev: {split: d, patience: 9}",
            r"patience \(9\) must not be less .*\(10000\)",
        ),
        (
            "data: {collection: c, negatives: {run: r, per_query: 1}}",
            r"known keys, not 'data\.negatives\.per_query'",
        ),
        (
            "data: {collection: c, negatives: {run: r, pool: p}}",
            "data.negatives: expected one of run, pool, random, judged, got run and pool",
        ),
        (
            "data: {collection: c, negatives: {run: r}, triples: {file: t}}",
            "data: expected triples or negatives, got both",
        ),
        ("data: {collection: c}\nmodel: {pooling: max}", "model.pooling: Input should be 'mean' or 'cls'"),
        ("- a", "expected a mapping"),
        ("data: {collection: c", r"config.yaml:\d: expected YAML"),
    ],
)
def test_what_cannot_be_is_named_in_one_line(tmp_path, text, says):
    with pytest.raises(FormatError, match=says) as caught:
        config(tmp_path, text)
    assert "\n" not in str(caught.value)


def parts(model, before=""):
    for name, field in model.model_fields.items():
        yield before + name, field
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from parts(kind, f"{before}{name}.")


SECTIONS = {"data", "model", "loss", "optimisation"}


def test_every_setting_is_explained_and_few_have_no_default():
    settings = dict(parts(BiEncoderTraining))
    assert len(settings) > 40
    assert [name for name, field in settings.items() if not field.description and name not in SECTIONS] == []
    needed = {name for name, field in settings.items() if field.is_required()}
    assert needed == {"data", "data.collection", "data.triples.file", "dev.split"}


@pytest.mark.parametrize("path", sorted(TRAININGS.glob("insuranceqa*.yaml")), ids=lambda path: path.stem)
def test_every_packaged_training_is_read(path):
    assert read_settings(path, BiEncoderTraining).data.collection == "insuranceqa-v2"


@pytest.mark.parametrize("name", ["insuranceqa.yaml", "insuranceqa-tiny.yaml"])
def test_packaged_trainings_of_the_paper_have_its_loss(name):
    wanted = read_settings(TRAININGS / name, BiEncoderTraining)
    assert (wanted.loss.objective, wanted.model.similarity) == ("margin", "inner_product")
    assert wanted.model.query_segment == 0
    assert wanted.model.document_segment in (None, 1)


def test_the_configuration_in_the_document_is_one(tmp_path):
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    block = re.search(r"```text\n(data:.*?)```", text, re.DOTALL)
    wanted = config(tmp_path, block[1])
    assert (wanted.optimisation.epochs, wanted.dev.every) == (1.0, 100)
    named = re.findall(r"`(?:optimisation|model|loss|data)\.(\w+)", text)
    known = {name.split(".")[-1] for name, _ in parts(BiEncoderTraining)}
    assert set(named) <= known
