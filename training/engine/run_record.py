"""What a recipe records of a run besides the weights: its captions' origin, its identity, its results.

In: settings, data and numbers of a run. Out: what cards, `result.json` and checkpoints say of it, the same
way in every recipe.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from capscore.benchmark.protocols.results import counted
from capscore.errors import InputError
from training.data.split import Split
from training.engine.loop import RunResult
from training.engine.loop_settings import LoopSettings
from training.engine.model_card import DataSource, Result
from training.engine.processes import device, is_main_process

RESULT = "result.json"
# behind the name of a file of captions: what they come from
SOURCES = ".sources.json"

Row = TypeVar("Row")


class Origin:
    """Where the captions of a file or data set come from; counts them as they are read.

    Args:
        path: the file or folder. Where a file of its name with `SOURCES` behind it lies beside, that says
            what captions come from and what was held out.
        name: what a card calls it, where no such file does.
        license: of the captions, likewise.

    Raises:
        InputError: the file beside it is not what it should be.
    """

    def __init__(self, path: str, name: str, license: str):
        self.n, self.held_out = 0, ""
        self._alone = (name, license)
        self._parts: list[DataSource] = []
        beside = Path(f"{Path(path).expanduser()}{SOURCES}")
        if beside.is_file():
            try:
                self.held_out, self._parts = _said(json.loads(beside.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{beside} does not say what captions come from ({type(error).__name__}: {error}); "
                    'expected {"held_out": …, "sources": [{"name": …, "license": …, "rows": …}, …]}',
                    field="data",
                ) from None

    def described(self) -> list[DataSource]:
        """What the captions come from, for the card."""
        return self._parts or [DataSource(*self._alone, rows=self.n)]

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows; afterwards `n` is how many there were."""
        self.n = 0
        for row in rows:
            self.n += 1
            yield row


def _said(said: dict[str, Any]) -> tuple[str, list[DataSource]]:
    """What a file beside captions says: what was held out, and what they come from.

    Raises:
        KeyError, TypeError, ValueError: it is not what it should be.
    """
    if not isinstance(said, dict):
        raise TypeError(f"it holds {said!r:.60}")
    held_out, parts = said.get("held_out", ""), said["sources"]
    if not isinstance(held_out, str):
        raise TypeError(f"held_out is {held_out!r:.60}")
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"sources is {parts!r:.60}")
    for part in parts:
        if not isinstance(part, dict):
            raise TypeError(f"a source is {part!r:.60}")
        for name, value in part.items():
            if not isinstance(value, (int, type(None)) if name == "rows" else str):
                raise TypeError(f"{name} is {value!r:.60}")
    return held_out, [DataSource(**part) for part in parts]


def held_out(split: Split, origins: Sequence[Origin], images: str) -> str:
    """What was not trained on, for the card; `images` is what the recipe calls them."""
    own = (
        f"{counted(len(split.validation), 'caption')} of {images} that no training caption has, for the "
        "validation below"
        if len(split.validation)
        else "nothing"
    )
    if split.n_held_out:
        own += f"; {counted(split.n_held_out, 'caption')} of {images} on a list, for nothing here"
    return "; ".join([*(origin.held_out for origin in origins if origin.held_out), own])


def own_settings(settings: LoopSettings, besides: Collection[str]) -> dict[str, Any]:
    """A recipe's settings that make a run what it is: those that are neither the loop's nor in `besides`."""
    others = {known.name for known in fields(LoopSettings)} | set(besides)
    return {name: value for name, value in asdict(settings).items() if name not in others}


def results(
    evaluation: Mapping[str, float],
    base: Mapping[str, float],
    command: str,
    rows: int,
    no_shares: Collection[str] = (),
) -> list[Result]:
    """Numbers on the validation split for the card; all but those in `no_shares` are shares."""
    return [
        Result(
            data="validation split",
            metric=name,
            metric_name=name.replace("_", " "),
            value=or_none(value),
            base_value=or_none(base[name]),
            unit="" if name in no_shares else "share",
            command=command,
            rows=rows,
        )
        for name, value in evaluation.items()
    ]


def or_none(number: float) -> float | None:
    """A number as JSON can have it."""
    return number if math.isfinite(number) else None


def finite(numbers: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """Numbers of several parts as JSON can have them."""
    return {which: {name: or_none(value) for name, value in part.items()} for which, part in numbers.items()}


def as_yaml(settings: dict[str, Any]) -> str:
    """Settings as `--config` takes them."""
    import yaml

    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def machine_and_time(run: RunResult) -> str:
    """What a run was computed on, for the card."""
    import torch

    return f"{torch.device(device()).type}, {run.seconds / 60:.1f} minutes"


class Trained(Protocol):
    """What a recipe's `train` returns has at least these."""

    folder: Path
    run: RunResult


def train_and_say(train: Callable[[], Trained]) -> None:
    """Run a recipe's command, and say on stderr how it ended."""
    trained = train()
    if is_main_process():
        end = (
            f"saved to {trained.folder}" if trained.run.finished else "not finished: the same command goes on"
        )
        print(end, file=sys.stderr)
