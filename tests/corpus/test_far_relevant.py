"""Documents of passages whose relevant one stands late: where it stands, and what may stand before it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from memory_sets import qa_set

from telerank.cli.main import app
from telerank.corpus.derived.far import PREFIX, FarSettings, make_far_relevant
from telerank.corpus.formats import open_collection
from telerank.corpus.lengths import find_positions
from telerank.corpus.writing import write_long_documents
from telerank.errors import CollectionError
from telerank.types import Doc, Query, Ranking

SHORT = {"beyond": 20, "length": 60}


def passages(relevant: int = 20, others: int = 40, answers: bool = False):
    """Passages of seven words, the first of which are relevant to a query each; all name a colour."""
    texts = {f"p{n}": f"passage number{n} is colour{n % 5} with some words" for n in range(relevant + others)}
    asked = [(f"about {n}", f"p{n}", f"colour{n % 5}" if answers else "") for n in range(relevant)]
    return qa_set("passages", texts, {"train": asked[:-4], "dev": asked[-4:]})


def write(folder, collection, **settings):
    with ExitStack() as resources:
        documents = make_far_relevant(collection, FarSettings(**{**SHORT, **settings}), resources=resources)
        written = write_long_documents(folder, documents)
    return open_collection(folder), written


def test_the_relevant_passage_begins_beyond_the_limit_after_filler_that_is_relevant_to_no_query(tmp_path):
    made, written = write(tmp_path / "far", passages())
    docs = {doc.docno: doc for doc in made.docs()}
    originals = {doc.docno: doc.text for doc in passages().docs()}
    assert len(docs) == 20
    assert made.splits == ("dev", "train")
    positions = list(find_positions(made))
    assert all(position.before >= 20 and position.length <= 60 for position in positions)
    assert all(position.length > 60 - 2 * 7 for position in positions)  # filled as far as passages fit
    assert len({position.before for position in positions}) > 3
    assert sorted(written.words_before) == sorted(position.before for position in positions)
    for split in made.splits:
        for answer in made.answers[split]():
            assert answer.text == originals[answer.docno.removeprefix(PREFIX)]
            assert docs[answer.docno].text[answer.start : answer.end] == answer.text
    assert written.counts["dev"] == {"queries": 4, "relevant": 4, "answers": 4}
    names = {text: docno for docno, text in originals.items()}
    for doc in docs.values():
        parts = [names[part] for part in doc.text.split("\n\n")]
        assert len(set(parts)) == len(parts)
        assert [f"{PREFIX}{part}" for part in parts if int(part[1:]) < 20] == [doc.docno]
        assert doc.title == ""


def test_a_document_is_a_function_of_the_seed_and_its_passage(tmp_path):
    first, _ = write(tmp_path / "a", passages())
    fewer, _ = write(tmp_path / "b", passages(), queries=2)
    other, _ = write(tmp_path / "c", passages(), seed=1)
    docs = {doc.docno: doc.text for doc in first.docs()}
    drawn = {doc.docno: doc.text for doc in fewer.docs()}
    assert len(drawn) == 4  # two of each split
    assert all(docs[docno] == text for docno, text in drawn.items())
    assert not any(docs[doc.docno] == doc.text for doc in other.docs())


def test_filler_has_no_answer_of_the_query(tmp_path):
    made, _ = write(tmp_path / "far", passages(answers=True))
    colours = {f"{PREFIX}p{n}": f"colour{n % 5}" for n in range(20)}
    assert all(doc.text.split().count(colours[doc.docno]) == 1 for doc in made.docs())


def test_filler_is_in_no_pool_of_the_query_and_has_another_title(tmp_path):
    plain = passages(relevant=2, others=40)
    pool = Ranking(Query("q1", "about 0"), tuple(f"p{n}" for n in range(2, 22)), np.arange(20, 0, -1.0))
    titled = [
        Doc(doc.docno, doc.text, "town" if doc.docno in ("p0", "p30", "p31") else "") for doc in plain.docs()
    ]
    collection = replace(
        qa_set("one", {doc.docno: doc.text for doc in titled}, {"all": [("about 0", "p0", "")]}),
        docs=lambda: iter(titled),
        pools={"all/top": lambda: iter([pool])},
    )
    made, _ = write(tmp_path / "far", collection)
    texts = {doc.text: doc.docno for doc in titled}
    (doc,) = made.docs()
    filler = {texts[part] for part in doc.text.split("\n\n")} - {"p0"}
    assert filler
    assert not filler & {*pool.docnos, "p30", "p31"}


def test_without_filler_a_share_of_the_articles_must_be_given_up(tmp_path):
    collection = passages(relevant=40, others=0)
    with pytest.raises(CollectionError, match=r"every passage is relevant .*filler="):
        write(tmp_path / "far", collection)
    made, written = write(tmp_path / "far", collection, filler=0.5)
    assert written.manifest["filler"] == {"passages": 20, "of_which_given_up": 20}
    assert written.manifest["left_out"]["queries_of_filler"] == 20
    assert len(list(made.docs())) == 20
    with pytest.raises(CollectionError, match=r"too little filler for \d+ tokens before"):
        write(tmp_path / "few", passages(relevant=3, others=1))


def test_queries_whose_passage_is_missing_are_left_out_and_folds_have_documents_of_their_own(tmp_path):
    plain = passages()
    docs = [doc for doc in plain.docs() if doc.docno != "p3"]
    made, written = write(tmp_path / "far", replace(plain, docs=lambda: iter(docs)))
    assert written.manifest["left_out"]["queries_whose_passage_is_missing"] == 1
    assert len(list(made.docs())) == 19
    made, _ = write(tmp_path / "folds", plain, folds=4)
    assert made.splits == ("fold1", "fold2", "fold3", "fold4")
    homes = [{qrel.docno for qrel in made.split_qrels(split)} for split in made.splits]
    assert [len(docnos) for docnos in homes] == [5] * 4
    assert len(set().union(*homes)) == 20


def test_one_split_can_be_halved_and_the_others_stay(tmp_path):
    whole, _ = write(tmp_path / "whole", passages())
    made, _ = write(tmp_path / "far", passages(), halved="dev")
    assert made.splits == ("dev-1", "dev-2", "train")
    names = {split: {qrel.docno for qrel in made.split_qrels(split)} for split in made.splits}
    assert [len(names[split]) for split in ("dev-1", "dev-2", "train")] == [2, 2, 16]
    assert names["dev-1"] | names["dev-2"] == {qrel.docno for qrel in whole.split_qrels("dev")}
    assert list(made.docs()) == list(whole.docs())
    with pytest.raises(CollectionError, match=r"no split 'test' to halve: train, dev"):
        write(tmp_path / "none", passages(), halved="test")


def test_a_half_does_not_take_the_name_of_another_split(tmp_path):
    plain = passages()
    members = {name: getattr(plain, name) for name in ("queries", "qrels", "answers")}
    both = replace(
        plain, **{name: {"dev": own["dev"], "dev-1": own["train"]} for name, own in members.items()}
    )
    with pytest.raises(CollectionError, match="'dev' cannot be halved: there is a split 'dev-1'"):
        write(tmp_path / "far", both, halved="dev")


def test_an_option_that_makes_no_sense_is_one_line(tmp_path):
    asked = ["data", "make-far-relevant", str(tmp_path / "far"), "nowhere", "--halve", "dev", "--folds", "2"]
    shown = CliRunner().invoke(app, asked)
    assert isinstance(shown.exception, CollectionError)
    assert "'dev' cannot be halved" in str(shown.exception)


def test_tokens_are_counted_once_more_where_texts_meet(tmp_path):
    """A tokenizer for which joined texts have fewer tokens: no fewer than ``beyond`` are before the passage."""

    def joined(text):  # the words of all paragraphs but the last are half as many tokens
        words = [(n, n + 1) for n, _ in enumerate(text.split())]
        return words[: len(words) // 2] if "\n\n" in text else words

    with ExitStack() as resources:
        documents = make_far_relevant(
            passages(), FarSettings(**SHORT), spans=joined, unit="halves", resources=resources
        )
        for document in documents.documents():
            before = document.doc.text[: document.answers[0].start]
            assert len(joined(before)) >= SHORT["beyond"]
        assert documents.record["recipe"]["unit"] == "halves"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beyond": 60}, "beyond from 0 to below the length"),
        ({"beyond": -1}, "beyond from 0 to below the length"),
        ({"filler": 1.0}, "filler is a share below 1"),
        ({"folds": 1}, "folds"),
        ({"queries": 0}, "queries"),
        ({"folds": 2, "halved": "dev"}, "folds"),
    ],
)
def test_far_settings_without_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        FarSettings(**{**SHORT, **settings})


@pytest.mark.data
def test_far_relevant_of_msmarco_and_piaf(data, tmp_path):
    made, written = write(
        tmp_path / "english", open_collection(data / "msmarco-slice"), beyond=512, length=1400, queries=50
    )
    assert written.manifest["left_out"]["queries_whose_passage_is_missing"] == 60
    assert all(position.before >= 512 and position.length <= 1400 for position in find_positions(made))
    made, written = write(
        tmp_path / "french", open_collection(data / "piaf"), beyond=512, length=1400, filler=0.5, folds=5
    )
    assert written.manifest["documents"] == {"relevant": 747}
    assert [counts["queries"] for counts in written.counts.values()] == [745, 744, 747, 742, 742]
