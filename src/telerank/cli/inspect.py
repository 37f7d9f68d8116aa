"""``telerank inspect``: see why re-rankers score as they do."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from telerank.cli import options
from telerank.cli.commands import derive, group
from telerank.parameters import FieldsOf
from telerank.verbs import inspect as verbs


@derive
def diffusion(
    data: options.CollectionOptions,
    *,
    report: options.PlottedReportOptions,
    **settings: Annotated[Any, FieldsOf(verbs.diffusion)],
) -> None:
    """Measure how far information has spread over a pair's tokens (figure 3 of the BERT-DMN paper).

    Cosines of the last hidden states: CLS with each query token, CLS with each passage token, and every two
    passage tokens.

    Example: `telerank inspect diffusion insuranceqa-v2 minilm --candidates test/100 -n 20 --plot cosines.png`
    """
    report.write(verbs.diffusion(data.open(), **settings))


@derive
def faithfulness(
    data: options.CollectionOptions,
    *,
    report: options.ReportOptions,
    **settings: Annotated[Any, FieldsOf(verbs.faithfulness)],
) -> None:
    """Check gates: deleting the sentence with the highest gate should lower the score more often.

    Example: `telerank inspect faithfulness insuranceqa-v2 --model bert-dmn/model --candidates test/100 -n 50`
    """
    report.write(verbs.faithfulness(data.open(), **settings))


@derive
def gates(*, report: options.PlottedReportOptions, **settings: Annotated[Any, FieldsOf(verbs.gates)]) -> None:
    """Show the sentences of a passage with the gate of every episode of BERT-DMN or DMN.

    Example: `telerank inspect gates --model bert-dmn/model -q "what is a premium" --text "A sum. You pay."`

    Example: `telerank inspect gates --model bert-dmn/model -q "a trust" --docno 12 --docs insuranceqa-v2`
    """
    if settings["text"] == "-":
        settings["text"] = sys.stdin.read()
    report.write(verbs.gates(**settings))


@derive
def tsne(
    data: options.CollectionOptions,
    *,
    report: options.PlottedReportOptions,
    **settings: Annotated[Any, FieldsOf(verbs.tsne)],
) -> None:
    """Map the CLS outputs of relevant and other pairs by t-SNE, and measure how far apart they lie.

    Example: `telerank inspect tsne insuranceqa-v2 minilm --candidates test/100 --each 20 --plot tsne.png`
    """
    report.write(verbs.tsne(data.open(), **settings))


@group(diffusion, faithfulness, gates, tsne)
def inspect() -> None:
    """See why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over sentences.

    Example: `telerank inspect tsne insuranceqa-v2 minilm --candidates test/100 --each 20 --plot tsne.png`
    """
