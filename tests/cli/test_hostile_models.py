"""Folders of models by strangers: no command runs their code, asks for leave to run it, or reads a pickle."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import yaml

import telerank
from commands import ok, typed
from small_models import small_encoder
from small_rerankers import small_reranker
from small_set import write_beir
from telerank.models.rerankers.reranker import save_reranker

pytestmark = pytest.mark.fuzz

CODE = """
import os
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer
open(os.environ["HOSTILE_MARK"], "w").close()
class Config(BertConfig):
    model_type = "hostile"
class Model(BertModel):
    config_class = Config
class Ranker(BertForSequenceClassification):
    config_class = Config
class Tokens(BertTokenizer):
    pass
"""
AUTO = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
AUTO["AutoModelForSequenceClassification"] = "evil.Ranker"
DOCS = {f"d{n}": f"q{n} d{n} d{n % 4}. x{n % 3}" for n in range(8)}


class Bomb:
    """Its pickle writes a file when it is read."""

    def __reduce__(self):
        return open, (os.environ["HOSTILE_MARK"], "w")


def edit(file: Path, **changes) -> None:
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, **changes}))


def of_an_unknown_type(folder: Path) -> None:
    edit(folder / "config.json", model_type="hostile", auto_map=AUTO)


def of_a_known_type(folder: Path) -> None:
    edit(folder / "config.json", auto_map=AUTO)


def with_a_tokenizer(folder: Path) -> None:
    names = {"tokenizer_class": "Tokens", "auto_map": {"AutoTokenizer": ["evil.Tokens", "evil.Tokens"]}}
    edit(folder / "tokenizer_config.json", **names)
    edit(folder / "config.json", model_type="hostile", auto_map=AUTO)


def with_pickled_weights(folder: Path) -> None:
    for file in folder.glob("*.safetensors"):
        file.unlink()
    torch.save({"weight": Bomb()}, folder / "pytorch_model.bin")
    for name in ("head.bin", "head.pt", "training.pt", "tokenizer.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))


def with_foreign_modules(folder: Path) -> None:
    (folder / "reranker.json").unlink(missing_ok=True)
    kinds = ("Transformer", "Pooling")
    modules = [
        {"idx": i, "name": "", "path": kind[9:], "type": f"evil.{kind}"} for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))


HOSTILE = (of_an_unknown_type, of_a_known_type, with_a_tokenizer, with_pickled_weights, with_foreign_modules)
COMMANDS = {
    "encode": "encode set vectors --model bi",
    "search": "search idx set --model dense(bi)",
    "explain": "search idx -q q1 --model dense(bi) --explain",
    "search by a re-ranker": "search idx set --model bm25>>rerank(mono)",
    "explain a re-ranker": "search idx -q q1 --model bm25>>rerank(dmn) --explain",
    "tune": "tune idx set --setting bm25>>rerank(mono) -m RR --folds 2",
    "rerank": "rerank all.run --model mono -c set",
    "rerank in openvino": "rerank all.run --model mono -c set --backend openvino",
    "rerank in onnx": "rerank all.run --model dmn -c set --backend onnx",
    "train bi-encoder": "train bi-encoder bi.yaml",
    "train reranker": "train reranker mono.yaml",
    "train on features": "train reranker bert.yaml",
    "experiment": "experiment experiment.yaml --data here=set",
    "experiment --model": "experiment experiment.yaml --data here=set --model ranker=mono",
    "diffusion": "inspect diffusion set mono --candidates all.run -n 4",
    "tsne": "inspect tsne set dmn --candidates all.run --each 2 --perplexity 2 --neighbours 1",
    "tsne of an encoder": "inspect tsne set bi --candidates all.run --each 2 --perplexity 2 --neighbours 1",
    "faithfulness": "inspect faithfulness set --model dmn --candidates all.run -n 4",
    "gates": "inspect gates --model dmn -q q1 --text d1",
    "stats": "data stats set --tokenizer bi/tokenizer.json",
}


def write_settings() -> None:
    data, short = {"collection": "set", "split": "test"}, {"steps": 1, "batch": 1, "warm_up": 0}
    negatives, lengths = {"negatives": {"random": True}}, {"max_query": 8, "max_length": 20}
    records = {
        "bi": {"data": data, "model": {"start": "./bi"}, "optimisation": short},
        "mono": {"data": data | negatives, "model": {"start": "./mono", **lengths}, "optimisation": short},
        "bert": {
            "data": data | negatives,
            "model": {"kind": "bert", "frozen": True, "start": "./bi", **lengths},
            "optimisation": short,
        },
        "experiment": {
            "title": "t",
            "data": {"here": {"split": "test"}},
            "models": {"ranker": "./mono", "encoder": "./bi"},
            "systems": {"a": "bm25", "b": "a >> rerank(ranker)", "c": "dense(encoder)"},
            "analyses": [{"kind": "quality", "measures": ["RR"]}],
        },
    }
    for name, record in records.items():
        Path(f"{name}.yaml").write_text(yaml.safe_dump(record))


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A collection, an index with vectors, a run, models and settings, on which every command succeeds."""
    folder = tmp_path_factory.mktemp("honest")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small_encoder(folder / "bi")
        save_reranker(small_reranker(folder), folder / "mono")
        head = {"hidden": 8, "episodes": 2}
        save_reranker(small_reranker(folder, "bert-dmn", head=head), folder / "dmn")
        docs = [{"_id": docno, "title": "", "text": text} for docno, text in DOCS.items()]
        qrels = [(f"q{n}", f"d{n + more}", 1) for n in range(3) for more in (0, 3)]
        write_beir(folder / "set", docs, {f"q{n}": f"q{n} q{n + 1}" for n in range(3)}, {"test": qrels})
        Path("all.run").write_text(
            "".join(f"q{n} Q0 {d} 1 {9 - i} t\n" for n in range(3) for i, d in enumerate(DOCS))
        )
        write_settings()
        ok("index set idx")
        ok("encode idx --model ./bi")
    return folder


@pytest.fixture
def here(honest, tmp_path, monkeypatch):
    """A copy of the honest folder, whose models may be changed."""
    folder = shutil.copytree(honest, tmp_path / "here")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HOSTILE_MARK", str(tmp_path / "hostile code was run"))
    return folder


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_command_works_on_honest_folders(command, here):
    ok(command)


@pytest.mark.parametrize("change", HOSTILE)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_code_of_a_model_is_run(command, change, here):
    for name in ("bi", "mono", "dmn"):
        (here / name / "evil.py").write_text(CODE)
        change(here / name)
    printed = typed(command, stdin=b"yes\n" * 100)
    assert not Path(os.environ["HOSTILE_MARK"]).exists()
    for words in ("trust_remote_code", "custom code"):  # the second as in the question for leave
        assert words not in printed.stdout + printed.stderr
    if printed.status:
        assert (printed.status, "Traceback" in printed.stderr) == (2, False)
        assert printed.stderr.splitlines()[-1].startswith("telerank: ")


def test_every_load_says_that_code_is_not_trusted():
    calls = [
        (path.name, call)
        for path in Path(telerank.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("from_pretrained", "from_config")
    ]
    given = [{word.arg: ast.unparse(word.value) for word in call.keywords} for _, call in calls]
    assert {path for path, _ in calls} == {"loading.py"}
    assert all(words.get("trust_remote_code") == "False" for words in given)
    assert [words["weights_only"] for words in given if "dtype" in words] == ["True"]
