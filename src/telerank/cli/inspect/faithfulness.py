"""``telerank inspect faithfulness``: whether deleting the sentence with the highest gate lowers the score."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console
from telerank.cli.console import counted
from telerank.cli.inspect import pairs as inspected
from telerank.cli.options import (
    AsJson,
    CollectionArgument,
    Encoding,
    FormatOption,
    Split,
    TableForm,
    TableOutput,
)
from telerank.cli.output import write_json, write_tables

if TYPE_CHECKING:
    from telerank.inspect.faithfulness import Faithfulness, Rates
    from telerank.show.tables import Cell, Table


def faithfulness(
    collection: CollectionArgument,
    *,
    model: inspected.ModelOption,
    candidates: inspected.CandidatesOption = None,
    split: Split = None,
    pairs: Annotated[int, typer.Option("--pairs", "-n", min=1, help="Pairs drawn.")] = 1000,
    relevant: Annotated[
        bool, typer.Option("--relevant", help="Draw relevant pairs of the qrels, not any candidates.")
    ] = False,
    seed: inspected.Seed = 0,
    batch_tokens: inspected.BatchTokens = 8192,
    device: inspected.Device = "cpu",
    form: TableForm = None,
    output: TableOutput = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Check gates: deleting the sentence with the highest must lower the score more often than another's.

    Example: `telerank inspect faithfulness insuranceqa-v2 -m bert-dmn/model -c test/100 --pairs 50`
    """
    from telerank.inspect.drawn_pairs import draw, draw_by_class
    from telerank.inspect.faithfulness import faithfulness as measure
    from telerank.inspect.gates import check_gates
    from telerank.models.rerankers.reranker import load_reranker

    source = inspected.Asked(collection, candidates, split, format, encoding).opened()
    reranker = inspected.on_device(load_reranker(model), device)
    check_gates(reranker)  # before the work, not after it
    with console.progress() as progress:
        drawn = (
            draw_by_class(source, relevant=pairs, others=0, seed=seed, progress=progress)
            if relevant
            else draw(source, pairs, seed=seed, progress=progress)
        )
        made = inspected.pairs_for(reranker, drawn)
        qids = [one.qid for one in drawn]
        found = measure(reranker, made, qids, seed=seed, batch_tokens=batch_tokens, progress=progress)
    if as_json:
        record = {"collection": source.collection.name, "split": source.split, "model": model, "seed": seed}
        write_json({**record, "relevant": relevant, **asdict(found)}, output)
        return
    write_tables([_table(found, source.collection.name)], output, form, "Faithfulness of gates")


def _table(found: Faithfulness, collection: str) -> Table:
    from telerank.show.tables import Table

    rows = [[what, *_cells(one)] for what, one in found.rates.items()]
    caption = f"How often a deletion lowers the score, {counted(found.pairs, 'pair')} of {collection}"
    skipped = f"{counted(found.skipped, 'pair')} of one sentence skipped"
    notes = [
        f"Deleted: the sentence of the highest gate (chosen), another at random (other); {skipped}.",
        f"Interval of the difference at 95 %, bootstrap over {found.queries:,} queries; strong: without 0.",
        "drop: how far the logit falls in the mean.",
    ]
    columns = ("sentence chosen by", "chosen", "other", "difference", "interval", "drop", "other's")
    return Table.of(columns, rows, caption=caption, notes=notes)


def _cells(one: Rates) -> list[str | Cell]:
    from telerank.show.tables import Cell as NewCell

    strong = one.low > 0 or one.high < 0
    return [
        f"{one.chosen:.3f}",
        f"{one.other:.3f}",
        NewCell(f"{one.difference:+.3f}", strong=strong),
        f"[{one.low:+.3f}, {one.high:+.3f}]",
        f"{one.chosen_drop:+.3f}",
        f"{one.other_drop:+.3f}",
    ]
