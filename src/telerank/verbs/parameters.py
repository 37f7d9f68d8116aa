"""Parameters that several verbs take: types, bounds, documentation, and how the command line spells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from annotated_types import Ge, Le

from telerank.parameters import Flags, Help

Split = Annotated[str | None, Help("Split of the collection; default: the only one.")]
Measures = Annotated[
    str | Sequence[str],
    Flags("-m"),
    Help("Measures by the names of ir_measures or trec_eval, separated by spaces."),
]
MeasureToMaximise = Annotated[
    str, Flags("-m"), Help("Measure to maximise, as ir_measures or trec_eval name it.")
]
RelevanceLevel = Annotated[
    int,
    Ge(1),
    Flags("--level-for-rel", "-l"),
    Help("Grades from LEVEL up are relevant, as for `trec_eval -l`."),
]
Level = Annotated[float, Ge(0.0), Le(1.0), Help("A difference is significant if its p is below this.")]
BatchTokens = Annotated[int, Ge(1), Help("Most tokens in a batch, padding included.")]
Device = Annotated[str | None, Help("`cpu`, `cuda`, …; default: a GPU if there is one.")]
Candidates = Annotated[
    str | None,
    Flags("--candidates", "RUN|POOL"),
    Help("A run file, or a pool of the collection (`test/100`), to draw from. Default: its only pool."),
]
PairCount = Annotated[int, Ge(1), Flags("-n"), Help("Number of pairs to draw.")]
DrawSeed = Annotated[int, Help("Seed of the draw.")]
FoldCount = Annotated[int, Ge(2), Help("Folds of the cross-validation.")]
FoldSeed = Annotated[int, Help("Seed of the folds.")]
AnalyzerName = Annotated[
    str,
    Flags("--analyzer", "-a"),
    Help("`none`, `standard`, `english`, `french`, or steps such as `french|asciifold`."),
]
