"""A training of a re-ranker is a file, and what it does not say is its paper's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")

from pydantic import BaseModel

import telerank
from telerank.errors import FormatError
from telerank.models.rerankers.kinds import KINDS
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan
from telerank.training.settings import read_settings, write_settings

TRAININGS = Path(telerank.__file__).parent / "experiments" / "trainings"
DATA = "data: {collection: c, negatives: {run: r}}\n"


def config(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    return read_settings(tmp_path / "config.yaml", RerankerTraining)


def test_monobert_is_that_of_its_paper(tmp_path):
    wanted = config(tmp_path, DATA)
    model, how, negatives = wanted.model, wanted.optimisation, wanted.data.negatives
    assert (model.kind, model.start, model.frozen) == ("monobert", "bert-large-uncased", False)
    assert (model.max_query, model.max_length, model.dropout) == (64, 512, 0.1)
    assert (negatives.depth, negatives.per_positive) == (1000, 1)
    assert (how.steps, how.epochs, how.learning_rate, how.warm_up) == (400_000, None, 3e-6, 10_000)
    assert how.batch * (1 + negatives.per_positive) * how.steps == 12_800_000  # pairs, as the paper counts
    assert (how.betas, how.weight_decay, how.schedule) == ((0.9, 0.999), 0.01, "linear")
    assert wanted.loss.objective == "pointwise"


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_clipped_where_the_authors_program_does(tmp_path, kind):
    """BERT's own optimiser, which monoBERT is trained with, clips at 1; the texts are silent."""
    model = f"model: {{kind: {kind}, start: s}}\n"
    assert config(tmp_path, DATA + model).optimisation.max_gradient_norm == {"monobert": 1.0}.get(kind)
    for off in ("null", "none"):
        given = f"optimisation: {{max_gradient_norm: {off}}}"
        assert config(tmp_path, DATA + model + given).optimisation.max_gradient_norm is None
    given = "optimisation: {max_gradient_norm: 0.5}"
    assert config(tmp_path, DATA + model + given).optimisation.max_gradient_norm == 0.5


@pytest.mark.parametrize("off", ["null", "none"])
def test_no_length_may_be_set_for_queries(tmp_path, off):
    uncut = config(tmp_path, f"{DATA}model: {{max_query: {off}}}")
    assert uncut.model.max_query is None
    write_settings(uncut, tmp_path / "again.yaml")
    assert read_settings(tmp_path / "again.yaml", RerankerTraining) == uncut


@pytest.mark.parametrize("kind", ["bert", "bert-dmn"])
def test_bert_and_bert_dmn_are_those_of_their_paper(tmp_path, kind):
    wanted = config(tmp_path, f"{DATA}model: {{kind: {kind}}}")
    how, loss = wanted.optimisation, wanted.loss
    assert wanted.model.start == "bert-base-uncased"
    assert (how.optimiser, how.learning_rate, how.batch, how.warm_up) == ("adamw", 3e-5, 32, 1000)
    assert (loss.objective, loss.margin, loss.of) == ("margin", 0.2, "probability")
    if kind == "bert-dmn":
        assert wanted.model.head == {"hidden": 256, "episodes": 4, "dropout": 0.1}


def test_the_baselines_are_those_of_their_paper(tmp_path):
    start = "start: glove"
    lstm = config(tmp_path, f"{DATA}model: {{kind: qa-lstm, {start}}}")
    assert (lstm.optimisation.batch, lstm.model.head) == (32, {"hidden": 256, "dropout": 0.5})
    knrm = config(tmp_path, f"{DATA}model: {{kind: k-nrm, {start}}}")
    how = knrm.optimisation
    assert (how.optimiser, how.learning_rate, how.eps, how.batch) == ("adam", 0.001, 1e-5, 16)
    assert {lstm.loss.of, knrm.loss.of} == {"logit"}  # their scores lie between -1 and 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_says_every_default_of_the_kind(tmp_path, kind):
    where = "dropout: 0.3" if kind == "monobert" else "head: {dropout: 0.3}"
    wanted = config(tmp_path, f"{DATA}model: {{kind: {kind}, start: s, {where}}}\nseed: 4")
    write_settings(wanted, tmp_path / "again.yaml")
    text = (tmp_path / "again.yaml").read_text()
    for name in ("learning_rate: ", "batch: ", "objective: ", "warm_up: ", "per_positive: ", "dropout: 0.3"):
        assert name in text
    assert read_settings(tmp_path / "again.yaml", RerankerTraining) == wanted


def test_the_recipe_of_the_reports_grid_has_its_108_settings():
    wanted = read_settings(TRAININGS / "piaf" / "grid.yaml", TrainingPlan)
    assert len(wanted.combinations) == 4 * 3 * 3 * 3
    assert (wanted.loss.objective, wanted.loss.class_weights, wanted.model.frozen) == (
        "pointwise",
        True,
        True,
    )


def test_who_says_steps_gets_them(tmp_path):
    wanted = config(tmp_path, f"{DATA}model: {{kind: bert}}\noptimisation: {{steps: 2000}}")
    assert (wanted.optimisation.steps, wanted.optimisation.epochs) == (2000, None)
    wanted = config(tmp_path, f"{DATA}model: {{kind: bert}}\noptimisation: {{epochs: 2}}")
    assert wanted.optimisation.epochs == 2
    for kind in ("monobert", "bert"):
        for length, saved in (
            ("epochs: 2", "null\n  epochs: 2.0"),
            ("steps: 20000", "20000\n  epochs: null"),
        ):
            wanted = config(tmp_path, f"{DATA}model: {{kind: {kind}}}\noptimisation: {{{length}}}")
            write_settings(wanted, tmp_path / "again.yaml")
            assert f"steps: {saved}\n" in (tmp_path / "again.yaml").read_text()
            assert read_settings(tmp_path / "again.yaml", RerankerTraining) == wanted


def test_measures_may_stand_in_one_text(tmp_path):
    wanted = config(tmp_path, f'{DATA}test: {{split: dev, run: t, measures: "AP RR@10, P@1"}}')
    assert wanted.test.measures == ("AP", "RR@10", "P@1")


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path):
    (tmp_path / "config.yaml").write_bytes("seed: 1\n# été".encode("latin-1"))
    with pytest.raises(FormatError, match=r"config\.yaml:2: expected UTF-8, got .*0xe9"):
        read_settings(tmp_path / "config.yaml", RerankerTraining)


DEV = "dev: {split: dev, run: d}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{DATA}learning_rate: 1", "known keys, not 'learning_rate'"),
        (f"{DATA}model: {{kind: bert, layers: 3}}", "known keys, not 'model.layers'"),
        ("data: {collection: c}", "expected one of negatives, triples, listed, got none"),
        (
            "data: {collection: c, negatives: {run: r, random: true}}",
            "expected one of run, pool, random, judged, got run and random",
        ),
        (
            "data: {collection: c, negatives: {run: r, per_positive: 10, per_group: 3}}",
            r"negatives: per_positive \(10\) must be a multiple of per_group \(3\)",
        ),
        (f"{DATA}model: {{kind: dmn}}", "model.start: Field required"),
        (
            f"{DATA}model: {{kind: bort}}",
            "model.kind: no re-ranker is called 'bort'; there are: monobert, bert,",
        ),
        (f"{DATA}loss: {{objective: margin-mse}}", "margin-mse needs a teacher"),
        (f"{DATA}loss: {{objective: softmax, teacher: t}}", "the other objectives take none"),
        (
            "data: {collection: c, negatives: {random: true}}\nloss: {objective: margin-mse, teacher: t}",
            "not for random or judged ones",
        ),
        (
            f"{DATA}loss: {{objective: margin, class_weights: true}}",
            "class_weights go with objective pointwise",
        ),
        (f"{DATA}model: {{head: {{hidden: [8]}}}}", "model: a monobert has the transformer's own layer"),
        (f"{DATA}model: {{kind: k-nrm, start: s, dropout: 0.3}}", "a k-nrm has head.dropout or none"),
        (f"{DATA}seed: 1\nseed: 2", r"config.yaml:3: expected YAML \(the key 'seed' comes twice\)"),
        (f"{DATA}folds: 5", "folds need a section test with the training split, split: train"),
        (f"{DATA}folds: 5\ntest: {{split: dev, run: t}}", "folds need a section test"),
        (
            f"{DATA}folds: 2\nheld_out: 2\ntest: {{split: train, run: t}}",
            "held_out is 2, but folds are numbered 0 to 1",
        ),
        (f"{DATA}dev: {{split: train, run: d}}", "dev has the training split: set dev.queries"),
        (f"{DATA}dev: {{split: dev}}", "expected one of run, pool, got none"),
        (f"{DATA}test: {{split: dev, run: t, store: true}}", "only a frozen encoder's features are stored"),
        (f"{DATA}optimisation: {{steps: 9, epochs: 2}}", "optimisation: expected steps or epochs, got both"),
        (f"{DATA}test: {{split: dev, run: t, measures: [APP]}}", "test.measures: there is no measure 'APP'"),
        (f"{DATA}{DEV[:-1]}, measure: P}}", "dev.measure: expected one measure, got P_5, P_10"),
        (f"{DATA}{DEV[:-1]}, measure: AP RR}}", "dev.measure: expected one measure, got AP, RR"),
        (f"{DATA}{DEV[:-1]}, measure: lost}}", "dev.measure: there is no measure 'lost'"),
        (
            f"{DATA}{DEV[:-1]}, every: 20000}}",
            r"dev: patience \(10000\) must not be less than every \(20000\)",
        ),
        (
            f"{DATA}{DEV[:-1]}, every: 0.5}}",
            "dev.every: expected updates, as 100, or epochs, as 0.5 epochs, got",
        ),
        (f"{DATA}optimisation: {{steps: 100}}", r"warm_up \(10000\) must be less than steps \(100\)"),
    ],
)
def test_what_cannot_be_is_named_in_one_line(tmp_path, text, says):
    with pytest.raises(FormatError, match=says) as caught:
        config(tmp_path, text)
    assert "\n" not in str(caught.value)


def parts(model, before=""):
    for name, field in model.model_fields.items():
        yield before + name, field
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from parts(kind, f"{before}{name}.")


def test_every_setting_is_explained():
    settings = dict(parts(RerankerTraining))
    assert len(settings) > 60
    sections = {"data", "model", "loss", "optimisation"}
    assert [name for name, field in settings.items() if not field.description and name not in sections] == []


def test_no_setting_has_a_name_that_yaml_takes_for_something_else():
    """Such as `on`, which is true."""
    for settings in (RerankerTraining, BiEncoderTraining):
        for name in keys_of(settings.model_json_schema()):
            assert yaml.safe_load(f"{name}: 1") == {name: 1}


def keys_of(schema) -> set[str]:
    parts = [schema, *schema.get("$defs", {}).values()]
    return {name for part in parts for name in part.get("properties", {})}
