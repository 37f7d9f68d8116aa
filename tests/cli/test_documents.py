"""A folder of documents on the command line: one command indexes it, hits and answers lead to file and page."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pypdfium2")
pytest.importorskip("docx")
pytest.importorskip("trafilatura")
pytest.importorskip("markdown_it")

import telerank as tr
from commands import ok, refusal, typed

pytestmark = pytest.mark.filterwarnings("default::telerank.errors.UnreadFiles")
MADE = Path(__file__).parent.parent / "corpus/made_documents"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder ``documents`` in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("documents/sub").mkdir(parents=True)
    names = (
        "eaux.pdf",
        "ecole.pdf",
        "ecole.docx",
        "dechets.html",
        "budget.md",
        "chiffre.pdf",
        "numerise.pdf",
    )
    for name in names:
        shutil.copy(MADE / name, "documents")
    shutil.copy(MADE / "avis.pdf", "documents/sub/avis 1.pdf")
    return tmp_path


def test_one_command_indexes_a_folder_and_hits_say_file_and_page():
    errors = ok("index documents idx --analyzer french -j 1").stderr.splitlines()
    assert errors[0] == "1 not read, encrypted: chiffre.pdf"
    assert errors[1] == "1 not read, scanned, without text: numerise.pdf"
    assert errors[-1].startswith("indexed 8 documents of documents into idx")
    shown = ok("search idx -k 1 --query", "saisir le médiateur de l'eau").stdout
    (docno,) = [word for word in shown.split() if word.startswith("eaux.pdf#")]
    assert docno.startswith("eaux.pdf#")
    assert "[eaux.pdf, page 2]" in " ".join(shown.split())
    hit = json.loads(ok("search idx --query 'rue des Tilleuls' -k 1 --json").stdout)["ranking"][0]
    where = tuple(hit[name] for name in ("docno", "file", "page", "last_page"))
    assert where == ("sub/avis%201.pdf", "sub/avis 1.pdf", 1, 1)
    assert hit["heading"] == "Avis de travaux › 1. Rue des Tilleuls"
    assert "marks" not in hit
    shown = ok(f"data show documents {docno}").stdout.splitlines()
    assert shown[:3] == [f"document {docno}", "Règlement du service des eaux", "eaux.pdf, pages 2–3"]


def test_a_file_is_deleted_by_its_name():
    ok("index documents idx -j 1")
    assert "no file and no document 'eau.pdf'; did you mean 'eaux.pdf'?" in refusal(
        "index delete idx eau.pdf"
    )
    deleted = ok("index delete idx eaux.pdf 'sub/avis 1.pdf'").stderr.splitlines()[-1]
    assert deleted == "deleted 4 documents from idx"


def test_an_update_prints_its_counts_and_info_names_what_is_not_read():
    ok("index documents idx -j 1")
    Path("documents/ecole.docx").unlink()
    Path("documents/budget.md").write_text("# Budget\n\nnouveau")
    Path("documents/dechets.html").rename("documents/déchets.html")
    Path("documents/new.md").write_text("neuf")
    errors = ok("index update documents idx -j 1").stderr.splitlines()
    files = "1 added, 1 changed, 1 moved, 1 gone, 5 unchanged"
    assert errors[-1] == f"idx: files of documents: {files}; 3 documents written"
    assert errors[0] == "1 not read, encrypted: chiffre.pdf"
    swapped = "idx is an index: the folder comes first, `telerank index update documents idx`"
    assert swapped in refusal("index update idx documents")
    facts = json.loads(ok("index update documents idx --json").stdout)
    assert (facts["unchanged"], {*facts["files"]} & {"notes.md"}) == (8, set())
    shown = ok("index info idx").stdout
    assert "files not read           chiffre.pdf: encrypted" in shown
    assert "files not read           numerise.pdf: scanned, without text" in shown


def test_hits_are_grouped_by_file_with_the_number_of_further_passages():
    ok("index documents idx --analyzer french -j 1")
    search = "search idx --query eau --group file"
    shown = " ".join(ok(f"{search} -k 1").stdout.split())
    assert re.search(r"\[eaux\.pdf.*\] \(\+ \d further passages?: #\w", shown)
    hits = json.loads(ok(f"{search} --json").stdout)["ranking"]
    flat = json.loads(ok("search idx --query eau -k 50 --json").stdout)["ranking"]
    assert {hit["file"]: hit["group"]["more"] + 1 for hit in hits} == Counter(hit["file"] for hit in flat)
    assert hits[0]["docno"] == flat[0]["docno"]
    assert hits[0]["group"]["file"] == "eaux.pdf"
    assert hits[0]["group"]["docnos"] == [hit["docno"] for hit in flat if hit["file"] == "eaux.pdf"][1:]
    assert (
        f"of {len(hits[0]['group']['docnos']) + 1} passages of eaux.pdf"
        in ok(f"{search} -k 1 --explain").stdout
    )
    Path("q.tsv").write_text("1\teau\n")
    run = ok("search idx --queries q.tsv --group file -o -").stdout.splitlines()
    assert [line.split()[2] for line in run] == [hit["docno"] for hit in hits]
    assert "group" not in flat[0]
    assert "is not 'file'" in typed("search idx --query eau --group page").stderr


def test_an_index_is_backed_up_and_restored():
    ok("index documents idx -j 1")
    for backup in ("b", "b.tar"):
        assert ok(f"index backup idx {backup}").stderr.startswith(f"{backup}: 19 files of idx, ")
        said = ok(f"index restore {backup} restored --overwrite").stderr
        assert said == f"restored restored from {backup} (8 documents)\n"
        assert ok("search restored --query eau --json").stdout == ok("search idx --query eau --json").stdout
        assert "holds something already" in refusal(f"index restore {backup} restored")
    Path("b/index/manifest.json").write_text("{}")
    assert "b/index/manifest.json: damaged" in refusal("index restore b other")
    assert "no backup" in refusal("index restore documents other")
    assert not Path("other").exists()


def test_a_conversion_says_that_pages_are_lost():
    shutil.rmtree("documents/sub")
    printed = ok("data convert documents out --to jsonl")
    assert "documents lose the pages and headings of their files" in printed.stdout + printed.stderr


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    assert "pip install 'telerank[files]'" in refusal("index documents idx")
    assert not Path("idx/manifest.json").exists()


def test_segments_and_answers_of_whole_documents_say_their_pages(folder):
    pytest.importorskip("torch")
    from small_readers import reader_with
    from small_rerankers import small_reranker
    from telerank.models.readers import save_reader
    from telerank.models.rerankers.reranker import save_reranker

    save_reranker(small_reranker(folder), folder / "mono")
    save_reader(reader_with(folder, "word pieces", threshold=1e9), folder / "reader")
    tr.index(tr.collection("documents", format="whole-documents"), "idx", analyzer="french", workers=1)
    search = "search idx --query 'Litiges médiateur' --show-segment --json --model"
    shown = ok(search, "bm25 % 1 >> maxp(rerank('mono'), window=best)").stdout
    record = json.loads(shown)["ranking"][0]
    index = tr.open("idx")
    assert record["docno"] == "eaux.pdf"
    location = index.locate("eaux.pdf", *record["segment"]["span"])
    assert record["segment"]["page"] == location.page
    assert record["segment"]["file"] == "eaux.pdf"
    ask = "answer idx --query 'Litiges médiateur' --reader reader --depth 1"
    (answer, *_) = json.loads(ok(f"{ask} --json").stdout)["answers"]
    page = index.locate("eaux.pdf", answer["start"], answer["start"] + len(answer["text"])).page
    assert answer["page"] == page
    assert f"document eaux.pdf [eaux.pdf, page {page}]" in ok(ask).stdout
