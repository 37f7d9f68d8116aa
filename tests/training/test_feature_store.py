"""What a store gives back is what the encoder said, and nothing that it did not say."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import filelock
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from small_models import small_encoder
from small_stored import WIDTH, TableEncoder, stored_pairs
from telerank.errors import IndexDamaged, IndexFault, IndexLocked, ModelError
from telerank.models.loading import read_encoder, read_tokenizer
from telerank.models.pairs.pair import PairTokenizer
from telerank.models.rerankers.bert import ClsMlp
from telerank.models.rerankers.transformer_ranker import EncoderRanker
from telerank.training.features.store import FeatureStore, FrozenEncoder

ENCODER = TableEncoder()
PAIRS = stored_pairs(40)
TEXTS = st.text(st.sampled_from("ab. é\ud800"), max_size=12)


def opened(folder: Path, encoder=ENCODER, **how) -> FeatureStore:
    return FeatureStore(folder, encoder.fingerprint, encoder.width, **how)


@pytest.fixture
def store(tmp_path):
    store = opened(tmp_path)
    store.fill(PAIRS, TableEncoder(), shard=16, batch_tokens=300)
    return store


def direct(pairs, encoder=ENCODER):
    tokens = encoder.tokens(pairs)
    return encoder.features([tokens[place] for place in range(len(pairs))])


def assert_same(found, expected, **tolerance):
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), value, **(tolerance or {"rtol": 1e-3, "atol": 1e-3}))


def test_a_batch_is_what_the_encoder_gives(store):
    some = [PAIRS[place] for place in (31, 2, 17, 2, 0)]
    found = store.batch(store.rows(some))
    assert_same(found, direct(some))
    assert found.cls.dtype == found.sentences.dtype == torch.float32
    assert len(store) == len(PAIRS)
    nothing = store.batch([])
    assert (nothing.cls.shape, nothing.sentences.shape) == ((0, WIDTH), (0, 1, WIDTH))


@settings(max_examples=25)  # each writes files
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12), st.data())
def test_any_rows_of_any_pairs_are_what_the_encoder_gives(tmp_path_factory, pairs, data):
    store = opened(tmp_path_factory.mktemp("store"))
    assert store.fill(pairs, TableEncoder(), shard=3, batch_tokens=20) == len(set(pairs)) == len(store)
    some = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8))
    assert_same(store.batch(store.rows(some)), direct(some))


def test_a_pair_is_stored_once_and_told_from_one_with_the_same_letters(tmp_path):
    store = opened(tmp_path)
    assert store.fill([("ab", "c"), ("a", "bc"), ("ab", "c")], TableEncoder()) == 2
    again = TableEncoder()
    assert store.fill([("a", "bc"), ("a", "b"), ("a", "b")], again) == 1
    assert again.calls == 1
    assert store.missing([("a", "b"), ("x", ""), ("", "x"), ("x", "")]) == [("x", ""), ("", "x")]
    assert opened(tmp_path).missing([("ab", "c"), ("a", "bc"), ("a", "b")]) == []


def test_rows_of_pairs_that_are_not_there_are_refused(store):
    with pytest.raises(IndexFault, match=r"1 of 2 pairs have no features here, .* the query 'new'"):
        store.rows([PAIRS[0], ("new", "pair")])
    for row in (-1, len(PAIRS)):
        with pytest.raises(IndexError, match=str(row)):
            store.batch([row])


def test_the_size_is_known_before(tmp_path):
    store = opened(tmp_path)
    shown = []
    size = store.estimate(PAIRS, TableEncoder())
    store.fill(PAIRS, TableEncoder(), progress=lambda *one: shown.append(one))
    assert size == store.bytes
    assert size == sum(path.stat().st_size for path in store.folder.glob("*.npy"))
    assert (f"encoding pairs ({size / 1e6:.2f} MB)", 0, len(PAIRS)) in shown
    assert store.estimate(PAIRS, TableEncoder()) == 0


def test_what_the_disk_cannot_hold_is_not_begun(tmp_path, monkeypatch):
    store, encoder = opened(tmp_path), TableEncoder()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=999))
    with pytest.raises(IndexFault, match=r"features of 40 pairs take .*, and the disk has 0.00 MB left"):
        store.fill(PAIRS, encoder)
    assert encoder.calls == 0


def test_only_the_first_output_is_stored_where_no_more_is_wanted(tmp_path, store):
    small = opened(tmp_path / "apart", cls_only=True)
    assert len(small) == 0
    size = small.estimate(PAIRS, TableEncoder())
    small.fill(PAIRS, TableEncoder())
    assert size == small.bytes < store.bytes / 4
    found = small.batch(small.rows(PAIRS))
    torch.testing.assert_close(found.cls, store.batch(store.rows(PAIRS)).cls)
    assert found.query.shape == found.sentences.shape == (len(PAIRS), 1, WIDTH)
    assert not found.query_mask.any()
    assert not found.sentences.any()
    shared = opened(tmp_path, cls_only=True)  # where everything is stored
    assert shared.folder == store.folder
    assert not shared.missing(PAIRS)


def test_numbers_beyond_float16_are_scaled_and_those_that_are_none_refused(tmp_path):
    large = TableEncoder(scale=3e6)
    store = opened(tmp_path, large)
    store.fill(PAIRS, large)
    assert_same(store.batch(store.rows(PAIRS)), direct(PAIRS, large), rtol=1e-3, atol=3000.0)
    assert store.batch([0]).cls.abs().max() > 65504
    for scale in (float("nan"), float("inf")):
        wrong = opened(tmp_path / str(scale))
        with pytest.raises(ModelError, match="outputs for the query 'query 0' are not finite numbers"):
            wrong.fill(PAIRS[:1], TableEncoder(scale=scale))
        assert len(opened(tmp_path / str(scale))) == 0


@pytest.fixture(scope="module")
def dropping(tmp_path_factory):
    """A real encoder in training mode, half of whose numbers would be dropped."""
    folder = small_encoder(tmp_path_factory.mktemp("encoder"))
    encoder = read_encoder(folder, 0.5)
    texts = PairTokenizer(read_tokenizer(folder), max_query=8, max_length=40)
    model = EncoderRanker(encoder, ClsMlp(32)).train()
    return FrozenEncoder(model, texts, "ab" * 32)


def test_the_encoder_is_in_evaluation_mode_while_the_store_is_filled(tmp_path, dropping):
    pairs = [(f"q{n} q1", f"d{n} d2. d4 d5 d{n}. " * (1 + n % 3)) for n in range(20)]
    stores = [opened(tmp_path / name, dropping) for name in "ab"]
    for store, batch_tokens in zip(stores, (30, 4000), strict=True):
        store.fill(pairs, dropping, batch_tokens=batch_tokens)
    one, other = (store.batch(store.rows(pairs)) for store in stores)
    assert_same(one, other)  # also whatever the batch
    assert dropping.model.encoder.training
    tokens = dropping.tokens(pairs)
    assert_same(one, dropping.features([tokens[place] for place in range(len(pairs))]))
    assert one.sentence_mask.sum(1).tolist()[:3] == [2, 4, 6]
    assert one.query_mask.sum(1).tolist()[:3] == [2, 2, 2]


def test_the_encoder_runs_in_its_precision(dropping):
    lower = replace(dropping, precision=lambda: torch.autocast("cpu", torch.bfloat16))
    tokens = [dropping.tokens([("q1", "d1 d2")])[0]]
    exact, rough = dropping.features(tokens).cls, lower.features(tokens).cls
    assert rough.dtype == torch.float32
    assert 0 < (exact - rough).abs().max() < 0.2
    assert not exact.requires_grad


KILLED = """
import os, signal, sys
from small_stored import TableEncoder, stored_pairs
from telerank.training.features.store import FeatureStore
class Killed(TableEncoder):
    def features(self, pairs):
        if self.calls == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().features(pairs)
encoder = Killed()
FeatureStore(sys.argv[1], encoder.fingerprint, encoder.width).fill(stored_pairs(40), encoder, shard=16, batch_tokens=300)
"""


def test_a_killed_filling_goes_on_after_its_last_whole_shard(forks, tmp_path, store):
    (killed,) = forks.run(KILLED, tmp_path / "killed")
    assert killed.status == -signal.SIGKILL, killed.errors
    resumed, encoder = opened(tmp_path / "killed"), TableEncoder()
    left = len(PAIRS) - len(resumed)
    assert 0 < left < len(PAIRS)
    assert len(resumed) % 16 == 0
    (resumed.folder / "vectors.0007.npy").write_bytes(b"half of one")
    assert resumed.fill(PAIRS, encoder, shard=16, batch_tokens=300) == left
    files = {path.name: path.read_bytes() for path in store.folder.glob("*.*")}
    assert {path.name: path.read_bytes() for path in resumed.folder.glob("*.*")} == files


def test_one_process_fills_at_a_time_and_sees_what_others_did(tmp_path, store):
    other = opened(tmp_path)
    with filelock.FileLock(store.folder / "lock"), pytest.raises(IndexLocked, match="another process fills"):
        other.fill([("new", "pair")], TableEncoder())
    store.fill([("new", "pair")], TableEncoder())
    unused = TableEncoder()
    assert other.fill([("new", "pair")], unused) == unused.calls == 0
    assert_same(other.batch(other.rows([("new", "pair")])), direct([("new", "pair")]))


def test_features_of_another_encoder_are_never_read(tmp_path, store):
    other = TableEncoder(fingerprint="1" * 64)
    assert len(opened(tmp_path, other)) == 0
    with pytest.raises(ModelError, match=r"made by another encoder \(0{12}\), not by this one \(1{12}\)"):
        store.fill([("new", "pair")], other)
    store.folder.rename(tmp_path / ("1" * 32))
    with pytest.raises(ModelError, match="made by another encoder"):
        opened(tmp_path, other)
    with pytest.raises(ModelError, match="features are 8 wide, the encoder's 16"):
        FeatureStore(tmp_path / "x", "2" * 32, WIDTH).fill([], TableEncoder("2" * 32, 16))
    for wrong in ("abc", "../" * 20):
        with pytest.raises(ModelError, match="at least 32 hexadecimal digits"):
            FeatureStore(tmp_path, wrong, WIDTH)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pairs.0001.npy", lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), "damaged"),
        ("pairs.0001.npy", None, "missing"),
        ("vectors.0002.npy", lambda raw: raw[:-2], "damaged"),
        ("manifest.json", lambda raw: raw.replace(b'"vectors": ', b'"vectors": 1', 1), "damaged"),
        ("manifest.json", lambda raw: raw[:99], "damaged"),
    ],
)
def test_damage_is_found_on_opening(tmp_path, store, name, change, message):
    path = store.folder / name
    raw = path.read_bytes()
    path.unlink()
    if change:
        path.write_bytes(change(raw))
    with pytest.raises(IndexDamaged, match=rf"{name}: {message}"):
        opened(tmp_path)
