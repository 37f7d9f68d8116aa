"""The models of a process by name: a closed set, to which no request adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from telerank.dense.static import find_static
from telerank.errors import MissingExtra
from telerank.model_names import is_here
from telerank.retrieval.model_sources import locate_model
from telerank.service.errors import NotServed, Unprocessable
from telerank.service.settings import ServiceSettings

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.dense.encoder import TorchEncoder
    from telerank.dense.static import StaticEncoder
    from telerank.reranking.scorer import Scorer
    from telerank.sparse.weights.encoder import TermEncoder

Model = TypeVar("Model")


class ModelKey(NamedTuple):
    """A model by its name; ``scope`` is the index that it is kept with, or empty."""

    name: str
    scope: str
    settings: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings) or "its own settings"


@dataclass(eq=False)
class ModelFamily(Generic[Model]):
    """The models of one kind; ``class_name`` is their class, ``sources`` were given by name.

    A model without settings of its own has ``defaults``.
    Each is made once, while the process opens what it serves. Afterwards the family is closed.
    """

    kind: Literal["re-ranker", "encoder", "reader", "sparse encoder"]
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
            for module in ("torch", "transformers"):
                if find_spec(module) is None and (self.kind != "encoder" or find_static(source) is None):
                    raise MissingExtra(module, "neural")
            self._models[key] = resolve_name(self.class_name)(source, **settings)
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
        chosen = ModelKey(name or "", scope, tuple(sorted(settings.items())))
        known = [key for key in self._models if name in (None, key.name) and key.scope in ("", scope)]
        known.sort(key=lambda key: not key.scope)  # that of the index before one of the same name
        if not known:
            raise NotServed.named(self.kind, name or "", self.names)
        for key in known:
            if not settings or key.settings == chosen.settings:
                return self._models[key]
        served = "; ".join(sorted(set(map(str, known))))
        raise Unprocessable(f"the {self.kind} {name} is served with {served}, not {chosen}")

    @property
    def names(self) -> list[str]:
        """The names of the models, each once."""
        return list(dict.fromkeys(key.name for key in self._models))

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())


class ServedModels:
    """Re-rankers, encoders and readers; loaded when they are first used.

    They are those that the settings name; pipelines add theirs until :meth:`close`. ``folders`` are those of
    models that pipelines name by their paths, by the names that replies show instead.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        computing = {
            name: value
            for name, value in (
                ("backend", settings.backend),
                ("precision", settings.precision),
                ("tokens", settings.batch_tokens),
            )
            if value is not None
        }
        self.rerankers: ModelFamily[Scorer] = ModelFamily(
            "re-ranker", "telerank.reranking.scorer:Scorer", settings.rerankers, computing
        )
        # the vectors that an encoder searches may name another precision
        self.encoders: ModelFamily[TorchEncoder | StaticEncoder] = ModelFamily(
            "encoder", "telerank.dense.encoder:open_encoder", settings.encoders, {"precision": "float32"}
        )
        self.readers: ModelFamily[SpanReader] = ModelFamily(
            "reader", "telerank.answers.scorer:SpanReader", settings.readers
        )
        self.sparse_encoders: ModelFamily[TermEncoder] = ModelFamily(
            "sparse encoder", "telerank.sparse.weights.encoder:TermEncoder", {}
        )
        self.families: tuple[ModelFamily[Any], ...] = (
            self.rerankers,
            self.encoders,
            self.readers,
            self.sparse_encoders,
        )
        self.folders: dict[str, str] = {}
        for family in self.families:
            for name in family.sources:
                family.open(name)

    def name_folder(self, folder: str) -> str:
        """The name that stands for a folder: its last part, with a number if another model has that name."""
        known = {**self.rerankers.sources, **self.encoders.sources, **self.readers.sources, **self.folders}
        last = Path(folder).resolve().name
        names = (f"{last}-{number}" if number > 1 else last for number in count(1))
        name = next(name for name in names if known.get(name, folder) == folder)
        self.folders[name] = folder
        return name

    def name_model(self, model: str) -> str:
        """The name that stands for a model: its own, unless it is a folder."""
        return self.name_folder(model) if "/" in model and Path(model).is_dir() else model

    def has_here(self, model: str) -> bool:
        """Whether a model is on this machine, and what computes it."""
        return find_spec("torch") is not None and is_here(model)

    def close(self) -> None:
        """From now on there are no other models."""
        for family in self.families:
            family.closed = True

    def warm(self) -> None:
        """Load each model, and let it compute once; raises ModelError if one cannot be loaded."""
        for scorer in self.rerankers:
            scorer.score([("a", "a")])
        for sparse in self.sparse_encoders:
            sparse.warm()
        for encoder in self.encoders:
            encoder.encode_queries(["a"])
        for reader in self.readers:
            reader.read([("a", "a")])
