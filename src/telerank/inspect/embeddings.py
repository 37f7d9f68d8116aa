"""Embeddings of relevant and other pairs: maps, and how far apart the classes lie (Piaf, figures 14 and 15).

A t-SNE map shows which pairs are near each other; distances between clusters, their sizes and gaps mean
nothing, and another seed gives another map. Therefore :class:`Separation` is measured in the vectors
themselves, which the re-ranker's head reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from telerank.errors import CollectionError, MissingExtra
from telerank.inspect.drawn_pairs import (
    BATCH,
    JudgedPair,
    compute_token_outputs,
    describe_cut,
    iterate_batches,
    open_checkpoints,
    tokenize_drawn,
)
from telerank.models.pairs.pair import Pair
from telerank.models.rerankers.reranker import Reranker
from telerank.show.plots import COLOURS, new_figure
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, silent

Vectors: TypeAlias = npt.NDArray[np.float32]
Marks: TypeAlias = npt.NDArray[np.bool_]

NEIGHBOURS = 10
_YELLOW = "#F0E442"  # of Okabe and Ito; the report's figures 14 and 15 have relevant pairs in yellow
_PANEL = (4.2, 3.4)  # inches


@dataclass(frozen=True)
class Separation:
    """How far apart two classes of vectors lie.

    ``silhouette`` is the mean of (b - a) / max(a, b), where a is the mean distance of a vector to its own
    class and b to the other (Rousseeuw 1987): 1 if the classes lie apart, 0 if they are mixed. ``agreement``
    is the share of a vector's ``neighbours`` nearest that are of its class, averaged over each class and then
    over both: 0.5 by chance, whatever the sizes of the classes. Distances are Euclidean.
    """

    silhouette: float
    agreement: float
    neighbours: int = NEIGHBOURS


@dataclass(frozen=True)
class MapSettings:
    """Settings of t-SNE and of :class:`Separation`; a map for each number of ``dimensions``."""

    perplexity: float = 30.0
    neighbours: int = NEIGHBOURS
    seed: int = 0
    dimensions: tuple[int, ...] = (2, 3)


@dataclass(frozen=True, eq=False)
class Embedding:
    """The pairs in a checkpoint's vectors of ``width`` numbers and in maps of 2 or 3 dimensions.

    ``in_maps`` has the separation in each map; ``cut`` of the pairs were longer than the model reads.
    """

    width: int
    separation: Separation
    maps: Sequence[Vectors]
    in_maps: Sequence[Separation]
    cut: int

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        return {
            "width": self.width,
            **asdict(self.separation),
            "maps": [
                {"dimensions": points.shape[1], **asdict(separation), "points": points.tolist()}
                for separation, points in zip(self.in_maps, self.maps, strict=True)
            ],
        }


@dataclass(frozen=True, eq=False)
class EmbeddingsReport(Report):
    """The pairs in the space of each checkpoint, by its short name; ``drawn`` says how they were drawn."""

    title: ClassVar[str] = "Embeddings of pairs"
    checkpoints: Mapping[str, Embedding]
    pairs: Sequence[JudgedPair]
    drawn: Mapping[str, object]

    def tables(self) -> list[Table]:
        """The separation in each space of each checkpoint."""
        rows = []
        for name, own in self.checkpoints.items():
            maps = (f"t-SNE map ({points.shape[1]})" for points in own.maps)
            spaces = zip((f"CLS outputs ({own.width})", *maps), (own.separation, *own.in_maps), strict=True)
            rows += [(name, space, f"{each.silhouette:+.3f}", each.agreement) for space, each in spaces]
        relevant = sum(bool(pair.relevant) for pair in self.pairs)
        others = f"{len(self.pairs) - relevant:,} other pairs of {self.drawn['collection']}"
        neighbours = next(iter(self.checkpoints.values())).separation.neighbours
        notes = [
            "silhouette: 1 where the classes lie apart, 0 where they are mixed.",
            f"agreement: of the {neighbours} nearest pairs, the share of a pair's own class; 0.5 by chance.",
        ]
        columns = ("model", "space (dimensions)", "silhouette", "agreement")
        return [Table.of(columns, rows, caption=f"{relevant:,} relevant and {others}", notes=notes, left=2)]

    @property
    def remarks(self) -> list[str]:
        return [
            line
            for name, model in self.checkpoints.items()
            for line in describe_cut(model.cut, len(self.pairs), name)
        ]

    def record(self) -> dict[str, object]:
        return {
            **self.drawn,
            "pairs": [
                {"qid": pair.qid, "docno": pair.docno, "relevant": pair.relevant} for pair in self.pairs
            ],
            "checkpoints": {name: embedding.record() for name, embedding in self.checkpoints.items()},
        }

    def plot(self) -> Figure:
        """The maps, with the separation in the vectors below each checkpoint's name."""
        return map_plot(
            {name: own.maps for name, own in self.checkpoints.items()},
            np.array([bool(pair.relevant) for pair in self.pairs]),
            {
                name: f"silhouette {own.separation.silhouette:+.2f}, agreement {own.separation.agreement:.2f}"
                for name, own in self.checkpoints.items()
            },
        )


def map_plot(maps: Mapping[str, Sequence[Vectors]], relevant: Marks, notes: Mapping[str, str]) -> Figure:
    """A column for each checkpoint with its maps of two or three dimensions; relevant pairs are yellow.

    ``notes`` are shown below the checkpoints' names.
    """
    rows = len(next(iter(maps.values())))
    styles = (  # relevant pairs are drawn last, over the others
        (~relevant, "not relevant", {"color": COLOURS[0], "marker": "o", "s": 10, "alpha": 0.7}),
        (relevant, "relevant", {"color": _YELLOW, "marker": "^", "s": 16, "edgecolors": "black"}),
    )
    with new_figure(_PANEL[0] * len(maps), _PANEL[1] * rows + 0.4) as figure:
        for column, (name, own_maps) in enumerate(maps.items(), 1):
            for row, points in enumerate(own_maps):
                projection = {"projection": "3d"} if points.shape[1] == 3 else {}
                panel: Any = figure.add_subplot(rows, len(maps), row * len(maps) + column, **projection)
                handles = [
                    panel.scatter(*points[marks].T, label=label, linewidths=0.3, **style)
                    for marks, label, style in styles
                ]
                for axis in ("x", "y", "z")[: points.shape[1]]:
                    getattr(panel, f"set_{axis}ticks")([])  # the numbers of a map mean nothing
                if row == 0:
                    panel.set_title(f"{name}\n{notes.get(name, '')}".strip(), fontsize=10)
        figure.legend(handles, [label for _, label, _ in styles], loc="outside lower center", ncols=2)
    return figure


def compare_embeddings(
    models: Sequence[str],
    drawn: Sequence[JudgedPair],
    settings: MapSettings | None = None,
    *,
    batch_tokens: int = BATCH,
    device: str = "cpu",
    progress: Progress = silent,
) -> dict[str, Embedding]:
    """Measure and map the pairs with several checkpoints; the results by the models' short names.

    Raises
    ------
    CollectionError
        If a class has too few pairs for the settings.
    MissingExtra
        If scikit-learn is not installed.
    """
    chosen = settings or MapSettings()
    relevant = [bool(pair.relevant) for pair in drawn]
    check_classes(relevant, chosen.neighbours)
    embeddings = {}
    for name, reranker in open_checkpoints(models, device):
        pairs = tokenize_drawn(reranker, drawn)
        vectors = compute_cls_vectors(reranker, pairs, batch_tokens=batch_tokens, progress=progress)
        maps = [
            compute_tsne(vectors, dimensions, perplexity=chosen.perplexity, seed=chosen.seed)
            for dimensions in chosen.dimensions
        ]
        separation, *in_maps = (
            measure_separation(space, relevant, neighbours=chosen.neighbours) for space in (vectors, *maps)
        )
        embeddings[name] = Embedding(
            vectors.shape[1], separation, maps, in_maps, sum(pair.cut > 0 for pair in pairs)
        )
    return embeddings


def compute_cls_vectors(
    reranker: Reranker, pairs: Sequence[Pair], *, batch_tokens: int = BATCH, progress: Progress = silent
) -> Vectors:
    """The output of the classifying token for each pair: (pairs, H)."""
    by_row: dict[int, Vectors] = {}
    for rows, batch in iterate_batches(pairs, reranker.texts.pad_id, batch_tokens, progress):
        vectors = compute_token_outputs(reranker, batch)[:, 0].numpy()  # (B, L, H) -> (B, H)
        by_row.update(zip(rows, vectors, strict=True))
    return np.stack([by_row[row] for row in range(len(pairs))])


def check_classes(relevant: Sequence[bool], neighbours: int = NEIGHBOURS) -> None:
    """Raise CollectionError if a class has too few pairs for ``neighbours`` of a pair's own class."""
    least = min(sum(relevant), len(relevant) - sum(relevant))
    if least <= neighbours:
        few = f"{least} pairs of a class are too few for {neighbours} neighbours"
        raise CollectionError(f"{few}: draw more pairs, or set fewer neighbours")


def measure_separation(
    vectors: Vectors, relevant: Sequence[bool], *, neighbours: int = NEIGHBOURS
) -> Separation:
    """How far the relevant of these vectors, (pairs, H), lie from the others."""
    check_classes(relevant, neighbours)
    marks = np.asarray(relevant, np.bool_)
    neighbourhood = _sklearn("neighbors").NearestNeighbors(n_neighbors=neighbours).fit(vectors)
    nearest = neighbourhood.kneighbors(return_distance=False)  # (pairs, neighbours), without the pair itself
    same = (marks[nearest] == marks[:, None]).mean(1)  # (pairs,)
    agreement = float((same[marks].mean() + same[~marks].mean()) / 2)
    silhouette = float(_sklearn("metrics").silhouette_score(vectors, marks))
    return Separation(silhouette, agreement, neighbours)


def compute_tsne(
    vectors: Vectors, dimensions: int = 2, *, perplexity: float = 30.0, seed: int = 0
) -> Vectors:
    """Map vectors, (pairs, H) -> (pairs, dimensions), by t-SNE (van der Maaten & Hinton 2008).

    It starts from the principal components; the same seed gives the same map. Raises CollectionError if the
    perplexity, about the number of neighbours considered, is not below the number of vectors.
    """
    if perplexity >= len(vectors):
        raise CollectionError(f"a perplexity of {perplexity:g} needs more than {len(vectors)} pairs")
    tsne = _sklearn("manifold").TSNE(
        n_components=dimensions, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1
    )
    return tsne.fit_transform(vectors).astype(np.float32)  # type: ignore[no-any-return]


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtra("scikit-learn", "neural") from error
