"""``telerank inspect faithfulness``: whether deleting the sentence with the highest gate lowers the score."""

from __future__ import annotations

from dataclasses import asdict

from typer import Option

from telerank.cli import options
from telerank.cli.inspect import pairs as shared
from telerank.cli.runs.output import write_json, write_tables


def faithfulness(
    collection: options.CollectionArgument,
    *,
    model: shared.ModelOption,
    candidates: shared.CandidatesOption = None,
    split: options.Split = None,
    pairs: int = Option(1000, "--pairs", "-n", min=1, help="Number of pairs to draw."),
    relevant: bool = Option(
        False, "--relevant", help="Draw relevant pairs of the qrels instead of any candidates."
    ),
    seed: shared.Seed = 0,
    batch_tokens: shared.BatchTokens = 8192,
    device: shared.Device = "cpu",
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
    from telerank.verbs.inspect import (
        draw_by_class,
        draw_pairs,
        faithfulness_table,
        find_gates,
        load_reranker,
        measure_faithfulness,
        move,
        open_candidates,
        tokenize_drawn,
    )

    source = open_candidates(tr.collection(collection, format=format, encoding=encoding), candidates, split)
    reranker = move(load_reranker(model), device)
    find_gates(reranker)  # an error before the work, not after it
    with show_progress() as progress:
        drawn = (
            draw_by_class(source, relevant=pairs, others=0, seed=seed, progress=progress)
            if relevant
            else draw_pairs(source, pairs, seed=seed, progress=progress)
        )
        tokens, qids = tokenize_drawn(reranker, drawn), [pair.qid for pair in drawn]
        result = measure_faithfulness(
            reranker, tokens, qids, seed=seed, batch_tokens=batch_tokens, progress=progress
        )
    shared.say_cut(result.cut, result.pairs, model)
    name = source.collection.name
    if as_json:
        settings = {"collection": name, "split": source.split, "model": model, "seed": seed}
        write_json({**settings, "relevant": relevant, **asdict(result)}, output)
        return
    write_tables([faithfulness_table(result, name)], output, form, "Faithfulness of gates")
