"""What the recipe of the gate knows about its run → the card of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from training.data.origin import DataSource, Origin
from training.engine.model_card import ModelCard, Result
from training.engine.recipe import SETTINGS
from weights.making.noise_gate.settings import NoiseGateSettings

VALIDATION = "validation captions"
_COMMAND = f"python -m weights.making.noise_gate --config {SETTINGS}"
_NOT_ON_CARD = ("out", "name", "license", "texts")
# Number of `NoiseGateCheck` → what the card calls it.
_NAMES = {"kept_right": "right captions, mean kept", "below_half": "right captions below half"}

# Of a language: number of right captions, mean share that they keep, share of them below half.
Groups = Mapping[str, tuple[int, float, float]]


def described(
    settings: NoiseGateSettings, *, command: str, results: Sequence[Result], compute: str
) -> ModelCard:
    """The card of a gate.

    Args:
        settings: Settings of its run.
        command: Command that trains it again; "" for one with the run's own settings file.
        results: Numbers that were measured.
        compute: Machine and time.
    """
    origins = [Origin(path, Path(path).name, "unknown") for path in settings.texts]
    held_out = list(dict.fromkeys(origin.held_out for origin in origins if origin.held_out))
    held_out.append(
        f"the captions of {settings.validation_share:.0%} of the photos, for the validation below"
    )
    return ModelCard(
        name=settings.name or Path(settings.out).resolve().name,
        recipe="noise_gate",
        base=settings.base,
        languages=sorted(settings.language_shares),
        license=settings.license,
        command=command or _COMMAND,
        settings={name: value for name, value in asdict(settings).items() if name not in _NOT_ON_CARD},
        data=[source for origin in origins for source in _counted(origin)],
        held_out="; ".join(held_out),
        results=results,
        not_measured=["Agreement with human ratings."] if not _is_rated(results) else [],
        compute=compute,
    )


def validation_results(numbers: Mapping[str, float], languages: Groups, n: int) -> list[Result]:
    """The numbers of `NoiseGateCheck` → results for the card.

    Args:
        numbers: Numbers of all validation samples.
        languages: Right ones by language.
        n: Number of the samples.
    """
    found = [
        Result(VALIDATION, name, value, _COMMAND, _title(name), "share", rows=n)
        for name, value in numbers.items()
        if not name.startswith("wanted_")
    ]
    for language, (rows, kept, below) in languages.items():
        for name, value in (("kept_right", kept), ("below_half", below)):
            found.append(
                Result(VALIDATION, name, value, _COMMAND, _NAMES[name], "share", language, rows=rows)
            )
    return found


def _title(name: str) -> str:
    return _NAMES.get(name) or f"{name.removeprefix('kept_')}, mean kept"


def _counted(origin: Origin) -> list[DataSource]:
    return [source for source in origin.described() if source.rows != 0]


def _is_rated(results: Sequence[Result]) -> bool:
    return any(result.metric.startswith("tau") for result in results)
