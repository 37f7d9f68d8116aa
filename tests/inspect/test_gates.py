"""Gates of one pair, sentence by sentence."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from gated_models import SENTENCES, gates_alone, pairs_of, tiny_dmn  # noqa: E402

from small_models import small_encoder  # noqa: E402
from small_rerankers import with_a_shared_token  # noqa: E402
from telerank.errors import CollectionError, ModelError  # noqa: E402
from telerank.inspect.gates import read_gates  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.rerankers.kinds import Shape  # noqa: E402
from telerank.models.rerankers.reranker import (  # noqa: E402
    SETTINGS,
    fresh_reranker,
    load_reranker,
    save_reranker,
)


@pytest.mark.parametrize("settings", [{}, {"gate": "kumar"}, {"gate": "authors"}])
@pytest.mark.parametrize("kind", ["bert-dmn", "dmn"])
def test_each_sentence_has_the_gates_that_the_model_used_for_it(tmp_path, kind, settings):
    reranker = tiny_dmn(tmp_path, kind, **settings)
    passage = " ".join(SENTENCES[:4])
    found = read_gates(reranker, "q1 q2", passage)
    assert [one.text for one in found.sentences] == SENTENCES[:4]
    (pair,) = pairs_of(reranker, [("q1 q2", passage)])
    with torch.no_grad():
        logit = reranker.model(batch_of([pair], 0))
    for one, gates in zip(found.sentences, zip(*gates_alone(reranker, pair), strict=True), strict=True):
        assert one.gates == pytest.approx(gates, abs=1e-6)
    assert (found.logit, found.episodes, found.cut) == (pytest.approx(logit.item(), abs=1e-6), 3, 0)
    for episode in range(3 if settings != {"gate": "kumar"} else 0):  # Kumar et al.'s are not shared out
        assert sum(one.gates[episode] for one in found.sentences) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("settings", [{"gate": "kumar"}, {"gate": "authors"}])
def test_a_saved_model_says_its_variant_and_an_old_one_has_the_default(tmp_path, settings):
    pairs = ("q1 q2", " ".join(SENTENCES[:3]))
    for name, own in (("plain", {}), ("other", settings)):
        reranker = tiny_dmn(tmp_path / f"start-{name}", **own)
        save_reranker(reranker, tmp_path / name)
        loaded = load_reranker(tmp_path / name)
        assert read_gates(loaded, *pairs) == read_gates(reranker, *pairs)
        assert loaded.shape == reranker.shape
    record = json.loads((tmp_path / "plain" / SETTINGS).read_text(encoding="utf-8"))
    assert record["head"] == {"hidden": 16, "episodes": 3}  # as models had it before there were variants


def test_what_the_model_does_not_read_has_no_gates(tmp_path):
    found = read_gates(tiny_dmn(tmp_path, max_length=20), "q1 q2", " ".join(SENTENCES))
    assert len(found.sentences) == 12
    read = [bool(one.gates) for one in found.sentences]
    assert read == sorted(read, reverse=True)
    assert 0 < sum(read) < 12
    assert found.cut > 0


def test_a_sentence_without_a_token_takes_no_other_ones_gates(tmp_path):
    reranker = tiny_dmn(tmp_path)
    found = read_gates(reranker, "q1", "d1 d2.\n\x07\nd3 d4.")
    plain = read_gates(reranker, "q1", "d1 d2.\nd3 d4.")
    assert [len(one.gates) for one in found.sentences] == [3, 0, 3]
    assert [one.gates for one in found.sentences if one.gates] == [one.gates for one in plain.sentences]


def test_gates_of_sentences_that_share_a_token_are_refused(tmp_path):
    with pytest.raises(ModelError, match="3 sentences, but 2 by their tokens: a token spans several"):
        read_gates(with_a_shared_token(tiny_dmn(tmp_path)), "q1", "d1 d2. d3 d4. d5.")


def test_a_model_without_gates_and_a_passage_without_sentences_are_refused(tmp_path):
    plain = fresh_reranker(small_encoder(tmp_path / "plain"), Shape("bert", max_query=8, max_length=32))
    with pytest.raises(ModelError, match="a bert has no gates"):
        read_gates(plain, "q1", "d1.")
    with pytest.raises(CollectionError, match="the passage has no sentence"):
        read_gates(plain, "q1", "  ")
