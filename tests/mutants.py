"""Faults put into the code one at a time: which of them does the suite find?

    python -m tests.mutants draw --seed 27 mutants.json
    python -m tests.mutants try mutants.json --results results.json [--coverage .coverage --times junit.xml]

`draw` chooses places in the functions of `AREAS` and changes one operator, comparison or constant at each.
`try` runs, for each mutant, the tests of its package until one fails; with the coverage and the times of a
whole run (`pytest --cov --cov-context=test --junitxml=junit.xml`) only those that cross the line, the
quickest first. A mutant is looked for by its function and expression, so that one list serves two versions
of the code. It edits files: run it in a checkout of its own.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 300  # seconds that a mutant may run; an endless loop counts as found

# area: its files, its tests, how many mutants
AREAS: dict[str, tuple[list[str], list[str], int]] = {
    "scorers": (
        [f"capscore/metrics/{name}.py" for name in ("with_backbone", "rows", "cider", "infometic", "stream")],
        ["tests/metrics", "tests/modules", "tests/test_metric_laws.py"],
        20,
    ),
    "formulas": (
        ["capscore/metrics/{bleu,cider,ngrams,rouge_l}.py"],
        ["tests/metrics", "tests/test_metric_laws.py"],
        14,
    ),
    "statistics": (["capscore/statistics/*.py"], ["tests/statistics", "tests/benchmarks"], 16),
    "perturbations": (
        ["capscore/perturbations/*.py"],
        ["tests/perturbations", "tests/test_perturbation_laws.py", "tests/metrics"],
        16,
    ),
    "embedding": (
        ["capscore/embedding/*.py"],
        ["tests/embedding", "tests/metrics", "tests/test_metric_laws.py"],
        12,
    ),
    "marks": (
        [
            "capscore/infometic/marks.py",
            "capscore/infometic/mark_calibration.py",
            "capscore/infometic/network.py",
        ],
        ["tests/infometic", "tests/metrics"],
        12,
    ),
    "protocols": (
        ["capscore/benchmarks/protocols/*.py", "capscore/benchmarks/robustness/*.py"],
        ["tests/benchmarks", "tests/test_benchmark_laws.py"],
        14,
    ),
    "readers": (
        ["capscore/files/*.py", "capscore/benchmarks/data/*.py"],
        ["tests/files", "tests/benchmarks", "tests/datasets_scripts", "tests/test_file_format_laws.py"],
        8,
    ),
    "losses": (
        ["training/engine/*loss*.py", "training/engine/ratings.py", "training/engine/student.py"],
        ["tests/training", "tests/test_recipe_laws.py"],
        8,
    ),
}
UNCHANGED = ("annotation", "returns", "decorator_list", "args")
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changed(node: ast.expr) -> str | None:
    """The source of an expression with one thing changed, or None where nothing is to change."""
    if not isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp | ast.Constant):
        return None
    copy = ast.parse(ast.unparse(node), mode="eval").body
    match copy:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPS:
            copy.op = SWAPS[type(op)]()
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            copy.ops = [SWAPS[type(op)]()]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            copy = operand
        case ast.Constant(value=bool(value)):
            copy = ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            copy = ast.Constant(value + 1)
        case _:
            return None
    return f"({ast.unparse(copy)})"


def nodes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Every expression of a function's body with the function's name; no messages, no annotations."""

    def within(node: ast.AST, name: str, body: bool) -> Iterator[tuple[str, ast.expr]]:
        for field, value in ast.iter_fields(node):
            if field in UNCHANGED and not isinstance(node, ast.Call):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
                    continue
                if isinstance(child, ast.FunctionDef | ast.ClassDef):
                    function = body or isinstance(child, ast.FunctionDef)
                    yield from within(child, f"{name}.{child.name}".lstrip("."), function)
                elif isinstance(child, ast.AST):
                    if body and isinstance(child, ast.expr):
                        yield name, child
                    yield from within(child, name, body)

    yield from within(tree, "", False)


def places(path: Path) -> Iterator[tuple[dict, ast.expr, str]]:
    """Everything that can be changed in a file: how it is found again, its node, the changed source."""
    seen: Counter[tuple[str, str]] = Counter()
    for function, node in nodes(ast.parse(path.read_text(encoding="utf-8"))):
        source = changed(node)
        if source is None:
            continue
        original = ast.unparse(node)
        index = seen[function, original]
        seen[function, original] += 1
        found = {"function": function, "original": original, "index": index, "changed": source}
        yield {"path": path.relative_to(ROOT).as_posix(), **found}, node, source


def files(area: str) -> list[Path]:
    return sorted(path for pattern in AREAS[area][0] for path in ROOT.glob(pattern))


def draw(seed: int) -> list[dict]:
    """The mutants of a seed: of each area its share, no two in one expression's place."""
    drawn = []
    for area, (_, _, share) in AREAS.items():
        candidates = [{"area": area, **found} for path in files(area) for found, _, _ in places(path)]
        drawn += random.Random(f"{seed}|{area}").sample(candidates, share)
    return drawn


def mutated(mutant: dict) -> tuple[Path, int, str] | None:
    """A mutant's file, its line, and the file's text with it; None where the expression is gone."""
    name = mutant["function"].rpartition(".")[2]
    wanted = (mutant["original"], mutant["index"])
    candidates = sorted(files(mutant["area"]), key=lambda path: path.name != Path(mutant["path"]).name)
    for path in candidates:
        for found, node, source in places(path):
            same = found["function"].rpartition(".")[2] == name
            if same and (found["original"], found["index"]) == wanted:
                return path, node.lineno, replaced(path.read_bytes(), node, source)
    return None


def replaced(text: bytes, node: ast.expr, source: str) -> str:
    """A file's text with other source in the place of a node."""
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    first = starts[node.lineno - 1] + node.col_offset
    last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    return (text[:first] + source.encode() + text[last:]).decode()


class Chosen:
    """A plugin of pytest: only tests that cross a line, the quickest first."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.seconds]
        items.sort(key=lambda item: self.seconds[item.nodeid])


def outcome(suite: list[str], crossing: dict[str, float]) -> str:
    """Run tests in a fork that has the libraries loaded: "killed", "timeout", or "survived"."""
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(os.devnull, os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *suite]
        code = pytest.main(arguments, plugins=[Chosen(crossing)] if crossing else [])
        os._exit(0 if code in (0, 5) else 1)
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.2)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def crossing_tests(coverage_file: Path) -> dict[str, dict[int, set[str]]]:
    """Path → line → tests that cross it, of a whole run."""
    import coverage

    data = coverage.CoverageData(basename=str(coverage_file))
    data.read()
    found: dict[str, dict[int, set[str]]] = {}
    for name in data.measured_files():
        lines = data.contexts_by_lineno(name)
        for part in ("/capscore/", "/training/"):
            if part in name:
                relative = part[1:] + name.rpartition(part)[2]
                found[relative] = {
                    line: {context.partition("|")[0] for context in contexts} - {""}
                    for line, contexts in lines.items()
                }
    return found


def times(junit: Path) -> dict[str, float]:
    """Test → seconds, of a whole run."""
    found = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        parts = case.attrib["classname"].split(".")
        n_classes = sum(part[0].isupper() for part in parts)
        module, classes = parts[: len(parts) - n_classes], parts[len(parts) - n_classes :]
        name = "::".join(["/".join(module) + ".py", *classes, case.attrib["name"]])
        found[name] = float(case.attrib["time"])
    return found


def trial(mutant: dict, tests: dict[str, dict[int, set[str]]], seconds: dict[str, float]) -> str:
    """Put a mutant into its file while its tests run: their outcome, or "gone" without its expression."""
    found = mutated(mutant)
    if found is None:
        return "gone"
    path, line, text = found
    suite = [name for name in AREAS[mutant["area"]][1] if (ROOT / name).exists()]
    crossing = tests.get(path.relative_to(ROOT).as_posix(), {}).get(line, set())
    crossing = {name for name in crossing if name.startswith(tuple(suite))}
    suite = sorted({name.partition("::")[0] for name in crossing}) or suite
    original = path.read_bytes()
    path.write_text(text, encoding="utf-8")
    try:
        return outcome(suite, {name: seconds.get(name, 0.0) for name in crossing})
    finally:
        path.write_bytes(original)


def try_all(mutants: list[dict], results: Path, coverage_file: Path | None, junit: Path | None) -> None:
    import datasets
    import evaluate
    import open_clip
    import transformers

    del datasets, evaluate, open_clip, transformers  # loaded once, for all forks
    sys.dont_write_bytecode = True
    tests = crossing_tests(coverage_file) if coverage_file else {}
    seconds = times(junit) if junit else {}
    done = json.loads(results.read_text()) if results.exists() else []
    for mutant in mutants[len(done) :]:
        result = trial(mutant, tests, seconds)
        done.append({**mutant, "result": result})
        results.write_text(json.dumps(done, indent=1, ensure_ascii=False))
        print(
            f"{len(done)}/{len(mutants)} {result}: {mutant['path']} {mutant['function']}: "
            f"{mutant['original']} → {mutant['changed']}",
            flush=True,
        )


def summary(results: list[dict]) -> str:
    by_area: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        by_area[result["area"]]["killed" if result["result"] == "timeout" else result["result"]] += 1
    lines = [f"{area}: {dict(counts)}" for area, counts in by_area.items()]
    return "\n".join([*lines, f"all: {dict(sum(by_area.values(), Counter()))}"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("action", choices=["draw", "try"])
    parser.add_argument("mutants", type=Path)
    parser.add_argument("--seed", type=int, default=27)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("--times", type=Path)
    parser.add_argument("--part", default="1/1", help="such as 1/2: the first of two halves")
    options = parser.parse_args()
    if options.action == "draw":
        options.mutants.write_text(json.dumps(draw(options.seed), indent=1, ensure_ascii=False))
        return
    part, parts = map(int, options.part.split("/"))
    mutants = json.loads(options.mutants.read_text())[part - 1 :: parts]
    try_all(mutants, options.results, options.coverage, options.times)
    print(summary(json.loads(options.results.read_text())))


if __name__ == "__main__":
    main()
