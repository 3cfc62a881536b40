"""How a Space installs this library: a release, wheels that lie in the Space, or a revision of a repository.

In: what the user named. Out: lines for requirements.txt, after a check that it can be had.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import __version__
from ..errors import CapscoreError, InputError, Setting

RELEASE = "release"
PYPI = "https://pypi.org/simple"
_GIT = re.compile(r"git\+(?P<url>.+)@(?P<commit>[0-9a-f]{40})")
_REQUIREMENT = re.compile(r"(?P<name>capscore(-weights)?)(?P<extras>\[[\w,-]+\])?\s*[<>=!~].*")
# Where in the repository the distributions are.
_FOLDERS = {"capscore": "", "capscore-weights": "#subdirectory=weights"}
_SECONDS = 60


@dataclass(frozen=True)
class Installation:
    """How a Space gets the distributions of this library.

    Attributes:
        git: Address of a repository; "" for none.
        commit: Its commit, 40 hexadecimal digits.
        wheels: Wheel of each distribution; empty for none. With neither, it is the release of this version.
    """

    git: str = ""
    commit: str = ""
    wheels: Mapping[str, Path] = field(default_factory=dict)

    def requirements(self, text: str, files_at: str) -> str:
        """The text of a requirements.txt, with the lines of our distributions replaced.

        Args:
            text: What the module's folder has.
            files_at: Address of the folder on the Hub that the wheels are put into.

        Raises:
            InputError: a distribution has no wheel, and others have.

        >>> Installation().requirements("capscore[app]>=0.1,<0.2\\nnumpy\\n", "") == (
        ...     f"capscore[app]=={__version__}\\nnumpy\\n")
        True
        """
        return "".join(f"{self._line(line, files_at)}\n" for line in text.splitlines())

    def distributions(self, text: str) -> list[str]:
        """Our distributions that a requirements.txt names."""
        found = (_REQUIREMENT.fullmatch(line.strip()) for line in text.splitlines())
        return [match["name"] for match in found if match]

    def _line(self, line: str, files_at: str) -> str:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None:
            return line
        name, what = match["name"], f"{match['name']}{match['extras'] or ''}"
        if self.wheels:
            if name not in self.wheels:
                raise InputError(
                    Setting("install", str(next(iter(self.wheels.values())))),
                    f": the Space needs {name} too; name its wheel as well",
                )
            return f"{what} @ {files_at}/{self.wheels[name].name}"
        if self.git:
            return f"{what} @ git+{self.git}@{self.commit}{_FOLDERS[name]}"
        return f"{what}=={__version__}"

    def check(self, distributions: Sequence[str]) -> None:
        """Check that each distribution can be had; wheels were checked before.

        Raises:
            CapscoreError: it cannot; says what was asked where.
        """
        if self.wheels:
            return
        if self.git:
            _check_commit(self.git, self.commit)
            return
        for name in distributions:
            _check_release(name, __version__)


def read_installation(given: Sequence[str]) -> Installation:
    """What the user named → how to install.

    Args:
        given: "release"; or "git+https://…@COMMIT"; or paths of wheels.

    Raises:
        InputError: it is none of these, or a wheel cannot be read or is of another version.
    """
    if not given:
        raise InputError(
            Setting("install"),
            ": say how the Space is to install capscore: release, the path of a wheel, or git+URL@COMMIT",
        )
    if list(given) == [RELEASE]:
        return Installation()
    match = _GIT.fullmatch(given[0])
    if match and len(given) == 1:
        return Installation(git=match["url"], commit=match["commit"])
    if any(one.startswith("git+") for one in given):
        raise InputError(
            Setting("install", given[0]), ": expected git+URL@COMMIT, alone, with the 40 digits of a commit"
        )
    wheels = {}
    for one in given:
        name, path = _read_wheel(Path(one).expanduser())
        if name in wheels:
            raise InputError(Setting("install", one), f": a second wheel of {name}")
        wheels[name] = path
    return Installation(wheels=wheels)


def _read_wheel(path: Path) -> tuple[str, Path]:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    setting = Setting("install", str(path))
    if path.suffix != ".whl":
        raise InputError(setting, ": expected release, the path of a wheel (.whl), or git+URL@COMMIT")
    if not path.is_file():
        raise InputError(setting, ": there is no such file")
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            held = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
    except (InvalidWheelFilename, zipfile.BadZipFile, OSError) as error:
        raise InputError(setting, f" is no wheel: {error}") from None
    if not held:
        raise InputError(setting, " is no wheel: it has no METADATA")
    if name not in _FOLDERS:
        raise InputError(setting, f": expected a wheel of {' or '.join(_FOLDERS)}, not of {name}")
    if str(version) != __version__:
        raise InputError(setting, f": this is capscore {__version__}; build the wheel of that version")
    return str(name), path


def _check_release(name: str, version: str) -> None:
    import urllib3

    index = os.environ.get("PIP_INDEX_URL", "").rstrip("/") or PYPI
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    try:
        answer = urllib3.request(
            "GET", f"{index}/{name}/", headers={"Accept": accept}, timeout=_SECONDS, retries=2
        )
    except urllib3.exceptions.HTTPError as error:
        raise CapscoreError(
            f"{index} cannot be asked for {name} {version} ({type(error).__name__})"
        ) from error
    # file names hold the version, in JSON and in HTML
    file = re.compile(rf"\b{name.replace('-', '[-_]')}-{re.escape(version)}(-[\w.-]*\.whl|\.tar\.gz)")
    if answer.status != 200 or not file.search(answer.data.decode("utf-8", "replace")):
        raise CapscoreError(
            f"{name} {version} is not on {index}: release it first, or upload a wheel, or name a revision ",
            "(",
            Setting("install"),
            ")",
        )


def _check_commit(url: str, commit: str) -> None:
    git = shutil.which("git")
    if git is None:
        raise CapscoreError("git is not installed, so it cannot be checked that the commit can be had")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([git, "init", "--quiet", "--bare", folder], check=True)
        fetch = [git, "-C", folder, "fetch", "--quiet", "--depth=1", url, commit]
        done = subprocess.run(
            fetch,
            capture_output=True,
            text=True,
            timeout=10 * _SECONDS,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no detail"]
        raise CapscoreError(f"the commit {commit} cannot be had from {url}: {lines[-1]}")
