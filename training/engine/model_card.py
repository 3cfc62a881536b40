"""What a recipe knows about its run → the model card, README.md beside the weights, and `run.json`.

In: a `ModelCard`. Out: front matter for the Hub and a body for people (`model_card.md.jinja`), and the same
facts as JSON, which `read_card` reads back. A number that is not given appears as "not measured".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from capscore.backbones import find
from capscore.errors import CapscoreError, InputError, Setting
from capscore.files.write import write_text
from capscore.hub.push import CARD
from capscore.hub.weights import RUN
from capscore.metrics.rows import parse_signature
from capscore.text.languages import NAMES, language_code
from training.data.source import DataSource

_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Result:
    """A number that was measured, or that a reader would look for and that was not measured (None).

    `data` is a data set or the folder of a benchmark, and `metric` an identifier, such as "mean_drop", with
    `metric_name` for people. `command` measures it again. The interval is of 95 %; `rows` were scored.
    """

    data: str
    metric: str
    value: float | None
    command: str = ""
    metric_name: str = ""
    unit: str = ""
    language: str = ""
    split: str = ""
    rows: int | None = None
    base_value: float | None = None
    interval: tuple[float, float] | None = None
    signature: str = ""


@dataclass(frozen=True)
class ModelCard:
    """Content of a card; its recipe is one of `RECIPES`.

    `base` is the backbone whose text tower was fine-tuned or whose embeddings the network reads, the encoder
    that the student started from, or the networks that the image tower started from; `image_tower` is "" for
    the base's own. `command` trains the weights again with the `settings`; `inputs` are the names of the
    files that the run read, each with its SHA-256.
    """

    name: str
    recipe: str
    base: str
    languages: Sequence[str]
    license: str
    command: str
    settings: Mapping[str, object]
    data: Sequence[DataSource]
    held_out: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    results: Sequence[Result] = ()
    not_measured: Sequence[str] = ()
    limitations: Sequence[str] = ()
    teacher: str = ""
    image_tower: str = ""
    compute: str = ""


class Recipe(NamedTuple):
    """What cards of a recipe have in common, as model_cards.yaml describes it."""

    metric: str
    about_base: str
    tags: Sequence[str]
    thing: str = "tower"
    compared: str = "base"
    option: str = "backbone"


_ABOUT = yaml.safe_load(Path(__file__).with_name("model_cards.yaml").read_text("utf-8"))
RECIPES = {name: Recipe(**about) for name, about in _ABOUT.items()}


def write_card(folder: str | Path, card: ModelCard) -> Path:
    """Write the card of a model as README.md into the folder of its weights, and its facts as `run.json`.

    Returns the README.md. A CapscoreError says that the card is incomplete, or that a README.md that no
    recipe wrote, or that was edited since, is kept.
    """
    path, text = Path(folder) / CARD, card_text(card)
    if path.exists():
        written = _facts(folder)[0] if (Path(folder) / RUN).is_file() else None
        if _digest(path.read_bytes()) != written:
            raise CapscoreError(f"{path} was not written by a recipe, or was edited since: move it away")
    write_text(path, text, "model card")
    facts = json.dumps({"card": _digest(text.encode()), **asdict(card)}, indent=2, ensure_ascii=False)
    write_text(Path(folder) / RUN, f"{facts}\n", "facts of the run")
    return path


def read_card(folder: str | Path) -> ModelCard:
    """The content of the card in a folder, from its `run.json`; an InputError if it is damaged or missing."""
    return _facts(folder)[1]


def _facts(folder: str | Path) -> tuple[str, ModelCard]:
    """The digest of the card that was written last, and its content."""
    path = Path(folder) / RUN
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        data = [DataSource(**source) for source in said.pop("data")]
        results = [Result(**result) for result in said.pop("results")]
        return said.pop("card"), ModelCard(data=data, results=results, **said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} does not have the facts of a card: {error}", field="weights") from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def card_text(card: ModelCard) -> str:
    """The text of a card's README.md; errors as in `write_card`."""
    from huggingface_hub import ModelCard as HubCard

    _check(card)
    recipe, base_licence, licence = RECIPES[card.recipe], _licence_of(card.base), card.license
    if licence == "unknown":  # the weights come from the base
        licence = base_licence or licence
    codes = [language_code(language) for language in card.languages]
    argument = f'{recipe.option}="path/to/this/folder"'
    if recipe.option != "backbone":
        argument = f'backbone="{_anonymous(card.base)}", {argument}'
    written = HubCard.from_template(
        _front_matter(card, licence),
        template_path=str(_TEMPLATE),
        card=card,
        recipe=recipe,
        codes=codes,
        names=NAMES,
        licence=licence,
        base_licence=base_licence,
        argument=argument,
        settings=_anonymous(yaml.safe_dump(dict(card.settings), sort_keys=False, allow_unicode=True)),
        measured=any(result.value is not None for result in card.results),
        anonymous=_anonymous,
        cell=lambda text: " ".join(str(text).split()).replace("|", r"\|"),
        number=lambda value: "not measured" if value is None else f"{value:.4g}",
        count=lambda rows: "not counted" if rows is None else f"{rows:,}",
    )
    return f"{written}\n"


def _licence_of(base: str) -> str:
    """Licence of a backbone, as the Hub writes it: of a registered one, or as the card in its folder says."""
    from capscore.hub.push import read_card as read_front_matter

    known, path = find(base.partition("@")[0]), Path(base).expanduser() / CARD
    if known is not None:
        return known.licence.lower()
    if base and path.is_file():
        return str(read_front_matter(path).data.get("license") or "").lower()
    return ""


def _check(card: ModelCard) -> None:
    if card.recipe not in RECIPES:
        raise CapscoreError(Setting("recipe", card.recipe), f": expected one of {', '.join(RECIPES)}")
    for name in ("name", "base", "license", "command", "languages", "settings", "data"):
        value = getattr(card, name)
        if not value or not str(value).strip():
            raise CapscoreError(f"a model card needs {name}; it is empty")
    for row, source in enumerate(card.data):
        if not source.name or not source.license:
            raise InputError("needs a name and a licence (which may be 'unknown')", row=row, field="data")


def _front_matter(card: ModelCard, licence: str) -> Any:
    """What the Hub reads: `huggingface_hub.ModelCardData`."""
    from huggingface_hub import EvalResult, ModelCardData

    measured = [result for result in card.results if result.value is not None]
    found = [
        EvalResult(
            task_type="image-to-text",
            task_name="Evaluation of image captions",
            dataset_type=result.data,
            dataset_name=result.data,
            dataset_config=result.language or None,
            dataset_split=result.split or None,
            metric_type=result.metric,
            metric_name=result.metric_name or result.metric,
            metric_value=result.value,
            metric_args=_parts(result) or None,
        )
        for result in measured
    ]
    tags = ("image-captioning", "evaluation", card.recipe.replace("_", "-"), *RECIPES[card.recipe].tags)
    return ModelCardData(
        language=[language_code(language) for language in card.languages],
        license=licence,
        library_name="capscore",
        pipeline_tag="feature-extraction",
        tags=list(dict.fromkeys(tags)),
        base_model=_hub_id(card.base),
        # the Hub knows data sets by their ids; others are named in the text
        datasets=[source.hub_id for source in card.data if source.hub_id] or None,
        metrics=list(dict.fromkeys(result.metric for result in measured)) or None,
        model_name=card.name if found else None,  # the Hub allows the name only with results
        eval_results=found or None,
    )


def _parts(result: Result) -> dict[str, object]:
    """What a number depends on: the parts of its signature, and the number of rows."""
    parts: dict[str, object] = {}
    if result.signature:
        scorer, settings = parse_signature(result.signature)
        parts = {"scorer": scorer, **settings}
    return parts if result.rows is None else {**parts, "rows": result.rows}


def _hub_id(base: str) -> str | None:
    """The Hub id of a base that is on the Hub; None for any other base."""
    from capscore.backbones import repository_of

    plain = base.removeprefix("open_clip:").removeprefix("hf-hub:").partition("@")[0]
    if known := find(plain):
        plain = repository_of(known)
    return plain if _HUB_ID.fullmatch(plain) else None


def _anonymous(text: str) -> str:
    """The text with local paths shortened to their last part, which would reveal the machine.

    >>> _anonymous("python -m training.pr_mcs --config /srv/us/own.yaml out=~/runs/7 https://a.org/b")
    'python -m training.pr_mcs --config …/own.yaml out=…/7 https://a.org/b'
    """
    return re.sub(
        r"""(?<![^\s='",:])(~|[A-Za-z]:)?[/\\](?:[^\s/\\'",]+[/\\])*([^\s/\\'",]+)""", r"…/\2", text
    )
