"""Texts as rows of word vectors, and word vectors on disk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import save_vectors  # noqa: E402
from telerank.errors import FormatError, ModelError  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.pairs.words import (  # noqa: E402
    PADDING,
    SPECIAL,
    UNKNOWN,
    Words,
    load_vectors,
    load_vocabulary,
    save_vocabulary,
    words_in,
)

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
    texts = Words(ENGLISH)
    passage = "It covers life. It doesn't cover it."
    (made,) = texts.passages([passage], [[(0, 15), (16, 36)]])
    assert made.sentences.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    (bare,) = texts.passages([passage])
    assert bare.ids.tolist() == made.ids.tolist()
    assert not bare.sentences.any()
    (empty,) = texts.passages([""], [[]])
    assert len(empty.ids) == 0


def test_a_pair_is_both_texts_cut_and_told_apart():
    texts = Words(ENGLISH, max_query=2, max_length=5)
    (query,), (passage,) = (
        texts.queries(["what does it"]),
        texts.passages(["it does cover life ."], [[(0, 20)]]),
    )
    pair = texts.pair(query, passage)
    rows = {word: SPECIAL + number for number, word in enumerate(ENGLISH)}
    assert pair.ids.tolist() == [rows[word] for word in ("what", "does", "it", "does", "cover")]
    assert pair.parts.tolist() == [1, 1, 2, 2, 2]
    assert pair.types.tolist() == [0, 0, 1, 1, 1]
    assert pair.sentences.tolist() == [-1, -1, 0, 0, 0]
    assert pair.cut == 1 + 2
    batch = batch_of([pair, texts.pair(query[:0], passage)], texts.pad_id)
    assert batch.input_ids.shape == (2, 5)
    assert batch.parts[1].tolist() == [2, 2, 2, 2, 2]


def test_what_pairs_depend_on_is_recorded():
    one = Words(["a", "b"]).record()
    assert one == Words(["a", "b"]).record()
    assert one != Words(["b", "a"]).record()
    assert one != Words(["a", "b"], max_length=100).record()


def test_a_vocabulary_that_cannot_be_is_refused():
    with pytest.raises(ModelError, match="'a' comes twice"):
        Words(["a", "b", "a"])
    with pytest.raises(ModelError, match="a query of 9 words leaves no room for a passage in 9"):
        Words(["a"], max_query=9, max_length=9)
    with pytest.raises(ModelError, match="leaves no room for a passage in 1"):
        Words(["a"], max_query=None, max_length=1)
    assert Words(["a"], max_query=None, max_length=9).longest_query == 8


@given(st.lists(st.text("abn't-. ’,L1", max_size=30), max_size=5))
def test_the_words_kept_of_texts_are_all_that_they_need(texts):
    """A vocabulary restricted to the words of texts reads those texts as the whole vocabulary does."""
    kept = [word for word in LETTERS if word in words_in(texts)]
    assert [said(kept, text) for text in texts] == [said(LETTERS, text) for text in texts]


def vectors(count, width=3):
    return np.arange(count * width, dtype=np.float32).reshape(count, width)


def test_a_folder_gives_a_table_with_rows_for_padding_and_unknown_words(tmp_path):
    np.save(tmp_path / "vectors.npy", vectors(3))
    (tmp_path / "vocab.txt").write_text("the\nof\x85\n…\n", encoding="utf-8")
    vocabulary, table = load_vectors(tmp_path)
    assert vocabulary == ["the", "of\x85", "…"]
    assert table.dtype == torch.float32
    assert not table[PADDING].any()
    assert table[UNKNOWN].tolist() == [3, 4, 5]
    assert table[SPECIAL:].tolist() == vectors(3).tolist()


def test_only_the_words_asked_for_are_kept(tmp_path):
    np.save(tmp_path / "vectors.npy", vectors(3))
    (tmp_path / "vocab.txt").write_text("the\nof\nand\n", encoding="utf-8")
    vocabulary, table = load_vectors(tmp_path, only={"and", "the", "cat"})
    assert vocabulary == ["the", "and"]
    assert table[SPECIAL:].tolist() == vectors(3)[[0, 2]].tolist()
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


def test_what_was_saved_is_loaded(tmp_path):
    table = torch.cat([torch.zeros(2, 3), torch.from_numpy(vectors(2))])
    save_vectors(tmp_path / "words", ["l'", "…"], table)
    vocabulary, loaded = load_vectors(tmp_path / "words")
    assert vocabulary == ["l'", "…"]
    assert torch.equal(loaded[SPECIAL:], table[SPECIAL:])


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
    with pytest.raises(ModelError, match=r"vectors.npy: expected an array of word vectors"):
        load_vectors(tmp_path)
    np.save(tmp_path / "vectors.npy", vectors(3))
    with pytest.raises(ModelError, match=r"expected an array of 2 vectors, got one of shape \(3, 3\)"):
        load_vectors(tmp_path)
    np.save(tmp_path / "vectors.npy", np.full((2, 3), np.nan))
    with pytest.raises(ModelError, match="not finite"):
        load_vectors(tmp_path)
    np.save(tmp_path / "vectors.npy", np.array([["a"], ["b"]]))
    with pytest.raises(ModelError, match=r"vectors.npy: expected an array of numbers, got <U1"):
        load_vectors(tmp_path)
    for content in (b"", b"\x93NUMPY", b"\x80\4.", HUGE):
        (tmp_path / "vectors.npy").write_bytes(content)
        with pytest.raises(ModelError, match=r"vectors.npy: expected an array of word vectors"):
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
