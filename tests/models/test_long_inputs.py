"""Encoders of long texts: Longformers against dense attention, those made of others, QDS, TKL, and rotary positions."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModel, AutoModelForSequenceClassification

import telerank as tr
from long_texts import said
from resumed_training import check_resumed
from small_models import WORDS, save_vectors, small_encoder
from small_rerankers import pairs as made_pairs
from small_rerankers import small_reranker
from telerank.cli.main import app
from telerank.errors import ModelError
from telerank.models.loading import read_encoder
from telerank.models.long.qds import find_global
from telerank.models.pairs.pair import QUERY, batch_of
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, load_reranker, save_reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import explain_score
from telerank.reranking.texts import make_pairs
from telerank.text.sentences import split_sentences
from telerank.verbs.train import lengthen

SHAPES = ("bert", "roberta", "camembert", "xlm-roberta")
PAIRS = [("q1 q2", said(30)), ("q3", "d4. d5 d6. d7 d8"), ("q1 q2 q3", said(17))]


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """Gives the folder of a small encoder, as it is or made long for 200 tokens and windows of 16 or 128."""
    folder = tmp_path_factory.mktemp("starts")

    def start(architecture, window=0):
        if not (plain := folder / architecture).exists():
            small_encoder(plain, architecture)
        target = folder / f"{architecture}-{window}"
        if window and not target.exists():
            lengthen(plain, target, max_length=200, window=window)
        return target if window else plain

    return start


def masked_outputs(folder, batch, allowed):
    """The outputs of a small BERT's or RoBERTa's layers if token i sees token j where ``allowed``, (B, L, L)."""
    encoder = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    inputs = {"input_ids": batch.input_ids, "attention_mask": mask.unsqueeze(1)}
    with torch.no_grad():
        return encoder(**inputs, token_type_ids=_types(encoder, batch)).last_hidden_state


def _types(encoder, batch):
    return batch.token_type_ids if encoder.config.type_vocab_size > 1 else torch.zeros_like(batch.input_ids)


@pytest.mark.parametrize("architecture", SHAPES)
def test_a_lengthened_encoder_gives_the_same_on_texts_of_half_a_window(starts, architecture):
    plain, long = (Shape("bert", max_query=8, max_length=length) for length in (60, 200))
    before = fresh_reranker(starts(architecture), plain)
    after = fresh_reranker(starts(architecture, 128), long)
    batch = batch_of(make_pairs(before, PAIRS), before.texts.pad_id)
    with torch.no_grad():
        outputs = [own.model.token_outputs(batch) for own in (before, after)]
    real = batch.attention_mask.bool()
    torch.testing.assert_close(outputs[0][real], outputs[1][real], rtol=1e-4, atol=2e-5)
    assert Scorer(after).score([("q1", said(180))]).shape == (1,)


def test_positions_are_repeated_and_global_projections_are_copies(starts):
    for architecture, first in (("bert", 0), ("roberta", 2)):
        before, after = (read_encoder(starts(architecture, window), None) for window in (0, 128))
        rows = before.embeddings.position_embeddings.weight[first:]
        table = after.embeddings.position_embeddings
        own = table.weight[table.padding_idx + 1 :]
        assert len(own) == 200
        assert all(
            torch.equal(own[place], rows[place % len(rows)]) for place in (0, 1, 63, 64, 65, 66, 130, 199)
        )
        attention = after.encoder.layer[1].attention.self
        assert torch.equal(attention.key.weight, attention.key_global.weight)
        assert attention.key.weight.data_ptr() != attention.key_global.weight.data_ptr()


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_lengthened_re_ranker_keeps_its_scores_and_settings(tmp_path, architecture):
    texts = made_pairs(6, longest=30)
    for kind in ("monobert", "bert"):
        reranker = small_reranker(tmp_path / kind, kind, architecture)
        save_reranker(reranker, tmp_path / kind / "saved")
        lengthen(tmp_path / kind / "saved", tmp_path / kind / "long", max_length=150, window=120)
        long = load_reranker(tmp_path / kind / "long")
        assert (long.shape.max_length, long.shape.max_query) == (150, 8)
        assert Scorer(long).score(texts).tolist() == pytest.approx(
            Scorer(reranker).score(texts).tolist(), abs=2e-5
        )


@pytest.mark.parametrize("kind", ["bert", "monobert"])
def test_the_first_token_of_a_long_re_ranker_sees_all(starts, kind):
    """A window of 16 and two layers: without global attention it would see 16 tokens."""
    reranker = fresh_reranker(starts("bert", 16), Shape(kind, max_query=8, max_length=150))
    pairs = make_pairs(reranker, [("q1", said(60)), ("q1", said(59) + " d9")])
    batch = batch_of(pairs, reranker.texts.pad_id)
    assert (batch.input_ids[0] != batch.input_ids[1]).nonzero().min() > 50
    with torch.no_grad():
        for outputs in (reranker.model.token_outputs(batch)[:, 0], reranker.model(batch)):
            assert not torch.equal(outputs[0], outputs[1])


def test_lengths_that_no_model_has_are_refused(starts, tmp_path):
    (tmp_path / "file").touch()
    for output, lengths, says in (
        ("out", {"max_length": 0}, "max_length of a window's 512 tokens at least, got 0"),
        ("out", {"max_length": 10**13}, "expected max_position_embeddings up to"),
        ("out", {"window": 5}, "a window has an even number"),
        ("file", {}, "file is no folder"),
    ):
        with pytest.raises(ModelError, match=says):
            lengthen(starts("bert"), tmp_path / output, **lengths)
    assert not (tmp_path / "out").exists()


def test_padding_is_that_of_the_tokenizer(tmp_path):
    small_encoder(tmp_path / "encoder")
    lengthen(tmp_path / "encoder", tmp_path / "before", max_length=150, window=120)
    config = tmp_path / "encoder" / "config.json"
    config.write_text(config.read_text().replace('"pad_token_id": 0', '"pad_token_id": 7'))
    assert AutoModel.from_pretrained(tmp_path / "encoder").config.pad_token_id == 7
    lengthen(tmp_path / "encoder", tmp_path / "long", max_length=150, window=120)
    assert AutoModel.from_pretrained(tmp_path / "long").config.pad_token_id == 0


def test_qds_attends_as_dense_attention_under_its_mask(starts):
    """A window of 16: eight tokens on each side; the query and the beginnings of sentences see and are seen."""
    shape = Shape("qds", max_query=8, max_length=60)
    reranker = fresh_reranker(starts("bert", 16), shape)
    batch = batch_of(make_pairs(reranker, PAIRS), reranker.texts.pad_id)
    chosen, real = find_global(batch).bool(), batch.attention_mask.bool()
    places = torch.arange(chosen.shape[1])
    near = (places[:, None] - places).abs() <= 8
    allowed = (near | chosen[:, :, None] | chosen[:, None, :]) & real[:, None, :]
    assert not allowed[0][real[0]][:, real[0]].all()  # so that there is something to test
    with torch.no_grad():
        outputs = reranker.model.token_outputs(batch)
    expected = masked_outputs(starts("bert"), batch, allowed)
    torch.testing.assert_close(outputs[real], expected[real], rtol=1e-4, atol=2e-5)


def test_qds_marks_the_first_token_queries_and_beginnings_of_sentences(starts):
    reranker = fresh_reranker(starts("bert", 16), Shape("qds", max_query=8, max_length=60))
    (pair,) = make_pairs(reranker, [("q1 q2", "d4. d5 d6. d7 d8")])
    batch = batch_of([pair], 0, len(pair) + 3)
    tokens = reranker.texts.tokenizer.convert_ids_to_tokens(pair.ids)
    marked = [token for token, own in zip(tokens, find_global(batch)[0].tolist(), strict=False) if own]
    assert marked == ["[CLS]", "q1", "q2", "d4", "d5", "d7"]
    assert find_global(batch)[0, len(pair) :].sum() == 0
    assert (batch.parts == QUERY).sum() == 2


def test_qds_is_scored_saved_and_trained_as_every_re_ranker(starts, tmp_path):
    reranker = fresh_reranker(starts("bert", 16), Shape("qds", max_query=8, max_length=60))
    together = Scorer(reranker).score(PAIRS).tolist()
    assert together == pytest.approx([Scorer(reranker).score([pair])[0] for pair in PAIRS], abs=1e-5)
    save_reranker(reranker, tmp_path / "saved")
    assert Scorer(load_reranker(tmp_path / "saved")).score(PAIRS).tolist() == pytest.approx(
        together, abs=1e-6
    )
    assert reranker.refuses("openvino") == "directs its attention by the words of each pair"
    scorer = Scorer(reranker)
    whole = explain_score(scorer, *PAIRS[1])
    assert whole.value == pytest.approx(together[1], abs=1e-5)
    (start, end), *others = split_sentences(PAIRS[1][1], "en")
    left = scorer.score([("q3", PAIRS[1][1][:start] + PAIRS[1][1][end:])])[0]
    sentences = whole.parts[-1].parts
    assert sentences[0].value == pytest.approx(together[1] - left, abs=1e-5)
    assert len(sentences) == 1 + len(others)
    model = {"kind": "qds", "start": str(starts("bert", 16)), "max_query": 8, "max_length": 60}
    check_resumed(tmp_path, model)
    with pytest.raises(ModelError, match="a qds starts from a Longformer, got BertModel; make one of it"):
        fresh_reranker(starts("bert"), Shape("qds", max_query=8, max_length=60))


@pytest.mark.parametrize("architecture", ["longformer", "modernbert"])
def test_ordinary_encoders_of_long_inputs_are_re_rankers_at_any_length_they_were_made_for(
    tmp_path, architecture
):
    longest = 700 + 2 * (architecture == "longformer")  # which counts positions from 2
    start = small_encoder(tmp_path / "encoder", architecture, longest=longest)
    reranker = fresh_reranker(start, Shape("monobert", max_query=8, max_length=700))
    texts = [("q1", said(650)), ("q2", said(12))]
    scores = Scorer(reranker).score(texts).tolist()
    assert scores == pytest.approx([Scorer(reranker).score([pair])[0] for pair in texts], abs=1e-5)
    changed = Scorer(reranker).score([("q1", said(649) + " x1")])
    assert abs(changed[0] - scores[0]) > 1e-7  # the end is read
    save_reranker(reranker, tmp_path / "saved")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    for pair, score in zip(make_pairs(reranker, texts), scores, strict=True):
        ids = torch.as_tensor(pair.ids, dtype=torch.long)[None]
        first = torch.zeros_like(ids)
        first[:, 0] = 1
        own = {"global_attention_mask": first} if architecture == "longformer" else {}
        with torch.no_grad():
            logits = theirs(input_ids=ids, attention_mask=torch.ones_like(ids), **own).logits[0]
        assert score == pytest.approx(
            float(logits[-1] - logits[0]) if len(logits) > 1 else float(logits[0]), abs=1e-5
        )
    shown = explain_score(Scorer(reranker), *texts[1])
    assert shown.value == pytest.approx(scores[1], abs=1e-5)
    (first, end), *_ = split_sentences(texts[1][1], "en")
    left = Scorer(reranker).score([("q2", texts[1][1][:first] + texts[1][1][end:])])[0]
    assert shown.parts[-1].parts[0].value == pytest.approx(scores[1] - left, abs=1e-5)
    check_resumed(tmp_path, {"kind": "monobert", "start": str(start), "max_query": 8, "max_length": 60})
    (tmp_path / "saved" / "reranker.json").unlink()  # as any folder of the hub
    assert load_reranker(tmp_path / "saved").shape.max_length == 512
    scored = tr.rerank(str(tmp_path / "saved"), {"a": said(650), "b": "d1"}, max_length=700, max_query=8)
    (ranking,) = scored([tr.Ranking(tr.Query("1", "q1"), ("a", "b"), (2.0, 1.0))])
    assert dict(ranking)["a"] == pytest.approx(scores[0], abs=1e-5)
    if architecture == "longformer":
        assert reranker.refuses("onnx") == "is a Longformer, whose windows are cut for each batch"
        assert not reranker.refuses("torch")
    with pytest.raises(ModelError, match="pairs of 701 tokens, but the model has 700 positions"):
        fresh_reranker(start, Shape("monobert", max_query=8, max_length=701))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors") / "words"
    torch.manual_seed(0)
    save_vectors(folder, WORDS, torch.randn(len(WORDS) + 2, 8))
    return folder


TKL = {"heads": 2, "inner": 6}


def test_tkl_reads_long_documents_and_names_the_regions_of_its_score(vectors, tmp_path):
    reranker = fresh_reranker(vectors, Shape("tkl", max_query=8, max_length=4008, head=TKL))
    text = " ".join(["d1"] * 1000 + ["q1 q2"] + ["d1"] * 500)
    scorer = Scorer(reranker)
    together = scorer.score([("q1 q2", text), ("q1 q2", "d1 q1"), ("q1", "")]).tolist()
    alone = [Scorer(reranker).score([pair])[0] for pair in (("q1 q2", text), ("q1 q2", "d1 q1"), ("q1", ""))]
    assert together == pytest.approx(alone, rel=1e-4)
    assert together[2] == 0
    save_reranker(reranker, tmp_path / "saved")
    assert Scorer(load_reranker(tmp_path / "saved")).score([("q1 q2", text)])[0] == together[0]
    shown = explain_score(scorer, "q1 q2", text).parts[0].parts
    assert len(shown) == 3
    assert sum(part.value for part in shown) == pytest.approx(together[0], rel=1e-4)
    assert all("the best window and its neighbours" in str(part.what) for part in shown)
    model = {"kind": "tkl", "start": str(vectors), "max_query": 8, "max_length": 60, "head": TKL}
    check_resumed(tmp_path, model)
    with pytest.raises(ModelError, match="these are no settings of a tkl: 3 heads on vectors of 8"):
        fresh_reranker(vectors, Shape("tkl", max_query=8, max_length=60, head={"heads": 3}))


def test_every_weight_of_tkl_learns(vectors):
    reranker = fresh_reranker(vectors, Shape("tkl", max_query=8, max_length=200, head=TKL))
    batch = batch_of(make_pairs(reranker, [("q1 q2", said(150)), ("q3", said(90))]), 0)
    reranker.model(batch).pow(2).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in reranker.model.parameters())


@pytest.mark.parametrize(
    ("architecture", "options", "message"),
    [
        ("mpnet", {}, "expected an encoder or a re-ranker of the shape of bert, roberta, .* got MPNetModel"),
        ("bert", {"window": 7}, "a window has an even number of tokens, half of them on each side: got 7"),
    ],
)
def test_what_cannot_be_lengthened_is_named(starts, tmp_path, architecture, options, message):
    with pytest.raises(ModelError, match=message):
        lengthen(starts(architecture), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_a_folder_and_no_other_model_is_replaced(starts, tmp_path):
    command = ["train", "lengthen", str(starts("bert")), str(tmp_path / "out"), "--max-length", "80"]
    shown = CliRunner().invoke(app, [*command, "--window", "16"])
    assert shown.exit_code == 0
    assert f"wrote {tmp_path / 'out'}" in shown.stderr
    again = CliRunner().invoke(app, command)
    assert "out is not empty: overwrite it" in str(again.exception)
