"""The Gradio demo of a metric: a photo and captions in, a bar and a score per caption out.

`metrics/<slug>/app.py` is this with its metric's name; needs the extra `capscore[app]`.
"""

from __future__ import annotations

import html
import math
import threading
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import CapscoreError, MissingExtraError
from .languages import NAMES, language_code
from .scorers import load, scorer_class
from .scorers.clip_score import W

if TYPE_CHECKING:
    import gradio

    from .scorers.base import Scorer, Scores

TITLES = {"mcs": "MCS", "clip_score": "CLIPScore", "ref_clip_score": "RefCLIPScore"}

ABOUT = {
    "mcs": "How well does a caption fit a photo, in any language? **2.5 · max(cos(caption, photo), 0)**, "
    "from 0 to 2.5, without references.",
    "clip_score": "How well does an English caption fit a photo? **2.5 · max(cos(caption, photo), 0)**, "
    "from 0 to 2.5, without references.",
    "ref_clip_score": "How well does a caption fit a photo, and what others wrote about it? "
    "The harmonic mean of **2.5 · max(cos(caption, photo), 0)** and the **largest cosine with a reference**, "
    "from 0 to 1.43.",
}

READING = (
    "Compare scores under the same signature only. A score alone is no grade and no percentage: towers of "
    "the CLIP kind give small cosines, so that even an excellent caption stays far below the maximum."
)

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
        metric: "mcs", "clip_score" or "ref_clip_score".
        backbone: as in `capscore.load`; None takes CAPSCORE_BACKBONE, else the metric's default.
        device: torch device; None takes a GPU where there is one.

    Raises:
        MissingExtraError: gradio is not installed.
        CapscoreError: no metric has that name.
    """
    try:
        import gradio as gr
    except ImportError:
        raise MissingExtraError("gradio", "app", "the demo") from None
    from .backbones.loading import default_backbone

    needs_references = scorer_class(metric).needs_references
    name = backbone or default_backbone(metric)
    loaded = _LoadedOnce(metric, name, device)

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
                language = gr.Dropdown(
                    [("not stated", ""), *sorted((english, code) for code, (_, english) in NAMES.items())],
                    value="",
                    allow_custom_value=True,
                    label="Language of the captions",
                    info="Or type any code. It is named in the signature, and changes no number.",
                )
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


class _LoadedOnce:
    """A scorer that is loaded at the first request, by one thread."""

    def __init__(self, metric: str, backbone: str, device: str | None):
        self._arguments = {"metric": metric, "backbone": backbone, "device": device, "progress": False}
        self._lock = threading.Lock()
        self._scorer: Scorer | None = None

    def get(self) -> Scorer:
        with self._lock:
            if self._scorer is None:
                self._scorer = load(**self._arguments)
            return self._scorer


def _score(
    loaded: _LoadedOnce, photo: str | None, captions: str, references: str | None, language: str | None
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
    code = language_code(language) if language and language.strip() else None
    scorer = loaded.get()
    scores = scorer.score(lines, [photo] * len(lines), lists, code)
    return _bars(lines, scores) + _notes(scorer, scores, code), scores.signature


def _lines(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _bars(captions: list[str], scores: Scores) -> str:
    """One bar a caption, all on one scale: from 0 to 1, or further in steps of a half."""
    best = float(max(scores.scores))
    top = max(1.0, math.ceil(2 * best) / 2)
    parts = []
    for row, (caption, score) in enumerate(zip(captions, scores.scores, strict=True)):
        colour = "var(--color-accent, #f97316)" if score == best else "var(--neutral-400, #9ca3af)"
        terms = "".join(f"<span>{term}</span>" for term in _terms(scores, row))
        parts.append(
            '<div style="margin-bottom:1.1em">'
            '<div style="display:flex;gap:1em;justify-content:space-between;align-items:baseline">'
            f'<span dir="auto">{html.escape(caption)}</span>'
            f'<strong style="font-size:1.35em;font-variant-numeric:tabular-nums">{score:.3f}</strong></div>'
            '<div style="height:10px;border-radius:5px;background:var(--neutral-200, #e5e7eb)">'
            f'<div style="height:10px;border-radius:5px;width:{100 * score / top:.1f}%;background:{colour}">'
            "</div></div>"
            f'<div style="display:flex;gap:1.5em;opacity:.7;font-size:.85em">{terms}</div></div>'
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


def _notes(scorer: Scorer, scores: Scores, code: str | None) -> str:
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
    return "".join(f'<p style="margin-top:.6em">⚠️ {html.escape(note)}</p>' for note in notes)


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
