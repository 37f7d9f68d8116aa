"""Readers: made from encoders of any kind, saved, loaded, and their windows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from small_models import ARCHITECTURES, small_tokenizer
from small_readers import SMALL, TOKENIZERS, reader_with, small_reader
from small_rerankers import small_reranker
from telerank.errors import ModelError
from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder
from telerank.models.pairs.pair import PairTokenizer, batch_of
from telerank.models.readers import (
    SETTINGS,
    Context,
    ReaderSettings,
    cut_windows,
    find_tokens,
    fresh_reader,
    load_reader,
    save_reader,
    tokenize_contexts,
)
from telerank.models.rerankers.reranker import save_reranker
from telerank.models.rerankers.transformer_ranker import inputs_of

SMALL_SETTINGS = ReaderSettings(**SMALL)
QUESTION, TEXT = "q1 q2", "d1 d2 x3 d4 x5"


def logits(reader):
    (context,) = tokenize_contexts(reader.texts, [TEXT])
    (question,) = reader.texts.queries([QUESTION])
    (window,) = cut_windows(reader.texts, question, context, reader.settings.stride)
    batch = batch_of([window.pair], reader.texts.pad_id)
    inputs = inputs_of(reader.model, batch.input_ids, batch.attention_mask, batch.token_type_ids)
    with torch.no_grad():
        outputs = reader.model(**inputs)
    return torch.stack([outputs.start_logits, outputs.end_logits])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_saved_reader_loads_with_the_same_logits_here_and_in_transformers(encoders, tmp_path, architecture):
    reader = fresh_reader(encoders(architecture), SMALL_SETTINGS, seed=1)
    save_reader(reader, tmp_path)
    loaded = load_reader(tmp_path)
    assert loaded.settings == reader.settings
    assert torch.equal(logits(loaded), logits(reader))
    assert loaded.fingerprint == reader.fingerprint
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path)
    tokens = AutoTokenizer.from_pretrained(tmp_path)(QUESTION, TEXT, return_tensors="pt")
    with torch.no_grad():
        outputs = theirs(**tokens)
    assert torch.allclose(logits(loaded), torch.stack([outputs.start_logits, outputs.end_logits]), atol=1e-5)


@pytest.fixture
def saved(encoders, tmp_path):
    save_reader(fresh_reader(encoders(), SMALL_SETTINGS, seed=1), tmp_path / "saved")
    return tmp_path / "saved"


def test_a_reader_of_transformers_opens_with_the_lengths_that_it_can_read(saved):
    (saved / SETTINGS).unlink()
    settings = load_reader(saved).settings
    assert settings == ReaderSettings(max_length=32, stride=10, max_question=16)
    assert settings.threshold is None  # it answers always until a threshold is fitted


def test_the_seed_draws_the_layer_and_nothing_else(encoders):
    first, same, other = (fresh_reader(encoders(), SMALL_SETTINGS, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(logits(first), logits(same))
    assert not torch.equal(logits(first), logits(other))
    weights, others = (reader.model.bert.state_dict() for reader in (first, other))
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())


@pytest.mark.parametrize("kind", ["monobert", "bert", "bert-dmn"])
def test_a_reader_starts_from_a_reranker(tmp_path, kind):
    reranker = small_reranker(tmp_path, kind, **({"head": {"hidden": 8}} if kind == "bert-dmn" else {}))
    save_reranker(reranker, tmp_path / "reranker")
    reader = fresh_reader(tmp_path / "reranker", SMALL_SETTINGS)
    theirs = reranker.parts.transformer
    encoder = getattr(theirs, "bert", theirs).state_dict()
    weights = reader.model.bert.state_dict()
    assert all(torch.equal(weights[name], encoder[name]) for name in weights.keys() & encoder.keys())
    assert reader.model.qa_outputs.weight.shape == (2, 32)


def test_a_reader_starts_from_a_bi_encoder_and_from_a_reader_with_another_dropout(encoders, tmp_path):
    save_bi_encoder(*load_bi_encoder(encoders()), tmp_path / "bi")
    reader = fresh_reader(tmp_path / "bi", SMALL_SETTINGS, seed=5)
    save_reader(reader, tmp_path / "reader")
    again = fresh_reader(tmp_path / "reader", SMALL_SETTINGS, seed=6, dropout=0.25)
    assert torch.equal(logits(again), logits(reader))  # it keeps its layer
    assert again.model.config.hidden_dropout_prob == 0.25


def test_folders_that_hold_no_reader_are_refused_in_one_line(encoders, saved):
    expected = r"expected a reader \(…ForQuestionAnswering\), got BertModel: train"
    with pytest.raises(ModelError, match=expected):
        load_reader(encoders())
    weights = load_file(saved / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "qa_outputs" not in name}
    save_file(kept, saved / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"2 weights are missing, qa_outputs\.bias the first"):
        load_reader(saved)
    config = json.loads((saved / "config.json").read_text())
    labels = {"id2label": {str(n): f"l{n}" for n in range(3)}, "label2id": {f"l{n}": n for n in range(3)}}
    (saved / "config.json").write_text(json.dumps(config | labels))
    with pytest.raises(ModelError, match="two logits for a token, start and end, got 3"):
        load_reader(saved)


def test_damaged_settings_are_named(saved):
    (saved / SETTINGS).write_text('{"max_lenght": 3}')
    with pytest.raises(ModelError, match=r"reader.json: expected .*max_lenght"):
        load_reader(saved)


def test_a_tokenizer_without_offsets_is_refused_in_one_line(saved, monkeypatch):
    """A tokenizer written in Python gives no offsets."""

    class Slow:
        is_fast, model_max_length = False, 64

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: Slow())
    with pytest.raises(ModelError, match=r"saved: expected a tokenizer.json, or files to convert to one"):
        load_reader(saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 67}, "pairs of 67 tokens, but the model has 66 positions"),
        ({"stride": 21}, "leave 21 of a context, not more than the stride of 21"),
        ({"max_question": 29}, "leave no room"),
        ({"max_answer": 0}, "max_answer must be at least 1, got 0"),
        ({"stride": -1}, "stride must be at least 0, got -1"),
        ({"threshold": float("nan")}, "threshold must be a finite number, got nan"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0, got 0.0"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, changes, message):
    reader = small_reader(tmp_path)
    for change in (lambda: small_reader(tmp_path, **changes), lambda: reader.with_settings(**changes)):
        with pytest.raises(ModelError, match=message):
            change()


def test_windows_are_those_of_transformers(encoders):
    reader = fresh_reader(encoders(), SMALL_SETTINGS)
    for length in (0, 1, 5, 26, 27, 28, 60, 200):
        text = " ".join(f"d{n % 40}" for n in range(length))
        (context,) = tokenize_contexts(reader.texts, [text])
        (question,) = reader.texts.queries(["q1 q2"])
        windows = cut_windows(reader.texts, question, context, reader.settings.stride)
        theirs = reader.texts.tokenizer(
            "q1 q2",
            text,
            truncation="only_second",
            max_length=32,
            stride=8,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        expected = theirs["input_ids"] if length else []
        assert [window.pair.ids.tolist() for window in windows] == expected
        for number, window in enumerate(windows):
            offsets = context.offsets[window.first : window.first + window.count].tolist()
            mapped = theirs["offset_mapping"][number][window.begin : window.begin + window.count]
            assert offsets == list(map(list, mapped))


@given(length=st.integers(0, 300), room=st.integers(1, 40), stride=st.integers(0, 39))
def test_each_token_counts_in_the_window_with_most_context(length, room, stride):
    texts = PairTokenizer(small_tokenizer("bert"), max_query=1, max_length=room + 4)
    context = Context("", np.zeros(length, np.int32), np.zeros((length, 2), np.int64))
    windows = cut_windows(texts, np.ones(1, np.int32), context, min(stride, room - 1))
    ends = [window.first + window.count for window in windows]
    assert not length or (windows[0].first == 0 and ends[-1] == length and max([0, *ends[:-1]]) < length)
    for token in range(length):
        around = [
            (min(token - window.first, end - 1 - token), -number)
            for number, (window, end) in enumerate(zip(windows, ends, strict=True))
            if window.first <= token < end
        ]
        owner = -max(around)[1]
        for number, window in enumerate(windows):
            if window.first <= token < ends[number]:
                assert window.counts[token - window.first] == (number == owner)


def test_a_long_question_is_cut_and_counted(encoders):
    reader = fresh_reader(encoders(), SMALL_SETTINGS)
    (question,) = reader.texts.queries([" ".join(["q1"] * 30)])
    (context,) = tokenize_contexts(reader.texts, ["d1 d2"])
    (window,) = cut_windows(reader.texts, question, context, 8)
    assert window.pair.cut_query == 22
    assert len(window.pair) == 1 + 8 + 1 + 2 + 1


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(max_examples=60)
@given(data=st.data(), text=st.text(st.sampled_from("aélﬁ’ \n漢́ש😀"), max_size=40))
def test_the_tokens_of_characters_cover_them(tokenizers, tokenizer, data, text):
    (context,) = tokenize_contexts(tokenizers[tokenizer], [text])
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    tokens = find_tokens(context, start, end)
    inside = [
        number for number, (a, b) in enumerate(context.offsets.tolist()) if a < b and b > start and a < end
    ]
    assert tokens == ((inside[0], inside[-1]) if inside else None)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    root = tmp_path_factory.mktemp("readers")
    return {name: reader_with(root, name).texts for name in TOKENIZERS}
