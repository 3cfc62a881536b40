"""Hostile calls, drawn by a seed from all commands, metrics and options that are registered.

A call is a right one with up to three values in other places: an option of the command or of `capscore.load`,
or a cell of its rows. It ends with the scores that the same rows have under the same signature in a plain
call, or with one line, and the files are as they were.
"""

from __future__ import annotations

import csv
import inspect
import json
import math
import os
import random
import re
import reprlib
import shutil
import stat
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas
import pytest

from capscore.errors import CapscoreError
from capscore.metrics.loading import options_of
from capscore.registry import METRICS
from tools.project.documents import options_of_command, unknown_in
from tools.tiny.command import read_jsonl, run, write_jsonl

from . import commands, metrics
from .case import Expected, Outcome, check, limited

TEXTS = ["", " ", "nonesuch", "école 犬", "\x1b[31mred", "x" * 5_000, "[/red]", "a,b", "=", "-", "de"]
NUMBERS = [*"0 -1 1 2.5 nan inf 1e308 1_0 ٣ 50% x".split(), "", "9" * 30, "-" + "9" * 30]
FILES = """gone.jsonl empty loop.csv latin.json device /dev/fd/99 red.png . .. odd.jsonl odd.json odd.csv
    torn.jsonl torn.png result.json rows.jsonl o.jsonl o.json o.md o.html o.parquet o no/o.csv""".split()
VALUES = [None, True, 0, -1, 2.5, 10**30, math.nan, math.inf, "", "nonesuch", "é\x1b[31m", "x" * 5_000, b"x",
          [], {}, object(), Path("gone"), np.float32(3), pandas.NA, ["a", 1], "0", "cpu", float]  # fmt: skip
CELLS: dict[str, list[Any]] = {
    "caption": [None, 3, math.nan, "", ["a"], {"a": 1}, "\ud800", "red " * 9_999, "école", True, 10**400],
    "image": [None, "gone.png", "empty", "torn.png", "pipe.jsonl", "device", "", 3, {}, "http://[", "\0"],
    "references": [None, [], "", ["red", None], ["red", 3], {"a": 1}, "['red'", 7, [[]], math.nan],
    "language": ["nolang", 3, "", ["de"], "zh", None],
}
# what keeps commands from the Hub
ALWAYS = {"publish": ["--dry-run"]}


class Generator:
    """Calls in a folder of right files, beside which it puts hostile ones."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.random = folder, random.Random(seed)
        self.rows = read_jsonl(folder / "rows.jsonl")
        self.known: dict[Any, float] = {}  # signature and row → score
        (folder / "empty").mkdir()
        (folder / "loop.csv").symlink_to("loop.csv")
        (folder / "latin.json").write_bytes('{"caption": "café"}'.encode("latin-1"))
        os.mkfifo(folder / "pipe.jsonl")
        try:
            os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:  # only root may
            os.mkfifo(folder / "device")
        (folder / "torn.jsonl").write_bytes((folder / "rows.jsonl").read_bytes()[:-9])
        (folder / "torn.png").write_bytes((folder / "red.png").read_bytes()[:-30])

    def draw(self) -> tuple[Callable[[Any], None], Any]:
        """What is called, and what it gets."""
        if self.random.random() < 0.3:
            return self.draw_python()
        name = self.random.choice(list(commands.CASES))
        words = commands.CASES[name].arguments.split()
        if name == "score" and self.random.random() < 0.7:
            metric = ",".join(self.random.sample(METRICS.names(), 2))
            words = ["rows.jsonl", "-m", self.random.choice([metric, "mcs,rouge_l"])]
        places = [place for place, word in enumerate(words) if (self.folder / word).exists()]
        if places and self.random.random() < 0.4:
            words[self.random.choice(places)] = self.random.choice(FILES)
        found = commands.command_named(name)
        options = found.get_params(found.make_context(name, [], resilient_parsing=True))
        kinds = inspect.signature(found.callback).parameters
        for option in self.random.choices(options, k=self.random.randint(0, 3)):
            if option.name in kinds and option.name != "debug" and option.opts[0].startswith("-"):
                kind = str(get_args(kinds[option.name].annotation)[0])
                words += [self.random.choice(option.opts), *([] if option.is_flag else [self.value(kind)])]
        return self.command, [*name.split(), *words, *ALWAYS.get(name.split()[0], [])]

    def value(self, kind: str) -> str:
        """A value for an option of a type: mostly one that belongs to it."""
        words = [*METRICS.names(), *self.rows[0], *"toy jumble xvnli expert test red.png result.json".split()]
        pools = {"int": NUMBERS, "float": NUMBERS, "Path": FILES, "Literal": re.findall(r"'(\w+)'", kind)}
        own = next((pool for name, pool in pools.items() if pool and name in kind), TEXTS + words)
        return self.random.choice(self.random.choice([own, own, own, own, TEXTS, FILES]))

    def write_odd_rows(self) -> None:
        """Right rows, in one of which a cell is hostile, as lines, as a list and as a table."""
        rows = [dict(row) for row in self.rows]
        column, row = self.random.choice(list(CELLS)), self.random.choice(rows)
        row[column] = self.random.choice(CELLS[column])
        write_jsonl(self.folder / "odd.jsonl", rows)
        (self.folder / "odd.json").write_text(json.dumps(rows))
        with (self.folder / "odd.csv").open("w", encoding="utf-8", errors="replace", newline="") as file:
            table = csv.DictWriter(file, list(CELLS))
            table.writeheader()
            table.writerows(rows)

    def command(self, words: list[str]) -> None:
        """Call a command, and check how it ends."""
        self.write_odd_rows()
        if words[0] == "score" and not {"-o", "--output"} & {*words}:
            words = [*words, "-o", "o.jsonl"]
        before = commands.content(self.folder)
        with limited():
            done = run(*words)
        after = commands.content(self.folder)
        new = {name: after[name] for name in after.keys() - before.keys()}
        shutil.rmtree(self.folder / "o", ignore_errors=True)
        for name in new:
            Path(name).unlink(missing_ok=True)
        for name, content in before.items():
            if after.get(name) != content:
                Path(name).write_bytes(content)
                is_cleared = words[:2] == ["cache", "clear"] and Path(name).name.startswith("embeddings-")
                assert "--force" in words or is_cleared, f"{name} was changed"
        assert done.exit_code in range(5), done.exit_code
        refused = (
            done.exit_code in (1, 2) and done.exit_code != commands.CASES.get(words[0], commands.Case()).code
        )
        errors = [line for line in done.stderr.splitlines() if line.startswith("capscore: error: ")]
        assert not new or not errors, f"an error, and {[*new]}"
        check(Expected((), bool(errors)), Outcome(bool(errors), "".join(errors[:1]), done.output))
        assert len(errors) <= 1 and (refused or not errors), done.output
        self.check_hints("".join(errors), words)
        if refused and not errors:
            assert "Usage: " in done.stderr or words[:2] == ["data", "check"], done.output
        for name, content in new.items():
            if name.endswith("json"):
                json.loads(content, parse_constant=pytest.fail)
        if words[0] == "score" and str(self.folder / "o.summary.json") in new:
            self.compare(new)

    def check_hints(self, error: str, words: list[str]) -> None:
        """Check that an error names commands that exist, and no option but those of its command."""
        assert not unknown_in(error), (unknown_in(error), error)
        own = re.sub("`.*?`|'.*?'", "", error)  # other commands, and values
        named = {*re.findall(r"(?<![\w-])--[a-z][\w-]*", own)} - {*words}
        assert named <= (options_of_command(["capscore", *words]) or set()), (named, error)

    def compare(self, new: dict[str, bytes]) -> None:
        """Check that rows have the scores that they had under the same signature, and right rows a number."""
        rows = [json.loads(line) for line in new.get(str(self.folder / "o.jsonl"), b"").splitlines()]
        summary = json.loads(new[str(self.folder / "o.summary.json")])
        for metric, found in summary["metrics"].items():
            for row in rows:
                cells = [[row.get(name) for name in CELLS]]
                assert row[metric] is not None or row not in self.rows
                if METRICS.get(metric.partition("@")[0]).compares_rows:
                    cells = [[each.get(name) for name in CELLS] for each in (row, *rows)]
                self.same(found["signature"], cells, row[metric])

    def same(self, signature: str, cells: Any, score: float | None) -> None:
        if score is not None:
            assert math.isfinite(score)
            known = self.known.setdefault((signature, repr(cells)), score)
            assert score == pytest.approx(known, abs=1e-5), (score, known, cells, signature)

    def draw_python(self) -> tuple[Callable[[Any], None], Any]:
        outside = METRICS.outside()
        metric = self.random.choice([name for name in METRICS.names() if name not in outside])
        options = self.random.choices([*options_of(metric).values()], k=self.random.choice([0, 0, 1, 2]))
        given = {option.name: self.random.choice([*VALUES, *option.choices]) for option in options}
        column = self.random.choice([None, *metrics.columns_of(metric)])
        cell = column and self.random.choice([*metrics.BAD[column], *metrics.BLANKS])
        more = {"on_error": self.random.choice(["raise", "skip"])}
        return self.python, (metric, given, column, cell, more)

    def python(self, call: Any) -> None:
        """Score by the library, with the cell in row 1."""
        metric, given, column, cell, more = call
        columns = metrics.with_cell(metric, column, 1, cell) if column else metrics.rows_of(metric)
        try:
            with limited():
                found = metrics.load(metric, **given).score(**columns, **more)
        except CapscoreError as error:
            check(Expected((), 1), Outcome(1, " ".join(str(error).splitlines()[:1])))
            assert given or more["on_error"] == "raise" or isinstance(cell, str), error
            return
        rows = [row for row in range(5) if not column or row != 1]
        assert 1 in rows or found.n_failed or isinstance(cell, str)
        assert all(math.isfinite(found.scores[row]) or (row in found.failures and given) for row in rows)
        for row in rows if 1 in rows or not METRICS.get(metric).compares_rows else ():
            self.same(found.signature, row, None if row in found.failures else found.scores[row])


def failures(folder: Path, calls: int, seed: int) -> dict[str, list[str]]:
    """What went wrong → the calls that did so."""
    generator, kinds = Generator(folder, seed), dict[str, list[str]]()
    plain = [["score", "rows.jsonl", "-m", metric, "--no-cache"] for metric in METRICS.names()]
    for number in range(calls):
        call = (generator.command, plain[number]) if number < len(plain) else generator.draw()
        function, given = call
        try:
            function(given)
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {place.filename}:{place.lineno}: {str(error)[:600]}"
            kinds.setdefault(kind, []).append(reprlib.repr(given))
    return kinds
