"""The command `capscore`, called in this process, and files of rows for it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any
from unittest import mock

import typer.main
from typer.testing import CliRunner

from capscore.cli import app

command = functools.cache(typer.main.get_command)


def run(*arguments: Any, **options: Any) -> Any:
    """`capscore ARGUMENTS…` on 80 columns: exit code and both streams; what it does not handle is raised."""
    with mock.patch("typer.testing._get_command", command):  # which would be made anew for each call
        done = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*map(str, arguments)], **options)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def write_jsonl(path: Path, rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n") if line]


def read_jsonl(path: str | Path) -> list[Any]:
    return json_lines(Path(path).read_text(encoding="utf-8"))
