"""Training encoders, re-rankers, readers and masked language models on collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from telerank.computing import Count
from telerank.corpus.formats import open_collection
from telerank.parameters import FieldsOf
from telerank.show.progress import show_progress
from telerank.training import launched
from telerank.training.trained import TrainedModels
from telerank.types import Progress, ProgressSetting, silent

if TYPE_CHECKING:
    from telerank.models.packing import PackedModel
    from telerank.models.trimming import TrimmedModel
    from telerank.training.bi_encoder.fine_tune import FineTuned
    from telerank.training.log import Report as LogReport
    from telerank.training.reranker.config import MadeSet

is_first_process = launched.is_first


def train(
    kind: Literal[
        "bi-encoder", "splade", "late-interaction", "reranker", "reader", "mlm", "term-weights", "expander"
    ],
    config: str | Path | Mapping[str, Any],
    output: str | Path = "trained",
    *,
    resume: bool = False,
    seeds: Sequence[int] = (),
    sizes: Sequence[int] = (),
    report: LogReport | None = None,
    progress: ProgressSetting = None,
) -> TrainedModels:
    """Train an encoder, a re-ranker, a reader or a model of language as settings say.

    Encoders are ``bi-encoder``, ``splade``, ``late-interaction`` and ``term-weights``; ``mlm`` is a masked
    language model, ``expander`` a model that writes queries of documents.

    ``config`` is a YAML file, a packaged one by name, or a mapping.

    ``output`` is the folder for the model, its checkpoints and its log. With ``resume`` an interrupted
    training continues from its last checkpoint. A re-ranker is trained with each of ``seeds`` and on each of
    ``sizes`` numbers of pairs, if they are given. ``report`` is called with the records of the log.

    >>> tr.train("reranker", {"data": {"collection": "scifact", "negatives": {"random": True}}}).model

    Raises
    ------
    FormatError
        If the settings have an unknown key or an invalid value.
    ModelError
        If there is another training in the output, or the loss becomes infinite.
    CollectionError
        If there are no such settings, or the collection lacks what they name.
    MissingExtra
        If torch or transformers is not installed.
    """
    from telerank.experiments.packaged import find_training
    from telerank.training.kinds import find_training_kind
    from telerank.training.log import silent_report

    training = find_training_kind(kind)
    changes = {name: tuple(values) for name, values in (("seeds", seeds), ("sizes", sizes)) if values}
    settings = training.read(find_training(config) if isinstance(config, str | Path) else config, changes)
    options = {"resume": resume, "report": report or silent_report}
    kept = f"the checkpoints are kept in {output}: the same call with resume=True goes on after the last one"
    with show_progress(progress, kept=kept) as shown:
        settings = _with_made_set(settings, Path(output), shown)
        return training.train_all(settings, output, **options, progress=shown)


def _with_made_set(settings: Any, output: Path, progress: Progress) -> Any:
    """The settings of a training, whose collection is made now if they say of what."""
    recipe = getattr(settings.data, "made_of", None)
    if recipe is None:
        return settings
    from telerank.training.parallel import join_processes
    from telerank.training.task import choose_device

    folder = output / "ranking-set"
    with join_processes(choose_device(settings.device)) as processes:
        processes.first(lambda: make_set(recipe, folder, progress))
    data = settings.data.model_copy(update={"collection": str(folder), "made_of": None})
    return settings.model_copy(update={"data": data})


def make_set(settings: MadeSet, folder: Path, progress: Progress = silent) -> None:
    """Make the ranking set of a training, unless the folder holds it.

    Raises
    ------
    CollectionError
        If one of the sets is not here, or the folder holds something else.
    """
    from telerank.corpus.derived import ranking_set
    from telerank.verbs.data import first_stage_over

    recipe = ranking_set.RankingSetSettings(
        "bm25",
        settings.depth,
        settings.split_by,
        settings.seed,
        f"{settings.model} over {settings.analyzer}",
        settings.titles,
    )
    if ranking_set.is_made_by(folder, recipe):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    opened = [open_collection(name) for name in settings.sets]
    first_stage = first_stage_over(settings.model, settings.analyzer, progress)
    made_set = ranking_set.make_ranking_set(opened, recipe, first_stage=first_stage, progress=progress)
    ranking_set.write_ranking_set(folder, made_set, overwrite=True)


def pack(
    model: str | Path,
    output: str | Path,
    *,
    encoder: str = "e5-small",
    licence: str = "",
    overwrite: bool = False,
) -> PackedModel:
    """Write what a reader or a re-ranker has learned as a compact model: four bits for each weight.

    ``model`` is the folder of a training, or its ``model``. The training must have started from ``encoder``,
    which a package holds, and left its word embeddings as they are. The folder ``output`` opens wherever a
    model is named; it needs the same release of the encoder's package. ``licence`` is that of the weights.

    >>> pack("reader", "reader-fr-en", licence="CC-BY-SA-4.0")

    Raises
    ------
    ModelError
        If there is no such model or encoder, the model's word embeddings or tokenizer are not the encoder's,
        or there is a model in ``output``.
    MissingExtra
        If torch, transformers or the package of the encoder is not installed.
    """
    from telerank.models.packing import pack_model

    return pack_model(Path(model), Path(output), encoder, licence=licence, overwrite=overwrite)


def lengthen(
    model: str | Path,
    output: str | Path,
    *,
    max_length: int = 4096,
    window: int = 512,
    overwrite: bool = False,
) -> Path:
    """Make a Longformer of an encoder or a re-ranker of BERT's shape, and return its folder.

    Each token sees ``window`` others, half of them on each side; the first token sees all. Positions are
    repeated up to ``max_length``, and outputs on texts of half a window are those of the original; for longer
    ones the model has to be trained, as any other: it starts `train reranker`, also with `kind: qds`. Of a
    bi-encoder the encoder alone is kept.

    >>> lengthen("minilm", "minilm-long", max_length=2048, window=256)

    Raises
    ------
    ModelError
        If there is no such model, it is of another shape than BERT, RoBERTa, CamemBERT and XLM-RoBERTa, a
        reader or a parade, the window is odd, or the output is not empty.
    MissingExtra
        If torch or transformers is not installed.
    """
    from telerank.models.long.longformer import lengthen_model

    return lengthen_model(model, output, max_length=max_length, window=window, overwrite=overwrite)


def trim(
    model: str,
    output: str | Path,
    collection: str | Path,
    *,
    pieces: Count | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = None,
) -> TrimmedModel:
    """Leave out the pieces of an encoder that the texts of a collection do not have.

    ``e5-small`` has 250,037 pieces of a hundred languages, four fifths of its weights; a collection has some
    ten thousand. Texts of the collection keep their tokens and vectors, in a smaller model: a head for masks
    (`train mlm`, `train splade`) is as much smaller, too. Other texts are written with shorter pieces where
    theirs are left out. ``pieces`` keeps the most frequent ones alone, and what words are written with else.

    >>> trim("e5-small", "e5-french", "piaf").kept

    Raises
    ------
    CollectionError
        If there is no such collection.
    ModelError
        If there is no such encoder, its tokenizer has merges (BPE), or the output is not empty.
    MissingExtra
        If torch or transformers is not installed.
    """
    from telerank.models.trimming import trim_model

    source = open_collection(str(collection))
    queries = {query for split in source.queries for query in source.split_queries(split)}
    with show_progress(progress, source.size) as shown:
        docs = source.read_docs("counting pieces", shown, 1000)
        texts = chain((doc.full_text for doc in docs), sorted(query.text for query in queries))
        return trim_model(model, Path(output), texts, pieces=pieces, overwrite=overwrite)


def fine_tune(
    collection: str | Path,
    start: str = "e5-small",
    output: str | Path = "fine-tuned",
    *,
    resume: bool = False,
    report: LogReport | None = None,
    progress: ProgressSetting = None,
    **settings: Annotated[Any, FieldsOf("telerank.training.bi_encoder.config:FineTuning")],
) -> FineTuned:
    """Make an encoder better on a collection with judged queries; it is kept as it is if nothing is better.

    ``start`` is an encoder of texts: `minilm`, `e5-small`, a folder, or a name on the hub. It keeps its
    pooling, similarity, prompts and lengths, and learns by a softmax over the documents of a batch, with
    negatives that it finds itself. Dev queries, which are not learned from, decide when to stop. The model is
    ``output/model``; ``output/config.yaml`` has all settings, for `tr.train("bi-encoder", …)` to change.

    >>> tr.fine_tune("insuranceqa-v2", "minilm", "minilm-insurance", epochs=0.5).model

    Raises
    ------
    CollectionError
        If the collection has no split to learn from, or too few judged queries.
    ModelError
        If there is no such encoder, or another training in the output.
    MissingExtra
        If torch or transformers is not installed.
    """
    from telerank.training.bi_encoder.config import BiEncoderTraining, FineTuning
    from telerank.training.bi_encoder.fine_tune import NEGATIVES, plan_fine_tuning, prepare, read_fine_tuned
    from telerank.training.bi_encoder.train import train_bi_encoder
    from telerank.training.checkpoint import check_output
    from telerank.training.log import silent_report
    from telerank.training.settings import read_settings, validate_settings
    from telerank.training.trained import CONFIG

    folder = Path(output)
    kept = f"the checkpoints are kept in {output}: the same call with resume=True goes on after the last one"
    with show_progress(progress, kept=kept) as shown:
        if resume and (folder / CONFIG).exists():
            config = read_settings(folder / CONFIG, BiEncoderTraining)
        else:
            options = validate_settings(settings, FineTuning, settings)
            config = plan_fine_tuning(str(collection), start, folder, options)
            check_output(config, folder, resume=False)
            folder.mkdir(parents=True, exist_ok=True)
            config = prepare(config, folder / NEGATIVES, shown)
        train_bi_encoder(config, folder, resume=resume, report=report or silent_report, progress=shown)
    return read_fine_tuned(folder)
