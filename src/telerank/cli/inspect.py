"""``telerank inspect``: see why re-rankers score as they do."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer import Argument, Option

from telerank.cli import options
from telerank.cli.runs.output import write_plot, write_report

_Candidates = Annotated[
    str | None,
    Option(
        "--candidates",
        metavar="RUN|POOL",
        help="A run file, or a pool of the collection (`test/100`), to draw from. Default: its only pool.",
    ),
]
_Model = Annotated[
    str,
    Option("--model", help="A re-ranker: the folder OUTPUT/model of a training, or a name on the hub."),
]
_Seed = Annotated[int, Option("--seed", help="Seed of the draw.")]
_BatchTokens = Annotated[
    int, Option("--batch-tokens", min=1, help="Most tokens in a batch, padding included.")
]
_Device = Annotated[str, Option("--device", help="`cpu` or `cuda`.")]

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def inspect() -> None:
    """See why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over sentences.

    Example: `telerank inspect tsne insuranceqa-v2 minilm --candidates test/100 --each 20 --plot tsne.png`
    """


@app.command()
def diffusion(
    collection: options.CollectionArgument,
    model: list[str] = Argument(
        metavar="MODEL",
        help="Checkpoints to compare: re-rankers, or an encoder (`minilm`) as it is before training.",
    ),
    *,
    candidates: _Candidates = None,
    split: options.Split = None,
    pairs: int = Option(1000, "--pairs", "-n", min=1, help="Number of pairs to draw."),
    seed: _Seed = 0,
    batch_tokens: _BatchTokens = 8192,
    device: _Device = "cpu",
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Measure how far information has spread over a pair's tokens (figure 3 of the BERT-DMN paper).

    Cosines of the last hidden states: CLS with each query token, CLS with each passage token, and every two
    passage tokens.

    Example: `telerank inspect diffusion insuranceqa-v2 minilm --candidates test/100 -n 20 --plot cosines.png`
    """
    from telerank.verbs.inspect import diffusion

    report = diffusion(
        options.open_collection(collection, format, encoding),
        model,
        candidates,
        split=split,
        pairs=pairs,
        seed=seed,
        batch_tokens=batch_tokens,
        device=device,
    )
    write_plot(report.plot, plot)
    write_report(report, output, form, as_json=as_json)


@app.command()
def faithfulness(
    collection: options.CollectionArgument,
    *,
    model: _Model,
    candidates: _Candidates = None,
    split: options.Split = None,
    pairs: int = Option(1000, "--pairs", "-n", min=1, help="Number of pairs to draw."),
    relevant: bool = Option(
        False, "--relevant", help="Draw relevant pairs of the qrels instead of any candidates."
    ),
    seed: _Seed = 0,
    batch_tokens: _BatchTokens = 8192,
    device: _Device = "cpu",
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Check gates: deleting the sentence with the highest gate should lower the score more often.

    Example: `telerank inspect faithfulness insuranceqa-v2 --model bert-dmn/model --candidates test/100 -n 50`
    """
    from telerank.verbs.inspect import faithfulness

    report = faithfulness(
        options.open_collection(collection, format, encoding),
        model,
        candidates,
        split=split,
        pairs=pairs,
        relevant=relevant,
        seed=seed,
        batch_tokens=batch_tokens,
        device=device,
    )
    write_report(report, output, form, as_json=as_json)


@app.command()
def gates(
    *,
    model: _Model,
    query: str = Option(..., "--query", "-q", help="The query."),
    text: str | None = Option(None, help="The passage; `-`: standard input."),
    docno: str | None = Option(None, help="Docno of the passage, a document of --docs."),
    docs: str | None = Option(
        None, metavar="INDEX|COLLECTION", help="An index or a collection with the document."
    ),
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    as_json: options.AsJson = False,
) -> None:
    """Show the sentences of a passage with the gate of every episode of BERT-DMN or DMN.

    Example: `telerank inspect gates --model bert-dmn/model -q "what is a premium" --text "A sum. You pay."`

    Example: `telerank inspect gates --model bert-dmn/model -q "a trust" --docno 12 --docs insuranceqa-v2`
    """
    from telerank.verbs.inspect import gates

    report = gates(model, query, sys.stdin.read() if text == "-" else text, docno=docno, docs=docs)
    write_plot(report.plot, plot)
    write_report(report, output, form, as_json=as_json)


@app.command()
def tsne(
    collection: options.CollectionArgument,
    model: list[str] = Argument(
        metavar="MODEL", help="Checkpoints to compare: an encoder (`minilm`), and re-rankers trained from it."
    ),
    *,
    candidates: _Candidates = None,
    split: options.Split = None,
    each: int = Option(250, "--each", "-n", min=1, help="Number of relevant pairs, and of other pairs."),
    perplexity: float = Option(
        30.0, min=1.0, callback=options.check_finite, help="About how many neighbours t-SNE keeps near."
    ),
    neighbours: int = Option(
        10, min=1, help="Nearest pairs of which the share of the same class is computed."
    ),
    seed: _Seed = 0,
    batch_tokens: _BatchTokens = 8192,
    device: _Device = "cpu",
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Map the CLS outputs of relevant and other pairs by t-SNE, and measure how far apart they lie.

    Example: `telerank inspect tsne insuranceqa-v2 minilm --candidates test/100 --each 20 --plot tsne.png`
    """
    from telerank.verbs.inspect import tsne

    report = tsne(
        options.open_collection(collection, format, encoding),
        model,
        candidates,
        split=split,
        each=each,
        perplexity=perplexity,
        neighbours=neighbours,
        seed=seed,
        batch_tokens=batch_tokens,
        device=device,
    )
    write_plot(report.plot, plot)
    write_report(report, output, form, as_json=as_json)
