"""Names that a package offers and imports only when somebody asks for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_attributes(
    package: str, names: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's `__getattr__` and `__dir__`.

    Args:
        package: name of the package, `__name__` in its own file.
        names: offered name → the module below the package that has it.
        modules: modules below the package that are offered themselves.

    >>> get, _ = lazy_attributes("capscore.text", {"language_code": "languages"})
    >>> get("language_code")("DE-at")
    'de'
    """
    modules = tuple(modules)

    def get(name: str) -> Any:
        if name in names:
            value = getattr(importlib.import_module(f"{package}.{names[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *modules})

    return get, listed
