"""Queries that models write: against transformers' own search, and independent of batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from small_models import small_encoder
from small_seq2seq import small_bart, small_t5
from telerank.corpus.derived.kept import DocSource
from telerank.errors import ArgumentError, ModelError
from telerank.expansion import writing
from telerank.expansion.generation import QueryWriter, Writing, _Choice
from telerank.expansion.sampling import Sampling
from telerank.models.seq2seq import fresh_seq2seq, load_seq2seq, save_seq2seq
from telerank.types import Doc, silent

DOCS = [Doc(f"d{n}", " ".join(f"d{n + m} x{m}" for m in range(n + 1))) for n in range(7)] + [Doc("e", " ")]
KINDS = ("t5", "bart", "bert")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_seq2seq(fresh_seq2seq(small_encoder(folder / "encoder"), seed=3), folder / "bert")
    return {"t5": small_t5(folder / "t5"), "bart": small_bart(folder / "bart"), "bert": folder / "bert"}


def write(folder, sampling="top-k=5", queries=3, **settings):
    own = {"max_length": 12, "max_query": 8} | settings
    return QueryWriter(str(folder), Writing(queries, Sampling.parse(sampling), **own))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", ["top-k=5", "top-p=0.8", "beam"])
def test_queries_do_not_depend_on_batches_or_on_other_documents(models, kind, sampling):
    queries, cut = write(models[kind], sampling).predict(DOCS)
    assert [len(each) for each in queries] == [3] * 7 + [0]
    assert cut == sum(2 * (n + 1) + 2 > 12 for n in range(7))
    assert write(models[kind], sampling, batch_tokens=1).predict(DOCS)[0] == queries
    assert write(models[kind], sampling).predict(DOCS[::-1])[0] == queries[::-1]
    if sampling != "beam":
        assert write(models[kind], sampling, seed=1).predict(DOCS)[0] != queries
        assert len({query for each in queries for query in each}) > 15


def test_a_model_that_was_stopped_goes_on_to_the_same_bytes(models, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "WINDOW", 3)
    source = DocSource("texts", len(DOCS), lambda: iter(DOCS))

    def expand(name, predict=QueryWriter.predict):
        model = write(models["t5"])
        monkeypatch.setattr(QueryWriter, "predict", predict)
        writing.write_expansion(source, tmp_path / name, model, None, silent)
        return (tmp_path / name).read_bytes()

    whole, predict = expand("whole"), QueryWriter.predict

    def stop(model, docs):
        if docs[0].docno != "d0":
            raise KeyboardInterrupt
        return predict(model, docs)

    with pytest.raises(KeyboardInterrupt):
        expand("stopped", stop)
    windows = []
    assert expand("stopped", lambda model, docs: windows.append(docs) or predict(model, docs)) == whole
    assert [doc.docno for window in windows for doc in window] == [doc.docno for doc in DOCS[3:]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beams", [1, 3])
def test_greedy_and_beam_are_those_of_transformers(models, kind, beams):
    model = AutoModelForSeq2SeqLM.from_pretrained(models[kind])
    tokenizer = AutoTokenizer.from_pretrained(models[kind])
    sampling = "greedy" if beams == 1 else "beam=3"
    found, _ = write(models[kind], sampling, queries=beams, max_length=60).predict(DOCS[:4])
    for doc, queries in zip(DOCS, found, strict=False):
        own = {
            name: ids for name, ids in tokenizer(doc.text, return_tensors="pt").items() if "type" not in name
        }
        ids = model.generate(
            **own, max_new_tokens=8, num_beams=beams, num_return_sequences=beams, do_sample=False
        )
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        assert queries == [text for text in texts if text]


@pytest.mark.parametrize("sampling", ["top-k=3", "top-p=0.75", "greedy"])
def test_pieces_are_drawn_as_often_as_their_shares_say(sampling):
    shares = torch.tensor([0.05, 0.4, 0.1, 0.25, 0.2], dtype=torch.float64)
    numbers = torch.linspace(0, 1, 2001, dtype=torch.float64)[:-1, None]
    choose = _Choice(Sampling.parse(sampling), numbers)
    chosen = choose(None, shares.log().float().expand(2000, 5)).argmax(1).tolist()
    kept = {"top-k=3": [1, 3, 4], "top-p=0.75": [1, 3, 4], "greedy": [1]}[sampling]
    expected = {piece: float(shares[piece] / shares[kept].sum()) for piece in kept}
    found = {piece: count / 2000 for piece, count in Counter(chosen).items()}
    assert found == pytest.approx(expected, abs=2e-3)


def test_an_encoder_becomes_two_halves_that_begin_as_it(models, tmp_path):
    folder = small_encoder(tmp_path / "encoder")
    both = fresh_seq2seq(folder, seed=3)
    assert both.fingerprint == load_seq2seq(models["bert"]).fingerprint
    assert both.fingerprint != fresh_seq2seq(folder, seed=4).fingerprint  # what is drawn
    encoder, decoder = both.model.encoder.state_dict(), both.model.decoder.state_dict()
    for name, weight in encoder.items():
        assert torch.equal(decoder[f"bert.{name}"], weight)
    assert both.longest == 64
    with pytest.raises(ModelError, match="a model of the kind mpnet cannot be a decoder"):
        fresh_seq2seq(small_encoder(tmp_path / "mpnet", "mpnet"))
    with pytest.raises(ModelError, match=r"expected a model that writes texts .*, got bert"):
        load_seq2seq(folder)


def test_targets_end_once_and_do_not_begin_with_the_first_piece(models):
    for kind in KINDS:
        model = load_seq2seq(models[kind])
        ids = model.frame_target("q1 q2 q3", 64)
        assert ids.count(model.eos_id) == 1
        assert ids[-1] == model.eos_id
        assert ids[0] != model.start_id
        assert model.tokenizer.decode(ids, skip_special_tokens=True) == "q1 q2 q3"
        assert model.frame_target("q1 q2 q3", 2)[-1] == model.eos_id
        assert len(model.frame_target("q1 q2 q3", 2)) == 2


def test_wrong_settings_are_one_line(models):
    for text in ("top-k", "top-k=0", "top-k=1.5", "top-p=0", "top-p=2", "beam=x", "random", "greedy=2", ""):
        with pytest.raises(ArgumentError, match="sampling: expected top-k=10"):
            Sampling.parse(text)
    with pytest.raises(ArgumentError, match="greedy finds one query"):
        Sampling.parse("greedy").check(2)
    with pytest.raises(ArgumentError, match="a beam of 3 finds no more"):
        Sampling.parse("beam=3").check(4)
    with pytest.raises(ModelError, match="max_length is 600, but it has 64 positions"):
        write(models["bert"], max_length=600).predict(DOCS[:1])
    assert np.isfinite(write(models["t5"]).settings["seed"])
