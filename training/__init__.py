"""Recipes that make the weights which capscore loads."""

import sys
from importlib.util import find_spec

from capscore.errors import MissingExtraError

for _package in ("accelerate", "jinja2", "filelock", "scipy"):
    if find_spec(_package) is None:
        _error = MissingExtraError(_package, "training", "training")
        if sys.argv[:1] == ["-m"]:  # a recipe that is started as a command says it in one line
            sys.exit(f"error: {_error}")
        raise _error
