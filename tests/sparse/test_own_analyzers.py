"""Indexes whose analyzer has files of words, or finds tokens by a function of the program."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import telerank as tr
from telerank.errors import AnalyzerError, IndexFault
from telerank.text import Analyzer

TEXTS = {
    "1": "La carte d'identité est gratuite.",
    "2": "Une voiture neuve coûte cher.",
    "3": "Le Dampfschiff sur le Rhin",
    "4": "black bear-attack",
}


def split_on_dashes(text: str) -> list[str]:
    return text.split("-")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.txt").write_text("cni, carte d'identité\nauto, voiture\n", encoding="utf-8")
    (tmp_path / "w.txt").write_text("dampf\nschiff\n", encoding="utf-8")
    return tmp_path


def test_an_index_keeps_the_words_of_its_analyzer(files):
    index = tr.index(TEXTS, "idx", analyzer="french|decompound(w.txt)|synonyms(s.txt)", progress=False)
    for name in ("s.txt", "w.txt"):
        (files / name).unlink()
    for opened in (index, tr.open("idx")):
        assert opened.bm25().search("CNI").docnos == ("1",)
        assert opened.bm25().search("autos").docnos == ()
        assert opened.bm25().search("auto").docnos == ("2",)
        assert opened.bm25().search("Schiff").docnos == ("3",)
        assert opened.bm25().explain("CNI", "1").value == pytest.approx(opened.bm25().search("CNI").scores[0])
    (files / "s.txt").write_text("cni, passeport\n", encoding="utf-8")
    (files / "w.txt").write_text("dampf\nschiff\n", encoding="utf-8")
    with pytest.raises(IndexFault, match="holds an index already, built with the analyzer"):
        tr.index(TEXTS, "idx", analyzer="french|decompound(w.txt)|synonyms(s.txt)", progress=False)


@pytest.mark.process
def test_processes_make_the_index_of_one(files):
    texts = {f"{copy}-{docno}": text for copy in range(50) for docno, text in TEXTS.items()}
    for name, analyzer in {
        "words": Analyzer.parse("french|decompound(w.txt)|synonyms(s.txt)"),
        "function": Analyzer.of(split_on_dashes, "stop(english)"),
    }.items():
        rankings = []
        for workers in (1, 2):
            folder = f"{name}-{workers}"
            index = tr.index(texts, folder, analyzer=analyzer, workers=workers, progress=False)
            rankings.append(
                [index.bm25().search(query) for query in ("schiff", "attack", "cni", "black bear")]
            )
        assert rankings[0] == rankings[1]
        assert any(map(len, rankings[0]))


def test_a_function_finds_the_tokens_of_an_index(files):
    index = tr.index(TEXTS, "idx", analyzer=Analyzer.of(split_on_dashes), progress=False)
    assert index.bm25().search("attack").docnos == ("4",)
    assert index.bm25().search("black").docnos == ()
    local = tr.index(TEXTS, "lambda", analyzer=Analyzer.of(lambda text: text.lower().split()), progress=False)
    assert local.bm25().search("carte").docnos == ("1",)


@pytest.mark.process
def test_where_a_function_is_not_there_an_index_shows_its_documents_and_says_what_it_lacks(files):
    tr.index(TEXTS, "idx", analyzer=Analyzer.of(split_on_dashes), progress=False)
    program = """
import telerank as tr
index = tr.open("idx")
print(len(index), index.docs["4"].text)
try:
    index.bm25().search("attack")
except tr.errors.AnalyzerError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    shown, lacks = ran.stdout.splitlines()
    assert shown == "4 black bear-attack"
    assert lacks.startswith(f"the tokenizer {__name__}:split_on_dashes is not here")


def test_an_index_does_not_run_what_it_names(files):
    index = tr.index(TEXTS, "idx", progress=False)
    replace(index.sparse.manifest, analyzer="python(os:getcwd)").write(files / "idx")
    opened = tr.open("idx")
    with pytest.raises(AnalyzerError, match="the tokenizer os:getcwd is not here"):
        opened.bm25().search("attack")
