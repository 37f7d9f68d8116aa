"""Trainings that learn from segments: what each selects, and how documents are ranked by their segments."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from small_training import ON_CPU

from small_segments import QUERIES, dev_of
from telerank.models.rerankers.reranker import load_reranker
from telerank.records import describe_error
from telerank.reranking.texts import make_pairs
from telerank.training.examples.reading import Reading, read_groups
from telerank.training.reranker.config import RerankerLoss
from telerank.training.reranker.job import RerankerJob
from telerank.training.reranker.plan import read_outcome
from telerank.training.reranker.scoring import EndToEnd
from telerank.training.reranker.task import ranking_loss
from telerank.training.reranker.train import describe_cut, train_reranker
from telerank.training.settings import NegativeSettings
from telerank.trec import read_run
from telerank.types import Qrel, Query, silent


@pytest.fixture
def opened(segmented, tmp_path):
    """Makes the parts of a training's task."""

    def make(select, segments=None, **changes):
        job = RerankerJob.open(segmented(select, segments, **changes), tmp_path, tmp_path)
        return job.open_tasks(None, ON_CPU, silent)

    return make


def every_group(tasks):
    groups = tasks.select().groups
    return [groups[number] for number in range(len(groups))]


def test_first_segments_stand_for_their_documents(opened):
    tasks = opened("first")
    for group in every_group(tasks):
        for docno, text in zip(group.docnos, group.documents, strict=True):
            own = tasks.table.segments[docno]
            assert text == f"x6 {own.text(0)}"
            assert len(own) == 1  # no other segment is cut
            assert own.text(0).count(".") == 1


def test_a_random_segment_is_a_function_of_seed_query_and_document(opened):
    tasks = opened("random")
    groups, again = tasks.select().groups, opened("random").select().groups
    first = [groups[number] for number in range(2 * len(groups))]
    assert first == [again[number] for number in range(2 * len(groups))]
    texts = {(g.qid, d): t for g in first for d, t in zip(g.docnos, g.documents, strict=True)}
    numbers = {tasks.table.texts(docno).index(text) for (_, docno), text in texts.items()}
    assert numbers >= {0, 1, 2}
    other = opened("random", data={"seed": 9})
    assert {g.documents for g in every_group(other)} != {g.documents for g in every_group(tasks)}


def test_gold_segments_contain_the_known_passage_and_the_share_found_is_counted(opened, tmp_path):
    tasks = opened("gold")
    groups = every_group(tasks)
    assert len(groups) == QUERIES
    for group in groups:
        assert f"d{group.qid[1:]} x1 x2" in group.documents[0]
    counts = json.loads((tmp_path / "data.json").read_text())
    assert counts["known passages of these documents"] == QUERIES
    assert counts["of them found in their document (100 %)"] == QUERIES
    assert counts["of them found elsewhere than their offset says"] == 1


def test_gold_leaves_out_relevant_documents_without_a_passage(opened, segment_set, tmp_path):
    lines = (segment_set / "answers.jsonl").read_text().splitlines()
    lost = {**json.loads(lines[1]), "text": "not there at all"}
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join([lines[0], json.dumps(lost), *lines[2:8]]))
    groups = every_group(opened("gold", {"answers": str(file)}))
    assert {group.qid for group in groups} == {"10", "12", "13", "14", "15", "16", "17"}
    counts = json.loads((tmp_path / "data.json").read_text())
    assert counts["relevant pairs without a known passage, left out"] == QUERIES - 7
    assert counts["of them found in their document (88 %)"] == 7


def test_gold_may_be_behind_the_leading_segments_of_others(opened):
    tasks = opened("gold", {"leading": 1})
    for group in every_group(tasks):
        assert f"d{group.qid[1:]} x1" in group.documents[0]
        for docno, text in zip(group.docnos[1:], group.documents[1:], strict=True):
            if int(docno[1:]) >= QUERIES:
                assert text == tasks.table.text(docno, 0)


def test_all_segments_alone_take_the_first_always_and_others_by_their_share(opened):
    """Objective pointwise: an item is a segment with the label of its document."""
    every = every_group(opened("all", {"others": 1.0}))
    table = opened("all", {"others": 1.0}).table
    assert all(len(group.documents) == 1 for group in every)
    relevant = [(g.qid, g.documents[0]) for g in every if g.relevant]
    expected = [(f"1{i}", text) for i in range(QUERIES) for text in table.texts(f"d{i}")]
    assert sorted(relevant) == sorted(expected)
    few = every_group(opened("all", {"others": 0.1}))
    firsts = [g for g in few if g.documents[0] == table.text(g.docnos[0], 0)]
    assert len(firsts) == 3 * QUERIES  # of each document of each group
    rest = len(every) - 3 * QUERIES
    assert 0 < len(few) - len(firsts) < 0.3 * rest
    assert few == every_group(opened("all", {"others": 0.1}))


def test_all_segments_in_pairs_have_the_same_number_and_a_shorter_document_begins_again(opened):
    loss = {"objective": "margin", "margin": 1.0, "of": "logit"}
    tasks = opened("all", {"others": 1.0}, loss=loss)
    table, seen = tasks.table, 0
    for group in every_group(tasks):
        numbers = [table.texts(d).index(t) for d, t in zip(group.docnos, group.documents, strict=True)]
        counts = [table.count(docno) for docno in group.docnos]
        j = next(n for n, count in zip(numbers, counts, strict=True) if count == max(counts))
        assert numbers == [j % count for count in counts]
        seen += len(set(counts)) > 1 and j >= min(counts)
    assert seen  # document 0 has a segment more than the others


def test_at_most_so_many_leading_segments_are_learned_from_and_all_are_ranked(opened, segment_set, tmp_path):
    tasks = opened("random", {"leading": 2}, dev=dev_of(segment_set))
    assert {len(own) for own in tasks.table.segments.values()} == {2}
    segmenter = tasks.select().dev_scorer.segmenter
    assert len(segmenter(tasks.table.segments["d0"].doc)) == 4
    counts = json.loads((tmp_path / "data.json").read_text())
    assert counts["documents with text behind the last segment to learn from"] == len(tasks.table.segments)


def test_random_lengths_are_those_of_seed_and_docno(opened, segment_set):
    """The same in each run; other ones with another seed of the data; whole where documents are ranked."""
    window = {"window": {"length": 12}, "random_lengths": True, "leading": None}

    def lengths(seed):
        tasks = opened("random", window, data={"seed": seed}, dev=dev_of(segment_set))
        return tasks, {docno: own.lengths.tolist() for docno, own in tasks.table.segments.items()}

    tasks, first = lengths(3)
    assert lengths(3)[1] == first
    assert lengths(4)[1] != first
    segmenter = tasks.select().dev_scorer.segmenter
    assert max(segmenter(tasks.table.segments["d1"].doc).lengths) == 12


def test_the_pairs_learned_from_have_the_tokens_that_ranking_reads(opened):
    """A window that ends within a word: its text alone would have other tokens."""
    tasks = opened("random", {"window": {"length": 2}})
    scorer, group = tasks.select().scorer, tasks.select().groups[0]
    assert isinstance(scorer, EndToEnd)
    made = scorer.make(tasks.reranker, group.pairs)
    for docno, text, pair in zip(group.docnos, group.documents, made, strict=True):
        own = tasks.table.segments[docno]
        number = tasks.table.texts(docno).index(text)
        query = tasks.reranker.texts.queries([group.query])[0]
        expected = tasks.reranker.texts.pair(query, own.passage(number))
        assert pair.ids.tolist() == expected.ids.tolist()
    plain = make_pairs(tasks.reranker, [("q1", "x1 x2")])[0]
    assert scorer.make(tasks.reranker, [("q1", "x1 x2")])[0].ids.tolist() == plain.ids.tolist()


@pytest.mark.parametrize("aggregate", ["first", "max"])
def test_dev_and_test_are_ranked_by_segments_as_the_stage_ranks_them(
    segmented, segment_set, tmp_path, aggregate
):
    """The run of the test has the scores that the scorer of segments gives with the saved model."""
    from telerank.reranking.scorer import Scorer
    from telerank.segments.scorer import SegmentScorer
    from telerank.segments.settings import Aggregate

    test = {"split": "dev", "run": str(segment_set / "dev.run"), "queries": 6, "measures": ["RR"]}
    config = segmented(
        "first", {"aggregate": aggregate}, dev=dev_of(segment_set), test=test, precision="float32"
    )
    model = train_reranker(config, tmp_path / "out")
    job = RerankerJob.open(config, tmp_path / "out", tmp_path / "out")
    docs = {doc.docno: doc for doc in job.collection.docs()}
    scorer = SegmentScorer(Scorer(load_reranker(model)), config.data.segments.window)
    rankings = list(read_run(tmp_path / "out" / "test.run.gz"))
    assert len(rankings) == 6
    for ranking in rankings:
        query = Query(ranking.query.qid, f"q{ranking.query.qid[1:]}")
        for docno, score in ranking:
            expected = Aggregate(aggregate)(scorer.score(query.text, docs[docno])[1])
            assert score == pytest.approx(expected, abs=1e-4)
    # each document has three segments or more, of which the first alone is read
    pairs = sum(map(len, rankings))
    outcome = read_outcome(tmp_path / "out")
    assert (outcome.cut_documents, outcome.cut_titles) == (pairs if aggregate == "first" else 0, 0)
    counts = json.loads((tmp_path / "out" / "data.json").read_text())
    measured = counts["dev pairs"]
    assert measured > 0
    assert counts["dev pairs whose document was cut"] == (measured if aggregate == "first" else 0)
    said = describe_cut(tmp_path / "out", tmp_path / "out")
    for cut in (f"{pairs} test pairs whose document was cut", f"{measured} dev pairs whose document was cut"):
        assert (cut in said) == (aggregate == "first")


@pytest.mark.parametrize("select", ["first", "best"])
def test_titles_and_queries_that_are_cut_are_counted_and_said(
    segmented, opened, segment_set, tmp_path, select
):
    """In dev, and where the documents of the test are ranked."""
    collection = shutil.copytree(segment_set / "collection", tmp_path / "collection")

    def change(name, rows, **fields):
        records = [json.loads(line) for line in (collection / name).read_text().splitlines()]
        for record in records[rows]:
            record.update(fields)
        (collection / name).write_text("\n".join(map(json.dumps, records)))

    change("corpus.jsonl", slice(4), title="x6 " * 40)
    change("queries.jsonl", slice(-1, None), text="q1 " * 9)
    test = {"split": "dev", "run": str(segment_set / "dev.run"), "measures": ["RR"], "queries": 6}
    changes = {"data": {"collection": str(collection)}}
    tasks = opened(select, **changes, dev=dev_of(segment_set))
    tasks.select()
    titles = sum("x6 x6" in text for _, text in tasks.dev.pairs)
    queries = sum(query.startswith("q1 q1") for query, _ in tasks.dev.pairs)
    assert min(titles, queries) > 0
    said = describe_cut(tmp_path)
    assert f"{titles} dev pairs whose title was cut" in said
    assert f"{queries} dev pairs whose query was cut" in said
    if select == "first":
        config = segmented(select, **changes, test=test)
        train_reranker(config, tmp_path / "out")
        run = read_run(tmp_path / "out" / "test.run.gz")
        cut = sum(docno in ("d0", "d1", "d2", "d3") for ranking in run for docno in ranking.docnos)
        assert cut > 4
        assert f"{cut} test pairs whose title was cut" in describe_cut(tmp_path / "out", tmp_path / "out")


@pytest.mark.parametrize("only", [None, "unjudged", "not-relevant", "relevant-elsewhere"])
def test_negatives_are_unjudged_or_judged_or_relevant_to_another_query_or_any(opened, segment_set, only):
    negatives = {"run": str(segment_set / "train.run"), "per_positive": 3, "resample": True}

    def drawn(only):
        groups = opened("first", data={"negatives": {**negatives, "only": only}}).groups
        own = [groups[number] for number in range(20 * QUERIES)]
        return {(int(group.qid[1:]), int(docno[1:])) for group in own for docno in group.docnos[1:]}

    places = {(document - query) % 20 for query, document in drawn(only)}
    if only == "relevant-elsewhere":
        assert {document for _, document in drawn(None)} - {*range(QUERIES)}
        assert drawn(only) == {(query, document) for query, document in drawn(None) if document < QUERIES}
    else:
        assert places == {None: {1, 2, 3, 4}, "unjudged": {2, 3, 4}, "not-relevant": {1}}[only]


def test_what_is_relevant_to_queries_kept_back_or_below_the_grade_of_relevance_is_not_elsewhere(
    segmented, segment_set, tmp_path
):
    negatives = {"run": str(segment_set / "train.run"), "per_positive": 3, "resample": True}
    config = segmented("first", data={"negatives": negatives | {"only": "relevant-elsewhere"}})
    job = RerankerJob.open(config, tmp_path, tmp_path)
    kept = frozenset({"13", "15"})
    shifted = {f"1{i}": f"d{i}" for i in range(QUERIES)}

    def drawn(collection):
        groups = read_groups(Reading(config.data, 0, collection, kept), tmp_path)
        return {docno for n in range(20 * QUERIES) for docno in groups[n].docnos[1:]}

    relevant = {docno for qid, docno in shifted.items() if qid not in kept} - {"d0"}  # no other lists d0
    assert drawn(job.collection) == relevant
    grades = [
        Qrel(f"1{i}", f"d{i + more}", 3 - more) for i in range(QUERIES) for more in (0, 1)
    ]  # d12: 2 alone
    graded = replace(job.collection, qrels={"train": lambda: iter(grades)}, relevant_from=3)
    assert drawn(graded) == relevant


def test_only_relevant_documents_of_the_list_are_learned_from(opened, segment_set, tmp_path):
    run = str(segment_set / "train.run")
    top = {ranking.query.qid: ranking.docnos[:3] for ranking in read_run(run)}
    listed = {f"1{i}" for i in range(QUERIES) if f"d{i}" in top[f"1{i}"]}
    assert 0 < len(listed) < QUERIES
    negatives = {"run": run, "depth": 3, "per_positive": 1, "relevant": "listed"}
    tasks = opened("first", data={"negatives": negatives})
    tasks.select()
    assert {qid for qid, _ in tasks.groups.pairs} == listed
    counts = json.loads((tmp_path / "data.json").read_text())
    assert counts["relevant pairs beyond the lists, left out"] == QUERIES - len(listed)
    with pytest.raises(ValidationError, match="relevant: says which documents of a run"):
        NegativeSettings(random=True, relevant="listed")


def test_hinge_of_raw_scores_is_best_s():
    """max(0, 1 - y1 + y2), BeST's loss on TREC DL 2019."""
    loss = RerankerLoss(objective="margin", margin=1.0, of="logit")
    logits = torch.tensor([[2.0, 1.5], [0.0, -3.0], [-1.0, 1.0]])
    assert float(ranking_loss(loss, logits)) == pytest.approx((0.5 + 0.0 + 3.0) / 3)


@pytest.mark.parametrize(
    ("select", "segments", "changes", "expected"),
    [
        ("best", {}, {"dev": None}, "add the section dev"),
        ("best", {}, {"dev": {"measures": "loss"}}, "not by the dev loss"),
        ("first", {"iterations": 2}, {}, "iterations goes with select best"),
        ("first", {"window": "other"}, {}, "no segments are called 'other'"),
        ("first", {"window": {"seed": 3}}, {}, "set leading and random_lengths"),
        ("first", {"window": "piaf", "random_lengths": True}, {}, "no window.stride"),
        ("first", {}, {"model": {"max_query": None}}, "max_query must be a number"),
        ("first", {}, {"model": {"kind": "parade"}}, "no data.segments"),
        ("first", {}, {"repetition": 1}, "set folds"),
    ],
)
def test_settings_that_cannot_be_are_named(segmented, select, segments, changes, expected):
    from pydantic import ValidationError

    with pytest.raises(ValidationError) as caught:
        segmented(select, segments, **changes)
    assert expected in describe_error(caught.value)
