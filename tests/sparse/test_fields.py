"""Fields: BM25F against plain Python and Lucene, models of one field, building, changing, and their errors."""

from __future__ import annotations

import json
from collections import Counter
from math import fsum, log1p
from pathlib import Path
from random import Random

import lucene_fields
import numpy as np
import pytest
from small import MODELS, STEP, contents, retriever

import telerank as tr
from telerank.columns.filters import Filter
from telerank.errors import ArgumentError, IndexFault, ModelError
from telerank.retrieval.index import Index
from telerank.sparse.index import SparseIndex
from telerank.sparse.similarities.families import make_grid, parse_similarity
from telerank.sparse.similarities.fields import BM25F, InField
from telerank.sparse.writer import IndexWriter, build_index
from telerank.testing import check_stage
from telerank.text import Analyzer
from telerank.types import Doc, Query

FIELDS = ("title", "text", "topics")
SETTINGS = (
    "bm25f(title=3, text=1, k1=1.2, b=0.75)",
    "bm25f(k1=1.2, b=0.75)",
    "bm25f(text=1, k1=0, b=1)",
    "bm25f(topics=7, title=0.5, k1=2, b=1, title.b=0)",
    "bm25f(title=2, text=1, topics=3, k1=0.9, b=0.4, lengths=combined)",
)
QUERIES = ("a", "i", "b d", "h h h a", "a b c d e f g h i", "i nowhere", "z", "")


def make_docs(seed: int, size: int, first: int = 0) -> list[Doc]:
    """Documents of nine letters, each twice as frequent as the next; z is in topics alone."""
    random = Random(seed)

    def text(longest: int) -> str:
        return " ".join(
            random.choices("abcdefghi", [2.0**-i for i in range(9)], k=random.randint(0, longest))
        )

    docs = []
    for number in range(first, first + size):
        topics = tuple(random.sample(("e f", "z", "i", "a"), random.randint(0, 2)))
        columns = {"topics": topics} if topics else {}
        docs.append(Doc(f"d{number}", text(30), text(3), columns=columns))
    return docs


def bm25f_by_hand(docs: list[Doc], query: list[str], model: BM25F) -> dict[str, float]:
    """The scores of all documents that hold a term, in float64, without the library's code."""
    weights = dict(model.weights) or dict.fromkeys(FIELDS, 1)
    counts = {doc.docno: {f: Counter(doc.field(f).split()) for f in weights} for doc in docs}
    lengths = {doc.docno: {f: len(doc.field(f).split()) for f in weights} for doc in docs}
    average = {f: np.mean([each[f] for each in lengths.values() if each[f]]) for f in weights}
    present = sum(any(each.values()) for each in lengths.values())
    total = sum(w * each[f] for each in lengths.values() for f, w in weights.items())
    scores: dict[str, list[float]] = {}
    for term in query:
        holding = [docno for docno, own in counts.items() if any(own[f][term] for f in weights)]
        idf = log1p((present - len(holding) + 0.5) / (len(holding) + 0.5)) if holding else 0
        for docno in holding:
            x = 0.0
            for f, w in weights.items():
                relative = lengths[docno][f] / average[f]
                if model.lengths == "combined":
                    relative = sum(v * lengths[docno][g] for g, v in weights.items()) / (total / present)
                b = dict(model.own_b).get(f, model.b)
                if counts[docno][f][term]:
                    x += w * counts[docno][f][term] / (1 - b + b * relative)
            scores.setdefault(docno, []).append(idf * x / (x + model.k1))
    return {docno: fsum(parts) for docno, parts in scores.items()}


@pytest.fixture(scope="module")
def docs() -> list[Doc]:
    return make_docs(1, 600)


@pytest.fixture(scope="module")
def index(docs, tmp_path_factory) -> SparseIndex:
    folder = tmp_path_factory.mktemp("fields") / "index"
    with IndexWriter(folder, Analyzer.parse("none"), workers=1, stretch=4000) as writer:
        writer.choose_fields(FIELDS, positions=True)
        writer.add(docs)
    return SparseIndex(folder)


@pytest.mark.parametrize("text", SETTINGS)
def test_bm25f_is_the_formula_document_by_document_at_every_depth(text, docs, index):
    stage = retriever(index, text)
    assert repr(stage) == text
    for query in QUERIES:
        exact = bm25f_by_hand(docs, query.split(), parse_similarity(text))
        ranking = list(stage.search(query))
        assert {docno for docno, _ in ranking} == set(exact)
        for docno, score in ranking:
            assert abs(score - exact[docno]) <= len(query.split()) * STEP / 2 + exact[docno] * 2**-24
        # blocks are skipped, and what is found is what adding every posting finds
        for k in (1, 10, 50):
            assert list((stage % k).search(query)) == ranking[:k]
        [impacts] = index.impacts(stage.similarity)
        term = index.lists(stage.similarity).term
        weights = {term(t).numbers[0]: n for t, n in Counter(query.split()).items() if term(t).df}
        rows, scores = impacts.rank_exhaustively(weights, 600)
        assert list(zip(index.segments[0].docnos.take(rows), scores.tolist(), strict=True)) == ranking
        rows, scores = impacts.rank_by_numpy(weights, 600)
        assert scores.tolist() == [score for _, score in ranking]


@pytest.mark.parametrize("number", range(len(lucene_fields.SETTINGS)))
def test_combined_lengths_are_lucenes_combined_fields(number, tmp_path):
    folder = Path(__file__).parents[1] / "parity"
    oracle = json.loads((folder / "lucene_fields.json").read_text())
    documents, queries = lucene_fields.read_documents(folder / "lucene_oracle.json.gz")
    made = [Doc(f"d{n}", text, title) for n, (title, text) in enumerate(documents)]
    built = tr.index(made, tmp_path / "index", analyzer="none", fields=["title", "text"], workers=1).sparse
    title, text = oracle["settings"][number]
    stage = retriever(built, BM25F((("title", title), ("text", text)), lengths="combined"))
    for query, scores in zip(queries, oracle["scores"][number], strict=True):
        ranking = dict(stage.search(" ".join(query)))
        assert ranking == pytest.approx({f"d{row}": score for row, score in scores.items()}, rel=5e-6)


def test_a_model_of_a_field_ranks_as_over_an_index_of_that_field_alone(docs, index, tmp_path):
    for field in ("title", "text"):
        alone = build_index([Doc(d.docno, d.field(field)) for d in docs], tmp_path / field, analyzer="none")
        for model in MODELS[:: 5 if field == "text" else 9]:
            reading, own = retriever(index, InField(model, field)), retriever(alone, model)
            for query in QUERIES:
                assert list(reading.search(query)) == list(own.search(query)), (model, query)
            assert parse_similarity(repr(reading)) == reading.similarity


def test_the_whole_texts_are_those_of_an_index_without_fields(docs, index, tmp_path):
    build_index(docs, tmp_path / "plain", analyzer="none", workers=1)
    plain, with_fields = contents(tmp_path / "plain"), contents(index.folder)
    assert not [name for name in plain if name.startswith("fields.") or "positions" in name]
    assert {name: with_fields[name] for name in plain} == plain


def test_an_explanation_sums_by_term_and_field_to_the_last_digit(docs, index):
    for text in SETTINGS[:2]:
        stage = retriever(index, text)
        for query in ("b d", "h h h a i"):
            for docno, score in list(stage.search(query))[:40]:
                whole = stage.explain(query, docno)
                assert whole.value == score == sum(part.value for part in whole.parts)
                for term in whole.parts:
                    assert not term.parts or sum(part.value for part in term.parts) == term.value
                    fields = {part.what.facts["field"] for part in term.parts}
                    assert fields <= set(FIELDS)
                    if "term" in getattr(term.what, "facts", {}) and term.value:
                        doc, name = docs[int(docno[1:])], term.what.facts["term"]
                        named = dict(stage.similarity.weights) or FIELDS
                        assert fields == {f for f in named if name in doc.field(f).split()}


def test_changed_step_by_step_an_index_has_the_files_of_a_new_one(tmp_path):
    first, second, third = (make_docs(seed, 80, 100 * seed) for seed in (1, 2, 3))
    again = [Doc(doc.docno, "a new text b", "c", columns=doc.columns) for doc in first[:7]]
    with IndexWriter(tmp_path / "grown", Analyzer.parse("none"), workers=1) as writer:
        writer.choose_fields(FIELDS, positions=True)
        writer.add(first)
        writer.add(second)
        writer.delete([doc.docno for doc in second[3:9]])
        writer.add([*again, *third], update=True)
        writer.merge()
    final = [*first[7:], *second[:3], *second[9:], *again, *third]
    with IndexWriter(tmp_path / "anew", Analyzer.parse("none"), workers=2, stretch=700) as writer:
        writer.choose_fields(FIELDS, positions=True)
        writer.add(final)
    grown, anew = contents(tmp_path / "grown"), contents(tmp_path / "anew")
    assert grown.keys() == anew.keys()
    assert [name for name in anew if grown[name] != anew[name] and not name.startswith("docs.")] == []
    opened = Index(tmp_path / "grown")
    assert opened.verify() == len(grown)
    assert opened.info()["fields"] == "title, text, topics"
    exact = bm25f_by_hand(final, ["b", "z"], BM25F())
    assert dict(opened.bm25f().search("b z")) == pytest.approx(exact, abs=1e-5)


def test_several_segments_and_deleted_documents_rank_as_one_index_does(docs, index, tmp_path):
    """Deleted documents count in the statistics of fields as in those of texts."""
    with IndexWriter(tmp_path / "parts", Analyzer.parse("none"), workers=1) as writer:
        writer.choose_fields(FIELDS)
        for start in range(0, 600, 150):
            writer.add(docs[start : start + 150])
        parts = SparseIndex(tmp_path / "parts")
        for text in (SETTINGS[0], "bm25(field=topics)", "tfidf(field=title)"):
            for query in QUERIES:
                expected = list(retriever(index, text).search(query))
                assert list(retriever(parts, text).search(query)) == expected
        gone = {docno for docno, _ in list(retriever(index, SETTINGS[0]).search("b d"))[:9]}
        writer.delete(gone)
    expected = [pair for pair in retriever(index, SETTINGS[0]).search("b d") if pair[0] not in gone]
    assert list(retriever(SparseIndex(tmp_path / "parts"), SETTINGS[0]).search("b d")) == expected


def test_a_filter_searches_within_and_facets_count_what_a_field_holds(docs, index):
    opened = Index(index.folder)
    stage = opened.bm25f({"title": 3, "text": 1})
    for chosen in ('"z" in topics', '"z" not in topics', 'docno < "d2"'):
        passing = opened.within(Filter.parse(chosen)).docs
        filtered = list(stage.where(chosen).search("b d"))
        assert filtered == [pair for pair in stage.search("b d") if pair[0] in passing]
        assert filtered[:5] == list((stage.where(chosen) % 5).search("b d"))
    [facet] = opened.facets("z", ["topics"], opened.bm25(field="topics"))
    assert {value.text: value.count for value in facet.values}["z"] == facet.documents
    assert facet.documents == sum("z" in doc.columns.get("topics", ()) for doc in docs)


def test_stages_over_fields_obey_the_laws_and_add_up(index):
    queries = [Query(str(n), text) for n, text in enumerate(QUERIES)]
    opened = Index(index.folder)
    for stage in (opened.bm25f({"title": 3, "text": 1}), opened.bm25(field="title")):
        check_stage(stage, queries)
    whole = opened.bm25(field="title") % 20 + 0.5 * (opened.lm_dirichlet(field="text") % 20)
    assert tr.pipeline(repr(whole), opened) == whole
    assert "field=title" in repr(whole)
    fed = tr.pipeline("bm25f(title=3, text=1) % 50 >> rm3 % 10", opened)
    assert len(fed.search("b d")) == 10


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("bm25f('date de mise à jour'=2, k1=1.2, b=0.75)", {"date de mise à jour": 2}),
        ("bm25f('k1'=3, k1=0.5, b=0.75, 'k1'.b=0.25)", {"k1": 3}),
        ("bm25f('x.b'=3, k1=1.2, b=0.75, 'x.b'.b=1)", {"x.b": 3}),
        ("bm25f('l\\'été'=1, k1=1.2, b=0.75)", {"l'été": 1}),
        ("bm25f('lengths'=1, title=2, k1=1.2, b=0.75, lengths=combined)", {"lengths": 1, "title": 2}),
    ],
)
def test_fields_of_any_name_have_a_text_that_reads_back(text, fields):
    model = parse_similarity(text)
    assert dict(model.weights) == fields
    assert repr(model) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bm25f(titel=3)", r"bm25f: the index has no field 'titel'; did you mean 'title'\?"),
        ("bm25(field=nowhere)", r"has no field 'nowhere'; known: title, text, topics"),
        ("bm25f(3)", r"bm25f takes fields with their weights, such as title=3"),
        ("bm25f(title=0)", r"the weight of title must be above 0 and at most 1000, got 0"),
        ("bm25f(title=1, title=2)", r"bm25f: 'title' is given twice"),
        ("bm25f(title=1, b=2)", r"bm25f: b must be from 0 to 1, got 2"),
        ("bm25f(title=1, title.b=2)", r"title\.b must be from 0 to 1, got 2"),
        ("bm25f(title=1, text.b=1)", r"text\.b is of a field without a weight"),
        ("bm25f(title=1, title.b=0, lengths=combined)", r"with lengths=combined all fields share one b"),
        ("bm25f(title=1, lengths=both)", r"lengths must be one of fields, combined"),
        ("bm25f(title=many)", r"expected a number, got 'many'"),
        ("bm25f(k=1.2)", r"has no field 'k'"),
        ("bm25(field=title, field=text)", r"bm25: field is given twice"),
        ("bm25('field'=title)", r"bm25 has no parameter \"'field'\""),
    ],
)
def test_what_is_no_model_of_fields_is_one_line(text, message, index):
    with pytest.raises(ModelError, match=message) as caught:
        tr.pipeline(text, Index(index.folder))
    assert "\n" not in str(caught.value)


def test_an_index_without_fields_says_what_to_write(tmp_path):
    plain = tr.index({"1": "a b"}, tmp_path / "plain", workers=1)
    for text in ("bm25f", "bm25f(title=3, text=1)", "bm25(field=title)"):
        with pytest.raises(ModelError, match=r"has no fields: index it again with --fields title,text"):
            tr.pipeline(text, plain)
    with pytest.raises(IndexFault, match=r"has no positions of terms: index it again with --positions"):
        plain.sparse.find_phrase(["a", "b"])
    with pytest.raises(IndexFault, match=r"built with the fields none, not title, text: overwrite it"):
        tr.index({"1": "a b"}, tmp_path / "plain", fields=["title", "text"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["title", "titel"], r"fields: no document has the column 'titel'; did you mean 'title'\?"),
        (
            ["size"],
            r"fields: the column size is of the kind number: expected one of texts \(string or list\)",
        ),
        (["title", "title"], r"fields: 'title' is given twice"),
        (["title", ""], r"the name of a column has 1 to 200 printable characters"),
        (list(map(str, range(17))), r"fields: expected at most 16, got 17"),
    ],
)
def test_fields_that_no_document_has_are_refused_and_nothing_is_written(fields, message, tmp_path):
    with pytest.raises(ArgumentError, match=message):
        tr.index([{"docno": "1", "text": "a", "size": 3}], tmp_path / "index", fields=fields, workers=1)
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_a_field_that_some_documents_lack_counts_only_where_it_is(tmp_path):
    records = [{"docno": "1", "text": "a", "note": "b c"}, {"docno": "2", "text": "b"}]
    opened = tr.index(records, tmp_path / "index", fields=["note", "title"], analyzer="none", workers=1)
    assert [docno for docno, _ in opened.bm25f().search("b")] == ["1"]
    assert list(opened.bm25(field="title").search("b")) == []
    opened.add([{"docno": "3", "text": "", "title": "b"}])
    assert [docno for docno, _ in opened.bm25f().search("b")] == ["3", "1"]


def test_tuning_tries_weights_of_the_fields_of_a_model_or_of_the_index():
    grid = make_grid(BM25F(), ("title", "text"))
    assert len(grid) == len(set(grid)) == 80
    assert {dict(model.weights)["text"] for model in grid} == {1}
    assert len({dict(model.weights)["title"] for model in grid}) == 5
    assert make_grid(parse_similarity("bm25f(topics=1)"))[0].reads == ("topics",)
    assert all(model.field == "title" for model in make_grid(parse_similarity("bm25(field=title)")))
    with pytest.raises(ModelError, match="name 1 to 4 fields to tune, got 5"):
        make_grid(BM25F(), tuple("abcde"))


def test_phrases_are_found_where_the_texts_have_them(docs, index):
    for phrase in ("a", "a b", "b a a", "c b a d", "i i", "z", "nowhere a", "e f z"):
        terms = phrase.split()
        [rows] = index.find_phrase(terms)
        assert rows.keys() == set(FIELDS)
        for field, found in rows.items():
            assert found.tolist() == [
                n for n, doc in enumerate(docs) if _has(doc.field(field).split(), terms)
            ]
        [whole] = index.find_phrase(terms, [""])
        assert whole[""].tolist() == [n for n, doc in enumerate(docs) if _has(doc.full_text.split(), terms)]
    assert index.find_phrase([])[0]["text"].tolist() == []
    with pytest.raises(ModelError, match=r"phrase: the index has no field 'titel'; did you mean 'title'\?"):
        index.find_phrase(["a"], ["titel"])


def _has(words: list[str], phrase: list[str]) -> bool:
    return any(words[n : n + len(phrase)] == phrase for n in range(len(words)))
