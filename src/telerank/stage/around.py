"""What stages have in common that are made of one other stage, and put something around it."""

from __future__ import annotations

from dataclasses import dataclass

from telerank.stage.algebra import Stage


@dataclass(frozen=True, repr=False)
class StageAround(Stage):
    """A stage around another one: its role, and whether it reorders, are those of the inner ``stage``."""

    stage: Stage

    @property
    def reorders(self) -> bool:  # type: ignore[override]
        return self.stage.reorders

    @property
    def role(self) -> str:
        return self.stage.role
