"""What the fine-tuning recipes share: settings, the command, and the files that a finished run leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import torch
import yaml
from torch import nn

from capscore.backbones import find
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.errors import CapscoreError, Setting
from capscore.files.write import write_text
from capscore.tables import counted
from training.data.batches import Batches
from training.data.photos import Photos, read_names
from training.data.source import Origin, SourceSettings
from training.data.split import Split, split_by_image
from training.engine.config import parse
from training.engine.early_stopping import EarlyStopping
from training.engine.loop import Loss, RunResult, run
from training.engine.loop_settings import LoopSettings
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.processes import device, say
from training.engine.training_log import LOG, for_json

RESULT = "result.json"
SETTINGS = "settings.yaml"
WEIGHTS = "model.safetensors"


@dataclass
class RecipeSettings(LoopSettings, SourceSettings):
    """Settings of every fine-tuning recipe, besides those of the loop.

    Attributes:
        base: Backbone to start from, as `capscore.load_backbone` takes it.
        data: Files of captions, or data sets. If a file FILE.sources.json lists the origins of the captions,
            the card cites them.
        validation_share: Share of the images for validation.
        hold_out: File with one id or name per line of images to leave out of everything.
        name: Name of the model for its card; "" for the name of the folder `out`.
        license: Licence of the weights, as the Hub writes it.
        stored_dtype: Type of the numbers in the saved weights.
    """

    needs_data: ClassVar[bool] = True
    recipe_name: ClassVar[str]  # name in `training.engine.model_card.RECIPES`
    module: ClassVar[str]  # whose command trains such weights
    # settings that change what a card says, or where things are, but not the weights
    not_in_weights: ClassVar[frozenset[str]] = frozenset(
        ("data", "data_dir", "image_dir", "hold_out", "name", "license", "data_license", "stored_dtype")
    )

    out: str = ""
    base: str = ""
    data: list[str] = field(default_factory=list)
    validation_share: float = 0.1
    hold_out: str | None = None
    name: str = ""
    license: str = "unknown"
    stored_dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.base.strip():
            raise CapscoreError("no base: give the backbone to start from, as ", Setting("base", "embedded"))
        if self.needs_data and not self.data:
            raise CapscoreError("no data: give files of captions, as ", Setting("data", ["captions.jsonl"]))
        if self.hold_out:  # read again later; what is wrong with it ends a run at once
            read_names(self.hold_out)

    def split(self, photos: Photos, **how: Any) -> Split:
        """Captions to train on and to validate on, as `training.data.split.split_by_image` has them."""
        hold_out = read_names(self.hold_out) if self.hold_out else ()
        share, seed = self.validation_share, self.seed
        return split_by_image(photos, validation_share=share, hold_out=hold_out, seed=seed, **how)


SettingsType = TypeVar("SettingsType", bound=LoopSettings)


class Check(Protocol):
    """Measures a run on `n` validation captions; `base_numbers` are what the weights are compared with."""

    n: int
    base_numbers: dict[str, float]

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, float]: ...


@dataclass(frozen=True)
class Trained:
    """Outcome of a recipe, whose weights are in `folder` if the run is finished.

    `evaluation` are the last numbers on the `n_measured` validation captions, `base` those compared with.
    """

    folder: Path
    run: RunResult
    evaluation: dict[str, float]
    base: dict[str, float]
    split: Split
    n_measured: int

    @property
    def finished(self) -> bool:
        return self.run.finished

    @property
    def numbers(self) -> dict[str, dict[str, float | None]]:
        """The numbers of "this" and of the "base", ready for JSON: None for one that is not finite."""
        return {"this": for_json(self.evaluation), "base": for_json(self.base)}


def run_measured(
    settings: RecipeSettings,
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    *,
    split: Split,
    check: Check | None,
    measured: Sequence[object] = (),
    identity: Mapping[str, object],
    early_stopping: EarlyStopping | None = None,
) -> Trained:
    """Run the loop, measured by a check, which is called with `measured`; the model is then in eval mode.

    `identity` is what makes the run what it is besides the settings; other arguments as of `loop.run`.
    """

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        return check(*measured) if check is not None else {}

    found = run(
        model,
        batches,
        loss,
        settings,
        evaluate=None if check is None else evaluate,
        identity={**own_settings(settings, settings.not_in_weights), **identity},
        early_stopping=early_stopping,
    )
    model.eval()
    base, n = ({}, 0) if check is None else (check.base_numbers, check.n)
    return Trained(Path(settings.out).expanduser(), found, found.evaluation, base, split, n)


def say_data(split: Split, check: Check | None, *more: str) -> None:
    n_measured = 0 if check is None else check.n
    say("; ".join([split.described(n_measured), *more]))


def run_folder(settings: LoopSettings) -> Path:
    """The folder of a run; a CapscoreError where it has weights that no run wrote into it."""
    out = Path(settings.out).expanduser()
    if (out / WEIGHTS).is_file() and not (out / LOG).is_file():
        raise CapscoreError(f"{out} has the weights of another model: give another folder as out")
    return out


def run_recipe(
    settings: type[SettingsType],
    train: Callable[[SettingsType], Trained | RunResult],
    argv: Sequence[str] | None,
    description: str,
) -> None:
    """Run a recipe with the settings of a command line (`parse`), and say on stderr how it ended."""
    given = parse(settings, argv, description)
    finished = train(given).finished
    say(f"saved to {given.out}" if finished else "not finished: the same command continues")


def own_settings(settings: LoopSettings, besides: Collection[str]) -> dict[str, object]:
    """A recipe's settings that make a run what it is: neither the loop's nor in `besides`."""
    others = {known.name for known in fields(LoopSettings)}.union(besides)
    return {name: value for name, value in asdict(settings).items() if name not in others}


def shown_settings(settings: LoopSettings, **measured: object) -> dict[str, object]:
    """A run's settings for its card, with what the run found where a setting leaves it open."""
    shown = {**asdict(settings), **measured}
    return {name: value for name, value in shown.items() if name not in ("out", "name")}


def write_settings(folder: Path, settings: LoopSettings) -> None:
    """Write the settings of a run, which `--config` reads, into a folder that may be published.

    They leave `out` open, and name files of this machine without their folders.
    """
    stated = {name: _without_folders(value) for name, value in asdict(settings).items() if name != "out"}
    text = yaml.safe_dump(stated, sort_keys=False, allow_unicode=True)
    write_text(folder / SETTINGS, text, "settings")


def _without_folders(value: object) -> object:
    """A setting in which paths that are there on this machine, or begin at its root, are names."""
    if isinstance(value, list):
        return [_without_folders(entry) for entry in value]
    if isinstance(value, str) and find(value) is None:
        path = Path(value).expanduser()
        if path.is_absolute() or path.exists():
            return path.name
    return value


def command_of(module: str) -> str:
    """The command that trains the weights again from the settings beside them."""
    return f"python -m {module} --config {SETTINGS} --out runs/again"


def compute_of(run: RunResult, digits: int = 1) -> str:
    """The machine and time of a run, for its card; digits: of the minutes, behind the point."""
    return f"{torch.device(device()).type}, {run.seconds / 60:.{digits}f} minutes"


def card_of(
    settings: Any, folder: Path, sources: Sequence[Origin], held_out: Sequence[str], /, **others: Any
) -> ModelCard:
    """The card of a run, with further attributes of `ModelCard`; its folder may name the model.

    The origins of the training data may say what was held out, and `held_out` what else was.
    """
    said = [source.held_out for source in sources if source.held_out]
    files = [source.file for source in sources if source.file.is_file()]
    stated: dict[str, Any] = {
        "name": settings.name or folder.resolve().name,
        "recipe": settings.recipe_name,
        "license": settings.license,
        "command": command_of(settings.module),
        "settings": shown_settings(settings),
        "data": [found for found in chain(*map(Origin.described, sources)) if found.rows != 0],
        "held_out": "; ".join(dict.fromkeys([*said, *held_out])) or "nothing",
        "inputs": {file.name: AnnotationSource(file).sha256() for file in files},
    }
    return ModelCard(**{**stated, **others})


def write_run(
    settings: RecipeSettings,
    trained: Trained,
    *,
    languages: Sequence[str],
    sources: Sequence[Origin],
    shown: Mapping[str, object] | None = None,
    limitations: Sequence[str] = (),
    not_measured: Sequence[str] = ("Agreement with human ratings.",),
    more: Mapping[str, object] | None = None,
) -> None:
    """Write the settings, the card and the result of a finished run into its folder.

    `shown` are settings that the run itself decided, for the card; `more` are further entries of `RESULT`.
    """
    out, split, numbers = trained.folder, trained.split, trained.numbers
    n_training, n_validation = split.sizes
    write_settings(out, settings)
    results, command, n = [], command_of(settings.module), trained.n_measured
    for name, value in numbers["this"].items():
        title, before = name.replace("_", " "), numbers["base"][name]
        results.append(Result("validation split", name, value, command, title, rows=n, base_value=before))
    held_out = []
    if n_validation:
        validated = counted(n_validation, "caption")
        held_out.append(f"{validated} of images that no training caption has, for the validation below")
    if split.held_out:
        held_out.append(f"{split.held_out}; they are not used here")
    card = card_of(
        settings,
        out,
        sources,
        held_out,
        base=settings.base,
        languages=languages,
        settings=shown_settings(settings, **(shown or {})),
        results=results,
        not_measured=not_measured,
        limitations=limitations,
        compute=compute_of(trained.run),
    )
    write_card(out, card)
    result = {
        "step": trained.run.step,
        "best_step": trained.run.best_step,
        "n_training": n_training,
        "n_validation": n_validation,
        **(more or {}),
        **numbers,
    }
    write_text(out / RESULT, json.dumps(result, indent=2, ensure_ascii=False) + "\n", "result")
