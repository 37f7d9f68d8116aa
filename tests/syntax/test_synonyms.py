"""Synonyms of queries from a file, as the analyzer's own step has them, and acronyms that texts explain."""

from __future__ import annotations

import json

import pytest

import telerank as tr
from commands import ok, refusal
from telerank.errors import AnalyzerError, ArgumentError
from telerank.syntax.acronyms import acronym_lines, find_acronyms
from telerank.syntax.synonyms import SynonymTerms, WithSynonyms
from telerank.testing import check_stage
from telerank.types import Doc, Query

TEXTS = [
    "La carte nationale d’identité (CNI) est gratuite.",
    "Une carte nationale d'identité (C.N.I.) perdue se déclare.",
    "Le contrat à durée indéterminée (CDI) et le SMIC (salaire minimum interprofessionnel de croissance).",
    "Ma voiture est neuve (ABC), et la Cour de cassation (CDC).",
    "La CNI coûte (XYZ) 25 euros.",
]
LINES = "cni, carte d'identité\nauto => voiture\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> tr.Index:
    docs = [Doc(str(number), text) for number, text in enumerate(TEXTS)]
    folder = tmp_path_factory.mktemp("synonyms") / "index"
    return tr.index(docs, folder, analyzer="french", workers=1, progress=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "syn.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


def test_they_find_what_the_step_of_the_analyzer_finds(index, file, tmp_path):
    step = tr.index(
        list(index.docs.values()),
        tmp_path / "step",
        analyzer=f"french|synonyms({file})",
        workers=1,
        progress=False,
    )
    stage = WithSynonyms(index.bm25(), SynonymTerms.read(file))
    for query in ("cni", "ma cni et mon auto", "carte d'identité", "auto", "zzz", ""):
        assert stage.search(query) == step.bm25().search(query)
    assert {*stage.search("auto").docnos} == {"3"}
    assert not len(index.bm25().search("auto"))
    assert "'ident'" in str(stage.explain("cni", "4"))


def test_an_explanation_tells_of_synonyms(index, file):
    stage = WithSynonyms(index.bm25(), SynonymTerms.read(file))
    own, others = stage.explain("cni", "0").parts
    assert "'cni'" in own.what
    assert others.what == "synonyms of the file syn.txt"
    assert others.value == sum(part.value for part in others.parts) > 0
    assert stage.explain("cni", "0").value == dict(stage.search("cni"))["0"]
    assert "synonyms" not in str(stage.explain("gratuite", "0"))


def test_the_stage_obeys_the_laws_and_reads_back_from_its_text(index, file):
    queries = [Query(str(number), text) for number, text in enumerate(("cni", "", "auto carte", "zzz"))]
    for stage in (
        WithSynonyms(index.bm25() % 3, SynonymTerms.read(file)),
        WithSynonyms(index.bm25(), SynonymTerms.read(file)) % 2,
    ):
        check_stage(stage, queries)
        assert tr.pipeline(repr(stage), index) == stage
    with pytest.raises(ArgumentError, match="searches no words"):
        WithSynonyms(index.boolean(), SynonymTerms.read(file))


def test_a_change_of_the_file_counts_at_once_and_its_checksum_is_in_the_record(index, file, tmp_path):
    queries = {"1": "bagnole", "2": "cni"}
    runs = []
    for lines in (LINES, "bagnole => voiture\n"):
        file.write_text(lines, encoding="utf-8")
        run = tr.search(index, queries, synonyms=file, progress=False)
        run.save(str(tmp_path / "a.run"))
        runs.append((len(next(iter(run))), json.loads((tmp_path / "a.run.json").read_text())["sources"]))
    assert [hits for hits, _ in runs] == [0, 1]
    assert len({json.dumps(sources) for _, sources in runs}) == 2
    plain = tr.search(index, queries, progress=False)
    assert [ranking.docnos for ranking in plain] == [
        ranking.docnos for ranking in index.bm25().run([Query(*pair) for pair in queries.items()])
    ]


def test_the_command_has_them_and_refuses_what_is_no_file_of_synonyms(index, file, tmp_path):
    assert "voiture" in ok(f"search {index.folder} --synonyms {file} -q auto").stdout
    both = ok(f"search {index.folder} --synonyms {file} --syntax simple -q", "auto -neuve").stdout
    assert "nothing found" in both
    assert "cannot read the file" in refusal(f"search {index.folder} --synonyms {tmp_path}/no -q auto")
    file.write_text("a, , b\n")
    assert "line 1: expected words" in refusal(f"search {index.folder} --synonyms {file} -q auto")


def test_acronyms_are_found_where_initials_agree_and_are_a_file_of_synonyms(index, tmp_path):
    acronyms = find_acronyms(index.docs.values())
    assert [(each.short, each.long, each.documents) for each in acronyms] == [
        ("CNI", "carte nationale d’identité", 2),
        ("CDC", "Cour de cassation", 1),
        ("CDI", "contrat à durée indéterminée", 1),
        ("SMIC", "salaire minimum interprofessionnel de croissance", 1),
    ]
    printed = ok(f"index acronyms {index.folder} --least 2").stdout
    assert printed.splitlines() == [*acronym_lines(find_acronyms(index.docs.values(), 2))]
    assert "CNI, carte nationale d’identité" in printed
    (tmp_path / "found.txt").write_text(printed, encoding="utf-8")
    stage = WithSynonyms(index.bm25(), SynonymTerms.read(tmp_path / "found.txt"))
    assert {"0", "1", "4"} <= {*stage.search("cni").docnos}


def test_hostile_texts_take_time_in_proportion():
    texts = [
        "(" * 50_000,
        "a (" * 30_000,
        "A" * 100_000 + "(",
        "word " * 20_000 + "(ABC)",
        "(ABC) " * 20_000,
        "AB(" * 30_000,
    ]
    assert find_acronyms([Doc(str(n), text) for n, text in enumerate(texts)]) == []


def test_an_entry_without_words_is_named(index, tmp_path):
    (tmp_path / "bad.txt").write_text("cni, carte\nle, la\n", encoding="utf-8")
    with pytest.raises(AnalyzerError, match=r"bad\.txt, line 2"):
        WithSynonyms(index.bm25(), SynonymTerms.read(tmp_path / "bad.txt"))
