"""``inspect``: why re-rankers score as they do, over pairs drawn from a collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from telerank.corpus.collection import Collection, find_docs
from telerank.errors import CollectionError
from telerank.parameters import Check, Flags, Help, Split, check_finite
from telerank.retrieval.index import Index
from telerank.show.progress import NOTHING, show_progress
from telerank.types import ProgressSetting
from telerank.verbs.index import open_source

if TYPE_CHECKING:
    from telerank.inspect.diffusion import DiffusionReport
    from telerank.inspect.embeddings import EmbeddingsReport
    from telerank.inspect.gates import FaithfulnessReport, Gates

Checkpoints = Annotated[
    Sequence[str],
    Flags("MODEL"),
    Help("Checkpoints to compare: re-rankers, or an encoder (`minilm`) as it is before training."),
]
RerankerName = Annotated[
    str, Flags("--model"), Help("A re-ranker: the folder OUTPUT/model of a training, or a name on the hub.")
]
Candidates = Annotated[
    str | None,
    Flags("--candidates", "RUN|POOL"),
    Help("A run file, or a pool of the collection (`test/100`), to draw from. Default: its only pool."),
]
PairCount = Annotated[int, Ge(1), Flags("-n"), Help("Number of pairs to draw.")]
DrawSeed = Annotated[int, Help("Seed of the draw.")]
BatchTokens = Annotated[int, Ge(1), Help("Most tokens in a batch, padding included.")]
ModelDevice = Annotated[str, Help("`cpu` or `cuda`.")]


def diffusion(
    data: Collection | str | Path,
    models: Checkpoints,
    candidates: Candidates = None,
    *,
    split: Split = None,
    pairs: PairCount = 1000,
    seed: DrawSeed = 0,
    batch_tokens: BatchTokens = 8192,
    device: ModelDevice = "cpu",
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
    from telerank.inspect.diffusion import DiffusionReport, compare_diffusion
    from telerank.inspect.drawn_pairs import draw_pairs, open_candidates

    source = open_candidates(data, candidates, split)
    with show_progress(progress, kept=NOTHING) as shown:
        drawn = draw_pairs(source, pairs, seed=seed, progress=shown)
        checkpoints = compare_diffusion(
            models, drawn, batch_tokens=batch_tokens, device=device, progress=shown
        )
    return DiffusionReport(checkpoints, source.record(seed))


def tsne(
    data: Collection | str | Path,
    models: Checkpoints,
    candidates: Candidates = None,
    *,
    split: Split = None,
    each: Annotated[int, Ge(1), Flags("-n"), Help("Number of relevant pairs, and of other pairs.")] = 250,
    perplexity: Annotated[
        float, Ge(1.0), Check(check_finite), Help("About how many neighbours t-SNE keeps near.")
    ] = 30.0,
    neighbours: Annotated[
        int, Ge(1), Help("Nearest pairs of which the share of the same class is computed.")
    ] = 10,
    seed: DrawSeed = 0,
    batch_tokens: BatchTokens = 8192,
    device: ModelDevice = "cpu",
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
    from telerank.inspect.drawn_pairs import draw_by_class, open_candidates
    from telerank.inspect.embeddings import EmbeddingsReport, MapSettings, compare_embeddings

    source = open_candidates(data, candidates, split)
    settings = MapSettings(perplexity, neighbours, seed)
    with show_progress(progress, kept=NOTHING) as shown:
        drawn = draw_by_class(source, relevant=each, others=each, seed=seed, progress=shown)
        embeddings = compare_embeddings(
            models, drawn, settings, batch_tokens=batch_tokens, device=device, progress=shown
        )
    return EmbeddingsReport(embeddings, drawn, source.record(seed))


def faithfulness(
    data: Collection | str | Path,
    model: RerankerName,
    candidates: Candidates = None,
    *,
    split: Split = None,
    pairs: PairCount = 1000,
    relevant: Annotated[bool, Help("Draw relevant pairs of the qrels instead of any candidates.")] = False,
    seed: DrawSeed = 0,
    batch_tokens: BatchTokens = 8192,
    device: ModelDevice = "cpu",
    progress: ProgressSetting = None,
) -> FaithfulnessReport:
    """Check gates: deleting the sentence with the highest gate should lower the score more often.

    With ``relevant`` the pairs are relevant ones of the qrels instead of any candidates.

    Raises
    ------
    CollectionError, ModelError
        As :func:`diffusion`; if the re-ranker has no gates, or no passage has two sentences.
    """
    from telerank.inspect.drawn_pairs import draw_by_class, draw_pairs, move, open_candidates, tokenize_drawn
    from telerank.inspect.gates import FaithfulnessReport, find_gates, measure_faithfulness
    from telerank.models.rerankers.reranker import load_reranker

    source = open_candidates(data, candidates, split)
    reranker = move(load_reranker(model), device)
    find_gates(reranker)  # an error before the work, not after it
    with show_progress(progress, kept=NOTHING) as shown:
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
    model: RerankerName,
    query: Annotated[str, Flags("--query", "-q"), Help("The query.")],
    text: Annotated[str | None, Help("The passage; `-`: standard input.")] = None,
    *,
    docno: Annotated[str | None, Help("Docno of the passage, a document of --docs.")] = None,
    docs: Annotated[
        str | None, Flags("--docs", "INDEX|COLLECTION"), Help("An index or a collection with the document.")
    ] = None,
) -> Gates:
    """The gate of each episode for each sentence of a text or of a document of ``docs``.

    Raises
    ------
    CollectionError
        If there is no such document, or the passage has no sentence.
    ModelError
        If the re-ranker has no gates, or a token spans several sentences.
    """
    from telerank.inspect.gates import read_gates
    from telerank.models.rerankers.reranker import load_reranker

    if (text is None) == (docno is None) or (docno is None) != (docs is None):
        raise CollectionError("gates: give text=…, or docno=… with docs=…")
    if docno is not None and docs is not None:
        source = open_source(docs)
        if not isinstance(source, Index):
            text = find_docs(source, [docno])[0].full_text
        elif docno in source.docs:
            text = source.docs[docno].full_text
        else:
            raise CollectionError(f"{docs} has no document {docno!r}")
    return read_gates(load_reranker(model), query, text or "")
