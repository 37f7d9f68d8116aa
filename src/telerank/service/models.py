"""The models of a process by name: a closed set, which no request adds to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from telerank.retrieval.index import locate_model
from telerank.service.errors import NotServed
from telerank.service.settings import ServiceSettings

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.dense.encoder import TorchEncoder
    from telerank.reranking.scorer import Scorer

Model = TypeVar("Model")


@dataclass(frozen=True)
class ServedModels:
    """Re-rankers, encoders and readers by name, loaded when they are first used."""

    rerankers: Mapping[str, Scorer]
    encoders: Mapping[str, TorchEncoder]
    readers: Mapping[str, SpanReader]

    @classmethod
    def of(cls, settings: ServiceSettings) -> ServedModels:
        """The models that the settings name.

        Raises
        ------
        MissingExtra
            If torch is not installed.
        """
        return cls(_rerankers(settings), _encoders(settings), _readers(settings))

    def reranker(self, name: str | None = None) -> Scorer:
        """The re-ranker of a name; None: the first. Raises NotServed."""
        return _named("re-ranker", name, self.rerankers)

    def encoder(self, name: str | None = None) -> TorchEncoder:
        """The encoder of a name; None: the first. Raises NotServed."""
        return _named("encoder", name, self.encoders)

    def reader(self, name: str | None = None) -> SpanReader:
        """The reader of a name; None: the first. Raises NotServed."""
        return _named("reader", name, self.readers)


def _named(kind: str, name: str | None, known: Mapping[str, Model]) -> Model:
    if name is None and known:
        return next(iter(known.values()))
    if name is None or name not in known:
        raise NotServed.named(kind, name or "", known)
    return known[name]


def _rerankers(settings: ServiceSettings) -> dict[str, Scorer]:
    if not settings.rerankers:
        return {}
    from telerank.reranking.scorer import Scorer

    return {name: Scorer(locate_model(source)) for name, source in settings.rerankers.items()}


def _encoders(settings: ServiceSettings) -> dict[str, TorchEncoder]:
    if not settings.encoders:
        return {}
    from telerank.dense.encoder import TorchEncoder

    return {name: TorchEncoder(locate_model(source)) for name, source in settings.encoders.items()}


def _readers(settings: ServiceSettings) -> dict[str, SpanReader]:
    if not settings.readers:
        return {}
    from telerank.answers.scorer import SpanReader

    return {name: SpanReader(locate_model(source)) for name, source in settings.readers.items()}
