"""The group of each number is a function of the seed, whatever model learns from it."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from small_models import small_tokenizer
from small_ranking import QUERIES
from telerank.corpus.formats import open_collection
from telerank.corpus.readers.by_split import Triple
from telerank.errors import CollectionError, ModelError
from telerank.models.pairs.pair import PairTokenizer
from telerank.training.examples.groups import ListedNegatives, TripleGroups
from telerank.training.examples.reading import Reading, choose_queries, group_of_texts, read_groups
from telerank.training.parallel import Processes
from telerank.training.reranker.scoring import FromStore
from telerank.training.reranker.task import assign_queries, make_folds
from telerank.types import silent


@pytest.fixture
def read(ranked, tmp_path):
    """Reads the groups of a training, with changes, and what is counted."""

    def read(kept_back=frozenset(), **changes):
        config = ranked(**changes)
        reading = reading_of(config, open_collection(config.data.collection), kept_back)
        return read_groups(reading, tmp_path / "texts"), reading.counts

    return read


def reading_of(config, collection, kept_back):
    data, teacher = config.data, config.loss.teacher
    return Reading(data, config.data_seed, collection, kept_back, teacher_run=teacher)


def some(groups, count=60):
    return [groups[number] for number in range(count)]


def test_models_learn_from_identical_groups(read, ranking_set):
    """Kinds with other losses and optimisers, frozen or not, see the same texts in the same order."""
    model = {"start": str(ranking_set / "encoder"), "max_query": 8, "max_length": 32}
    first, _ = read(model={**model, "kind": "bert-dmn", "frozen": True})
    other, _ = read(model={**model, "kind": "monobert"}, optimisation={"batch": 3})
    assert some(first) == some(other)
    assert some(first) != some(read(seed=1)[0])


def test_seeds_of_a_training_learn_from_the_same_pairs_where_the_data_has_a_seed(ranked, read):
    given = ranked().model_dump(mode="json")["data"]
    first, other = (read(seed=seed, data={**given, "seed": 7, "queries": 9})[0] for seed in (0, 1))
    assert some(first) == some(other)
    assert some(first) != some(read(seed=0, data={**given, "queries": 9})[0])


def test_each_epoch_has_every_relevant_pair_once_with_the_negatives_of_the_first(read):
    groups, counts = read()
    assert counts["queries"] == counts["relevant pairs"] == len(groups) == groups.window == QUERIES
    epochs = [[groups[number] for number in range(n * QUERIES, (n + 1) * QUERIES)] for n in (0, 1)]
    assert epochs[0] != epochs[1]
    assert set(epochs[0]) == set(epochs[1])
    for group in epochs[0]:
        number = group.query.removeprefix("q")
        assert group.documents[0].startswith(f"d{number} ")
        assert len(set(group.documents)) == 3
    with pytest.raises(IndexError):
        groups[-1]


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("source", ["run", "random"])
def test_each_negative_may_be_an_item_of_its_own(read, ranking_set, source, resample):
    """The items of an epoch are those of the groups, one by one, in an order of their own."""
    negatives = {"run": str(ranking_set / "train.run"), "random": True}
    negatives = {source: negatives[source], "per_positive": 4, "resample": resample}

    def read_as(per_group, seed=0):
        data = {
            "collection": str(ranking_set / "collection"),
            "negatives": {**negatives, "per_group": per_group},
        }
        return read(data=data, seed=seed)[0]

    def epoch_of(groups, epoch):
        return [groups[number] for number in range(epoch * len(groups), (epoch + 1) * len(groups))]

    def drawn(groups):
        return [(group.query, group.documents[0], other) for group in groups for other in group.documents[1:]]

    whole, items, twos = read_as(None), read_as(1), read_as(2)
    assert (len(whole), len(twos), len(items)) == (QUERIES, 2 * QUERIES, 4 * QUERIES)
    assert items.window == len(items)
    assert items.repeats_from == (np.inf if resample else len(items))
    for epoch in (0, 1):
        for groups in (epoch_of(items, epoch), epoch_of(twos, epoch)):
            assert sum(group.counts_relevant for group in groups) == QUERIES
            assert sorted(drawn(groups)) == sorted(drawn(epoch_of(whole, epoch)))
    assert some(items) == some(read_as(1)) != some(read_as(1, seed=1))
    assert len({group.query for group in some(items, 8)}) > 2


def test_items_have_their_teachers_scores(read, ranking_set):
    negatives = {"run": str(ranking_set / "train.run"), "per_positive": 4, "per_group": 1}
    loss = {"objective": "margin-mse", "teacher": str(ranking_set / "train.run")}
    for group in some(read(data={"negatives": negatives}, loss=loss)[0]):
        names = [text.split()[0] for text in group.documents]
        assert group.teacher == tuple(40.0 - (int(name[1:]) * 7) % 40 for name in names)
        assert len(group.teacher) == 2


def test_a_query_with_fewer_negatives_has_some_more_than_once():
    lists = {"few": np.array([0, 2], np.int32), "many": np.arange(5, dtype=np.int32)}
    source = ListedNegatives("abcde", lists)
    random = np.random.default_rng(0)
    drawn = source.draw(("few", "f"), 5, random)
    assert sorted(drawn[:2]) == sorted(drawn[2:4]) == ["a", "c"]
    assert drawn[4] in "ac"
    assert sorted(source.draw(("many", "f"), 5, random)) == list("abcde")


def test_what_is_left_out_or_repeated_is_counted(read, tmp_path):
    run = tmp_path / "thin.run"
    run.write_text("10 Q0 d0 1 3 t\n10 Q0 d5 1 2 t\n11 Q0 d1 1 1 t\n12 Q0 d7 1 2 t\n12 Q0 d8 1 1 t\n")
    negatives = {"run": str(run), "per_positive": 2}
    groups, counts = read(kept_back=frozenset({"13"}), data={"negatives": negatives})
    assert counts["queries kept back for dev and test"] == 1
    assert counts["queries without a negative, left out"] == QUERIES - 3
    assert counts["queries with fewer negatives than are drawn: some come again"] == 1
    assert counts["queries"] == 2
    assert len(set(next(group for group in some(groups, 2) if group.query == "q0").documents)) == 2
    with pytest.raises(CollectionError, match="is left to learn from"):
        read(kept_back=frozenset({"10", "12"}), data={"negatives": negatives})


def test_random_negatives_are_any_others(read):
    groups, counts = read(data={"negatives": {"random": True, "per_positive": 5}})
    found = {document for group in some(groups, 4 * QUERIES) for document in group.documents[1:]}
    assert counts["queries"] == QUERIES
    assert len(found) > 30
    for group in some(groups):
        assert group.documents[0] not in group.documents[1:]
        assert len(set(group.documents)) == 6
    with pytest.raises(CollectionError, match="40 documents are too few for 40 random negatives"):
        read(data={"negatives": {"random": True, "per_positive": 40}})


def test_judged_negatives_have_a_lower_grade_whether_the_other_is_relevant_or_not(read, tmp_path):
    grades = {"q1": {"a": 4, "b": 3, "c": 2, "d": 1}, "q2": {"a": 2, "e": 1}, "q3": {"b": 4}}
    texts = {docno: f"d{number} text" for number, docno in enumerate("abcde")}
    judged = [f"{qid} U0 {docno} {grade}" for qid, own in grades.items() for docno, grade in own.items()]
    lines = {
        "antique-collection.txt": [f"{docno}\t{text}" for docno, text in texts.items()],
        "antique-train-queries.txt": [f"{qid}\tquestion {qid}" for qid in grades],
        "antique-train.qrel": judged,
    }
    for name, own in lines.items():
        (tmp_path / name).write_text("\n".join(own), encoding="utf-8")
    data = {"collection": str(tmp_path), "negatives": {"judged": True, "resample": True}}
    groups, counts = read(data=data)
    assert (counts["queries"], counts["relevant pairs"]) == (2, 4)
    drawn = {(group.qid, *group.docnos) for group in some(groups, 100)}
    pairs = {(qid, *pair) for qid, own in grades.items() for pair in permutations(own, 2)}
    assert drawn == {(qid, a, b) for qid, a, b in pairs if grades[qid][a] > grades[qid][b]}


def test_judged_negatives_need_grades_and_take_no_other_source(read):
    with pytest.raises(CollectionError, match="no query has judged documents of two grades"):
        read(data={"negatives": {"judged": True}})
    with pytest.raises(ValueError, match="expected one of run, pool, random, judged, got random and judged"):
        read(data={"negatives": {"judged": True, "random": True}})


def test_fewer_queries_are_a_part_of_more(read):
    sizes = {n: read(data={"queries": n})[0] for n in (4, 12)}
    queries = {n: {group.query for group in some(groups, n)} for n, groups in sizes.items()}
    assert [len(one) for one in queries.values()] == [4, 12]
    assert queries[4] < queries[12]
    assert choose_queries("abcdef", 3, 0) != choose_queries("abcdef", 3, 1)
    with pytest.raises(CollectionError, match="has 24 queries to learn from, not 25"):
        read(data={"queries": 25})


def test_a_teacher_scores_what_is_learned_from(read, ranking_set, tmp_path):
    run = tmp_path / "teacher.run"
    lines = (ranking_set / "train.run").read_text().splitlines(keepends=True)
    run.write_text("".join(line for line in lines if not line.startswith("10 ") and " d35 " not in line))
    groups, counts = read(loss={"objective": "margin-mse", "teacher": str(run)})
    assert counts["relevant pairs without a teacher's score, left out"] == 1
    assert counts["queries"] == QUERIES - 1
    for group in some(groups):
        names = [text.split()[0] for text in group.documents]
        assert group.teacher == tuple(40.0 - (int(name[1:]) * 7) % 40 for name in names)
        assert "d35" not in names


def test_folds_are_disjoint_and_everything():
    parts = make_folds([f"q{i}" for i in range(23)], 5, seed=0)
    assert sorted(qid for part in parts for qid in part) == sorted(f"q{i}" for i in range(23))
    assert sorted(map(len, parts)) == [4, 4, 5, 5, 5]
    assert make_folds([f"q{i}" for i in reversed(range(23))], 5, seed=0) == parts
    assert make_folds([f"q{i}" for i in range(23)], 5, seed=1) != parts
    with pytest.raises(CollectionError, match="2 queries cannot be cut into 3 folds"):
        make_folds(["a", "b"], 3, seed=0)


def test_no_query_of_dev_or_test_is_learned_from(ranked, ranking_set):
    """Cross-validation with a dev set from the same split: three parts without a query in common."""
    lists = {"split": "train", "run": str(ranking_set / "train.run")}
    collection = open_collection(ranking_set / "collection")
    tested = []
    for fold in range(4):
        config = ranked(folds=4, held_out=fold, test=lists, dev={**lists, "queries": 5})
        parts = assign_queries(collection, config)
        reading = reading_of(config, collection, parts.kept_back)
        groups = read_groups(reading, ranking_set / "texts")
        learned = {f"1{group.query[1:]}" for group in some(groups, QUERIES)}
        assert (len(parts.dev), len(parts.test), len(learned)) == (5, 6, QUERIES - 11)
        assert not parts.dev & parts.test
        assert not learned & (parts.dev | parts.test)
        tested += parts.test
    assert len(set(tested)) == len(tested) == QUERIES


def test_dev_and_test_of_one_split_share_no_query_and_do_not_depend_on_the_seed(ranked, on_dev, ranking_set):
    collection = open_collection(ranking_set / "collection")
    parts = {"dev": on_dev(), "test": on_dev(queries=10)}
    one, other = (assign_queries(collection, ranked(seed=seed, **parts)) for seed in (0, 1))
    assert one == other
    assert (len(one.dev), len(one.test), one.kept_back) == (14, 10, frozenset())
    assert not one.dev & one.test
    with pytest.raises(CollectionError, match="has no judged query left"):
        assign_queries(collection, ranked(dev=on_dev(), test=on_dev()))


def test_a_test_of_listed_queries_keeps_back_those_alone(ranked, ranking_set, tmp_path):
    """A run of six queries of the training split, of which four are measured."""
    run = tmp_path / "six.run"
    lines = (ranking_set / "train.run").read_text().splitlines(keepends=True)
    listed = {f"1{i}" for i in range(6)}
    run.write_text("".join(line for line in lines if line.split()[0] in listed))
    test = {"split": "train", "run": str(run), "queries": 4, "listed": True}
    parts = assign_queries(open_collection(ranking_set / "collection"), ranked(test=test))
    assert len(parts.test) == 4
    assert parts.test < listed
    assert parts.kept_back == parts.test


def numbered(path, count):
    path.write_text("".join(f"query {i}\tyes {i}\tno {i}\n" for i in range(count)))
    return path


def streamed(path, window=4, accepts=lambda _: True):
    return TripleGroups(path, group_of_texts, accepts, window=window, seed=0, held=20)


@pytest.mark.parametrize("count", [1, 3, 4, 8, 10])
def test_triples_come_once_an_epoch_in_the_order_of_the_seed(tmp_path, count):
    path = numbered(tmp_path / "triples.tsv", count)
    groups = streamed(path)
    two = [groups[number] for number in range(2 * count)]
    assert {group.documents for group in two[:count]} == {(f"yes {i}", f"no {i}") for i in range(count)}
    assert set(two[count:]) == set(two[:count])
    assert len(groups) == len(streamed(path)) == count
    assert [streamed(path)[number] for number in reversed(range(2 * count))] == two[::-1]
    if count == 10:
        assert two[:count] != two[count:]
        assert [group.query for group in two[:4]] != [f"query {i}" for i in range(4)]
        assert {group.query for group in two[:4]} == {f"query {i}" for i in range(4)}


def test_triples_are_streamed(tmp_path):
    """Two windows are held, and no more is read than is asked for."""
    lines: list[Triple] = []
    groups = streamed(numbered(tmp_path / "triples.tsv", 1000), 10, lambda line: lines.append(line) or True)
    some(groups, 25)
    assert len(lines) == 30
    some(groups, 25)[12]
    assert len(lines) == 30 + 30  # the first window was read again, and those behind it
    groups[995]
    assert len(lines) == 30 + 1000
    groups[985]
    assert len(lines) == 30 + 1000


@pytest.mark.parametrize(("window", "batch", "total"), [(10, 4, 100), (10, 4, 103), (1, 8, 30), (50, 7, 30)])
def test_a_file_is_read_once_an_epoch_however_batches_lie_across_windows(tmp_path, window, batch, total):
    """All that is at hand is encoded before a batch of it is learned from."""
    lines: list[Triple] = []
    path, filled = numbered(tmp_path / "triples.tsv", total), []
    groups = streamed(path, window, lambda line: lines.append(line) or True)
    store = SimpleNamespace(missing=lambda _: [], fill=lambda pairs, *_, **__: filled.extend(pairs))
    encoder = SimpleNamespace(texts=PairTokenizer(small_tokenizer("bert"), max_query=2, max_length=7))
    hardware = SimpleNamespace(processes=Processes())
    last = 2 * total // batch * batch
    scorer = FromStore(encoder, store, hardware, 64, groups, last)
    for first in range(0, last, batch):
        scorer.prepare(range(first, first + batch), silent)
        for number in range(first, first + batch):
            assert set(groups[number].pairs) <= set(filled)
    assert len(lines) <= 2 * total
    assert len(filled) <= 4 * total  # two pairs to a line, each told once an epoch
    counts = scorer.learned
    assert (counts.pairs, counts.queries, counts.passages) == (2 * total, 0, 0)  # of the first epoch


def ids(folder, lines):
    (folder / "qidpidtriples.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))
    return {"triples": {"file": str(folder / "qidpidtriples.tsv"), "window": 5}, "negatives": None}


def test_triples_of_ids_have_the_texts_of_the_collection(read, tmp_path):
    lines = [(f"1{i}", f"d{i}", f"d{i + 1}") for i in range(QUERIES)]
    groups, counts = read(data=ids(tmp_path, lines))
    assert counts == {"queries of the split": QUERIES}
    assert {group.query for group in some(groups, QUERIES)} == {f"q{i}" for i in range(QUERIES)}
    for group in some(groups, QUERIES):
        number = int(group.query[1:])
        assert [text.split()[0] for text in group.documents] == [f"d{number}", f"d{number + 1}"]
    fewer, counts = read(kept_back=frozenset({"13"}), data={**ids(tmp_path, lines), "queries": 7})
    assert len(fewer) == counts["queries of the split"] == 7
    assert "q3" not in {group.query for group in some(fewer, 7)}


def test_triples_are_read_with_their_teacher(read, tmp_path):
    (tmp_path / "teacher.run").write_text("11 Q0 d1 1 2.5 t\n11 Q0 d2 1 0.5 t\n12 Q0 d2 1 1 t\n")
    lines = [("11", "d1", "d2"), ("12", "d2", "d3"), ("13", "d3", "d4")]
    loss = {"objective": "margin-mse", "teacher": str(tmp_path / "teacher.run")}
    groups, _ = read(data=ids(tmp_path, lines), loss=loss)
    assert len(groups) == 1
    assert groups[0].teacher == (2.5, 0.5)


def test_triples_that_cannot_be_learned_from_are_named(read, tmp_path):
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(CollectionError, match="no triple to learn from"):
        read(data={"triples": {"file": str(tmp_path / "empty.tsv")}, "negatives": None})
    texts = {"triples": {"file": str(numbered(tmp_path / "t.tsv", 3))}, "negatives": None}
    groups, counts = read(data=texts)
    assert (len(groups), counts) == (3, {})
    with pytest.raises(ModelError, match="these are triples of texts"):
        read(data={**texts, "queries": 2})
