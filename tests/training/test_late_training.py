"""Late-interaction models are trained: MaxSim's closed formula, the losses of sentence-transformers, its folders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_training import ON_CPU, hard_run, late_training

import telerank as tr
from small_late import small_pylate
from telerank.errors import FormatError, ModelError
from telerank.late_interaction.encoder import LateEncoder
from telerank.models.encoders.late_folders import load_late
from telerank.models.encoders.late_interaction import max_sim
from telerank.models.loading import quiet
from telerank.training.encoders.train import EncoderJob
from telerank.training.late_interaction.train import open_late, train_late
from telerank.training.log import read_log
from telerank.types import silent

library = pytest.importorskip("sentence_transformers")
if not hasattr(library, "MultiVectorEncoder"):
    pytest.skip("sentence-transformers has no multi-vector encoders yet", allow_module_level=True)

TEXTS = ["d1 d2 x3", "q1 q2 q3 q4 q5 q6 q7 q8 q9 q10 q11 q12 q13", "q7", "q1 , d1 ."]


def task_of(config, output):
    output.mkdir(exist_ok=True)
    torch.manual_seed(config.seed)
    return EncoderJob(config, open_late, output, output).make_task(None, ON_CPU, silent)


@pytest.fixture(scope="module")
def trained(pair_set, tmp_path_factory):
    """The folder of a training that learned to find words by others."""
    output = tmp_path_factory.mktemp("late") / "out"
    optimisation = {"steps": 45, "batch": 24, "accumulation": 1, "chunk": None, "learning_rate": 0.005}
    dev = {"split": "dev", "every": 15, "measures": "RR", "at_start": True}
    config = late_training(
        pair_set, model={"dropout": 0.0}, optimisation=optimisation, dev=dev, checkpoint_every=99
    )
    train_late(config, output)
    return output


def test_what_is_trained_finds_what_it_could_not_find_before(trained):
    records = [record for record in read_log(trained / "log.jsonl") if record.dev is not None]
    assert [record.step for record in records] == [0, 15, 30, 45]
    assert records[0].dev < 0.4
    assert records[-1].dev > 0.9
    assert records[-1].dev_loss < records[0].dev_loss / 2
    assert records[-1].facts is None


def test_the_saved_folder_has_the_vectors_of_sentence_transformers(trained):
    """The markers have tokens of their own."""
    folder = trained / "model"
    encoder = LateEncoder(str(folder))
    with quiet():
        theirs = library.MultiVectorEncoder(str(folder), device="cpu")
    documents = {number: own for number, own, _ in encoder.encode_documents(TEXTS)}
    for number, text in enumerate(TEXTS):
        query, words = encoder.encode_query(text)
        np.testing.assert_allclose(query, theirs.encode_query([text], convert_to_numpy=True)[0], atol=2e-6)
        assert words[1].strip().lower() == "[q]"
        assert len(words) == 8
        expected = theirs.encode_document([text], convert_to_numpy=True)[0]
        np.testing.assert_allclose(documents[number], expected, atol=2e-6)


def test_a_trained_folder_stores_vectors_ranks_and_explains(trained, tmp_path):
    texts = {f"d{number}": f"d{number} x1 {' '.join(f'q{n}' for n in range(24))}" for number in range(24)}
    index = tr.index(texts, tmp_path / "idx")
    index.encode_tokens(str(trained / "model"))
    stage = index.bm25() % 24 >> index.maxsim()
    first = stage.search("q3")
    assert len(first) == 24
    assert stage.explain("q3", first.docnos[0]).value == pytest.approx(first.scores[0])


def closed(queries, documents) -> np.ndarray:
    """MaxSim of lists of tokens that count, in float64."""
    return np.array(
        [[(q @ d.T).max(1).sum() if len(d) else 0.0 for d in documents] for q in queries], np.float64
    )


def test_max_sim_is_its_closed_formula():
    """With tokens that do not count, whose products would be the largest, and texts of several lengths."""
    random = np.random.default_rng(0)

    def text(most):
        vectors, kept = random.normal(size=(most, 4)) - 0.5, random.random(most) < 0.7
        return np.concatenate([vectors * kept[:, None], kept[:, None]], axis=1)

    queries, documents = [text(5) for _ in range(3)], [text(7) for _ in range(4)]
    documents.append(np.zeros((7, 5)))
    got = max_sim(torch.tensor(np.stack(queries)), torch.tensor(np.stack(documents)))
    own = [[rows[rows[:, -1] > 0, :-1] for rows in side] for side in (queries, documents)]
    np.testing.assert_allclose(got.numpy(), closed(*own), atol=1e-12)


@pytest.mark.parametrize("objective", ["softmax", "margin-mse", "kl"])
def test_losses_and_gradients_are_those_of_sentence_transformers(pair_set, tmp_path, objective):
    """Texts are encoded in chunks of several lengths here."""
    from sentence_transformers.multi_vector_encoder import losses as theirs

    run = hard_run(tmp_path / "hard.run")
    loss = {"objective": objective}
    loss |= {} if objective == "softmax" else {"teacher": str(run)}
    loss |= {"temperature": 2.0} if objective == "kl" else {}
    config = late_training(
        pair_set,
        model={"dropout": 0.0},
        data={"negatives": {"run": str(run), "per_positive": 2}},
        loss=loss,
        optimisation={"batch": 9, "accumulation": 1},
    )
    task = task_of(config, tmp_path / "out")
    task.save(tmp_path / "model")
    with quiet():
        model = library.MultiVectorEncoder(str(tmp_path / "model"), device="cpu")
    batch = task.batches[0]
    assert len(set(batch.members.flatten().tolist())) == batch.members.numel()
    texts = [[batch.documents[row] for row in rows] for rows in batch.members.T.tolist()]
    columns = []
    for number, own in enumerate([batch.queries, *texts]):
        task_name = "document" if number else "query"
        columns.append(model.preprocess(own, prompt=model.prompts[task_name], task=task_name))
    for number, column in enumerate(columns):
        column["task"] = "document" if number else "query"
    made = {
        "softmax": lambda: theirs.MultiVectorMultipleNegativesRankingLoss(model),
        "margin-mse": lambda: theirs.MultiVectorMarginMSELoss(model),
        "kl": lambda: theirs.MultiVectorDistillKLDivLoss(model, temperature=2.0),
    }[objective]()
    expected = made(columns, batch.teacher)
    expected.backward()
    assert float(task.backward(task.read(0))) == pytest.approx(expected.item(), rel=1e-5)
    own = dict(task.encoder.module.encoder.named_parameters())
    compared = 0
    for name, weight in model[0].model.named_parameters():
        if weight.grad is not None and weight.grad.abs().max() > 1e-6:
            torch.testing.assert_close(own[name].grad, weight.grad, rtol=1e-3, atol=1e-5, msg=name)
            compared += 1
    assert compared > 25
    (projection,) = task.encoder.module.projections
    torch.testing.assert_close(projection.weight.grad, model[1].linear.weight.grad, rtol=1e-3, atol=1e-5)


def test_a_model_is_trained_on_with_its_settings(pair_set, tmp_path):
    """Folders of PyLate keep markers, words to skip, and their projection."""
    start = small_pylate(tmp_path / "pylate")
    few = {"steps": 1, "warm_up": 0, "learning_rate": 1e-9}
    record = {"start": str(start), "dimension": None, "query_length": None, "document_length": 15}
    folder = train_late(late_training(pair_set, model=record, optimisation=few), tmp_path / "out")
    (before, _), (after, _) = load_late(start), load_late(folder)
    assert after.settings.document_length == 15
    assert after.settings.query == before.settings.query
    assert (after.settings.query_length, after.settings.skipped) == (12, ("x1", "x2"))
    old, new = (LateEncoder(str(name)).encode_query("q1 q2")[0] for name in (start, folder))
    np.testing.assert_allclose(new, old, atol=1e-4)
    with pytest.raises(ModelError, match="its vectors have 16 dimensions, not 8"):
        train_late(late_training(pair_set, model={**record, "dimension": 8}), tmp_path / "eight")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"query_length": 2}, "greater than or equal to 3"),
        ({"document_lengths": 9}, "did you mean 'document_length'"),
        ({"dimension": 0}, "greater than 0"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(pair_set, model, said):
    record = {"data": {"collection": str(pair_set / "collection")}, "model": model}
    with pytest.raises(FormatError, match=said) as raised:
        tr.train("late-interaction", record)
    assert "\n" not in str(raised.value)


def test_texts_longer_than_an_encoder_reads_are_refused(pair_set, tmp_path):
    config = late_training(pair_set, model={"document_length": 100})
    with pytest.raises(ModelError, match="the encoder reads 66 tokens, and texts have up to 100"):
        train_late(config, tmp_path / "out")
