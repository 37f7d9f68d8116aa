"""Documents by their segments: the aggregates, the laws of stages, explanations, pipelines as text."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from long_texts import said
from telerank.batches import WindowLimits
from telerank.errors import CollectionError, ExpressionError, ModelError
from telerank.fusion import minmax
from telerank.models.pairs.pair import PairTokenizer
from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.pipelines.functions import pipeline
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker, explain_score
from telerank.reranking.texts import TokenizedPairs
from telerank.retrieval.index import Index
from telerank.segments.scorer import SegmentScorer
from telerank.segments.settings import NAMED, Aggregate, SegmentSettings, convert
from telerank.segments.split import Segmenter
from telerank.segments.stage import (
    SegmentReranker,
    SegmentSum,
    birch,
    explain_document,
    match_segments,
    passages,
)
from telerank.sparse.writer import build_index
from telerank.stage import walk_stages
from telerank.testing import check_stage
from telerank.types import Doc, Query, Ranking

DOCS = [Doc(f"d{n}", said(13 * n, every=7, seed=n), "x1 x2" if n % 2 else "") for n in range(9)]
QUERIES = [Query("1", "q1 q2"), Query("2", ""), Query("3", f"q3 d4 {said(30)}"), Query("4", "q1 d2")]
CANDIDATES = [
    Ranking.ranked(query, [f"d{n}" for n in range(n, n + 5)], np.arange(5)) for n, query in enumerate(QUERIES)
]
KINDS = [
    *map(Aggregate, ("first", "max", "mean", "sum")),
    Aggregate("kmax", 2),
    Aggregate("best", weights=(1, 0.5)),
]
ROOM = 48 - 3 - 8


@pytest.fixture(scope="session")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments") / "idx"
    build_index(DOCS, folder, analyzer="standard", workers=1)
    return Index(folder)


@pytest.fixture(scope="session")
def model(tmp_path_factory, rerankers):
    folder = tmp_path_factory.mktemp("named")
    save_reranker(rerankers["monobert"], folder / "mono")
    return str(folder / "mono")


@pytest.fixture(scope="session")
def reranker(model, index):
    return CrossReranker(Scorer(model), index.docs, name=model)


def alone(reranker, query: str, doc: Doc, settings=NAMED["whole"]) -> np.ndarray:
    """The scores of segments, one pair of tokens at a time."""
    loaded = reranker.scorer.reranker
    segments = Segmenter.of(loaded, settings)(doc)
    tokens, texts = loaded.texts.queries([query]), loaded.texts
    number = np.zeros((1, 2), np.int64)
    pairs = [TokenizedPairs(texts, tokens, [segments.passage(n)], number) for n in range(len(segments))]
    return np.array([Scorer(loaded).score_pairs(pair)[0] for pair in pairs])


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (Aggregate("first"), 1),
        (Aggregate("max"), 4),
        (Aggregate("mean"), 1.75),
        (Aggregate("sum"), 7),
        (Aggregate("kmax", 2), 3.5),
        (Aggregate("kmax", 9), 1.75),
        (Aggregate("best", weights=(1, 0.5, 0.25)), 4 + 1.5 + 0.25),
        (Aggregate("best", weights=(1, 1, 1, 1, 100)), 7),
    ],
)
def test_the_score_of_a_document_is_the_aggregate_of_its_segments(aggregate, expected):
    assert aggregate(np.array([1.0, 3.0, -1.0, 4.0])) == pytest.approx(expected)
    assert Aggregate("max").weigh(np.array([1.0, 2.0, 2.0])).tolist() == [0, 1, 0]  # the first of the best


def test_probabilities_do_not_overflow():
    assert convert(np.array([-1e4, 0.0, 1e4]), "probability").tolist() == [0, 0.5, 1]
    assert convert(np.array([-1e4]), "logit").tolist() == [-1e4]


@pytest.mark.parametrize(
    "wrong", [("median",), ("kmax", 0), ("best",), ("max", 1, (1.0,)), ("best", 1, (math.nan,))]
)
def test_wrong_aggregates_are_refused(wrong):
    with pytest.raises(ValueError, match=r"expected|no aggregate|at least 1"):
        Aggregate(*wrong)


def test_stages_by_segments_obey_the_laws_of_stages(reranker):
    check_stage(SegmentReranker(reranker, Aggregate("kmax", 2)), CANDIDATES, tolerance=1e-5)


def test_sums_with_the_first_stage_obey_the_laws_of_stages(reranker, index):
    stage = passages(index.bm25() % 4, reranker, 0.3, 0.7, 30, stride=20)
    check_stage(stage, QUERIES, tolerance=1e-5)
    assert isinstance(stage, SegmentSum)
    assert any(name.startswith("rerank(") for part in walk_stages(stage) for name in part.sources)


class RecordingTexts(PairTokenizer):
    """Keeps the longer texts that it encodes."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.encoded = []

    def encode(self, texts):
        self.encoded += [text for text in texts if len(text) > 150]
        return super().encode(texts)


def recording(reranker) -> Reranker:
    loaded = reranker.scorer.reranker
    texts = RecordingTexts(loaded.texts.tokenizer, max_query=8, max_length=48)
    return Reranker(loaded.model, texts, loaded.shape)


@pytest.mark.parametrize(
    ("window", "settings"),
    [
        (WindowLimits(100, 2, 1), NAMED["whole"]),
        (WindowLimits(1_000_000, 3, 1024), NAMED["best"]),
        (WindowLimits(1_000_000, 3, 1024), SegmentSettings(length=9, stride=4)),
    ],
)
def test_segments_are_scored_as_alone_and_each_document_is_tokenised_once(reranker, window, settings):
    """In batches across documents and queries, whatever the window of documents."""
    loaded = recording(reranker)
    scorer = SegmentScorer(Scorer(loaded), settings, window=window)
    groups = [[(each.query.text, DOCS[int(docno[1:])]) for docno in each.docnos] for each in CANDIDATES]
    for group, scores in zip(groups, scorer.stream(groups), strict=True):
        for (query, doc), logits in zip(group, scores, strict=True):
            assert logits == pytest.approx(alone(reranker, query, doc, settings), abs=1e-5)
    assert len(loaded.texts.encoded) == len(set(loaded.texts.encoded)) > 1


def test_documents_are_forgotten_beyond_the_bound(reranker):
    loaded = recording(reranker)
    scorer = SegmentScorer(Scorer(loaded), NAMED["whole"], most_tokens=len(DOCS[7].text) // 4)
    for number in (7, 8, 8, 7):
        scorer.score("q1", DOCS[number])
    assert loaded.texts.encoded == [DOCS[7].text, DOCS[8].text, DOCS[7].text]
    assert len(scorer.score("q1", Doc("d7", "q1"))[0].ids) == 1  # it has changed


def test_short_documents_have_the_scores_of_the_reranker(reranker):
    short = [Ranking.ranked(QUERIES[0], ["d0", "d1", "d2"], np.arange(3))]
    expected = dict(next(reranker(short)))
    for aggregate in KINDS:
        assert dict(next(SegmentReranker(reranker, aggregate)(short))) == pytest.approx(expected, abs=1e-5)


def test_what_is_cut_is_counted_and_said(reranker):
    titled = {"a": Doc("a", said(100), said(40)), "b": Doc("b", "q1")}
    stage = SegmentReranker(CrossReranker(reranker.model, titled), Aggregate("max"), SegmentSettings(first=2))
    assert stage.remarks == []
    list(stage([Ranking.ranked(QUERIES[0], ["a", "b"], [1, 2])]))
    left = 100 - 2 * (ROOM - ROOM // 2)
    assert [remark.split("): ")[-1] for remark in stage.remarks] == [
        "1 title longer than half of a segment: cut there",
        f"1 of 2 documents longer than 2 segments: cut there, {left} tokens were not read",
    ]
    first = SegmentReranker(reranker, Aggregate("first"))
    list(first(CANDIDATES))
    assert first.scorer.counts.segments == first.scorer.counts.documents == 20


def test_the_query_alone_is_cut_in_a_pair_with_a_segment(model, index):
    reranker = CrossReranker(Scorer(model), index.docs, name=model)
    list(SegmentReranker(reranker, Aggregate("max"))(CANDIDATES[2:3]))
    (remark,) = reranker.remarks
    assert remark.startswith(f"rerank({model}): ")
    assert reranker.scorer.counts.cut == reranker.scorer.counts.cut_pairs * 24


def test_the_winning_segment_is_named_with_its_characters_and_why_it_won(reranker):
    stage = SegmentReranker(reranker, Aggregate("max"), NAMED["best"])
    said_why = stage.explain(QUERIES[0], "d8")
    scores = alone(reranker, "q1 q2", DOCS[8], NAMED["best"])
    segments = Segmenter.of(reranker.scorer.reranker, NAMED["best"])(DOCS[8])
    start, end = segments.span(int(scores.argmax()))
    assert said_why.value == pytest.approx(scores.max(), abs=1e-5)
    assert said_why.what.startswith(f"the greatest of {len(scores)} segments by ")
    winner = said_why.parts[0]
    assert winner.value == pytest.approx(scores.max(), abs=1e-5)
    named = f"segment {scores.argmax() + 1} of {len(scores)}, characters {start} to {end}"
    assert winner.what.startswith(f"{named}: “{' '.join(DOCS[8].text[start:end].split())[:80]}…”, which")
    assert winner.parts[-1].what == "what single sentences add, in all"
    assert len(said_why.parts) == len(scores)


def test_what_is_explained_has_the_title_that_was_ranked_and_is_not_counted(reranker):
    title = said(40)
    doc = Doc("a", said(60, every=5, seed=4), title)
    stage = SegmentReranker(CrossReranker(Scorer(reranker.scorer.reranker), {"a": doc}), Aggregate("max"))
    list(stage([Ranking.ranked(QUERIES[0], ["a"], [1])]))
    counted = replace(stage.scorer.counts), replace(stage.reranker.scorer.counts), stage.all_remarks
    segments = stage.scorer.segmenter(doc)
    kept = segments.kept_title
    assert segments.cut_title
    assert kept == " ".join(title.split()[: ROOM // 2])
    scorer = replace(stage.reranker.scorer)
    explained = explain_document(
        replace(stage.reranker, model=scorer),
        stage.aggregate,
        "q1 q2",
        segments,
        stage.scorer.score("q1 q2", doc)[1],
    )
    winner = explained.parts[0]
    one = match_segments(stage.aggregate, segments, stage.scorer.score("q1 q2", doc)[1])[0]
    alone = explain_score(scorer, "q1 q2", f"{kept} {one.text}")
    assert [part.value for part in winner.parts] == [part.value for part in alone.parts]
    assert stage.explain(QUERIES[0], "a").value == pytest.approx(explained.value, abs=1e-5)
    stage.match(QUERIES[0], "a")
    assert (stage.scorer.counts, stage.reranker.scorer.counts, stage.all_remarks) == counted


HOSTILE = {
    "megabyte": Doc("megabyte", f"{'y' * 130} " * 8000 + "q1 q2."),
    "empty": Doc("empty", ""),
    "sentence": Doc("sentence", said(5000)),
    "titled": Doc("titled", said(60, every=7), said(90)),
}


def test_hostile_documents_are_ranked_and_explained_and_nothing_is_dropped_silently(reranker):
    stage = SegmentReranker(
        CrossReranker(Scorer(reranker.scorer.reranker), HOSTILE), Aggregate("max"), NAMED["best"]
    )
    (ranked,) = stage([Ranking.ranked(QUERIES[0], [*HOSTILE], [4, 3, 2, 1])])
    scores = dict(ranked)
    assert scores.keys() == HOSTILE.keys()
    assert len(HOSTILE["megabyte"].text) > 1_000_000
    counts = {}
    for docno, doc in HOSTILE.items():
        segments = stage.scorer.segmenter(doc)
        counts[docno] = len(segments)
        assert segments.windows[0, 0] == segments.left_out == 0
        starts, ends = segments.windows.T.tolist()
        assert starts[1:] == ends[:-1]  # no token is between two
        assert max(len(segments.passage(number).ids) for number in range(len(segments))) <= ROOM
        explained = stage.explain(QUERIES[0], docno)
        assert explained.value == pytest.approx(scores[docno], abs=1e-5)
        assert explained.what.startswith(f"the greatest of {len(segments)} segment")
        assert explained.parts[0].value == pytest.approx(scores[docno], abs=1e-5)
        assert len(explained.parts) == min(len(segments), 11)
    assert counts["empty"] == 1
    assert counts["sentence"] >= 5000 // ROOM
    assert stage.scorer.counts.segments == sum(counts.values())
    assert stage.scorer.counts.documents == len(HOSTILE)
    (remark,) = stage.remarks
    assert remark.endswith(": 1 title longer than half of a segment: cut there")
    assert stage.reranker.scorer.counts.cut == 0  # no segment is cut by the model


def test_a_match_is_the_text_of_the_segment_and_of_many_segments_ten_are_explained(reranker):
    stage = SegmentReranker(reranker, Aggregate("max"), NAMED["best"])
    matches = stage.match(QUERIES[0], "d8")
    assert matches[0].text == DOCS[8].text[slice(*matches[0].span)]
    assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
    many = SegmentReranker(reranker, Aggregate("mean"), SegmentSettings(length=5))
    parts = many.explain(QUERIES[0], "d8").parts
    assert len(parts) == 11
    assert parts[-1].what.startswith("the best of ")
    assert ", times 0.0" in parts[0].what


def test_equation_21_adds_scaled_bm25_and_the_mean_probability(reranker, index):
    stage = passages(index.bm25() % 4, reranker, 0.3, 0.7, "whole")
    (ranking,) = stage.run([QUERIES[0]])
    before = dict((minmax(index.bm25() % 4)).search(QUERIES[0]))
    assert set(before) == set(ranking.docnos)
    assert len(ranking) == 4
    for docno, score in ranking:
        logits = alone(reranker, "q1 q2", index[docno])
        expected = 0.3 * before[docno] + 0.7 * (1 / (1 + np.exp(-logits))).mean()
        assert score == pytest.approx(expected, abs=1e-5)


def test_birch_adds_the_best_sentences_to_the_first_stages_own_score(reranker, index):
    stage = birch(index.bm25() % 4, reranker, 0.8, (1.0, 0.5))
    before = dict((index.bm25() % 4).search(QUERIES[0]))
    for docno, score in stage.search(QUERIES[0]):
        logits = alone(reranker, "q1 q2", index[docno], NAMED["birch"])
        best = np.sort(1 / (1 + np.exp(-logits)))[::-1]
        expected = 0.8 * before[docno] + 0.2 * (best[0] + 0.5 * best[1:2].sum())
        assert score == pytest.approx(expected, abs=1e-5)
        assert stage.explain(QUERIES[0], docno).value == pytest.approx(expected, abs=1e-5)


def test_a_stage_before_goes_before_the_first_stage_of_a_sum(reranker, index):
    stage = index.bm25() % 3 >> passages(reranker, reranker, 0.3, 0.7, "whole")
    best = (index.bm25() % 3).search(QUERIES[0]).docnos[0]
    expected = dict(stage.search(QUERIES[0]))[best]
    assert stage.explain(QUERIES[0], best).value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "bm25 % 5 >> maxp(rerank({}))",
        "bm25 % 5 >> firstp(rerank({}), window=best)",
        "bm25 % 5 >> meanp(rerank({}, tokens=100), window=30, stride=20) % 2",
        "sump(rerank({}), window=20, unit=words, title=false, of=probability)",
        "kmaxp(rerank({}), 3, sentences=true, seed=0, first=4)",
        "passages(bm25 % 3, rerank({}), 0.4, beta=0.6, window=whole)",
        "passages(bm25 % 3, rerank({}), 0.4, beta=0.6, window=parade, of=logit)",
        "birch(bm25 % 3, rerank({}), 0.4, weights='1 0.5')",
        "birch(bm25 % 3, rerank({}), 0.4, weights='1')",
    ],
)
def test_a_pipeline_prints_what_reads_back(text, model, index):
    stage = pipeline(text.format(f"'{model}'"), index)
    again = pipeline(repr(stage), index)
    assert again == stage
    assert repr(again) == repr(stage)
    assert pickle.loads(pickle.dumps(stage)) == stage


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maxp(bm25)", r"expected rerank\(MODEL\), uncut, got bm25"),
        ("maxp(rerank({}) % 3)", r"expected rerank\(MODEL\), uncut"),
        ("maxp()", "maxp lacks the argument 'reranker'"),
        ("kmaxp(rerank({}))", "kmaxp lacks the argument 'kmax'"),
        ("maxp(rerank({}), window=tkl)", "no segments are called 'tkl'; known: whole"),
        ("maxp(rerank({}), window=0)", "expected a whole number of at least 1, got 0"),
        ("maxp(rerank({}), window=9, stride=10)", "a stride of 10 leaves out text between segments of 9"),
        ("maxp(rerank({}), unit=lines)", "expected tokens or words, got 'lines'"),
        ("maxp(rerank({}), title=no)", "expected true or false, got 'no'"),
        ("maxp(rerank({}), seed=-1)", "expected a whole number of at least 0, got -1"),
        ("maxp(rerank({}), of=rank)", "expected logit or probability, got 'rank'"),
        ("birch(bm25, rerank({}), 1, weights=x)", "expected numbers such as '1 0.5 0.2'"),
    ],
)
def test_a_wrong_text_has_one_clear_line(text, message, model, index):
    with pytest.raises(ExpressionError, match=message):
        pipeline(text.format(f"'{model}'"), index)


def test_wrong_stages_are_refused(reranker, index):
    with pytest.raises(TypeError, match="expected a re-ranker"):
        SegmentReranker(index.bm25(), Aggregate("max"))
    with pytest.raises(ValueError, match="must not be cut"):
        SegmentReranker(reranker % 3, Aggregate("max"))
    with pytest.raises(ValueError, match="a weight must be a finite number, got nan"):
        passages(index.bm25(), reranker, math.nan, 1)
    with pytest.raises(CollectionError, match="query 1: document 'x' is not among the documents"):
        list(SegmentReranker(reranker, Aggregate("max"))([Ranking.ranked(QUERIES[0], ["x"], [1])]))
    with pytest.raises(ModelError, match="segments of 99 tokens"):
        list(SegmentReranker(reranker, Aggregate("max"), SegmentSettings(length=99))(CANDIDATES))
    with pytest.raises(KeyError):
        SegmentReranker(reranker, Aggregate("max")).explain(QUERIES[0], "x")
