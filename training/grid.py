"""Search the weights of PR-MCS's losses over a grid: one run each, a table, and the pick of a stated rule.

    python -m training.grid --config training/configs/pr_mcs.yaml --base embedded --data captions.jsonl \
        --out runs/grid --lambda_1_values 0.1 0.5 --lambda_2_values 0.05 --lambda_3_values 0.05

In: the settings of `training.pr_mcs` and three lists. Out: a folder per run, `grid.json`, and a table. The
same command continues an interrupted search; finished runs are not repeated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from capscore.errors import CapscoreError, Setting
from capscore.files.write import write_text
from training.engine.checkpoints import MAY_CHANGE
from training.engine.config import main as run_as_command
from training.engine.config import parse, read_settings
from training.engine.processes import is_main_process, say
from training.engine.recipe import RESULT, SETTINGS
from training.pr_mcs import Settings, data_digests, train

TABLE = "grid.json"
# Settings in which a finished run may differ from the requested one: how it is watched, and what its card
# says.
_SAME_RUN = frozenset((*MAY_CHANGE, "name", "license", "data_license", "stored_dtype")) - {
    "epochs",
    "max_steps",
}


@dataclass
class GridSettings(Settings):
    """Settings of a search, besides those of each run. `lambda_1` to `lambda_3` are ignored.

    Kim et al. 2023 (App. B.2) tried 16 combinations with λ1 from 0 to 0.5, λ2 and λ3 from 0 to 0.1, without
    listing them; the defaults are 16 combinations in these ranges, including the paper's final one.

    Attributes:
        lambda_1_values, lambda_2_values, lambda_3_values: Values to try, in all combinations.
        min_original: Smallest mean score of unperturbed captions, as a share of the base's, for a run to be
            picked.
        min_agreement: Smallest "agreement_with_base" for a run to be picked; it replaces agreement with
            people, which needs rated captions.
    """

    lambda_1_values: list[float] = field(default_factory=lambda: [0.0, 0.1, 0.25, 0.5])
    lambda_2_values: list[float] = field(default_factory=lambda: [0.05, 0.1])
    lambda_3_values: list[float] = field(default_factory=lambda: [0.05, 0.1])
    min_original: float = 0.9
    min_agreement: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lambda_1_values", "lambda_2_values", "lambda_3_values"):
            values = getattr(self, name)
            if not values or not all(0 <= value < math.inf for value in values):
                raise CapscoreError(Setting(name, values), ": expected one or more weights of at least 0")
            if len(set(values)) != len(values):
                raise CapscoreError(Setting(name, values), ": a weight is named twice")
        if not self.validation_share and self.few_shot is None:
            raise CapscoreError(
                Setting("validation_share", 0), ": a search needs captions to measure its runs on"
            )

    @property
    def rule(self) -> str:
        """The rule that picks a run, in words."""
        return (
            f"Among the runs with original_of_base of at least {self.min_original:g} and "
            f"agreement_with_base of at least {self.min_agreement:g}, the run with the lowest drop_average; "
            "if several are equal, the run with the highest agreement_with_base."
        )

    def runs(self) -> list[Settings]:
        """The settings of each run; the first list varies slowest."""
        made = []
        lists = (self.lambda_1_values, self.lambda_2_values, self.lambda_3_values)
        for one, two, three in product(*lists):
            own: dict[str, Any] = {known.name: getattr(self, known.name) for known in fields(Settings)}
            own |= {"lambda_1": one, "lambda_2": two, "lambda_3": three}
            own["out"] = str(Path(self.out) / f"l1_{one:g}-l2_{two:g}-l3_{three:g}")
            made.append(Settings(**own))
        return made


@dataclass(frozen=True)
class GridRun:
    """A run of a search.

    Attributes:
        folder: Name of its folder within the folder of the search.
        lambda_1, lambda_2, lambda_3: Weights of the run.
        numbers: Numbers of `RobustnessCheck`; {} for a run that is not finished.
        problem: Why there are no numbers, "" if there are.
        counts: Whether the rule allows the run.
        picked: Whether the rule picks the run.
    """

    folder: str
    lambda_1: float
    lambda_2: float
    lambda_3: float
    numbers: dict[str, float | None]
    problem: str
    counts: bool
    picked: bool


def search(settings: GridSettings) -> list[GridRun]:
    """Do the runs that are not finished, and write `grid.json`.

    A run whose loss becomes infinite or NaN has a problem instead of numbers; the others continue.

    Raises:
        CapscoreError: bad settings or data; a folder that holds a run with other settings or data.
    """
    out = Path(settings.out).expanduser()
    digests = data_digests(settings)
    runs = settings.runs()
    found: list[tuple[dict[str, float | None], str]] = []
    base: dict[str, float | None] = {}
    for number, own in enumerate(runs, start=1):
        done = _finished(own, digests)
        if done is None:
            say(f"run {number} of {len(runs)}: {Path(own.out).name}")
            try:
                trained = train(own)
            except CapscoreError as error:
                if not any(Path(own.out).expanduser().glob("stopped-*.txt")):
                    raise  # not the loss: data or settings are wrong for all runs
                found.append(({}, str(error).partition("\n")[0]))
                continue
            if not trained.run.finished:
                found.append(({}, "not finished: the same command continues"))
                continue
            done = {"this": trained.evaluation, "base": trained.base}
        else:
            say(f"run {number} of {len(runs)}: {Path(own.out).name} is finished")
        found.append((done["this"], ""))
        base = base or done["base"]
    table = picked(settings, runs, found)
    if is_main_process():
        content = {"rule": settings.rule, "base": base, "runs": [asdict(run) for run in table]}
        write_text(
            out / TABLE, json.dumps(content, indent=2, ensure_ascii=False) + "\n", "table of the search"
        )
    return table


def picked(
    settings: GridSettings,
    runs: Sequence[Settings],
    found: Sequence[tuple[Mapping[str, float | None], str]],
) -> list[GridRun]:
    """Apply the rule: runs with their numbers or problems → the table.

    Args:
        settings: Limits of the rule.
        runs: Settings of the n runs.
        found: For each run its numbers by name, and a problem or "".
    """

    candidates: dict[int, tuple[float, float]] = {}  # row → drop, and agreement with its sign turned
    for row, (numbers, _) in enumerate(found):
        needed = [numbers.get(name) for name in ("original_of_base", "agreement_with_base", "drop_average")]
        original, agreement, drop = (math.nan if number is None else number for number in needed)
        passes = original >= settings.min_original and agreement >= settings.min_agreement
        if passes and all(map(math.isfinite, (original, agreement, drop))):
            candidates[row] = drop, -agreement
    best = min(candidates, key=lambda row: candidates[row], default=None)
    return [
        GridRun(
            folder=Path(own.out).name,
            lambda_1=own.lambda_1,
            lambda_2=own.lambda_2,
            lambda_3=own.lambda_3,
            numbers={
                name: None if value is None or not math.isfinite(value) else value
                for name, value in numbers.items()
            },
            problem=problem,
            counts=row in candidates,
            picked=row == best,
        )
        for row, (own, (numbers, problem)) in enumerate(zip(runs, found, strict=True))
    ]


def _finished(own: Settings, digests: Mapping[str, str]) -> dict[str, Any] | None:
    """The result of a finished run; None if the run is not finished.

    Raises:
        CapscoreError: the folder holds a run with other settings, or on other data.
    """
    path = Path(own.out).expanduser() / RESULT
    if not path.is_file():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        before = read_settings(path.parent / SETTINGS)
        data = result["data"]
        _ = result["this"], result["base"]
    except (OSError, ValueError, KeyError, TypeError, CapscoreError) as error:
        raise CapscoreError(f"{path.parent} holds a run that cannot be read: {error}; remove it") from error
    now = asdict(own)
    differ = [
        f"{name}={before.get(name)!r}, but {now[name]!r} was given"
        for name in now
        if name not in _SAME_RUN and before.get(name) != now[name]
    ]
    differ += [f"{name} has changed since" for name, digest in digests.items() if data.get(name) != digest]
    if differ:
        raise CapscoreError(f"{path.parent} holds a run with {'; '.join(differ)}. Give another folder as out")
    return result


def show(settings: GridSettings, table: Sequence[GridRun]) -> None:
    """Print the table, with drops and shares in percent."""
    from rich.console import Console
    from rich.table import Table

    names = {
        "drop_average": "drop %",
        "original_of_base": "original, % of base",
        "agreement_with_base": "agreement with base",
        "text_to_image_r@1": "text→image R@1 %",
    }
    view = Table("", "λ1", "λ2", "λ3", *names.values(), title="Search over the loss weights")
    for run in table:
        cells = []
        for name in names:
            number = run.numbers.get(name)
            scale = 1 if name == "agreement_with_base" else 100
            cells.append("–" if number is None else f"{scale * number:.{3 if scale == 1 else 1}f}")
        mark = "→" if run.picked else "" if run.counts else "×"
        view.add_row(mark, f"{run.lambda_1:g}", f"{run.lambda_2:g}", f"{run.lambda_3:g}", *cells)
    console = Console()
    console.print(view)
    for run in table:
        if run.problem:
            console.print(f"{run.folder}: {run.problem}", highlight=False, markup=False, soft_wrap=True)
    console.print(settings.rule, highlight=False, soft_wrap=True)
    if not any(run.picked for run in table):
        console.print("No run satisfies the rule (×), so none is picked.")


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    settings = parse(GridSettings, argv, "Search the weights of PR-MCS's losses over a grid.")
    table = search(settings)
    if is_main_process():
        show(settings, table)


if __name__ == "__main__":
    run_as_command(main)
