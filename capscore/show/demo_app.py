"""The Gradio demo of a metric: captions, and a photo or references in; a bar and a score per caption out.

`metrics/<slug>/app.py` is this with its metric's name; needs the extra `capscore[app]`.
"""

from __future__ import annotations

import html
import math
import re
import threading
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, MissingExtraError
from ..scorers import load, scorer_class
from ..scorers.clip_score import W
from ..text.languages import NAMES, language_code

if TYPE_CHECKING:
    import gradio

    from ..scorers.backbone_scorer import BackboneScorer
    from ..scorers.base import Scorer, Scores

TITLES = {
    "mcs": "MCS",
    "pr_mcs": "PR-MCS",
    "clip_score": "CLIPScore",
    "infometic": "InfoMetIC",
    "ref_clip_score": "RefCLIPScore",
    "cider": "CIDEr",
}

ABOUT = {
    "mcs": "How well does a caption fit a photo, in any language? **2.5 · max(cos(caption, photo), 0)**, "
    "from 0 to 2.5, without references.",
    "pr_mcs": "How well does a caption fit a photo, in many languages, and **are its words in order**? The "
    "formula is that of MCS, **2.5 · max(cos(caption, photo), 0)**, from 0 to 2.5, without references; the "
    "text tower has learnt that repeated, missing, masked, jumbled and exchanged words are noise.",
    "clip_score": "How well does an English caption fit a photo? **2.5 · max(cos(caption, photo), 0)**, "
    "from 0 to 2.5, without references.",
    "infometic": "Which **words** of a caption are wrong, and which **regions** of the photo does it leave "
    "out? Words and regions get scores; those above β = 0.1 are right and mentioned. Three scores say how "
    "much of the caption the photo shows (**text precision**), how much of the photo the caption tells "
    "(**vision recall**), and both together (**overall**).",
    "ref_clip_score": "How well does a caption fit a photo, and what others wrote about it? "
    "The harmonic mean of **2.5 · max(cos(caption, photo), 0)** and the **largest cosine with a reference**, "
    "from 0 to 1.43.",
    "cider": "How much does a caption say in the words that others chose for the same photo? Shared runs of "
    "one to four words count, rare ones more than common ones; from 0 to 10.",
}

READING = (
    "Compare scores under the same signature only. A score alone is no grade and no percentage: towers of "
    "the CLIP kind give small cosines, so that even an excellent caption stays far below the maximum."
)

COUNTING = (
    "How rare words are is counted among all references in the box, so the score of a caption depends on "
    "those of the others. Compare scores under the same signature only."
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
    """The demo of one metric; `.launch()` starts it. The backbone is loaded when first asked for a score.

    Args:
        metric: "mcs", "pr_mcs", "clip_score", "infometic", "ref_clip_score" or "cider". PR-MCS perturbs the
            caption, and shows MCS on what its backbone was fine-tuned from beside it; InfoMetIC draws what
            it finds.
        backbone: as in `capscore.load`; None takes CAPSCORE_BACKBONE, else the metric's default. CIDEr has
            none.
        device: torch device; None takes a GPU where there is one.

    Raises:
        MissingExtraError: gradio is not installed.
        CapscoreError: no metric has that name, or it has no demo.
    """
    try:
        import gradio as gr
    except ImportError:
        raise MissingExtraError("gradio", "app", "the demo") from None
    kind = scorer_class(metric)
    if metric not in TITLES:
        raise CapscoreError(f"there is no demo of {metric}; those with one: {', '.join(TITLES)}")
    if metric == "pr_mcs":
        from .perturbation_app import perturbation_app

        return perturbation_app(gr, backbone, device)
    if metric == "infometic":
        from .explain_app import explain_app

        return explain_app(gr, backbone, device)
    if kind.needs_images:
        return _photo_app(gr, metric, backbone, device)
    return _text_app(gr, metric)


def _photo_app(gr: Any, metric: str, backbone: str | None, device: str | None) -> gradio.Blocks:
    from ..backbones.loading import default_backbone

    needs_references = scorer_class(metric).needs_references
    name = backbone or default_backbone(metric)
    loaded = LoadedOnce(lambda: load(metric, backbone=name, device=device, progress=False))

    def score(
        photo: str | None, captions: str, references: str = "", language: str | None = None
    ) -> tuple[str, str]:
        try:
            return _score(loaded, photo, captions, references if needs_references else None, language)
        except CapscoreError as error:
            raise gr.Error(html.escape(str(error), quote=False)) from error

    with gr.Blocks(title=TITLES[metric]) as app:
        gr.Markdown(f"# {TITLES[metric]}\n{ABOUT[metric]}\n\nBackbone: `{name}`")
        with gr.Row():
            with gr.Column():
                above = gr.Column()  # the examples' place; they need the inputs, which come below
                # the file as it was uploaded: no conversion, so the score is that of the library
                photo = gr.Image(type="filepath", image_mode=None, label="Photo", height=230)
                captions = gr.Textbox(label="Captions, one a line", lines=2, max_lines=12)
                references = gr.Textbox(
                    label="References, one a line", lines=2, max_lines=12, visible=needs_references
                )
                language = language_box(gr, "It is named in the signature, and changes no number.")
                button = gr.Button("Score", variant="primary")
                inputs = [photo, captions, references, language]
                with above:
                    _show_examples(gr, metric, inputs)
            with gr.Column():
                bars = gr.HTML(_empty(), label="Scores")
                signature = gr.Textbox(
                    label="Signature: quote it with the numbers", interactive=False, lines=2, max_lines=6
                )
                gr.Markdown(READING)
        button.click(score, inputs, [bars, signature], api_name="score")
    return app


def _text_app(gr: Any, metric: str) -> gradio.Blocks:
    loaded = LoadedOnce(lambda: load(metric))

    def score(captions: str, references: str, language: str | None = None) -> tuple[str, str]:
        try:
            return _score_texts(loaded, captions, references, language)
        except CapscoreError as error:
            raise gr.Error(html.escape(str(error), quote=False)) from error

    with gr.Blocks(title=TITLES[metric]) as app:
        gr.Markdown(f"# {TITLES[metric]}\n{ABOUT[metric]}")
        with gr.Row():
            with gr.Column():
                above = gr.Column()
                captions = gr.Textbox(label="Captions, one a line, each of another photo", lines=3)
                references = gr.Textbox(
                    label="References, one a line; an empty line before those of the next photo", lines=8
                )
                language = language_box(gr, "It says how texts are split into words.")
                button = gr.Button("Score", variant="primary")
                inputs = [captions, references, language]
                with above:
                    names, *columns = zip(*TEXT_EXAMPLES, strict=True)
                    rows = [list(row) for row in zip(*columns, strict=True)]
                    gr.Examples(rows, inputs, example_labels=list(names))
            with gr.Column():
                bars = gr.HTML('<div style="opacity:.7">Click an example; then press Score.</div>')
                signature = gr.Textbox(
                    label="Signature: quote it with the numbers", interactive=False, lines=2, max_lines=6
                )
                gr.Markdown(COUNTING)
        button.click(score, inputs, [bars, signature], api_name="score")
    return app


def language_box(gr: Any, info: str) -> Any:
    """The box in which a language is chosen or typed."""
    return gr.Dropdown(
        [("not stated", ""), *sorted((english, code) for code, (_, english) in NAMES.items())],
        value="",
        allow_custom_value=True,
        label="Language of the captions",
        info=f"Or type any code. {info}",
    )


class LoadedOnce:
    """A scorer that is loaded at the first request, by one thread."""

    def __init__(self, make: Callable[[], Scorer]):
        self._make = make
        self._lock = threading.Lock()
        self._scorer: Scorer | None = None

    def get(self) -> Scorer:
        with self._lock:
            if self._scorer is None:
                self._scorer = self._make()
            return self._scorer


def _score(
    loaded: LoadedOnce, photo: str | None, captions: str, references: str | None, language: str | None
) -> tuple[str, str]:
    if not photo:
        raise CapscoreError("there is no photo: upload one, or click an example")
    lines = _lines(captions)
    if not lines:
        raise CapscoreError("there is no caption: write at least one line")
    lists = None
    if references is not None:
        if not _lines(references):
            raise CapscoreError("there is no reference: write at least one line")
        lists = [_lines(references)] * len(lines)
    code = language_in(language)
    scorer = loaded.get()
    scores = scorer.score(lines, [photo] * len(lines), lists, code)
    terms = [_terms(scores, row) for row in range(len(lines))]
    return _bars(lines, scores, terms) + _notes(scorer, scores, code), scores.signature


def _score_texts(loaded: LoadedOnce, captions: str, references: str, language: str | None) -> tuple[str, str]:
    lines = _lines(captions)
    if not lines:
        raise CapscoreError("there is no caption: write at least one line")
    lists = [_lines(part) for part in re.split(r"\n\s*\n", references or "") if part.strip()]
    if len(lists) != len(lines):
        raise CapscoreError(
            f"{len(lines)} captions but the references of {len(lists)} photos: an empty line goes between "
            "the references of one photo and those of the next"
        )
    if len(lines) == 1:
        raise CapscoreError(
            "one photo only: how rare words are is counted among the references of all photos, and of one "
            "the score is 0 by definition; write a second caption with its references"
        )
    code = language_in(language)
    scores = loaded.get().score(lines, references=lists, language=code)
    terms = [_shared_words(line, texts, code) for line, texts in zip(lines, lists, strict=True)]
    return _bars(lines, scores, terms) + _split_note([*lines, *chain(*lists)], code), scores.signature


def _shared_words(caption: str, references: list[str], code: str | None) -> list[str]:
    """The longest runs of one to four words that a caption has in common with a reference.

    >>> _shared_words("a brown dog runs", ["a dog runs"], "en")
    ['“a”', '“dog runs”']
    """
    from ..scorers.formulas.ngrams import ORDERS
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


def language_in(language: str | None) -> str | None:
    """What was chosen in that box → a primary subtag, or None."""
    return language_code(language) if language and language.strip() else None


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _bars(captions: list[str], scores: Scores, terms: list[list[str]]) -> str:
    """One bar a caption, all on one scale: from 0 to 1, or further in steps of a half."""
    best = float(max(scores.scores))
    top = max(1.0, math.ceil(2 * best) / 2)
    parts = []
    for row, (caption, score) in enumerate(zip(captions, scores.scores, strict=True)):
        colour = "var(--color-accent, #f97316)" if score == best else "var(--neutral-400, #9ca3af)"
        below = "".join(f'<span dir="auto">{html.escape(term)}</span>' for term in terms[row])
        parts.append(
            '<div style="margin-bottom:1.1em">'
            '<div style="display:flex;gap:1em;justify-content:space-between;align-items:baseline">'
            f'<span dir="auto">{html.escape(caption)}</span>'
            f'<strong style="font-size:1.35em;font-variant-numeric:tabular-nums">{score:.3f}</strong></div>'
            '<div style="height:10px;border-radius:5px;background:var(--neutral-200, #e5e7eb)">'
            f'<div style="height:10px;border-radius:5px;width:{100 * score / top:.1f}%;background:{colour}">'
            "</div></div>"
            '<div style="display:flex;flex-wrap:wrap;gap:0 1.5em;opacity:.7;font-size:.85em">'
            f"{below}</div></div>"
        )
    scale = f'<div style="opacity:.7;font-size:.85em">Bars reach from 0 to {top:.1f}.</div>'
    return "".join(parts) + scale


def _terms(scores: Scores, row: int) -> list[str]:
    """What a score is made of."""
    if "text_score" in scores.components:
        return [
            f"with the photo {scores.components['clip_score'][row]:.3f}",
            f"with the nearest reference {scores.components['text_score'][row]:.3f}",
        ]
    cosine = scores.scores[row] / W
    return [f"{W:g} × cosine {cosine:.3f}" if cosine > 0 else "cosine 0 or below"]


def _notes(scorer: BackboneScorer, scores: Scores, code: str | None) -> str:
    notes = []
    known = scorer.backbone.languages
    if code is not None and known is not None and code not in known:
        notes.append(
            f"{scorer.backbone.name} was not trained on {code!r} (it knows {', '.join(sorted(known))}): "
            "these scores mean little."
        )
    if scores.n_truncated:
        notes.append(
            f"{scores.n_truncated} of {len(scores)} rows have a text longer than "
            f"{scorer.backbone.max_tokens} tokens; the rest of it was not seen."
        )
    return "".join(map(warned, notes))


def _split_note(texts: list[str], code: str | None) -> str:
    from ..text.segmentation import not_split_by_blanks

    unsplit = not_split_by_blanks(texts, code)
    if not unsplit:
        return ""
    return warned(
        f"{len(unsplit)} of {len(texts)} texts are written without spaces and were split at spaces, as the "
        f"language is {repr(code) if code else 'not stated'}: these scores mean little."
    )


def warned(note: str) -> str:
    """A note as HTML, with a sign in front of it."""
    return f'<p style="margin-top:.6em">⚠️ {html.escape(note)}</p>'


def _empty() -> str:
    return '<div style="opacity:.7">Upload a photo, or click an example; then press Score.</div>'


def _examples(metric: str) -> list[tuple[str, list[str]]]:
    """Names and rows of photo, captions, references, language; none where scikit-image is not installed."""
    if find_spec("skimage") is None:
        return []
    photos = files("skimage.data")
    return [
        (name, [str(photos / photo), f"{right}\n{wrong}", f"{first}\n{second}", language])
        for language, name, photo, right, wrong, first, second in EXAMPLES
        if metric != "clip_score" or language == "en"  # its text tower reads English
    ]


def _show_examples(gr: Any, metric: str, inputs: list[Any]) -> None:
    examples = _examples(metric)
    if examples:
        names, rows = zip(*examples, strict=True)
        gr.Examples(list(rows), inputs, example_labels=list(names))
    else:
        gr.Markdown("Example photos come with `pip install 'capscore[demo]'`.")
