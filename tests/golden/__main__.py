"""Golden results: `write FILE` runs all cases, `compare FILE` runs them again and prints what differs."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from capscore import __version__

from . import releases
from .place import Place
from .plain import differences, lines, plain


def main(argv: Sequence[str] | None = None) -> int:
    """A command line in, an exit code out: 0 all the same, 1 something differs or failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, said in (("write", "run cases, write their answers"), ("compare", "run them and compare")):
        command = commands.add_parser(name, help=said)
        command.add_argument("file", type=Path)
        command.add_argument("--only", action="append", default=[], help="names that begin so; repeatable")
        command.add_argument("--ignore", action="append", default=[], help="not these: errors, printed, …")
        command.add_argument("--quick", action="store_true", help="only what the test suite runs")
        command.add_argument("--times", action="store_true", help="print how long each case takes")
    commands.add_parser("list", help="print the names of all cases")
    release = commands.add_parser("release", help="keep the scores of a file as those of this version")
    release.add_argument("file", type=Path)
    moves = commands.add_parser("moved", help="print which scores differ from one release to the next")
    moves.add_argument("file", type=Path, help="results of now")
    given = parser.parse_args(argv)

    from .cases import CASES

    if given.command == "list":
        print("\n".join(CASES))
        return 0
    if given.command == "release":
        print(releases.keep(__version__, json.loads(given.file.read_text(encoding="utf-8"))))
        return 0
    if given.command == "moved":
        return _print_moved(json.loads(given.file.read_text(encoding="utf-8")))
    chosen = [
        each
        for name, each in CASES.items()
        if (not given.only or name.startswith(tuple(given.only)))
        and not name.startswith(tuple(given.ignore))
        and (each.quick or not given.quick)
    ]
    if not chosen:
        parser.error("no case has such a name")
    then = json.loads(given.file.read_text(encoding="utf-8")) if given.command == "compare" else {}
    if given.command == "write" and given.file.exists() and (given.only or given.ignore or given.quick):
        then = json.loads(given.file.read_text(encoding="utf-8"))

    began = time.monotonic()
    found: dict[str, Any] = {}
    bad = skipped = 0
    for name, result, failure, seconds in run(chosen):
        if given.times:
            print(f"{seconds:7.2f} s  {name}", file=sys.stderr, flush=True)
        if failure:
            bad += 1
            print(f"{name}: failed\n{failure}", flush=True)
            continue
        found[name] = result
        if given.command == "compare" and name not in then:
            skipped += 1
            print(f"{name}: not in {given.file}", flush=True)
        elif given.command == "compare":
            told = list(differences(then[name], result))
            bad += bool(told)
            for line in told[:20]:
                print(f"{name}{line}", flush=True)
            if len(told) > 20:
                print(f"{name}: and {len(told) - 20} more", flush=True)
    if given.command == "write":
        whole = {name: found.get(name, then.get(name)) for name in CASES if name in found or name in then}
        given.file.write_text(lines(whole), encoding="utf-8")
    elif not (given.only or given.quick):
        for name in then:
            if name not in CASES and not name.startswith(tuple(given.ignore)):
                bad += 1
                print(f"{name}: no such case any more", flush=True)
    verdict = f"{len(found)} cases, {bad} differ or failed, {skipped} unknown"
    print(f"{verdict}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if bad else 0


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing that a case prints be seen."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield


def _print_moved(results: dict[str, Any]) -> int:
    """Each step from a release to the next, and to now."""
    steps = [*releases.kept().items(), ("now", releases.scores_in(results))]
    for (before, old), (after, new) in itertools.pairwise(steps):
        found = releases.moved(old, new)
        print(f"{before} → {after}: {len(found)} of {len(old)} moved under the same signature")
        for place, difference in found.items():
            print(f"  {place}: by {difference:.3g}")
    return 0


def run(cases: Sequence[Any]) -> Iterator[tuple[str, Any, str, float]]:
    """Cases → name, result, "" or what went wrong, seconds; those that cannot be run here are left out."""
    with tempfile.TemporaryDirectory() as folder, Place(Path(folder)).open() as place:
        for each in cases:
            if not each.needs():
                print(f"{each.name}: cannot be run here", file=sys.stderr)
                continue
            began = time.monotonic()
            result, failure = None, ""
            try:
                with place.case(each.name), quiet():
                    result = json.loads(json.dumps(plain(each.run(place), place.names)))
            except (Exception, SystemExit):
                failure = traceback.format_exc()
            yield each.name, result, failure, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
