"""Cosines of tokens' outputs, beside the same computed one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from gated_models import pairs_without_sentences, tiny_dmn  # noqa: E402

from small_models import ARCHITECTURES, small_encoder  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.inspect.diffusion import KINDS, measure_diffusion  # noqa: E402
from telerank.inspect.drawn_pairs import iterate_batches, open_checkpoint  # noqa: E402
from telerank.models.rerankers.kinds import Shape  # noqa: E402
from telerank.models.rerankers.reranker import fresh_reranker, save_reranker  # noqa: E402

TEXTS = [
    ("q1 q2", "d1 d2 d3 d4"),
    ("q3", "d5"),
    ("q4 q5 q6", " ".join(f"d{n}" for n in range(12))),
    ("q7 q8", " ".join(f"x{n}" for n in range(40))),
]
SMALL = {"max_query": 8, "max_length": 32}


def made(folder, kind="monobert", architecture="bert"):
    return fresh_reranker(small_encoder(folder, architecture), Shape(kind, **SMALL))


def pairs_of(reranker, texts=TEXTS):
    return pairs_without_sentences(reranker, *zip(*texts, strict=True))


def cosines_one_by_one(reranker, pairs):
    """Every pair alone, every two tokens alone, in float64, from transformers' own hidden states."""
    model = reranker.model
    whole = model.classifier if reranker.shape.kind == "monobert" else model.encoder
    found = {kind: [] for kind in KINDS}
    for pair in pairs:
        inputs = {"input_ids": torch.tensor(pair.ids[None]).long()}
        if getattr(whole.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = torch.tensor(pair.types[None]).long()
        with torch.no_grad():
            states = whole(**inputs, output_hidden_states=True).hidden_states[-1][0].double().numpy()
        tokens = [list(states[pair.parts == part]) for part in (1, 2)]
        found["CLS-query"] += [cosine(states[0], one) for one in tokens[0]]
        found["CLS-passage"] += [cosine(states[0], one) for one in tokens[1]]
        found["inner-passage"] += [cosine(a, b) for a, b in itertools.combinations(tokens[1], 2)]
    return found


def cosine(a, b):
    return float(a @ b / math.sqrt(a @ a) / math.sqrt(b @ b))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["monobert", "bert"])
def test_spreads_are_those_of_cosines_computed_one_by_one(tmp_path, architecture, kind):
    reranker = made(tmp_path, kind, architecture)
    pairs = pairs_of(reranker)
    slow = cosines_one_by_one(reranker, pairs)
    found = measure_diffusion(reranker, pairs, batch_tokens=64)
    for name in KINDS:
        spread, values = found.spreads[name], np.array(slow[name])
        assert spread.count == len(values)
        assert spread.mean == pytest.approx(values.mean(), abs=1e-6)
        quartiles = np.quantile(values, [0.25, 0.5, 0.75], method="inverted_cdf")
        assert (spread.first, spread.median, spread.third) == pytest.approx(quartiles, abs=1e-4)
        reach = 1.5 * (quartiles[2] - quartiles[0])
        assert spread.low == pytest.approx(values[values >= quartiles[0] - reach].min(), abs=1e-4)
        assert spread.high == pytest.approx(values[values <= quartiles[2] + reach].max(), abs=1e-4)


def test_what_is_cut_is_counted_and_one_token_has_no_inner_cosine(tmp_path):
    reranker = made(tmp_path)
    found = measure_diffusion(reranker, pairs_of(reranker))
    assert (found.pairs, found.cut) == (4, 1)
    alone = measure_diffusion(reranker, pairs_of(reranker, [("q1", "d1")])).spreads["inner-passage"]
    assert alone.count == 0
    assert math.isnan(alone.mean)


def test_an_encoder_without_a_head_reads_the_tokens_of_those_it_is_compared_with(tmp_path):
    start = small_encoder(tmp_path / "start")
    trained = fresh_reranker(start, Shape("bert", **SMALL))
    save_reranker(trained, tmp_path / "trained")
    before = open_checkpoint(start, like=trained.shape)
    pairs = pairs_of(before)
    assert [one.ids.tolist() for one in pairs] == [one.ids.tolist() for one in pairs_of(trained)]
    assert measure_diffusion(before, pairs) == measure_diffusion(open_checkpoint(tmp_path / "trained"), pairs)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_an_encoder_of_few_positions_is_opened_for_all_of_them(tmp_path, architecture):
    shape = open_checkpoint(small_encoder(tmp_path, architecture)).shape
    assert (shape.max_query, shape.max_length) == (32, 64)


def test_a_model_over_word_vectors_has_no_outputs_to_look_at(tmp_path):
    reranker = tiny_dmn(tmp_path, "dmn")
    with pytest.raises(ModelError, match="a dmn has no transformer"):
        measure_diffusion(reranker, pairs_of(reranker))


def test_batches_hold_their_tokens_and_every_pair_once(tmp_path):
    pairs = pairs_of(made(tmp_path))
    found = list(iterate_batches(pairs, 0, 40, label="reading"))
    assert sorted(place for places, _ in found for place in places) == [0, 1, 2, 3]
    assert all(batch.input_ids.numel() <= 40 for _, batch in found)
