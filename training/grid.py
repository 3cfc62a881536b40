"""Search the weights of PR-MCS's losses over a grid: one run each, a table, and the pick of a stated rule.

    python -m training.grid --config training/configs/pr_mcs.yaml --base embedded --data captions.jsonl \
        --out runs/grid --lambda_1_values 0.1 0.5 --lambda_2_values 0.05 --lambda_3_values 0.05

In: the settings of `training.pr_mcs` and three lists. Out: a folder per run, `grid.json`, and a table. The
same command continues an interrupted search; finished runs are not trained again.
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
from capscore.tables import Report, Table, fixed
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.processes import is_main_process, say
from training.pr_mcs import Settings, train

TABLE = "grid.json"
# Columns of the table → number of a run, and what it is multiplied by.
_COLUMNS = {
    "drop %": ("drop_average", 100),
    "original, % of base": ("original_of_base", 100),
    "agreement with base": ("agreement_with_base", 1),
    "text→image R@1 %": ("text_to_image_r@1", 100),
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
            right = bool(values) and all(0 <= value < math.inf for value in values)
            if not right or len(set(values)) != len(values):
                raise CapscoreError(Setting(name, values), ": expected weights of at least 0, each once")
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
        for one, two, three in product(self.lambda_1_values, self.lambda_2_values, self.lambda_3_values):
            own: dict[str, Any] = {known.name: getattr(self, known.name) for known in fields(Settings)}
            own |= {"lambda_1": one, "lambda_2": two, "lambda_3": three}
            own["out"] = str(Path(self.out) / f"l1_{one:g}-l2_{two:g}-l3_{three:g}")
            made.append(Settings(**own))
        return made


@dataclass
class GridRun:
    """A run of a search.

    Attributes:
        folder: Name of its folder within the folder of the search.
        lambdas: Weights of the run.
        numbers: Numbers of `RobustnessCheck`; {} for a run that is not finished.
        problem: Why there are no numbers, "" if there are.
        picked: Whether the rule picks the run.
    """

    folder: str
    lambdas: tuple[float, float, float]
    numbers: Mapping[str, float | None]
    problem: str = ""
    picked: bool = False


def search(settings: GridSettings) -> list[GridRun]:
    """Do the runs that are not finished, and write `grid.json`.

    A run whose loss becomes infinite or NaN has a problem instead of numbers; the others continue.

    Raises:
        CapscoreError: bad settings or data; a folder that holds a run with other settings or data.
    """
    table: list[GridRun] = []
    base: Mapping[str, float | None] = {}
    runs = settings.runs()
    for number, own in enumerate(runs, start=1):
        out = Path(own.out).expanduser()
        say(f"run {number} of {len(runs)}: {out.name}")
        row = GridRun(out.name, (own.lambda_1, own.lambda_2, own.lambda_3), {})
        table.append(row)
        try:
            trained = train(own)
        except CapscoreError as error:
            if not any(out.glob("stopped-*.txt")):
                raise  # not the loss: data or settings are wrong for all runs
            row.problem = str(error).partition("\n")[0]
            continue
        if not trained.run.finished:
            row.problem = "not finished: the same command continues"
            continue
        row.numbers, base = trained.numbers["this"], base or trained.numbers["base"]
    best = pick(settings, [row.numbers for row in table])
    if best is not None:
        table[best].picked = True
    if is_main_process():
        content = {"rule": settings.rule, "base": base, "runs": [asdict(row) for row in table]}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_text(Path(settings.out).expanduser() / TABLE, text, "table of the search")
    return table


def pick(settings: GridSettings, runs: Sequence[Mapping[str, float | None]]) -> int | None:
    """Apply the rule: numbers of the runs → the index of the best one, None where none passes.

    >>> limits = GridSettings(out="grid", base="embedded", data=["captions.jsonl"])
    >>> few = {"original_of_base": 0.8, "agreement_with_base": 1.0, "drop_average": -0.9}
    >>> pick(limits, [few, {**few, "original_of_base": 0.95, "drop_average": -0.4}, {}])
    1
    """
    passing: dict[int, tuple[float, float]] = {}  # drop, and agreement with its sign turned
    for index, numbers in enumerate(runs):
        needed = [numbers.get(name) for name in ("original_of_base", "agreement_with_base", "drop_average")]
        original, agreement, drop = (math.nan if number is None else number for number in needed)
        if original >= settings.min_original and agreement >= settings.min_agreement and math.isfinite(drop):
            passing[index] = drop, -agreement
    return min(passing, key=lambda index: passing[index], default=None)


def report(settings: GridSettings, table: Sequence[GridRun]) -> Report:
    """The table of a search, with drops and shares in percent, the rule and the problems."""
    rows = []
    for run in table:
        cells = []
        for name, factor in _COLUMNS.values():
            number = run.numbers.get(name)
            cells.append(fixed(None if number is None else factor * number, 1 if factor == 100 else 3))
        rows.append(["→" if run.picked else "", *(f"{value:g}" for value in run.lambdas), *cells])
    remarks = [f"{run.folder}: {run.problem}" for run in table if run.problem]
    if not any(run.picked for run in table):
        remarks.append("No run satisfies the rule, so none is picked.")
    headings = ("picked", "λ1", "λ2", "λ3", *_COLUMNS)
    shown = Table(headings, rows, "Search over the loss weights", left=4)
    return Report("", [shown, settings.rule, *remarks])


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    from rich.console import Console

    settings = parse(GridSettings, argv, "Search the weights of PR-MCS's losses over a grid.")
    table = search(settings)
    if is_main_process():
        report(settings, table).print(Console())


if __name__ == "__main__":
    run_as_command(main)
