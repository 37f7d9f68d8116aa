"""uniCOIL and DeepImpact: scores by closed formulas, gradients in parts, an index that ranks as the training does."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from small_term_weights import scored_training, weights_place
from small_training import ON_CPU, losses

import telerank as tr
from telerank.corpus.writing import convert
from telerank.errors import FormatError
from telerank.training.encoders.train import EncoderJob
from telerank.training.term_weights.learners import QueryTerms, pad_queries, score_terms, term_key
from telerank.training.term_weights.train import open_learner, train_term_weights
from telerank.types import silent

KINDS = ("unicoil", "deepimpact")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return weights_place(tmp_path_factory.mktemp("impacts"))


def open_task(place, output, kind, **changes):
    output.mkdir(exist_ok=True)
    config = scored_training(place, kind, **changes)
    torch.manual_seed(0)
    return EncoderJob(config, open_learner, output, output).make_task(None, ON_CPU, silent)


def vectors_of(weights):
    """Lists of terms, as those of queries."""
    batch = pad_queries([QueryTerms(own) for own in weights], None)
    return torch.cat([batch["keys"], batch["weights"].unsqueeze(2)], dim=2)


def test_scores_are_sums_over_shared_terms():
    queries = [{"a": 2.0, "b": 1.0}, {}, {"c": 3.0}]
    documents = [{"a": 0.5, "c": 1.0, "d": 9.0}, {"b": 4.0}, {}]
    expected = [[sum(q[t] * d[t] for t in q.keys() & d.keys()) for d in documents] for q in queries]
    assert score_terms(vectors_of(queries), vectors_of(documents)).tolist() == expected
    keys = {term_key(f"term {number}") for number in range(3000)}
    assert len(keys) == 3000
    assert max(max(key) for key in keys) < 2**24


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_a_batch_are_those_of_an_index(place, tmp_path, kind):
    model = {
        "start": str(place / "encoder"),
        "kind": kind,
        "dropout": 0.0,
        "document_length": 16,
        "query_length": 8,
    }
    task = open_task(place, tmp_path / "out", kind, model=model)
    batch, encoder = task.read(0), task.encoder
    assert float(task.backward(batch)) > 0
    encoder.module.eval()
    with torch.no_grad():
        queries, documents = (
            side.encode(side.pad(side.tokenize(texts), None))
            for side, texts in (
                (encoder.queries, batch.texts.queries),
                (encoder.documents, batch.texts.documents),
            )
        )
        scores = encoder.score(queries, documents)
    task.save(tmp_path / "saved")
    texts = {str(number): text for number, text in enumerate(batch.texts.documents)}
    index = tr.index(texts, tmp_path / "idx", analyzer="standard", weights_model=str(tmp_path / "saved"))
    assert (scores > 0).sum() >= len(scores) - 1  # each query has its own document
    for query, own in zip(batch.texts.queries, scores, strict=True):
        found = dict(index.impact().search(query))
        for docno, score in enumerate(own.tolist()):
            assert found.get(str(docno), 0.0) == pytest.approx(score, rel=2e-3, abs=2e-3)  # of 11 bits
        for best, score in [*found.items()][:1]:
            shown = index.impact().explain(query, best)
            assert shown.value == score
            assert sum(part.value for part in shown.parts) == pytest.approx(score, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_parts_are_those_of_the_whole(place, tmp_path, kind):
    gradients = []
    for chunk in (None, 3):
        optimisation = {"steps": 8, "warm_up": 2, "batch": 6, "chunk": chunk}
        model = {"start": str(place / "encoder"), "kind": kind, "dropout": 0.0, "document_length": 16}
        task = open_task(place, tmp_path / str(chunk), kind, model=model, optimisation=optimisation)
        task.backward(task.read(1))
        gradients.append({n: w.grad for n, w in task.encoder.module.named_parameters() if w.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert len(gradients[0]) > 20
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_learns_and_is_resumed_to_the_same_weights(place, tmp_path, kind):
    changes = {
        "optimisation": {"steps": 16, "batch": 8, "warm_up": 2, "learning_rate": 0.005},
        "dev": {"split": "dev", "every": 8, "measures": "RR@10"},
    }
    config = scored_training(place, kind, **changes)
    train_term_weights(config, tmp_path / "whole")

    def stop(record):
        if record.step == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_term_weights(config, tmp_path / "parts", report=stop)
    model = train_term_weights(config, tmp_path / "parts", resume=True)
    for name in ("model.safetensors", "term_weights.safetensors"):
        whole, parts = (load_file(tmp_path / output / "model" / name) for output in ("whole", "parts"))
        assert all(torch.equal(weight, parts[key]) for key, weight in whole.items())
    values = losses(tmp_path / "whole")
    assert values[16] < 0.7 * values[1]
    assert losses(tmp_path / "parts") == values
    assert losses(tmp_path / "whole", "dev")[16] > 0.8
    index = tr.index(place / "collection", tmp_path / "idx", analyzer="standard", weights_model=str(model))
    assert index.impact().search("d30").docnos[0] in ("d30", "d29")


@pytest.fixture(scope="module")
def expanded(place):
    """The collection with a predicted query in each text, which has the word that its queries have and it lacks."""
    lines = (json.dumps({"id": f"d{i}", "predicted_queries": [f"q{i}"]}) for i in range(40))
    (place / "queries.jsonl").write_text("\n".join(lines))
    data = tr.collection(place / "collection").expanded(place / "queries.jsonl")
    convert(data, place / "expanded", "beir")
    return place / "expanded"


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_an_expanded_collection_weighs_what_the_expansion_brought(place, expanded, tmp_path, kind):
    changes = {
        "data": {"collection": str(expanded)},
        "optimisation": {"steps": 12, "batch": 8, "warm_up": 2, "learning_rate": 0.005},
    }
    model = train_term_weights(scored_training(place, kind, **changes), tmp_path / "out")
    assert losses(tmp_path / "out")[12] < losses(tmp_path / "out")[1]
    settings = {"analyzer": "standard", "weights_model": str(model)}
    plain = tr.index(place / "collection", tmp_path / "plain", **settings)
    index = tr.index(expanded, tmp_path / "idx", **settings)
    assert not plain.impact().search("q30")
    assert index.impact().search("q30").docnos == ("d30",)
    shown = index.impact().explain("d30 q30", "d30")
    weights = {part.what.facts["term"]: part.value for part in shown.parts if "'" in str(part.what)}
    assert weights.keys() == {"d30", "q30"}
    assert min(weights.values()) > 0
    before = plain.impact().explain("d30 q30", "d30")
    assert "'q30': not in the document (df 0)" in str(before)


def test_settings_of_the_other_kind_are_refused(place, tmp_path):
    for kind, changes, words in (
        ("deepct", {"loss": {"scale": 2.0}}, "leave out loss"),
        ("deepct", {"optimisation": {"batch": 4, "chunk": 2}}, "leave out optimisation.chunk"),
        ("unicoil", {"model": {"kind": "unicoil", "scale": 50}}, "leave out word, scale and root"),
        ("deepimpact", {"loss": {"objective": "group-softmax"}}, "set data.negatives or data.triples"),
    ):
        record = {**scored_training(place, kind).model_dump(mode="json"), **changes}
        with pytest.raises(FormatError, match=words):
            tr.train("term-weights", record, tmp_path / "out")
