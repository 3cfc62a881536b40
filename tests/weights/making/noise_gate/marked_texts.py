"""Captions to train a tiny gate on."""

from __future__ import annotations

import json
from pathlib import Path

from weights.making.noise_gate import texts as marked_texts

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


def write_marked(folder: Path) -> Path:
    """The captions with their words, as `weights.making.noise_gate.texts` writes them; two of one photo."""
    captions = folder / "captions.jsonl"
    with open(captions, "w", encoding="utf-8") as file:
        for language, of_language in CAPTIONS.items():
            for number, caption in enumerate(of_language):
                row = {"caption": caption, "language": language, "id": f"own/{number}"}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    said = {
        "held_out": "photos of the test",
        "sources": [{"name": "own captions", "license": "Apache-2.0", "rows": 12}],
    }
    Path(f"{captions}.sources.json").write_text(json.dumps(said), encoding="utf-8")
    marked_texts.main(["--captions", str(captions), "--out", str(folder / "marked.jsonl")])
    return folder / "marked.jsonl"
