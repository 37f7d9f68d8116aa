from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from telerank.corpus.formats import PIAF, piaf

SCRIPT = Path(__file__).parents[2] / "scripts/make_piaf_sample.py"


def test_it_has_all_paragraphs_and_questions():
    collection = piaf()
    docs, queries, qrels = (
        list(one) for one in (collection.docs(), collection.split_queries(), collection.split_qrels())
    )
    assert (len(docs), len(queries), len(qrels)) == (1518, 7569, 7569)
    assert (docs[0].docno, docs[0].title, docs[0].text[:24]) == ("0-0", "Sport", "Les dépenses des ménages")
    assert (queries[0].qid, queries[0].text) == (
        "p140295443291664",
        "Combien de personnes travaillent au ministère des sports",
    )


def test_it_is_small_and_its_licence_and_source_lie_beside_it():
    assert PIAF.stat().st_size <= 1_000_000
    licence, source = ((PIAF.parent / name).read_text(encoding="utf-8") for name in ("LICENSE", "SOURCE.md"))
    assert licence.startswith("MIT License")
    assert "Etalab" in licence
    assert "piaf.etalab.studio" in source
    assert piaf().licence == "MIT"


@pytest.mark.data
def test_it_is_what_its_program_makes_of_the_published_file(data):
    spec = importlib.util.spec_from_file_location("make_piaf_sample", SCRIPT)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    published = json.loads(gzip.decompress((data / "piaf/piaf-v1.1.json.gz").read_bytes()))
    bundled = gzip.decompress(PIAF.read_bytes())
    assert gzip.decompress(program.packed(published)) == bundled
    assert json.loads(bundled) == published
