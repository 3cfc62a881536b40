"""A metric's module or a benchmark → the files of its repository on the Hub."""

from __future__ import annotations

import inspect
import re
import zipfile
from collections.abc import Callable, Sequence
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import RepoCard

from .. import __version__
from ..benchmarks.data.export import card_of, export_benchmark
from ..benchmarks.data.load import builder_class
from ..errors import InputError, Setting
from ..files.shipped import module_folder, shipped_modules
from ..metrics.loading import options_of
from ..registry import METRICS
from .push import CARD, Plan, files_in, read_card

RELEASE = "release"
_REQUIREMENT = re.compile(r"^(capscore(?:-weights)?)((?:\[[\w,-]+\])?)\s*[<>=!~].*$", re.MULTILINE)
# Licences, as the Hub writes them, that let anybody pass the annotations on.
MAY_BE_PASSED_ON = frozenset(
    "apache-2.0 bsd-3-clause-clear cc-by-2.0 cc-by-4.0 cc-by-nc-4.0 cc-by-sa-4.0 cc0-1.0 mit".split()
)


# ---- metrics ----


def plan_metric(name: str, repo_id: str, install: Sequence[str], *, endpoint: str) -> Plan:
    """List what to publish of a metric, with the lines of requirements.txt for this Space."""
    if name in shipped_modules():
        paths = files_in(Path(module_folder(name)), "[!.]*")
        files = {file: path.read_bytes() for file, path in paths.items()}
    else:
        files = made_module(name, repo_id)
    address = f"{endpoint}/spaces/{repo_id}/resolve/main"
    requirements_text, wheels = requirements(files["requirements.txt"].decode(), install, address)
    card = re.sub(
        r"^```python\n.*?^```$",
        lambda code: code[0].replace(f'evaluate.load("metrics/{name}"', f'evaluate.load("{repo_id}"'),
        files[CARD].decode("utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    return Plan(
        "space",
        {
            **files,
            "requirements.txt": requirements_text.encode("utf-8"),
            CARD: card.encode("utf-8"),
            **{wheel.name: wheel for wheel in wheels},
        },
        "evaluate.load('{repo}', revision='{commit}')",
        lambda names: [name for name in names if name.endswith((".py", ".whl"))],
        name,
        [f"{wheel.name} goes into the Space, where everybody can download it" for wheel in wheels],
    )


def made_module(name: str, repo_id: str) -> dict[str, bytes]:
    """A metric that ships no module → name and content of the files of one."""
    kind: Any = METRICS.get(name)
    package = kind.__module__.partition(".")[0]
    minor = ".".join(__version__.split(".")[:2])
    requirements = [f"capscore[app]>={minor}"]
    imports = ["import capscore  # From: capscore"]
    licence = "apache-2.0"
    if package != "capscore":
        distribution = next(iter(packages_distributions().get(package, ())), "")
        if not distribution:
            raise InputError(f"the metric {name!r} is in no installed package, so a Space cannot install it")
        requirements.append(f"{distribution}=={version(distribution)}")
        imports.append(f"import {package}  # From: {distribution}")
        licence = "other"
    about = inspect.cleandoc(kind.__doc__ or kind.title).partition("\n\nArgs:")[0]
    front = {
        "title": kind.title,
        "emoji": "🍏",
        "sdk": "gradio",
        "app_file": "app.py",
        "pinned": False,
        "license": licence,
        "tags": ["evaluate", "metric", "image-captioning"],
        "description": about.partition("\n")[0],
    }
    options = [f"- `{option.name}`: {option.help}" for option in options_of(name).values()]
    values = {
        "name": name,
        "title": kind.title,
        "imports": "\n".join(imports),
        "front": yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=110),
        "about": about,
        "requirement": requirements[-1].partition("[")[0],
        "repo_id": repo_id,
        "direction": "Higher" if kind.higher_is_better else "Lower",
        "options": "\n".join(options),
        "citation": "\n\n".join(f"```bibtex\n{entry}\n```" for entry in kind.citation) or "None is stated.",
    }
    files = {"requirements.txt": "\n".join([*requirements, ""])}
    for file, template in ((f"{name}.py", "module.py.txt"), ("app.py", "app.py.txt"), (CARD, "card.md")):
        files[file] = _template(template).format(**values)
    return {file: text.encode("utf-8") for file, text in files.items()}


def _template(name: str) -> str:
    return Path(__file__).with_name("templates").joinpath(name).read_text(encoding="utf-8")


def requirements(text: str, install: Sequence[str], address: str) -> tuple[str, list[Path]]:
    """The requirements.txt of a Space, and the wheels that it names, which are put at that address."""
    if [*install] == [RELEASE]:
        return _REQUIREMENT.sub(rf"\1\2=={__version__}", text), []
    wheels = {_distribution(path): Path(path) for path in install}
    used: list[Path] = []

    def line(match: re.Match[str]) -> str:
        name, extras = match.groups()
        if name not in wheels:
            raise InputError(Setting("install"), f": the Space needs the wheel of {name} too")
        used.append(wheels[name])
        return f"{name}{extras} @ {address}/{wheels[name].name}"

    return _REQUIREMENT.sub(line, text), used


def _distribution(wheel: str) -> str:
    """The distribution that is in a wheel of this version."""
    name, number, *_ = [*Path(wheel).name.split("-"), ""]
    if number != __version__ or not zipfile.is_zipfile(wheel):
        expected = f": expected release, or wheels of capscore {__version__}"
        raise InputError(Setting("install", wheel), expected)
    return name.replace("_", "-")


# ---- benchmarks ----


def may_be_published(slug: str) -> bool:
    """Whether the licence of a benchmark's annotations lets anybody pass them on."""
    return RepoCard(card_of(slug)).data.get("license") in MAY_BE_PASSED_ON


def plan_benchmark(
    slug: str,
    repo_id: str,
    workshop: Path,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Plan:
    """List what to publish of a benchmark."""
    if not may_be_published(slug):
        how = _template("how_to_get.md").format(slug=slug)
        section = re.compile(r"^## How to load\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
        card = section.sub(lambda _: how, card_of(slug))
        builder = builder_class(slug)
        files = {f"builder/{slug}.py": Path(inspect.getfile(builder))}
        licence = builder.LICENSE
        note = f"the licence ({licence}) does not permit redistribution: only card and builder are published"
        loads = f"capscore.load_benchmark({slug!r}, data_dir=…)"
    else:
        folder = export_benchmark(slug, workshop / slug, configs, data_dir=data_dir, images=False, say=say)
        card = (folder / CARD).read_text(encoding="utf-8").replace("path/or/id/of/this/folder", repo_id)
        files = files_in(folder)
        note = "photos are not published: they have their own licences"
        first = read_card(folder / CARD).data["configs"][0]["config_name"]
        loads = f"load_dataset('{{repo}}', {first!r}, revision='{{commit}}')"
    return Plan(
        "dataset",
        {**files, CARD: card.encode("utf-8")},
        loads,
        lambda names: [name for name in names if name.endswith(".parquet")],
        slug,
        [note],
    )
