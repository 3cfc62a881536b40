"""Captions to train a tiny gate on."""

from __future__ import annotations

from pathlib import Path

from tools.tiny.official import write_jsonl
from weights.making.jsonl import write_sources
from weights.making.noise_gate import texts

CAPTIONS = {
    "en": [
        "A man in a red shirt rides a brown horse along the beach.",
        "Two dogs play with a yellow ball in the snow.",
        "An old woman sells fruit at a market stall.",
        "Children are jumping into a blue swimming pool.",
        "A black cat sleeps on a wooden chair near the window.",
        "A girl with a green hat is reading a book on a bench.",
    ],
    "de": [
        "Ein Mann in einem roten Hemd reitet am Strand.",
        "Zwei Hunde spielen mit einem Ball im Schnee.",
        "Eine alte Frau verkauft Obst auf dem Markt.",
        "Kinder springen in ein blaues Schwimmbecken.",
        "Eine schwarze Katze schläft auf einem Stuhl.",
        "Ein Mädchen mit einem Hut liest auf einer Bank ein Buch.",
    ],
}


def marked_captions() -> list[texts.MarkedText]:
    return [text for language, own in CAPTIONS.items() for text in texts.marked(own, language)]


def write_marked(folder: Path) -> Path:
    """The captions as `weights.making.captions` writes them; two of one photo."""
    rows = [
        {
            "caption": text.text,
            "language": text.language,
            "words": text.words,
            "classes": text.classes,
            "objects": text.objects,
            "id": f"own/{number % 6}",
        }
        for number, text in enumerate(marked_captions())
    ]
    captions = write_jsonl(folder / "captions.jsonl", rows)
    write_sources(
        captions, [{"name": "own captions", "license": "Apache-2.0", "rows": 12}], "photos of the test"
    )
    return captions
