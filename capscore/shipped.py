"""Where the modules of `metrics/` lie: beside the library in a checkout, inside it in an installed wheel."""

from __future__ import annotations

import difflib
from pathlib import Path

from .errors import CapscoreError

_PACKAGE = Path(__file__).resolve().parent


def module_folder(metric: str) -> str:
    """Folder of a metric's `evaluate` module, as `evaluate.load` takes it.

    Raises:
        CapscoreError: there is no module of that name; says which are near.

    >>> import capscore
    >>> Path(capscore.module_folder("mcs"), "mcs.py").is_file()
    True
    """
    for home in (_PACKAGE / "_shipped" / "metrics", _PACKAGE.parent / "metrics"):
        if (home / metric / f"{metric}.py").is_file():
            return str(home / metric)
        if home.is_dir():
            names = sorted(path.parent.name for path in home.glob("*/*.py") if path.stem == path.parent.name)
            close = difflib.get_close_matches(metric, names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise CapscoreError(f"there is no module {metric!r}: expected one of {', '.join(names)}{hint}")
    raise CapscoreError("the folder metrics/ is neither inside the installed capscore nor beside it")
