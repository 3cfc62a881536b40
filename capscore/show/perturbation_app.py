"""The Gradio demo of PR-MCS: a photo and its caption in; the caption perturbed, with MCS and PR-MCS, out.

Made by `capscore.show.demo_app.build_app("pr_mcs")`; needs the extra `capscore[app]`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backbones.base import Backbone
from ..errors import CapscoreError, InputError, MissingExtraError
from ..perturbations.published import KINDS, P, find_objects, perturb
from ..perturbations.word_changes import Span, word_changes
from ..scorers.pr_mcs import RECIPE
from .demo_app import ABOUT, READING, TITLES, LoadedOnce, language_box, language_in, warned

if TYPE_CHECKING:
    import gradio

    from ..scorers.backbone_scorer import BackboneScorer

KIND_NOTES = {
    "repetition": "words written twice",
    "removal": "words left out",
    "masking": "words masked",
    "jumble": "words in another order",
    "substitution": "objects exchanged",
}
OWN = "your own"

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
    """A caption made of the one that was given, or the reason why there is none."""

    kind: str
    text: str = ""
    reason: str = ""


def perturbation_app(gr: Any, backbone: str | Backbone | None, device: str | None) -> gradio.Blocks:
    """See `capscore.show.demo_app.build_app`."""
    from ..backbones.loading import default_backbone

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
    ) -> tuple[str, str]:
        try:
            return _score(scorers, photo, caption, language_in(language), objects, edited, seed, p)
        except CapscoreError as error:
            raise gr.Error(html.escape(str(error), quote=False)) from error

    with gr.Blocks(title=TITLES["pr_mcs"]) as app:
        shown = name.name if isinstance(name, Backbone) else name
        gr.Markdown(f"# {TITLES['pr_mcs']}\n{ABOUT['pr_mcs']}\n\nBackbone: `{shown}`")
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                above = gr.Column()  # the examples' place; they need the inputs, which come below
                photo = gr.Image(type="filepath", image_mode=None, label="Photo", height=200)
                caption = gr.Textbox(label="Caption", lines=2, max_lines=4)
                language = language_box(gr, "It says how the caption is split into words.")
                objects = gr.Textbox(
                    label="Objects to exchange, with commas between",
                    info="For the substitution. Empty: the caption's nouns, where something is installed "
                    "that finds them.",
                )
                edited = gr.Textbox(label="The caption as you spoil it (optional)", lines=2, max_lines=4)
                with gr.Row():
                    seed = gr.Number(label="Seed", value=0, precision=0, min_width=100)
                    p = gr.Slider(0, 1, value=P, step=0.05, label="p: a word is drawn", min_width=160)
                button = gr.Button("Perturb and score", variant="primary")
                with above:
                    _show_examples(gr, [photo, caption, language, objects, edited])
            with gr.Column(scale=3, min_width=320):
                table = gr.HTML(
                    '<div style="opacity:.7">Upload a photo and write what it shows, or click an example; '
                    "then press Perturb and score.</div>",
                    label="Scores",
                )
                signatures = gr.Textbox(
                    label="Signatures: quote them with the numbers", interactive=False, lines=2, max_lines=8
                )
                gr.Markdown(READING)
        inputs = [photo, caption, language, objects, edited, seed, p]
        button.click(score, inputs, [table, signatures], api_name="score")
    return app


class _Scorers:
    """PR-MCS, and MCS on what its backbone was fine-tuned from; loaded at the first request."""

    def __init__(self, backbone: str | Backbone, device: str | None):
        self._backbone, self._device = backbone, device
        self._robust = LoadedOnce(lambda: self._load("pr_mcs", backbone))
        self._plain = LoadedOnce(lambda: self._load("mcs", self._base()))

    def get(self) -> tuple[BackboneScorer, BackboneScorer]:
        """MCS and PR-MCS, the latter loaded first."""
        robust = self._robust.get()
        return self._plain.get(), robust

    def _load(self, metric: str, backbone: str | Backbone) -> BackboneScorer:
        from ..scorers import load

        return load(metric, backbone=backbone, device=self._device, progress=False)

    def _base(self) -> str | Backbone:
        from ..benchmark.robustness.stand_in import plain_backbone

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
) -> tuple[str, str]:
    if not photo:
        raise CapscoreError("there is no photo: upload one, or click an example")
    caption, edited = " ".join((caption or "").split()), " ".join((edited or "").split())
    if not caption:
        raise CapscoreError("there is no caption: write what the photo shows")
    given = _objects(objects)
    variants = [_variant(caption, kind, code, given, seed, p) for kind in KINDS]
    if edited:
        variants.append(Variant(OWN, edited))
    texts = [caption, *(variant.text for variant in variants if variant.text)]
    both = scorers.get()
    scored = [scorer.score(texts, [photo] * len(texts), language=code) for scorer in both]
    table = _table(caption, variants, [scores.scores.tolist() for scores in scored], code)
    notes = _notes(both[1], caption, given, code, bool(scored[1].n_truncated))
    return table + "".join(map(warned, notes)), "\n".join(scores.signature for scores in scored)


def _objects(line: str | None) -> list[str]:
    for comma in "、，،;\n":
        line = (line or "").replace(comma, ",")
    return [part.strip() for part in line.split(",") if part.strip()]


def _variant(
    caption: str, kind: str, code: str | None, objects: Sequence[str], seed: float, p: float
) -> Variant:
    if seed is None or seed != int(seed):
        raise CapscoreError(f"seed={seed!r}: expected a whole number")
    given = [objects] if kind == "substitution" and objects else None
    try:
        made = perturb([caption], kind, code, p=p, seed=int(seed), objects=given)
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
    if code is not None and backbone.languages is not None and code not in backbone.languages:
        known = ", ".join(sorted(backbone.languages))
        notes.append(
            f"{backbone.name} was not trained on {code!r} (it knows {known}): these scores mean little."
        )
    if objects:
        missing = int(find_objects([caption], [objects])[1][0])
        if missing:
            notes.append(f"{missing} of the {len(objects)} objects do not stand in the caption.")
    if truncated:
        notes.append(f"A caption is longer than {backbone.max_tokens} tokens; the rest of it was not seen.")
    return notes


# ------------------------------------------------------------------------- the table

_CELL = "padding:.5em .6em;border:0;vertical-align:top;text-align:start"
_NUMBER = f"{_CELL};text-align:end;white-space:nowrap;font-variant-numeric:tabular-nums"
_RULE = "border:0;border-top:1px solid var(--border-color-primary, #e5e7eb)"
_GONE = "background:rgba(239,68,68,.2);color:inherit;border-radius:3px;padding:0 .15em"
_NEW = "background:rgba(245,158,11,.35);color:inherit;border-radius:3px;padding:0 .15em"


def _table(
    caption: str, variants: Sequence[Variant], scores: Sequence[Sequence[float]], code: str | None
) -> str:
    """Rows: the caption, and beside it each of its variants; columns: MCS and PR-MCS with their drops."""
    heads = f'<th style="{_CELL}"></th><th style="{_CELL};width:100%">{_beside("caption", "perturbed")}</th>'
    heads += "".join(f'<th style="{_NUMBER};font-weight:600">{title}</th>' for title in ("MCS", "PR-MCS"))
    top = max(max(column) for column in scores) or 1.0
    firsts = [column[0] for column in scores]
    cells = "".join(_number(first, None, top, place) for place, first in enumerate(firsts))
    rows = [
        f'<tr style="{_RULE}"><th style="{_CELL}">as it is</th>'
        f'<td style="{_CELL}">{_marked(caption, (), _GONE)}</td>{cells}</tr>'
    ]
    place = 0
    for variant in variants:
        note = KIND_NOTES.get(variant.kind, "")
        head = f'<th style="{_CELL};font-weight:600">{variant.kind}' + (
            f'<div style="font-weight:400;opacity:.7;font-size:.85em">{note}</div></th>' if note else "</th>"
        )
        if variant.reason:
            told = f'<td colspan="3" style="{_CELL};opacity:.7">{html.escape(variant.reason)}</td>'
            rows.append(f'<tr style="{_RULE}">{head}{told}</tr>')
            continue
        place += 1
        before, after = word_changes(caption, variant.text, code)
        cells = "".join(
            _number(column[place], first, top, number)
            for number, (column, first) in enumerate(zip(scores, firsts, strict=True))
        )
        rows.append(
            f'<tr style="{_RULE}">{head}<td style="{_CELL}">'
            f"{_beside(_marked(caption, before, _GONE), _marked(variant.text, after, _NEW))}</td>{cells}</tr>"
        )
    legend = (
        f'<div style="opacity:.8;font-size:.85em;margin-top:.4em">Words that were '
        f'<mark style="{_GONE}">taken away</mark> or <mark style="{_NEW}">put there</mark>; in percent, how '
        f"the score changes. Bars reach from 0 to {top:.2f}.</div>"
    )
    return (
        '<div style="overflow-x:auto">'
        '<table style="width:100%;border:0;border-collapse:collapse">'
        f'<thead style="border:0"><tr style="border:0">{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{legend}"
    )


def _beside(left: str, right: str) -> str:
    """Two pieces of HTML side by side; on a narrow screen one above the other."""
    parts = "".join(f'<div style="flex:1 1 11em">{part}</div>' for part in (left, right))
    return f'<div style="display:flex;flex-wrap:wrap;gap:.3em 1em">{parts}</div>'


def _number(score: float, first: float | None, top: float, column: int) -> str:
    """A score, how far it is from the caption's own, and a bar."""
    below = ""
    if first is not None:
        below = f'<div style="font-size:.9em;opacity:.85">{_change(score, first)}</div>'
    colour = "var(--color-accent, #f97316)" if column else "var(--neutral-400, #9ca3af)"
    return (
        f'<td style="{_NUMBER}"><strong>{score:.3f}</strong>{below}'
        '<div style="height:6px;min-width:3.5em;margin-inline-start:auto;border-radius:3px;'
        'background:var(--neutral-200, #e5e7eb)">'
        f'<div style="height:6px;border-radius:3px;width:{100 * score / top:.1f}%;background:{colour}"></div>'
        "</div></td>"
    )


def _change(score: float, first: float) -> str:
    """How a score differs from the first, in percent; "–" where that is 0.

    >>> _change(0.5, 1.0), _change(0.999, 1.0), _change(0.1, 0.0)
    ('−50 %', '0 %', '–')
    """
    if first <= 0:
        return "–"
    percent = round(100 * (score - first) / first)
    return f"{percent:+d} %".replace("-", "−") if percent else "0 %"


def _marked(text: str, spans: Sequence[Span], style: str) -> str:
    parts, last = [], 0
    for start, end in spans:
        parts += [
            html.escape(text[last:start]),
            f'<mark style="{style}">{html.escape(text[start:end])}</mark>',
        ]
        last = end
    return f'<span dir="auto">{"".join(parts)}{html.escape(text[last:])}</span>'


def examples() -> list[tuple[str, list[str]]]:
    """Names and rows of photo, caption, language, objects, edit; none where scikit-image is not installed."""
    if find_spec("skimage") is None:
        return []
    photos = files("skimage.data")
    return [
        (name, [str(photos / photo), caption, language, objects, edited])
        for language, name, photo, caption, objects, edited in EXAMPLES
    ]


def _show_examples(gr: Any, inputs: list[Any]) -> None:
    found = examples()
    if found:
        names, rows = zip(*found, strict=True)
        gr.Examples(list(rows), inputs, example_labels=list(names))
    else:
        gr.Markdown("Example photos come with `pip install 'capscore[demo]'`.")
