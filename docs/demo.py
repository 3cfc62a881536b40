"""Scores real photos with right, half-right and wrong captions in eight languages, on the embedded backbone.

In: the photos that the scikit-image package ships, and demo_captions.json. Out: a table per metric in the
terminal, and one self-contained HTML page. Needs no network: `make demo`, or `python docs/demo.py` with the
packages of `capscore[demo]`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import capscore
from capscore.report import MARKS, ReportCaption, ReportMetric, ReportPhoto, out_of_order, write_html

HERE = Path(__file__).resolve().parent
CAPTIONS = HERE / "demo_captions.json"
METRICS = HERE.parent / "metrics"

# The Hugging Face libraries read these when they are imported, so `main` sets them before anything else.
SETTINGS = {
    "CAPSCORE_BACKBONE": "embedded",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
BACKBONE_NOTE = (
    "Backbone: embedded. This demo chose it (CAPSCORE_BACKBONE=embedded), because it comes with pip packages "
    "and so runs on a machine that reaches no model hub. It is small: its image tower knows 1,000 kinds of "
    "things. For earnest work take another one."
)
INTRO = (
    "Every photo here has three captions in each language: one that is right, one with one thing wrong, and "
    "one about something else entirely. MCS scores how well a caption fits the photo; RefCLIPScore compares "
    "it with reference captions as well. A good metric puts the three in this order in every language.",
    BACKBONE_NOTE,
)
EXPLANATIONS = {
    "mcs": ("MCS", "photo and caption, from 0 to 2.5"),
    "ref_clip_score": ("RefCLIPScore", "photo, caption and references, from 0 to 1.43"),
}
REPRODUCE = "make demo\n# or, with the packages of capscore[demo] installed\npython docs/demo.py"


class Row(NamedTuple):
    """One caption of one photo."""

    photo: str
    language: str
    mark: str


def photo_path(file: str) -> Path:
    """Where the scikit-image package keeps a photo; nothing is downloaded."""
    spec = find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise capscore.MissingExtraError("scikit-image", "demo", "the demo")
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / file
    if not path.is_file():
        raise capscore.CapscoreError(
            f"the installed scikit-image ships no {file}; expected it at {path}: "
            "pip install --force-reinstall 'scikit-image>=0.25,<0.27'"
        )
    return path


def score(photos: dict[str, Any], backbone: Any) -> tuple[list[Row], dict[str, dict[str, Any]]]:
    """All captions through both `evaluate` modules → the rows, and by metric what `compute` returned."""
    import evaluate

    rows = [
        Row(photo, language, mark)
        for photo, entry in photos.items()
        for language in entry["captions"]
        for mark in MARKS
    ]
    captions = [photos[row.photo]["captions"][row.language] for row in rows]
    inputs = {
        "predictions": [caption[row.mark] for row, caption in zip(rows, captions, strict=True)],
        "images": [str(photo_path(photos[row.photo]["file"])) for row in rows],
        "language": [row.language for row in rows],
    }
    references = [caption["references"] for caption in captions]

    # one backbone for both, so that it is loaded once; nothing is cached, so that the time is an honest one
    options = {"backbone": backbone, "cache": False, "progress": False}
    mcs = evaluate.load(str(METRICS / "mcs"), **options)
    ref_clip_score = evaluate.load(str(METRICS / "ref_clip_score"), **options)
    return rows, {
        "mcs": mcs.compute(**inputs),
        "ref_clip_score": ref_clip_score.compute(**inputs, references=references),
    }


def report_photos(
    photos: dict[str, Any], rows: list[Row], results: dict[str, dict[str, Any]]
) -> list[ReportPhoto]:
    """What the table and the page show: every photo with its scored captions."""
    captions: dict[str, list[ReportCaption]] = {photo: [] for photo in photos}
    for place, row in enumerate(rows):
        captions[row.photo].append(
            ReportCaption(
                text=photos[row.photo]["captions"][row.language][row.mark],
                language=row.language,
                scores={metric: result["scores"][place] for metric, result in results.items()},
                mark=row.mark,
            )
        )
    return [
        ReportPhoto(
            image=photo_path(entry["file"]),
            title=entry["title"],
            alt=entry["alt"],
            credit=entry["credit"],
            captions=captions[photo],
            references={language: caption["references"] for language, caption in entry["captions"].items()},
        )
        for photo, entry in photos.items()
    ]


def count_pairs(photos: list[ReportPhoto], metric: str) -> tuple[int, int, int]:
    """Photo–language pairs, those with right > wrong, and those with right ≥ half right ≥ wrong."""
    pairs = [group for photo in photos for group in by_language(photo).values()]
    above = sum(group["right"].scores[metric] > group["wrong"].scores[metric] for group in pairs)
    ordered = sum(not any(out_of_order(list(group.values()), metric)) for group in pairs)
    return len(pairs), above, ordered


def by_language(photo: ReportPhoto) -> dict[str, dict[str, ReportCaption]]:
    """Language → mark → caption."""
    groups: dict[str, dict[str, ReportCaption]] = {}
    for caption in photo.captions:
        groups.setdefault(caption.language, {})[caption.mark] = caption
    return groups


def print_table(photos: list[ReportPhoto], metric: str, console: Any) -> None:
    """One metric's scores: a line a photo and mark, a column a language; fits 80 columns."""
    from rich import box
    from rich.table import Table

    label, explanation = EXPLANATIONS[metric]
    table = Table(
        title=f"{label}: {explanation}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("photo", no_wrap=True)
    table.add_column("caption", no_wrap=True)
    languages = list(by_language(photos[0]))
    for language in languages:
        table.add_column(f"{language} ", justify="right", no_wrap=True)
    styles = {"right": "bold", "half": "", "wrong": "dim"}
    for photo in photos:
        groups = by_language(photo)
        flags = {
            language: dict(zip(group, out_of_order(list(group.values()), metric), strict=True))
            for language, group in groups.items()
        }
        for mark, (symbol, name) in MARKS.items():
            cells = [
                f"{groups[language][mark].scores[metric]:.2f}{'*' if flags[language][mark] else ' '}"
                for language in languages
            ]
            title = photo.title if mark == "right" else ""
            table.add_row(title, f"{symbol} {name}", *cells, style=styles[mark], end_section=mark == "wrong")
    console.print(table)


def run(output: str, backbone: Any, console: Any) -> None:
    """Score, print and write; `backbone` is None or one that is loaded already."""
    started = time.perf_counter()
    console.print(f"{BACKBONE_NOTE}\n")
    photos = json.loads(CAPTIONS.read_text(encoding="utf-8"))
    with console.status("Loading the backbone and scoring …"):
        backbone = backbone or capscore.load_backbone(os.environ["CAPSCORE_BACKBONE"])
        rows, results = score(photos, backbone)
    shown = report_photos(photos, rows, results)

    for metric in results:
        print_table(shown, metric, console)
    facts = []
    for metric in results:
        label = EXPLANATIONS[metric][0]
        n_pairs, above, ordered = count_pairs(shown, metric)
        console.print(
            f"{label}: right > wrong in {above} of {n_pairs} photo–language pairs, "
            f"right ≥ half right ≥ wrong in {ordered} of {n_pairs}."
        )
        facts += [
            (f"{above} of {n_pairs}", f"{label}: the right caption scores above the wrong one"),
            (f"{ordered} of {n_pairs}", f"{label}: right ≥ half right ≥ wrong"),
        ]
    console.print("* scores above a better caption\n")

    metrics = []
    for metric, result in results.items():
        label, explanation = EXPLANATIONS[metric]
        metrics.append(ReportMetric(metric, label, result["signature"], explanation))
        console.print(f"{label} signature: {result['signature']}", soft_wrap=True, style="dim")
    page = write_html(
        output,
        title="Captions of six photos, scored in eight languages",
        intro=INTRO,
        photos=shown,
        metrics=metrics,
        facts=facts,
        reproduce=REPRODUCE,
    )
    seconds = time.perf_counter() - started
    console.print(f"\nPage: {page.resolve()} ({seconds:.1f} s in all)", soft_wrap=True)


def main(arguments: Sequence[str] | None = None, *, backbone: Any = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Score real photos in eight languages and write a page.")
    parser.add_argument("--output", default="demo.html", help="the page (default: demo.html)")
    output = parser.parse_args(arguments).output

    os.environ.update(SETTINGS)
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows ? instead of failing
    try:
        run(output, backbone, Console(highlight=False))
    except capscore.CapscoreError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
