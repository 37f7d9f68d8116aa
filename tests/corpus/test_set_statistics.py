from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_sets import qa_set

from telerank.corpus.lengths import Lengths, bin_inputs
from telerank.corpus.readers.squad import SQUAD
from telerank.corpus.statistics import count_question_words, describe
from telerank.errors import FormatError
from telerank.types import Query, Ranking

TEXTS = {"a": "Paris is in France.", "b": "Rome is in Italy, far away.", "c": "Nothing."}
ASKED = {
    "train": [("Where is Paris?", "a", "France"), ("Where is Bonn?", "", "")],
    "test": [("And Rome?", "b", "Italy")],
}


def words(text: str) -> int:
    return len(re.findall(r"\w+", text))


def pooled(**more):
    pool = [Ranking.ranked(Query("q1", ""), ("a", "b", "c"), (3, 2, 1))]
    return qa_set("small", TEXTS, ASKED, pools={"train/negatives": lambda: iter(pool)}, **more)


def test_lengths_words_pairs_and_classes_of_a_set():
    one = describe(pooled(), count=words)
    assert one.splits == ("train", "test")
    assert dict(one.documents.counts) == {1: 1, 4: 1, 6: 1}
    assert dict(one.questions.counts) == {2: 1, 3: 2}
    assert (one.positives, one.negatives) == (2, 2)
    assert dict(one.inputs.counts) == {3 + 4 + 3: 1, 3 + 6 + 3: 1, 3 + 1 + 3: 1, 2 + 6 + 3: 1}
    assert one.unique_questions == 3
    assert one.language == "english"
    assert {kind.name: kind.count for kind in one.question_words if kind.count} == {"Where": 2, "others": 1}


def test_one_split_is_described_without_the_others_and_grades_below_the_first_relevant_one_are_none():
    one = describe(pooled(), count=words, splits=["test"])
    assert (one.questions.total, one.positives, one.negatives) == (1, 1, 0)
    assert one.documents.total == 3
    one = describe(pooled(relevant_from=2), count=words)
    assert (one.positives, one.negatives) == (0, 4)


def test_a_set_without_questions_is_described_by_its_documents():
    one = describe(qa_set("bare", TEXTS, {}), count=words)
    assert (one.documents.total, one.questions.total, one.inputs.total) == (3, 0, 0)
    assert [kind.share for kind in one.question_words] == [0.0] * 9


FRENCH = {
    "Que": ("Que mange-t-il ?", "Qu’est-ce qui brille ?", "En quelle année ?", "À laquelle des deux ?"),
    "Qui": ("À qui est-ce ?",),
    "Combien": ("Depuis combien de temps ?",),
    "Quand": ("QUAND part-il ?",),
    "Où": ("D'où vient-il ?",),
    "Comment": ("Comment va-t-il ?",),
    "Pourquoi": ("Pourquoi le zinc était-il rare ?",),
    "quoi": ("De quoi est composé l'air ?",),
    "others": ("Le président de la Chambre que dit-il ?", "ou bien ?", ""),
}
ENGLISH = {
    "What": ("What is it?", "In what country?"),
    "Who": ("Whose is it?",),
    "How many": ("How many are there?", "By how much?"),
    "How": ("How is it?", "Does it how?"),
    "Which": ("From which countries did they come?",),
    "others": ("Is it far?", "So it is how"),
}


@pytest.mark.parametrize(("language", "kinds"), [("french", FRENCH), ("english", ENGLISH)])
def test_questions_have_the_question_words_of_the_report(language, kinds):
    for kind, questions in kinds.items():
        for question in questions:
            counted, read_as = count_question_words([question], language)
            assert read_as == language
            assert [one.name for one in counted if one.count] == [kind], question


def test_shares_and_examples_come_with_the_question_words():
    kinds, language = count_question_words(["Qui est là ?", "Qui va là ?", "Où est-il ?", "Hein ?"])
    assert language == "french"
    found = {one.name: (one.count, one.share, one.example) for one in kinds if one.count}
    assert found == {
        "Qui": (2, 0.5, "Qui est là ?"),
        "Où": (1, 0.25, "Où est-il ?"),
        "others": (1, 0.25, "Hein ?"),
    }
    with pytest.raises(ValueError, match="french, english, not in 'latin'"):
        count_question_words([], "latin")


def test_input_bins_are_those_of_the_report():
    bins = bin_inputs(Lengths.of([0, 111, 112, 311, 312, 411, 412, 512, 513, 4000]))
    assert [(one.name, one.count) for one in bins] == [
        ("[0,112[", 2), ("[112,212[", 1), ("[212,312[", 1), ("[312,412[", 2), ("[412,512]", 2), ("+512", 2),
    ]  # fmt: skip
    assert [round(one.cumulative, 3) for one in bins] == [0.2, 0.3, 0.4, 0.6, 0.8, 1.0]
    bins = bin_inputs(Lengths({50: 206829, 150: 856903, 250: 254176, 350: 44382, 450: 11138, 600: 2262}))
    assert [round(one.cumulative, 3) for one in bins] == [0.150, 0.773, 0.958, 0.990, 0.998, 1.000]
    assert sum(one.count for one in bins) == 1_375_690


lengths = st.lists(st.integers(0, 3000), min_size=1, max_size=60)


@given(lengths, st.integers(3, 40))
def test_bins_take_in_every_text_once(values, most):
    bins = Lengths.of(values).bins(most)
    assert sum(count for _, _, count in bins) == len(values)
    assert len(bins) <= most
    assert all(high == low for (_, high, _), (low, _, _) in pairwise(bins))
    for low, high, count in bins:
        assert count == sum(low <= value < high for value in values)


@given(lengths, st.floats(0, 1))
def test_quantiles_and_means_are_those_of_numpy(values, q):
    found = Lengths.of(values)
    assert found.quantile(q) == np.quantile(values, q, method="inverted_cdf")
    assert found.mean == pytest.approx(np.mean(values))


def test_lengths_of_nothing_are_zero():
    none = Lengths.of([])
    assert (none.total, none.mean, none.quantile(0.5), none.bins()) == (0, 0.0, 0, [])


@pytest.mark.data
def test_half_of_the_real_french_questions_ask_que_as_in_the_report(data):
    shares = {}
    for name in ("piaf", "fquad"):
        one = describe(SQUAD.read(data / name, "utf-8"), count=words)
        assert one.language == "french"
        shares[name] = [round(100 * kind.share, 1) for kind in one.question_words]
    assert [kind.name for kind in one.question_words] == [*FRENCH]
    assert shares["piaf"] == [51.3, 14.8, 5.6, 5.5, 4.7, 5.6, 2.4, 3.1, 7.0]
    assert shares["fquad"] == [52.0, 14.8, 5.6, 6.7, 4.9, 5.3, 2.0, 5.3, 3.5]
    assert describe(SQUAD.read(data / "xquad-en", "utf-8"), count=words).language == "english"


def test_every_plot_that_has_data_is_drawn(tmp_path):
    files = describe(pooled(), count=words).save_plots(tmp_path / "plots")
    assert [file.name for file in files] == [
        "question-words.png", "question-lengths.png", "document-lengths.png", "input-lengths.png", "class-balance.png",
    ]  # fmt: skip
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    bare = describe(qa_set("bare", TEXTS, {}), count=words)
    assert [file.name for file in bare.save_plots(tmp_path)] == ["document-lengths.png"]
    with pytest.raises(FormatError, match=r"the name of a plot, ending in \.png, \.svg, \.pdf"):
        bare.save_plots(tmp_path, format="bmp")


def test_the_same_data_give_the_same_svg(tmp_path):
    one = describe(qa_set("bare", TEXTS, {}), count=words)
    (first,), (second,) = (one.save_plots(tmp_path / name, format="svg") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
