"""Every description that an explanation of the library has is known to the page, in both languages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_models import small_encoder
from small_rerankers import small_reranker
from telerank.models.rerankers.reranker import save_reranker
from telerank.service.page.messages import Messages
from telerank.service.page.stages import KINDS, explain_stages, find, kind_of, split_stages
from telerank.service.page.why import Reason, describe, is_sum, reasons
from telerank.stage import Chain, Stage
from telerank.types import Doc, Explanation, Query

DOCS = [Doc(f"d{n}", f"x{n} q1 x2. q1 x{n + 1} d3. q2 " + "x5 d4 " * n, f"d{n}") for n in range(6)]
QUERY = Query("1", "q1 q2 q1 aujourd'hui x4")
PIPELINES = [
    "bm25",
    "lm_dirichlet % 3",
    "dense(encoder)",
    "bm25 % 4 >> rerank(mono) % 2",
    "bm25 % 4 >> rerank(dmn)",
    "0.4 * minmax(bm25 % 3) + 0.6 * minmax(dense(encoder) % 3)",
    "bm25 + dfi % 1",
    "rrf(bm25 % 2, dense(encoder) % 6)",
    "interleave(bm25, dfi)",
    "prob(bm25)",
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


def all_parts(explanation: Explanation) -> Iterator[Explanation]:
    yield explanation
    for part in explanation.parts:
        yield from all_parts(part)


@pytest.mark.parametrize("text", PIPELINES)
def test_every_description_is_known_in_both_languages(index: tr.Index, text: str):
    stage = tr.pipeline(text, index)
    for docno in ("d5", "d0"):
        for share in explain_stages(stage, QUERY, docno, 100):
            for part in all_parts(share.explanation) if share.explanation is not None else ():
                if part.what == "rounding to float32":
                    continue
                english, french = (describe(part.what, Messages(name), {}) for name in ("en", "fr"))
                assert english, part.what
                assert french, part.what
                assert "{" not in f"{english}{french}".replace("{{", "")


@pytest.mark.parametrize("text", PIPELINES)
def test_each_stage_has_the_rank_and_the_score_that_the_pipeline_gives(index: tr.Index, text: str):
    stage = tr.pipeline(text, index)
    ranking = stage.search(QUERY)
    docno = ranking.docnos[-1]
    shares = explain_stages(stage, QUERY, docno, 100)
    assert len(shares) == len(split_stages(stage))
    assert shares[-1].rank == len(ranking)
    assert shares[-1].explanation.value == pytest.approx(ranking.scores[-1], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("text", PIPELINES)
def test_stage_by_stage_is_the_pipeline(index: tr.Index, text: str):
    stage = tr.pipeline(text, index)
    found = find(stage, QUERY, 2)
    assert found.ranking == (stage % 2).search(QUERY)
    assert found.pipeline == stage.text
    assert " >> ".join(step.text for step in found.steps) == stage.text or not isinstance(stage, Chain)
    assert all(step.kind != "other" for step in found.steps)


def test_kinds_are_those_of_stages_that_exist(index: tr.Index):
    import telerank.dense.approximate
    import telerank.dense.retriever
    import telerank.fusion.stages
    import telerank.reranking.stage
    import telerank.segments.stage
    import telerank.sparse.retriever
    import telerank.stage as stages

    modules = (
        stages,
        telerank.sparse.retriever,
        telerank.dense.retriever,
        telerank.dense.approximate,
        telerank.fusion.stages,
        telerank.reranking.stage,
        telerank.segments.stage,
    )
    known = {name for module in modules for name, kind in vars(module).items() if isinstance(kind, type)}
    assert {*KINDS} <= known
    assert kind_of(tr.pipeline("(bm25 + dfi) % 3", index)) == "fused"


def test_shares_are_parts_of_the_sum(index: tr.Index):
    reason = reasons(index.bm25().explain(QUERY, "d5"), Messages("en"), {})
    shares = [part.share for part in reason.parts]
    assert sum(shares) == pytest.approx(1)
    assert not reason.is_foreign


def test_what_does_not_sum_has_no_bars():
    parts = (Explanation(2.0, "rank 2"), Explanation(3.0, "rank 3"))
    assert not is_sum(Explanation(1.0, "sum of", parts))
    assert is_sum(Explanation(5.0, "sum of", parts))
    assert not is_sum(Explanation(2.0, "sum of", parts[:1]))
    assert not is_sum(Explanation(2.0, "sum of"))


def test_parts_that_take_away_have_a_negative_share():
    parts = (Explanation(3.0, "rank 1"), Explanation(-1.0, "rank 2"))
    shares = [part.share for part in reasons(Explanation(2.0, "sum of", parts), Messages("en"), {}).parts]
    assert shares == [0.75, -0.25]


def test_a_description_that_is_not_known_stays_as_it_is():
    reason = reasons(Explanation(1.0, "by a stage of another package"), Messages("fr"), {})
    assert reason == Reason("by a stage of another package", "1,000", None, (), is_foreign=True)


def test_the_words_of_the_query_stand_for_its_terms():
    what = "'etat': tf 3, df 20, cf 40"
    assert describe(what, Messages("fr"), {"etat": "État"}).startswith("«\u202fÉtat\u202f»")
    assert describe('"aujourd\'hui": tf 1, df 1, cf 1', Messages("en"), {}).startswith("“aujourd'hui”")


@pytest.mark.parametrize("text", ["a ~ {b} %s", "”: without it 3", "x”, which counts most", "{0.__class__}"])
def test_a_quoted_text_is_put_in_as_it_is(text: str):
    shown = describe(f"sentence 1, “{text}”: without it 1.5", Messages("fr"), {})
    assert text in shown


def stages_of(stage: Stage) -> list[str]:
    return [part.text for part in split_stages(stage)]


def test_a_chain_that_is_cut_is_split_into_its_stages(index: tr.Index):
    assert stages_of(tr.pipeline("bm25 % 9 >> rerank(mono) % 3", index)) == [
        "bm25(k1=1.2, b=0.75) % 9",
        "rerank(mono) % 3",
    ]
    assert len(stages_of(tr.pipeline("(bm25 % 9 >> minmax(rerank(mono))) % 3", index))) == 2


@pytest.mark.parametrize("language", ["en", "fr"])
def test_sentences_that_are_not_read_have_no_value(language: str):
    say = Messages(language)
    for what in ("sentence 4: not read, beyond 512 tokens", "sentences 4 to 12: not read, beyond 512 tokens"):
        reason = reasons(Explanation(0.0, what), say, {})
        assert (reason.value, reason.share, reason.is_foreign) == (say("explain.unread"), None, False)
        assert "512" in reason.text
    quoted = reasons(Explanation(0.0, "sentence 4, “sentence 5: not read, beyond 1 tokens”"), say, {})
    assert quoted.value != say("explain.unread")


def test_words_of_a_document_are_not_marked_as_english():
    parts = (Explanation(0.5, "maison"), Explanation(0.5, "(a word without a vector)"))
    reason = reasons(Explanation(1.0, "attention over the words", parts), Messages("fr"), {})
    assert [(part.text, part.is_foreign) for part in reason.parts] == [
        ("maison", False),
        ("(un mot sans vecteur)", False),
    ]


def test_what_models_over_word_vectors_show_is_known():
    for what in (
        "0.5 times -3.25, the kernel at -0.9 (width 0.1)",
        "bias",
        "number 2 by the tokens (3 sentences, but 2 by their tokens: a token spans several)",
    ):
        assert all(describe(what, Messages(language), {}) for language in ("en", "fr"))
