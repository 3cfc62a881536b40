"""The Gradio demo of a metric: captions and a photo or references → a score and a bar per caption.

`metrics/<slug>/app.py` calls this with its metric's name; needs the extra `capscore[app]`.
"""

from __future__ import annotations

import math
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, MissingExtraError
from ..metrics import load
from ..registry import METRICS
from .app_inputs import example_photo, given_captions, given_photo, given_text, lines_in
from .app_parts import (
    ABOUT,
    READING,
    TITLES,
    LoadedOnce,
    captions_box,
    errors_as_messages,
    heading,
    hint,
    language_box,
    language_in,
    language_notes,
    launch,
    new_app,
    photo_box,
    show_examples,
    signature_box,
    warnings_html,
)
from .explain_app import explain_app
from .markup import render
from .perturbation_app import perturbation_app

__all__ = ["build_app", "launch"]

if TYPE_CHECKING:
    import gradio

    from ..metrics.backbone_scorer import BackboneScorer
    from ..metrics.base import Scores

COUNTING = (
    "The rarity of words is counted among all references in the box, so a caption's score depends on the "
    "references of the other captions. Compare scores only under the same signature."
)

# captions, references of each, language
TEXT_EXAMPLES = (
    ("English", "a brown dog runs along the beach\na cat sits on a sofa\ntwo people ride bicycles",
     "a dog runs along the beach\na brown dog is running at the sea\n\n"
     "a black cat sleeps on the window sill\na cat is lying by the window\n\n"
     "two people ride bicycles through a park\ntwo cyclists in a park", "en"),
    ("Deutsch", "ein brauner Hund rennt am Strand\neine Katze schläft\nzwei Leute fahren Rad",
     "ein Hund rennt am Strand entlang\nein brauner Hund läuft am Meer\n\n"
     "eine schwarze Katze schläft auf der Fensterbank\neine Katze liegt am Fenster\n\n"
     "zwei Leute fahren Rad im Park\nzwei Radfahrer in einem Park", "de"),
)  # fmt: skip

# language, its name, photo (as scikit-image ships it), a right and a wrong caption, two references
EXAMPLES = (
    ("en", "English", "astronaut.png", "An astronaut in an orange suit.", "A plate of spaghetti.",
     "A woman in a space suit.", "Portrait of a smiling astronaut."),
    ("de", "Deutsch", "chelsea.png", "Eine Katze schaut in die Kamera.", "Zwei Männer spielen Fußball.",
     "Nahaufnahme einer Katze.", "Das Gesicht einer Katze mit grünen Augen."),
    ("fr", "Français", "coffee.png", "Une tasse de café avec une cuillère.", "Un train entre en gare.",
     "Une tasse et sa soucoupe.", "Un café noir sur une table en bois."),
    ("es", "Español", "motorcycle_left.png", "Una motocicleta en un garaje.", "Un plato de ensalada.",
     "Una moto roja en un taller.", "Una motocicleta roja aparcada."),
    ("ja", "日本語", "rocket.jpg", "発射台に立つロケット。", "猫がソファで寝ている。",
     "打ち上げを待つロケット。", "夕暮れの発射台とロケット。"),
    ("zh", "中文", "coffee.png", "桌上放着一杯咖啡。", "一个人在海边冲浪。",
     "一杯咖啡和一把勺子。", "木桌上的咖啡杯。"),
    ("ar", "العربية", "chelsea.png", "قطة تنظر إلى الكاميرا.", "طائرة في السماء.",
     "وجه قطة.", "صورة قريبة لقطة."),
    ("ru", "Русский", "rocket.jpg", "Ракета стоит на стартовой площадке.", "Кошка спит на диване.",
     "Ракета перед запуском.", "Ракета на фоне вечернего неба."),
)  # fmt: skip


def build_app(metric: str, *, backbone: str | None = None, device: str | None = None) -> gradio.Blocks:
    """The demo of one metric; `launch` starts it. The backbone is loaded at the first request.

    Args:
        metric: "mcs", "pr_mcs", "clip_score", "infometic", "ref_clip_score" or "cider". The demo of PR-MCS
            perturbs the caption and shows MCS on the original backbone beside it; the demo of InfoMetIC draws
            words and regions.
        backbone: As in `capscore.load`; None takes CAPSCORE_BACKBONE, else the metric's default. CIDEr has
            none.
        device: Torch device; None takes a GPU where there is one.

    Raises:
        MissingExtraError: gradio is not installed.
        CapscoreError: an unknown metric, or one without a demo.
    """
    try:
        import gradio as gr
    except ImportError:
        raise MissingExtraError("gradio", "app", "the demo") from None
    kind = METRICS.get(metric)
    if metric not in TITLES:
        raise CapscoreError(f"there is no demo of {metric}; there are demos of {', '.join(TITLES)}")
    if metric == "pr_mcs":
        return perturbation_app(gr, backbone, device)
    if metric == "infometic":
        return explain_app(gr, backbone, device)
    if kind.needs_images:
        return _photo_app(gr, metric, backbone, device)
    return _text_app(gr, metric)


def _photo_app(gr: Any, metric: str, backbone: str | None, device: str | None) -> gradio.Blocks:
    from ..metrics.loading import default_backbone

    needs_references = METRICS.get(metric).needs_references
    name = backbone or default_backbone(metric)
    loaded = LoadedOnce(lambda: load(metric, backbone=name, device=device, progress=False))

    def score(
        photo: str | None, captions: str, references: str = "", language: str | None = None
    ) -> tuple[str, str]:
        with errors_as_messages(gr, photo):
            return _score(loaded, photo, captions, references if needs_references else None, language)

    with new_app(gr, metric) as app:
        heading(gr, metric, name)
        with gr.Row():
            with gr.Column():
                above = gr.Column()  # place of the examples, which need the inputs below
                photo = photo_box(gr, height=230)
                captions = captions_box(gr)
                references = captions_box(gr, "References, one per line", visible=needs_references)
                language = language_box(gr, "It is named in the signature and changes no number.")
                button = gr.Button("Score", variant="primary")
                inputs = [photo, captions, references, language]
                with above:
                    show_examples(gr, _examples(metric), inputs, "demo")
            with gr.Column():
                bars = hint(gr, "Upload a photo, or click an example; then press Score.", "Scores")
                signature = signature_box(gr)
                gr.Markdown(READING)
        button.click(score, inputs, [bars, signature], api_name="score")
    return app


def _text_app(gr: Any, metric: str) -> gradio.Blocks:
    loaded = LoadedOnce(lambda: load(metric))

    def score(captions: str, references: str, language: str | None = None) -> tuple[str, str]:
        with errors_as_messages(gr):
            return _score_texts(loaded, captions, references, language)

    with new_app(gr, metric) as app:
        gr.Markdown(f"# {TITLES[metric]}\n{ABOUT[metric]}")
        with gr.Row():
            with gr.Column():
                above = gr.Column()
                captions = captions_box(gr, "Captions, one per line, each of another photo", lines=3)
                references = captions_box(
                    gr, "References, one per line; an empty line before those of the next photo", lines=8
                )
                language = language_box(gr, "It determines how texts are split into words.")
                button = gr.Button("Score", variant="primary")
                inputs = [captions, references, language]
                with above:
                    show_examples(gr, [(name, list(row)) for name, *row in TEXT_EXAMPLES], inputs, "")
            with gr.Column():
                bars = hint(gr, "Click an example; then press Score.", "Scores")
                signature = signature_box(gr)
                gr.Markdown(COUNTING)
        button.click(score, inputs, [bars, signature], api_name="score")
    return app


def _score(
    loaded: LoadedOnce, photo: str | None, captions: str, references: str | None, language: str | None
) -> tuple[str, str]:
    photo, lines = given_photo(photo), given_captions(captions)
    lists = None
    if references is not None:
        given = lines_in(references, "the references")
        if not given:
            raise CapscoreError("there is no reference: write at least one line")
        lists = [given] * len(lines)
    code = language_in(language)
    scorer = loaded.get()
    scores = scorer.score(lines, [photo] * len(lines), lists, code)
    terms = [_terms(scorer, scores, row) for row in range(len(lines))]
    return _bars(lines, scores, terms) + warnings_html(_notes(scorer, scores, code)), scores.signature


def _score_texts(loaded: LoadedOnce, captions: str, references: str, language: str | None) -> tuple[str, str]:
    lines = given_captions(captions)
    text = given_text(references, "the references")
    lists = [lines_in(part, "the references") for part in re.split(r"\n\s*\n", text) if part.strip()]
    if len(lists) != len(lines):
        raise CapscoreError(
            f"{len(lines)} captions but the references of {len(lists)} photos: put an empty line between "
            "the references of one photo and those of the next"
        )
    if len(lines) == 1:
        raise CapscoreError(
            "one photo only: the rarity of words is counted among the references of all photos, and with one "
            "photo the score is 0 by definition; write a second caption with its references"
        )
    code = language_in(language)
    scores = loaded.get().score(lines, references=lists, language=code)
    terms = [_shared_words(line, texts, code) for line, texts in zip(lines, lists, strict=True)]
    notes = _split_notes([*lines, *chain(*lists)], code)
    return _bars(lines, scores, terms) + warnings_html(notes), scores.signature


def _shared_words(caption: str, references: list[str], code: str | None) -> list[str]:
    """The longest runs of one to four words that a caption shares with a reference.

    >>> _shared_words("a brown dog runs", ["a dog runs"], "en")
    ['“a”', '“dog runs”']
    """
    from ..metrics.formulas.ngrams import ORDERS
    from ..text.segmentation import tokenize

    words, *others = tokenize([caption, *references], code)
    known = {
        tuple(other[start : start + size])
        for other in others
        for size in range(1, ORDERS + 1)
        for start in range(len(other) - size + 1)
    }
    runs, end = [], 0
    for start in range(len(words)):
        ends = range(min(start + ORDERS, len(words)), start, -1)
        last = next((last for last in ends if tuple(words[start:last]) in known), 0)
        if last > end:  # not inside the one before
            end = last
            runs.append(f"“{' '.join(words[start:end])}”")
    return runs or ["no word in common"]


def _bars(captions: list[str], scores: Scores, terms: list[list[str]]) -> str:
    """One bar per caption, all on one scale: from 0 to 1, or further in steps of a half."""
    best = float(max(scores.scores))
    rows = [
        {"caption": caption, "score": float(score), "terms": own}
        for caption, score, own in zip(captions, scores.scores, terms, strict=True)
    ]
    return render("bars.html", rows=rows, best=best, top=max(1.0, math.ceil(2 * best) / 2))


def _terms(scorer: BackboneScorer, scores: Scores, row: int) -> list[str]:
    """The parts of a score."""
    if "text_score" in scores.components:
        return [
            f"with the photo {scores.components['clip_score'][row]:.3f}",
            f"with the nearest reference {scores.components['text_score'][row]:.3f}",
        ]
    w = scorer.backbone.w
    cosine = scores.scores[row] / w
    return [f"{w:g} × cosine {cosine:.3f}" if cosine > 0 else "cosine 0 or below"]


def _notes(scorer: BackboneScorer, scores: Scores, code: str | None) -> list[str]:
    notes = language_notes(scorer.backbone, code)
    if scores.n_truncated:
        notes.append(
            f"{scores.n_truncated} of {len(scores)} rows have a text longer than "
            f"{scorer.backbone.max_tokens} tokens; the rest was cut off."
        )
    return notes


def _split_notes(texts: list[str], code: str | None) -> list[str]:
    from ..text.segmentation import not_split_by_blanks

    unsplit = not_split_by_blanks(texts, code)
    if not unsplit:
        return []
    return [
        f"{len(unsplit)} of {len(texts)} texts are written without spaces but were split at spaces, because "
        f"the language is {repr(code) if code else 'not stated'}: these scores mean little."
    ]


def _examples(metric: str) -> list[tuple[str, list[str]]]:
    """Names and rows of photo, captions, references, language; none where scikit-image is not installed."""
    return [
        (name, [path, f"{right}\n{wrong}", f"{first}\n{second}", language])
        for language, name, photo, right, wrong, first, second in EXAMPLES
        if metric != "clip_score" or language == "en"  # its text tower reads English
        if (path := example_photo(photo))
    ]
