"""The idea of each metric as a picture: boxes in columns, and arrows. In: tables below. Out: SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence

# metric → name of a box: column, row, text; a row may be halfway between two
_BOXES: dict[str, dict[str, tuple[int, float, str]]] = {
    "mcs": {
        "photo": (0, 0, "photo"),
        "caption": (0, 1, "caption, in any language"),
        "image tower": (1, 0, "image tower"),
        "text tower": (1, 1, "text tower, many languages"),
        "cosine": (2, 0.5, "cosine of both embeddings"),
        "score": (3, 0.5, "w · max(cosine, 0)"),
    },
    "clip_score": {
        "photo": (0, 0, "photo"),
        "caption": (0, 1, "“A photo depicts” + caption"),
        "image tower": (1, 0, "image tower"),
        "text tower": (1, 1, "text tower, English"),
        "cosine": (2, 0.5, "cosine of both embeddings"),
        "score": (3, 0.5, "w · max(cosine, 0)"),
    },
    "pr_mcs": {
        "photo": (0, 0, "photo"),
        "caption": (0, 1, "caption"),
        "image tower": (1, 0, "image tower"),
        "text tower": (1, 1, "text tower that knows noise"),
        "cosine": (2, 0.5, "cosine: near 0 for broken captions"),
        "score": (3, 0.5, "w · max(cosine, 0)"),
    },
    "ref_clip_score": {
        "photo": (0, 0, "photo"),
        "caption": (0, 1, "caption"),
        "references": (0, 2, "references"),
        "with the photo": (1, 0.5, "w · max(cosine with the photo, 0)"),
        "with references": (1, 1.5, "largest cosine with a reference"),
        "score": (2, 1, "harmonic mean"),
    },
    "infometic": {
        "photo": (0, 0, "photo"),
        "caption": (0, 2, "caption"),
        "regions": (1, 0, "regions"),
        "words": (1, 2, "words"),
        "network": (2, 1, "which word belongs to which region?"),
        "recall": (3, 0, "vision recall: regions that no word names"),
        "overall": (3, 1, "overall score"),
        "precision": (3, 2, "text precision: words that no region shows"),
    },
    "cider": {
        "caption": (0, 0, "caption"),
        "references": (0, 1, "references of the photo"),
        "counts": (1, 0, "runs of 1 to 4 words"),
        "reference counts": (1, 1, "runs of 1 to 4 words"),
        "weights": (2, 0.5, "rare runs weigh more"),
        "score": (3, 0.5, "10 · mean cosine"),
    },
}
_TOWERS = [("photo", "image tower"), ("caption", "text tower"), ("image tower", "cosine")]
_TOWERS += [("text tower", "cosine"), ("cosine", "score")]
_ARROWS: dict[str, Sequence[tuple[str, str]]] = {
    "mcs": _TOWERS,
    "clip_score": _TOWERS,
    "pr_mcs": _TOWERS,
    "ref_clip_score": [
        *(("photo", "with the photo"), ("caption", "with the photo"), ("caption", "with references")),
        *(("references", "with references"), ("with the photo", "score"), ("with references", "score")),
    ],
    "infometic": [
        *(("photo", "regions"), ("caption", "words"), ("regions", "network"), ("words", "network")),
        *(("network", "recall"), ("network", "overall"), ("network", "precision")),
    ],
    "cider": [
        *(("caption", "counts"), ("references", "reference counts"), ("counts", "weights")),
        *(("reference counts", "weights"), ("weights", "score")),
    ],
}
_WIDTH, _HEIGHT, _ACROSS, _DOWN, _LETTERS = 150, 54, 190, 74, 20


def idea_picture(metric: str) -> str:
    """The picture of a metric, in the colours of the page that it stands in.

    >>> "w · max(cosine, 0)" in idea_picture("mcs")
    True
    """
    boxes, arrows = _BOXES[metric], _ARROWS[metric]
    width = _ACROSS * max(column for column, _, _ in boxes.values()) + _WIDTH + 2
    height = _DOWN * max(row for _, row, _ in boxes.values()) + _HEIGHT + 2
    words = "; ".join(f"{_text(boxes[start])} → {_text(boxes[end])}" for start, end in arrows)
    style = f"width:100%;min-width:{0.8 * width:g}px;max-width:{width:g}px;height:auto"
    parts = [
        '<div style="overflow-x:auto">',
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(words)}" '
        f'style="{style}" font-size="13" font-family="inherit">',
    ]
    for start, end in arrows:
        (x, y), (x_end, y_end) = _place(boxes[start]), _place(boxes[end])
        x, y, y_end = x + _WIDTH, y + _HEIGHT / 2, y_end + _HEIGHT / 2
        middle = (x + x_end) / 2
        parts.append(
            f'<path d="M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {y_end:g} {x_end - 6:g} {y_end:g}" '
            'fill="none" stroke="currentColor" opacity="0.6"/>'
            f'<path d="M{x_end:g} {y_end:g}l-8 -4v8z" fill="currentColor" opacity="0.6"/>'
        )
    for box in boxes.values():
        x, y = _place(box)
        parts.append(
            f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
            'fill="currentColor" fill-opacity="0.06" stroke="currentColor" stroke-opacity="0.5"/>'
        )
        lines = _lines(_text(box))
        for number, line in enumerate(lines):
            down = y + _HEIGHT / 2 + 6 + 16 * (number - (len(lines) - 1) / 2)
            parts.append(
                f'<text x="{x + _WIDTH / 2:g}" y="{down:g}" text-anchor="middle" fill="currentColor">'
                f"{html.escape(line)}</text>"
            )
    return "".join(parts) + "</svg></div>"


def _place(box: tuple[int, float, str]) -> tuple[float, float]:
    return _ACROSS * box[0], _DOWN * box[1]


def _text(box: tuple[int, float, str]) -> str:
    return box[2]


def _lines(text: str) -> list[str]:
    """The text in lines that are not wider than a box.

    >>> _lines("text tower, many languages")
    ['text tower, many', 'languages']
    """
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if len(longer) > _LETTERS and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
