"""Documents, messages and docstrings name places, commands and options; every one of them exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capscore.cli import app
from capscore.cli.terminal import spell
from capscore.errors import Setting
from docs.handbook.made_pages import RECIPES
from tools.tiny.command import command as tree
from training.engine.config import described

from .source import ROOT, SOURCES, named, syntax_tree

FOLDERS = (*SOURCES, "tests", "tools")
# `capscore/text/ptb.py`, `training/configs/pr_mcs.yaml`, `metrics/<name>/` (a pattern, so not taken)
PLACE = re.compile(rf"(?<![\w./<>-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?)(?![\w<>*{{])")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)")
MODULE = re.compile(r"python -m ((?:speed|training|tests|tools|capscore)(?:\.\w+)*)")
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.S)
TARGET = re.compile(r"(?:^|&& )make ([a-z][a-z0-9.-]*)", re.M)
MADE = ("docs/build",)  # what a command in a document makes
OF_OTHERS = "--force-reinstall --no-deps --nproc_per_node --gpus --to_json".split()  # pip, torchrun, COMET


def documents() -> Iterator[tuple[Path, str]]:
    """Every page with its text; of the CHANGELOG the newest version, as older ones had other files."""
    pages = {*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/**/*.md"))}
    for page in sorted(pages):
        if not any(part.startswith(".") for part in page.relative_to(ROOT).parts):
            text = page.read_text(encoding="utf-8")
            yield page, re.split(r"^## ", text, flags=re.M)[1] if page.name == "CHANGELOG.md" else text


def missing_places() -> list[str]:
    """Files, folders and links that are not there; a source archive, without weights, is not looked at."""
    missing = []
    for page, text in documents() if (ROOT / "weights/README.md").exists() else ():
        for place in PLACE.findall(text):
            if not (ROOT / place).exists() and not place.startswith(MADE):
                missing.append(f"{named(page)}: {place}")
        for link in LINK.findall(text):
            if not (page.parent / link).exists() and "{" not in link and "<" not in link:
                missing.append(f"{named(page)}: {link}")
    return missing


def missing_commands() -> list[str]:
    """Modules, targets of the Makefile, commands and options that documents name and that do not exist."""
    targets = {*re.findall(r"^([a-z][a-z0-9.-]*):", (ROOT / "Makefile").read_text("utf-8"), re.M)}
    missing = []
    for page, text in documents():
        if page.name == "CHANGELOG.md":
            continue
        code = "\n".join(block or inline for block, inline in CODE.findall(text))
        absent = [module for module in MODULE.findall(text) if importlib.util.find_spec(module) is None]
        absent += [f"make {target}" for target in TARGET.findall(code) if target not in targets]
        missing += [f"{named(page)}: {each}" for each in (*absent, *unknown_in(text))]
    return missing


def commands_in(text: str) -> list[list[str]]:
    """What a reader types into a shell, word by word; lines that go on are joined."""
    lines = re.findall(r"`((?:capscore|python -m training)[^`\n]*)`", text)
    for block in re.findall(r"^```(?:bash|console|sh)\n(.*?)^```", text, re.S | re.M):
        lines += [line.strip().removeprefix("$ ") for line in block.replace("\\\n", " ").splitlines()]
    found = []
    for line in lines:
        try:
            found.append(shlex.split(line.replace("…", ""), comments=True))
        except ValueError:  # a sign that opens no quotation
            found.append(line.split())
    return found


def options_of_command(words: list[str]) -> set[str] | None:
    """The options of the command that words begin with, none if it does not exist; None if it is not ours."""
    if words[:1] == ["capscore"]:
        command: Any = tree(app)
        for word in words[1:]:
            inside = getattr(command, "commands", None)
            if inside is None or not re.match(r"[a-z]+\Z", word):
                break
            if word not in inside:
                return set()
            command = inside[word]
        if hasattr(command, "add_metric_options"):
            command.add_metric_options()
        found = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        return found | {"--help", "--install-completion", "--show-completion"}
    if words[:2] == ["python", "-m"] and len(words) > 2:
        for place, settings in RECIPES.values():
            if words[2] == place.removesuffix(".settings"):
                return {f"--{name}" for name in _settings(place, settings) | {"config", "help"}}
    return None


def _settings(place: str, kind: str) -> set[str]:
    return {name for name, _, _ in described(getattr(importlib.import_module(place), kind))}


def unknown_in(text: str) -> list[str]:
    """Commands and options of ours that a text names and that do not exist."""
    unknown = []
    for words in commands_in(text):
        known = options_of_command(words)
        flags = [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
        if known is not None:
            unknown += [f"{' '.join(words[:4])} {flag}" for flag in flags if flag not in known]
            unknown += [] if known else [" ".join(words[:4])]
    return unknown


def every_command() -> list[str]:
    """Every command of `capscore`, as it is typed."""
    groups: Any = tree(app)
    return [
        f"{name} {part}".strip()
        for name, command in groups.commands.items()
        for part in getattr(command, "commands", [""])
    ]


def unknown_in_code() -> list[str]:
    """What messages and docstrings name: commands, options, and settings, which are parameters or fields."""
    flags, settings = {"--help", *OF_OTHERS}, {"path", "num_process"}  # the second is evaluate's
    for words in every_command():
        flags |= options_of_command(["capscore", *words.split()]) or set()
    for place, kind in RECIPES.values():
        settings |= _settings(place, kind)
    wrong = []
    for folder in ("capscore", "training"):
        trees = {path: syntax_tree(path) for path in sorted((ROOT / folder).rglob("*.py"))}
        nodes = [(path, node) for path, module in trees.items() for node in ast.walk(module)]
        known = settings | {node.arg for _, node in nodes if isinstance(node, ast.arg)}
        known |= {getattr(node.target, "id", "") for _, node in nodes if isinstance(node, ast.AnnAssign)}
        for path, node in nodes:
            wrong += [f"{named(path)}: {name}" for name in _unknown_names(node, flags, known)]
    return wrong


def _unknown_names(node: ast.AST, flags: set[str], settings: set[str]) -> list[str]:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Setting":
        name = getattr(node.args[0], "value", None)
        if isinstance(name, str) and name not in settings and spell(Setting(name)) not in flags:
            return [name]
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return []
    named_flags = re.findall(r"(?<![\w-])--[a-z][\w-]+(?= |\Z)", node.value)
    alone = [flag for flag in named_flags if flag not in flags and flag[2:] not in settings]
    return [*unknown_in(node.value), *alone]
