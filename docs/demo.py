"""Scores real photos with right, half-right and wrong captions in eight languages, without a Hub.

It also perturbs the right captions in five languages and scores them with MCS and PR-MCS, and it plants a
wrong noun in one photo's caption in three languages for InfoMetIC to find. Photos that scikit-image ships and
capscore/show/examples.json → tables in the terminal and one self-contained HTML page. Needs no network:
`make demo`, or `python docs/demo.py` with the packages of `capscore[demo]`.
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

import numpy as np

import capscore
from capscore.benchmarks.protocols import ProtocolResult, robustness_drop
from capscore.benchmarks.robustness.stand_in import plain_backbone
from capscore.infometic.network import INFO_CLIP
from capscore.metrics.loading import default_backbone
from capscore.perturbations import KINDS, perturb, word_changes
from capscore.show.explained import ExplainedCaption, explained_captions, wrong_words
from capscore.text.word_classes import supported
from demo_page import (
    MARKS,
    ReportCaption,
    ReportExplained,
    ReportExplanations,
    ReportMetric,
    ReportPerturbations,
    ReportPerturbed,
    ReportPhoto,
    ReportVariant,
    change_in_percent,
    out_of_order,
    write_html,
)

HERE = Path(__file__).resolve().parent
CAPTIONS = Path(capscore.__file__).parent / "show" / "examples.json"
METRICS = HERE.parent / "metrics"

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
BACKBONE_NOTE = (
    "Backbone: embedded. This demo chose it (CAPSCORE_BACKBONE=embedded), because its weights are "
    "pip packages, and so it runs without access to a model hub. It is small, and learned from thousands of "
    "photos, not from millions. PR-MCS and InfoMetIC name their own backbones in their signatures."
)
INTRO = (
    "Three captions per photo: one right, one with one thing wrong, one about something else. MCS compares a "
    "caption with the photo, RefCLIPScore also with reference captions. A good metric keeps this order.",
)
EXPLANATIONS = {
    "mcs": ("MCS", "photo and caption, from 0 up"),
    "ref_clip_score": ("RefCLIPScore", "photo, caption and references, from 0 up"),
}
LABELS = {"mcs": "MCS", "pr_mcs": "PR-MCS"}
PERTURBED = (
    "The right captions again, perturbed in the five ways of the PR-MCS paper. A perturbed caption should "
    "score far lower than the original. PR-MCS is MCS with a text tower that was trained for this.",
)
EXPLAINED = (
    "InfoMetIC scores single words and regions. Below are a photo's right caption and the same caption with "
    "a wrong noun planted in it. That noun should be marked as likely wrong, and no other word.",
)
# language → the noun planted in the right caption of the photo `PLANTED_IN`, and the resulting caption
PLANTED_IN = "rocket"
PLANTED = {
    "en": ("giraffe", "A tall white giraffe stands between steel towers at dusk."),
    "de": ("Giraffe", "Eine hohe weiße Giraffe steht in der Abenddämmerung zwischen Stahltürmen."),
    "zh": ("长颈鹿", "黄昏时分，一头高大的白色长颈鹿矗立在铁塔之间。"),
}
REPRODUCE = "make demo\n# or, with the packages of capscore[demo] installed\npython docs/demo.py"


NO_TAGGER = (
    "InfoMetIC marks no words here: it needs the packages of capscore[nouns] to find the content words of a "
    "caption."
)


class Row(NamedTuple):
    """One caption of one photo."""

    photo: str
    language: str
    mark: str


def photo_path(file: str) -> Path:
    """The path of a photo that scikit-image ships; nothing is downloaded."""
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
    """Score all captions with both `evaluate` modules → the rows, and metric → result of `compute`."""
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

    # the backbone is loaded once for both; nothing is cached, so that the printed time is realistic
    options = {"backbone": backbone, "cache": False, "progress": False}
    mcs = evaluate.load(str(METRICS / "mcs"), **options)
    ref_clip_score = evaluate.load(str(METRICS / "ref_clip_score"), **options)
    return rows, {
        "mcs": mcs.compute(**inputs),
        "ref_clip_score": ref_clip_score.compute(**inputs, references=references),
    }


class Robustness(NamedTuple):
    """The right captions of all photos, original and perturbed, with their scores.

    Attributes:
        captions: Language → kind → the captions of all photos; unperturbed ones have the kind "original".
        scores: Metric → language → kind → their scores.
        drops: Metric → language → result of `robustness_drop`.
        signatures: Metric → everything that its numbers depend on.
    """

    captions: dict[str, dict[str, list[str]]]
    scores: dict[str, dict[str, dict[str, list[float]]]]
    drops: dict[str, dict[str, ProtocolResult]]
    signatures: dict[str, str]


def perturb_right(photos: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Language → kind → the right captions of all photos, in languages with annotated objects."""
    perturbed: dict[str, dict[str, list[str]]] = {}
    languages = next(iter(photos.values()))["captions"]
    for language in languages:
        entries = [entry["captions"][language] for entry in photos.values()]
        if "objects" not in entries[0]:
            continue
        captions = [entry["right"] for entry in entries]
        perturbed[language] = {"original": captions}
        for kind in KINDS:
            objects = [entry["objects"] for entry in entries] if kind == "substitution" else None
            perturbed[language][kind] = perturb(captions, kind, language, objects=objects).captions
    return perturbed


def score_perturbed(photos: dict[str, Any], backbone: Any, tuned: Any) -> Robustness:
    """Score captions and their perturbations with MCS on a backbone and PR-MCS on what was tuned from it."""
    import evaluate

    captions = perturb_right(photos)
    rows = [(language, kind) for language, kinds in captions.items() for kind in kinds for _ in photos]
    inputs = {
        "predictions": [text for kinds in captions.values() for texts in kinds.values() for text in texts],
        "images": [str(photo_path(entry["file"])) for entry in photos.values()] * (len(rows) // len(photos)),
        "language": [language for language, _ in rows],
    }
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    signatures = {}
    for metric, towers in (("mcs", backbone), ("pr_mcs", tuned)):
        module = evaluate.load(str(METRICS / metric), backbone=towers, cache=False, progress=False)
        result = module.compute(**inputs)
        signatures[metric] = result["signature"]
        scores[metric] = {language: {kind: [] for kind in kinds} for language, kinds in captions.items()}
        for (language, kind), value in zip(rows, result["scores"], strict=True):
            scores[metric][language][kind].append(value)
    drops = {
        metric: {
            language: robustness_drop(kinds["original"], {kind: kinds[kind] for kind in KINDS})
            for language, kinds in languages.items()
        }
        for metric, languages in scores.items()
    }
    return Robustness(captions, scores, drops, signatures)


def average_drop(robustness: Robustness, metric: str) -> float:
    """The mean drop over languages and perturbations."""
    return float(np.mean([drop.value("drop_average") for drop in robustness.drops[metric].values()]))


def count_halved(robustness: Robustness, metric: str) -> tuple[int, int]:
    """Numbers of perturbed captions: those below half the original's score, and all."""
    halved = [
        value < original / 2
        for kinds in robustness.scores[metric].values()
        for kind in KINDS
        for value, original in zip(kinds[kind], kinds["original"], strict=True)
    ]
    return sum(halved), len(halved)


def kept_original(robustness: Robustness) -> float:
    """The mean PR-MCS of the original captions as a share of their mean MCS."""
    mean = {
        metric: np.mean([kinds["original"] for kinds in languages.values()])
        for metric, languages in robustness.scores.items()
    }
    return float(mean["pr_mcs"] / mean["mcs"])


def report_perturbations(photos: dict[str, Any], robustness: Robustness) -> ReportPerturbations:
    """The section on perturbed words: all drops, and one perturbed caption per language."""

    def drops_of(language: str) -> dict[str, dict[str, float | None]]:
        parts = {metric: drops[language] for metric, drops in robustness.drops.items()}
        return {
            **{kind: {m: part.value(f"drop_{kind}") for m, part in parts.items()} for kind in KINDS},
            "average": {metric: part.value("drop_average") for metric, part in parts.items()},
        }

    examples = []
    for number, (language, kinds) in enumerate(robustness.captions.items()):
        place = number % len(photos)  # a different photo in each language
        original = kinds["original"][place]

        def scores_of(kind: str, language: str = language, place: int = place) -> dict[str, float]:
            return {metric: scores[language][kind][place] for metric, scores in robustness.scores.items()}

        variants = [
            ReportVariant(
                kind=kind,
                text=kinds[kind][place],
                scores=scores_of(kind),
                changed=word_changes(original, kinds[kind][place], language)[1],
            )
            for kind in KINDS
        ]
        examples.append(ReportPerturbed(original, language, scores_of("original"), variants, photo=place))
    return ReportPerturbations(
        title="Perturbed words: MCS beside PR-MCS",
        intro=(*PERTURBED, " ".join(robustness_facts(robustness))),
        metrics=[
            ReportMetric(metric, LABELS[metric], signature)
            for metric, signature in robustness.signatures.items()
        ],
        drops={language: drops_of(language) for language in robustness.captions},
        examples=examples,
    )


def robustness_facts(robustness: Robustness) -> list[str]:
    """Sentences with the numbers over all languages and perturbations."""
    falls = [
        f"{LABELS[metric]} {'falls' if average < 0 else 'rises'} by {abs(100 * average):.0f}\u00a0%"
        for metric in robustness.drops
        for average in [average_drop(robustness, metric)]
    ]
    halved = {metric: count_halved(robustness, metric) for metric in robustness.drops}
    n = halved["mcs"][1]
    return [
        f"Perturbed, averaged over {len(robustness.captions)} languages and {len(KINDS)} perturbations: "
        f"{', '.join(falls)}.",
        f"Less than half of the original's score: MCS for {halved['mcs'][0]} of {n} perturbed captions, "
        f"PR-MCS for {halved['pr_mcs'][0]}.",
        f"Original captions keep {100 * kept_original(robustness):.0f}\u00a0% of their MCS in PR-MCS.",
    ]


class Planted(NamedTuple):
    """A right caption of a photo, and the same caption with a wrong noun, explained by InfoMetIC.

    Attributes:
        language: Language of both.
        noun: The planted noun.
        right: The right caption.
        wrong: The caption with the planted noun.
    """

    language: str
    noun: str
    right: ExplainedCaption
    wrong: ExplainedCaption

    @property
    def found(self) -> bool:
        """Whether the planted noun, or a word that is a part of it, is marked."""
        start = self.wrong.text.index(self.noun)
        return any(
            word["correct"] is False and word["start"] < start + len(self.noun) and word["end"] > start
            for word in self.wrong.explanation["words"]
        )

    @property
    def marked_in_right(self) -> tuple[int, int]:
        """The number of wrongly marked content words of the right caption, and of all its content words."""
        judged = [word for word in self.right.explanation["words"] if word["correct"] is not None]
        return sum(not word["correct"] for word in judged), len(judged)


class Explained(NamedTuple):
    """What InfoMetIC found in the captions with a planted noun.

    Attributes:
        pairs: One pair per language; languages whose content words cannot be found here are left out.
        label: Name of the scorer: InfoMetIC, or InfoCLIP where it has no trained weights.
        weights: Name of the weights; "info_clip" for none.
        signature: Everything that the numbers depend on.
        beta: Threshold above which words are right and regions are mentioned.
    """

    pairs: list[Planted]
    label: str
    weights: str
    signature: str
    beta: float


def explain_planted(photos: dict[str, Any], backbone: Any) -> Explained | None:
    """Explain the captions of `PLANTED` and the right ones; None where no tagger is installed."""
    languages = [language for language in PLANTED if supported(language)]
    if not languages:
        return None
    scorer = capscore.load("infometic", backbone=backbone, cache=False, progress=False)
    captions = [
        text
        for language in languages
        for text in (photos[PLANTED_IN]["captions"][language]["right"], PLANTED[language][1])
    ]
    scores = scorer.score(
        captions,
        [str(photo_path(photos[PLANTED_IN]["file"]))] * len(captions),
        language=[language for language in languages for _ in range(2)],
    )
    explained = explained_captions(captions, scores)
    pairs = [
        Planted(language, PLANTED[language][0], right, wrong)
        for language, right, wrong in zip(languages, explained[::2], explained[1::2], strict=True)
    ]
    label = "InfoCLIP" if scorer.weights == INFO_CLIP else "InfoMetIC"
    return Explained(pairs, label, scorer.weights, scores.signature, scorer.beta)


def explained_facts(explained: Explained) -> list[str]:
    """Sentences about the scorer and its success."""
    if explained.weights == INFO_CLIP:
        scorer = (
            "Scorer: InfoCLIP, which is InfoMetIC without its network, because its backbone has no trained "
            "weights. It gives nearly all weight to one or two words and marks most others, right or wrong: "
            "its marks mean little."
        )
    else:
        scorer = f"Scorer: InfoMetIC with trained weights for its backbone, {explained.weights}."
    counts = [pair.marked_in_right for pair in explained.pairs]
    marked, n_words = (sum(column) for column in zip(*counts, strict=True))
    found = sum(pair.found for pair in explained.pairs)
    return [
        scorer,
        f"Planted nouns that are marked: {found} of {len(explained.pairs)}. Content words of the right "
        f"captions that are wrongly marked: {marked} of {n_words}.",
    ]


def report_explanations(photos: dict[str, Any], explained: Explained) -> ReportExplanations:
    """The section on planted nouns: in each language the right caption beside the wrong one."""
    entry = photos[PLANTED_IN]
    return ReportExplanations(
        title="Planted words: what is wrong, and what is missing",
        intro=(*EXPLAINED, *explained_facts(explained)),
        metric=ReportMetric("infometic", explained.label, explained.signature),
        photos=[
            ReportExplained(
                image=photo_path(entry["file"]),
                title="Original captions, and captions with a planted noun",
                captions=[caption for pair in explained.pairs for caption in (pair.right, pair.wrong)],
                labels=[label for pair in explained.pairs for label in ("right", f"planted: {pair.noun}")],
                photo=list(photos).index(PLANTED_IN),
            )
        ],
        beta=explained.beta,
    )


def report_photos(
    photos: dict[str, Any], rows: list[Row], results: dict[str, dict[str, Any]]
) -> list[ReportPhoto]:
    """Every photo with its scored captions, for the table and the page."""
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
    """Numbers of photo–language pairs: all, with right > wrong, and with right ≥ half right ≥ wrong."""
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
    """Print one metric's scores: a line per photo and mark, a column per language; fits 80 columns."""
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


def print_robustness(robustness: Robustness, console: Any) -> None:
    """Print changes of mean scores: a line per perturbation, two columns per language; fits 80 columns."""
    from rich import box
    from rich.table import Table

    table = Table(
        title="Perturbed words: change of the mean score of the right captions, in %",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("perturbed", no_wrap=True)
    for language in robustness.captions:
        table.add_column(f" {language}\nMCS", justify="right", no_wrap=True)
        table.add_column("\nPR-MCS", justify="right", no_wrap=True, style="bold")
    for kind in [*KINDS, "average"]:
        cells = []
        for language in robustness.captions:
            for drops in robustness.drops.values():
                drop = drops[language]
                value = drop.value("drop_average") if kind == "average" else drop.value(f"drop_{kind}")
                cells.append(change_in_percent(value).removesuffix(" %"))
        table.add_row(kind, *cells, end_section=kind == KINDS[-1])
    means = [
        f"{drops[language].value('mean_original'):.2f}"
        for language in robustness.captions
        for drops in robustness.drops.values()
    ]
    table.add_section()
    table.add_row("mean as is", *means, style="dim")
    console.print(table)
    for fact in robustness_facts(robustness):
        console.print(fact)
    console.print()


def print_explained(explained: Explained, console: Any) -> None:
    """Print the captions with a planted noun: a line each, with its wrong words; fits 80 columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"Planted nouns: the words that {explained.label} marks as likely wrong",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 2, 0, 0),
    )
    for column in ("language", "planted", "found", "likely wrong"):
        table.add_column(column, no_wrap=column != "likely wrong")
    for pair in explained.pairs:
        table.add_row(
            pair.language,
            Text(pair.noun),
            "✓ yes" if pair.found else "✗ no",
            Text(", ".join(f"{word.text} ({word.title})" for word in wrong_words(pair.wrong)) or "none"),
        )
    console.print(table)
    for fact in explained_facts(explained):
        console.print(fact, markup=False)
    console.print()


def run(output: str, loaded: dict[str, Any], console: Any) -> None:
    """Score, print and write the page; `loaded` has backbones by name, to which those that it needs come."""

    def by_name(name: str) -> Any:
        if name not in loaded:
            loaded[name] = capscore.load_backbone(name)
        return loaded[name]

    started = time.perf_counter()
    console.print(f"{BACKBONE_NOTE}\n")
    photos = json.loads(CAPTIONS.read_text(encoding="utf-8"))
    with console.status("Loading the backbone and scoring …"):
        rows, results = score(photos, by_name(default_backbone("mcs")))
        tuned = default_backbone("pr_mcs")
        robustness = score_perturbed(photos, by_name(plain_backbone(tuned)), by_name(tuned))
        explained = explain_planted(photos, by_name(default_backbone("infometic")))
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
    print_robustness(robustness, console)
    if explained is None:
        console.print(f"{NO_TAGGER}\n", markup=False)  # capscore[nouns] is not markup
    else:
        print_explained(explained, console)
    facts += [
        (
            change_in_percent(average_drop(robustness, metric)),
            f"{label}: change of the score by perturbed words",
        )
        for metric, label in LABELS.items()
    ]

    metrics = []
    for metric, result in results.items():
        label, explanation = EXPLANATIONS[metric]
        metrics.append(ReportMetric(metric, label, result["signature"], explanation))
    signatures = {
        **{EXPLANATIONS[metric][0]: result["signature"] for metric, result in results.items()},
        **{f"{LABELS[metric]}, perturbed": each for metric, each in robustness.signatures.items()},
        **({} if explained is None else {explained.label: explained.signature}),
    }
    for label, signature in signatures.items():
        console.print(f"{label} signature: {signature}", soft_wrap=True, style="dim")
    page = write_html(
        output,
        title="Captions of six photos, scored in eight languages",
        intro=INTRO,
        photos=shown,
        metrics=metrics,
        facts=facts,
        perturbations=report_perturbations(photos, robustness),
        explanations=None if explained is None else report_explanations(photos, explained),
        reproduce=REPRODUCE,
        closing=(BACKBONE_NOTE,) if explained is not None else (BACKBONE_NOTE, NO_TAGGER),
    )
    seconds = time.perf_counter() - started
    console.print(f"\nPage: {page.resolve()} ({seconds:.1f} s in all)", soft_wrap=True)


def main(arguments: Sequence[str] | None = None, *, loaded: Sequence[Any] = ()) -> int:
    """Run the command and return its exit code. Backbones that are already loaded may be given."""
    parser = argparse.ArgumentParser(description="Score real photos in eight languages and write a page.")
    parser.add_argument("--output", default="demo.html", help="the page (default: demo.html)")
    output = parser.parse_args(arguments).output

    os.environ.update(SETTINGS)
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows ? instead of failing
    try:
        run(output, {backbone.name: backbone for backbone in loaded}, Console(highlight=False))
    except capscore.CapscoreError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
