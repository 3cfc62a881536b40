"""Cards have metadata that the Hub accepts, and figures of pages are those of the files of results."""

from __future__ import annotations

import json
import math
import re
from importlib.metadata import metadata
from typing import Any

from huggingface_hub import DatasetCard, ModelCard, SpaceCard
from PIL import Image

import capscore
from capscore.backbones import find
from capscore.benchmarks.result_file import read_results
from capscore.perturbations import find_objects
from capscore.registry import METRICS
from docs import demo, measured, scores

from .source import ROOT, named

CARDS: dict[str, Any] = {
    "metrics/*/README.md": SpaceCard,
    "datasets_scripts/*/README.md": DatasetCard,
    "weights/capscore_weights/*/README.md": ModelCard,
}
# from https://huggingface.co/docs/hub/repositories-licenses, those in use here
LICENCES = """apache-2.0 mit cc-by-4.0 cc-by-sa-4.0 cc-by-nc-4.0 cc-by-nc-sa-4.0 cc0-1.0 bsd-3-clause-clear
    cc-by-2.0 cc-by-nc-2.0 other unknown""".replace("\n", " ")
# from https://huggingface.co/docs/hub/datasets-cards and the tasks of the Hub, those in use here
TASKS = """image-to-text feature-extraction visual-question-answering text-to-image image-text-to-text
    zero-shot-image-classification translation text-classification""".replace("\n", " ")
# field of the metadata → what its values are like
ACCEPTED = {
    "license": "|".join(map(re.escape, LICENCES.split())),
    "language": r"[a-z]{2,3}(-[A-Za-z]+)*|multilingual",
    "task_categories": "|".join(TASKS.split()),
    "pipeline_tag": "|".join(TASKS.split()),
    "size_categories": r"n<1K|1K<n<10K|10K<n<100K|100K<n<1M|1M<n<10M",
    "datasets": r"[\w.-]+(/[\w.-]+)?",
    "tags": ".+",
}
DEMO = ROOT / "capscore" / "show" / "examples.json"
LANGUAGES = ["en", "de", "fr", "es", "ja", "zh", "ar", "ru"]
PERTURBED = LANGUAGES[:5]
# what a caption in a language is written in; one that was left in English has none of it
SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",  # kana
    "zh": r"^[\u4e00-\u9fff，。、]+$",  # no kana, no Latin
    "ar": r"^[\u0600-\u06ff .،]+$",
    "ru": r"^[\u0400-\u04ff ,.-]+$",
}
_BACKBONES = ("embedded", "embedded-free")
_METRICS = {"MCS": "mcs", "Fit": "fit", "InfoMetIC": "infometic", "RefCLIPScore": "ref_clip_score"}
_SETS = {"Expert": "expert", "CF": "crowdflower"}


def metadata_of_cards() -> list[str]:
    """Values that the Hub refuses, cards without a licence or a text, and model indexes without figures."""
    wrong = []
    for pattern, kind in CARDS.items():
        for path in sorted(ROOT.glob(pattern)):
            card = kind.load(path)  # parses YAML and model-index as huggingface_hub does before it pushes
            stated = card.data.to_dict()
            for field, accepted in ACCEPTED.items():
                values = stated.get(field) or []
                for value in values if isinstance(values, list) else [values]:
                    if not isinstance(value, str) or not re.fullmatch(accepted, value):
                        wrong.append(f"{named(path)}: {field}: {value!r}")
            if not stated.get("license") or len(card.text.strip()) <= 500:
                wrong.append(f"{named(path)}: lacks a licence, or a text")
            if kind is ModelCard:
                wrong += [f"{named(path)}: {problem}" for problem in _model_index(card)]
    return wrong


def _model_index(card: Any) -> list[str]:
    figures = card.data.eval_results or []
    bad = [
        figure.metric_name or figure.metric_type
        for figure in figures
        if not (figure.task_type and figure.dataset_type and figure.metric_type)
        or not isinstance(figure.metric_value, int | float)
        or not math.isfinite(figure.metric_value)
    ]
    return [f"figures of its model index: {bad}"] if bad or not figures else []


def made_pages() -> list[str]:
    """Cards and pages whose tables are written by `docs/measured.py` and `docs/scores.py`."""
    made = measured.cards()
    page = scores.PAGE.read_text(encoding="utf-8")
    made[scores.PAGE] = scores.page(page, scores.shipped())
    wrong = [named(path) for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    return wrong if len(made) >= 10 else [*wrong, f"{len(made)} pages are made"]


def captions_of_the_demo() -> list[str]:
    """Photos of the demo whose captions are not all there, distinct, and written in their language."""
    wrong, texts = [], list[str]()
    for name, entry in json.loads(DEMO.read_text("utf-8")).items():
        with Image.open(demo.photo_path(entry["file"])) as image:
            if min(image.size) < 256 or not (entry["title"] and entry["alt"] and entry["credit"]):
                wrong.append(f"{name}: a small photo, or one without title, alt text or credit")
        if list(entry["captions"]) != LANGUAGES:
            wrong.append(f"{name}: its languages are not {LANGUAGES}")
        for language, captions in entry["captions"].items():
            own = [*(captions[mark] for mark in ("right", "half", "wrong")), *captions["references"]]
            texts += own
            wrong += [f"{name}, {language}: {text}" for text in own if not _is_written_in(language, text)]
            if language in PERTURBED:
                places, _ = find_objects([captions["right"]], [captions["objects"]])
                found = [captions["right"][start:end] for start, end in places[0]]
                if sorted(found) != sorted(captions["objects"]):
                    wrong.append(f"{name}, {language}: of {captions['objects']} it has {found}")
            if len(own) != 5 or ("objects" in captions) != (language in PERTURBED):
                wrong.append(f"{name}, {language}: {len(own)} captions, or objects that nobody reads")
    return wrong if len({*texts}) == len(texts) >= 240 else [*wrong, "captions that are there twice"]


def _is_written_in(language: str, text: str) -> bool:
    whole = text == text.strip() and text[-1] in ".。"
    return whole and re.search(SCRIPTS.get(language, ""), text) is not None


def calibrations_that_ship() -> list[str]:
    """What is there besides numbers in the calibrations, and a median that their page states otherwise."""
    document, wrong = scores.shipped(), []
    if document["set"]["photos"] != 325 or not re.fullmatch(r"20\d\d-\d\d-\d\d", document["made"]):
        wrong.append(f"of {document['set']['photos']} photos, made {document['made']}")
    for entry in document["metrics"]:
        for language, kinds in entry["languages"].items():
            values = [value for kind in kinds.values() for value in kind["values"]]
            keys = {key for kind in kinds.values() for key in kind}
            numbers = all(isinstance(value, float) for value in values)
            if {*kinds} != {"right", "shuffled"} or keys != {"n", "values"} or not numbers:
                wrong.append(f"{entry['metric']}, {language}: {sorted(kinds)}, {sorted(keys)}")
    (mcs,) = (entry for entry in document["metrics"] if entry["metric"] == "mcs")
    median = mcs["languages"]["all"]["right"]["values"][document["percents"].index(50)]
    lines = scores.PAGE.read_text(encoding="utf-8").splitlines()
    shown = next(line.split("|")[6] for line in lines if line.startswith("| mcs | right"))
    return wrong if float(shown) == round(median, 3) else [*wrong, f"median {shown}; expected {median:.3f}"]


def figures_of_pages() -> list[str]:
    """Tables of measured figures in the README and in the guide to backbones, which people write."""
    numbers = {
        (one.config, one.metric, one.backbone): one for one in read_results([ROOT / "results"]) if one.main
    }
    wrong = []
    for page in ("README.md", "docs/backbones.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        rows = re.findall(r"^\| Flickr8k-(Expert|CF), (\w+), τ_[bc] \| ([^|]*) \| ([^|]*) \|", text, re.M)
        n_free = 0
        for name, metric, *cells in rows:
            with_weights, free = (numbers.get((_SETS[name], _METRICS[metric], one)) for one in _BACKBONES)
            assert with_weights is not None and with_weights.interval is not None
            figures = (with_weights.value or 0.0, *with_weights.interval)
            expected = ["{:.1f} [{:.1f}–{:.1f}]".format(*(100 * figure for figure in figures)), cells[1]]
            if free is not None:
                n_free += 1
                expected[1] = f"{100 * (free.value or 0.0):.1f}"
            if cells != expected:
                wrong.append(f"{page}: {name}, {metric}: {cells}; expected {expected}")
        if (len(rows), n_free) != (5, 2):
            wrong.append(f"{page}: {len(rows)} rows, {n_free} with embedded-free; expected 5 and 2")
    return wrong


def lines_too_many_of_the_readme() -> list[str]:
    """Lines of the README beyond those that can be read in two minutes."""
    return (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[130:]


def names_that_pages_lack() -> list[str]:
    """Metrics, benchmarks, extras and languages that the README and the guides have to name."""
    pages = ("README.md", "docs/dependencies.md", "docs/robustness.md")
    readme, dependencies, robustness = ((ROOT / page).read_text("utf-8") for page in pages)
    wrong = [f"README.md: {metric}" for metric in METRICS.names() if f"`{metric}`" not in readme]
    if f"{len(capscore.benchmark_slugs())} benchmarks" not in readme:
        wrong.append("README.md: the number of benchmarks")
    extras = {*(metadata("capscore").get_all("Provides-Extra") or [])}
    section = re.search(r"^Extras: .*?`dev`", dependencies, flags=re.S | re.M)
    listed = {*re.findall(r"`([a-z0-9-]+)`", section[0] if section else "")}
    if listed - ({*METRICS.names()} - extras) != extras:
        wrong.append(f"docs/dependencies.md: the extras are {', '.join(sorted(extras))}")
    columns = re.findall(r"^\| ((?:\| \w\w )+)\|$", robustness, flags=re.M)
    known = getattr(find("embedded"), "languages", None) or ()
    if [sorted(re.findall(r"\w\w", one)) for one in columns] != [sorted(known)]:
        wrong.append("docs/robustness.md: the columns are not the languages of the backbone embedded")
    return wrong
