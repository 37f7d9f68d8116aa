"""``telerank inspect``: see why re-rankers score as they do."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Column, Table
from rich.text import Text
from typer import Argument, Option

from telerank.cli import console, options
from telerank.cli.runs.output import write_json, write_plot, write_tables
from telerank.errors import CollectionError
from telerank.show.tables import count_noun

if TYPE_CHECKING:
    from telerank.inspect.gates import Gates

_DARK = (0, 114, 178)  # the blue of the plots
_WHITE_FROM = 0.55  # a gate from which its number is white

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
    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs import inspect as verbs

    opened = tr.collection(collection, format=format, encoding=encoding)
    source = verbs.open_candidates(opened, candidates, split)
    with show_progress() as progress:
        drawn = verbs.draw_pairs(source, pairs, seed=seed, progress=progress)
        checkpoints = verbs.compare_diffusion(
            model, drawn, batch_tokens=batch_tokens, device=device, progress=progress
        )
    for name, checkpoint in checkpoints.items():
        _say_cut(checkpoint.cut, checkpoint.pairs, name)
    write_plot(lambda: verbs.diffusion_plot(checkpoints), plot)
    if as_json:
        settings = {"collection": opened.name, "split": source.split, "candidates": candidates, "seed": seed}
        records = {name: asdict(checkpoint) for name, checkpoint in checkpoints.items()}
        write_json({**settings, "checkpoints": records}, output)
    else:
        write_tables([verbs.diffusion_table(checkpoints, opened.name)], output, form, "Diffusion")


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
    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs import inspect as verbs

    opened = tr.collection(collection, format=format, encoding=encoding)
    source = verbs.open_candidates(opened, candidates, split)
    reranker = verbs.move(verbs.load_reranker(model), device)
    verbs.find_gates(reranker)  # an error before the work, not after it
    with show_progress() as progress:
        drawn = (
            verbs.draw_by_class(source, relevant=pairs, others=0, seed=seed, progress=progress)
            if relevant
            else verbs.draw_pairs(source, pairs, seed=seed, progress=progress)
        )
        tokens, qids = verbs.tokenize_drawn(reranker, drawn), [pair.qid for pair in drawn]
        result = verbs.measure_faithfulness(
            reranker, tokens, qids, seed=seed, batch_tokens=batch_tokens, progress=progress
        )
    _say_cut(result.cut, result.pairs, model)
    if as_json:
        settings = {"collection": opened.name, "split": source.split, "model": model, "seed": seed}
        write_json({**settings, "relevant": relevant, **asdict(result)}, output)
    else:
        write_tables([verbs.faithfulness_table(result, opened.name)], output, form, "Faithfulness of gates")


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
    as_json: options.AsJson = False,
) -> None:
    """Show the sentences of a passage with the gate of every episode of BERT-DMN or DMN.

    Example: `telerank inspect gates --model bert-dmn/model -q "what is a premium" --text "A sum. You pay."`

    Example: `telerank inspect gates --model bert-dmn/model -q "a trust" --docno 12 --docs insuranceqa-v2`
    """
    from telerank.verbs import inspect as verbs

    if (text is None) == (docno is None) or (docno is None) != (docs is None):
        raise CollectionError("gates: give --text, or --docno with --docs")
    if docno is not None and docs is not None:
        passage = _find_text(docno, docs)
    else:
        passage = sys.stdin.read() if text == "-" else text or ""
    result = verbs.read_gates(verbs.load_reranker(model), query, passage)
    write_plot(lambda: verbs.gates_plot(result), plot)
    if as_json:
        write_json(asdict(result), "-")
    else:
        console.out.print(_table(result))


def _find_text(docno: str, docs: str) -> str:
    import telerank as tr
    from telerank.verbs.data import find_docs
    from telerank.verbs.index import open_source

    source = open_source(docs)
    if not isinstance(source, tr.Index):
        return find_docs(source, [docno])[0].full_text
    if docno not in source.docs:
        raise CollectionError(f"{docs} has no document {docno!r}")
    return source.docs[docno].full_text


def _table(result: Gates) -> Table:
    """A row for each sentence; a higher gate is darker."""
    title = f"{result.query}  (logit {result.logit:.4f})"
    episodes = (Column(str(n), justify="right", no_wrap=True) for n in range(1, result.episodes + 1))
    columns = (Column("sentence", overflow="fold"), *episodes)
    table = Table(*columns, title=_escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for sentence in result.sentences:
        cells = [_cell(gate) for gate in sentence.gates] or [Text("not read", "dim")]
        table.add_row(_escape(" ".join(sentence.text.split())), *cells)
    if result.cut:
        table.caption = f"{count_noun(result.cut, 'token')} too many: not read"
    return table


def _escape(text: str) -> Text:
    return Text.from_markup(console.shown(text))


def _cell(gate: float) -> Text:
    red, green, blue = (round(255 + gate * (dark - 255)) for dark in _DARK)
    letters = "white" if gate > _WHITE_FROM else "black"
    return Text(f" {gate:.2f} ", f"{letters} on rgb({red},{green},{blue})")


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
    perplexity: float = Option(30.0, min=1.0, help="About how many neighbours t-SNE keeps near."),
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
    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs import inspect as verbs

    opened = tr.collection(collection, format=format, encoding=encoding)
    source = verbs.open_candidates(opened, candidates, split)
    settings = verbs.MapSettings(perplexity, neighbours, seed)
    with show_progress() as progress:
        drawn = verbs.draw_by_class(source, relevant=each, others=each, seed=seed, progress=progress)
        embeddings = verbs.compare_embeddings(
            model, drawn, settings, batch_tokens=batch_tokens, device=device, progress=progress
        )
    for name, embedding in embeddings.items():
        _say_cut(embedding.cut, len(drawn), name)
    write_plot(lambda: verbs.embeddings_plot(embeddings, drawn), plot)
    if as_json:
        record = {
            "collection": opened.name,
            "split": source.split,
            "seed": seed,
            "pairs": [{"qid": pair.qid, "docno": pair.docno, "relevant": pair.relevant} for pair in drawn],
            "checkpoints": {name: embedding.record() for name, embedding in embeddings.items()},
        }
        write_json(record, output)
    else:
        table = verbs.embeddings_table(embeddings, drawn, opened.name)
        write_tables([table], output, form, "Embeddings of pairs")


def _say_cut(cut: int, pairs: int, model: str) -> None:
    """Report on standard error how many pairs are longer than the model reads."""
    if cut:
        console.say(f"{cut:,} of {count_noun(pairs, 'pair')} are longer than {model} reads: cut there")
