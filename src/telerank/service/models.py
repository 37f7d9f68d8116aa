"""The models of a process by name: a closed set, to which no request adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from telerank.errors import MissingExtra
from telerank.retrieval.index import locate_model
from telerank.service.errors import NotServed, Unprocessable
from telerank.service.settings import ServiceSettings

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.dense.encoder import TorchEncoder
    from telerank.reranking.scorer import Scorer

Model = TypeVar("Model")
PRECISION = "float32"
"""Of encoders, unless the vectors that they search name another one."""


class ModelKey(NamedTuple):
    """A model by its name; ``scope`` is the index that it is kept with, or empty."""

    name: str
    scope: str
    settings: tuple[tuple[str, Any], ...]


@dataclass(eq=False)
class ModelFamily(Generic[Model]):
    """The models of one kind; ``class_name`` is their class, ``sources`` were given by name.

    A model without settings of its own has ``defaults``.
    Each is made once, while the process opens what it serves. Afterwards the family is closed.
    """

    kind: str
    class_name: str
    sources: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    closed: bool = False
    _models: dict[ModelKey, Model] = field(default_factory=dict, init=False)

    def open(self, name: str, source: str | None = None, scope: str = "", **settings: Any) -> Model:
        """The model of that source and these settings, made if there is none yet.

        Raises
        ------
        NotServed
            If it would have to be made, and the family is closed.
        """
        settings = settings or dict(self.defaults)
        key = ModelKey(name, scope, tuple(sorted(settings.items())))
        if key not in self._models:
            if self.closed:
                raise NotServed.named(self.kind, name, self.names)
            source = source or locate_model(name, models=self.sources)
            self._models[key] = _load_class(self.class_name)(source, **settings)
        return self._models[key]

    def find(self, name: str | None = None, scope: str = "", **settings: Any) -> Model:
        """The model of a name, with the settings that it is served with; None: the first.

        Raises
        ------
        NotServed
            If there is none of that name.
        Unprocessable
            If it is not served with these settings.
        """
        chosen = tuple(sorted(settings.items()))
        known = [key for key in self._models if name in (None, key.name) and key.scope in ("", scope)]
        known.sort(key=lambda key: not key.scope)  # that of the index before one of the same name
        if not known:
            raise NotServed.named(self.kind, name or "", self.names)
        for key in known:
            if not chosen or key.settings == chosen:
                return self._models[key]
        served = "; ".join(sorted({_settings_text(key) for key in known}))
        raise Unprocessable(f"the {self.kind} {name} is served with {served}, not {_settings_text(chosen)}")

    @property
    def names(self) -> list[str]:
        """The names of the models, each once."""
        return list(dict.fromkeys(key.name for key in self._models))

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())


@dataclass(eq=False)
class ServedModels:
    """Re-rankers, encoders and readers; loaded when they are first used."""

    rerankers: ModelFamily[Scorer]
    encoders: ModelFamily[TorchEncoder]
    readers: ModelFamily[SpanReader]
    folders: dict[str, str] = field(default_factory=dict)
    """The folders of models that pipelines name by their paths, by the names that replies show instead."""

    @classmethod
    def of(cls, settings: ServiceSettings) -> ServedModels:
        """The models that the settings name; pipelines add theirs until :meth:`close`."""
        served = cls(
            ModelFamily(
                "re-ranker", "telerank.reranking.scorer:Scorer", settings.rerankers, settings.computing
            ),
            ModelFamily("encoder", "telerank.dense.encoder:TorchEncoder", settings.encoders),
            ModelFamily("reader", "telerank.answers.scorer:SpanReader", settings.readers),
        )
        for name in settings.rerankers:
            served.rerankers.open(name)
        for name in settings.encoders:
            served.encoders.open(name, precision=PRECISION)
        for name in settings.readers:
            served.readers.open(name)
        return served

    def name_folder(self, folder: str) -> str:
        """The name that stands for a folder: its last part, with a number if another model has that name."""
        families = (self.rerankers, self.encoders, self.readers)
        known = {
            name: source for family in families for name, source in family.sources.items()
        } | self.folders
        last = Path(folder).resolve().name
        names = (f"{last}-{number}" if number > 1 else last for number in count(1))
        name = next(name for name in names if known.get(name, folder) == folder)
        self.folders[name] = folder
        return name

    def close(self) -> None:
        """From now on there are no other models."""
        self.rerankers.closed = self.encoders.closed = self.readers.closed = True

    def warm(self) -> None:
        """Load each model, and let it compute once; raises ModelError if one cannot be loaded."""
        for scorer in self.rerankers:
            scorer.score([("a", "a")])
        for encoder in self.encoders:
            encoder.encode_queries(["a"])
        for reader in self.readers:
            reader.read([("a", "a")])


def _settings_text(settings: ModelKey | tuple[tuple[str, Any], ...]) -> str:
    pairs = settings.settings if isinstance(settings, ModelKey) else settings
    return ", ".join(f"{name}={value}" for name, value in pairs) or "its own settings"


def _load_class(name: str) -> Any:
    for module in ("torch", "transformers"):
        if find_spec(module) is None:
            raise MissingExtra(module, "neural")
    return resolve_name(name)
