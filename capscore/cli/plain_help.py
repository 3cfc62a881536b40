"""Commands whose `--help` shows no types for options that take no value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = " "  # otherwise typer shows <bool>
    return parameters


class PlainCommand(TyperCommand):
    """A command such as `capscore score`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A command with commands of its own, such as `capscore data`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))
