"""What the Gradio demos of all metrics share: texts, boxes, examples, and errors shown as messages."""

from __future__ import annotations

import html
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..backbones.base import Backbone
from ..errors import CapscoreError
from ..text.languages import NAMES, language_code
from .app_inputs import MOST_CHARACTERS, MOST_UPLOAD_BYTES, given_text
from .markup import render

if TYPE_CHECKING:
    from ..metrics.base import Scorer

TITLES = {
    "mcs": "MCS",
    "pr_mcs": "PR-MCS",
    "clip_score": "CLIPScore",
    "infometic": "InfoMetIC",
    "ref_clip_score": "RefCLIPScore",
    "cider": "CIDEr",
}

ABOUT = {
    "mcs": "How well does a caption fit a photo, in any language? **w · max(cos(caption, photo), 0)**, "
    "from 0 to w, without references; w is 2.5 for most backbones.",
    "pr_mcs": "How well does a caption fit a photo, in many languages, and **are its words in order**? The "
    "formula is that of MCS, **w · max(cos(caption, photo), 0)**, from 0 to w, without references; w is 2.5 "
    "for most backbones. The text tower was trained to treat repeated, missing, masked, jumbled and "
    "exchanged words as noise.",
    "clip_score": "How well does an English caption fit a photo? **w · max(cos(caption, photo), 0)**, "
    "from 0 to w, without references; w is 2.5 for most backbones.",
    "infometic": "Which **words** of a caption are likely wrong, and which **regions** of the photo does it "
    "leave out? A caption that does not fit the photo at all is said to be so. Three "
    "scores say how much of the caption is in the photo (**text precision**), how much of the photo is in "
    "the caption (**vision recall**), and both together (**overall**).",
    "ref_clip_score": "How well does a caption fit a photo and its reference captions? "
    "The harmonic mean of **w · max(cos(caption, photo), 0)** and the **largest cosine with a reference**, "
    "from 0 to 2w / (w + 1); w is 2.5 for most backbones.",
    "cider": "How many words does a caption share with the reference captions of the same photo? Shared runs "
    "of one to four words count, rare ones more than common ones; from 0 to 10.",
}

READING = (
    "Compare scores only under the same signature. A score alone is neither a grade nor a percentage: CLIP "
    "models give small cosines, so even an excellent caption stays far below the maximum."
)


class LoadedOnce:
    """A scorer that is loaded at the first request, by one thread.

    Args:
        make: Function that loads it.
    """

    def __init__(self, make: Callable[[], Scorer]):
        self._make = make
        self._lock = threading.Lock()
        self._scorer: Scorer | None = None

    def get(self) -> Any:
        """The scorer."""
        with self._lock:
            if self._scorer is None:
                self._scorer = self._make()
            return self._scorer


@contextmanager
def errors_as_messages(gr: Any, photo: Any = None) -> Iterator[None]:
    """Show an error of capscore in the browser, as text; of any other error only that there was one.

    Args:
        gr: The gradio module.
        photo: Path of the uploaded photo, of which the visitor is told the name alone.
    """
    try:
        yield
    except CapscoreError as error:
        message = str(error)
        if isinstance(photo, str) and len(photo) > 1:
            message = message.replace(photo, os.path.basename(photo))
        raise gr.Error(html.escape(message, quote=False), print_exception=False) from error
    except Exception as error:
        logging.getLogger(__name__).exception("the demo failed")
        message = "Something went wrong inside the demo; its log says what."
        raise gr.Error(message, print_exception=False) from error


@contextmanager
def new_app(gr: Any, metric: str) -> Iterator[Any]:
    """A page to fill, with our style: no telemetry; uploads are removed after an hour."""
    with gr.Blocks(title=TITLES[metric], analytics_enabled=False, delete_cache=(600, 3600)) as app:
        yield app
        # a style sheet is an argument of Blocks in gradio 5 and of launch in gradio 6; this works in both
        gr.HTML(render("app_style.html"))


def launch(app: Any, **options: Any) -> Any:
    """Start a demo: no file of this machine is served, uploads are small, and few visitors wait at once.

    Args:
        app: What `build_app` made.
        **options: Further arguments of gradio's `launch`, such as `server_name`.
    """
    return app.queue(max_size=20).launch(
        **{
            "show_error": False,  # messages are shown all the same, other errors are not
            "max_file_size": MOST_UPLOAD_BYTES,
            "allowed_paths": [],
            "enable_monitoring": False,
            **options,
        }
    )


def heading(gr: Any, metric: str, backbone: str | Backbone) -> Any:
    """Title, description and backbone of a demo."""
    name = backbone.name if isinstance(backbone, Backbone) else backbone
    return gr.Markdown(f"# {TITLES[metric]}\n{ABOUT[metric]}\n\nBackbone: `{name}`")


def photo_box(gr: Any, height: int) -> Any:
    """The box for a photo. The scorer reads the uploaded file itself, so scores equal the library's."""
    return gr.Image(type="filepath", image_mode=None, label="Photo", height=height)


def captions_box(gr: Any, label: str = "Captions, one per line", **options: Any) -> Any:
    """A box for texts, one per line."""
    return gr.Textbox(label=label, **{"lines": 2, "max_lines": 12, "max_length": MOST_CHARACTERS, **options})


def language_box(gr: Any, info: str) -> Any:
    """The box in which a language is chosen or typed."""
    return gr.Dropdown(
        [("not stated", ""), *sorted((english, code) for code, (_, english) in NAMES.items())],
        value="",
        allow_custom_value=True,
        label="Language of the captions",
        info=f"Or type any code. {info}",
    )


def hint(gr: Any, text: str, label: str) -> Any:
    """The place of the result, with a hint until there is one."""
    return gr.HTML(render("hint.html", text=text), label=label)


def signature_box(gr: Any, label: str = "Signature: quote it with the numbers", max_lines: int = 6) -> Any:
    """The box that shows what the scores depend on."""
    return gr.Textbox(label=label, interactive=False, lines=2, max_lines=max_lines)


def language_in(language: str | None) -> str | None:
    """The content of the language box → a primary subtag, or None."""
    language = given_text(language, "the language")
    return language_code(language) if language and language.strip() else None


def language_notes(backbone: Backbone, code: str | None) -> list[str]:
    """A note where the backbone was not trained on the language."""
    known = backbone.languages
    if code is None or known is None or code in known:
        return []
    return [
        f"{backbone.name} was not trained on {code!r} (it knows {', '.join(sorted(known))}): "
        "these scores mean little."
    ]


def warnings_html(notes: Sequence[str]) -> str:
    """Notes as HTML, each with a warning sign."""
    return render("warnings.html", notes=notes)


def show_examples(gr: Any, rows: Sequence[tuple[str, list[str]]], inputs: list[Any], extras: str) -> None:
    """Examples that fill the inputs when clicked.

    Args:
        gr: The gradio module.
        rows: Name of each example, and the values of the inputs.
        inputs: Boxes to fill.
        extras: Extras of capscore that bring the example photos.
    """
    if rows:
        names, values = zip(*rows, strict=True)
        gr.Examples(list(values), inputs, example_labels=list(names))
    else:
        gr.Markdown(f"Example photos come with `pip install 'capscore[{extras}]'`.")
