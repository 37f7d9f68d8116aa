"""Embeddings of pairs, relevant ones apart or not: maps, and numbers beside them (Piaf, figures 14 and 15).

A map of t-SNE shows what lies near what; distances between clusters, their sizes and gaps mean nothing, and
another seed gives another map. So :class:`Separation` is measured where the re-ranker's head reads: in the
vectors themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import CollectionError, MissingExtra
from telerank.inspect.token_outputs import BATCH, batches, token_outputs
from telerank.models.pairs.pair import Pair
from telerank.models.rerankers.reranker import Reranker
from telerank.types import Progress, silent

Vectors: TypeAlias = npt.NDArray[np.float32]
Marks: TypeAlias = npt.NDArray[np.bool_]

NEIGHBOURS = 10


@dataclass(frozen=True)
class Separation:
    """How far apart two classes of vectors lie.

    ``silhouette``: the mean of (b - a) / max(a, b), with a the mean distance of a vector to its own class and
    b to the other (Rousseeuw 1987): 1 apart, 0 mixed. ``agreement``: the share of a vector's ``neighbours``
    nearest that are of its class, the mean over the vectors of a class and then over both classes: 0.5 by
    chance, whatever the sizes of the classes. Distances are Euclidean.
    """

    silhouette: float
    agreement: float
    neighbours: int = NEIGHBOURS


def cls_vectors(
    reranker: Reranker, pairs: Sequence[Pair], *, batch_tokens: int = BATCH, progress: Progress = silent
) -> Vectors:
    """The output of the classifying token for each pair: (pairs, H).

    Raises
    ------
    ModelError
        where the model has no outputs of a transformer.
    """
    made: dict[int, Vectors] = {}
    found = batches(pairs, reranker.texts.pad_id, batch_tokens, what="reading pairs", progress=progress)
    for places, batch in found:
        vectors = token_outputs(reranker, batch)[:, 0].numpy()  # (B, L, H) -> (B, H)
        made.update(zip(places, vectors, strict=True))
    return np.stack([made[place] for place in range(len(pairs))])


def check_classes(relevant: Sequence[bool], neighbours: int = NEIGHBOURS) -> None:
    """See that each pair can have so many neighbours of its own class.

    Raises
    ------
    CollectionError
        where a class has no more pairs.
    """
    least = int(min(sum(relevant), len(relevant) - sum(relevant)))
    if least <= neighbours:
        few = f"{least} pairs of a class are too few for {neighbours} neighbours"
        raise CollectionError(f"{few}: draw more, or ask for fewer neighbours")


def separation(vectors: Vectors, relevant: Sequence[bool], *, neighbours: int = NEIGHBOURS) -> Separation:
    """How far the relevant of these vectors, (pairs, H), lie from the others.

    Raises
    ------
    CollectionError
        where a class has no more vectors than there shall be neighbours.
    MissingExtra
        where scikit-learn is not installed.
    """
    check_classes(relevant, neighbours)
    marks = np.asarray(relevant, np.bool_)
    near = _sklearn("neighbors").NearestNeighbors(n_neighbors=neighbours).fit(vectors)
    places = near.kneighbors(return_distance=False)  # (pairs, neighbours), without itself
    same = (marks[places] == marks[:, None]).mean(1)  # (pairs,)
    agreement = (same[marks].mean() + same[~marks].mean()) / 2
    silhouette = _sklearn("metrics").silhouette_score(vectors, marks)
    return Separation(float(silhouette), float(agreement), neighbours)


def tsne(vectors: Vectors, dimensions: int = 2, *, perplexity: float = 30.0, seed: int = 0) -> Vectors:
    """A map of vectors, (pairs, H) -> (pairs, dimensions), by t-SNE (van der Maaten & Hinton 2008).

    It begins with the principal components; the same seed gives the same map.

    Raises
    ------
    CollectionError
        where the perplexity, about the number of neighbours looked at, is not below the number of vectors.
    MissingExtra
        where scikit-learn is not installed.
    """
    if perplexity >= len(vectors):
        raise CollectionError(f"a perplexity of {perplexity:g} asks for more than {len(vectors)} pairs")
    mapping = _sklearn("manifold").TSNE(
        n_components=dimensions, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1
    )
    found: Vectors = mapping.fit_transform(vectors).astype(np.float32)
    return found


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtra("scikit-learn", "neural") from error
