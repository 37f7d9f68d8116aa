"""Systems of a recipe that order another's candidates anew: trained first, where none is given.

Under the collection's folder ``trained/`` has a folder for each training, named by the system, the seed and a
hash of what it depends on: what is there whole is not trained again, what was interrupted goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError, MissingExtra, ModelError
from telerank.recipes.made import Made, Unavailable, plain
from telerank.recipes.places import STARTS
from telerank.recipes.schema import Recipe, System
from telerank.trec import read_run, write_run
from telerank.types import Query, Ranking

if TYPE_CHECKING:
    from telerank.recipes.systems import Workshop
    from telerank.stage import Stage
    from telerank.training.reranker.config import RerankerTraining


def reranked(name: str, recipe: Recipe, shop: Workshop, made: Mapping[str, Made], runs: Path) -> Made:
    """The system of that name: a run for each seed; its stage, where its candidates have one.

    Raises
    ------
    Unavailable
        where the system that gives the candidates is not there.
    """
    system = recipe.systems[name]
    first = made.get(str(system.rerank))
    if first is None:
        raise Unavailable(f"it needs {system.rerank}")
    depth = system.depth or recipe.depth
    candidates = runs / f"{plain(str(system.rerank))}-{depth}.run.gz"
    write_run(candidates, _cut(first.run, shop.queries, depth))
    before = None if first.stage is None else first.stage % depth
    if system.reranker is not None:
        return _given(name, system, shop, before, candidates)
    from telerank.training.reranker.outcome import RUN

    seeds = system.seeds or recipe.seeds
    folders = [_trained(name, recipe, shop, candidates, seed) for seed in seeds]
    stage = None if before is None else _then(before, folders[0] / _MODEL, shop)
    found = [folder / RUN for folder in folders]
    start = _start(merged(recipe.training, system.train or {}), shop)
    how = _told(recipe, system, start, len(seeds))
    return Made(found[0], how, stage, tuple(found))


_MODEL = "model"


def training_of(name: str, recipe: Recipe, shop: Workshop, candidates: Path, seed: int) -> RerankerTraining:
    """The configuration of a system's training; the runs of systems that it names are made.

    Raises
    ------
    CollectionError
        where it is no configuration.
    """
    from pydantic import ValidationError

    from telerank.training.reranker.config import RerankerTraining

    record = merged(recipe.training, recipe.systems[name].train or {})
    record["model"] = {**record.get("model", {}), "start": _start(record, shop)}
    data = record.setdefault("data", {})
    data["collection"] = shop.place
    _with_run(data.get("negatives"), data.get("split", "train"), recipe, shop)
    if dev := record.get("dev"):
        _with_run(dev, dev.get("split", "dev"), recipe, shop)
    measures = getattr(recipe.analysis, "measures", None) or (getattr(recipe.analysis, "measure", "AP"),)
    record["test"] = {"split": shop.data.split, "run": str(candidates), "measures": list(measures)}
    record["test"]["listed"] = recipe.queries is not None
    record["test"]["store"] = bool(record["model"].get("frozen"))
    record["seed"] = seed
    try:
        return RerankerTraining.model_validate(record)
    except ValidationError as error:
        said = error.errors()[0]
        where = ".".join(str(one) for one in said["loc"]) or "settings"
        what = said["msg"].removeprefix("Value error, ")
        raise CollectionError(f"the recipe's training of {name}: {where}: {what}") from error


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with what ``over`` says, key by key at every depth; null takes a key away."""
    made = {key: merged(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in over.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = merged(made[key], value)
        else:
            made[key] = merged(value, {}) if isinstance(value, Mapping) else value
    return made


def _trained(name: str, recipe: Recipe, shop: Workshop, candidates: Path, seed: int) -> Path:
    from telerank.training.reranker.outcome import RUN
    from telerank.training.reranker.train import train_reranker

    config = training_of(name, recipe, shop, candidates, seed)
    folder = shop.folder / "trained" / f"{plain(name)}-{seed}-{_hash(config, shop)[:12]}"
    if not (folder / RUN).exists():
        train_reranker(config, folder, shared=shop.folder, resume=True, progress=shop.progress)
    return folder


_FILES = (
    ("data", "negatives", "run"),
    ("data", "triples", "file"),
    ("dev", "run"),
    ("test", "run"),
    ("loss", "teacher"),
)


def _hash(config: RerankerTraining, shop: Workshop) -> str:
    """Of all that a training depends on: settings, versions, and the content of files, wherever they lie."""
    from telerank.training.checkpoint import collect_versions

    record = config.model_dump(mode="json")
    record["data"]["collection"] = shop.content
    for *parts, name in _FILES:
        part: Any = record
        for one in parts:
            part = (part or {}).get(one)
        if part and part.get(name) and Path(part[name]).is_file():  # else the training will say so
            part[name] = _digest(Path(part[name]))
    record["model"]["start"] = _content(config.model.start)
    said = json.dumps([record, collect_versions()], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _content(place: str) -> str:
    """Of the files of a model, or of word vectors."""
    from telerank.models.loading import locate

    if Path(place).is_file():
        return _digest(Path(place))
    folder = Path(place) if Path(place).is_dir() else locate(place)
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return json.dumps([[str(file.relative_to(folder)), _digest(file)] for file in files])


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _with_run(part: Any, split: str, recipe: Recipe, shop: Workshop) -> None:
    """Put a run file where a system's name stands."""
    if isinstance(part, dict) and part.get("run") in recipe.systems:
        part["run"] = str(shop.split_run(recipe.systems[part["run"]], split, int(part.get("depth", 1000))))


def _given(name: str, system: System, shop: Workshop, before: Stage | None, candidates: Path) -> Made:
    from telerank.reranking.stage import CrossReranker

    stage = CrossReranker(str(system.reranker), shop.docs)
    path = candidates.with_name(f"{plain(name)}.run.gz")
    write_run(path, stage(_with_texts(read_run(candidates), shop.queries)))
    how = f"{system.rerank} re-ranked by {Path(str(system.reranker)).name}"
    return Made(path, how, None if before is None else before >> stage)


def _then(before: Stage, model: Path, shop: Workshop) -> Stage:
    from telerank.reranking.stage import CrossReranker

    return before >> CrossReranker(str(model), shop.docs)


def _start(record: Mapping[str, Any], shop: Workshop) -> str:
    """The first of the encoders or word vectors to start from that can be had here.

    Raises
    ------
    Unavailable
        where none can.
    """
    from telerank.models.loading import locate

    wanted = _wanted(record)
    for name in wanted:
        if (place := shop.own.starts.place(name)) is not None:
            return str(place)
    for name in wanted:
        try:
            locate(name)
        except (ModelError, MissingExtra):
            continue
        return name
    option, variable = STARTS
    how = f"{option} {wanted[0]}=FOLDER, or a folder of them in {variable}"
    raise Unavailable(f"nothing to start from is here: {' or '.join(wanted)}; give {how}")


def _wanted(record: Mapping[str, Any]) -> list[str]:
    from telerank.models.rerankers.registry import find_kind

    model = record.get("model", {})
    usual = find_kind(model.get("kind", "monobert")).training.get("model", {}).get("start", "minilm")
    named = model.get("start", usual)
    return [named] if isinstance(named, str) else list(named)


def _told(recipe: Recipe, system: System, start: str, seeds: int) -> str:
    record = merged(recipe.training, system.train or {})
    model, first = record.get("model", {}), _wanted(record)[0]
    lacking = "" if Path(start).name == first else f" ({first} is not here)"
    frozen = ", frozen" if model.get("frozen") else ""
    times = "one seed" if seeds == 1 else f"{seeds} seeds"
    return f"{model.get('kind', 'monobert')} from {Path(start).name}{lacking}{frozen}, trained with {times}"


def _cut(run: Path, queries: Iterable[Query], depth: int) -> Iterator[Ranking]:
    return (ranking.cut(depth) for ranking in _with_texts(read_run(run), queries))


def _with_texts(rankings: Iterable[Ranking], queries: Iterable[Query]) -> Iterator[Ranking]:
    """Those of the queries, with their texts, which run files lack."""
    asked = {query.qid: query for query in queries}
    for one in rankings:
        if one.query.qid in asked:
            yield Ranking.presorted(asked[one.query.qid], one.docnos, one.scores)
