"""Cards of the shipped weights: from a recipe's run, and with figures that were measured later.

    python -m weights.making.cards --weights runs/image_tower --figures build/training/image_tower.json
    python -m weights.making.cards --weights runs/pr_mcs --figures build/training/pr_mcs.json

In: a folder of the recipe of the image tower or of the noise gate, and the file that
`weights.measuring.image_tower` or `weights.measuring.pr_mcs_alarms` writes with `--output`. Out: its
README.md, written again from its settings, from what the old card says of data and limits, and from the
figures of these weights. Figures of other weights are refused.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from capscore import load_backbone
from capscore.errors import CapscoreError, InputError
from training.data.origin import DataSource, Origin
from training.engine.config import main as run_as_command
from training.engine.model_card import ModelCard, Result, read_card, write_card
from training.engine.recipe import SETTINGS
from weights.making.captions import describe
from weights.making.image_tower.rows import COCO, FLICKR8K, SOURCES, TrainingRows
from weights.making.image_tower.settings import ImageTowerSettings
from weights.making.mark_calibration.settings import MarkCalibrationSettings
from weights.making.noise_gate.settings import NoiseGateSettings

_PHOTOS = {
    FLICKR8K: ("Flickr8k, photos", "for research only", "https://doi.org/10.1613/jair.3994"),
    COCO: ("COCO, photos of train2014", "terms of Flickr, photo by photo", "https://cocodataset.org"),
}
_NOT_ON_CARD = ("out", "name", "license", "data_license", "features", "rows", "boxes")
# Number of `NoiseGateCheck` → what the card calls it.
_CHECKED = {"kept_right": "right captions, mean kept", "below_half": "right captions below half"}
_DETECTOR = DataSource(
    "boxes of YOLOX-Nano in the training photos",
    "Apache-2.0",
    url="https://github.com/Megvii-BaseDetection/YOLOX",
    used_for="finding things",
)
_NAMES = DataSource(
    "names of emoji (Unicode CLDR)",
    "Unicode-3.0",
    url="https://cldr.unicode.org",
    used_for="names of rare things in 14 languages",
)
# Groups of figures of the image tower → data set and split on its card.
_RATED_SETS = {
    "expert": ("flickr8k_human", "expert"),
    "crowdflower": ("flickr8k_human", "crowdflower"),
    "pascal50s": ("pascal50s", "animals only"),
    "vicr": ("vicr", "public sample"),
}
_RATED = ("tau_b", "tau_c", "accuracy_hc", "accuracy_hi", "accuracy_hm", "accuracy_mm")
_DROPS = {"average": "average drop", "substitution": "drop under substitution"}
_STYLES = {
    "given": "as written",
    "lower": "in lower case, without the stop",
    "nouns": "noun phrases",
    "stopped": "noun phrases with a full stop",
    "paragraph": "paragraphs",
}


def _command(recipe: str) -> str:
    return f"python -m weights.making.{recipe} --config {SETTINGS}"


def _card(given: Any, module: str, files: Sequence[str] = (), **others: Any) -> ModelCard:
    """A card with what the given settings say; the data are those of the files of rows."""
    origins = [Origin(path, Path(path).name, "unknown") for path in files]
    hidden = (*_NOT_ON_CARD, "texts") if module == "noise_gate" else _NOT_ON_CARD
    shown = {name: value for name, value in asdict(given).items() if name not in hidden}
    others["settings"] = {**shown, **others.get("settings", {})}
    if files:
        data = [source for origin in origins for source in origin.described() if source.rows != 0]
        others["data"] = [*data, *others.get("data", ())]
        held_out = dict.fromkeys(origin.held_out for origin in origins if origin.held_out)
        others["held_out"] = "; ".join([*held_out, others["held_out"]])
    name = given.name or Path(given.out).resolve().name
    made = {"name": name, "recipe": module, "license": given.license, "command": _command(module)}
    return ModelCard(**{**made, **{key: value for key, value in others.items() if value or key not in made}})


# ----------------------------------------------------------------------- recipes


def image_tower_card(
    settings: ImageTowerSettings, *, w: float, languages: Sequence[str], **others: Any
) -> ModelCard:
    """The card of an image tower; others: further fields of `ModelCard`, of which `data` is needed."""
    base = "EfficientNet-Lite2 (ImageNet) and the text encoder of embedded-free"
    about = {"recipe": "eye", "base": base, "languages": languages, "settings": {"w": w}}
    return _card(settings, "image_tower", **about, **others)


def image_tower_data(settings: ImageTowerSettings, rows: TrainingRows) -> list[DataSource]:
    """The photos and captions of the rows by their sources, with licences and counts."""
    photos = Counter(row.source for row in rows.photos)
    found = [
        DataSource(name, terms, rows=photos[source], url=url)
        for source, (name, terms, url) in _PHOTOS.items()
        if photos[source]
    ]
    official: dict[str, Counter[str]] = defaultdict(Counter)
    others: Counter[str] = Counter()
    for (source, language), n in rows.counts.items():
        if source in SOURCES:
            official[language][source] += n
        else:
            others[source] += n
    found += [DataSource(**source) for source in describe(official)]
    if others[COCO]:
        found.append(DataSource("COCO Captions", "CC BY 4.0", others[COCO], "https://cocodataset.org"))
    for path in map(Path, [*settings.coco, *settings.labelled]):
        if others[path.name]:
            origin = Origin(str(path), path.name, settings.data_license)
            origin.n = others[path.name]
            found += origin.described()
    return found


def noise_gate_card(
    settings: NoiseGateSettings, *, command: str, results: Sequence[Result], compute: str
) -> ModelCard:
    """The card of a noise gate; without a command, it has one with the run's own settings file."""
    share = f"{settings.validation_share:.0%}"
    is_rated = any(result.metric.startswith("kendall_tau") for result in results)
    return _card(
        settings,
        "noise_gate",
        settings.texts,
        base=settings.base,
        languages=sorted(settings.language_shares),
        command=command,
        held_out=f"the captions of {share} of the photos, for the validation below",
        results=results,
        not_measured=[] if is_rated else ["Agreement with human ratings."],
        compute=compute,
    )


def validation_results(
    numbers: Mapping[str, float], languages: Mapping[str, tuple[int, float, float]], n: int
) -> list[Result]:
    """The numbers of `NoiseGateCheck` over n samples, and by language, → results for the card."""

    def result(metric: str, value: float, rows: int, language: str = "") -> Result:
        title = _CHECKED.get(metric) or f"{metric.removeprefix('kept_')}, mean kept"
        command = _command("noise_gate")
        return Result("validation captions", metric, value, command, title, "share", language, rows=rows)

    found = [result(name, value, n) for name, value in numbers.items() if not name.startswith("wanted_")]
    for language, (rows, kept, below) in languages.items():
        found += [result("kept_right", kept, rows, language), result("below_half", below, rows, language)]
    return found


def mark_calibration_card(
    settings: MarkCalibrationSettings, notes: Mapping[str, Any], *, command: str, compute: str
) -> ModelCard:
    """The card of a mark calibration; notes: what `weights.making.mark_calibration` records of it."""
    results = [
        Result(
            "calibration captions",
            f"{word_class}s_found",
            found,
            _command("mark_calibration"),
            f"wrong {word_class}s marked, at 5 % of right ones",
            "share",
            "" if language == "shared" else language,
        )
        for language, classes in notes["found"].items()
        for word_class, found in classes.items()
    ]
    n = notes["photos"]["calibrate"]
    return _card(
        settings,
        "mark_calibration",
        [settings.rows],
        base=settings.base,
        languages=sorted(language for language in notes["found"] if language != "shared"),
        command=command,
        data=[_DETECTOR, _NAMES],
        held_out=f"{n:,} of the held-out photos set the thresholds; nothing is measured on them",
        results=results,
        not_measured=[],
        compute=compute,
    )


# ----------------------------------------------------------------------- measured figures


def image_tower_results(
    measures: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]
) -> Iterator[Result]:
    """Figures of `weights.measuring.image_tower`, of a tower and of what it is compared with → results."""
    before = {figure["key"]: figure["value"] for figure in base}
    for figure in measures:
        group, *path, metric = figure["key"].split("/")
        if figure["value"] is None:
            continue
        language = "en"
        if group == "retrieval" and path[0] == "flickr8k_test" and metric.startswith("r@"):
            language = path[1].partition("_")[0]
            translated = path[1].startswith("en_of") or language in ("de", "fr", "cs")
            data, split = ("multi30k", "Flickr8k's test photos") if translated else ("flickr8k", "test")
        elif group in _RATED_SETS and (own := next((item for item in _RATED if item in figure["key"]), "")):
            (data, split), metric = _RATED_SETS[group], own
        else:
            continue
        yield Result(
            data=data,
            metric=metric,
            value=figure["value"],
            command="make measure-embedded-image-tower DATA=data PHOTOS=photos",
            metric_name=figure["title"],
            unit="%",
            language=language,
            split=split,
            rows=figure["n"],
            base_value=before.get(figure["key"]),
            interval=tuple(figure["interval"]) if figure["interval"] else None,
            signature=figure["signature"],
        )


def noise_gate_results(figures: Mapping[str, Any], name: str) -> Iterator[Result]:
    """What `weights.measuring.pr_mcs_alarms` writes of the backbone of this name, as results for a card."""
    command = "make measure-embedded DATA=data PHOTOS=photos DUTCH=dutch"

    def percent(data: str, metric: str, title: str, value: float | None, **others: Any) -> Result:
        return Result(data, metric, value, command, title, "%", **others)

    for part in figures["sets"]:
        own = part["results"][name]
        plain = next(result for other, result in part["results"].items() if other.startswith("mcs@"))
        for key, title in _DROPS.items():
            drops = [part["average"] if key == "average" else part["drops"].get(key) for part in (plain, own)]
            before, after = (None if drop is None else 100 * drop for drop in drops)
            place = {"language": part["language"], "rows": part["n_captions"]}
            yield percent(part["title"], f"drop_{key}", title, after, base_value=before, **place)
        for style, alarms in own["styles"].items():
            if alarms["below_half"] is not None and style in _STYLES:
                title = f"right captions below half of their MCS, {_STYLES[style]}"
                place = {"language": part["language"], "rows": alarms["n"]}
                value = 100 * alarms["below_half"]
                yield percent(part["title"], f"false_alarms_{style}", title, value, **place)
    for slug, by_name in figures["models"].items():
        title = "captions of captioning models below half of their MCS"
        data = "capeval1k, composite, thumb, polaris" if slug == "all" else slug
        value, n = 100 * by_name[name]["below_half"], by_name[name]["n"]
        yield percent(data, "false_alarms_models", title, value, language="en", rows=n)
    for title, by_name in figures["agreement"].items():
        before, after = by_name[name]
        place = {"base_value": before, "language": "en", "split": "expert"}
        yield percent("flickr8k_human", "kendall_tau_c", title, after, **place)
    for title, by_name in figures["search"].items():
        for k, (before, after) in by_name[name].items():
            yield percent("flickr8k", k.lower(), f"{title}, {k}", after, base_value=before, split="test")


def measured_card(
    weights: Path, figures: Path, *, base: str = "embedded-free", command: str = "", name: str = ""
) -> ModelCard:
    """The card of weights with the figures of these weights; arguments are those of the command.

    Raises:
        InputError: the file is missing, damaged, or has no figures of these weights.
        CapscoreError: the folder has no weights, or its card is none of a recipe.
    """
    backbone = load_backbone(str(weights), device="cpu")
    try:
        content = json.loads(figures.read_text(encoding="utf-8"))
        measured = [
            item if isinstance(item, str) else f"{item['name']}@{item['backbone']['revision']}"
            for item in content["backbones"]
        ]
        rows = [row for row, item in enumerate(measured) if item.rpartition("@")[2] == backbone.revision]
        if not rows:
            known = ", ".join(measured) or "nothing"
            raise InputError(f"{figures} has figures of {known}, not of {weights}, {backbone.revision}")
        if "sets" in content:
            names = list(content["models"].get("all", {})) or [measured[rows[0]].partition("@")[0]]
            results = list(noise_gate_results(content, names[rows[0]]))
        else:
            reports = content["backbones"]
            compared = next((report["measures"] for report in reports if report["name"] == base), [])
            results = list(image_tower_results(reports[rows[0]]["measures"], compared))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, StopIteration) as error:
        if isinstance(error, CapscoreError):
            raise
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"{figures} has no figures of weights.measuring ({said})") from None
    said = yaml.safe_load((weights / SETTINGS).read_text(encoding="utf-8"))
    old = read_card(weights)
    command = command or old.command
    if "sets" in content:
        settings = NoiseGateSettings(**said)
        card = noise_gate_card(settings, command=command, results=results, compute=old.compute)
        return replace(card, name=name or card.name, data=old.data, held_out=old.held_out)
    return image_tower_card(
        ImageTowerSettings(**said),
        name=name or said["name"] or weights.resolve().name,
        w=backbone.w,
        languages=old.languages,
        command=command,
        data=old.data,
        held_out=old.held_out,
        limitations=old.limitations,
        compute=old.compute,
        results=results,
        not_measured=[
            "Other languages of the text encoder, and photos of other kinds than Flickr's and COCO's."
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="folder of the weights")
    parser.add_argument("--figures", type=Path, required=True, help="JSON file of the figures")
    parser.add_argument("--base", default="embedded-free", help="backbone in it to compare with")
    parser.add_argument("--command", default="", help="command that trains these weights, for the card")
    parser.add_argument("--name", default="", help="name of the model, for the card")
    options = parser.parse_args(argv)
    about = {"base": options.base, "command": options.command, "name": options.name}
    card = measured_card(options.weights, options.figures, **about)
    write_card(options.weights, card, force=True)
    print(f"{len(card.results)} results on the card of {card.name}")


if __name__ == "__main__":
    run_as_command(main)
