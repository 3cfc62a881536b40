"""The page of the Python interface, from the docstrings of what `capscore` offers by name."""

from __future__ import annotations

import inspect

import capscore

# heading → names of `capscore`
_PARTS = {
    "Score": [
        "load",
        "Scorer",
        "Scores",
        "score_stream",
        "compare_systems",
        "CaptionModule",
        "module_folder",
    ],
    "Backbones": ["load_backbone", "Backbone", "EmbeddingCache", "load_image"],
    "Benchmarks": [
        *("load_benchmark", "benchmark_slugs", "benchmark_folder", "CaptionBenchmark", "BenchmarkConfig"),
        *("AnnotationFile", "ImageFolders"),
    ],
}
_ERRORS = "Errors and warnings"


def python_page() -> str:
    """The page; a name that no part lists is an error or a warning.

    >>> ".. autofunction:: capscore.load" in python_page()
    True
    """
    listed = {name for names in _PARTS.values() for name in names}
    others = [name for name in capscore.__all__ if name not in listed and not name.startswith("_")]
    wrong = [name for name in others if not issubclass(getattr(capscore, name), (Exception, Warning))]
    if wrong:
        raise ValueError(f"the page of the Python interface has no place for {', '.join(wrong)}")
    parts = ["# Python\n\nWhat `import capscore` offers by name.\n"]
    for heading, names in {**_PARTS, _ERRORS: sorted(others)}.items():
        parts.append(f"## {heading}\n")
        parts += [_entry(name, short=heading == _ERRORS) for name in names]
    return "\n".join(parts)


def _entry(name: str, *, short: bool) -> str:
    value = getattr(capscore, name)
    if not inspect.isclass(value):
        directive, members = "autofunction", ""
    elif short:
        directive, members = "autoexception", ""
    else:
        directive, members = "autoclass", "   :members:\n"
    return f"```{{eval-rst}}\n.. {directive}:: capscore.{name}\n{members}```\n"
