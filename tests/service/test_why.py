from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

import telerank as tr
from small_models import small_encoder
from small_rerankers import small_reranker
from telerank.models.rerankers.reranker import save_reranker
from telerank.service.page.messages import Messages
from telerank.service.page.why import Reason, describe, reasons
from telerank.service.searching import explain_stages, run_stages, split_stages
from telerank.stage import Chain
from telerank.types import Doc, Explanation, Phrase, Query

DOCS = [Doc(f"d{n}", f"x{n} q1 x2. q1 x{n + 1} d3. q2 " + "x5 d4 " * n, f"d{n}") for n in range(6)]
QUERY = Query("1", "q1 q2 q1 aujourd'hui x4")
MESSAGES = (Messages("en"), Messages("fr"))
PIPELINES = [
    "bm25",
    "lm_dirichlet % 3",
    "dense(encoder)",
    "bm25 % 4 >> rerank(mono) % 2",
    "bm25 % 4 >> rerank(dmn)",
    "0.4 * minmax(bm25 % 3) + 0.6 * minmax(dense(encoder) % 3)",
    "bm25 + dfi % 1",
    "bm25 >> rm3(fb_docs=2, max_df=1)",
    "bm25 % 3 >> bo1",
    "dense(encoder) >> rocchio(fb_docs=2)",
    "rrf(bm25 % 2, dense(encoder) % 6)",
    "interleave(bm25, dfi)",
    "prob(bm25)",
    "softmax(bm25 % 3)",
    "bm25 % 3 >> maxp(rerank(mono), window=12)",
    "bm25 % 3 >> firstp(rerank(mono), window=12)",
    "bm25 % 3 >> meanp(rerank(mono), window=12)",
    "bm25 % 3 >> sump(rerank(mono), window=12)",
    "bm25 % 3 >> kmaxp(rerank(mono), window=12, kmax=2)",
    "passages(bm25 % 3, rerank(mono), alpha=0.3, beta=0.7, window=12)",
    "birch(bm25 % 3, rerank(mono), alpha=0.5, weights='1 0.5')",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> tr.Index:
    folder = tmp_path_factory.mktemp("why")
    tr.index(DOCS, folder / "idx", workers=1, analyzer="standard")
    index = tr.open(folder / "idx")
    models = folder / "idx" / "models"
    models.mkdir()
    save_reranker(small_reranker(folder), models / "mono")
    save_reranker(small_reranker(folder, "bert-dmn"), models / "dmn")
    small_encoder(models / "encoder")
    index.encode("encoder")
    return tr.open(folder / "idx")


def without_it(text: str) -> Phrase:
    return Phrase("sentence {n}, “{text}”: without it {value:.4g}", n=1, text=text, value=1.5)


def descriptions(explanation: Explanation) -> Iterator[str]:
    yield explanation.what
    for part in explanation.parts:
        yield from descriptions(part)


@pytest.mark.parametrize("text", PIPELINES)
def test_every_stage_has_the_rank_the_score_and_the_words_of_its_explanation(index: tr.Index, text: str):
    stage = tr.pipeline(text, index)
    ranking = stage.search(QUERY)
    shares = explain_stages(stage, QUERY, ranking.docnos[-1], 100)
    assert len(shares) == len(split_stages(stage))
    assert shares[-1].rank == len(ranking)
    assert shares[-1].explanation.value == pytest.approx(ranking.scores[-1], rel=1e-5, abs=1e-6)
    staged = run_stages(stage, QUERY, 2)
    assert staged.ranking == (stage % 2).search(QUERY)
    assert " >> ".join(run.stage for run in staged.stages) == stage.text or not isinstance(stage, Chain)
    assert all(run.role != "other" for run in staged.stages)
    for share in (*explain_stages(stage, QUERY, "d5", 100), *explain_stages(stage, QUERY, "d0", 100)):
        for what in descriptions(share.explanation) if share.explanation is not None else ():
            for say in MESSAGES if what != "rounding to float32" else ():
                assert describe(what, say, {}), what
                assert "{" not in describe(what, say, {}).replace("{{", "")


def test_a_cut_chain_is_split_into_its_stages_and_a_cut_sum_is_not(index: tr.Index):
    stages = split_stages(tr.pipeline("bm25 % 9 >> rerank(mono) % 3", index))
    assert [stage.text for stage in stages] == ["bm25(k1=1.2, b=0.75) % 9", "rerank(mono) % 3"]
    assert len(split_stages(tr.pipeline("(bm25 % 9 >> minmax(rerank(mono))) % 3", index))) == 2
    assert tr.pipeline("(bm25 + dfi) % 3", index).role == "fused"


def test_shares_are_parts_of_a_sum_and_what_does_not_sum_has_none():
    def shares(value: float, *values: float) -> list[float | None]:
        parts = tuple(Explanation(each, "rank 1") for each in values)
        reason = reasons(Explanation(value, "sum of", parts), MESSAGES[0], {})
        assert not reason.is_foreign
        return [part.share for part in reason.parts]

    assert shares(5.0, 2.0, 3.0) == [0.4, 0.6]
    assert shares(2.0, 3.0, -1.0) == [0.75, -0.25]
    assert shares(1.0, 2.0, 3.0) == [None, None]
    assert shares(2.0, 2.0) == [None]


@pytest.mark.parametrize(
    ("what", "english", "french"),
    [
        (
            Phrase("{term!r}: tf {tf}, df {df}, cf {cf}", term="etat", tf=3, df=20, cf=40),
            "“État”",
            "«\u202fÉtat\u202f»",
        ),
        (
            Phrase("{term!r}: tf {tf}, df {df}, cf {cf}", term="aujourd'hui", tf=1, df=1, cf=1),
            "“aujourd'hui”",
            "«\u202faujourd'hui\u202f»",
        ),
        (without_it("a ~ {b} %s"), "a ~ {b} %s", "a ~ {b} %s"),
        (without_it("”: without it 3"), "”: without it 3", "”: without it 3"),
        (without_it("x”, which counts most"), "x”, which", "x”, which"),
        (without_it("{0.__class__}"), "{0.__class__}", "{0.__class__}"),
        (
            Phrase(
                "{weight:.4g} times {value:.4g}, the kernel at {least} (width {most})",
                weight=0.5,
                value=-3.25,
                least=-0.9,
                most=0.1,
            ),
            "the kernel at −0.9",
            "le noyau en −0,9",
        ),
        ("bias", "bias", "biais"),
        (Phrase("number {n} by the tokens ({error})", n=2, error="3 sentences"), "sentence 2", "phrase 2"),
    ],
)
def test_a_description_has_the_words_of_the_query_and_quotes_as_they_are(what, english, french):
    for say, text in zip(MESSAGES, (english, french), strict=True):
        assert text in describe(what, say, {"etat": "État"})


def test_a_description_that_is_not_known_stays_as_it_is():
    reason = reasons(Explanation(1.0, "by a stage of another package"), MESSAGES[1], {})
    assert reason == Reason("by a stage of another package", "1,000", None, (), is_foreign=True)


@pytest.mark.parametrize("say", MESSAGES)
def test_sentences_that_are_not_read_have_no_value(say: Messages):
    for template in ("sentence {n}", "sentences {n} to {of}"):
        what = Phrase(template + ": not read, beyond {k} tokens", n=4, of=12, k=512)
        reason = reasons(Explanation(0.0, what), say, {})
        assert (reason.value, reason.share, reason.is_foreign) == (say("explain.unread"), None, False)
        assert "512" in reason.text
    quoted = reasons(
        Explanation(0.0, Phrase("sentence {n}, “{text}”", n=4, text="5: not read, beyond {k} tokens")),
        say,
        {},
    )
    assert quoted.value != say("explain.unread")


def test_words_of_a_document_are_not_marked_as_english():
    parts = (Explanation(0.5, "maison"), Explanation(0.5, "(a word without a vector)"))
    reason = reasons(Explanation(1.0, "attention over the words", parts), MESSAGES[1], {})
    assert [(part.text, part.is_foreign) for part in reason.parts] == [
        ("maison", False),
        ("(un mot sans vecteur)", False),
    ]


def test_a_phrase_is_its_text_and_survives_a_pickle():
    phrase = Phrase("{text}: {n:.2f}", text="{0}", n=1)
    assert (phrase, phrase.facts["n"]) == ("{0}: 1.00", 1)
    again = pickle.loads(pickle.dumps(phrase))
    assert (again, again.template, again.facts) == (phrase, phrase.template, phrase.facts)
