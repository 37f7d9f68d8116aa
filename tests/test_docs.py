"""What the documents and helps say is so: their code runs and prints what they show, and nothing is left out."""

from __future__ import annotations

import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import click
import pytest

import telerank
from documents import (
    DEMO,
    DOCUMENTS,
    MASKS,
    NUMBERS,
    RERANKER,
    ROOT,
    TWICE,
    Masks,
    Session,
    blocks,
    in_process,
    is_shown,
    link,
    needed,
    save_small_models,
    steps,
)
from small_set import write_beir
from telerank.cli.main import app
from telerank.corpus.answers import write_predictions
from telerank.corpus.formats import open_collection
from telerank.pipelines.functions import FUNCTIONS
from telerank.trec import write_qrels

ALL = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
NOT_RUN = re.compile(r"pip install telerank|make \w+|telerank demo|python benchmarks/\w+\.py( .*)?")
"""What ``sh`` blocks hold: it installs, or takes minutes and has tests of its own."""
NEURAL = all(map(find_spec, ("torch", "transformers")))
if NEURAL:
    from small_models import small_encoder
    from small_readers import small_reader
    from small_rerankers import small_reranker
    from telerank.models.readers import save_reader
    from telerank.models.rerankers.reranker import save_reranker
SETTINGS = {
    "repbert": """data: {collection: msmarco-slice}
model: {start: minilm, similarity: cosine, document_length: 48}
loss: {objective: softmax, scale: 20}
optimisation: {steps: 2, warm_up: 1, batch: 2}
""",
    "splade": """data: {collection: msmarco-slice}
model: {start: minilm, max_length: 48}
optimisation: {steps: 2, warm_up: 1, batch: 2}
""",
    "colbert": """data: {collection: msmarco-slice}
model: {start: minilm, document_length: 48}
optimisation: {steps: 2, batch: 2}
""",
    "deepct": """data: {collection: msmarco-slice}
model: {start: minilm, document_length: 48}
optimisation: {steps: 2, warm_up: 1, batch: 2}
""",
    "monobert": """data: {collection: msmarco-slice, negatives: {random: true}}
model: {start: minilm, max_length: 64}
optimisation: {steps: 2, warm_up: 1, batch: 2}
test: {split: dev.small, pool: top20, queries: 5, depth: 5, measures: [RR@10]}
""",
    "mlm": """data: {sets: [{collection: fquad, documents: 8}]}
model: {start: minilm, max_length: 64}
optimisation: {steps: 2, warm_up: 1, batch: 2}
dev: {documents: 2, every: 1, patience: 2}
""",
    "reader": """data: {sets: [{collection: fquad, questions: 6}]}
model: {start: minilm, max_length: 64, stride: 16, max_question: 24}
optimisation: {steps: 2, warm_up: 1, batch: 2}
""",
}
"""Files of settings that examples name."""
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HOSTS = "|".join(
    ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.", "maven" + ".org", "ana" + "conda.org")
)
PLACES = "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me", "t" + "mp"))
OF_ONE_MACHINE = re.compile(rf"(?<![\w.}}/~-])/(?:{PLACES})/\w|(?:{HOSTS})")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def commands(command=app, path=("telerank",)):
    """Every command and group, with its path."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


def examples(command) -> list[str]:
    return re.findall(r"`(telerank [^`]+)`", command.help or "")


COMMANDS = {" ".join(path): command for path, command in commands()}


def check(path: Path, needing: bool | str, session: Session, masks: Masks = MASKS) -> None:
    for step in steps(lines(path), needing):
        printed, shown = session.run(step), lines(path)[step.shown]
        message = f"{name(path)}:{step.line + 1} prints otherwise (make docs renews it):\n"
        assert is_shown(shown, printed, masks), message + "\n".join(printed)


@pytest.mark.parametrize(
    "path",
    [
        path if path.name == "README.md" else pytest.param(path, marks=pytest.mark.docs)
        for path in DOCUMENTS
        if steps(lines(path), needing=False)
    ],
    ids=name,
)
def test_the_code_of_a_document_prints_what_is_shown(path, tmp_path):
    with patch.dict(FUNCTIONS):  # a document may add to them
        check(path, False, Session(tmp_path))


@pytest.mark.docs
@pytest.mark.data
@pytest.mark.parametrize("path", [one for one in DOCUMENTS if needed(lines(one))], ids=name)
def test_the_code_of_a_document_on_real_collections_prints_what_is_shown(path, tmp_path, data):
    link(needed(lines(path)), data, tmp_path)
    check(path, True, Session(tmp_path))


@pytest.mark.docs
@pytest.mark.data
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if steps(lines(path), RERANKER)], ids=name)
def test_the_code_of_a_document_with_a_re_ranker_runs_with_small_models(path, tmp_path, data):
    save_small_models(tmp_path, data, tmp_path / "models")
    link(needed(lines(path)), data, tmp_path)
    check(path, RERANKER, Session(tmp_path, tmp_path / "models"), (*MASKS, *NUMBERS))


def test_the_first_program_of_the_readme_needs_no_extra_and_runs_twice(tmp_path):
    readme = ROOT / "README.md"
    first = next(block for block in blocks(lines(readme)) if block.language == "python")
    assert first.needs == (TWICE,)
    (step,) = steps(lines(readme), TWICE)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", step.code],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert is_shown(lines(readme)[step.shown], [line.rstrip() for line in done.stdout.splitlines()])


def test_everything_that_looks_like_code_is_run_but_what_installs():
    for path in DOCUMENTS:
        for block in blocks(lines(path)):
            assert block.language in ("console", "python", "text", "sh"), f"{name(path)}:{block.start}"
            if block.language == "sh":
                code = lines(path)[block.start : block.end]
                assert all(NOT_RUN.fullmatch(line) for line in code), f"{name(path)}:{block.start}"


def test_the_readme_is_short_and_its_picture_is_what_the_script_draws():
    assert len(lines(ROOT / "README.md")) <= 200
    drawn = runpy.run_path(str(ROOT / "scripts/picture.py"))["draw"]()
    assert drawn == (ROOT / "docs/picture.svg").read_bytes(), "python scripts/picture.py draws it anew"


def test_the_demo_is_shown_in_one_place():
    shown = [path for path in DOCUMENTS if any(DEMO in block.needs for block in blocks(lines(path)))]
    page = ROOT / "docs/demo.md"
    assert shown == [page, ROOT / "docs/dense.md"]  # which has a program that takes minutes
    (step,) = (step for step in steps(lines(page), needing=DEMO) if step.code == "telerank demo")
    output = lines(page)[step.shown]
    assert is_shown(output, output)
    assert any("French questions: found, re-ranked and answered" in line for line in output)


@pytest.mark.parametrize("called", COMMANDS)
def test_every_command_is_explained_has_a_help_with_an_example_and_is_documented(called):
    command = COMMANDS[called]
    silent = [each.name for each in command.params if not (getattr(each, "help", None) or "").strip()]
    assert set(silent) <= {"help"}
    assert [example for example in examples(command) if example.startswith(called)]
    group, _, name = called.removeprefix("telerank").strip().partition(" ")
    documented = re.search(rf"\btelerank {group}\b.*`{name}`", ALL) if name else None
    assert called in ALL or documented, f"{called} stands in no document"


def write_part(collection: str, folder: Path, docnos: set[str]) -> None:
    """Forty queries of the test split, their documents, 400 others, and those of ``docnos``, as BEIR's files."""
    whole = open_collection(collection)
    queries = {query.qid: query.text for query in islice(whole.split_queries("test"), 40)}
    qrels = [(qrel.qid, qrel.docno, qrel.grade) for qrel in whole.split_qrels("test") if qrel.qid in queries]
    kept = {*docnos, *(docno for _, docno, _ in qrels), *(doc.docno for doc in islice(whole.docs(), 400))}
    docs = [
        {"_id": doc.docno, "title": doc.title, "text": doc.text} for doc in whole.docs() if doc.docno in kept
    ]
    write_beir(folder, docs, queries, {"test": qrels})


@pytest.mark.docs
@pytest.mark.data
def test_every_example_of_a_help_runs(data, tmp_path, monkeypatch):
    """With a part of the largest collection, and small models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELERANK_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("TELERANK_DATA", str(tmp_path))
    link({folder.name for folder in data.iterdir() if folder.is_dir()} - {"scifact"}, data, tmp_path)
    write_part(str(data / "scifact"), tmp_path / "scifact", {"4983", "5836"})
    for name, text in SETTINGS.items():
        Path(f"{name}.yaml").write_text(text)
    questions = [query.qid for query in open_collection("fquad").split_queries()]
    for name in ("reader", "other"):
        write_predictions(f"{name}.json", dict.fromkeys(questions, name))
    Path("new.jsonl").write_text('{"docno": "new", "text": "news of aspirin"}\n')
    write_qrels("qrels.txt", open_collection("scifact").split_qrels("test"))
    if NEURAL:
        small_encoder(tmp_path / "models" / "minilm")
        save_reranker(small_reranker(tmp_path / "small"), "my-reranker")
        save_reader(small_reader(tmp_path / "small", threshold=10.0), "my-reader")
    every = dict.fromkeys(example for command in COMMANDS.values() for example in examples(command))
    written = [example for example in every if " -o bm25.run" in example]
    indexing = ("telerank index scifact", "telerank index build")
    first = [*(example for example in every if example.startswith(indexing)), *written]
    for example in dict.fromkeys((*first, *every)):
        words = shlex.split(example)
        if words[1] in ("train", "rerank", "answer", "inspect") and not NEURAL:
            continue
        packs = words[1:3] == ["train", "pack"]  # a model on e5-small: tests/models/test_compact.py
        if packs or words[1] in (DEMO, "serve") or "COLLECTION" in words:  # tests/cli, tests/service; a form
            continue
        if f"$ {example}\n" in ALL and example not in first:  # run there
            continue
        in_process(words)
        if example in written:
            for other in ("lmd", "dfi", "dfr"):
                shutil.copy("bm25.run", f"{other}.run")
    assert all(Path(made).exists() for made in ("depth.png", "table.tex", "vaswani-beir", "plots"))


def test_every_public_name_is_documented():
    assert [name for name in telerank.__all__ if not re.search(rf"\b(tr|telerank)\.{name}\b", ALL)] == []


def test_every_dotted_name_in_the_documents_exists():
    missing = []
    for name in sorted(set(re.findall(r"`(telerank(?:\.\w+)+)", ALL))):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert missing == []


def test_every_file_that_architecture_names_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[st]*/**/*.py")]
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert [
        file for file in named if file != "trec.py" and not any(f.endswith(f"/{file}") for f in files)
    ] == []


@pytest.mark.parametrize("path", [*sorted(ROOT.glob("*.md")), *DOCUMENTS[1:]], ids=name)
def test_every_link_leads_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"https?://", target):
            continue
        file, _, heading = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name(path)} links {target}"
        if heading:
            assert heading in headings(there), f"{name(path)} links {target}"


def headings(path: Path) -> set[str]:
    found = [line.lstrip("#").strip().lower() for line in lines(path) if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in found}


def test_no_file_speaks_of_one_machine_or_of_a_registry():
    asked = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout: no list of files")
    found = []
    for file in filter(None, listed.stdout.split("\0")):
        content = (ROOT / file).read_bytes() if (ROOT / file).exists() else b"\0"
        if b"\0" not in content[:8192]:
            text = content.decode(errors="replace").splitlines()
            found += [
                f"{file}:{i}: {line.strip()}" for i, line in enumerate(text, 1) if OF_ONE_MACHINE.search(line)
            ]
    assert found == []
