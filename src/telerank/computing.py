"""How a model is computed: settings that pipelines, options, the service and Python share, declared once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from telerank.parameters import Flags, Help, WordValues

Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, kw_only=True)
class Computing:
    """The back end that computes a model, and how."""

    backend: Annotated[
        str,
        Help(
            "torch; compiled: the transformer by torch.compile, whose first batches take half a minute and "
            "which gained nothing on an H100; openvino or onnx (extra fast): faster on a processor."
        ),
    ] = "torch"
    precision: Annotated[
        str,
        Help(
            "auto (bfloat16 on a GPU that computes in it, else float32); float32; float32-fast, "
            "tf32 (torch); bfloat16 (torch, openvino); int8 (openvino, calibrated)."
        ),
    ] = "auto"
    threads: Annotated[
        Count | None, Flags("-j"), Help("Threads of the model. Default: the back end's own choice.")
    ] = None
    tokens: Annotated[
        Count | None,
        Flags("--batch-tokens"),
        Help("Tokens per batch, padding included. Default: 2048, on a GPU 65536."),
    ] = None
    device: Annotated[str | None, Help("`cpu`, `cuda`, …; default: a GPU if there is one.")] = None


@dataclass(frozen=True, kw_only=True)
class PairComputing(Computing):
    """How a re-ranker is computed, and the lengths at which it cuts texts; None: the model's own."""

    max_query: Annotated[Count | None, Help("Tokens at which a query is cut. Default: the model's own.")] = (
        None
    )
    max_length: Annotated[Count | None, Help("Tokens at which a pair is cut. Default: the model's own.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class SpanComputing(Computing):
    """How a reader is computed, and settings of the reader; None: the reader's own."""

    max_length: Annotated[Count | None, Help("Tokens of a window, with the question.")] = None
    stride: Annotated[Count | None, Help("Tokens that two windows share.")] = None
    max_question: Annotated[Count | None, Help("Tokens at which a question is cut.")] = None
    max_answer: Annotated[Count | None, Help("Tokens of an answer at most.")] = None
    threshold: Annotated[
        float | None,
        WordValues({"none": math.inf}),
        Help("Above which odds of no answer there is none; `none`: always an answer."),
    ] = None
    temperature: Annotated[float | None, Help("What scores are divided by to become confidences.")] = None
