"""``inspect``: why re-rankers score as they do, over pairs drawn from a collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.contents import find_docs
from telerank.errors import CollectionError
from telerank.inspect.diffusion import DiffusionReport, compare_diffusion
from telerank.inspect.drawn_pairs import draw_by_class, draw_pairs, open_candidates, tokenize_drawn
from telerank.inspect.embeddings import NEIGHBOURS, EmbeddingsReport, MapSettings, compare_embeddings
from telerank.inspect.faithfulness import FaithfulnessReport, measure_faithfulness
from telerank.inspect.gates import Gates, find_gates, read_gates
from telerank.inspect.token_outputs import BATCH, move
from telerank.models.rerankers.reranker import load_reranker
from telerank.retrieval.index import Index
from telerank.show.progress import show_progress
from telerank.types import ProgressSetting
from telerank.verbs.index import open_source


def diffusion(
    data: Collection | str | Path,
    models: Sequence[str],
    candidates: str | None = None,
    *,
    split: str | None = None,
    pairs: int = 1000,
    seed: int = 0,
    batch_tokens: int = BATCH,
    device: str = "cpu",
    progress: ProgressSetting = None,
) -> DiffusionReport:
    """Measure how far information has spread over the tokens of pairs, for several checkpoints.

    ``candidates`` is a run file or a pool of the collection (``test/100``), by default its only pool, from
    which ``pairs`` are drawn by ``seed``. ``models`` are re-rankers, or an encoder before any training.

    Raises
    ------
    CollectionError
        If there are no such candidates, or the collection lacks a text of them.
    ModelError
        If a model does not exist or has no outputs of a transformer, or there is no such device.
    """
    source = open_candidates(data, candidates, split)
    with show_progress(progress) as shown:
        drawn = draw_pairs(source, pairs, seed=seed, progress=shown)
        checkpoints = compare_diffusion(
            models, drawn, batch_tokens=batch_tokens, device=device, progress=shown
        )
    return DiffusionReport(checkpoints, source.record(seed))


def tsne(
    data: Collection | str | Path,
    models: Sequence[str],
    candidates: str | None = None,
    *,
    split: str | None = None,
    each: int = 250,
    perplexity: float = 30.0,
    neighbours: int = NEIGHBOURS,
    seed: int = 0,
    batch_tokens: int = BATCH,
    device: str = "cpu",
    progress: ProgressSetting = None,
) -> EmbeddingsReport:
    """Map the CLS outputs of ``each`` relevant and as many other pairs, and measure how far apart they lie.

    Raises
    ------
    CollectionError, ModelError
        As :func:`diffusion`; if a class has too few pairs for the settings.
    MissingExtra
        If scikit-learn is not installed.
    """
    source = open_candidates(data, candidates, split)
    settings = MapSettings(perplexity, neighbours, seed)
    with show_progress(progress) as shown:
        drawn = draw_by_class(source, relevant=each, others=each, seed=seed, progress=shown)
        embeddings = compare_embeddings(
            models, drawn, settings, batch_tokens=batch_tokens, device=device, progress=shown
        )
    return EmbeddingsReport(embeddings, drawn, source.record(seed))


def faithfulness(
    data: Collection | str | Path,
    model: str,
    candidates: str | None = None,
    *,
    split: str | None = None,
    pairs: int = 1000,
    relevant: bool = False,
    seed: int = 0,
    batch_tokens: int = BATCH,
    device: str = "cpu",
    progress: ProgressSetting = None,
) -> FaithfulnessReport:
    """Check gates: deleting the sentence with the highest gate should lower the score more often.

    With ``relevant`` the pairs are relevant ones of the qrels instead of any candidates.

    Raises
    ------
    CollectionError, ModelError
        As :func:`diffusion`; if the re-ranker has no gates, or no passage has two sentences.
    """
    source = open_candidates(data, candidates, split)
    reranker = move(load_reranker(model), device)
    find_gates(reranker)  # an error before the work, not after it
    with show_progress(progress) as shown:
        drawn = (
            draw_by_class(source, relevant=pairs, others=0, seed=seed, progress=shown)
            if relevant
            else draw_pairs(source, pairs, seed=seed, progress=shown)
        )
        tokens, qids = tokenize_drawn(reranker, drawn), [pair.qid for pair in drawn]
        result = measure_faithfulness(
            reranker, tokens, qids, seed=seed, batch_tokens=batch_tokens, progress=shown
        )
    return FaithfulnessReport(model, result, {**source.record(seed), "relevant": relevant})


def gates(
    model: str, query: str, text: str | None = None, *, docno: str | None = None, docs: str | None = None
) -> Gates:
    """The gate of each episode for each sentence of a text or of a document of ``docs``.

    Raises
    ------
    CollectionError
        If there is no such document, or the passage has no sentence.
    ModelError
        If the re-ranker has no gates, or a token spans several sentences.
    """
    if (text is None) == (docno is None) or (docno is None) != (docs is None):
        raise CollectionError("gates: give --text, or --docno with --docs")
    if docno is not None and docs is not None:
        text = _find_text(docno, docs)
    return read_gates(load_reranker(model), query, text or "")


def _find_text(docno: str, docs: str) -> str:
    source = open_source(docs)
    if not isinstance(source, Index):
        return find_docs(source, [docno])[0].full_text
    if docno not in source.docs:
        raise CollectionError(f"{docs} has no document {docno!r}")
    return source.docs[docno].full_text
