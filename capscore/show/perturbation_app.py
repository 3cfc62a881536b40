"""The Gradio demo of PR-MCS: a photo and its caption → the caption perturbed, with MCS and PR-MCS; what the
gate found in each; and curves of the score by degree of the noise.

Made by `capscore.show.demo_app.build_app("pr_mcs")`; needs the extra `capscore[app]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backbones.base import Backbone
from ..errors import CapscoreError, InputError, MissingExtraError
from ..metrics.pr_mcs import RECIPE
from ..perturbations import KINDS, ORDERS, P, find_objects, perturb, word_changes
from .app_inputs import example_photo, given_photo, given_text, whole_number
from .app_parts import (
    READING,
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
from .degree_curve import MOST_CURVED, curves_html, degree_curves
from .found_noise import found_noise
from .markup import change_in_percent, marked_pieces, render

if TYPE_CHECKING:
    import gradio

    from ..metrics.backbone_scorer import BackboneScorer
    from ..metrics.base import Scorer

KIND_NOTES = {
    "repetition": "words written twice",
    "removal": "words left out",
    "masking": "words masked",
    "jumble": "words in another order",
    "substitution": "objects exchanged",
}
OWN = "your own"
ORDER_LABELS = dict(zip(("some may stay, as published", "every object moves"), ORDERS, strict=True))

# language, its name, photo (as scikit-image ships it), caption, its objects, an edit of one's own
EXAMPLES = (
    ("en", "English", "chelsea.png",
     "A tabby cat with green eyes and long white whiskers looks to the side.", "cat, eyes, whiskers",
     "A tabby cat with green eyes and long white whiskers looks to the."),
    ("de", "Deutsch", "coffee.png",
     "Eine rote Tasse Kaffee steht neben einem Löffel auf einem Holztisch.", "Tasse, Löffel, Holztisch",
     "Eine rote Tasse Kaffee steht neben einem einem Löffel auf einem Holztisch."),
    ("fr", "Français", "coffee.png",
     "Une tasse de café avec une cuillère est posée sur une table en bois.", "tasse, cuillère, table", ""),
    ("es", "Español", "motorcycle_left.png",
     "Una motocicleta roja está aparcada en un garaje junto a una pared.", "motocicleta, garaje, pared", ""),
    ("ja", "日本語", "rocket.jpg",
     "夕暮れの発射台に白いロケットが立っている。", "夕暮れ, 発射台, ロケット", ""),
    ("zh", "中文", "coffee.png",
     "木桌上放着一杯咖啡和一把勺子。", "木桌, 咖啡, 勺子", ""),
    ("ar", "العربية", "chelsea.png",
     "قطة ذات عينين خضراوين وشوارب بيضاء تنظر إلى الجانب.", "قطة, عينين, شوارب", ""),
    ("ru", "Русский", "rocket.jpg",
     "Белая ракета стоит на стартовой площадке под вечерним небом.", "ракета, площадке, небом", ""),
)  # fmt: skip


class Variant(NamedTuple):
    """A perturbed caption, or the reason why there is none."""

    kind: str
    text: str = ""
    reason: str = ""


def perturbation_app(gr: Any, backbone: str | Backbone | None, device: str | None) -> gradio.Blocks:
    """See `capscore.show.demo_app.build_app`."""
    from ..metrics.loading import default_backbone

    name = backbone or default_backbone("pr_mcs")
    scorers = _Scorers(name, device)

    def score(
        photo: str | None,
        caption: str,
        language: str | None = None,
        objects: str = "",
        edited: str = "",
        seed: float = 0,
        p: float = P,
        order: str = ORDERS[0],
    ) -> tuple[str, str]:
        with errors_as_messages(gr, photo):
            return _score(scorers, photo, caption, language_in(language), objects, edited, seed, p, order)

    with new_app(gr, "pr_mcs") as app:
        heading(gr, "pr_mcs", name)
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                above = gr.Column()  # place of the examples, which need the inputs below
                photo = photo_box(gr, height=200)
                caption = captions_box(gr, "Caption", max_lines=4)
                language = language_box(gr, "It determines how the caption is split into words.")
                objects = gr.Textbox(
                    label="Objects to exchange, separated by commas",
                    info="For the substitution. Empty: the caption's nouns, if a package that finds them is "
                    "installed.",
                )
                order = gr.Radio(
                    list(ORDER_LABELS.items()), value=ORDERS[0], label="Exchange of three or more objects"
                )
                edited = captions_box(gr, "Your own edit of the caption (optional)", max_lines=4)
                with gr.Row():
                    seed = gr.Number(label="Seed", value=0, precision=0, min_width=100)
                    p = gr.Slider(
                        0, 1, value=P, step=0.05, label="p: probability of drawing a word", min_width=160
                    )
                button = gr.Button("Perturb and score", variant="primary")
                with above:
                    show_examples(gr, examples(), [photo, caption, language, objects, edited], "demo")
            with gr.Column(scale=3, min_width=320):
                table = hint(
                    gr,
                    "Upload a photo and write what it shows, or click an example; then press Perturb and "
                    "score.",
                    "Scores",
                )
                signatures = signature_box(gr, "Signatures: quote them with the numbers", max_lines=8)
                gr.Markdown(READING)
        inputs = [photo, caption, language, objects, edited, seed, p, order]
        button.click(score, inputs, [table, signatures], api_name="score")
    return app


class _Scorers:
    """PR-MCS, and MCS on the backbone before fine-tuning; loaded at the first request."""

    def __init__(self, backbone: str | Backbone, device: str | None):
        self._backbone, self._device = backbone, device
        self._robust = LoadedOnce(lambda: self._load("pr_mcs", backbone))
        self._plain = LoadedOnce(lambda: self._load("mcs", self._base()))

    def get(self) -> tuple[BackboneScorer, BackboneScorer]:
        """MCS and PR-MCS, the latter loaded first."""
        robust = self._robust.get()
        return self._plain.get(), robust

    def _load(self, metric: str, backbone: str | Backbone) -> Scorer:
        from ..metrics import load

        return load(metric, backbone=backbone, device=self._device, progress=False)

    def _base(self) -> str | Backbone:
        from ..benchmarks.robustness.stand_in import plain_backbone

        return self._backbone if isinstance(self._backbone, Backbone) else plain_backbone(self._backbone)


def _score(
    scorers: _Scorers,
    photo: str | None,
    caption: str,
    code: str | None,
    objects: str,
    edited: str,
    seed: float,
    p: float,
    order: str,
) -> tuple[str, str]:
    photo = given_photo(photo)
    caption = " ".join(given_text(caption, "the caption").split())
    edited = " ".join(given_text(edited, "the edit").split())
    if not caption:
        raise CapscoreError("there is no caption: write what the photo shows")
    given = _objects(objects)
    variants = [_variant(caption, kind, code, given, seed, p, order) for kind in KINDS]
    if edited:
        variants.append(Variant(OWN, edited))
    texts = [caption, *(variant.text for variant in variants if variant.text)]
    both = scorers.get()
    scored = [scorer.score(texts, [photo] * len(texts), language=code) for scorer in both]
    found = [found_noise(detail) for detail in scored[1].details or [None] * len(texts)]
    table = _table(caption, variants, [scores.scores.tolist() for scores in scored], code, found)
    notes = _notes(both[1], caption, given, code, bool(scored[1].n_truncated))
    curves = ""
    if len(caption) > MOST_CURVED:
        notes.append(f"Curves by degree are for captions of up to {MOST_CURVED:,} characters.")
    else:
        curves = curves_html(
            degree_curves(
                caption,
                code,
                lambda wanted: both[1].score(wanted, [photo] * len(wanted), language=code).scores.tolist(),
                kinds=[variant.kind for variant in variants if variant.kind in KINDS and variant.text],
                objects=given,
                seed=whole_number(seed, "seed", 0, 2**32 - 1),
            ),
            float(scored[1].scores[0]),
        )
    return table + curves + warnings_html(notes), "\n".join(scores.signature for scores in scored)


def _objects(line: str | None) -> list[str]:
    line = given_text(line, "the objects")
    for comma in "、，،;\n":
        line = line.replace(comma, ",")
    return [part.strip() for part in line.split(",") if part.strip()]


def _variant(
    caption: str, kind: str, code: str | None, objects: Sequence[str], seed: float, p: float, order: str
) -> Variant:
    given = [objects] if kind == "substitution" and objects else None
    drawn = whole_number(seed, "seed", 0, 2**32 - 1)
    try:
        made = perturb(
            [caption],
            kind,
            code,
            p=p,
            seed=drawn,
            objects=given,
            order=order,
        )
    except MissingExtraError as error:
        return Variant(kind, reason=str(error))
    except InputError as error:
        if error.field != "language":
            raise
        return Variant(kind, reason=error.message)
    if made.unchanged[0]:
        few = "objects" if kind == "substitution" else "words"
        return Variant(kind, reason=f"unchanged: the caption has no two different {few}")
    return Variant(kind, made.captions[0])


def _notes(
    scorer: BackboneScorer, caption: str, objects: Sequence[str], code: str | None, truncated: bool
) -> list[str]:
    notes = []
    backbone = scorer.backbone
    if backbone.recipe != RECIPE:
        notes.append(f"{backbone.name} was not fine-tuned for PR-MCS: both columns show MCS.")
    notes += language_notes(backbone, code)
    if objects:
        missing = int(find_objects([caption], [objects])[1][0])
        if missing:
            notes.append(f"{missing} of the {len(objects)} objects are not in the caption.")
    if truncated:
        notes.append(f"A caption is longer than {backbone.max_tokens} tokens; the rest was cut off.")
    return notes


def _table(
    caption: str,
    variants: Sequence[Variant],
    scores: Sequence[Sequence[float]],
    code: str | None,
    found: Sequence[str],
) -> str:
    """Rows: the caption, and beside it each of its variants; columns: MCS and PR-MCS with their changes."""
    rows = []
    place = 0
    for variant in (Variant("as it is", caption), *variants):
        row: dict[str, Any] = {
            "kind": variant.kind,
            "note": KIND_NOTES.get(variant.kind, ""),
            "reason": variant.reason,
        }
        if not variant.reason:
            before, after = word_changes(caption, variant.text, code) if place else ((), ())
            row["before"] = marked_pieces(caption, before)
            row["after"] = marked_pieces(variant.text, after) if place else ()
            row["found"] = found[place]
            row["numbers"] = [
                {"score": column[place], "change": _change(column[place], column[0]) if place else ""}
                for column in scores
            ]
            place += 1
        rows.append(row)
    top = max(map(max, scores)) or 1.0
    return render("perturbed_captions.html", rows=rows, top=top, titles=("MCS", "PR-MCS"))


def _change(score: float, first: float) -> str:
    """The change of a score relative to the first, in percent; "–" where that is 0.

    >>> _change(0.5, 1.0), _change(0.999, 1.0), _change(0.1, 0.0)
    ('−50 %', '0 %', '–')
    """
    return change_in_percent((score - first) / first if first > 0 else None)


def examples() -> list[tuple[str, list[str]]]:
    """Names and rows of photo, caption, language, objects, edit; none where scikit-image is not installed."""
    return [
        (name, [path, caption, language, objects, edited])
        for language, name, photo, caption, objects, edited in EXAMPLES
        if (path := example_photo(photo))
    ]
