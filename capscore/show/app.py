"""The Gradio app: score captions of a photo, compare them, explain their words and regions.

`capscore app` and `metrics/<name>/app.py` start it; it needs the extra `capscore[app]`. Gradio reads no file
but uploads and the examples; lengths of texts, which it limits in its page only, are checked again here.
"""

from __future__ import annotations

import html
import itertools
import json
import logging
import math
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from huggingface_hub import SpaceCard

from ..backbones.base import Backbone
from ..errors import CapscoreError, MissingExtraError, address_name, install_command, warnings_taken
from ..files.shipped import module_folder
from ..images.load import load_image
from ..judges.server import is_address
from ..metrics import load
from ..metrics.base import Scorer
from ..metrics.calibration import RIGHT, placed
from ..metrics.loading import default_backbone
from ..metrics.scores import Scores
from ..registry import METRICS
from ..tables import fixed
from ..text.languages import NAMES, language_code
from .explained import explained_captions
from .pages import explain_page, render

if TYPE_CHECKING:
    import gradio

DEFAULT = "mcs"  # the metric that is chosen first
MAX_CHARACTERS = 20_000  # in one box of text
MAX_CAPTIONS = 100
MAX_UPLOAD_BYTES = 20 * 2**20  # of a photo

READING = (
    "Compare scores only under the same signature. A score alone is neither a grade nor a percentage: CLIP "
    "models give small cosines, so even an excellent caption stays far below the maximum, and a judge is "
    "surer than it should be."
)


def build_app(
    metric: str | None = None, *, backbone: str | Backbone | None = None, device: str | None = None
) -> gradio.Blocks:
    """The app; `launch` starts it. A backbone is loaded at the first request."""
    try:
        import gradio as gr
    except ImportError:
        raise MissingExtraError("gradio", "app", "the app") from None
    scorers = _Scorers(backbone, device, metric or DEFAULT)
    title = "capscore"
    if metric is not None:
        title = METRICS.get(metric).title
    with gr.Blocks(title=title, analytics_enabled=False, delete_cache=(600, 3600)) as app:
        # a style sheet is an argument of Blocks in gradio 5 and of launch in gradio 6; this works in both
        gr.HTML(render("app_style.html"))
        for line in scorers.sent_elsewhere(metric):
            gr.Markdown(f"**{line}**")
        if metric is None:
            gr.Markdown("# capscore\nHow well does a caption fit its photo, in any language?")
            names = [(METRICS.get(name).title or name, name) for name in METRICS.names()]
            with gr.Tab("Explain"):
                _page(gr, scorers, next(filter(_marks_words, METRICS.names())), "Explain")
            with gr.Tab("Score"):
                choice = gr.Dropdown(names, value=DEFAULT, label="Metric", render=False)
                _page(gr, scorers, DEFAULT, "Score", choice)
            with gr.Tab("Compare"):
                several = gr.CheckboxGroup(names, value=[DEFAULT], label="Metrics", render=False)
                _page(gr, scorers, DEFAULT, "Compare", several)
        else:
            gr.Markdown(scorers.heading(metric))
            task = {True: "Explain", False: "Score"}[_marks_words(metric)]
            _page(gr, scorers, metric, task)
    return app


def _marks_words(metric: str) -> bool:
    return bool(METRICS.get(metric).marks_words())


def launch(app: gradio.Blocks, **options: Any) -> Any:
    """Start an app: no file of this machine is served, uploads are small, and few visitors wait at once."""
    settings = {
        "show_error": False,  # messages are shown all the same, other errors are not
        "max_file_size": MAX_UPLOAD_BYTES,
        "allowed_paths": [],
        "enable_monitoring": False,
    }
    return app.queue(max_size=20).launch(**{**settings, **options})


def sent_elsewhere(metric: str | None, backbone: str | None) -> list[str]:
    """What the app sends to servers, a sentence per metric with its model there; arguments of `build_app`."""
    return _Scorers(backbone, None, metric or DEFAULT).sent_elsewhere(metric)


class _Scorers:
    """Scorers by name, each loaded at its first request; one thread at a time uses them."""

    def __init__(self, backbone: str | Backbone | None, device: str | None, metric: str):
        self._backbone, self._device = backbone, device
        self._variable = METRICS.get(metric).backbone_variable
        self._lock = threading.Lock()
        self._scorers: dict[str, Scorer] = {}

    def score(
        self,
        metric: str,
        captions: Sequence[str],
        photo: object,
        references: list[list[str]] | None,
        language: object,
    ) -> tuple[Scorer, Scores, list[str]]:
        """The scorer, its scores of captions of one photo, and its warnings."""
        columns: dict[str, Any] = {"references": references}
        if lines := _given_lines(language, "the language"):
            columns["language"] = language_code(lines[0])
        if photo is not None:
            columns["images"] = [photo] * len(captions)
        with self._lock, warnings_taken() as taken:
            if metric not in self._scorers:
                kind = METRICS.get(metric)
                options = dict(kind.explaining)
                if kind.takes_backbone:
                    backbone = self._backbone_of(metric)
                    options |= {"backbone": backbone, "device": self._device, "progress": False}
                self._scorers[metric] = load(metric, **options)
            scorer = self._scorers[metric]
            scores = scorer.score(captions, **columns)
        notes = list(map(str, taken))
        return scorer, scores, [*map(without_folders, [*notes, *filter(None, [scorer.caution])])]

    def _backbone_of(self, metric: str) -> str | Backbone | None:
        """The backbone that the app was given, for metrics that it suits; None for a metric's own."""
        if METRICS.get(metric).backbone_variable == self._variable:
            return self._backbone
        return None

    def sent_elsewhere(self, metric: str | None) -> list[str]:
        """What a metric, or each for None, sends to the server that its model is behind, in a sentence.

        >>> _Scorers("http://gpu/v1", None, "judge").sent_elsewhere("judge")
        ['Judge sends each photo and its captions to http://gpu/v1, whose operator can read and keep them.']
        """
        lines: list[str] = []
        for name in METRICS.names() if metric is None else [metric]:
            kind, backbone = METRICS.get(name), None
            with suppress(CapscoreError):  # no backbone is the metric's own
                backbone = kind.takes_servers and (self._backbone_of(name) or default_backbone(name))
            if isinstance(backbone, str) and is_address(backbone):
                to = f"{kind.title or name} sends each photo and its captions to {address_name(backbone)}"
                lines.append(f"{to}, whose operator can read and keep them.")
        return lines

    def heading(self, metric: str) -> str:
        """Title, description and backbone of a metric's page."""
        scorer = METRICS.get(metric)
        about = (scorer.__doc__ or "").split("\n\n")[0]
        with suppress(CapscoreError):  # a metric without a module of its own
            about = SpaceCard.load(Path(module_folder(metric), "README.md")).data.to_dict()["description"]
        text = f"# {scorer.title or metric}\n{about}"
        if scorer.takes_backbone:
            chosen = self._backbone_of(metric) or default_backbone(metric)
            if isinstance(chosen, Backbone):
                chosen = chosen.name
            text += f"\n\nBackbone: `{without_folders(str(chosen))}`"
        return text


# ---- pages ----


def _page(
    gr: ModuleType,
    scorers: _Scorers,
    metric: str,
    task: str,
    choice: gradio.components.Component | None = None,
) -> None:
    """Boxes for a photo and its captions, and what a metric says of them."""

    def answer(photo: str | None, captions: object, *more: Any) -> tuple[str, str]:
        with _errors_as_messages(gr):
            if task == "Explain":
                page, signature = explained(scorers, metric, photo, captions, *more)
            else:
                show = {"Compare": compared, "Score": scored}[task]
                references, language, chosen = [*more, metric][:3]
                page, signature = show(scorers, chosen, photo, captions, references, language)
            return page, without_folders(signature)

    kind = METRICS.get(metric)
    examples = _examples(metric)
    values: list[str | None] = [None, "", "", ""]
    if examples:
        values = examples[0][1]
    with gr.Row():
        with gr.Column(min_width=300):
            if choice is not None:
                choice.render()
            needs = choice is not None
            boxes = _inputs(gr, values, needs or kind.needs_images, needs or kind.needs_references)
            photo, captions, _, language = boxes
            button = gr.Button(task, variant="primary")
            _show_examples(gr, examples, boxes)
        with gr.Column(scale=1 + (task == "Explain"), min_width=340):
            hint = f'<p class="hint">Press {task}, or write captions of your own first.</p>'
            result = gr.HTML(hint, label="Result")
            label = "Signature: quote it with the numbers"
            outputs = [result, gr.Textbox(label=label, interactive=False, lines=2, max_lines=8)]
            gr.Markdown(READING)
    inputs = [*boxes, *filter(None, [choice])]
    if task == "Explain":
        inputs = [photo, captions, language]
    button.click(answer, inputs, outputs, api_name=task.lower())


def _inputs(
    gr: ModuleType, values: Sequence[str | None], with_photo: bool = True, with_references: bool = False
) -> list[object]:
    """The boxes of the photo, the captions, their references and their language, with values."""
    photo, captions, references, language = values
    size = {"lines": 2, "max_lines": 12, "max_length": MAX_CHARACTERS}
    label = "References, one per line; an empty line before those of the next caption"
    known = sorted((english, code) for code, (_, english) in NAMES.items())
    info = "Or type any code. It determines how texts are split into words."
    choices: dict[str, object] = {"value": language, "allow_custom_value": True, "info": info}
    shown = {"type": "filepath", "image_mode": None, "label": "Photo", "height": 230}
    return [
        gr.Image(photo, visible=with_photo, **shown),
        gr.Textbox(captions, label="Captions, one per line", **size),
        gr.Textbox(references, label=label, visible=with_references, **size),
        gr.Dropdown([("not stated", ""), *known], label="Language of the captions", **choices),
    ]


def _show_examples(
    gr: ModuleType, rows: Sequence[tuple[str, list[str | None]]], inputs: list[object]
) -> None:
    if rows:
        names, values = zip(*rows, strict=True)
        gr.Examples(list(values), inputs, example_labels=list(names))
    else:
        gr.Markdown(f"Example photos come with `{install_command('demo')}`.")


def _examples(metric: str) -> list[tuple[str, list[str | None]]]:
    """Names and values of the boxes; none where scikit-image, which ships the photos, is not installed."""
    kind = METRICS.get(metric)
    photos = list(json.loads(files(__package__).joinpath("examples.json").read_text("utf-8")).values())
    if not kind.needs_images:
        captions = [photo["captions"]["en"] for photo in photos[:3]]
        references = "\n\n".join("\n".join(caption["references"]) for caption in captions)
        return [("English", [None, "\n".join(caption["right"] for caption in captions), references, "en"])]
    if find_spec("skimage") is None:
        return []
    second = {True: "half", False: "wrong"}[kind.marks_words()]
    found: list[tuple[str, list[str | None]]] = []
    for index, code in enumerate(photos[0]["captions"]):
        if not _suits(kind, code):
            continue
        photo = photos[index % len(photos)]
        path, captions = str(files("skimage.data") / photo["file"]), photo["captions"][code]
        texts = f"{captions['right']}\n{captions[second]}", "\n".join(captions["references"])
        found.append((NAMES[code][0], [path, *texts, code]))
    return found


def _suits(kind: Any, code: str) -> bool:
    """Whether captions in a language suit a metric: its own backbone knows it, and it finds their words."""
    from ..backbones import find
    from ..text.word_classes import supported

    known = find(kind.default_backbone)
    if known is not None and known.languages and code not in known.languages:
        return False
    return not kind.marks_words() or supported(code)


# ---- answers ----


def scored(
    scorers: _Scorers, metric: str, photo: str | None, captions: object, references: object, language: object
) -> tuple[str, str]:
    """A bar per caption with notes as HTML, and the signature."""
    lines = _given_captions(captions)
    scores, notes = _scores_of(scorers, metric, photo, lines, references, language)
    top = max(1.0, math.ceil(2 * np.nanmax(scores.scores, initial=0.0)) / 2)
    best = np.nanmax(scores.rising(), initial=-math.inf)
    worse = {True: "lower", False: "higher"}[METRICS.get(metric).higher_is_better]
    rows = []
    for index, caption in enumerate(explained_captions(lines, scores)):
        score = float(scores.scores[index])
        terms = [f"{name}: {fixed(values[index], 3)}" for name, values in scores.components.items()]
        if not math.isnan(caption.rank):
            terms.append(f"rank: {caption.rank:.0f} % of {caption.right_captions} score {worse}")
        terms += filter(None, (caption.found, caption.reason))
        is_best = scores.rising()[index] == best
        share = max(score, 0.0) / top
        rows.append(
            {"caption": caption.text, "score": score, "share": share, "terms": terms, "is_best": is_best}
        )
    return render("app_scores.html", rows=rows, top=top, notes=notes), scores.signature


def compared(
    scorers: _Scorers,
    metrics: Sequence[str],
    photo: str | None,
    captions: object,
    references: object,
    language: object,
) -> tuple[str, str]:
    """A table of captions and metrics as HTML, the best of each metric bold; and the signatures."""
    lines = _given_captions(captions)
    if not metrics:
        raise CapscoreError("no metric is chosen: tick at least one")
    columns, signatures, notes = [], [], dict[str, None]()
    for metric in metrics:
        scores, cautions = _scores_of(scorers, metric, photo, lines, references, language)
        best = np.nanmax(scores.rising(), initial=-math.inf)
        columns.append(
            {
                "title": METRICS.get(metric).title or metric,
                "scores": scores.scores.tolist(),
                "ranks": placed(scores).below[RIGHT].tolist(),
                "is_best": (scores.rising() == best).tolist(),
            }
        )
        signatures.append(scores.signature)
        notes |= dict.fromkeys(cautions)
    return render("app_comparison.html", captions=lines, columns=columns, notes=notes), "\n".join(signatures)


def _scores_of(
    scorers: _Scorers,
    metric: str,
    photo: str | None,
    lines: Sequence[str],
    references: object,
    language: object,
) -> tuple[Scores, list[str]]:
    kind = METRICS.get(metric)
    lists = None
    if kind.needs_references:
        lists = _given_references(references, len(lines))
    photo = _given_photo(photo) if kind.needs_images else None
    _, scores, notes = scorers.score(metric, lines, photo, lists, language)
    return scores, notes


def explained(
    scorers: _Scorers, metric: str, photo: str | None, captions: object, language: object
) -> tuple[str, str]:
    picture, lines = load_image(_given_photo(photo)), _given_captions(captions)
    scorer, scores, notes = scorers.score(metric, lines, picture, None, language)
    title = "What is wrong, and what is missing"
    page = explain_page(picture, explained_captions(lines, scores), title, beta=scorer.marks_below)
    return render("app_frame.html", notes=notes, page=page), scores.signature


# ---- what a visitor gives ----

_FOLDERS = re.compile(
    r"(?P<address>\b(?!file:)[a-z][a-z0-9+]+://\S+)"
    # in quotation marks a folder's name may hold any sign, elsewhere blanks or brackets
    r"|(?<=['\"])(?:file://|~\w*|[A-Za-z]:)?[/\\]+(?:[^'\"\n/\\]+[/\\]+)+(?=[^'\"\n]*['\"])"
    r"|(?<![\w/.…\\])(?:file://|~\w*|[A-Za-z]:)?[/\\]+"
    r"(?:(?:[^\s'\"<>|:~/\\]+|[^\s'\"<>|:;,()~/\\]+(?: [^\s'\"<>|:;,()~/\\]+)+)[/\\]+)+"
)


def without_folders(message: str) -> str:
    """A message without the folders of this machine: of each absolute path, the file's name is left.

    >>> without_folders("no 'java' in /opt/jdk 8/bin/java: see https://x.org/a/b, 1/2 or ~/me/p.jpg")
    "no 'java' in java: see https://x.org/a/b, 1/2 or p.jpg"
    """
    return _FOLDERS.sub(lambda found: found["address"] or "", message)


@contextmanager
def _errors_as_messages(gr: ModuleType) -> Iterator[None]:
    """Show an error of capscore in the browser, as text; of any other error only that there was one."""
    try:
        yield
    except CapscoreError as error:
        message = without_folders(str(error))
        raise gr.Error(html.escape(message, quote=False), print_exception=False) from error
    except Exception as error:
        logging.getLogger(__name__).exception("the app failed")
        raise gr.Error("Something went wrong inside the app; its log says what.") from error


def _given_lines(text: object, what: str, max_lines: int | None = None) -> list[str]:
    """The lines of a box, without blank ones at its ends."""
    if not isinstance(text, str | None):
        raise CapscoreError(f"{what}: expected a text, got a {type(text).__name__}")
    text = text or ""
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(text) > MAX_CHARACTERS or len(lines) > (max_lines or len(lines)):
        raise CapscoreError(
            f"{what}: {len(text):,} characters in {len(lines):,} lines; this app reads {MAX_CHARACTERS:,} "
            f"characters and {MAX_CAPTIONS} captions at most, `capscore score` any number"
        )
    return lines


def _given_captions(captions: object) -> list[str]:
    lines = [line for line in _given_lines(captions, "the captions", MAX_CAPTIONS) if line]
    if not lines:
        raise CapscoreError("there is no caption: write at least one line")
    return lines


def _given_references(references: object, n_captions: int) -> list[list[str]]:
    """References of each caption; those of one photo are for all captions."""
    parts = itertools.groupby(_given_lines(references, "the references"), key=bool)
    lists = [list(part) for has_text, part in parts if has_text]
    if not lists:
        raise CapscoreError("there is no reference: write at least one line")
    if len(lists) not in (1, n_captions):
        raise CapscoreError(
            f"{n_captions} captions but the references of {len(lists)} photos: put an empty line between "
            "the references of one photo and those of the next"
        )
    if len(lists) == 1:
        return lists * n_captions
    return lists


def _given_photo(path: str | None) -> str:
    if not path:
        raise CapscoreError("there is no photo: upload one, or click an example")
    if os.path.getsize(path) > MAX_UPLOAD_BYTES:
        raise CapscoreError(f"the photo is too large: this app reads {MAX_UPLOAD_BYTES // 2**20} MB at most")
    return path
