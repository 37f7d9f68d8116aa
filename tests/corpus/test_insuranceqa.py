from __future__ import annotations

import pytest

from telerank.corpus.readers.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Query

ANSWERS = "InsuranceQA.label2answer.{}.encoded"
QUESTIONS = "InsuranceQA.question.anslabel.{}.{}.pool.solr.{}.encoded"


@pytest.fixture
def small(tmp_path):
    (tmp_path / "vocabulary").write_text("idx_1\tlife\nidx_2\tinsurance?\nidx_3\tYes,\n")
    (tmp_path / ANSWERS.format("raw")).write_text("1\tidx_3 idx_1\n2\tidx_3 odd\n")
    first = "life-insurance\tidx_1 idx_2\t2\t1 2\nlife-insurance\tidx_2\t1 2\t2 1\n"
    (tmp_path / QUESTIONS.format("raw", 2, "test")).write_text(first)
    (tmp_path / QUESTIONS.format("raw", 10, "test")).write_text(first.replace("1 2\n", "2 1\n"))
    return tmp_path


def test_texts_are_the_words_of_their_numbers_a_label_is_a_docno_and_every_pool_size_a_pool(small):
    collection = INSURANCEQA.read(small, "utf-8")
    assert list(collection.docs()) == [Doc("1", "Yes, life"), Doc("2", "Yes, odd")]
    queries = [Query("test-1", "life insurance?"), Query("test-2", "insurance?")]
    assert list(collection.split_queries("test")) == queries
    assert collection.judged() == {"test-1": {"2": 1}, "test-2": {"1": 1, "2": 1}}
    pools = collection.pools
    assert list(pools) == ["test/2", "test/10"]
    assert [pool.docnos for pool in pools["test/2"]()] == [("1", "2"), ("2", "1")]
    assert [pool.docnos for pool in pools["test/10"]()] == [("2", "1"), ("2", "1")]
    assert next(pools["test/2"]()).scores.tolist() == [2.0, 1.0]
    file = small / QUESTIONS.format("raw", 10, "test")
    file.write_text(file.read_text().replace("idx_1 idx_2", "idx_1"))
    with pytest.raises(FormatError, match=r"10\.pool.*the questions of the smallest pool; see test-1"):
        list(INSURANCEQA.read(small, "utf-8").pools["test/10"]())


def test_the_raw_variety_is_taken_where_both_are_there_and_the_other_can_be_forced(small):
    raws = list(small.glob("*.raw.*"))
    for raw in raws:
        (small / raw.name.replace(".raw.", ".token.")).write_text(raw.read_text().replace("idx_3", "yes"))
    assert INSURANCEQA.recognises(small)
    assert not INSURANCEQA_TOKEN.recognises(small)
    assert next(INSURANCEQA_TOKEN.read(small, "utf-8").docs()).text == "yes life"
    for raw in raws:
        raw.unlink()
    assert INSURANCEQA_TOKEN.recognises(small)
    assert not INSURANCEQA.recognises(small)
    with pytest.raises(CollectionError, match=r"vocabulary and InsuranceQA\.label2answer\.raw\.encoded"):
        INSURANCEQA.read(small, "utf-8")


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("vocabulary", "idx_4 word", r"vocabulary:4: expected 2 columns"),
        ("vocabulary", "idx_1\tdeath", r"vocabulary:4: expected a number with only one word"),
        (ANSWERS.format("raw"), "3", r":3: expected 2 columns"),
        (ANSWERS.format("raw"), "3\tidx_9", r":3: expected words of the vocabulary, got 'idx_9'"),
        (QUESTIONS.format("raw", 2, "test"), "domain\tidx_1", r":3: expected 3 or 4 columns"),
        (QUESTIONS.format("raw", 2, "test"), "domain\tidx_1\tone", r":3: expected answer labels"),
        (QUESTIONS.format("raw", 2, "test"), "domain\tidx_1\t1\t2 2", r":3: expected answer labels"),
    ],
)
def test_a_line_that_does_not_follow_the_format_is_named(small, file, line, message):
    with (small / file).open("a") as opened:
        opened.write(line + "\n")
    collection = INSURANCEQA.read(small, "utf-8")
    with pytest.raises(FormatError, match=message):
        [*collection.docs(), *collection.split_queries("test")]


@pytest.mark.data
def test_the_real_set_has_the_counts_of_its_makers_and_the_ground_truths_of_its_readme(data):
    collection = INSURANCEQA.read(data / "insuranceqa-v2", "utf-8")
    docs = list(collection.docs())
    assert len(docs) == 27_413
    assert collection.notes() == {"tokens_that_stand_for_themselves": 6}
    assert docs[0].text.startswith("Coverage follows the car. Example 1: If you were given a car (loaned)")
    assert docs[-1].text.endswith("cause tax problems you certainly do not need")
    counts = {
        split: (len(list(collection.split_queries(split))), len(list(collection.split_qrels(split))))
        for split in collection.splits
    }
    assert counts == {"train": (12_889, 21_325), "valid": (2_000, 3_354), "test": (2_000, 3_308)}
    assert list(collection.pools) == ["train/100", "valid/100", "valid/500", "test/100", "test/500"]
    queries = list(collection.split_queries("test"))
    assert queries[0] == Query("test-1", "What Happens When Term Life Insurance Is Paid Up?")
    assert queries[-1] == Query("test-2000", "How Can I Get Auto Insurance With A Suspended License?")
    relevant = collection.judged("test")
    for size, hits in ((100, 1323), (500, 1625)):
        pools = list(collection.pools[f"test/{size}"]())
        assert [pool.query for pool in pools] == queries
        assert {len(pool) for pool in pools} == {size}
        assert sum(not relevant[pool.query.qid].keys().isdisjoint(pool.docnos) for pool in pools) == hits
