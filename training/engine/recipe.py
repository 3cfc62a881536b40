"""What the fine-tuning recipes share: settings, the command, and the files that a finished run leaves."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import torch
import xxhash
import yaml

from capscore.benchmarks.protocols.results import counted
from capscore.errors import CapscoreError, InputError, Setting
from capscore.files.write import write_text
from training.data.origin import Origin
from training.data.source import SourceSettings
from training.data.split import OfImages, Split, read_names, split_by_image
from training.engine.config import parse
from training.engine.loop import RunResult
from training.engine.loop_settings import LoopSettings
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.processes import device, say

RESULT = "result.json"
SETTINGS = "settings.yaml"
# Settings that change what a card says, or where things are, but not the weights.
NOT_IN_WEIGHTS = frozenset(
    ("data", "data_dir", "image_dir", "hold_out", "name", "license", "data_license", "stored_dtype")
)

Numbers = Mapping[str, float]


@dataclass
class RecipeSettings(LoopSettings, SourceSettings):
    """Settings of every fine-tuning recipe, besides those of the loop.

    Attributes:
        base: Backbone to start from, as `capscore.load_backbone` takes it.
        data: Files of captions, or data sets. If a file of the same name with .sources.json behind it lists
            the origins of the captions, the card cites them.
        validation_share: Share of the images for validation.
        hold_out: File with one id or name per line of images to leave out of everything.
        name: Name of the model for its card; "" for the name of the folder `out`.
        license: Licence of the weights, as the Hub writes it.
        stored_dtype: Type of the numbers in the saved weights.
    """

    out: str = ""
    base: str = ""
    needs_data: ClassVar[bool] = True

    data: list[str] = field(default_factory=list)
    validation_share: float = 0.1
    hold_out: str | None = None
    name: str = ""
    license: str = "unknown"
    stored_dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.base.strip():
            raise CapscoreError(
                "base is missing: the backbone to start from, such as ", Setting("base", "embedded")
            )
        if self.needs_data and not self.data:
            raise CapscoreError(
                "data is missing: files of captions, such as ", Setting("data", ["captions.jsonl"])
            )

    def split(self, captions: OfImages, few_shot: int | None = None) -> Split:
        """Captions to train on and to validate on, as `training.data.split.split_by_image` has them."""
        return split_by_image(
            captions,
            validation_share=self.validation_share,
            few_shot=few_shot,
            hold_out=read_names(self.hold_out) if self.hold_out else (),
            seed=self.seed,
        )


SettingsType = TypeVar("SettingsType", bound=RecipeSettings)


@dataclass(frozen=True)
class Trained:
    """Outcome of a recipe.

    Attributes:
        folder: Folder with the weights, if the run is finished.
        run: How far the run has come.
        evaluation: Last numbers on the validation captions; {} without any.
        base: The same numbers for what the weights are compared with.
        n_training: Number of captions trained on.
        n_validation: Number of captions left for validation.
    """

    folder: Path
    run: RunResult
    evaluation: dict[str, float]
    base: dict[str, float]
    n_training: int
    n_validation: int


def run_recipe(
    module: str,
    settings: type[SettingsType],
    train: Callable[..., Trained],
    argv: Sequence[str] | None,
    description: str,
) -> None:
    """Run a recipe's command, and say on stderr how it ended.

    Args:
        module: Name of the recipe's module, for the command on the card.
        settings: Class of its settings.
        train: The recipe: (settings, command=…) → outcome.
        argv: Command line without the program's name; None for the command line of this process.
        description: What the command does, for `--help`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    trained = train(
        parse(settings, arguments, description), command=f"python -m {module} {shlex.join(arguments)}"
    )
    say(f"saved to {trained.folder}" if trained.run.finished else "not finished: the same command continues")


def own_settings(settings: LoopSettings, besides: Collection[str]) -> dict[str, Any]:
    """A recipe's settings that make a run what it is: neither the loop's nor in `besides`."""
    others = {known.name for known in fields(LoopSettings)} | set(besides)
    return {name: value for name, value in asdict(settings).items() if name not in others}


def file_digests(paths: Sequence[str]) -> dict[str, str]:
    """Digest of each file of the data; folders have none.

    Raises:
        InputError: a file cannot be read.
    """
    digests = {}
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            continue
        digest = xxhash.xxh3_128()
        try:
            with open(path, "rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
        except OSError as error:
            raise InputError(f"{given} cannot be read: {error.strerror or error}", field="data") from None
        digests[given] = digest.hexdigest()
    return digests


def finite(numbers: Mapping[str, Numbers]) -> dict[str, dict[str, float | None]]:
    """Named groups of numbers, ready for JSON: None for a number that is not finite."""
    return {which: {name: _or_none(value) for name, value in part.items()} for which, part in numbers.items()}


def write_settings(folder: Path, settings: LoopSettings) -> None:
    """Write the settings of a run, which `--config` reads, into a folder."""
    text = yaml.safe_dump(asdict(settings), sort_keys=False, allow_unicode=True)
    write_text(folder / SETTINGS, text, "settings")


def write_run(
    settings: RecipeSettings,
    trained: Trained,
    *,
    recipe: str,
    command: str,
    languages: Sequence[str],
    shown: Mapping[str, Any],
    sources: Sequence[Origin],
    split: Split,
    images: str,
    n_measured: int,
    missing: str,
    no_shares: Collection[str] = (),
    limitations: Sequence[str] = (),
    not_measured: Sequence[str] = ("Agreement with human ratings.",),
    summary: Mapping[str, Any],
) -> None:
    """Write the settings, the card and the result of a finished run into its folder.

    Args:
        settings: Settings of the run.
        trained: Its outcome.
        recipe: Name of the recipe on the card.
        command: Command that trains the weights again; "" for one with the run's own settings file.
        languages: Languages of the training captions.
        shown: Settings for the card.
        sources: Origins of the captions.
        split: Split of the captions.
        images: What the card calls the images.
        n_measured: Number of validation captions that were measured, 0 without validation.
        missing: Number that a reader would look for, for the card without validation.
        no_shares: Names of the numbers that are no shares.
        limitations: Sentences for the card.
        not_measured: Sentences for the card on what was not measured.
        summary: Further entries of `RESULT`.
    """
    out = trained.folder
    command = command or f"python -m training.{recipe} --config {SETTINGS}"
    write_settings(out, settings)
    results = [Result("validation split", missing, None)]
    if n_measured:
        results = [
            Result(
                data="validation split",
                metric=name,
                metric_name=name.replace("_", " "),
                value=_or_none(value),
                base_value=_or_none(trained.base[name]),
                unit="" if name in no_shares else "share",
                command=command,
                rows=n_measured,
            )
            for name, value in trained.evaluation.items()
        ]
    card = ModelCard(
        name=settings.name or out.resolve().name,
        recipe=recipe,
        base=settings.base,
        languages=languages,
        license=settings.license,
        command=command,
        settings={name: value for name, value in shown.items() if name not in ("out", "name")},
        data=[part for source in sources for part in source.described()],
        held_out=_held_out(split, sources, images),
        results=results,
        not_measured=not_measured,
        limitations=limitations,
        compute=f"{torch.device(device()).type}, {trained.run.seconds / 60:.1f} minutes",
    )
    write_card(out, card)
    result = {
        "step": trained.run.step,
        "n_training": trained.n_training,
        "n_validation": trained.n_validation,
        **summary,
    }
    write_text(out / RESULT, json.dumps(result, indent=2, ensure_ascii=False) + "\n", "result")


def _held_out(split: Split, sources: Sequence[Origin], images: str) -> str:
    own = "nothing"
    if len(split.validation):
        own = (
            f"{counted(len(split.validation), 'caption')} of {images} that no training caption has, for the "
            "validation below"
        )
    if split.n_held_out:
        own += f"; {counted(split.n_held_out, 'caption')} of {images} on a list, for nothing here"
    return "; ".join([*(source.held_out for source in sources if source.held_out), own])


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
