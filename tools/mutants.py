"""Mistakes put into the code one at a time: which of them do the tests find, and which test finds each?

    python -m tools.mutants draw --seed 43 --count 120 mutants.json
    python -m tools.mutants try mutants.json --results results.json [--coverage FOLDER] [--part 1/2]

`draw` chooses places in functions of `PACKAGES`, of each package as many, and makes one mistake of meaning at
each: a condition negated or left out, arguments swapped, an option ignored, another column read, a statement
left out. A seed and a version of the code give the same list. `try` runs, for each mutant, the tests that
cross its line until one fails, the quickest first. It knows them from a folder with pytest's records of one
run or several, where `COVERAGE_FILE=FOLDER/a.coverage` is set:

    pytest --cov=capscore --cov=training --cov=metrics --cov-context=test --junitxml=FOLDER/a.xml

Without records, it runs the tests that import the file, and those of its package. A mutant is found by its
function and expression, so that a list serves later versions too. It edits files: run it in a checkout of
its own.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import accumulate, cycle, islice
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 120  # seconds that one test may take; an endless loop counts as found
# Folders of code; a package's own folders, such as capscore/benchmarks/protocols, belong to it.
PACKAGES = [
    *sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("capscore/*/__init__.py")),
    *("capscore", "training/data", "training/engine", "training", "metrics"),
]
# Other functions that take the same arguments
OTHER_NAMES = {
    **{"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "reversed": "list"},
    **{"argmax": "argmin", "argmin": "argmax", "minimum": "maximum", "maximum": "minimum", "mean": "sum"},
    **{"floor": "ceil", "ceil": "floor", "zeros": "ones", "startswith": "endswith", "endswith": "startswith"},
    **{"lstrip": "rstrip", "rstrip": "lstrip", "partition": "rpartition", "rpartition": "partition"},
    **{"union": "intersection", "intersection": "union", "setdefault": "get", "find": "rfind"},
}
OTHER_SIGNS: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
}

Change = tuple[str, ast.AST, str]  # kind, node to replace, its new source


class Mutable:
    """The places of a function where a mistake can be made.

    Args:
        name: Its name, with those of what it stands in.
        node: The function.
    """

    def __init__(self, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef):
        self.name, self.node = name, node
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        self.defaults = dict(
            zip([one.arg for one in positional[::-1]], arguments.defaults[::-1], strict=False)
        )
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        self.defaults.update((one.arg, default) for one, default in keywords if default is not None)
        self.nodes = list(_within(node))
        # what else is read in this way: attributes of one object, texts as keys of one mapping
        self.attributes: dict[str, list[str]] = defaultdict(list)
        self.keys: dict[str, list[str]] = defaultdict(list)
        called = {id(one.func) for one in self.nodes if isinstance(one, ast.Call)}
        for found in self.nodes:
            match found:
                case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if id(found) not in called:
                    self.attributes[owner].append(attribute)
                case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                    self.keys[ast.unparse(owner)].append(key)
        self.called = called

    def changes(self) -> Iterator[Change]:
        for node in self.nodes:
            for kind, change in KINDS.items():
                for replaced, new in change(self, node):
                    source = ast.unparse(new)
                    yield kind, replaced, source if isinstance(replaced, ast.stmt) else f"({source})"


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """The statements and expressions of a body; no inner functions, messages or annotations."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            skipped = (ast.Raise, ast.JoinedStr, ast.Assert, ast.FunctionDef, ast.ClassDef, ast.Lambda)
            if isinstance(child, ast.AST) and not isinstance(child, skipped):
                yield child
                yield from _within(child)


def _copy(node: ast.AST, **fields: object) -> ast.AST:
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


Changed = Iterator[tuple[ast.AST, ast.AST]]  # what is replaced, and by what


def _negated(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)


def _without_a_condition(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.BoolOp):
        for number in range(len(node.values)):
            rest = node.values[:number] + node.values[number + 1 :]
            yield node, rest[0] if len(rest) == 1 else _copy(node, values=rest)
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
        for number, part in enumerate(node.generators):
            if part.ifs:
                generators = [*node.generators]
                generators[number] = _copy(part, ifs=part.ifs[1:])  # type: ignore[call-overload]
                yield node, _copy(node, generators=generators)


def _and_for_or(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.BoolOp):
        yield node, _copy(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def _arguments_swapped(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.Call) and not any(isinstance(one, ast.Starred) for one in node.args):
        for number in range(len(node.args) - 1):
            args = [*node.args]
            args[number], args[number + 1] = args[number + 1], args[number]
            simple = all(
                isinstance(one, ast.Name | ast.Attribute | ast.Subscript) for one in args[number:][:2]
            )
            if simple:
                yield node, _copy(node, args=args)


def _option_left_out(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg and keyword.arg not in ("strict", "stacklevel", "encoding"):
                yield node, _copy(node, keywords=[one for one in node.keywords if one is not keyword])
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and len(node.args) == 2:
            yield node, _copy(node, args=node.args[:1])


def _option_ignored(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in function.defaults:
        yield node, function.defaults[node.id]


def _statement_left_out(function: Mutable, node: ast.AST) -> Changed:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if is_call or isinstance(node, ast.AugAssign | ast.Continue | ast.Break):
        yield node, ast.Pass()


def _other_function(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.Call):
        match node.func:
            case ast.Name(id=name) if name in OTHER_NAMES:
                other = ast.Name(OTHER_NAMES[name])
                keywords = [] if other.id == "list" else node.keywords
                yield node, _copy(node, func=other, keywords=keywords)
            case ast.Attribute(attr=name) if name in OTHER_NAMES:
                yield node, _copy(node, func=_copy(node.func, attr=OTHER_NAMES[name]))


def _other_column(function: Mutable, node: ast.AST) -> Changed:
    match node:
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            for other in dict.fromkeys(function.keys[ast.unparse(owner)]):
                if other != key:
                    yield node, _copy(node, slice=ast.Constant(other))
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute, ctx=ast.Load()):
            for other in dict.fromkeys(function.attributes[owner]):
                if other != attribute and id(node) not in function.called:
                    yield node, _copy(node, attr=other)


def _other_place(function: Mutable, node: ast.AST) -> Changed:
    match node:
        case ast.Subscript(slice=ast.Constant(value=0)):
            yield node, _copy(node, slice=ast.Constant(-1))
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            yield node, _copy(node, slice=ast.Constant(0))
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=None)) if lower or upper:
            yield node, _copy(node, slice=ast.Slice(None, upper if lower else None))


def _other_sign(function: Mutable, node: ast.AST) -> Changed:
    match node:
        case ast.Compare(ops=[sign]) if type(sign) in OTHER_SIGNS:
            yield node, _copy(node, ops=[OTHER_SIGNS[type(sign)]()])
        case ast.BinOp(op=sign) if type(sign) in OTHER_SIGNS:
            yield node, _copy(node, op=OTHER_SIGNS[type(sign)]())


def _off_by_one(function: Mutable, node: ast.AST) -> Changed:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            yield node, left
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=1), stop]):
            yield node, _copy(node, args=[stop])


def _other_axis(function: Mutable, node: ast.AST) -> Changed:
    if isinstance(node, ast.keyword) and node.arg in ("axis", "dim") and isinstance(node.value, ast.Constant):
        yield node.value, ast.Constant(1 if node.value.value == 0 else 0)


KINDS: dict[str, Callable[[Mutable, ast.AST], Changed]] = {
    "condition negated": _negated,
    "condition left out": _without_a_condition,
    "and for or": _and_for_or,
    "arguments swapped": _arguments_swapped,
    "option left out": _option_left_out,
    "option ignored": _option_ignored,
    "statement left out": _statement_left_out,
    "other function": _other_function,
    "other column": _other_column,
    "other place": _other_place,
    "other sign": _other_sign,
    "off by one": _off_by_one,
    "other axis": _other_axis,
}


# ---- lists of mutants ----


def functions(tree: ast.AST, name: str = "") -> Iterator[Mutable]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            full = f"{name}.{child.name}".lstrip(".")
            if not isinstance(child, ast.ClassDef):
                yield Mutable(full, child)
            yield from functions(child, full)
        else:
            yield from functions(child, name)


def places(path: Path) -> Iterator[tuple[dict, ast.AST]]:
    """Every mistake that can be made in a file: how it is found again, and the node that it replaces."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        for kind, node, changed in function.changes():
            place = (function.name, ast.unparse(node), changed)
            found = dict(zip(("function", "original", "changed"), place, strict=True))
            yield (
                {"path": path.relative_to(ROOT).as_posix(), "kind": kind, **found, "index": seen[place]},
                node,
            )
            seen[place] += 1


def files(package: str) -> list[Path]:
    """The files of a package; of a folder that holds packages, its own alone."""
    has_packages = any(other.startswith(f"{package}/") for other in PACKAGES)
    return sorted((ROOT / package).glob("*.py" if has_packages else "**/*.py"))


def draw(seed: int, count: int) -> list[dict]:
    """Mutants of a seed, of each package in turn; the kind is drawn first, so that rare ones are there."""
    chance, drawn = random.Random(seed), []
    by_package: list[dict[str, list[dict]]] = []
    for package in PACKAGES:
        by_kind: dict[str, list[dict]] = defaultdict(list)
        for path in files(package):
            for found, _ in places(path):
                by_kind[found["kind"]].append(found)
        by_package.append(by_kind)
    for by_kind in islice(cycle(filter(None, by_package)), count):
        candidates = by_kind[chance.choice(sorted(by_kind))]
        drawn.append(candidates.pop(chance.randrange(len(candidates))))
        for kind in [kind for kind, left in by_kind.items() if not left]:
            del by_kind[kind]
    return drawn


def mutated(mutant: dict) -> tuple[Path, int, str] | None:
    """A mutant's file, its line, and the file's text with it; None where the expression is gone."""
    path, keys = ROOT / mutant["path"], ("function", "original", "changed", "index")
    for found, node in places(path) if path.exists() else ():
        if all(found[key] == mutant[key] for key in keys):
            return path, _line(path, node), _replaced(path.read_bytes(), node, mutant["changed"])
    return None


def _line(path: Path, node: ast.AST) -> int:
    """The first line of the statement that a node is in: coverage knows no others."""
    line: int = node.lineno  # type: ignore[attr-defined]
    statements = (one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.stmt))
    return max(one.lineno for one in statements if one.lineno <= line <= (one.end_lineno or 0))


def _replaced(text: bytes, node: ast.AST, source: str) -> str:
    """A file's text with other source in the place of a node."""
    place: ast.expr = node  # type: ignore[assignment]
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    first = starts[place.lineno - 1] + place.col_offset
    last = starts[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
    return (text[:first] + source.encode() + text[last:]).decode()


# ---- the tests of a mutant ----


class Records:
    """Which tests cross which line, and how long each takes, as whole runs recorded it.

    Args:
        folder: Folder of *.coverage and *.xml files; None for none.
    """

    def __init__(self, folder: Path | None):
        import coverage

        self.seconds: dict[str, float] = {}
        self.crossing: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path in sorted(folder.glob("*.xml")) if folder else ():
            self.seconds |= _times(path)
        for path in sorted(folder.glob("*.coverage")) if folder else ():
            data = coverage.CoverageData(basename=str(path))
            data.read()
            for name in data.measured_files():
                relative = re.sub(r".*?/((?:capscore|training|metrics)/)", r"\1", name, count=1)
                for line, contexts in data.contexts_by_lineno(name).items():
                    tests = {context.partition("|")[0] for context in contexts}
                    self.crossing[relative][line] |= tests & self.seconds.keys()

    def tests(self, path: str, line: int) -> dict[str, float]:
        """Test → seconds, of those that cross a line."""
        return {name: self.seconds[name] for name in self.crossing[path][line]}


def _times(junit: Path) -> dict[str, float]:
    found = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        parts = case.attrib["classname"].split(".")
        n_classes = sum(part[0].isupper() for part in parts)
        module, classes = parts[: len(parts) - n_classes], parts[len(parts) - n_classes :]
        name = "::".join(["/".join(module) + ".py", *classes, case.attrib["name"]])
        if case.find("skipped") is None:
            found[name] = float(case.attrib["time"])
    return found


def nearest(path: Path) -> list[str]:
    """Files of tests that import a file, or whose package mirrors its own: those of its name come first."""
    relative = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    folder = ROOT.joinpath("tests", *parts[(1 if parts[0] == "capscore" else 0) : -1])
    pattern = re.compile(rf"(?:from|import) {re.escape('.'.join(parts))}\b")
    tests = [file for file in ROOT.glob("tests/**/test_*.py") if pattern.search(file.read_text("utf-8"))]
    tests += folder.rglob("test_*.py") if folder != ROOT / "tests" else ()
    found = sorted({*tests}, key=lambda file: (file.stem != f"test_{parts[-1]}", str(file)))
    return [file.relative_to(ROOT).as_posix() for file in found]


class _Chosen:
    """A plugin of pytest: some tests alone, the quickest first; the first that fails is written down."""

    def __init__(self, seconds: dict[str, float], pipe: int, most: float):
        self.seconds, self.pipe, self.most = seconds, pipe, most
        self.session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_collection_finish(self) -> None:
        self.until = time.monotonic() + self.most

    def pytest_runtest_logfinish(self) -> None:
        if self.session is not None and time.monotonic() > self.until:
            self.session.shouldstop = "time is up"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.seconds:
            items[:] = [item for item in items if item.nodeid in self.seconds]
            items.sort(key=lambda item: self.seconds[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self.pipe, report.nodeid.encode()[:500])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            os.write(self.pipe, f"{report.nodeid} (when imported)".encode()[:500])


def outcome(suite: Sequence[str], seconds: dict[str, float], most: float) -> tuple[str, str]:
    """Run tests in a fork that has the libraries loaded: "killed" or "survived", and the test that failed.

    After `most` seconds no further test begins.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(os.devnull, os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *suite]
        plugin = _Chosen(seconds, writing, most)
        # 4: a test of that name is no longer there; 5: none was left
        code = pytest.main(arguments, plugins=[plugin])
        stopped = plugin.session is not None and plugin.session.shouldstop == "time is up"
        is_failure = code not in (0, 4, 5) and not stopped
        os._exit(1 if is_failure or (plugin.session and plugin.session.testsfailed) else 0)
    os.close(writing)
    until = time.monotonic() + most + LIMIT
    result = ""
    while not result:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            result = "killed" if status else "survived"
        elif time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            result = "timeout"
        time.sleep(0.05)
    with open(reading, encoding="utf-8", errors="replace") as pipe:
        return result, pipe.readline().strip()


def trial(mutant: dict, records: Records, most: float) -> dict:
    """Put a mutant into its file while its tests run: its line, its result and the test that found it.

    The result is "killed", "timeout", "survived", "untested" where no test crosses the line, or "gone" where
    the expression is no longer there. A test that found it before, named in "by", is asked first.
    """
    place = mutated(mutant)
    if place is None:
        return {**mutant, "result": "gone"}
    path, line, text = place
    seconds = records.tests(mutant["path"], line)
    suite = [name.partition("::")[0] for name in seconds] if records.seconds else nearest(path)
    attempts = [([*dict.fromkeys(suite)], seconds)]
    if not records.seconds:  # the file of its name first: most mistakes are found there
        attempts = [(suite[:1], {}), (suite[1:], {})]
    known = mutant.get("by", "").partition(" (")[0]
    if known and (ROOT / known.partition("::")[0]).exists():
        attempts.insert(0, ([known], {}))
    result, by = "untested", ""
    original = path.read_bytes()
    path.write_text(text, encoding="utf-8")
    try:
        for attempt in attempts:
            if attempt[0] and result in ("untested", "survived"):
                result, by = outcome(*attempt, most)
    finally:
        path.write_bytes(original)
    return {**mutant, "line": line, "result": result, "by": by}


def shown(mutant: dict) -> str:
    place = f"{mutant['path']}:{mutant.get('line', '?')} {mutant['function']}"
    what = f"{mutant['kind']}: {mutant['original'][:90]!r} → {mutant['changed'][:90]!r}"
    return f"{mutant['result']:8} {place} {what} {mutant.get('by', '')}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("action", choices=["draw", "try"])
    parser.add_argument("mutants", type=Path, help="file of mutants, or of results to try again")
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--results", type=Path, help="file of results, which a later call continues")
    parser.add_argument("--coverage", type=Path, help="folder of recorded runs: *.coverage and *.xml")
    parser.add_argument("--seconds", type=float, default=300, help="after these, no test of a mutant begins")
    parser.add_argument("--part", default="1/1", help="such as 1/2: every second mutant")
    options = parser.parse_args()
    if options.action == "draw":
        drawn = draw(options.seed, options.count)
        options.mutants.write_text(json.dumps(drawn, indent=1, ensure_ascii=False), encoding="utf-8")
        return
    if Path.cwd() != ROOT:  # another checkout, such as an installed one, comes first on the path
        parser.error(f"this is the tool of {ROOT}, whose files it would edit; call it there")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    for library in ("datasets", "evaluate", "open_clip", "transformers"):
        importlib.import_module(library)  # once, for all forks
    if options.results is None:
        parser.error("try needs --results FILE")
    part, parts = map(int, options.part.split("/"))
    mutants = json.loads(options.mutants.read_text("utf-8"))[part - 1 :: parts]
    records = Records(options.coverage)
    done = json.loads(options.results.read_text("utf-8")) if options.results.exists() else []
    for mutant in mutants[len(done) :]:
        done.append(trial(mutant, records, options.seconds))
        options.results.write_text(json.dumps(done, indent=1, ensure_ascii=False), encoding="utf-8")
        print(shown(done[-1]), flush=True)
    print(dict(Counter(mutant["result"] for mutant in done)))


if __name__ == "__main__":
    main()
