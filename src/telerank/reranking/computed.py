"""What scoring pairs and reading texts share: a model, by its name or loaded, and how it is computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from telerank.computing import Computing
from telerank.models.inference import Room
from telerank.models.precision import resolve_precision
from telerank.reranking.backends import check_computing, device_for
from telerank.reranking.texts import TextPair
from telerank.stored import folder_checksum

CPU_TOKENS, GPU_TOKENS = 2048, 65_536  # of a batch; larger ones do not fit a processor's cache


@dataclass(frozen=True, eq=False, repr=False)
class ComputedModel(Computing, ABC):
    """A model, by its name or loaded, and the settings of its computation: a value.

    ``precision`` ``auto`` is bfloat16 on a GPU that computes in it, else float32 (:attr:`computes_in`).
    ``tokens`` bounds a batch, padding included; None leaves it to the device. A GPU whose memory is too small
    gets smaller batches (:meth:`describe_memory`). ``samples`` are texts to calibrate int8 on.

    Raises
    ------
    ModelError
        If there is no such back end or precision, or ``tokens`` is less than 1.
    """

    model: Any
    samples: tuple[TextPair, ...] = field(default=(), kw_only=True)
    room: Room = field(default_factory=Room, init=False)
    """How large batches may be, if one did not fit into memory."""

    def __post_init__(self) -> None:
        check_computing(self)

    @cached_property
    def name(self) -> str:
        """The given name of the model, or its kind and fingerprint."""
        if self._is_named:
            return str(self.model)
        kind, fingerprint = self._identify(self.model)
        return f"{kind} {fingerprint[:12]}"

    @cached_property
    def budget(self) -> int:
        """The tokens of a batch at most, padding included; a longer text has a batch of its own."""
        if self.tokens is not None:
            return self.tokens
        return GPU_TOKENS if self._on_gpu else CPU_TOKENS

    @property
    def computes_in(self) -> str:
        """The precision, which is never ``auto``; raises ModelError if there is no such device."""
        return resolve_precision(self.precision, device_for(self))

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name, without ``samples``."""
        values = self._arguments
        settings = [setting for setting in fields(self) if setting.name in values]
        return {
            setting.name: values[setting.name]
            for setting in settings
            if setting.name not in ("model", "samples") and values[setting.name] != setting.default
        }

    @property
    def checksum(self) -> str:
        """A hash of the model: of the files in its folder, or of its weights."""
        if self._is_named and Path(self.model).is_dir():
            return folder_checksum(Path(self.model))
        return self._identify(self.loaded)[1]

    @property
    def source(self) -> dict[str, object]:
        """What was computed, for the record of a run."""
        source: dict[str, object] = {"model": self.name, "sha256": self.checksum}
        if self.computes_in not in ("float32", self.precision):  # chosen by the device
            source["precision"] = self.computes_in
        return source

    @property
    def remarks(self) -> list[str]:
        """What was cut, or did not fit into memory, so far."""
        return [line for line in (self.describe_cut(), self.describe_memory()) if line]

    @abstractmethod
    def describe_cut(self) -> str:
        """How much was cut, and where; empty if nothing was."""

    def describe_memory(self) -> str:
        """How large batches are, if a larger one did not fit into memory; else empty."""
        return self.room.describe()

    @property
    @abstractmethod
    def loaded(self) -> Any:
        """The model, with the settings that are given here; it is loaded when it is first used."""

    @abstractmethod
    def _identify(self, model: Any) -> tuple[str, str]:
        """The kind and the fingerprint of a loaded model."""

    @property
    def _is_named(self) -> bool:
        return isinstance(self.model, str | Path)

    @cached_property
    def _device(self) -> torch.device:
        return device_for(self)

    @property
    def _on_gpu(self) -> bool:
        return self._device.type != "cpu"

    @property
    def _arguments(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.init}

    @property
    def _identity(self) -> tuple[object, ...]:
        return type(self), self._is_named, *{**self._arguments, "model": self.name}.items()

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, ComputedModel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        settings = (f"{name}={value!r}" for name, value in self.changed.items())
        return f"{type(self).__name__}({', '.join((repr(self.name), *settings))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()
