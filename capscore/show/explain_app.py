"""The Gradio demo of InfoMetIC: a photo and captions → wrong words, missed regions and three scores.

Made by `capscore.show.demo_app.build_app("infometic")`; needs the extra `capscore[app]`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..backbones.base import Backbone
from ..errors import CapscoreError
from ..images.load import load_image
from ..infometic.weights import INFO_CLIP
from ..text.word_classes import supported
from .app_inputs import example_photo, given_captions, given_photo, whole_number
from .app_parts import (
    LoadedOnce,
    captions_box,
    errors_as_messages,
    heading,
    hint,
    language_box,
    language_in,
    language_notes,
    new_app,
    photo_box,
    show_examples,
    signature_box,
    warnings_html,
)
from .explain_page import page_of
from .explained import MOST_MISSED, SCORES, explained_captions
from .markup import render

if TYPE_CHECKING:
    import gradio

    from ..metrics.base import Scores
    from ..metrics.infometic import InfoMetIC
    from .explained import ExplainedCaption

# language, its name, photo (as scikit-image ships it), a right caption, the same caption with a wrong word
EXAMPLES = (
    ("en", "English", "astronaut.png",
     "A woman in an orange suit smiles in front of a flag.",
     "A woman in an orange suit smiles in front of a horse."),
    ("de", "Deutsch", "chelsea.png",
     "Eine getigerte Katze mit grünen Augen blickt zur Seite.",
     "Ein getigerter Zug mit grünen Augen blickt zur Seite."),
    ("fr", "Français", "coffee.png",
     "Une tasse de café avec une cuillère sur une table en bois.",
     "Une tasse de café avec un éléphant sur une table en bois."),
    ("es", "Español", "motorcycle_left.png",
     "Una motocicleta roja en un garaje.",
     "Una pizza roja en un garaje."),
    ("ja", "日本語", "rocket.jpg",
     "夕暮れの発射台に白いロケットが立っている。",
     "夕暮れの発射台に白い猫が立っている。"),
    ("zh", "中文", "coffee.png",
     "木桌上放着一杯咖啡和一把勺子。",
     "木桌上放着一杯咖啡和一只老虎。"),
    ("ru", "Русский", "rocket.jpg",
     "Белая ракета стоит на стартовой площадке.",
     "Белая корова стоит на стартовой площадке."),
)  # fmt: skip

READING = (
    "A mark says that a word is likely wrong, with the probability that it is right; a small share of right "
    "words is marked too. The scores of a caption's words are shares: they sum to at most 1, and so do the "
    "scores of the regions together with that of the null token, which stands for no region. Compare scores "
    "only under the same signature."
)
MOST_SHOWN = 20  # missed regions
HEADS = ("Caption", *SCORES.values())


def explain_app(gr: Any, backbone: str | Backbone | None, device: str | None) -> gradio.Blocks:
    """See `capscore.show.demo_app.build_app`."""
    from ..metrics import load
    from ..metrics.loading import default_backbone

    name = backbone or default_backbone("infometic")
    loaded = LoadedOnce(lambda: load("infometic", backbone=name, device=device, progress=False))

    def score(
        photo: str | None, captions: str, language: str | None = None, most_missed: float = MOST_MISSED
    ) -> tuple[str, str]:
        with errors_as_messages(gr, photo):
            return _score(loaded, photo, captions, language, most_missed)

    with new_app(gr, "infometic") as app:
        heading(gr, "infometic", name)
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                above = gr.Column()  # place of the examples, which need the inputs below
                photo = photo_box(gr, height=200)
                captions = captions_box(gr)
                language = language_box(
                    gr,
                    "It determines which words are content words; with the weights that ship it changes "
                    "scores as well. Not stated counts as English.",
                )
                missed = gr.Slider(
                    0, MOST_SHOWN, value=MOST_MISSED, step=1, label="Maximum number of missed regions"
                )
                button = gr.Button("Explain", variant="primary")
                with above:
                    show_examples(gr, examples(), [photo, captions, language], "demo,nouns")
            with gr.Column(scale=2, min_width=340):
                result = hint(
                    gr,
                    "Upload a photo and write what it shows, or click an example; then press Explain.",
                    "What the captions get wrong and leave out",
                )
                signature = signature_box(gr)
                gr.Markdown(READING)
        button.click(score, [photo, captions, language, missed], [result, signature], api_name="score")
    return app


def _score(
    loaded: LoadedOnce, photo: str | None, captions: str, language: str | None, most_missed: float
) -> tuple[str, str]:
    """Notes, a table of scores and the page in a frame; and the signature."""
    photo, lines = given_photo(photo), given_captions(captions)
    missed = whole_number(most_missed, "missed regions", 0, MOST_SHOWN)
    code = language_in(language)
    scorer = loaded.get()
    problem = scorer.language_problem(code or "")
    if problem:
        raise CapscoreError(problem)
    picture = load_image(photo)
    scores = scorer.score(lines, [picture] * len(lines), language=code)
    explained = explained_captions(lines, scores)
    title = "What is wrong, and what is missing"
    page = page_of(
        picture, explained, title, beta=None if scorer.mark_calibration else scorer.beta, most_missed=missed
    )
    notes = warnings_html(_notes(scorer, scores, code))
    rows = [_row(caption) for caption in explained]
    return notes + render("explained_captions.html", heads=HEADS, rows=rows, page=page), scores.signature


def _row(caption: ExplainedCaption) -> list[str]:
    scores = [caption.scores[name] for name in SCORES]
    shown = ["no score" if math.isnan(score) else f"{score:.3f}".replace("-", "−") for score in scores]
    return [caption.text, *shown]


def _notes(scorer: InfoMetIC, scores: Scores, code: str | None) -> list[str]:
    notes = []
    if scorer.weights == INFO_CLIP:
        notes.append(
            "There are no trained weights here: this is InfoCLIP, InfoMetIC without its network. Its marks "
            "on words mean little."
        )
    notes += language_notes(scorer.backbone, code)
    if scores.n_truncated:
        notes.append(
            f"{scores.n_truncated} of {len(scores)} captions are longer than the limit; the rest was cut off."
        )
    return notes


def examples() -> list[tuple[str, list[str]]]:
    """Names and rows of photo, captions, language.

    None where scikit-image is not installed; only languages whose content words can be found here.
    """
    return [
        (name, [path, f"{right}\n{wrong}", language])
        for language, name, photo, right, wrong in EXAMPLES
        if supported(language) and (path := example_photo(photo))
    ]
