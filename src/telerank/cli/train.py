"""``telerank train``: train models on a collection, and pack them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from telerank.cli import console
from telerank.cli.commands import derive, group
from telerank.cli.console import write_tables
from telerank.cli.options import parse_numbers
from telerank.computing import Count
from telerank.parameters import FieldsOf, Flags, Help

if TYPE_CHECKING:
    from telerank.training.log import Record, Report

_INTERVAL = 5.0  # seconds between two lines of losses

_Output = Annotated[str, Flags("-o"), Help("The folder for the model, its checkpoints and its log.")]
_Resume = Annotated[bool, Help("Continue from the last checkpoint, if there is any.")]


@derive
def bi_encoder(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name, as `repbert/insuranceqa`. Required: "
            "`data: {collection: …}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Train an encoder of queries and documents; the defaults are those of RepBERT.

    Example: `telerank train bi-encoder repbert.yaml --output trained --resume`
    """
    _train("bi-encoder", config, output, resume=resume)


@derive
def splade(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name (`splade/insuranceqa-tiny`). Required: "
            "`data: {collection: …}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Train a SPLADE model: it gives each text weights of pieces of its vocabulary.

    With dev queries, the mean numbers of terms of queries and documents are printed, too. The model weighs
    the terms of an index: `telerank index COLLECTION idx --weights-model OUTPUT/model`.

    Example: `telerank train splade splade.yaml --output splade`
    """
    _train("splade", config, output, resume=resume)


@derive
def late_interaction(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name (`late-interaction/msmarco`). Required: "
            "`data: {collection: …}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Train a late-interaction model (ColBERT): it gives each token of a text a vector.

    The model re-ranks: `telerank encode idx --model OUTPUT/model`, then `bm25 >> maxsim(OUTPUT/model)`.

    Example: `telerank train late-interaction colbert.yaml --output colbert`
    """
    _train("late-interaction", config, output, resume=resume)


@derive
def reranker(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name (`piaf/grid`). Required: "
            "`data: {collection: …}` with `negatives` or `triples`; "
            "for a model over word vectors also `model: {start: …}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: Annotated[bool, Help("Continue from the last checkpoint; finished trainings are kept.")] = False,
    seeds: Annotated[
        str | None,
        Help("Train with each of these seeds, e.g. `0,1,2`; print mean and spread of the test."),
    ] = None,
    sizes: Annotated[
        str | None,
        Help("Train on each of these numbers of pairs, e.g. `1000,10000`; show a table and a plot."),
    ] = None,
    as_json: Annotated[bool, Flags("--json"), Help("Print the results of the test as JSON.")] = False,
) -> None:
    """Train a re-ranker: monoBERT, BERT-DMN, a frozen or fine-tuned ranker, or a model over word vectors.

    If the settings have a section `test`, it measures the model beside the first stage and prints a table.
    With `folds`, a `grid` of settings, or several seeds or sizes, each training has its own folder below the
    output.

    Example: `telerank train reranker monobert.yaml --output monobert`

    Example: `telerank train reranker monobert.yaml --output seeds --seeds 0,1`
    """
    numbers = {
        "seeds": parse_numbers("--seeds", seeds, least=0),
        "sizes": parse_numbers("--sizes", sizes, least=1),
    }
    _train("reranker", config, output, resume=resume, as_json=as_json, **numbers)


@derive
def reader(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name (`piaf/answers`). Required: "
            "`data: {sets: [{collection: …}]}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Train a reader, which marks the answer to a question in a text, on SQuAD-style sets.

    Answers that do not occur in their text are left out, counted, and named. With dev questions the threshold
    of no answer and the temperature of confidences are fitted on them.

    Example: `telerank train reader reader.yaml --output reader`
    """
    _train("reader", config, output, resume=resume)


@derive
def mlm(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name (`piaf/mlm-sheets`). Required: "
            "`data: {sets: [{collection: …}]}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Let an encoder go on learning its language from texts alone: to name pieces behind masks.

    Other trainings start from the model. With `dev` documents a table shows their perplexity by update.

    Example: `telerank train mlm mlm.yaml --output mlm`
    """
    _train("mlm", config, output, resume=resume)


@derive
def expander(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help(
            "A YAML file of settings, or a packaged one by name (`doc2query/insuranceqa-tiny`). Required: "
            "`data: {collection: …}`."
        ),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Train a model to write the queries of documents (doc2query), for the command `expand`.

    It learns from the pairs of a query and a relevant document. It starts from a model that writes texts (T5,
    BART), or from an encoder. With `dev` queries a table shows their perplexity by update.

    Example: `telerank train expander expander.yaml --output expander`
    """
    _train("expander", config, output, resume=resume)


@derive
def term_weights(
    config: Annotated[
        str,
        Flags("CONFIG"),
        Help("A YAML file of settings. Required: `data: {collection: …}`."),
    ],
    *,
    output: _Output = "trained",
    resume: _Resume = False,
) -> None:
    """Train a model that weighs the terms of documents by their context: DeepCT, uniCOIL, DeepImpact.

    The option `--weights-model` of an index then stores the weights, which `impact` and
    `bm25(over=weights)` search.

    Example: `telerank train term-weights deepct.yaml --output deepct`
    """
    _train("term-weights", config, output, resume=resume)


@derive
def pack(
    model: Annotated[str, Flags("MODEL"), Help("The folder of a training, or its `model`.")],
    output: Annotated[str, Flags("OUT"), Help("The folder to write.")],
    *,
    encoder: Annotated[str, Help("What the training started from: `e5-small` or `minilm`.")] = "e5-small",
    licence: Annotated[str, Help("The licence of the weights, which is kept with them.")] = "",
    overwrite: Annotated[bool, Help("Replace a model in OUT; other files there stay.")] = False,
) -> None:
    """Write what a reader or a re-ranker has learned as a compact model: four bits for each weight.

    The training must have left word embeddings as they are (`model: {frozen_embeddings: true}`). The folder
    opens wherever a model is named, if the same release of the encoder's package is installed.

    Example: `telerank train pack reader reader-fr-en --licence CC-BY-SA-4.0`
    """
    from telerank.verbs.train import pack as pack_model

    packed = pack_model(model, output, encoder=encoder, licence=licence, overwrite=overwrite)
    size = f"{packed.bytes / 1e6:.1f} MB"
    error = f"{packed.error:.2%} of the squares of what was learned is lost"
    console.err().print(f"wrote {packed.folder}: {size}; {error}", soft_wrap=True)


@derive
def lengthen(
    model: Annotated[str, Flags("MODEL"), Help("An encoder or a re-ranker: its name or folder.")],
    output: Annotated[str, Flags("OUT"), Help("The folder to write.")],
    *,
    max_length: Annotated[int, Help("Tokens that it is to read.")] = 4096,
    window: Annotated[int, Help("Tokens that each token sees, half of them on each side; even.")] = 512,
    overwrite: Annotated[bool, Help("Replace what is in OUT.")] = False,
) -> None:
    """Make a Longformer of an encoder or a re-ranker of BERT's shape, to train it on long texts.

    Positions are repeated, and what reads the whole text begins as a copy: on texts of half a window the
    model computes what it did before.

    Example: `telerank train lengthen minilm minilm-long --max-length 2048 --window 256`
    """
    from telerank.verbs.train import lengthen as lengthen_model

    folder = lengthen_model(model, output, max_length=max_length, window=window, overwrite=overwrite)
    console.err().print(f"wrote {folder}", soft_wrap=True)


@derive
def trim(
    model: Annotated[str, Flags("MODEL"), Help("An encoder: its name or folder.")],
    output: Annotated[str, Flags("OUT"), Help("The folder to write.")],
    collection: Annotated[
        str, Flags("COLLECTION"), Help("The collection whose texts say which pieces are kept.")
    ],
    *,
    pieces: Annotated[
        Count | None, Help("Keep the most frequent pieces alone. Default: all that occur.")
    ] = None,
    overwrite: Annotated[bool, Help("Replace what is in OUT.")] = False,
) -> None:
    """Leave out the pieces of an encoder that the texts of a collection do not have.

    Texts of the collection keep their vectors, in a smaller model: of `e5-small`, whose pieces are those of a
    hundred languages, four fifths of the weights are pieces.

    Example: `telerank train trim e5-small e5-french xquad-en`
    """
    from telerank.verbs.train import trim as trim_model

    console.err().print(str(trim_model(model, output, collection, pieces=pieces, overwrite=overwrite)))


@derive
def fine_tune(
    collection: Annotated[str, Flags("COLLECTION"), Help("A collection with judged queries.")],
    *,
    start: Annotated[
        str, Help("The encoder to begin with: `minilm`, `e5-small`, a folder, or a name on the hub.")
    ] = "e5-small",
    output: _Output = "fine-tuned",
    resume: _Resume = False,
    as_json: Annotated[bool, Flags("--json"), Help("Print the dev measures as JSON.")] = False,
    **settings: Annotated[Any, FieldsOf("telerank.training.bi_encoder.config:FineTuning")],
) -> None:
    """Make an encoder better on your own queries, and keep it as it is if nothing is better.

    It keeps its pooling, similarity and prompts, finds negatives for each query itself, and stops by dev
    queries, which it does not learn from.

    Example: `telerank train fine-tune xquad-en --start minilm --output minilm-xquad`
    """
    import telerank as tr

    tuned = tr.fine_tune(collection, start, output, resume=resume, report=_report_losses(), **settings)
    for remark in tuned.remarks:
        console.say(remark)
    if as_json:
        print(tuned.render("json"))
    else:
        write_tables(tuned.tables(), "-", None, tuned.title)


def _train(
    kind: Literal[
        "bi-encoder", "splade", "late-interaction", "reranker", "reader", "mlm", "term-weights", "expander"
    ],
    config: str,
    output: str,
    *,
    resume: bool,
    as_json: bool = False,
    **numbers: Any,
) -> None:
    """Train, and print once what was trained, also if several processes have trained it."""
    import telerank as tr
    from telerank.verbs.train import is_first_process

    trained = tr.train(kind, config, output, resume=resume, report=_report_losses(), **numbers)
    if not is_first_process():
        return
    for remark in trained.remarks:
        console.say(remark)
    if not trained.tables():
        console.err().print(f"trained {trained.model}", soft_wrap=True)
    elif as_json:
        print(json.dumps(trained.record(), indent=2))
    else:
        write_tables(trained.tables(), "-", None, trained.title)


def _report_losses() -> Report:
    """Print a record of the log on standard error every few seconds, and each with dev values."""
    last = 0.0

    def show(record: Record) -> None:
        nonlocal last
        now = time.monotonic()
        if not record.is_of_dev and now - last < _INTERVAL:
            return
        last = now
        dev = "" if record.dev is None else f", dev {record.dev:.4f}"
        dev += "" if record.dev_loss is None else f", dev loss {record.dev_loss:.4f}"
        dev += "".join(f", {name} {value:.4g}" for name, value in (record.facts or {}).items())
        if record.loss is None:
            console.err().print(f"before the first update{dev}")
            return
        update = f"update {record.step:,}: loss {record.loss:.4f}, rate {record.learning_rate:.3g}{dev}"
        console.err().print(f"{update}, {_clock(record.seconds)}, {_clock(record.remaining)} to go")

    return show


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


@group(
    fine_tune,
    bi_encoder,
    splade,
    late_interaction,
    term_weights,
    reranker,
    reader,
    mlm,
    expander,
    lengthen,
    trim,
    pack,
)
def train() -> None:
    """Train models of several kinds (`splade`, `reranker`, …); `fine-tune`, `lengthen`, `trim` or `pack` one.

    Example: `telerank train bi-encoder repbert.yaml --output trained`
    """
