"""Loads a benchmark's loading script: its name → the builder class in `datasets_scripts/<name>/<name>.py`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

import datasets

from ...errors import CapscoreError
from ...files.shipped import benchmark_folder
from ...files.whole_file import whole_file
from ...registry import BENCHMARKS

# two threads must not load a script at once: the second would find a half-made module
_LOADING = threading.RLock()


def script_class(slug: str) -> type[datasets.GeneratorBasedBuilder]:
    """The builder class in a benchmark's loading script, or the one that was registered by this name.

    Raises:
        CapscoreError: there is no benchmark of that name; the message names similar ones.
    """
    if slug in BENCHMARKS:
        return BENCHMARKS.get(slug)
    path = _importable(Path(benchmark_folder(slug), f"{slug}.py"))
    # `datasets` looks a builder's module up by its name, so it must be among the loaded ones
    name = f"capscore_benchmarks.{slug}"
    with _LOADING:
        module = sys.modules.get(name)
        if module is None or getattr(module, "__file__", None) != str(path):
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise CapscoreError(f"{path} cannot be loaded")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, datasets.GeneratorBasedBuilder)
            and value.__module__ == name
        ):
            return value
    raise CapscoreError(f"{path} has no builder class")


def unpickled(slug: str, state: dict[str, Any]) -> datasets.GeneratorBasedBuilder:
    """A builder as it arrives in another process, where its script may not be loaded yet."""
    kind = script_class(slug)
    builder = object.__new__(kind)
    builder.__setstate__(state)
    return builder


def _importable(script: Path) -> Path:
    """Path to load a script from: its own, or, with `datasets` < 4, a copy among their modules.

    Those versions leave a lock beside the folder of a builder's file, and an installed package may be
    read-only.
    """
    if int(datasets.__version__.partition(".")[0]) >= 4:
        return script
    content = script.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    copy = Path(datasets.config.HF_MODULES_CACHE, "capscore_benchmarks", digest, script.stem, script.name)
    if not copy.is_file():
        with whole_file(copy, "copy of a loading script", make_folders=True) as file:
            file.write(content)
    return copy
