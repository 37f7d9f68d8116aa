"""Queries and passages as the tokens of one input."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import ARCHITECTURES, small_tokenizer
from telerank.errors import ModelError
from telerank.models.pairs.pair import PairTokenizer, batch_of, number_sentences

QUERY = "q1 q2 q3"
LONG = " ".join(f"d{number}" for number in range(40))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("passage", ["d1 d2 d3", LONG])
def test_a_pair_is_what_the_tokenizer_itself_makes(architecture, passage):
    tokenizer = small_tokenizer(architecture)
    pairs = PairTokenizer(tokenizer, max_query=8, max_length=24)
    made = pairs.pair(pairs.queries([QUERY])[0], pairs.passages([passage])[0])
    said = tokenizer(QUERY, passage, truncation="only_second", max_length=24, return_token_type_ids=True)
    assert made.ids.tolist() == said["input_ids"]
    assert made.types.tolist() == said["token_type_ids"]
    texts = said.sequence_ids()
    assert made.parts.tolist() == [0 if one is None else one + 1 for one in texts]


@pytest.fixture(scope="module")
def pairs():
    return PairTokenizer(small_tokenizer("bert"), max_query=8, max_length=24)


def test_a_query_is_cut_first_and_then_the_passage_and_what_is_cut_is_counted():
    pairs = PairTokenizer(small_tokenizer("bert"), max_query=2, max_length=10)
    pair = pairs.pair(pairs.queries([QUERY])[0], pairs.passages([LONG])[0])
    assert len(pair) == 10
    assert ((pair.parts == 1).sum(), (pair.parts == 2).sum()) == (2, 5)
    assert (pair.cut_query, pair.cut_passage, pair.cut) == (1, 35, 1 + 35)


def test_without_a_length_of_queries_only_passages_are_cut_while_one_token_fits():
    pairs = PairTokenizer(small_tokenizer("bert"), max_query=None, max_length=10)
    query, long = pairs.queries([QUERY, LONG])
    (passage,) = pairs.passages([LONG])
    pair = pairs.pair(query, passage)
    assert ((pair.parts == 1).sum(), (pair.parts == 2).sum(), pair.cut_query) == (3, 4, 0)
    pair = pairs.pair(long, passage)
    assert len(pair) == 10
    assert ((pair.parts == 1).sum(), (pair.parts == 2).sum()) == (6, 1)
    assert (pair.cut_query, pair.cut_passage) == (len(long) - 6, len(passage.ids) - 1)
    for most, room in ((None, 4), (8, 11)):
        with pytest.raises(ModelError, match=f"leave no room for a passage in {room}"):
            PairTokenizer(small_tokenizer("bert"), max_query=most, max_length=room)


def test_tokens_know_their_sentence(pairs):
    text = "d1 d2 d3 d4 d5"
    passage = pairs.passages([text], [[(0, 5), (6, 8), (9, 14)]])[0]
    assert passage.sentences.tolist() == [0, 0, 1, 2, 2]
    made = pairs.pair(pairs.queries([QUERY])[0], passage)
    assert made.sentences.tolist() == [-1, -1, -1, -1, -1, 0, 0, 1, 2, 2, -1]


def test_a_token_that_begins_with_the_blank_before_it_is_of_its_own_sentence():
    """As Metaspace makes tokens, for models without Whitespace before it, and ModernBERT."""
    from tokenizers import pre_tokenizers

    text, spans = "d1 d2. d3. d4 d5.", [(0, 6), (7, 10), (11, 17)]
    pieces = pre_tokenizers.Metaspace().pre_tokenize_str(text)
    offsets = [where for _, where in pieces]
    assert offsets == [(0, 2), (2, 6), (6, 10), (10, 13), (13, 17)]
    assert number_sentences(offsets, spans).tolist() == [0, 0, 1, 2, 2]
    assert number_sentences([(0, 0), (0, 2), (7, 7)], spans).tolist() == [0, 0, 1]  # tokens of no character
    # sentences without tokens leave no gap
    assert number_sentences([(0, 2), (20, 22)], [(0, 5), (6, 9), (18, 25)]).tolist() == [0, 1]


def test_empty_texts_are_pairs_too():
    pairs = PairTokenizer(small_tokenizer("roberta"), max_query=8, max_length=24)
    made = pairs.pair(pairs.queries([""])[0], pairs.passages([""], [[]])[0])
    assert made.ids.tolist() == [0, 2, 2, 2]


def test_a_batch_is_padded_on_the_right(pairs):
    queries, passages = pairs.queries(["q1", QUERY]), pairs.passages(["d1", "d1 d2"])
    batch = batch_of([pairs.pair(*one) for one in zip(queries, passages, strict=True)], pairs.pad_id)
    assert batch.input_ids.shape == (2, 8)
    assert batch.attention_mask.sum(1).tolist() == [5, 8]
    assert batch.parts[0].tolist() == [0, 1, 0, 2, 0, 0, 0, 0]
    assert batch.sentences[0].tolist() == [-1, -1, -1, 0, -1, -1, -1, -1]
    assert (batch.input_ids[0, 5:] == pairs.pad_id).all()


def test_earlier_calls_of_the_tokenizer_do_not_change_pairs(pairs):
    before = pairs.passages([LONG])[0].ids
    pairs.tokenizer(["q1", LONG], truncation=True, max_length=5, padding="max_length")
    assert np.array_equal(pairs.passages([LONG])[0].ids, before)
