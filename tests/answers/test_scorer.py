"""Reading: windows in batches over the back ends, the same answers whatever the batch, and hard texts."""

from __future__ import annotations

import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import WORDS  # noqa: E402
from small_readers import TOKENIZERS, reader_with, small_reader  # noqa: E402
from telerank.answers.scorer import SpanReader  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.evaluation.answers.overlap import answer_words  # noqa: E402
from telerank.models.readers import save_reader  # noqa: E402
from telerank.types import Doc  # noqa: E402


def pairs(count, *, longest=90, seed=0):
    draw = random.Random(seed)
    sizes = [(draw.randint(1, 6), draw.choice((0, 1, 5, 20, longest))) for _ in range(count)]
    return [tuple(" ".join(draw.choices(WORDS, k=size)) for size in both) for both in sizes]


PAIRS = pairs(30)


@pytest.fixture(autouse=True)
def graphs(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return small_reader(tmp_path_factory.mktemp("reader"))


def theirs(reader, question, text):
    """The best span and the score of no answer as transformers' documentation has it: L x L for each window."""
    lengths = reader.settings
    tokens = reader.texts.tokenizer(
        question,
        text,
        truncation="only_second",
        max_length=lengths.max_length,
        stride=lengths.stride,
        padding=True,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_tensors="pt",
    )
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        outputs = reader.model(**inputs)
    nulls = (outputs.start_logits[:, 0] + outputs.end_logits[:, 0]).tolist()
    best = (-math.inf, 0, 0)
    for row, offsets in enumerate(tokens["offset_mapping"].tolist()):
        inside = [number for number, part in enumerate(tokens.sequence_ids(row)) if part == 1]
        for i in inside:
            if not owns(tokens, row, offsets[i]):
                continue
            for j in inside:
                if i <= j < i + lengths.max_answer:
                    score = float(outputs.start_logits[row, i]) + float(outputs.end_logits[row, j])
                    best = max(best, (score, -offsets[i][0], -offsets[j][1]))
    return best[0], -best[1], -best[2], min(nulls)


def owns(tokens, row, token):
    """Whether a window has most context around a token, or equals an earlier one that has."""
    around = []
    for number, offsets in enumerate(tokens["offset_mapping"].tolist()):
        inside = [offsets[n] for n, part in enumerate(tokens.sequence_ids(number)) if part == 1]
        if token in inside:
            at = inside.index(token)
            around.append((min(at, len(inside) - 1 - at), -number))
    return -max(around)[1] == row


def test_the_best_span_is_that_of_transformers_called_plainly(loaded):
    few = [pair for pair in PAIRS if pair[1]][:12]
    for (question, text), reading in zip(few, SpanReader(loaded).read(few), strict=True):
        score, start, end, null = theirs(loaded, question, text)
        best = reading.spans[0]
        assert (best.start, best.end) == (start, end)
        assert best.score == pytest.approx(score, abs=1e-5)
        assert reading.null == pytest.approx(null, abs=1e-5)


def same(one, other, tolerance=1e-5):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert math.isclose(left.null, right.null, abs_tol=tolerance)
        assert [(s.start, s.end) for s in left.spans[:3]] == [(s.start, s.end) for s in right.spans[:3]]
        assert np.allclose([s.score for s in left.spans], [s.score for s in right.spans], atol=tolerance)


@settings(max_examples=12)
@given(tokens=st.sampled_from((1, 40, 150, 5000)), order=st.permutations(range(len(PAIRS))))
def test_answers_do_not_depend_on_the_batch_or_its_order(loaded, tokens, order):
    shuffled = SpanReader(loaded, tokens=tokens).read([PAIRS[n] for n in order])
    same([shuffled[order.index(n)] for n in range(len(PAIRS))], SpanReader(loaded).read(PAIRS))


def test_groups_come_back_as_they_went_in_however_chunks_cut_them(loaded):
    """Of no group, many groups and many pairs of one at most a part is in memory."""
    sizes = [0, 3, 9, 0, 2500, 1, 0, *[1] * 70]
    texts = pairs(sum(sizes), longest=9, seed=1)
    given_groups = [[texts.pop() for _ in range(size)] for size in sizes]
    readings = list(SpanReader(loaded).stream(given_groups))
    assert [len(group) for group in readings] == sizes
    flat = [pair for group in given_groups for pair in group]
    same([reading for group in readings for reading in group], SpanReader(loaded).read(flat))


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
def test_graphs_read_as_the_model_does(loaded, backend):
    pytest.importorskip({"onnx": "onnxruntime"}.get(backend, backend))
    few = PAIRS[:8]
    same(SpanReader(loaded, backend=backend, threads=1).read(few), SpanReader(loaded).read(few))


def test_bfloat16_rounds_the_encoder_and_not_the_last_layer(loaded):
    spans = SpanReader(loaded, precision="bfloat16").read(PAIRS[:4])[3].spans
    scores = torch.tensor([span.start_logit for span in spans])
    assert (scores == scores.bfloat16().float()).float().mean() < 0.5


def test_a_text_without_a_token_has_no_span_and_a_question_may_be_empty(loaded):
    reader = SpanReader(loaded)
    for text in ("", "   ", "\n\t\u00a0"):
        answers = reader.answer("q1", text)
        assert (answers.answers, answers.no_answer) == ((), math.inf)
    assert reader.answer("q1", []).answers == ()
    assert len(reader.answer("q1", ["", "d1 d2"], k=1)) == 1
    assert len(reader.answer("", "d1 d2 d3")) > 0


def test_a_long_question_is_cut_and_said_once(loaded):
    reader = SpanReader(loaded)
    long = " ".join(["q1"] * 500)
    assert len(reader.answer(long, ["d1 d2", "d3"])) > 0
    reader.answer(long, "d5")
    assert reader.describe_cut() == "1 question longer than 8 tokens: cut there, 492 tokens were not read"
    assert SpanReader(loaded).describe_cut() == ""


def test_a_text_longer_than_what_is_in_memory_of_others_is_read_to_its_end(tmp_path):
    """The only word that the layer marks stands at the end, behind thousands of windows."""
    reader = small_reader(tmp_path, max_length=60, stride=8)
    text = "d1 " * 170_000 + "x7"
    assert len(text) > 500_000
    with torch.no_grad():
        model = reader.model
        model.bert.encoder.layer = torch.nn.ModuleList()  # embeddings alone: a second instead of minutes
        known = reader.texts.tokenizer.convert_tokens_to_ids("x7")
        vector = model.bert.embeddings.word_embeddings.weight
        vector *= 0.001
        vector[known] = 5.0 * torch.nn.functional.normalize(torch.randn(32), dim=0)
        direction = model.bert.embeddings(torch.tensor([[known]]))[0, 0]
        model.qa_outputs.weight[:] = direction
    answers = SpanReader(reader).answer("q1", text, k=1)
    (answer,) = answers
    assert (answer.text, answer.start) == ("x7", len(text) - 2)


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokenizers")
    return {name: reader_with(root, name, max_answer=12) for name in TOKENIZERS}


HARD = (
    "ligne une\nligne deux\r\nligne trois",
    "e\u0301te\u0301 a\u0300 la cafe\u0301te\u0301ria",
    "la ﬁn du ﬁlm, œuvre",
    "שלום לכם, ابجد هوز",
    "漢字 and 字漢",
    "x" * 300,
    "👩\u200d👧 a 🇫🇷 b",
    "« l’an 2000 »",
)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_answers_of_hard_texts_are_the_texts_own_characters(readers, tokenizer):
    for text in HARD:
        texts = [text, f"a {text} b"]
        answers = SpanReader(readers[tokenizer]).answer("l'an ?", texts)
        assert {docno for answer in answers for docno, _ in answer.sources} >= {"1"}
        for answer in answers:
            assert answer.text == texts[int(answer.docno)][answer.start : answer.end]
            assert answer.sources[0] == (answer.docno, answer.start)
            words = answer_words(answer.text)
            for docno, start in answer.sources:
                source = texts[int(docno)]
                assert any(answer_words(source[start:end]) == words for end in range(len(source), start, -1))


def test_half_of_a_surrogate_pair_is_refused_in_one_line(loaded):
    with pytest.raises(ModelError, match="half of a surrogate pair"):
        SpanReader(loaded).answer("q1", "d1 \ud83d d2")


def test_documents_keep_their_names_and_titles_are_not_read(loaded):
    answers = SpanReader(loaded).answer("q1", [Doc("a", "d1 d2", "x1"), Doc("b", "d5 x3")], k=1)
    assert answers.answers[0].docno in ("a", "b")
    assert "x1" not in answers.text
    assert SpanReader(loaded).answer("q1", {"c": "d1"}).answers[0].docno == "c"
    with pytest.raises(ValueError, match="the same docno"):
        SpanReader(loaded).answer("q1", [Doc("a", "d1"), Doc("a", "d2")])


def test_a_threshold_says_when_there_is_no_answer(loaded):
    always = SpanReader(loaded).answer("q1", "d1 d2 d3")
    below = SpanReader(loaded, threshold=always.no_answer - 0.01).answer("q1", "d1 d2 d3")
    assert (below.answers, below.no_answer, below.text) == ((), always.no_answer, "")
    above = SpanReader(loaded, threshold=always.no_answer + 0.01).answer("q1", "d1 d2 d3")
    assert above == always
    fitted = loaded.with_settings(threshold=always.no_answer - 0.01)
    assert SpanReader(fitted).answer("q1", "d1 d2 d3").answers == ()
    assert SpanReader(fitted, threshold=math.inf).answer("q1", "d1 d2 d3") == always


def test_a_higher_temperature_is_less_sure(loaded):
    cold, hot = (SpanReader(loaded, temperature=t).answer("q1", "d1 d2 d3 x4 x5") for t in (0.1, 10.0))
    assert cold.answers[0].confidence > hot.answers[0].confidence
    assert cold.answers[0].text == hot.answers[0].text


def test_a_named_reader_is_a_value(tmp_path, loaded):
    save_reader(loaded, tmp_path / "saved")
    named = SpanReader(str(tmp_path / "saved"), max_answer=3)
    assert named == pickle.loads(pickle.dumps(named))
    assert named != SpanReader(str(tmp_path / "saved"))
    assert repr(named) == f"SpanReader({str(tmp_path / 'saved')!r}, max_answer=3)"
    spans = named.read([("q1", "d1 d2 d3 d4 d5 d6 d7")])[0].spans
    assert max(len("d1 d2 d3 d4 d5 d6 d7"[s.start : s.end].split()) for s in spans) == 3
    assert named.checksum != SpanReader(loaded).checksum
    assert SpanReader(loaded).name.startswith("reader ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "none"}, "no back end is called 'none'"),
        ({"tokens": 0}, "tokens of a batch must be at least 1, got 0"),
        ({"threshold": math.nan}, "threshold must be a number, got nan"),
        ({"max_length": 500}, "the model has 66 positions"),
    ],
)
def test_what_cannot_be_computed_is_named(loaded, changes, message):
    with pytest.raises(ModelError, match=message):
        SpanReader(loaded, **changes).read([("q1", "d1")])


def test_a_model_that_gives_no_numbers_is_named(tmp_path):
    reader = small_reader(tmp_path)
    with torch.no_grad():
        reader.model.qa_outputs.bias[0] = math.nan
    with pytest.raises(ModelError, match="a logit is not a finite number"):
        SpanReader(reader).answer("q1", "d1")
