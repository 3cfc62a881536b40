"""Checks a release: archives, clean installations, licences, known vulnerabilities.

    python -m tools.release --python python3.10 --python python3.13

Needs the extra `release`, and the network for packages and for the list of vulnerabilities. Every step is
tried; the exit code is 1 if one failed or could not be done.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import metadata
from pathlib import Path

from .archives import build_twice, check_contents, requirements

ROOT = Path(__file__).resolve().parents[2]
SMOKE, LICENCES = (Path(__file__).with_name(name) for name in ("smoke.py", "licences.py"))
STORED = ROOT / "tests/test_stored_scores.py"
# what a clean installation is tried with
EXTRAS = "embedded,nouns,app,leaderboard"


def run(*command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program; its output, or an error with the end of it."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=cwd)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def install(
    python: str, wheels: Sequence[Path], folder: Path, *, extras: str = EXTRAS, oldest: bool = False
) -> Path:
    """A new environment with the wheels and what they require; its interpreter."""
    library = next(wheel for wheel in wheels if wheel.name.startswith("capscore-"))
    others = [wheel for wheel in wheels if wheel != library]
    wanted = [f"{library}[{extras}]", *others]
    uv = [sys.executable, "-m", "uv"]
    run(*uv, "venv", "--quiet", "--python", python, folder)
    inside = folder / "bin" / "python"
    if oldest:  # uv takes the oldest of what is asked for by name, so each bound of the library is
        wanted += ["--resolution", "lowest-direct", *requirements(library, extras.split(","))]
    run(*uv, "pip", "install", "--quiet", "--python", inside, *wanted)
    return inside


def smoke(python: Path, folder: Path) -> str:
    """Use what is installed from an empty folder, without a network library's settings of ours.

    Stored signatures and scores must be those of this Python and these versions.
    """
    home = folder / "home"
    home.mkdir(parents=True)
    settings = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    settings |= {
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
    }
    uv = [sys.executable, "-m", "uv", "pip"]
    run(*uv, "check", "--python", python)
    said = run(python, "-I", SMOKE, env=settings, cwd=home).strip()
    run(*uv, "install", "--quiet", "--python", python, "pytest>=8")
    alone = ("--noconftest", "--config-file", os.devnull, "--rootdir", home, "-p", "no:cacheprovider")
    run(python, "-I", "-m", "pytest", *alone, STORED, env=settings, cwd=home)
    return said


def installed(python: str, wheels: Sequence[Path], folder: Path, oldest: bool) -> str:
    """Install the wheels, and use them."""
    return smoke(install(python, wheels, folder, oldest=oldest), folder)


def audited(packages: Path) -> str:
    """Look for known vulnerabilities of what is installed."""
    run(sys.executable, "-m", "pip_audit", "--strict", "--skip-editable", "--path", packages)
    return "none"


def licences(wheels: Sequence[Path], folder: Path) -> str:
    """Install every extra, and check what it brings."""
    extras = metadata("capscore").get_all("Provides-Extra") or []
    return run(install(sys.executable, wheels, folder, extras=",".join(extras)), LICENCES).strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="interpreter to install into; repeatable")
    parser.add_argument("--oldest", help="interpreter for the oldest dependencies")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder of the archives")
    given = parser.parse_args()
    outcomes: list[tuple[str, str]] = []

    def step(name: str, what: Callable[[], object]) -> None:
        try:
            said = what()
        except Exception as error:
            outcomes.append((name, f"FAILED: {error}"))
        else:
            outcomes.append((name, f"ok{f': {said}' if said else ''}"))
        print(f"{name}: {outcomes[-1][1]}", flush=True)

    step("the same bytes twice", lambda: build_twice(ROOT, given.output))
    archives = sorted(given.output.glob("capscore*"))
    wheels = [path for path in archives if path.suffix == ".whl"]
    step("contents", lambda: check_contents(archives))
    step("twine check", lambda: run(sys.executable, "-m", "twine", "check", "--strict", *archives) and "")
    with tempfile.TemporaryDirectory() as scratch:
        interpreters = [(python, False) for python in given.python or [sys.executable]]
        interpreters += [(given.oldest, True)] if given.oldest else []
        for number, (python, oldest) in enumerate(interpreters):
            folder = Path(scratch, str(number))
            name = f"{python}{', oldest dependencies' if oldest else ''}"
            step(name, partial(installed, python, wheels, folder, oldest))
            inside = folder / "bin" / "python"
            if number == 0 and inside.exists():
                packages = next(folder.glob("lib/python*/site-packages"))
                step("known vulnerabilities", partial(audited, packages))
            shutil.rmtree(folder, ignore_errors=True)
        everything = Path(scratch, "every extra")
        step("licences of every extra", lambda: licences(wheels, everything))
    failed = [name for name, said in outcomes if said.startswith("FAILED")]
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} steps passed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
