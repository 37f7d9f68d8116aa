"""A group of commands whose most usual command needs no name."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


def group_with_default(default: str) -> type[TyperGroup]:
    """A group in which ``group ARGUMENT`` stands for ``group default ARGUMENT``."""

    class DefaultGroup(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
                args = [default, *args]
            return super().parse_args(ctx, args)

    return DefaultGroup
