"""Paths of shipped files: modules and loading scripts of the library, and installed weights."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from .. import __version__
from ..errors import CapscoreError, MissingWeightsError, Setting, install_command
from ..registry import BENCHMARKS

DISTRIBUTION = "capscore-weights"
LICENCE = "CC BY-NC 4.0"
# The backbone that needs none of these weights.
FREE = "embedded-free"
_PACKAGE = Path(__file__).resolve().parents[1]


def module_folder(metric: str) -> str:
    """Folder of a metric's `evaluate` module, as `evaluate.load` takes it; CapscoreError: there is none.

    >>> import capscore
    >>> Path(capscore.module_folder("mcs"), "mcs.py").is_file()
    True
    """
    return _folder("metrics", "module", metric)


def shipped_modules() -> list[str]:
    """Names of the metrics whose `evaluate` modules ship, sorted."""
    return _slugs(_parent_folder("metrics"))


def benchmark_folder(slug: str) -> str:
    """Folder of a benchmark's loading script, as `load_dataset` of datasets < 4 takes it.

    Raises:
        CapscoreError: There is no benchmark of that name.
    """
    return _folder("datasets_scripts", "benchmark", slug)


def benchmark_slugs() -> list[str]:
    """Names of all benchmarks that can be loaded, sorted; those of other packages last."""
    return BENCHMARKS.names()


def shipped_benchmarks() -> dict[str, str]:
    """{name: name} of the benchmarks whose loading scripts ship, sorted; see `capscore.registry.Registry`."""
    return {slug: slug for slug in _slugs(_parent_folder("datasets_scripts"))}


def benchmark_card(slug: str) -> str:
    """The card of a benchmark, which is beside its loading script; "" for one of another package."""
    if slug not in shipped_benchmarks():
        return ""
    return Path(benchmark_folder(slug), "README.md").read_text(encoding="utf-8")


def _parent_folder(name: str) -> Path:
    for parent in (_PACKAGE / "_shipped" / name, _PACKAGE.parent / name):
        if parent.is_dir():
            return parent
    raise CapscoreError(f"the folder {name}/ is neither inside the installed capscore nor beside it")


def _slugs(parent: Path) -> list[str]:
    return sorted(path.parent.name for path in parent.glob("*/*.py") if path.stem == path.parent.name)


def _folder(name: str, what: str, slug: str) -> str:
    slugs = _slugs(_parent_folder(name))
    if slug not in slugs:
        raise CapscoreError(f"there is no {what} {slug!r}: expected one of {', '.join(slugs)}")
    return str(_parent_folder(name) / slug)


def weights_folder(name: str) -> Path:
    """Folder of installed weights.

    Raises:
        MissingWeightsError: `capscore-weights` is not installed, lacks the folder, or belongs to another
            version of capscore.
    """
    folder = _installed_weights().get(name)
    problem = "it is not installed"
    with suppress(PackageNotFoundError):
        installed = version(DISTRIBUTION)
        if folder and installed.split(".")[:2] == __version__.split(".")[:2]:
            return folder
        problem = f"version {installed} is installed, and capscore {__version__} needs its own"
    problem = f"{problem}: {install_command('weights')}"
    raise MissingWeightsError(
        f"the weights {name!r} are part of {DISTRIBUTION} ({LICENCE}, not for commercial use), and "
        f"{problem}; ",
        Setting("backbone", FREE),
        " does without, and is Apache-2.0 throughout",
    )


def has_weights(name: str) -> bool:
    try:
        return bool(weights_folder(name))
    except MissingWeightsError:
        return False


def offered_weights() -> list[str]:
    return sorted(_installed_weights())


def _installed_weights() -> dict[str, Path]:
    """Folders of weights by name, the first on sys.path; their package is found, not imported."""
    spec = find_spec(DISTRIBUTION.replace("-", "_"))
    places = reversed(list((spec and spec.submodule_search_locations) or ()))
    return {file.parent.name: file.parent for place in places for file in Path(place).glob("*/*.safetensors")}
