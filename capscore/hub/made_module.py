"""A metric that ships no module → the files of one: code, card, demo, and what to install."""

from __future__ import annotations

import inspect
from importlib.metadata import packages_distributions, version
from typing import Any

from .. import __version__
from ..errors import InputError
from ..metrics.loading import options_of
from ..registry import METRICS
from .push import CARD

_CODE = '''"""{title} as an `evaluate` module. The library capscore does the work."""

{imports}


class Module(capscore.CaptionModule):
    """The metric of the same name, as `capscore.load` makes it."""

    metric = "{name}"

    @classmethod
    def describe(cls):
        return super().describe()
'''
_APP = '''"""Demo of {title}. `python app.py` starts it."""

from capscore.show.app import build_app, launch

demo = build_app("{name}")

if __name__ == "__main__":
    launch(demo)
'''
_CARD = """---
{front}---

# Metric: {title}

## Metric Description

{about}

## How to use

`pip install {requirement}`

```python
import capscore

scorer = capscore.load("{name}")
```

As a module of `evaluate`: `evaluate.load("{repo_id}")`. {direction} is better.

## Options

{options}

## Citation

{citation}
"""


def made_module(name: str, repo_id: str) -> dict[str, bytes]:
    """Name → content of the files of a metric's module."""
    import yaml

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
    files = {
        f"{name}.py": _CODE.format(**values),
        "app.py": _APP.format(**values),
        "requirements.txt": "\n".join([*requirements, ""]),
        CARD: _CARD.format(**values),
    }
    return {file: text.encode("utf-8") for file, text in files.items()}
