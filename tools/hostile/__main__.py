"""Draws hostile calls, and says which did not end in the right scores or in one line."""

from __future__ import annotations

import argparse
import os
import sys

import pytest

from . import __doc__ as usage


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.hostile", description=usage)
    parser.add_argument("--calls", default="5000")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    os.environ |= {"CAPSCORE_HOSTILE_CALLS": options.calls, "CAPSCORE_HOSTILE_SEED": options.seed}
    sys.exit(pytest.main(["-n0", "-p", "no:cacheprovider", "tests/hostile/test_generated.py"]))


if __name__ == "__main__":
    main()
