"""A training is a file, and what it does not say is the paper's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

import telerank
from telerank.errors import FormatError
from telerank.models.rerankers.kinds import KINDS
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.reader.config import ReaderTraining
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan
from telerank.training.settings import read_settings, write_settings

TRAININGS = Path(telerank.__file__).parent / "experiments" / "trainings"
ROOT = Path(__file__).parents[2]
C, R = "data: {collection: c}\n", "data: {collection: c, negatives: {run: r}}\n"
DEV, TEST = "dev: {split: dev, run: d", "test: {split: dev, run: t"


@pytest.fixture
def read(tmp_path):
    """Reads a text as the settings of a training: of a bi-encoder, if nothing else is said."""

    def read(text, kind=BiEncoderTraining):
        (tmp_path / "config.yaml").write_text(text)
        return read_settings(tmp_path / "config.yaml", kind)

    return read


@pytest.fixture
def written(tmp_path):
    """The text of settings, which is read back as it was."""

    def write(config):
        write_settings(config, tmp_path / "again.yaml")
        assert read_settings(tmp_path / "again.yaml", type(config)) == config
        return (tmp_path / "again.yaml").read_text()

    return write


def test_the_defaults_are_those_of_section_4_3_1(read):
    config = read(C)
    model, how = config.model, config.optimisation
    assert (model.start, model.query_length, model.document_length) == ("bert-base-uncased", 20, 256)
    assert (model.pooling, model.similarity, model.towers) == ("mean", "inner_product", "shared")
    assert (model.dropout, model.query_segment) == (0.1, 0)
    assert model.document_segment is None  # 1, unless prompts tell the sides apart
    assert (how.batch, how.accumulation, how.steps) == (26, 2, 350_000)
    assert how.batch * how.accumulation * how.steps == 18_200_000  # pairs, as the paper counts them
    assert (how.learning_rate, how.betas, how.weight_decay, how.warm_up) == (3e-6, (0.9, 0.999), 0.01, 10_000)
    assert (config.loss.objective, config.loss.margin, how.max_gradient_norm) == ("margin", 1.0, 1.0)
    triples = read("data: {collection: msmarco, triples: {file: triples.tsv}}")
    assert how.batch // triples.data.group_size == 13  # queries, each with its own negative of BM25


def test_a_reader_has_the_defaults_of_bert():
    config = ReaderTraining.model_validate({"data": {"sets": [{"collection": "x"}]}})
    assert (config.model.max_length, config.model.stride, config.optimisation.batch) == (384, 128, 32)
    assert config.optimisation.learning_rate == 5e-5


def test_monobert_is_that_of_its_paper(read):
    config = read(R, RerankerTraining)
    model, how, negatives = config.model, config.optimisation, config.data.negatives
    assert (model.kind, model.start, model.frozen) == ("monobert", "bert-large-uncased", False)
    assert (model.max_query, model.max_length, model.dropout) == (64, 512, 0.1)
    assert (negatives.depth, negatives.per_positive) == (1000, 1)
    assert (how.steps, how.epochs, how.learning_rate, how.warm_up) == (400_000, None, 3e-6, 10_000)
    assert how.batch * (1 + negatives.per_positive) * how.steps == 12_800_000  # pairs, as the paper counts
    assert (how.betas, how.weight_decay, how.schedule) == ((0.9, 0.999), 0.01, "linear")
    assert config.loss.objective == "pointwise"


@pytest.mark.parametrize("kind", ["bert", "bert-dmn"])
def test_bert_and_bert_dmn_are_those_of_their_paper(read, kind):
    config = read(f"{R}model: {{kind: {kind}}}", RerankerTraining)
    how, loss = config.optimisation, config.loss
    assert config.model.start == "bert-base-uncased"
    assert (how.optimiser, how.learning_rate, how.batch, how.warm_up) == ("adamw", 3e-5, 32, 1000)
    assert (loss.objective, loss.margin, loss.of) == ("margin", 0.2, "probability")
    if kind == "bert-dmn":
        assert config.model.head == {"hidden": 256, "episodes": 4, "dropout": 0.1}


def test_the_baselines_are_those_of_their_paper(read):
    lstm = read(f"{R}model: {{kind: qa-lstm, start: glove}}", RerankerTraining)
    assert (lstm.optimisation.batch, lstm.model.head) == (32, {"hidden": 256, "dropout": 0.5})
    knrm = read(f"{R}model: {{kind: k-nrm, start: glove}}", RerankerTraining)
    how = knrm.optimisation
    assert (how.optimiser, how.learning_rate, how.eps, how.batch) == ("adam", 0.001, 1e-5, 16)
    conv = read(f"{R}model: {{kind: conv-knrm, start: glove}}", RerankerTraining)
    assert (conv.optimisation, conv.loss) == (how, knrm.loss)
    assert conv.model.head == {"filters": 128, "longest": 3}
    pacrr = read(f"{R}model: {{kind: co-pacrr, start: glove}}", RerankerTraining)
    assert (pacrr.loss.objective, pacrr.model.max_query, pacrr.model.head["rows"]) == ("softmax", 16, 16)
    assert {lstm.loss.of, knrm.loss.of} == {"logit"}  # their scores lie between -1 and 1


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_clipped_where_the_authors_program_does(read, kind):
    """BERT's own optimiser, which monoBERT is trained with, clips at 1; the texts are silent."""
    text = f"{R}model: {{kind: {kind}, start: s}}\n"
    expected = {"": {"monobert": 1.0}.get(kind), "null": None, "none": None, "0.5": 0.5}
    for given, norm in expected.items():
        given = f"optimisation: {{max_gradient_norm: {given}}}" if given else ""
        assert read(text + given, RerankerTraining).optimisation.max_gradient_norm == norm


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_says_every_default_of_the_kind(read, written, kind):
    where = "dropout: 0.3" if kind == "monobert" else "head: {dropout: 0.3}"
    text = written(read(f"{R}model: {{kind: {kind}, start: s, {where}}}\nseed: 4", RerankerTraining))
    for name in ("learning_rate: ", "batch: ", "objective: ", "warm_up: ", "per_positive: ", "dropout: 0.3"):
        assert name in text


def test_a_fresh_start_is_written_only_if_it_is_one(read, written):
    """So that folders of trainings, which are named by their settings, keep their names."""
    assert "fresh" not in written(read(f"{R}model: {{kind: bert}}", RerankerTraining))
    fresh = read(f"{R}model: {{kind: bert, fresh: true}}", RerankerTraining)
    assert "fresh: true" in written(fresh)
    assert read(written(fresh), RerankerTraining) == fresh


@pytest.mark.parametrize("off", ["null", "none"])
def test_no_length_may_be_set_for_queries(read, written, off):
    uncut = read(f"{R}model: {{max_query: {off}}}", RerankerTraining)
    assert uncut.model.max_query is None
    assert "max_query: null" in written(uncut)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (C, BiEncoderTraining),
        *((f"{R}model: {{kind: {kind}}}\n", RerankerTraining) for kind in ("monobert", "bert")),
    ],
)
def test_of_steps_and_epochs_the_one_that_counts_is_written(read, written, data, kind):
    for length, text in (("epochs: 2", "null\n  epochs: 2.0"), ("steps: 20000", "20000\n  epochs: null")):
        assert f"steps: {text}\n" in written(read(f"{data}optimisation: {{{length}}}", kind))


def test_a_batch_has_whole_groups(read):
    negatives = "data: {collection: c, negatives: {pool: '100', per_positive: 12}}"
    assert read(negatives).data.group_size == 13
    with pytest.raises(FormatError, match=r"batch \(32\) must be a multiple of 13: each query has 13 pairs"):
        read(f"{negatives}\noptimisation: {{batch: 32}}")
    with pytest.raises(FormatError, match=r"optimisation.batch \(27\) must be a multiple of 2"):
        read("data: {collection: c, triples: {file: t}}\noptimisation: {batch: 27}")


def test_measures_may_stand_in_one_text(read):
    config = read(f'{R}{TEST}, measures: "AP RR@10, P@1"}}', RerankerTraining)
    assert config.test.measures == ("AP", "RR@10", "P@1")


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path):
    (tmp_path / "config.yaml").write_bytes("seed: 1\n# été".encode("latin-1"))
    with pytest.raises(FormatError, match=r"config\.yaml:2: expected UTF-8, got .*0xe9"):
        read_settings(tmp_path / "config.yaml", RerankerTraining)


WRONG = [
    (C + "learning_rate: 1", "known keys, not 'learning_rate'"),
    (C + "optimisation: {lr: 1}", "known keys, not 'optimisation.lr'"),
    (C + "optimisation: {warmup: 5}", r"not 'optimisation\.warmup'; did you mean 'warm_up'\?"),
    (C + "xyz: 5", "not 'xyz'$"),
    (C + "optimisation: {learning_rate: .inf}", "learning_rate: .* finite number"),
    (C + "optimisation: {optimiser: sgd}", "optimiser: Input should be 'adamw' or 'adam'"),
    (C + "seed: 100000000000000000000", "seed: Input should be less than"),
    ("data: {}", "data.collection: Field required"),
    (C + "optimisation: {batch: 0, steps: 0}", r"optimisation.steps: .* \(and 1 more\)"),
    (C + "optimisation: {steps: 100}", r"warm_up \(10000\) must be less than steps \(100\)"),
    (C + "optimisation: {steps: 9, epochs: 2}", "optimisation: .*steps or epochs, got both"),
    (C + "dev: {split: d, measures: APP}", "dev.measures: there is no measure 'APP'"),
    (C + "dev: {split: d, measures: AP RR}", "dev.measures: expected one .*, got AP, RR"),
    (C + "dev: {split: d, patience: 9}", r"patience \(9\) must not be less .*\(10000\)"),
    (
        "data: {collection: c, negatives: {run: r, per_query: 1}}",
        r"known keys, not 'data\.negatives\.per_query'",
    ),
    (
        "data: {collection: c, negatives: {run: r, pool: p}}",
        "negatives: expected one of .*, got run and pool",
    ),
    (
        "data: {collection: c, negatives: {run: r}, triples: {file: t}}",
        "expected triples or negatives, got both",
    ),
    (C + "model: {pooling: max}", "model.pooling: Input should be 'mean' or 'cls'"),
    ("- a", "expected a mapping"),
    ("data: {collection: c", r"config.yaml:\d: expected YAML"),
]
WRONG_OF_RERANKERS = [
    (R + "model: {kind: bert, layers: 3}", "known keys, not 'model.layers'"),
    (C, "expected one of negatives, triples, listed, got none"),
    (
        "data: {collection: c, negatives: {run: r, per_positive: 10, per_group: 3}}",
        r"negatives: per_positive \(10\) must be a multiple of per_group \(3\)",
    ),
    (R + "model: {kind: dmn}", "model.start: Field required"),
    (R + "model: {kind: bort}", "model.kind: no re-ranker is called 'bort'; there are: monobert, bert,"),
    (R + "loss: {objective: margin-mse}", "margin-mse needs a teacher"),
    (R + "loss: {objective: softmax, teacher: t}", "the other objectives take none"),
    (
        "data: {collection: c, negatives: {random: true}}\nloss: {objective: margin-mse, teacher: t}",
        "not for random or judged ones",
    ),
    (R + "loss: {objective: margin, class_weights: true}", "class_weights go with objective pointwise"),
    (R + "model: {head: {hidden: [8]}}", "model: a monobert has the transformer's own layer"),
    (R + "model: {kind: k-nrm, start: s, dropout: 0.3}", "a k-nrm has head.dropout or none"),
    (R + "model: {kind: k-nrm, start: s, frozen_embeddings: true}", "a k-nrm has no encoder"),
    (
        R + "model: {kind: bert, start: s, frozen: true, frozen_embeddings: true}",
        "trains nothing of its encoder",
    ),
    (R + "model: {kind: k-nrm, start: s, fresh: true}", "fresh is of an encoder; a k-nrm has word vectors"),
    (R + "model: {kind: bert, frozen: true, fresh: true}", "a frozen encoder learns nothing"),
    (R + "model: {kind: bert, frozen_embeddings: true, fresh: true}", "fresh draws word embeddings, which"),
    (R + "seed: 1\nseed: 2", r"config.yaml:3: expected YAML \(the key 'seed' comes twice\)"),
    (R + "folds: 5", "folds need a section test with the training split, split: train"),
    (R + f"folds: 5\n{TEST}}}", "folds need a section test"),
    (
        R + "folds: 2\nheld_out: 2\ntest: {split: train, run: t}",
        "held_out is 2, but folds are numbered 0 to 1",
    ),
    (R + "repetition: 1", "a repetition has folds of its own: set folds"),
    (R + "dev: {split: train, run: d}", "dev has the training split: set dev.queries"),
    (R + "dev: {split: dev}", "expected one of run, pool, got none"),
    (R + f"{TEST}, store: true}}", "only a frozen encoder's features are stored"),
    (R + f"{TEST}, measures: [APP]}}", "test.measures: there is no measure 'APP'"),
    (R + f"{DEV}, measures: P}}", "dev.measures: expected one measure, got P_5, P_10"),
    (R + f"{DEV}, measures: lost}}", "dev.measures: there is no measure 'lost'"),
    (R + f"{DEV}, every: 0.5}}", "dev.every: expected updates, as 100, or epochs, as 0.5 epochs, got"),
]
CASES = [(BiEncoderTraining, *case) for case in WRONG] + [
    (RerankerTraining, *case) for case in WRONG_OF_RERANKERS
]


@pytest.mark.parametrize(("kind", "text", "says"), CASES)
def test_what_cannot_be_is_named_in_one_line(read, kind, text, says):
    with pytest.raises(FormatError, match=says) as caught:
        read(text, kind)
    assert "\n" not in str(caught.value)


def parts(model, before=""):
    for name, field in model.model_fields.items():
        yield before + name, field
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from parts(kind, f"{before}{name}.")


def test_every_setting_is_explained_and_few_have_no_default():
    sections = {"data", "model", "loss", "optimisation"}
    for kind, least in ((BiEncoderTraining, 40), (RerankerTraining, 60)):
        settings = dict(parts(kind))
        assert len(settings) > least
        unexplained = {name for name, field in settings.items() if not field.description}
        assert unexplained <= sections
    needed = {name for name, field in parts(BiEncoderTraining) if field.is_required()}
    assert needed == {"data", "data.collection", "data.triples.file", "dev.split"}


def test_no_setting_has_a_name_that_yaml_takes_for_something_else():
    """Such as `on`, which is true."""
    for settings in (RerankerTraining, BiEncoderTraining):
        schema = settings.model_json_schema()
        for part in (schema, *schema["$defs"].values()):
            for name in part.get("properties", {}):
                assert yaml.safe_load(f"{name}: 1") == {name: 1}


def test_packaged_trainings_are_read_and_those_of_papers_have_their_loss():
    for path in sorted((TRAININGS / "repbert").glob("insuranceqa*.yaml")):
        config = read_settings(path, BiEncoderTraining)
        assert config.data.collection == "insuranceqa-v2"
        if path.stem in ("insuranceqa", "insuranceqa-tiny"):
            assert (config.loss.objective, config.model.similarity) == ("margin", "inner_product")
            assert config.model.query_segment == 0
            assert config.model.document_segment in (None, 1)
    plan = read_settings(TRAININGS / "piaf" / "grid.yaml", TrainingPlan)
    assert len(plan.combinations) == 4 * 3 * 3 * 3  # as the report has them
    assert (plan.loss.objective, plan.loss.class_weights, plan.model.frozen) == ("pointwise", True, True)


def test_the_configuration_in_the_document_is_one(read):
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    block = re.search(r"```text\n(data:.*?)```", text, re.DOTALL)
    config = read(block[1])
    assert (config.optimisation.epochs, config.dev.every) == (1.0, 100)
    named = re.findall(r"`(?:optimisation|model|loss|data)\.(\w+)", text)
    known = {name.split(".")[-1] for name, _ in parts(BiEncoderTraining)}
    assert set(named) <= known
