"""Masked language models: masks by BERT's shares on whole words, transformers' own loss, ordinary folders."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from small_texts import mlm_training, text_place
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertTokenizer

import telerank as tr
from small_models import WORDS, small_encoder
from telerank.errors import CollectionError, FormatError, ModelError
from telerank.models.masked_language import fresh_masked_model, save_masked_model
from telerank.models.precision import precision
from telerank.training.log import read_log
from telerank.training.mlm.config import Masks
from telerank.training.mlm.masks import Masker, PieceWindow
from telerank.training.mlm.texts import cut
from telerank.training.mlm.train import make_masked_task, train_mlm
from telerank.training.parallel import ALONE
from telerank.training.task import TrainingDevice
from telerank.types import silent
from telerank.verbs.train import lengthen

CPU = torch.device("cpu")
MASK, VOCABULARY = 4, 120


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return text_place(tmp_path_factory.mktemp("texts"))


def open_task(place, output, **changes):
    hardware = TrainingDevice(CPU, precision("float32", CPU), ALONE)
    config = mlm_training(place, **changes)
    output.mkdir(exist_ok=True)
    return make_masked_task(None, hardware, silent, config=config, output=output, shared=output)


def masker(**settings) -> Masker:
    return Masker.of(Masks(**settings), MASK, np.arange(5, VOCABULARY), VOCABULARY)


def random_windows(count: int, longest_word: int) -> list[PieceWindow]:
    """Windows of 2 special pieces and 40 others, in words of one to ``longest_word`` pieces."""
    draw = np.random.default_rng(0)
    windows = []
    for _ in range(count):
        starts = np.cumsum([1, *draw.integers(1, longest_word + 1, 40)])
        ids = np.concatenate([[2], draw.integers(5, VOCABULARY, 40), [3]])
        windows.append(PieceWindow(ids, starts[starts < 41], 41))
    return windows


def test_masks_have_the_shares_of_bert():
    windows = random_windows(2000, 1)
    masked = masker()(windows, (0, 1))
    chosen = np.concatenate([own.ids[own.chosen] for own in masked])
    targets = np.concatenate([own.targets for own in masked])
    assert all(len(own.chosen) == 6 for own in masked)  # 15 percent of 40
    assert np.mean(chosen == MASK) == pytest.approx(0.8, abs=0.015)
    assert np.mean(chosen == targets) == pytest.approx(0.1 + 0.1 / 115, abs=0.01)
    for before, after in zip(windows, masked, strict=True):
        rest = np.setdiff1d(np.arange(42), after.chosen)
        assert (after.ids[rest] == before.ids[rest]).all()
        assert (after.targets == before.ids[after.chosen]).all()
        assert not {0, 41} & set(after.chosen.tolist())


def test_all_pieces_of_a_word_are_chosen_or_none():
    windows = random_windows(300, 5)
    total = 0
    for window, own in zip(windows, masker()(windows, (0,)), strict=True):
        chosen = set(own.chosen.tolist())
        for begin, end in pairwise([*window.words.tolist(), window.end]):
            assert len(chosen & set(range(begin, end))) in (0, end - begin)
        total += len(chosen)
        assert 1 <= len(chosen) <= 6
    assert total / 300 > 5  # words that do not fit are passed over for shorter ones


def test_a_window_of_one_long_word_is_masked_whole_and_one_without_choices_not_at_all():
    long = PieceWindow(np.array([2, 7, 8, 9, 3]), np.array([1]), 4)
    (own,) = masker()([long], (0,))
    assert own.chosen.tolist() == [1, 2, 3]
    special = PieceWindow(np.array([2, 7, 1, 3]), np.array([1]), 3)
    assert not len(masker()([special], (0,))[0].chosen)


def test_masks_are_others_in_each_epoch_and_the_same_for_the_same_seed():
    windows = random_windows(20, 2)
    first, again, other = (masker()(windows, seed) for seed in ((0, 1), (0, 1), (0, 2)))
    assert all((a.ids == b.ids).all() for a, b in zip(first, again, strict=True))
    assert sum((a.ids != b.ids).any() for a, b in zip(first, other, strict=True)) > 15


def test_windows_have_every_piece_once_and_begin_with_a_word():
    draw = np.random.default_rng(3)
    for _ in range(50):
        starts = (draw.random(97) < 0.3).astype(int)
        starts[0] = 1
        windows = cut(starts, 16)
        assert [place for begin, end in windows for place in range(begin, end)] == list(range(97))
        for begin, end in windows:
            assert end - begin <= 16
            longest = max(np.diff(np.flatnonzero(np.append(starts, 1))))
            assert starts[begin] or longest > 16
    assert cut(np.array([1] + [0] * 9), 4) == [(0, 4), (4, 8), (8, 10)]
    assert cut(np.array([]), 4) == []


@pytest.mark.parametrize("pieces", [None, 30])
def test_the_loss_and_its_gradient_are_those_of_transformers(place, tmp_path, pieces):
    model = {"start": str(place / "encoder"), "max_length": 24, "dropout": 0.0, "pieces": pieces}
    task = open_task(place, tmp_path / "out", model=model)
    task.save(tmp_path / "saved")
    batch = task.read(3)
    loss = task.backward(batch)
    other = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    logits = other(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    if pieces is None:
        labels = torch.full_like(batch.input_ids, -100)
        labels[batch.chosen] = batch.targets
        expected = other(batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
    else:
        frequencies = np.bincount(
            [
                int(piece)
                for row in range(task.windows.learned)
                for piece in task.windows[row].ids
                if piece > 4
            ],
            minlength=125,
        )
        among = torch.tensor(sorted(sorted(range(125), key=lambda piece: (-frequencies[piece], piece))[:30]))
        log = logits[batch.chosen][:, among].log_softmax(-1)
        expected = -log.gather(1, batch.targets[:, None]).mean()
    expected.backward()
    assert float(loss) == pytest.approx(expected.item(), rel=1e-5)
    named = dict(task.masked.model.named_parameters())
    for name, weight in other.named_parameters():
        torch.testing.assert_close(named[name].grad, weight.grad, rtol=1e-3, atol=1e-6)


def test_a_training_lowers_the_perplexity_and_its_model_starts_others(place, tmp_path):
    config = mlm_training(
        place,
        optimisation={"steps": 40, "batch": 16, "learning_rate": 0.01},
        dev={"documents": 20, "every": 20},
    )
    trained = tr.train("mlm", config.model_dump(mode="json"), tmp_path / "out")
    records = [record for record in read_log(tmp_path / "out" / "log.jsonl") if record.dev is not None]
    assert [record.step for record in records] == [0, 20, 40]
    assert all(record.dev == pytest.approx(math.exp(record.dev_loss)) for record in records)
    assert records[-1].dev < 0.4 * records[0].dev
    (table,) = trained.tables()
    assert [row[0].text for row in table.rows] == ["0", "20", "40"]
    model = AutoModelForMaskedLM.from_pretrained(trained.model)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    start = tmp_path / "out" / "model"
    scored = tr.rerank(  # the same folder, as every other encoder's
        _reranker_from(start, tmp_path / "reranker"), {"a": "d1 d2", "b": "d9"}
    )
    assert len(next(iter(scored([tr.Ranking(tr.Query("1", "d1"), ("a", "b"), (2.0, 1.0))])))) == 2


def _reranker_from(start, folder):
    from telerank.models.rerankers.kinds import Shape
    from telerank.models.rerankers.reranker import fresh_reranker, save_reranker

    save_reranker(fresh_reranker(start, Shape("monobert", max_query=8, max_length=32)), folder)
    return str(folder)


def test_dev_documents_and_their_copies_are_not_learned_from(place, tmp_path):
    draw, file = random.Random(1), tmp_path / "doubled.jsonl"
    texts = [" ".join(draw.choices(WORDS, k=30)) for _ in range(80)]
    docs = [{"docno": f"{name}{n}", "text": text} for name in "ab" for n, text in enumerate(texts)]
    file.write_text("".join(f"{json.dumps(doc)}\n" for doc in docs))
    sets = {"sets": [{"collection": str(file), "documents": 100}]}
    task = open_task(place, tmp_path / "out", data=sets, dev={"documents": 10})
    windows = task.windows
    learned, dev = (
        {tuple(windows[row].ids) for row in rows}
        for rows in (range(windows.learned), range(windows.learned, windows.manifest.windows))
    )
    assert dev
    assert not learned & dev
    counts = json.loads((tmp_path / "out" / "data.json").read_text())
    assert counts["documents"] + counts["copies of dev documents"] + 10 == 100
    assert 1 <= counts["copies of dev documents"] <= 10


def test_an_encoder_without_a_piece_for_masks_gets_one_and_a_row(place, tmp_path):
    start = small_encoder(tmp_path / "encoder")
    names = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[X]", *WORDS))}
    tokenizer = BertTokenizer(vocab=names, model_max_length=64, mask_token=None)
    tokenizer.save_pretrained(start)
    assert AutoTokenizer.from_pretrained(start).mask_token is None
    masked = fresh_masked_model(start, 24)
    table = masked.model.get_input_embeddings().weight
    assert masked.mask_id == len(names) == len(table) - 1
    torch.testing.assert_close(table[-1], table[:-1].mean(0))
    assert masked.last.weight is table
    save_masked_model(masked, tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert again.mask_token_id == masked.mask_id
    assert again("d3 [MASK]")["input_ids"] == [2, names["d3"], masked.mask_id, 3]
    model = mlm_training(place).model.model_copy(update={"start": str(start)})
    train_mlm(mlm_training(place, model=model.model_dump()), tmp_path / "out")


def test_a_longformer_gets_a_head_without_a_bias(place, tmp_path):
    lengthen(place / "encoder", tmp_path / "long", max_length=100, window=20)
    for _ in range(3):  # it was whatever the memory held
        masked = fresh_masked_model(tmp_path / "long", 90)
        assert not masked.model.get_output_embeddings().bias.any()
        assert all(weight.isfinite().all() for weight in masked.model.parameters())


def test_a_fresh_encoder_keeps_only_shape_and_vocabulary(place):
    start = place / "encoder"
    own, drawn, again, other = (
        fresh_masked_model(start, 24, seed=seed, fresh=fresh).model.get_input_embeddings().weight
        for seed, fresh in ((0, False), (0, True), (0, True), (1, True))
    )
    assert own.shape == drawn.shape
    assert torch.equal(drawn, again)
    assert not torch.equal(own, drawn)
    assert not torch.equal(drawn, other)


def test_frozen_embeddings_stay_and_the_rest_learns(place, tmp_path):
    model = {"start": str(place / "encoder"), "max_length": 24, "frozen_embeddings": True}
    train_mlm(mlm_training(place, model=model), tmp_path / "out")
    before, after = (
        AutoModelForMaskedLM.from_pretrained(folder).state_dict()
        for folder in (place / "encoder", tmp_path / "out" / "model")
    )
    words = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(before[words], after[words])
    assert not torch.equal(before[layer := "bert.encoder.layer.0.output.dense.weight"], after[layer])


def test_wrong_settings_of_masks_are_refused(place, tmp_path):
    for changes, words in (
        ({"masks": {"masked": 0.9, "random": 0.2}}, "masked .0.9. and random .0.2. are more than all"),
        ({"model": {"fresh": True, "frozen_embeddings": True}}, "fresh draws the word embeddings anew"),
        ({"dev": {"measures": "AP"}}, "dev.measures"),
        ({"data": {"sets": []}}, "data.sets"),
    ):
        record = {**mlm_training(place).model_dump(mode="json"), **changes}
        with pytest.raises(FormatError, match=words):
            tr.train("mlm", record, tmp_path / "out")


def test_what_cannot_be_learned_from_is_named(place, tmp_path):
    with pytest.raises(ModelError, match="windows of 67 pieces, but the model has 66 positions"):
        open_task(place, tmp_path / "a", model={"start": str(place / "encoder"), "max_length": 67})
    with pytest.raises(ModelError, match="windows of 2 pieces hold 2 special ones"):
        open_task(place, tmp_path / "b", model={"start": str(place / "encoder"), "max_length": 2})
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"docno": "a", "text": ""}\n')
    with pytest.raises(CollectionError, match="no document with a text is left to learn from"):
        open_task(place, tmp_path / "c", data={"sets": [{"collection": str(empty)}]})
