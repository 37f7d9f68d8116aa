"""The wheel, installed in an environment outside of the checkout, has all that commands and programs need."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import telerank
from documents import RERANKER, ROOT, save_small_models, steps

pytest.importorskip("hatchling")
pytestmark = pytest.mark.slow

PROGRAM = """
from itertools import islice
import telerank as tr

index = tr.index(islice(tr.piaf().docs(), 200), "idx", analyzer="french", workers=1)
ranking = (index.bm25() % 3).search("Quelle est la capitale de la France ?")
print(len(index), len(ranking), tr.__file__)
"""


class Installed:
    """A virtual environment with the wheel; its dependencies are those of the environment of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, folder / "environment"
        build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        self.wheel, self.sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.environment)], check=True)
        self.python = self.environment / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--no-index", str(self.wheel)], check=True, capture_output=True)
        self.packages = next(self.environment.glob("lib/python*/site-packages"))
        own = sysconfig.get_paths()["purelib"]
        (self.packages / "dependencies.pth").write_text(f"{own}\n", encoding="utf-8")

    def run(self, command: list[str], folder: Path, **variables: str) -> str:
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = os.pathsep.join((str(self.environment / "bin"), os.environ["PATH"]))
        environment = {**without, "PATH": path, "COLUMNS": "200", **variables}
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{' '.join(command)[:200]}\n{ran.stderr}"
        return ran.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_commands_run_from_the_wheel(installed, tmp_path):
    assert installed.run(["telerank", "--version"], tmp_path) == f"telerank {telerank.__version__}\n"
    listed = installed.run(["telerank", "experiment", "ls"], tmp_path)
    assert {"demo", "repbert/table1"} <= set(listed.split())
    script = installed.environment / "bin" / "telerank"
    assert str(installed.environment) in script.read_text(encoding="utf-8").splitlines()[0]


def test_a_program_runs_from_the_wheel(installed, tmp_path):
    *counts, file = installed.run([str(installed.python), "-c", PROGRAM], tmp_path).split()
    assert counts == ["200", "3"]
    assert Path(file).is_relative_to(installed.packages)


def test_both_archives_have_the_files_that_are_no_modules(installed):
    source = Path(telerank.__file__).parent
    data = {
        str(path.relative_to(source.parent))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".py"
    }
    assert {"telerank/data/piaf/piaf-v1.1.json.gz", "telerank/text/stopwords/french.txt"} <= data
    assert [name for name in data if not (installed.packages / name).is_file()] == []
    listed = subprocess.run(["tar", "-tzf", str(installed.sdist)], capture_output=True, text=True, check=True)
    in_sdist = {name.partition("/src/")[2] for name in listed.stdout.splitlines()}
    assert data <= in_sdist


def copy_slice(source: Path, target: Path) -> None:
    """The first 200 documents of a BEIR folder, those that its first qrels judge, and all else."""
    shutil.copytree(source, target)
    head, *qrels = (source / "qrels/test.tsv").read_text(encoding="utf-8").splitlines()[:20]
    kept = {line.split("\t")[1] for line in qrels} | {"7613033"}
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as docs:
        part = [doc for number, doc in enumerate(docs) if number < 200 or json.loads(doc)["_id"] in kept]
    with gzip.open(target / "corpus.jsonl.gz", "wt", encoding="utf-8") as written:
        written.writelines(part)
    (target / "qrels/test.tsv").write_text("\n".join([head, *qrels]) + "\n", encoding="utf-8")


@pytest.mark.data
def test_the_program_of_the_readme_runs_from_the_wheel(installed, tmp_path, data):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (program,) = (step.code for step in steps(lines, RERANKER) if step.is_python)
    copy_slice(data / "scifact", tmp_path / "scifact")
    models = tmp_path / "models"
    save_small_models(tmp_path, models)
    printed = installed.run([str(installed.python), "-c", program], tmp_path, TELERANK_MODELS=str(models))
    assert "nDCG@10" in printed
    assert (tmp_path / "table.md").is_file()


@pytest.mark.data
def test_a_packaged_experiment_runs_from_the_wheel(installed, tmp_path, data):
    words = [
        "telerank",
        "experiment",
        "repbert/table1",
        "--small",
        "--on",
        "scifact",
        "--skip",
        "MiniLM",
        "-o",
        "results",
    ]
    installed.run(words, tmp_path, TELERANK_DATA=str(data))
    assert any((tmp_path / "results").rglob("*.html"))
