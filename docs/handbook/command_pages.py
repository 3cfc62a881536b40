"""A page per command of `capscore`, from the options that the command itself has."""

from __future__ import annotations

import re
from typing import Any

import typer.main

from capscore.cli import app

_MARKUP = re.compile(r"\[/?(?:bold|italic|dim)?\]")


def command_pages() -> dict[str, str]:
    """Command, with "-" for blanks → its page.

    >>> "## Options" in command_pages()["compare"]
    True
    """
    found: dict[str, str] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", None)
        for part, one in ({"": command} if parts is None else parts).items():
            words = f"{name} {part}".strip()
            found[words.replace(" ", "-")] = _page(words, one)
    return found


def _page(words: str, command: Any) -> str:
    command.add_metric_options()
    text = _MARKUP.sub("", command.help or "")
    # an example stands alone, as what is typed
    text, _, example = text.partition("Example: ")
    parts = [f"# capscore {words}\n", _as_text(text)]
    if example:
        parts.append(f"```bash\n{example.strip()}\n```\n")
    rows = [_row(option) for option in command.params if option.param_type_name == "option"]
    parts += ["## Options\n", "| option | value | meaning |", "|---|---|---|", *rows]
    return "\n".join(parts) + "\n"


def _row(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = (option.metavar or "").strip()
    return f"| {flags} | {value} | {_as_text(option.help or '')} |"


def _as_text(text: str) -> str:
    """Help as Markdown: its signs are escaped, and a paragraph is one line."""
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    return re.sub(r"([<>*_|\[\]])", r"\\\1", "\n\n".join(parts)).rstrip() + ("\n" if len(parts) > 1 else "")
