"""The Gradio demo of InfoMetIC: a photo and captions in; wrong words, missed regions and three scores out.

Made by `capscore.show.demo_app.build_app("infometic")`; needs the extra `capscore[app]`.
"""

from __future__ import annotations

import html
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..backbones.base import Backbone
from ..errors import CapscoreError
from ..images.load import load_image
from ..infometic.weights import INFO_CLIP
from ..text.word_classes import supported
from .demo_app import ABOUT, TITLES, LoadedOnce, language_box, language_in, warned
from .explain_page import page_of
from .explained import MOST_MISSED, explained_captions

if TYPE_CHECKING:
    import gradio

    from ..scorers.base import Scores
    from ..scorers.infometic import InfoMetIC
    from .explained import ExplainedCaption

# language, its name, photo (as scikit-image ships it), a right caption, the same with a wrong word in it
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
    "The scores of a caption's words sum to at most 1, and so do those of the regions with that of the null "
    "token, which stands for no region. At most nine words or regions can be above 0.1, so a mark in a long "
    "caption, or on one of many regions, is a hint to look and no proof. Compare scores under the same "
    "signature only."
)
HEADS = ["caption", "text precision", "vision recall", "overall"]
# A page of its own: its style stays inside, and nothing in it can run.
_FRAME = (
    '<iframe sandbox title="{title}" srcdoc="{page}" '
    'style="width:100%;height:85vh;min-height:30rem;border:0;border-radius:.5em"></iframe>'
)


def explain_app(gr: Any, backbone: str | Backbone | None, device: str | None) -> gradio.Blocks:
    """See `capscore.show.demo_app.build_app`."""
    from ..backbones.loading import default_backbone
    from ..scorers import load

    name = backbone or default_backbone("infometic")
    loaded = LoadedOnce(lambda: load("infometic", backbone=name, device=device, progress=False))

    def score(
        photo: str | None, captions: str, language: str | None = None, most_missed: float = MOST_MISSED
    ) -> tuple[str, list[list[Any]], str]:
        try:
            return _score(loaded, photo, captions, language, most_missed)
        except CapscoreError as error:
            raise gr.Error(html.escape(str(error), quote=False)) from error

    with gr.Blocks(title=TITLES["infometic"]) as app:
        shown = name.name if isinstance(name, Backbone) else name
        gr.Markdown(f"# {TITLES['infometic']}\n{ABOUT['infometic']}\n\nBackbone: `{shown}`")
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                above = gr.Column()  # the examples' place; they need the inputs, which come below
                # the file as it was uploaded: no conversion, so the score is that of the library
                photo = gr.Image(type="filepath", image_mode=None, label="Photo", height=200)
                captions = gr.Textbox(label="Captions, one a line", lines=2, max_lines=12)
                language = language_box(
                    gr, "Content words are found by it; not stated counts as English. It changes no score."
                )
                missed = gr.Slider(
                    0, 20, value=MOST_MISSED, step=1, label="Missed regions that are shown, at most"
                )
                button = gr.Button("Explain", variant="primary")
                with above:
                    _show_examples(gr, [photo, captions, language])
            with gr.Column(scale=2, min_width=340):
                table = gr.Dataframe(headers=HEADS, interactive=False, wrap=True, label="Scores")
                picture = gr.HTML(
                    '<div style="opacity:.7">Upload a photo and write what it shows, or click an example; '
                    "then press Explain.</div>",
                    label="What the captions get wrong and leave out",
                )
                signature = gr.Textbox(
                    label="Signature: quote it with the numbers", interactive=False, lines=2, max_lines=6
                )
                gr.Markdown(READING)
        button.click(
            score, [photo, captions, language, missed], [picture, table, signature], api_name="score"
        )
    return app


def _score(
    loaded: LoadedOnce, photo: str | None, captions: str, language: str | None, most_missed: float
) -> tuple[str, list[list[Any]], str]:
    """The page of the picture in a frame, with notes; rows of `HEADS`; the signature."""
    if not photo:
        raise CapscoreError("there is no photo: upload one, or click an example")
    lines = [line.strip() for line in (captions or "").splitlines() if line.strip()]
    if not lines:
        raise CapscoreError("there is no caption: write at least one line")
    if most_missed is None or most_missed != int(most_missed) or most_missed < 0:
        raise CapscoreError(f"{most_missed!r} missed regions: expected a whole number of at least 0")
    code = language_in(language)
    scorer = loaded.get()
    problem = scorer.language_problem(code or "")
    if problem:
        raise CapscoreError(problem)
    scores = scorer.score(lines, [photo] * len(lines), language=code)
    explained = explained_captions(lines, scores)
    page = page_of(
        load_image(photo),
        explained,
        "What is wrong, and what is missing",
        scores.signature,
        scorer.beta,
        int(most_missed),
    )
    frame = _FRAME.format(title="The photo and its captions, marked", page=html.escape(page))
    notes = "".join(map(warned, _notes(scorer, scores, code)))
    return notes + frame, [_row(caption) for caption in explained], scores.signature


def _row(caption: ExplainedCaption) -> list[Any]:
    return [caption.text, *(round(caption.scores[name], 3) for name in ("precision", "recall", "overall"))]


def _notes(scorer: InfoMetIC, scores: Scores, code: str | None) -> list[str]:
    notes = []
    backbone = scorer.backbone
    if scorer.weights == INFO_CLIP:
        notes.append(
            "There are no trained weights here: this is InfoCLIP, InfoMetIC without its network. Its marks "
            "on words mean little."
        )
    if code is not None and backbone.languages is not None and code not in backbone.languages:
        known = ", ".join(sorted(backbone.languages))
        notes.append(
            f"{backbone.name} was not trained on {code!r} (it knows {known}): these scores mean little."
        )
    if scores.n_truncated:
        notes.append(
            f"{scores.n_truncated} of {len(scores)} captions are longer than is read; the rest was not seen."
        )
    return notes


def examples() -> list[tuple[str, list[str]]]:
    """Names and rows of photo, captions, language.

    None where scikit-image is not installed; of languages, those whose content words can be found here.
    """
    if find_spec("skimage") is None:
        return []
    photos = files("skimage.data")
    return [
        (name, [str(photos / photo), f"{right}\n{wrong}", language])
        for language, name, photo, right, wrong in EXAMPLES
        if supported(language)
    ]


def _show_examples(gr: Any, inputs: list[Any]) -> None:
    found = examples()
    if found:
        names, rows = zip(*found, strict=True)
        gr.Examples(list(rows), inputs, example_labels=list(names))
    else:
        gr.Markdown("Example photos come with `pip install 'capscore[demo,nouns]'`.")
