"""Golden results: `write FILE` runs all cases, `compare FILE` runs them again and prints what differs."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from capscore import __version__

from . import releases
from .place import Place
from .plain import differences, lines, plain
from .table import Case, all_cases


def main(argv: Sequence[str] | None = None) -> int:
    """Returns an exit code: 0 all the same, 1 something differs or failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, said in (
        ("write", "run cases, write their answers"),
        ("compare", "run them and compare"),
        ("release", "keep the scores of a file as those of this version"),
        ("moved", "print which scores differ from one release to the next, and to the file"),
    ):
        command = commands.add_parser(name, help=said)
        command.add_argument("file", type=Path)
        command.add_argument("--only", action="append", default=[], help="names that begin so; repeatable")
    given = parser.parse_args(argv)
    then = json.loads(given.file.read_text(encoding="utf-8")) if given.file.exists() else {}
    if given.command == "release":
        print(releases.keep(__version__, then))
        return 0
    if given.command == "moved":
        steps = [*releases.kept().items(), ("now", releases.scores_in(then))]
        for (before, old), (after, new) in itertools.pairwise(steps):
            print(f"{before} → {after}: {releases.moved(old, new)} of {len(old)} under the same signature")
        return 0
    cases = all_cases()
    chosen = [item for name, item in cases.items() if name.startswith(tuple(given.only) or "")]
    found, bad = {}, 0
    for name, result, failure in run(chosen):
        found[name] = result
        told = [failure] if failure else []
        if given.command == "compare" and not failure:
            told = [*differences(then.get(name), result)]
        bad += bool(told)
        for line in told[:20]:
            print(f"{name}{line}", flush=True)
    if given.command == "write" and not bad:
        whole = {name: found.get(name, then.get(name)) for name in cases if name in found or name in then}
        given.file.write_text(lines(whole), encoding="utf-8")
    print(f"{len(found)} cases, {bad} differ or failed", file=sys.stderr)
    return 1 if bad else 0


@contextmanager
def opened_place() -> Iterator[Place]:
    """A place in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, Place(Path(folder)).open() as place:
        yield place


def run(cases: Sequence[Case]) -> Iterator[tuple[str, Any, str]]:
    """Cases → name, result, "" or what went wrong; those that cannot be run here are left out."""
    with opened_place() as place:
        for item in cases:
            if item.needs():
                yield item.name, *run_one(item, place)


def run_one(item: Case, place: Place) -> tuple[Any, str]:
    """A case's result, and "" or what went wrong."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        try:
            with place.case(item.name), redirect_stdout(nowhere), redirect_stderr(nowhere):
                return json.loads(json.dumps(plain(item.run(place), place.names))), ""
        except (Exception, SystemExit):
            return None, f": failed\n{traceback.format_exc()}"


if __name__ == "__main__":
    sys.exit(main())
