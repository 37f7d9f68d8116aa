"""Files of a model that are not what they should be: one error that names the folder, whatever is in them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from itertools import product
from pathlib import Path

import pytest

from small_readers import small_reader
from small_rerankers import small_reranker
from telerank.answers.scorer import SpanReader
from telerank.dense.encoder import TorchEncoder
from telerank.errors import TelerankError
from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder
from telerank.models.readers import save_reader
from telerank.models.rerankers.reranker import save_reranker
from telerank.reranking.scorer import Scorer

WHOLE = (
    *(b"", b"{", b'{"\xff": 1}', b"null", b"5", b'"text"', b"[]", b"[[1]]", b"{}"),
    *(b"[" * 100_000, b'{"a":' * 100_000, b'{"max_length": %s}' % (b"9" * 5000)),
)
"""Nothing, half of an object, what is no UTF-8, other values than objects, lists in lists, and many digits."""
VALUES = [None, -1, 0, 5, 1e400, "text", [], [[1]], {}, {"a": 1}, True]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, encoders):
    """A bi-encoder that also sentence-transformers opens, one that has only its settings, re-rankers and a reader."""
    root = tmp_path_factory.mktemp("models")
    for name in ("bi", "theirs"):
        save_bi_encoder(*load_bi_encoder(encoders()), root / name)
    (root / "theirs" / "bi_encoder.json").unlink()
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in KINDS]
    (root / "theirs" / "modules.json").write_text(json.dumps(modules))
    save_reranker(small_reranker(root), root / "mono")
    save_reranker(small_reranker(root, "bert-dmn", head={"hidden": 8}), root / "dmn")
    save_reader(small_reader(root), root / "reader")
    return root


@pytest.fixture
def copied(folders, tmp_path):
    """Makes a copy of one of them."""
    return lambda name: Path(shutil.copytree(folders / name, tmp_path / name))


KINDS = (("Transformer", ""), ("Pooling", "1_Pooling"))
FILES = [
    ("bi", "bi_encoder.json"),
    ("bi", "config.json"),
    ("bi", "tokenizer.json"),
    ("bi", "tokenizer_config.json"),
    ("bi", "model.safetensors"),
    ("theirs", "modules.json"),
    ("theirs", "sentence_bert_config.json"),
    ("theirs", "config_sentence_transformers.json"),
    ("theirs", "1_Pooling/config.json"),
    ("mono", "reranker.json"),
    ("mono", "config.json"),
    ("dmn", "reranker.json"),
    ("dmn", "head.safetensors"),
    ("reader", "reader.json"),
]


def use(folder) -> None:
    """Compute with the model: the folder must be right, or refused before."""
    if folder.name in ("mono", "dmn"):
        Scorer(str(folder)).score([("q1", "d1 d2")])
    elif folder.name == "reader":
        SpanReader(str(folder)).read([("q1", "d1 d2")])
    else:
        TorchEncoder(str(folder)).encode_queries(["q1 q2"])


def refuse_or_use(folder) -> bool:
    """Whether the folder is refused, in one line that names it."""
    message = ""
    try:
        use(folder)
    except TelerankError as error:
        message = str(error)
    assert not message or (str(folder) in message and "\n" not in message)
    return bool(message)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_file_of_the_wrong_shape_is_named(name, file, copied):
    folder = copied(name)
    for content in WHOLE:
        (folder / file).unlink()
        (folder / file).write_bytes(content)
        refused = refuse_or_use(folder)
        assert refused or content in (b"{}", b"null", b"[]", b"5", b'"text"', b"[[1]]")


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, file in FILES if file.endswith(".json")])
def test_a_value_of_the_wrong_type_is_named(name, file, copied):
    """Each value of the file in turn; it may also be one that does not matter."""
    folder = copied(name)
    record = json.loads((folder / file).read_text())
    keys = set(record if isinstance(record, dict) else record[0])
    if (name, file) == ("mono", "config.json"):  # others are those of bi
        keys &= {"architectures", "id2label", "label2id", "model_type", "num_labels", "pad_token_id"}
    for key, value in product(sorted(keys), VALUES):
        changed = (
            {**record, key: value} if isinstance(record, dict) else [{**record[0], key: value}, *record[1:]]
        )
        (folder / file).write_text(json.dumps(changed))
        refuse_or_use(folder)


@pytest.mark.parametrize(
    ("name", "file", "keys"),
    [
        ("bi", "config.json", ["num_hidden_layers", "hidden_size", "vocab_size", "num_labels"]),
        ("bi", "config.json", ["max_position_embeddings"]),
        ("reader", "config.json", ["num_hidden_layers"]),
        ("dmn", "reranker.json", ["hidden", "episodes"]),
    ],
)
def test_a_size_that_weights_do_not_have_is_refused_before_a_model_is_built(name, file, keys, copied):
    """A model of ten million layers was built for hours."""
    folder = copied(name)
    good = (folder / file).read_text()
    for key, size in product(keys, (900_000, 10_000_000, 10**400)):
        record = json.loads(good)
        (record["head"] if name == "dmn" else record)[key] = size
        (folder / file).write_text(json.dumps(record))
        assert refuse_or_use(folder)


@pytest.mark.parametrize(
    ("key", "size", "said"),
    [
        ("hidden_size", 48, r"has the shape \(32,\), but \(48,\) by config\.json"),
        ("vocab_size", 99, r"word_embeddings\.weight has the shape \(\d+, 32\), but \(99, 32\)"),
        ("hidden_size", 900_000, "many more weights than its files hold"),
        ("num_hidden_layers", "2", "Field 'num_hidden_layers' expected int, got str"),
        ("num_hidden_layers", 10**7, r"config\.json: expected num_hidden_layers up to 1,000, got 10,000,000"),
    ],
)
def test_a_wrong_size_is_said(key, size, said, copied):
    folder = copied("bi")
    record = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**record, key: size}))
    with pytest.raises(TelerankError, match=said):
        load_bi_encoder(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="its files have no modes")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_weights_are_read_by_whoever_may_read_their_folder(tmp_path, encoders, umask, mode):
    """A service runs as another user than the one who trained."""
    before = os.umask(umask)
    try:
        save_reader(small_reader(tmp_path), tmp_path / "saved/reader")
        save_reranker(small_reranker(tmp_path), tmp_path / "saved/ranker")
        save_bi_encoder(*load_bi_encoder(encoders()), tmp_path / "saved/encoder")
    finally:
        os.umask(before)
    weights = [*(tmp_path / "saved").rglob("*.safetensors")]
    assert len(weights) >= 3
    assert {file.stat().st_mode & 0o777 for file in weights} == {mode}


def test_weights_that_may_not_be_read_are_named(encoders, monkeypatch):
    monkeypatch.setattr(os, "access", lambda file, _: not str(file).endswith("model.safetensors"))
    with pytest.raises(TelerankError, match=r"model\.safetensors: no permission to read it"):
        load_bi_encoder(encoders())
