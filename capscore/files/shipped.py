"""Where files that ship lie.

`metrics/` and `datasets_scripts/` are beside the library in a checkout and inside it in a wheel; calibrations
are inside it in both.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from ..errors import CapscoreError

_PACKAGE = Path(__file__).resolve().parents[1]


def module_folder(metric: str) -> str:
    """Folder of a metric's `evaluate` module, as `evaluate.load` takes it.

    Raises:
        CapscoreError: there is no module of that name; says which are near.

    >>> import capscore
    >>> Path(capscore.module_folder("mcs"), "mcs.py").is_file()
    True
    """
    return _folder("metrics", "module", metric)


def benchmark_folder(slug: str) -> str:
    """Folder of a benchmark's loading script, as `load_dataset` of datasets < 4 takes it.

    Raises:
        CapscoreError: there is no benchmark of that name; says which are near.

    >>> import capscore
    >>> Path(capscore.benchmark_folder("xvnli"), "xvnli.py").is_file()
    True
    """
    return _folder("datasets_scripts", "benchmark", slug)


def benchmark_slugs() -> list[str]:
    """Names of all benchmarks that can be loaded, sorted.

    >>> "flickr8k_human" in benchmark_slugs()
    True
    """
    return _slugs(_home("datasets_scripts"))


def calibration_files() -> list[Path]:
    """Files of calibrations that ship with the library; see `capscore.metrics.calibration`.

    >>> [path.name for path in calibration_files()]
    ['embedded.json']
    """
    return sorted((_PACKAGE / "metrics" / "calibrations").glob("*.json"))


def _home(room: str) -> Path:
    for home in (_PACKAGE / "_shipped" / room, _PACKAGE.parent / room):
        if home.is_dir():
            return home
    raise CapscoreError(f"the folder {room}/ is neither inside the installed capscore nor beside it")


def _slugs(home: Path) -> list[str]:
    return sorted(path.parent.name for path in home.glob("*/*.py") if path.stem == path.parent.name)


def _folder(room: str, what: str, slug: str) -> str:
    home = _home(room)
    slugs = _slugs(home)
    if slug not in slugs:
        close = difflib.get_close_matches(str(slug).lower().replace("-", "_"), slugs, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"there is no {what} {slug!r}: expected one of {', '.join(slugs)}{hint}")
    return str(home / slug)
