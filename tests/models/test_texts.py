"""Queries and passages as the tokens of one input, as rows of word vectors, and as features of heads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from small_models import ARCHITECTURES, save_vectors, small_tokenizer
from telerank.errors import FormatError, ModelError
from telerank.models.pairs.pair import (
    PairBatch,
    PairTokenizer,
    batch_of,
    gather_tokens,
    number_sentences,
    pair_features,
)
from telerank.models.pairs.words import (
    PADDING,
    SPECIAL,
    UNKNOWN,
    Words,
    load_vectors,
    load_vocabulary,
    save_vocabulary,
    words_in,
)

QUERY = "q1 q2 q3"
LONG = " ".join(f"d{number}" for number in range(40))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("passage", ["d1 d2 d3", LONG])
def test_a_pair_is_what_the_tokenizer_itself_makes(architecture, passage):
    tokenizer = small_tokenizer(architecture)
    pairs = PairTokenizer(tokenizer, max_query=8, max_length=24)
    pair = pairs.pair(pairs.queries([QUERY])[0], pairs.passages([passage])[0])
    said = tokenizer(QUERY, passage, truncation="only_second", max_length=24, return_token_type_ids=True)
    assert pair.ids.tolist() == said["input_ids"]
    assert pair.types.tolist() == said["token_type_ids"]
    texts = said.sequence_ids()
    assert pair.parts.tolist() == [0 if one is None else one + 1 for one in texts]


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
    pair = pairs.pair(pairs.queries([QUERY])[0], passage)
    assert pair.sentences.tolist() == [-1, -1, -1, -1, -1, 0, 0, 1, 2, 2, -1]


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
    pair = pairs.pair(pairs.queries([""])[0], pairs.passages([""], [[]])[0])
    assert pair.ids.tolist() == [0, 2, 2, 2]


def test_a_batch_is_padded_on_the_right(pairs):
    queries, passages = pairs.queries(["q1", QUERY]), pairs.passages(["d1", "d1 d2"])
    batch = batch_of(list(map(pairs.pair, queries, passages)), pairs.pad_id)
    assert batch.input_ids.shape == (2, 8)
    assert batch.attention_mask.sum(1).tolist() == [5, 8]
    assert batch.parts[0].tolist() == [0, 1, 0, 2, 0, 0, 0, 0]
    assert batch.sentences[0].tolist() == [-1, -1, -1, 0, -1, -1, -1, -1]
    assert (batch.input_ids[0, 5:] == pairs.pad_id).all()


def test_earlier_calls_of_the_tokenizer_do_not_change_pairs(pairs):
    before = pairs.passages([LONG])[0].ids
    pairs.tokenizer(["q1", LONG], truncation=True, max_length=5, padding="max_length")
    assert np.array_equal(pairs.passages([LONG])[0].ids, before)


ENGLISH, FRENCH, LETTERS = (
    vocabulary.split()
    for vocabulary in (
        "what does life insurance cover ? . , do n't 's u.s. 1,000 state-of-the-art it ... (",
        "l' assurance qu' il aujourd'hui peut être vie est",
        "a b n't a' l' a-b t l 1 a.b. ab ' . .. , - b'a 1,1",
    )
)


def said(vocabulary, text):
    """The words that a text is read as, ``<unk>`` for the unknown one."""
    names = ("<pad>", "<unk>", *vocabulary)
    return [names[row] for row in Words(vocabulary).queries([text])[0]]


@pytest.mark.parametrize(
    ("vocabulary", "text", "expected"),
    [
        (ENGLISH, "What does LIFE insurance cover?", "what does life insurance cover ?"),
        (ENGLISH, "It doesn’t cover", "it does n't cover"),
        (ENGLISH, "It does n't cover life 's", "it does n't cover life 's"),
        (ENGLISH, "1,000 in the U.S.", "1,000 <unk> <unk> u.s."),
        (ENGLISH, "state-of-the-art life-insurance", "state-of-the-art life insurance"),
        (ENGLISH, "cover... cover....", "cover ... cover ."),
        (ENGLISH, "cover.It", "cover it"),
        (ENGLISH, "((it's cover'", "( it 's cover"),
        (ENGLISH, "", ""),
        (FRENCH, "L’assurance-vie qu'il est", "l' assurance vie qu' il est"),
        (FRENCH, "aujourd'hui, peut-être", "aujourd'hui <unk> peut être"),
    ],
)
def test_texts_are_read_as_glove_was_made_with_elisions_as_words(vocabulary, text, expected):
    assert said(vocabulary, text) == expected.split()


def test_words_know_their_sentence():
    texts, passage = Words(ENGLISH), "It covers life. It doesn't cover it."
    (read,) = texts.passages([passage], [[(0, 15), (16, 36)]])
    assert read.sentences.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    (bare,) = texts.passages([passage])
    assert bare.ids.tolist() == read.ids.tolist()
    assert not bare.sentences.any()
    (empty,) = texts.passages([""], [[]])
    assert len(empty.ids) == 0


def test_a_pair_of_words_is_both_texts_cut_and_told_apart():
    texts = Words(ENGLISH, max_query=2, max_length=5)
    (query,) = texts.queries(["what does it"])
    (passage,) = texts.passages(["it does cover life ."], [[(0, 20)]])
    pair = texts.pair(query, passage)
    assert [ENGLISH[row - SPECIAL] for row in pair.ids] == ["what", "does", "it", "does", "cover"]
    assert pair.parts.tolist() == [1, 1, 2, 2, 2]
    assert pair.types.tolist() == [0, 0, 1, 1, 1]
    assert pair.sentences.tolist() == [-1, -1, 0, 0, 0]
    assert pair.cut == 1 + 2
    batch = batch_of([pair, texts.pair(query[:0], passage)], texts.pad_id)
    assert batch.input_ids.shape == (2, 5)
    assert batch.parts[1].tolist() == [2, 2, 2, 2, 2]


def test_a_vocabulary_is_recorded_and_one_that_cannot_be_is_refused():
    record = Words(["a", "b"]).record()
    assert record == Words(["a", "b"]).record()
    assert record not in (Words(["b", "a"]).record(), Words(["a", "b"], max_length=100).record())
    with pytest.raises(ModelError, match="'a' comes twice"):
        Words(["a", "b", "a"])
    for lengths, said in (
        ((9, 9), "a query of 9 words leaves no room for a passage in 9"),
        ((None, 1), "in 1$"),
    ):
        with pytest.raises(ModelError, match=said):
            Words(["a"], max_query=lengths[0], max_length=lengths[1])
    assert Words(["a"], max_query=None, max_length=9).longest_query == 8


@given(st.lists(st.text("abn't-. ’,L1", max_size=30), max_size=5))
def test_the_words_kept_of_texts_are_all_that_they_need(texts):
    """A vocabulary restricted to the words of texts reads those texts as the whole vocabulary does."""
    kept = [word for word in LETTERS if word in words_in(texts)]
    assert [said(kept, text) for text in texts] == [said(LETTERS, text) for text in texts]


def rows(count, width=3):
    return np.arange(count * width, dtype=np.float32).reshape(count, width)


def test_a_folder_gives_a_table_with_rows_for_padding_and_unknown_words(tmp_path):
    save_vectors(tmp_path, ["the", "of\x85", "…"], torch.from_numpy(np.vstack([rows(2), rows(3)])))
    vocabulary, table = load_vectors(tmp_path)
    assert vocabulary == ["the", "of\x85", "…"]
    assert table.dtype == torch.float32
    assert not table[PADDING].any()
    assert table[UNKNOWN].tolist() == [3, 4, 5]
    assert table[SPECIAL:].tolist() == rows(3).tolist()
    vocabulary, table = load_vectors(tmp_path, only={"…", "the", "cat"})
    assert vocabulary == ["the", "…"]
    assert table[SPECIAL:].tolist() == rows(3)[[0, 2]].tolist()
    with pytest.raises(ModelError, match="none of the given words"):
        load_vectors(tmp_path, only={"cat"})


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_text_as_glove_and_fasttext_give_it_is_read(tmp_path, header):
    file = tmp_path / "glove.txt"
    file.write_bytes(f"{header}the 0.5 -1\n. . 2 3\nof\x85 1e-3 4 \n".encode())
    vocabulary, table = load_vectors(file)
    assert vocabulary == ["the", ". .", "of\x85"]
    torch.testing.assert_close(table[SPECIAL:], torch.tensor([[0.5, -1], [2, 3], [1e-3, 4]]))
    assert load_vectors(file, only=["of\x85"])[0] == ["of\x85"]


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), min_size=1)))
def test_a_vocabulary_is_kept_to_the_letter(tmp_path_factory, words):
    file = tmp_path_factory.mktemp("words") / "vocab.txt"
    save_vocabulary(file, words)
    assert load_vocabulary(file) == words


HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000000, 3), }"
HUGE = b"\x93NUMPY\x01\x00\x76\x00" + HEADER.ljust(117) + b"\n"


def test_damaged_word_vectors_are_refused_in_one_line(tmp_path):
    with pytest.raises(ModelError, match="nowhere: expected word vectors"):
        load_vectors(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"vocab.txt: expected a vocabulary"):
        load_vectors(tmp_path)
    (tmp_path / "vocab.txt").write_text("the\nof\n", encoding="utf-8")
    for content in (None, b"", b"\x93NUMPY", b"\x80\4.", HUGE):
        if content is not None:
            (tmp_path / "vectors.npy").write_bytes(content)
        with pytest.raises(ModelError, match=r"vectors.npy: expected an array of word vectors"):
            load_vectors(tmp_path)
    for array, said in (
        (rows(3), r"expected an array of 2 vectors, got one of shape \(3, 3\)"),
        (np.full((2, 3), np.nan), "not finite"),
        (np.array([["a"], ["b"]]), r"vectors.npy: expected an array of numbers, got <U1"),
    ):
        np.save(tmp_path / "vectors.npy", array)
        with pytest.raises(ModelError, match=said):
            load_vectors(tmp_path)
    with pytest.raises(ModelError, match="line break"):
        save_vocabulary(tmp_path / "vocab.txt", ["a\nb"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the 1 2\nof 1\n", r"glove.txt:2: expected a word and 2 numbers, got 'of 1'"),
        ("the 1 2\nof 1 x\n", r"glove.txt:2: expected a word and 2 numbers, got 'of 1 x'"),
        ("the\n", r"glove.txt:1: expected a word and numbers, got 'the'"),
        (f"3 {'9' * 5000}\nof 1 2\n", r"glove.txt: a word vector is not finite"),
        ("² ²\n", r"glove.txt:1: expected a word and 1 numbers, got '² ²'"),
        ("the 1\nthe 2\n", r"glove.txt: the word 'the' comes twice"),
    ],
)
def test_a_line_that_is_no_vector_is_named(tmp_path, text, said):
    (tmp_path / "glove.txt").write_text(text, encoding="utf-8")
    with pytest.raises((FormatError, ModelError), match=said):
        load_vectors(tmp_path / "glove.txt")


@pytest.fixture
def joined():
    parts = torch.tensor([[0, 1, 1, 0, 2, 2, 2, 0], [0, 1, 0, 2, 2, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]])
    sentences = torch.tensor(
        [[-1, -1, -1, -1, 0, 0, 1, -1], [-1, -1, -1, 0, 0, -1, -1, -1], [-1, -1, -1, -1, -1, -1, -1, -1]]
    )
    nothing = torch.zeros_like(parts)
    return PairBatch(nothing, nothing, nothing, parts, sentences)


def test_features_are_the_first_token_the_query_and_the_means_of_sentences(joined):
    tokens = torch.randn(3, 8, 5, requires_grad=True)
    features = pair_features(tokens, joined)
    assert torch.equal(features.cls, tokens[:, 0])
    assert torch.equal(features.query[0], tokens[0, 1:3])
    assert torch.equal(features.query[1], torch.stack([tokens[1, 1], torch.zeros(5)]))
    assert features.query_mask.tolist() == [[True, True], [True, False], [False, False]]
    torch.testing.assert_close(features.sentences[0, 0], tokens[0, 4:6].mean(0))
    torch.testing.assert_close(features.sentences[0, 1], tokens[0, 6])
    torch.testing.assert_close(features.sentences[1, 0], tokens[1, 3:5].mean(0))
    assert features.sentence_mask.tolist() == [[True, True], [True, False], [False, False]]
    assert not features.sentences[1, 1].any()
    assert not features.sentences[2].any()
    (features.cls.sum() + features.query.sum() + features.sentences.sum()).backward()
    used = (joined.parts > 0) | (torch.arange(8) == 0)
    assert torch.equal(tokens.grad.abs().sum(2) > 0, used)
    picked, mask = gather_tokens(torch.arange(6.0).view(1, 6, 1), torch.tensor([[0, 1, 0, 1, 1, 0]]) > 0)
    assert picked.view(-1).tolist() == [1, 3, 4]  # in their order
    assert mask.all()
