"""What scoring pairs and reading texts share: a model, by its name or loaded, and how it is computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from telerank.computing import Computing
from telerank.errors import ModelError
from telerank.models.inference import Room
from telerank.reranking.backends import BackEndSettings
from telerank.reranking.texts import TextPair

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
        if self.tokens is not None and self.tokens < 1:
            raise ModelError(f"tokens of a batch must be at least 1, got {self.tokens}")
        _ = self._setting

    @cached_property
    def name(self) -> str:
        """The given name of the model, or its kind and fingerprint."""
        return str(self.model) if self._is_named else self._describe_loaded()

    @cached_property
    def budget(self) -> int:
        """The tokens of a batch at most, padding included; a longer text has a batch of its own."""
        if self.tokens is not None:
            return self.tokens
        return GPU_TOKENS if self._on_gpu else CPU_TOKENS

    @property
    def computes_in(self) -> str:
        """The precision, which is never ``auto``; raises ModelError if there is no such device."""
        return self._setting.resolved

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name, without ``samples``."""
        settings = [setting for setting in self._settings if setting.name not in ("model", "samples")]
        values = self._arguments
        return {
            setting.name: values[setting.name]
            for setting in settings
            if values[setting.name] != setting.default
        }

    def describe_memory(self) -> str:
        """How large batches are, if a larger one did not fit into memory; else empty."""
        return self.room.describe()

    @abstractmethod
    def _describe_loaded(self) -> str:
        """The kind and the fingerprint of a model that was given loaded."""

    @property
    def _is_named(self) -> bool:
        return isinstance(self.model, str | Path)

    @cached_property
    def _setting(self) -> BackEndSettings:
        return BackEndSettings(self.backend, self.precision, self.threads, self.device)

    @cached_property
    def _device(self) -> torch.device:
        return self._setting.where

    @property
    def _on_gpu(self) -> bool:
        return self._device.type != "cpu"

    @property
    def _settings(self) -> Sequence[Any]:
        return [setting for setting in fields(self) if setting.init]

    @property
    def _arguments(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in self._settings}

    @property
    def _identity(self) -> tuple[object, ...]:
        others = {**self._arguments, "model": self.name}
        return type(self), self._is_named, *others.items()

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, ComputedModel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        settings = (f"{name}={value!r}" for name, value in self.changed.items())
        return f"{type(self).__name__}({', '.join((repr(self.name), *settings))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()
