"""A folder of documents on the command line: one command indexes it, hits and answers lead to file and page."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("pypdfium2")
pytest.importorskip("docx")
pytest.importorskip("trafilatura")
pytest.importorskip("markdown_it")

import telerank as tr
from telerank.cli.main import app, main
from telerank.corpus.readers.files import kinds

pytestmark = pytest.mark.filterwarnings("default::telerank.errors.UnreadFiles")
MADE = Path(__file__).parent.parent / "corpus/made_documents"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder ``documents`` in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("documents/sub").mkdir(parents=True)
    for name in (
        "eaux.pdf",
        "ecole.pdf",
        "ecole.docx",
        "dechets.html",
        "budget.md",
        "chiffre.pdf",
        "numerise.pdf",
    ):
        shutil.copy(MADE / name, "documents")
    shutil.copy(MADE / "avis.pdf", "documents/sub/avis 1.pdf")
    return tmp_path


def said(capsys, monkeypatch, *arguments: str) -> tuple[list[str], str]:
    """The lines of standard error, and standard output, of a command as it is typed."""
    monkeypatch.setattr(sys, "argv", ["telerank", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = capsys.readouterr()
    return printed.err.splitlines(), printed.out


def test_one_command_indexes_a_folder_and_hits_say_file_and_page(folder, capsys, monkeypatch):
    errors, _ = said(capsys, monkeypatch, "index", "documents", "idx", "--analyzer", "french", "-j", "1")
    assert errors[0] == "1 not read, encrypted: chiffre.pdf"
    assert errors[1] == "1 not read, scanned, without text: numerise.pdf"
    assert errors[-1].startswith("indexed 8 documents of documents into idx")
    _, shown = said(
        capsys, monkeypatch, "search", "idx", "--query", "saisir le médiateur de l'eau", "-k", "1"
    )
    assert "eaux.pdf#3" in shown
    assert "[eaux.pdf, page 2]" in " ".join(shown.split())
    _, shown = said(capsys, monkeypatch, "search", "idx", "--query", "rue des Tilleuls", "-k", "1", "--json")
    hit = json.loads(shown)["ranking"][0]
    assert (hit["docno"], hit["file"], hit["page"], hit["last_page"]) == (
        "sub/avis%201.pdf",
        "sub/avis 1.pdf",
        1,
        1,
    )
    assert hit["heading"] == "Avis de travaux › 1. Rue des Tilleuls"
    assert "marks" not in hit


def test_an_update_prints_its_counts_and_info_names_what_is_not_read(folder, capsys, monkeypatch):
    said(capsys, monkeypatch, "index", "documents", "idx", "-j", "1")
    Path("documents/ecole.docx").unlink()
    Path("documents/budget.md").write_text("# Budget\n\nnouveau")
    Path("documents/dechets.html").rename("documents/déchets.html")
    Path("documents/new.md").write_text("neuf")
    errors, _ = said(capsys, monkeypatch, "index", "update", "documents", "idx", "-j", "1")
    assert errors[-1] == "idx: files of documents: 1 added, 1 changed, 1 moved, 1 gone, 5 unchanged"
    assert errors[0] == "1 not read, encrypted: chiffre.pdf"
    _, shown = said(capsys, monkeypatch, "index", "update", "documents", "idx", "--json")
    assert len(json.loads(shown)["unchanged"]) == 8
    _, shown = said(capsys, monkeypatch, "index", "info", "idx")
    assert "files not read           chiffre.pdf: encrypted" in shown
    assert "files not read           numerise.pdf: scanned, without text" in shown


def test_data_show_prints_the_pages(folder):
    result = CliRunner().invoke(app, ["data", "show", "documents", "eaux.pdf#3"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:3] == [
        "document eaux.pdf#3",
        "Règlement du service des eaux",
        "eaux.pdf, pages 2–3",
    ]


def test_a_conversion_says_that_pages_are_lost(folder):
    shutil.rmtree("documents/sub")
    result = CliRunner().invoke(app, ["data", "convert", "documents", "out", "--to", "jsonl"])
    assert result.exit_code == 0, result.output
    assert "documents lose the pages and headings of their files" in result.output


def test_a_missing_package_is_named_with_its_extra(folder, capsys, monkeypatch):
    monkeypatch.setattr(kinds, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["telerank", "index", "documents", "idx"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "pip install 'telerank[files]'" in capsys.readouterr().err.splitlines()[-1]
    assert not Path("idx/manifest.json").exists()


def test_segments_and_answers_of_whole_documents_say_their_pages(folder):
    pytest.importorskip("torch")
    from small_readers import reader_with
    from small_rerankers import small_reranker
    from telerank.models.readers.reader import save_reader
    from telerank.models.rerankers.reranker import save_reranker

    save_reranker(small_reranker(folder), folder / "mono")
    save_reader(reader_with(folder, "word pieces", threshold=1e9), folder / "reader")
    tr.index(tr.collection("documents", format="whole-documents"), "idx", analyzer="french", workers=1)
    model = "bm25 % 1 >> maxp(rerank('mono'), window=best)"
    search = ["search", "idx", "--query", "Litiges médiateur", "--model", model, "--show-segment", "--json"]
    record = json.loads(CliRunner().invoke(app, search, catch_exceptions=False).stdout)["ranking"][0]
    index = tr.open("idx")
    assert record["docno"] == "eaux.pdf"
    location = index.locate("eaux.pdf", *record["segment"]["span"])
    assert record["segment"]["page"] == location.page
    assert record["segment"]["file"] == "eaux.pdf"
    ask = ["answer", "idx", "--query", "Litiges médiateur", "--reader", "reader", "--depth", "1"]
    (answer, *_) = json.loads(CliRunner().invoke(app, [*ask, "--json"], catch_exceptions=False).stdout)[
        "answers"
    ]
    page = index.locate("eaux.pdf", answer["start"], answer["start"] + len(answer["text"])).page
    assert answer["page"] == page
    shown = CliRunner().invoke(app, ask, catch_exceptions=False).stdout
    assert f"document eaux.pdf [eaux.pdf, page {page}]" in shown
