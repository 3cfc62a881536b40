"""A metric's module or a benchmark → the files of its repository on the Hub.

A metric becomes a Space: code, card, demo, and what to install. A benchmark becomes a data set: Parquet
without photos, which have licences of their own; or, where its licence does not let the annotations be passed
on, its card and builder alone.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import __version__
from ..benchmarks.data.export import export_benchmark
from ..benchmarks.data.load import builder_class
from ..errors import CapscoreError, InputError, Setting
from ..files.shipped import benchmark_folder, module_folder
from .plan import BENCHMARK, CARD, DATASET, METRIC, SPACE, Plan, PublishedFile, read_card

RELEASE = "release"
_GIT = re.compile(r"git\+(.+@[0-9a-f]{40})")
_REQUIREMENT = re.compile(r"(?P<name>capscore(-weights)?)(?P<extras>\[[\w,-]+\])?\s*[<>=!~].*")
_FOLDERS = {"capscore": "", "capscore-weights": "#subdirectory=weights"}  # of the distributions in git
_FRONT_MATTER = "title emoji colorFrom colorTo sdk sdk_version app_file tags description".split()
# Licences, as the Hub writes them, that let anybody pass the annotations on.
MAY_BE_PASSED_ON = frozenset(
    (
        "apache-2.0",
        "bsd-3-clause-clear",
        "cc-by-2.0",
        "cc-by-4.0",
        "cc-by-nc-4.0",
        "cc-by-sa-4.0",
        "cc0-1.0",
        "mit",
    )
)


# ---- metrics ----


@dataclass(frozen=True)
class Installation:
    """How a Space gets the distributions of this library.

    Attributes:
        git: Address of a repository and commit, "https://…@COMMIT"; "" for none.
        wheels: Wheel of each distribution; empty for none. With neither, it is the release of this version.
    """

    git: str = ""
    wheels: Mapping[str, Path] = field(default_factory=dict)

    def requirements(self, text: str, address: str) -> str:
        """The text of a requirements.txt, with the lines of our distributions replaced.

        Args:
            text: What the module's folder has.
            address: Address of the folder on the Hub that the wheels are put into.

        Raises:
            InputError: A distribution has no wheel, and others have.

        >>> Installation().requirements("capscore[app]>=0.1,<0.2\\nnumpy\\n", "") == (
        ...     f"capscore[app]=={__version__}\\nnumpy\\n")
        True
        """
        lines = []
        for line in text.splitlines():
            match = _REQUIREMENT.fullmatch(line.strip())
            if match is not None:
                name = match["name"]
                if self.wheels and name not in self.wheels:
                    raise InputError(Setting("install"), f": the Space needs the wheel of {name} too")
                version = f" @ git+{self.git}{_FOLDERS[name]}" if self.git else f"=={__version__}"
                version = f" @ {address}/{self.wheels[name].name}" if self.wheels else version
                line = f"{name}{match['extras'] or ''}{version}"
            lines.append(f"{line}\n")
        return "".join(lines)


def read_installation(given: Sequence[str]) -> Installation:
    """What the user named → how to install.

    Args:
        given: "release"; or "git+https://…@COMMIT"; or paths of wheels.

    Raises:
        InputError: It is none of these, or a wheel is of another version.
    """
    if list(given) == [RELEASE]:
        return Installation()
    match = _GIT.fullmatch(given[0]) if len(given) == 1 else None
    if match:
        return Installation(git=match[1])
    wheels: dict[str, Path] = {}
    for item in given:
        path = Path(item).expanduser()
        name, version = (*path.name.split("-", 2), "", "")[:2]
        name = name.replace("_", "-")
        if name not in _FOLDERS or version != __version__ or not zipfile.is_zipfile(path) or name in wheels:
            break
        wheels[name] = path
    if not given or len(wheels) < len(given):
        raise InputError(
            Setting("install", list(given)),
            f": expected release, git+URL@COMMIT with the 40 digits of a commit, or wheels of capscore "
            f"{__version__}",
        )
    return Installation(wheels=wheels)


def plan_metric(
    name: str, repo_id: str, installation: Installation, *, endpoint: str, backbone: str = ""
) -> Plan:
    """List what to publish of a metric, with the lines of requirements.txt for this Space.

    Args:
        name: Name of the metric, such as "mcs".
        repo_id: "org/name" of the Space. `evaluate.load` wants the name to be that of the metric.
        installation: How the Space installs the library.
        endpoint: Address of the Hub.
        backbone: Default backbone of the published module, "org/name@revision"; "" for the metric's own.

    Raises:
        CapscoreError: there is no such metric, or its card lacks something.
        InputError: the Space has another name than the metric, or a Hub id comes without a revision.
    """
    folder = Path(module_folder(name))
    if repo_id.partition("/")[2] != name:
        why = f": evaluate looks for the file {name}.py in a Space of that name; expected …/{name}"
        raise InputError(Setting("name", repo_id), why)
    if backbone and "/" in backbone and "@" not in backbone:
        why = f": a default names its revision, as in {backbone}@main or a commit"
        raise InputError(Setting("backbone", backbone), why)
    texts = {
        file: (folder / file).read_text(encoding="utf-8") for file in (CARD, "requirements.txt", f"{name}.py")
    }
    missing = [key for key in _FRONT_MATTER if not read_card(texts[CARD], folder / CARD).get(key)]
    if missing:
        raise CapscoreError(f"the front matter of {folder / CARD} says no {', '.join(missing)}")
    lines = map(_REQUIREMENT.fullmatch, texts["requirements.txt"].splitlines())
    needed = {line["name"] for line in lines if line}
    wheels = [wheel for name, wheel in installation.wheels.items() if name in needed]
    texts[CARD] = _in_code(texts[CARD], f'evaluate.load("metrics/{name}"', f'evaluate.load("{repo_id}"')
    address = f"{endpoint}/spaces/{repo_id}/resolve/main"
    texts["requirements.txt"] = installation.requirements(texts["requirements.txt"], address)
    if backbone:  # as an attribute of the module's class, below its metric's name
        line = re.compile(r'^(    metric = "\w+")$', re.MULTILINE)
        texts[f"{name}.py"] = line.sub(rf"\1\n    backbone = {backbone!r}", texts[f"{name}.py"], count=1)
    files = [
        PublishedFile.of(path, text=texts.get(path.name))
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".")
    ]
    files += [PublishedFile.of(wheel) for wheel in wheels]
    notes = [f"{wheel.name} goes into the Space, where anybody can download it" for wheel in wheels]
    how = "evaluate.load('{repo}', revision='{commit}')"
    return Plan(folder, METRIC, tuple(files), notes=tuple(notes), repo_type=SPACE, name=name, how=how)


def _in_code(card: str, old: str, new: str) -> str:
    """A card with a text replaced in its blocks of Python."""
    block = re.compile(r"^```python\n.*?^```$", flags=re.DOTALL | re.MULTILINE)
    return block.sub(lambda match: match[0].replace(old, new), card)


# ---- benchmarks ----


def may_be_published(slug: str) -> bool:
    """Whether the licence of a benchmark's annotations lets anybody pass them on.

    >>> may_be_published("xvnli"), may_be_published("flickr8k_human")
    (True, False)
    """
    path = Path(benchmark_folder(slug), CARD)
    return read_card(path.read_text(encoding="utf-8"), path).get("license") in MAY_BE_PASSED_ON


def plan_benchmark(
    slug: str,
    repo_id: str,
    workshop: Path,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Plan:
    """List what to publish of a benchmark.

    Args:
        slug: Name of the benchmark, such as "valse".
        repo_id: "org/name" of the data set.
        workshop: Folder for the Parquet files until they are sent.
        configs: Which configurations; None takes all whose files are available.
        data_dir: Folder of the official files, as `load_benchmark` takes it.
        say: Takes one line on what is being done.

    Raises:
        CapscoreError: there is no such benchmark.
        InputError: `data_dir` is none, or a configuration is unknown.
        AnnotationError: a file is missing or damaged.
    """
    licence = builder_class(slug).LICENSE
    if not may_be_published(slug):
        folder = Path(benchmark_folder(slug))
        card = _card_without_data((folder / CARD).read_text(encoding="utf-8"), slug)
        builder = PublishedFile.of(folder / f"{slug}.py", f"builder/{slug}.py")
        files = [PublishedFile.of(folder / CARD, text=card), builder]
        note = f"the licence ({licence}) does not let the data be passed on: card and builder only"
        how = f"capscore.load_benchmark({slug!r}, data_dir=…)"
    else:
        folder = export_benchmark(slug, workshop / slug, configs, data_dir=data_dir, images=False, say=say)
        card = (folder / CARD).read_text(encoding="utf-8").replace("path/or/id/of/this/folder", repo_id)
        first = read_card(card, folder / CARD)["configs"][0]["config_name"]
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CARD]
        files = [PublishedFile.of(folder / CARD, text=card)]
        files += [PublishedFile.of(path, path.relative_to(folder).as_posix()) for path in paths]
        note = "photos are not published: they have licences of their own"
        how = f"load_dataset('{{repo}}', {first!r}, revision='{{commit}}')"
    return Plan(folder, BENCHMARK, tuple(files), notes=(note,), repo_type=DATASET, name=slug, how=how)


def _card_without_data(card: str, slug: str) -> str:
    """The script's card, which says that the data are not in this repository."""
    how = f"""## How to load

The data are not here: their licence, or that they have none, does not let us pass them on. Get the official
files (below), and let [capscore](https://pypi.org/project/capscore/) read them:

```python
import capscore

rows = capscore.load_benchmark("{slug}", data_dir="<folder>")
```

The builder is in `builder/{slug}.py`; `datasets` before version 4 runs it with `trust_remote_code=True`.

"""
    return re.sub(r"^## How to load\n.*?(?=^## )", lambda _: how, card, flags=re.DOTALL | re.MULTILINE)
