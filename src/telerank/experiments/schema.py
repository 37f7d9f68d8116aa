"""The YAML file of an experiment; an unknown key is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from telerank.errors import CollectionError, ExpressionError, FormatError, known_names
from telerank.experiments.analysis import AnalysisSettings, Published, select_published
from telerank.expressions import Call, Expression, Operation, Word, parse_expression, walk, wrong
from telerank.pipelines.functions import FUNCTIONS
from telerank.records import Section, describe_error
from telerank.sparse.similarities.families import is_similarity
from telerank.training.kinds import KINDS
from telerank.yaml_files import read_yaml

# The keys of the overlay, and of the file beside it that this one is merged over.
SMALL, BASE = "small", "base"
# The functions of pipelines that exist in experiments only: see :mod:`telerank.experiments.functions`.
EXPERIMENT_FUNCTIONS = ("judged", "relevant", "given", "weighed", "expanded", "best", "tuned")
# functions whose first argument is a model
OF_MODELS = ("dense", "impact", "maxsim", "rerank", "weighed", "expanded")
_OF_NAMES = (*OF_MODELS, "run", "pool", "given", "best")  # functions whose arguments are no stages


class DataSpec(Section):
    """A collection that an experiment can run on.

    Attributes
    ----------
    about
        What it is and, if it is not the paper's, what its figures mean.
    split
        The split whose queries measure; None: the only one.
    paper
        Whether the paper's figures are of this data.
    fields
        Fields that are indexed by themselves, too: `[title, text]`, for systems such as `bm25f` and
        `bm25(field=title)`.
    passages
        Documents are cut into passages of so many words, half of which the next one repeats; a
        judged document counts once, at its best passage.
    filter
        Only documents that pass this filter of their columns are there for the systems.
    submission
        A split without judgments: each system's run over it is written in MS MARCO's submission
        format.
    made_of
        Collections that this one is made of, if it is not there itself.
    made_as
        What is made of them: a ranking set, long documents of articles, documents with late
        relevance, or a question-answering set with the splits `train`, `dev` and `test` of whole
        articles.
    recipe
        Settings of what is made (`ArticleSettings`, `FarSettings`, `RankingSetSettings`,
        `ArticleParts`).
    pool
        Folds of one collection have the same; an experiment runs on all of them, and pools their
        values.
    bundled
        Whether it is installed with telerank (PIAF), or made of that, if it has a `recipe`.
    differs
        What differs in the experiment on this data, merged over it; see :meth:`Experiment.on`.
    """

    about: str = ""
    split: str | None = None
    analyzer: str = "english"
    fields: tuple[str, ...] = ()
    passages: int | None = Field(None, ge=1)
    filter: str | None = None
    paper: bool = False
    submission: str | None = None
    made_of: tuple[str, ...] = ()
    made_as: Literal["ranking-set", "articles", "far-relevant", "article-parts"] = "ranking-set"
    recipe: dict[str, Any] = Field(default_factory=dict)
    pool: str | None = None
    bundled: bool = False
    differs: dict[str, Any] = Field(default_factory=dict)


def _check_kind(name: str) -> str:
    if name not in KINDS:
        raise ValueError(f"no kind of training is called {name!r}; {known_names(KINDS, name)}")
    return name


class TrainedModel(Section):
    """A model that the experiment trains; ``settings`` is what ``telerank train`` takes.

    A ``run`` in the settings is the text of a pipeline over the systems.

    Attributes
    ----------
    seeds
        Seeds of the trainings, instead of the experiment's.
    """

    train: Annotated[str, AfterValidator(_check_kind)]
    seeds: tuple[int, ...] | None = Field(None, min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _collect_settings(cls, record: Any) -> Any:
        if not isinstance(record, Mapping) or "settings" in record:
            return record
        own = {key: value for key, value in record.items() if key in ("train", "seeds")}
        return {**own, "settings": {key: value for key, value in record.items() if key not in own}}

    def record(self) -> dict[str, Any]:
        """The content of a file that reads back as this model."""
        seeds = {} if self.seeds is None else {"seeds": list(self.seeds)}
        return {"train": self.train, **seeds, **self.settings}


class GivenModel(Section):
    """A model that is there: names, folders or hub names; the first that is available is used."""

    names: Annotated[tuple[str, ...], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _accept_names(cls, record: Any) -> Any:
        if isinstance(record, str):
            return {"names": (record,)}
        return {"names": tuple(record)} if isinstance(record, list) else record

    def record(self) -> str | list[str]:
        """The content of a file that reads back as this model."""
        return self.names[0] if len(self.names) == 1 else list(self.names)


class Experiment(Section):
    """Data, models, systems as pipelines over them, analyses, and the values that a paper prints.

    Attributes
    ----------
    data
        By name; those of the paper that are here are used, or else the first that is here.
    sets
        Collections that models learn from (`data.collection` of a training) and that are not
        measured.
    models
        For ``rerank(NAME)`` and ``dense(NAME)``, and readers of the analyses of answers.
    training
        Settings that all trained re-rankers share; a ``run`` in them is a pipeline over the
        systems.
    seeds
        Each model is trained with each; tables have the mean and the standard deviation.
    systems
        Pipelines by name; words are systems above, and functions.
    queries
        Number of judged queries that measure, drawn by ``seed``; None: all.
    dev
        Number of judged queries that choose settings, and do not measure.
    depth
        Documents of a ranking that are kept and measured.
    minutes
        How long it takes on two cores when nothing is kept, by processor time: on all of its data, or
        by the name of a data set; None: not measured.
    published
        By data set: ``published[data][system][column]``.
    """

    title: str
    source: str = ""
    about: str = ""
    data: dict[str, DataSpec] = Field(min_length=1)
    sets: dict[str, DataSpec] = Field(default_factory=dict)
    models: dict[str, TrainedModel | GivenModel] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    systems: dict[str, str] = Field(default_factory=dict)
    queries: int | None = Field(None, ge=1)
    dev: int | None = Field(None, ge=2)
    depth: int = Field(1000, ge=1)
    seed: int = 0
    minutes: Annotated[float, Field(gt=0)] | dict[str, Annotated[float, Field(gt=0)]] | None = None
    analyses: tuple[AnalysisSettings, ...] = Field(min_length=1)
    published: dict[str, Published] = Field(default_factory=dict)

    @property
    def trained(self) -> dict[str, TrainedModel]:
        """The models that it trains."""
        return {name: model for name, model in self.models.items() if isinstance(model, TrainedModel)}

    @property
    def expected_time(self) -> str:
        """How long it takes, in a few words; empty if that was not measured."""
        if self.minutes is None:
            return ""
        kept = "; trainings, vectors and indexes that are kept are not made again" if self.models else ""
        parts = self.minutes if isinstance(self.minutes, Mapping) else {"": self.minutes}
        times = [
            (f"about {minutes:,.0f} minutes" if minutes > 1 else "at most a minute")
            + f" for {name}" * bool(name)
            for name, minutes in parts.items()
        ]
        return f"{', '.join(times)} on two cores{kept}"

    def with_seeds(self, seeds: tuple[int, ...]) -> Self:
        """The same experiment with these seeds for every training."""
        trained = {name: model.model_copy(update={"seeds": None}) for name, model in self.trained.items()}
        return self.model_copy(update={"models": {**self.models, **trained}, "seeds": seeds})

    def with_precision(self, precision: str) -> Self:
        """The same experiment with this precision of the matrix products of every training."""
        trained = {
            name: model.model_copy(update={"settings": {**model.settings, "precision": precision}})
            for name, model in self.trained.items()
        }
        return self.model_copy(update={"models": {**self.models, **trained}})

    def require_data(self, *names: str) -> None:
        """Raise CollectionError if a name is none of the data's."""
        for name in names:
            if name not in self.data:
                raise CollectionError(f"the experiment has no data {name!r}; it has: {', '.join(self.data)}")

    def expand(self, *names: str) -> list[str]:
        """The data of these names, or of pools that are called so, each once.

        Raises CollectionError if a name is neither.
        """
        pools = {spec.pool for spec in self.data.values()}
        self.require_data(*(name for name in names if name not in pools))
        parts = (
            [data for data, spec in self.data.items() if spec.pool == name]
            if name in pools and name not in self.data
            else [name]
            for name in names
        )
        return list(dict.fromkeys(chain.from_iterable(parts)))

    def on(self, name: str) -> Self:
        """The experiment on one of its data alone, under what the data says that differs.

        Raises
        ------
        CollectionError
            If it has no such data.
        """
        self.require_data(name)
        data = self.data[name]
        record = {**self.record(), "data": {name: data.model_dump(mode="json", exclude={"differs"})}}
        if self.published:
            record["published"] = {name: select_published(self.published, name)}
        return type(self).model_validate(merge(record, data.differs))

    def learn_from(self, name: str) -> Self:
        """The experiment on one of the sets that models learn from. Raises CollectionError without it."""
        if name not in self.sets:
            known = ", ".join(self.sets) or "none"
            raise CollectionError(f"a training names the collection {name!r}; the experiment's sets: {known}")
        return self.model_copy(update={"data": {name: self.sets[name]}, "queries": None, "dev": None})

    def record(self) -> dict[str, Any]:
        """The content of a file that reads back as this experiment."""
        record = self.model_dump(mode="json", exclude_defaults=True)
        record["models"] = {name: model.record() for name, model in self.models.items()}
        return {key: value for key, value in record.items() if value not in ({}, None)}

    def yaml(self) -> str:
        """The file that reads back as this experiment."""
        return yaml.safe_dump(self.record(), sort_keys=False, allow_unicode=True, width=110)

    def _check_systems(self) -> None:
        """Raise ValueError if a system cannot be parsed, or is not made of those above it alone."""
        below = list(self.systems)
        for name, text in self.systems.items():
            try:
                tree, known = parse_expression(text), (*FUNCTIONS, *EXPERIMENT_FUNCTIONS)
                for call in walk(tree):
                    if isinstance(call, Call) and call.name not in known and not is_similarity(call.name):
                        unknown = f"unknown function {call.name!r}; {known_names(known, call.name)}"
                        raise wrong(text, call.at, unknown)
                words = system_words(tree)
            except ExpressionError as error:
                raise ValueError(f"system {name!r}: {error}") from error
            for word in below:  # a function of the same name is meant, if there is one
                if word in words and word not in FUNCTIONS and not is_similarity(word):
                    which = "itself" if word == name else f"{word!r}, which is defined below it"
                    raise ValueError(f"system {name!r} names {which}: a system is made of those above")
            below.remove(name)

    def _check_starts(self) -> None:
        """Raise ValueError if a model starts from one that is not trained before it."""
        above: list[str] = []
        for name, model in self.trained.items():
            settings = merge(self.training if model.train == "reranker" else {}, model.settings)
            start = (settings.get("model") or {}).get("start") or []
            for other in [start] if isinstance(start, str) else start:
                if other in self.trained and (other not in above or not isinstance(start, str)):
                    which = "one of several" if other in above else "no model above it"
                    raise ValueError(f"the model {name!r} starts from {other!r}, which is {which}")
            above.append(name)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        self._check_systems()
        self._check_starts()
        for analysis in self.analyses:
            for name in analysis.system_names:
                if name not in self.systems:
                    raise ValueError(f"an analysis ({analysis.kind}) names {name!r}, which is no system")
        for data in self.published:
            if data not in self.data:
                raise ValueError(f"published values of {data!r}, which is none of the data")
        for name, spec in self.data.items():
            try:
                _ = self.on(name) if spec.differs else None
            except ValidationError as error:
                raise ValueError(f"data {name!r}: differs: {describe_error(error)}") from error
        return self


def system_words(tree: Expression) -> set[str]:
    """The words of a pipeline that stand for stages."""
    match tree:
        case Word():
            return {tree.text}
        case Operation():
            return system_words(tree.left) | system_words(tree.right)
        case Call() if tree.name in _OF_NAMES:
            return set()
    return set().union(*(system_words(value) for key, value in tree.arguments if not key))


class RerankerUse(NamedTuple):
    """What ``candidates >> rerank(model)`` is made of."""

    candidates: Expression
    model: str


def model_words(tree: Expression, *functions: str) -> set[str]:
    """The words that stand for models of these functions; by default of all."""
    names = functions or OF_MODELS
    calls = (node for node in walk(tree) if isinstance(node, Call) and node.name in names)
    values = (value for call in calls for key, value in call.arguments if key in ("", "model"))
    return {value.text for value in values if isinstance(value, Word)}


def reranker_use(tree: Expression) -> RerankerUse | None:
    """The candidates and the model of ``candidates >> rerank(model)``; None if the pipeline is another."""
    if not isinstance(tree, Operation) or tree.operator != ">>":
        return None
    last = tree.right
    if isinstance(last, Operation) and last.operator == "%":
        last = last.left
    if not isinstance(last, Call) or last.name != "rerank" or len(last.arguments) != 1:
        return None
    model = last.arguments[0][1]
    return RerankerUse(tree.left, model.text) if isinstance(model, Word) else None


def read_experiment(path: str | Path, *, small: bool = False) -> Experiment:
    """The experiment in a YAML file: its body or, with ``small``, the body under the overlay.

    Raises FormatError if the file is not an experiment, or has no overlay although ``small`` is set.
    """
    layers = _read_layers(path)
    overlays = [overlay for _, overlay in layers if overlay is not None]
    if small and not overlays:
        raise FormatError(path, None, f"a section {SMALL}, what differs in the small copy")
    record, *rest = (body for body, _ in layers)
    for layer in (*rest, *(overlays if small else ())):
        record = merge(record, layer)
    try:
        return Experiment.model_validate(record)
    except ValidationError as error:
        raise FormatError(path, None, f"an experiment: {describe_error(error)}") from error


def has_small(path: str | Path) -> bool:
    """Whether the file has an overlay for a small copy."""
    return any(overlay is not None for _, overlay in _read_layers(path))


def _read_layers(
    path: str | Path, based: Sequence[Path] = ()
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The bodies and overlays of the file's base and of the file itself, to be merged in order.

    ``based`` are the files that this one is the base of, the nearest last.
    """
    files = [*based, Path(path)]
    if any(files[-1].samefile(file) for file in based):
        chain = " → ".join(map(str, files))
        raise FormatError(path, None, f"a file that is not based on itself ({BASE}: {chain})")
    record = _with_text_keys(read_yaml(path))
    if not isinstance(record, dict):
        raise FormatError(path, None, "a mapping with title, data, systems and analyses", repr(record))
    overlay, base = record.pop(SMALL, None), record.pop(BASE, None)
    if overlay is not None and not isinstance(overlay, dict):
        raise FormatError(path, None, f"a mapping in the section {SMALL}", repr(overlay))
    if base is None:
        return [(record, overlay)]
    below = Path(path).parent / str(base)
    if not below.is_file():
        raise FormatError(path, None, f"a file beside it as {BASE}", str(base))
    return [*_read_layers(below, files), (record, overlay)]


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` changed by ``over``, key by key: lists and values replace, None removes a key."""
    merged = {key: merge(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            under = merged.get(key)  # if there is none, what the value removes is removed later
            merged[key] = merge(under, value) if isinstance(under, Mapping) else deepcopy(value)
        else:
            merged[key] = value
    return merged


def _with_text_keys(value: Any) -> Any:
    """Keys of mappings may be written as numbers (depths)."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(inner) for inner in value]
    return value
