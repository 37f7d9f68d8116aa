"""SPLADE models are trained: the losses and gradients of sentence-transformers, and folders that it opens."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_training import ON_CPU, hard_run, losses, splade_training

import telerank as tr
from small_models import small_encoder
from small_rerankers import small_reranker
from telerank.errors import FormatError, ModelError
from telerank.experiments.packaged import TRAININGS, find_training, packaged_names
from telerank.models.encoders.sparse import StaticPieces, load_sparse_encoder
from telerank.models.loading import quiet
from telerank.models.rerankers.reranker import save_reranker
from telerank.reranking.scorer import Scorer
from telerank.training.encoders.train import EncoderJob
from telerank.training.kinds import find_training_kind
from telerank.training.log import read_log
from telerank.training.splade.config import RegulariserSettings, SpladeTraining
from telerank.training.splade.encoder import Regulariser, flops, l1
from telerank.training.splade.train import open_splade, train_splade
from telerank.trec import read_run
from telerank.types import silent

library = pytest.importorskip("sentence_transformers")

TEXTS = ["d1 d2 x3", "q1 q2 q3 q4 q5 q6 q7 q8 q9 q10 q11 q12 q13", "q7", "q1 d1 q1"]
LONG = {"steps": 60, "batch": 24, "accumulation": 1, "chunk": None, "learning_rate": 0.005}
QUERIES = ("shared", "own", "static")


@pytest.fixture(scope="module")
def splading(pair_set):
    """Makes a training of a SPLADE model, with changes."""

    def make(**changes) -> SpladeTraining:
        return splade_training(pair_set, **changes)

    return make


def task_of(config, output):
    output.mkdir(exist_ok=True)
    torch.manual_seed(config.seed)
    return EncoderJob(config, open_splade, output, output).make_task(None, ON_CPU, silent)


@pytest.fixture(scope="module")
def trained(splading, tmp_path_factory):
    """Gives the folder of a training with queries of that kind, which learned to find words by others."""
    folder = tmp_path_factory.mktemp("splade")

    def train(queries):
        if not (folder / queries).exists():
            rate = {"static_rate": 4.0} if queries == "static" else {}
            config = splading(
                model={"dropout": 0.0, "queries": queries, **rate},
                optimisation=LONG,
                regulariser={"documents": {"weight": 3e-4}, "warm_up": 20},
                dev={"split": "dev", "every": 20, "measures": "RR", "at_start": True},
                checkpoint_every=99,
            )
            train_splade(config, folder / queries)
        return folder / queries

    return train


@pytest.mark.parametrize("queries", QUERIES)
def test_what_is_trained_finds_what_it_could_not_find_before(trained, queries):
    """Its dev says how many terms a text has: a query without an encoder has its one word."""
    records = [record for record in read_log(trained(queries) / "log.jsonl") if record.dev is not None]
    assert [record.step for record in records] == [0, 20, 40, 60]
    assert records[0].dev < 0.4
    assert records[-1].dev > 0.65
    assert records[-1].dev_loss < records[0].dev_loss / 2
    facts = records[-1].facts
    assert set(facts) == {"terms of a query", "terms of a document", "flops"}
    assert facts["terms of a document"] < 0.9 * records[0].facts["terms of a document"]
    if queries == "static":
        assert facts["terms of a query"] == 1.0


@pytest.mark.parametrize("queries", QUERIES)
def test_saved_folders_have_the_vectors_of_sentence_transformers(trained, queries):
    folder = trained(queries) / "model"
    with quiet():
        theirs = library.SparseEncoder(str(folder), device="cpu")
    own = load_sparse_encoder(folder, "cpu")
    for encode, side in ((theirs.encode_query, True), (theirs.encode_document, False)):
        expected = encode(TEXTS, convert_to_sparse_tensor=False, show_progress_bar=False).cpu().numpy()
        got = np.zeros_like(expected)
        for row, vector in enumerate(own.encode(TEXTS, queries=side)):
            got[row, vector.numbers] = vector.weights
        np.testing.assert_allclose(got, expected, atol=2e-5, rtol=1e-5)
        assert (expected > 0).any(1).all()
    assert theirs.similarity_fn_name == "dot"
    assert isinstance(own.queries.model, StaticPieces) is (queries == "static")


def test_a_trained_folder_indexes_searches_and_explains(trained, tmp_path):
    texts = {f"d{number}": f"d{number} x{number % 5}" for number in range(24)}
    index = tr.index(texts, tmp_path / "idx", weights_model=str(trained("static") / "model"))
    hits = sum(index.impact().search(f"q{number}").docnos[:1] == (f"d{number}",) for number in range(24))
    assert hits > 12
    first = index.impact().search("q3")
    explained = index.impact().explain("q3", first.docnos[0])
    assert explained.value == pytest.approx(first.scores[0])
    assert "'q3'" in str(explained)


def with_teacher(folder, objective) -> dict:
    """Hard negatives, two for each query, whose scores a teacher has."""
    run = hard_run(folder / "hard.run")
    return {
        "data": {"negatives": {"run": str(run), "per_positive": 2}},
        "loss": {"objective": objective, "teacher": str(run)},
        "optimisation": {"batch": 9, "accumulation": 1},
    }


def features(task, model):
    """The tokens of queries, relevant documents and negatives, in columns, and the teacher's scores."""
    batch = task.batches[0]
    columns = [batch.queries, *([batch.documents[row] for row in rows] for rows in batch.members.T.tolist())]
    return [model.preprocess(texts) for texts in columns], batch.teacher


@pytest.mark.parametrize("objective", ["softmax", "margin-mse", "kl", "both"])
def test_losses_and_gradients_are_those_of_sentence_transformers(splading, tmp_path, objective):
    """With FLOPS of queries and documents; texts are encoded in chunks here."""
    from sentence_transformers.sparse_encoder import losses as theirs

    named = {"kl": 1.0, "margin-mse": 0.5} if objective == "both" else objective
    changes = with_teacher(tmp_path, named)
    if objective == "softmax":
        del changes["loss"]["teacher"]
    if objective in ("kl", "both"):
        changes["loss"]["temperature"] = 2.0
    regulariser = {"queries": {"weight": 0.02}, "documents": {"weight": 0.03}, "warm_up": 0}
    task = task_of(splading(model={"dropout": 0.0}, regulariser=regulariser, **changes), tmp_path / "out")
    task.save(tmp_path / "model")
    with quiet():
        model = library.SparseEncoder(str(tmp_path / "model"), device="cpu")
    parts = {
        "softmax": lambda: [(theirs.SparseMultipleNegativesRankingLoss(model), 1.0)],
        "margin-mse": lambda: [(theirs.SparseMarginMSELoss(model), 1.0)],
        "kl": lambda: [(theirs.SparseDistillKLDivLoss(model, temperature=2.0), 1.0)],
    }
    parts["both"] = lambda: [(*parts["kl"]()[0][:1], 1.0), (*parts["margin-mse"]()[0][:1], 0.5)]
    columns, labels = features(task, model)
    assert len(set(task.batches[0].members.flatten().tolist())) == task.batches[0].members.numel()
    expected = 0.0
    for number, (loss, weight) in enumerate(parts[objective]()):
        penalties = {"document_regularizer_weight": 0.03, "query_regularizer_weight": 0.02}
        whole = theirs.SpladeLoss(model, loss, **penalties)(columns, labels)
        expected += sum(v * (weight if n == "base_loss" else number == 0) for n, v in whole.items())
    expected.backward()
    assert float(task.backward(task.read(0))) == pytest.approx(expected.item(), rel=1e-5)
    own = dict(task.encoder.sides[0].model.model.named_parameters())
    compared = 0
    for name, weight in model[0].model.named_parameters():
        if weight.grad is not None and (largest := float(weight.grad.abs().max())) > 1e-6:
            near = {"rtol": 1e-3, "atol": 1e-5 * max(1.0, largest)}  # those of margins are up to 150
            torch.testing.assert_close(own[name].grad, weight.grad, **near, msg=name)
            compared += 1
    assert compared > 30


def test_regularisers_are_their_formulas_and_rise_as_those_of_sentence_transformers():
    from sentence_transformers.sparse_encoder.callbacks.splade_callbacks import (
        SpladeRegularizerWeightSchedulerCallback as Scheduler,
    )
    from sentence_transformers.sparse_encoder.losses import SpladeLoss

    weights = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 1.0]])
    assert float(flops(weights)) == 0.5**2 + 1.0**2 + 2.0**2
    assert float(l1(weights)) == 3.5
    settings = {"queries": {"weight": 0.25, "kind": "l1"}, "documents": {"weight": 0.5, "threshold": 1}}
    for rise in ("quadratic", "linear"):
        made = Regulariser.of(RegulariserSettings.model_validate({**settings, "rise": rise}), 90)
        loss = SpladeLoss.__new__(SpladeLoss)
        torch.nn.Module.__init__(loss)
        loss.document_regularizer_weight, loss.query_regularizer_weight = 0.5, 0.25
        schedule = Scheduler(loss, scheduler_type=rise)
        schedule.on_train_begin(None, SimpleNamespace(max_steps=90), None)
        for update in (0, 1, 7, 29, 30, 31, 89):
            schedule.on_step_begin(None, SimpleNamespace(global_step=update), None)
            assert made.factor(update) * 0.5 == pytest.approx(loss.document_regularizer_weight)
    one_term = torch.tensor(
        [[0.0, 0.0, 8.0], [0.0, 2.0, 1.0]]
    )  # the first text has no more than the threshold
    assert float(made(weights, one_term, 90)) == pytest.approx(0.25 * 3.5 + 0.5 * (1.0**2 + 0.5**2))
    alone = Regulariser.of(made.settings, 90, of_queries=False)
    assert float(alone(weights, one_term, 90)) == pytest.approx(0.5 * (1.0**2 + 0.5**2))


def test_weights_of_pieces_begin_with_idf_and_may_stay(splading, tmp_path):
    """x0 is in 12 of 40 documents, d7 in one, q1 in none; all others of q are as q1."""
    config = splading(
        model={"queries": "static", "static_frozen": True}, optimisation={"steps": 2, "warm_up": 0}
    )
    folder = train_splade(config, tmp_path / "out")
    side = load_sparse_encoder(folder, "cpu").queries
    vocabulary, weight = side.tokenizer.tokenizer.get_vocab(), side.model.weight
    docs = [{f"d{i}", f"x{i % 5}", f"x{i % 7}"} for i in range(40)]
    for word in ("x0", "d7", "q1"):
        having = sum(word in doc for doc in docs)
        idf = math.log(1 + (40 - having + 0.5) / (having + 0.5))
        assert float(weight[vocabulary[word]]) == pytest.approx(idf, rel=1e-5)
    learned = splading(
        model={"queries": "static", "static_start": "ones"}, optimisation={"steps": 2, "warm_up": 0}
    )
    other = load_sparse_encoder(train_splade(learned, tmp_path / "ones"), "cpu").queries.model.weight
    assert other.unique().numel() > 1
    assert float(other[vocabulary["d7"]]) == 1.0  # no query has it


def test_a_trained_model_is_trained_on(trained, splading, tmp_path):
    """Its pooling, its weights of pieces and its two encoders are kept."""
    for queries in QUERIES:
        start = str(trained(queries) / "model")
        few = {"steps": 1, "warm_up": 0, "learning_rate": 1e-9}
        config = splading(model={"start": start, "queries": queries, "dropout": 0.0}, optimisation=few)
        folder = train_splade(config, tmp_path / queries)
        before, after = (load_sparse_encoder(name, "cpu") for name in (start, folder))
        for side in (True, False):
            for old, new in zip(*(own.encode(TEXTS, queries=side) for own in (before, after)), strict=True):
                np.testing.assert_allclose(new.weights, old.weights, atol=1e-4)
    with pytest.raises(ModelError, match="queries have an encoder of their own: set"):
        train_splade(splading(model={"start": str(trained("own") / "model")}), tmp_path / "one")


def test_pooling_and_activation_are_saved(splading, tmp_path):
    config = splading(
        model={"pooling": "sum", "activation": "log-log"}, optimisation={"steps": 1, "warm_up": 0}
    )
    side = load_sparse_encoder(train_splade(config, tmp_path / "out"), "cpu").documents
    assert (side.model.pooling, side.model.twice, side.tokenizer.side.max_length) == ("sum", True, 12)


WRONG = {
    "one encoder cuts queries and documents to max_length": {"model": {"query_length": 8}},
    "query_start needs queries: own": {"model": {"query_start": "minilm"}},
    "static_frozen goes with queries: static": {"model": {"static_frozen": True}},
    "as sparse as their texts": {
        "model": {"queries": "static"},
        "regulariser": {"queries": {"weight": 1.0}},
    },
    "need a teacher, a run file, or a teacher_model": {"loss": {"objective": "kl"}},
    "the others take none": {"loss": {"teacher": "some.run"}},
    "expected teacher or teacher_model, got both": {
        "loss": {"objective": "kl", "teacher": "some.run", "teacher_model": "some"}
    },
    "triples need a teacher, a run file": {
        "loss": {"objective": "kl", "teacher_model": "some"},
        "data": {"collection": "c", "triples": {"file": "t.tsv"}},
    },
    "set data.negatives or data.triples": {"loss": {"objective": "group-softmax"}},
    "no objective is called 'marginmse'; did you mean 'margin-mse'": {"loss": {"objective": "marginmse"}},
    "expected a weight above 0 of kl, got -1": {"loss": {"objective": {"kl": -1}, "teacher": "x.run"}},
    "temperature goes with objective kl": {"loss": {"temperature": 2.0}},
    "did you mean 'pooling'": {"model": {"poolin": "max"}},
}


@pytest.mark.parametrize("said", WRONG)
def test_settings_that_do_not_fit_are_one_line(pair_set, said):
    record = {"data": {"collection": str(pair_set / "collection")}, **WRONG[said]}
    with pytest.raises(FormatError) as raised:
        tr.train("splade", record)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_models_that_do_not_fit_are_one_line(splading, tmp_path):
    small_encoder(tmp_path / "roberta", "roberta")
    wrong = {
        "texts of 100 tokens, but the model has 66 positions": {"max_length": 100},
        "the sides must have the same vocabulary": {
            "queries": "own",
            "query_start": str(tmp_path / "roberta"),
        },
        "no such folder": {"start": str(tmp_path / "nowhere")},
    }
    for number, (said, model) in enumerate(wrong.items()):
        with pytest.raises(ModelError, match=said):
            train_splade(splading(model=model), tmp_path / str(number))


def test_a_teachers_pairs_alone_are_learned_from(splading, tmp_path):
    changes = with_teacher(tmp_path, "margin-mse")
    lines = (tmp_path / "hard.run").read_text().splitlines()
    scored = [line for line in lines if not line.startswith("13 Q0 d3 ")]
    (tmp_path / "teacher.run").write_text("\n".join(scored) + "\n")
    changes["loss"]["teacher"] = str(tmp_path / "teacher.run")
    trained = tr.train("splade", splading(**changes).model_dump(mode="json"), tmp_path / "out")
    assert trained.counts["."]["relevant pairs without a teacher's score, left out"] == 1
    assert losses(tmp_path / "out")


@pytest.mark.parametrize("resample", [False, True])
def test_a_re_ranker_scores_what_is_learned_from_before(splading, tmp_path, resample):
    """Each relevant document with its negatives, or with all of its list; a second training reads the file."""
    teacher = tmp_path / "teacher"
    save_reranker(small_reranker(tmp_path / "small"), teacher)
    run = hard_run(tmp_path / "hard.run")
    config = splading(
        data={"negatives": {"run": str(run), "per_positive": 2, "resample": resample}},
        loss={"objective": "margin-mse", "teacher_model": str(teacher)},
        optimisation={"batch": 9, "steps": 3},
    )
    train_splade(config, tmp_path / "out")
    scored = {ranking.query.qid: dict(ranking) for ranking in read_run(tmp_path / "out" / "teacher.run.gz")}
    assert len(scored) == 24
    assert {len(own) for own in scored.values()} == {6 if resample else 3}
    pairs = [("q3", f"d{n} x{n % 5} x{n % 7}") for n in (int(docno[1:]) for docno in scored["13"])]
    assert list(scored["13"].values()) == pytest.approx(Scorer(teacher).score(pairs).tolist(), abs=1e-5)
    written = (tmp_path / "out" / "teacher.run.gz").stat().st_mtime_ns
    train_splade(config, tmp_path / "out", resume=True)
    assert (tmp_path / "out" / "teacher.run.gz").stat().st_mtime_ns == written


def test_packaged_trainings_are_read():
    names = packaged_names(TRAININGS)
    for kind, small in (("splade", "static"), ("late-interaction", None)):
        own = [name for name in names if name.startswith(f"{kind}/")]
        assert own == [f"{kind}/insuranceqa-tiny", f"{kind}/msmarco"]
        tiny, paper = (find_training_kind(kind).read(find_training(name), {}) for name in own)
        assert paper.data.collection == "msmarco"
        assert getattr(tiny.model, "queries", None) == small


@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_a_document_begins_with_so_many_terms(splading, tmp_path, pooling):
    """Whatever number the logits of a head are apart, and alike for queries."""
    few = {"steps": 1, "warm_up": 0, "learning_rate": 1e-9}
    texts = [doc.full_text for doc in tr.collection(splading().data.collection).docs()]
    assert len(texts) < 64
    for terms in (3, 7):
        model = {"start_terms": terms, "pooling": pooling, "queries": "own", "dropout": 0.0}
        encoder = load_sparse_encoder(
            train_splade(splading(model=model, optimisation=few), tmp_path / f"{terms}"), "cpu"
        )
        for queries in (True, False):
            counts = [len(vector.numbers) for vector in encoder.encode(texts, queries=queries)]
            assert sum(counts) == pytest.approx(terms * len(texts), abs=2)
    many = splading(model={"start_terms": 10**6})
    with pytest.raises(ModelError, match="start_terms: expected fewer than its"):
        train_splade(many, tmp_path / "many")
