"""Scores real photos with right, half-right and wrong captions in eight languages, without a Hub.

It also perturbs the right captions in five languages and scores them with MCS and PR-MCS, and it plants a
wrong noun in one photo's caption in three languages for InfoMetIC to find. Photos that scikit-image ships and
capscore/show/examples.json → tables in the terminal and one self-contained HTML page. Needs no network:
`make demo`, or `python docs/demo.py` with the packages of `capscore[demo]`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import capscore
from capscore.backbones.base import Backbone
from capscore.files.write import whole_file
from capscore.images.load import load_image
from capscore.metrics.loading import default_backbone
from capscore.perturbations import KINDS, perturb
from capscore.perturbations.words import words_and_gaps
from capscore.show.explained import ExplainedCaption, bars_end, explained_captions, wrong_words
from capscore.show.pages import explained_cards, inline_jpeg, templates_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

CAPTIONS = Path(capscore.__file__).parent / "show" / "examples.json"
THUMBNAIL_SIDE = 640

# The Hugging Face libraries read these at import, so `main` sets them before anything else.
SETTINGS = {
    "CAPSCORE_BACKBONE": "embedded",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# mark → symbol, name; from best to worst
MARKS = {"right": ("✓", "right"), "half": ("~", "half right"), "wrong": ("✗", "wrong")}
LABELS = {"mcs": "MCS", "ref_clip_score": "RefCLIPScore", "pr_mcs": "PR-MCS", "infometic": "InfoMetIC"}
RANGES = {
    "mcs": "photo and caption, from 0 up",
    "ref_clip_score": "photo, caption and references, from 0 up",
}
# language → the noun planted in the right caption of the photo `PLANTED_IN`, and the resulting caption
PLANTED_IN = "rocket"
PLANTED = {
    "en": ("giraffe", "A tall white giraffe stands between steel towers at dusk."),
    "de": ("Giraffe", "Eine hohe weiße Giraffe steht in der Abenddämmerung zwischen Stahltürmen."),
    "zh": ("长颈鹿", "黄昏时分，一头高大的白色长颈鹿矗立在铁塔之间。"),
}
BACKBONE_NOTE = (
    "Backbone: embedded. This demo chose it (CAPSCORE_BACKBONE=embedded), because its weights are "
    "pip packages, and so it runs without access to a model hub. It is small, and learned from thousands of "
    "photos, not from millions. PR-MCS and InfoMetIC name their own backbones in their signatures."
)

Photos = Mapping[str, Mapping[str, Any]]


def photo_path(file: str) -> Path:
    """The path of a photo that scikit-image ships; nothing is downloaded."""
    spec = find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise capscore.MissingExtraError("scikit-image", "demo", "the demo")
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / file
    if not path.is_file():
        raise capscore.CapscoreError(f"the installed scikit-image ships no {file}; expected it at {path}")
    return path


def compute(metric: str, backbone: Backbone, **inputs: Any) -> dict[str, Any]:
    """Scores of an `evaluate` module; nothing is cached, so that the printed time is realistic."""
    import evaluate

    module = evaluate.load(capscore.module_folder(metric), backbone=backbone, cache=False, progress=False)
    return module.compute(**inputs)


# ---- right, half-right and wrong captions ----


def score_captions(photos: Photos, backbone: Backbone) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Metric → scores of (photos, languages, marks), and metric → signature."""
    rows = [
        (entry, language, texts, mark)
        for entry in photos.values()
        for language, texts in entry["captions"].items()
        for mark in MARKS
    ]
    inputs = {
        "predictions": [texts[mark] for _, _, texts, mark in rows],
        "images": [str(photo_path(entry["file"])) for entry, *_ in rows],
        "language": [language for _, language, *_ in rows],
    }
    references = [texts["references"] for _, _, texts, _ in rows]
    results = {
        "mcs": compute("mcs", backbone, **inputs),
        "ref_clip_score": compute("ref_clip_score", backbone, **inputs, references=references),
    }
    scores = {
        metric: np.array(result["scores"]).reshape(len(photos), -1, len(MARKS))
        for metric, result in results.items()
    }
    return scores, {metric: result["signature"] for metric, result in results.items()}


def misplaced(scores: np.ndarray) -> np.ndarray:
    """Whether each caption scores above a better one of its photo and language.

    >>> misplaced(np.array([0.9, 1.1, 0.9]))
    array([False,  True, False])
    """
    return scores > np.minimum.accumulate(scores, axis=-1)


def caption_facts(scores: Mapping[str, np.ndarray]) -> list[tuple[str, str]]:
    """Pairs of a count and what it counts, for each metric."""
    facts = []
    for metric, values in scores.items():
        n = values[..., 0].size
        above = int((values[..., 0] > values[..., 2]).sum())
        ordered = n - int(misplaced(values).any(axis=-1).sum())
        facts += [
            (f"{above} of {n}", f"{LABELS[metric]}: the right caption scores above the wrong one"),
            (f"{ordered} of {n}", f"{LABELS[metric]}: right ≥ half right ≥ wrong"),
        ]
    return facts


def caption_table(photos: Photos, metric: str, scores: np.ndarray) -> Table:
    """A line per photo and mark, a column per language."""
    languages = list(next(iter(photos.values()))["captions"])
    heads = ["photo", "caption", *(f"{language} " for language in languages)]
    table = narrow_table(f"{LABELS[metric]}: {RANGES[metric]}", heads, n_texts=2)
    styles = {"right": "bold", "half": "", "wrong": "dim"}
    for entry, by_language in zip(photos.values(), scores, strict=True):
        flags = misplaced(by_language)
        for index, (mark, (symbol, name)) in enumerate(MARKS.items()):
            cells = [
                f"{score:.2f}{'*' if flag else ' '}"
                for score, flag in zip(by_language[:, index], flags[:, index], strict=True)
            ]
            title = entry["title"] if mark == "right" else ""
            table.add_row(title, f"{symbol} {name}", *cells, style=styles[mark], end_section=mark == "wrong")
    return table


def narrow_table(title: str, heads: Sequence[str], n_texts: int) -> Table:
    """An empty table whose first columns are texts and whose other ones are numbers; nothing is broken."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for index, head in enumerate(heads):
        table.add_column(head, no_wrap=True, justify="left" if index < n_texts else "right")
    return table


# ---- perturbed captions ----


def perturb_right(photos: Photos) -> dict[str, dict[str, list[str]]]:
    """Language → kind → the right captions of all photos, in languages with annotated objects.

    Captions as they are have the kind "original".
    """
    perturbed = {}
    for language, texts in next(iter(photos.values()))["captions"].items():
        if "objects" in texts:
            entries = [entry["captions"][language] for entry in photos.values()]
            captions = [entry["right"] for entry in entries]
            perturbed[language] = {"original": captions}
            for kind in KINDS:
                objects = [entry["objects"] for entry in entries] if kind == "substitution" else None
                perturbed[language][kind] = perturb(captions, kind, language, objects=objects).captions
    return perturbed


def score_perturbed(
    photos: Photos, captions: Mapping[str, Mapping[str, list[str]]], backbones: Mapping[str, Backbone]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Metric → scores of (languages, "original" and kinds, photos), and metric → signature."""
    images = [str(photo_path(entry["file"])) for entry in photos.values()]
    kinds = 1 + len(KINDS)
    inputs = {
        "predictions": [text for texts in captions.values() for kind in texts.values() for text in kind],
        "images": images * len(captions) * kinds,
        "language": [language for language in captions for _ in range(kinds * len(images))],
    }
    results = {metric: compute(metric, backbone, **inputs) for metric, backbone in backbones.items()}
    scores = {
        metric: np.array(result["scores"]).reshape(len(captions), kinds, len(images))
        for metric, result in results.items()
    }
    return scores, {metric: result["signature"] for metric, result in results.items()}


def drops(scores: np.ndarray) -> np.ndarray:
    """Change of the mean score by each kind, and its average: from scores (languages, 1 + kinds, photos).

    >>> drops(np.array([[[0.5, 1.5], [0.5, 0.5], [1.0, 1.0]]]))
    array([[-0.5 ,  0.  , -0.25]])
    """
    means = scores.mean(axis=2)
    changes = means[:, 1:] / means[:, :1] - 1
    return np.column_stack([changes, changes.mean(axis=1)])


def perturbation_facts(scores: Mapping[str, np.ndarray]) -> list[str]:
    """Sentences with the numbers over all languages and kinds."""
    falls, halved, n = [], {}, 0
    for metric, values in scores.items():
        average = drops(values)[:, -1].mean()
        falls.append(
            f"{LABELS[metric]} {'falls' if average < 0 else 'rises'} by {abs(100 * average):.0f}\u00a0%"
        )
        below = values[:, 1:] < values[:, :1] / 2
        halved[metric], n = int(below.sum()), below.size
    kept = scores["pr_mcs"][:, 0].mean() / scores["mcs"][:, 0].mean()
    return [
        f"Perturbed, averaged over {len(scores['mcs'])} languages and {len(KINDS)} perturbations: "
        f"{', '.join(falls)}.",
        f"Less than half of the original's score: MCS for {halved['mcs']} of {n} perturbed captions, "
        f"PR-MCS for {halved['pr_mcs']}.",
        f"Original captions keep {100 * kept:.0f}\u00a0% of their MCS in PR-MCS.",
    ]


def perturbation_table(languages: Sequence[str], scores: Mapping[str, np.ndarray]) -> Table:
    """Changes of mean scores: a line per perturbation, two columns per language."""
    heads = [head for language in languages for head in (f" {language}\nMCS", "\nPR-MCS")]
    title = "Perturbed words: change of the mean score of the right captions, in %"
    table = narrow_table(title, ["perturbed", *heads], n_texts=1)
    for column in table.columns[2::2]:
        column.style = "bold"
    changes = np.stack([drops(values) for values in scores.values()], axis=1).reshape(len(heads), -1)
    for kind, cells in zip([*KINDS, "average"], changes.T, strict=True):
        table.add_row(kind, *(in_percent(c).removesuffix(" %") for c in cells), end_section=kind == KINDS[-1])
    table.add_section()
    means = np.stack([values[:, 0].mean(axis=1) for values in scores.values()], axis=1)
    table.add_row("mean as is", *(f"{mean:.2f}" for mean in means.ravel()), style="dim")
    return table


def in_percent(change: float) -> str:
    """A relative change as printed.

    >>> in_percent(-0.936), in_percent(0.004), in_percent(0.12)
    ('−94 %', '0 %', '+12 %')
    """
    percent = round(100 * change)
    return f"{percent:+d} %".replace("-", "−") if percent else "0 %"


# ---- captions with a planted noun ----


def explain_planted(photos: Photos, backbone: Backbone) -> tuple[list[ExplainedCaption], Any, str]:
    """The right caption and the one with a planted noun, in each language; threshold; signature."""
    scorer: Any = capscore.load("infometic", backbone=backbone, cache=False, progress=False)
    entry = photos[PLANTED_IN]
    captions = [
        text
        for language, (_, planted) in PLANTED.items()
        for text in (entry["captions"][language]["right"], planted)
    ]
    scores = scorer.score(
        captions,
        [str(photo_path(entry["file"]))] * len(captions),
        language=[language for language in PLANTED for _ in range(2)],
    )
    return explained_captions(captions, scores), scorer.beta, scores.signature


def is_found(caption: ExplainedCaption, noun: str) -> bool:
    """Whether the planted noun, or a word that is a part of it, is marked."""
    start = caption.text.index(noun)
    return any(
        word["correct"] is False and word["start"] < start + len(noun) and word["end"] > start
        for word in caption.explanation["words"]
    )


def planted_fact(explained: Sequence[ExplainedCaption]) -> str:
    """A sentence with how many planted nouns are marked, and how many right words."""
    pairs = zip(explained[1::2], PLANTED.values(), strict=True)
    found = sum(is_found(wrong, noun) for wrong, (noun, _) in pairs)
    marks = [word["correct"] for right in explained[::2] for word in right.explanation["words"]]
    return (
        f"Planted nouns that are marked: {found} of {len(PLANTED)}. Content words of the right captions "
        f"that are wrongly marked: {marks.count(False)} of {len(marks) - marks.count(None)}."
    )


def planted_table(explained: Sequence[ExplainedCaption]) -> Table:
    """A line per caption with a planted noun, with its wrong words."""
    from rich.text import Text

    heads = ["language", "planted", "found", "likely wrong"]
    title = "Planted nouns: the words that InfoMetIC marks as likely wrong"
    table = narrow_table(title, heads, n_texts=len(heads))
    table.padding, table.columns[-1].no_wrap = (0, 2, 0, 0), False
    for (language, (noun, _)), wrong in zip(PLANTED.items(), explained[1::2], strict=True):
        words = ", ".join(f"{word.text} ({word.title})" for word in wrong_words(wrong)) or "none"
        table.add_row(language, Text(noun), "✓ yes" if is_found(wrong, noun) else "✗ no", Text(words))
    return table


# ---- the page ----


def shown_photos(photos: Photos, scores: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """What the page shows of each photo: its picture, and its captions by language."""
    flags = {metric: misplaced(values) for metric, values in scores.items()}
    shown = []
    for p, entry in enumerate(photos.values()):
        blocks = {}
        for k, (language, texts) in enumerate(entry["captions"].items()):
            captions = [
                {
                    "text": texts[mark],
                    "mark": mark,
                    "scores": {metric: float(values[p, k, m]) for metric, values in scores.items()},
                    "flags": {metric: bool(values[p, k, m]) for metric, values in flags.items()},
                }
                for m, mark in enumerate(MARKS)
            ]
            blocks[language] = {"captions": captions, "references": texts["references"]}
        address, width, height = inline_jpeg(load_image(photo_path(entry["file"])), THUMBNAIL_SIDE)
        picture = {"address": address, "width": width, "height": height}
        shown.append({**entry, "picture": picture, "blocks": blocks})
    return shown


def shown_perturbations(
    captions: Mapping[str, Mapping[str, list[str]]], scores: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """What the page shows of perturbed captions: all drops, and the captions of one photo per language."""
    examples = []
    for k, (language, kinds) in enumerate(captions.items()):
        photo = k % len(kinds["original"])  # a different photo in each language
        rows = [
            {
                "kind": "as it is" if kind == "original" else kind,
                "pieces": changed_pieces(kinds["original"][photo], texts[photo], language),
                "scores": {metric: float(values[k, index, photo]) for metric, values in scores.items()},
            }
            for index, (kind, texts) in enumerate(kinds.items())
        ]
        examples.append({"language": language, "photo": photo, "rows": rows})
    changes = {metric: drops(values) for metric, values in scores.items()}
    return {
        "metrics": list(scores),
        "examples": examples,
        "drops": {
            kind: [
                {metric: values[k, index] for metric, values in changes.items()} for k in range(len(captions))
            ]
            for index, kind in enumerate([*KINDS, "average"])
        },
        "top": top_of([score for e in examples for row in e["rows"] for score in row["scores"].values()]),
    }


def changed_pieces(original: str, text: str, language: str) -> list[tuple[str, bool]]:
    """A perturbed caption in pieces, each with whether the perturbation inserted it."""
    before, (words, gaps) = words_and_gaps(original, language)[0], words_and_gaps(text, language)
    blocks = SequenceMatcher(None, before, words, autojunk=False).get_matching_blocks()
    same = {index for block in blocks for index in range(block.b, block.b + block.size)}
    pieces = [(gaps[0], False)]
    for index, (word, gap) in enumerate(zip(words, gaps[1:], strict=True)):
        pieces += [(word, index not in same), (gap, False)]
    return [(piece, inserted) for piece, inserted in pieces if piece]


def top_of(scores: Sequence[float] | np.ndarray) -> float:
    """The score at which bars end: the highest one, rounded up to a tenth.

    >>> top_of([0.42, 0.1])
    0.5
    """
    return math.ceil(np.max(scores) * 10 - 1e-9) / 10


def bar_length(score: float, top: float) -> str:
    """The length of a bar that is full at `top`; a negative score has no length.

    >>> bar_length(0.5, 2.0), bar_length(-1.0, 2.0), bar_length(3.0, 2.0)
    ('25.0%', '0.0%', '100.0%')
    """
    return f"{100 * min(max(score / top, 0.0), 1.0):.1f}%"


def write_page(path: Path, **content: Any) -> None:
    """Fill the template of the page. The file gets its name once it is complete."""
    templates = templates_of(Path(__file__).parent / "templates")
    templates.filters.update(bar_length=bar_length, change=in_percent)
    page = templates.get_template("demo_page.html").render(
        labels=LABELS, ranges=RANGES, marks=MARKS, **content
    )
    with whole_file(path, "page") as file:
        file.write(page.encode("utf-8"))


# ---- the command ----


def print_tables(
    console: Console,
    photos: Photos,
    scores: Mapping[str, np.ndarray],
    facts: Sequence[tuple[str, str]],
    languages: Sequence[str],
    perturbed: Mapping[str, np.ndarray],
    explained: Sequence[ExplainedCaption],
) -> None:
    """Print all tables, each with what it says in a sentence."""
    for metric, values in scores.items():
        console.print(caption_table(photos, metric, values))
    console.print("* scores above a better caption\n\nOf all pairs of photo and language:")
    for number, counted in facts:
        console.print(f"  {number}  {counted}")
    console.print()
    console.print(perturbation_table(languages, perturbed))
    console.print("\n".join(perturbation_facts(perturbed)) + "\n")
    console.print(planted_table(explained))
    console.print(f"{planted_fact(explained)}\n")


def run(output: Path, loaded: dict[str, Backbone], console: Console) -> None:
    """Score, print and write the page."""

    def backbone_of(metric: str) -> Backbone:
        name = default_backbone(metric)
        if name not in loaded:
            loaded[name] = capscore.load_backbone(name)
        return loaded[name]

    started = time.perf_counter()
    console.print(f"{BACKBONE_NOTE}\n")
    photos: Photos = json.loads(CAPTIONS.read_text(encoding="utf-8"))
    with console.status("Loading the backbone and scoring …"):
        scores, signatures = score_captions(photos, backbone_of("mcs"))
        captions = perturb_right(photos)
        compared = {metric: backbone_of(metric) for metric in ("mcs", "pr_mcs")}
        perturbed, perturbed_signatures = score_perturbed(photos, captions, compared)
        explained, beta, signature = explain_planted(photos, backbone_of("infometic"))

    facts = caption_facts(scores)
    print_tables(console, photos, scores, facts, list(captions), perturbed, explained)
    all_signatures = {
        **{LABELS[metric]: text for metric, text in signatures.items()},
        **{f"{LABELS[metric]}, perturbed": text for metric, text in perturbed_signatures.items()},
        LABELS["infometic"]: signature,
    }
    for label, text in all_signatures.items():
        console.print(f"{label} signature: {text}", soft_wrap=True, style="dim")
    further = [
        (in_percent(drops(values)[:, -1].mean()), f"{LABELS[metric]}: change of the score by perturbed words")
        for metric, values in perturbed.items()
    ]

    end = bars_end(signature)
    labels = [label for noun, _ in PLANTED.values() for label in ("right", f"planted: {noun}")]
    photo = load_image(photo_path(photos[PLANTED_IN]["file"]))
    write_page(
        output,
        photos=shown_photos(photos, scores),
        languages=list(photos[PLANTED_IN]["captions"]),
        tops={metric: top_of(values) for metric, values in scores.items()},
        facts=[*facts, *further],
        perturbations=shown_perturbations(captions, perturbed),
        perturbation_facts=" ".join(perturbation_facts(perturbed)),
        explained=explained_cards(photo, explained, end, labels=labels, name="explained-photo"),
        explained_photo=list(photos).index(PLANTED_IN),
        explained_languages=list(PLANTED),
        planted_fact=planted_fact(explained),
        beta=beta,
        end=end,
        signatures=all_signatures,
        closing=BACKBONE_NOTE,
    )
    seconds = time.perf_counter() - started
    console.print(f"\nPage: {output.resolve()} ({seconds:.1f} s in all)", soft_wrap=True)


def main(arguments: Sequence[str] | None = None, *, loaded: Sequence[Backbone] = ()) -> int:
    """Run the command and return its exit code. Backbones that are already loaded may be given."""
    parser = argparse.ArgumentParser(description="Score real photos in eight languages and write a page.")
    parser.add_argument("--output", type=Path, default="demo.html", help="the page (default: demo.html)")
    output = parser.parse_args(arguments).output

    os.environ.update(SETTINGS)
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows ? instead of failing
    try:
        run(output, {backbone.name: backbone for backbone in loaded}, Console(highlight=False, markup=False))
    except capscore.CapscoreError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
