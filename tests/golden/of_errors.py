"""Typical mistakes, on the command line and in Python: what is said, exit codes. The wording may change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .place import Place, write_rows
from .table import case

ROWS = [
    {"image": "red.png", "caption": "a red wall", "references": ["a wall"], "language": "en"},
    {"image": "nowhere.png", "caption": "a blue wall", "references": ["a wall", "blue"], "language": "de"},
]
WRONG: dict[str, tuple[Any, ...]] = {
    "no input": ("score", "nowhere.jsonl", "-m", "cider"),
    "metric": ("score", "rows.jsonl", "-m", "ciderr"),
    "option": ("score", "rows.jsonl", "-m", "cider", "--backbone", "embedded"),
    "own option": ("score", "rows.jsonl", "-m", "bleu", "--variant", "paper"),
    "variant": ("score", "rows.jsonl", "-m", "cider", "--variant", "papre"),
    "unknown option": ("score", "rows.jsonl", "--metrik", "cider"),
    "photo": ("score", "rows.jsonl", "-m", "mcs", "--backbone", "embedded"),
    "column": ("score", "few.jsonl", "-m", "cider"),
    "named column": ("score", "rows.jsonl", "-m", "cider", "--candidate-column", "text"),
    "language": ("score", "rows.jsonl", "-m", "cider", "--language", "xx-klingon"),
    "segmenter": ("score", "rows.jsonl", "-m", "cider", "--language", "my"),
    "exists": ("score", "rows.jsonl", "-m", "cider", "-o", "rows.jsonl"),
    "suffix": ("score", "rows.jsonl", "-m", "cider", "-o", "out.xlsx"),
    "on error": ("score", "rows.jsonl", "-m", "cider", "--on-error", "stop"),
    "dtype": ("score", "rows.jsonl", "-m", "mcs", "--dtype", "float8"),
    "backbone": ("score", "good.jsonl", "-m", "mcs", "--backbone", "org/nothing"),
    "cache": ("score", "good.jsonl", "-m", "mcs", "--no-cache", "--cache-dir", "here"),
    "line": ("score", "broken.jsonl", "-m", "cider"),
    "benchmark": ("benchmark", "--data", "flikr8k", "-m", "rouge_l"),
    "configuration": ("benchmark", "--data", "xvnli", "-m", "rouge_l"),
    "folder": ("benchmark", "--data", "thumb", "--data-dir", "nowhere", "-m", "rouge_l"),
    "nothing": ("benchmark", "--data", "thumb"),
    "suite": ("benchmark", "--suite", "all", "-m", "rouge_l"),
    "raters": ("benchmark", "--data", "thumb", "-m", "rouge_l", "--raters", "median"),
    "tokens": ("benchmark", "--data", "captokeneval", "-m", "rouge_l", "--data-dir", "."),
    "kind": ("perturb", "rows.jsonl", "--kind", "jumbel"),
    "no kind": ("perturb", "rows.jsonl"),
    "kinds": ("robustness", "-m", "mcs", "--captions", "rows.jsonl", "--kinds", "jumbel"),
    "not robust": ("robustness", "-m", "cider", "--captions", "rows.jsonl"),
    "caption": ("explain", "red.png", " "),
    "picture": ("explain", "broken.jsonl", "a wall", "--backbone", "embedded"),
    "regions": ("explain", "red.png", "a wall", "--regions", "windows", "--boxes", "b.json"),
    "beta": ("explain", "red.png", "a wall", "--beta", "7"),
    "region names": ("score", "good.jsonl", "-m", "infometic", "--region-names", "dog"),
    "check": ("data", "check", "xvnly"),
    "export": ("data", "export", "xvnli", "--data-dir", ".", "--out", "rows.jsonl"),
    "fingerprint": ("cache", "clear", "abc", "--cache-dir", "empty"),
    "command": ("scores",),
}


def files(place: Place) -> None:
    """The files that the mistakes are made with."""
    from PIL import Image

    Image.new("RGB", (8, 6), (200, 0, 0)).save("red.png")
    write_rows("rows.jsonl", ROWS)
    write_rows("good.jsonl", ROWS[:1])
    write_rows("few.jsonl", [{"caption": "a wall"}])
    Path("broken.jsonl").write_text('{"caption": "a wall", "references": ["a"]}\n{"caption": \n')
    Path("b.json").write_text("[[0, 0, 5, 5]]")


@case("errors/command_line")
def _(place: Place) -> Any:
    files(place)
    return {name: place.capscore(*arguments, stderr="") for name, arguments in WRONG.items()}


@case("errors/python")
def _(place: Place) -> Any:
    import numpy as np
    from capscore.languages import language_code

    import capscore
    from capscore import agreement, perturbations, protocols, segmentation, unseen_perturbations, word_classes

    files(place)
    wall = np.zeros((4, 4, 3), np.uint8)
    cider, mcs = capscore.load("cider"), capscore.load("mcs", backbone=place.embedded)
    infometic = capscore.load("infometic", backbone=place.embedded)
    tried: dict[str, Callable[[], Any]] = {
        "metric": lambda: capscore.load("CIDER-d"),
        "option": lambda: capscore.load("cider", backbone="embedded"),
        "own option": lambda: capscore.load("mcs", backbone=place.embedded, variant="paper"),
        "variant": lambda: capscore.load("cider", variant="papre"),
        "clip": lambda: capscore.load("clip_cider", backbone=place.embedded, clip="clip"),
        "beta": lambda: capscore.load("infometic", backbone=place.embedded, beta=2),
        "n_regions": lambda: capscore.load("infometic", backbone=place.embedded, n_regions=0),
        "regions": lambda: capscore.load("infometic", backbone=place.embedded, regions="yolo:x"),
        "weights": lambda: capscore.load("infometic", backbone=place.embedded, weights="nowhere"),
        "dtype": lambda: capscore.load("mcs", backbone="embedded", dtype="float8"),
        "device": lambda: capscore.load("mcs", backbone="embedded", device="gpu"),
        "backbone": lambda: capscore.load_backbone("embeded"),
        "hub": lambda: capscore.load_backbone("org/nothing"),
        "lengths": lambda: cider.score(["a", "b"], references=[["a"]]),
        "no references": lambda: cider.score(["a"]),
        "empty references": lambda: cider.score(["a"], references=[[]]),
        "references refused": lambda: mcs.score(["a"], [wall], [["a"]]),
        "no images": lambda: mcs.score(["a"]),
        "image": lambda: mcs.score(["a"], ["nowhere.png"]),
        "no image": lambda: mcs.score(["a"], ["broken.jsonl"]),
        "array": lambda: mcs.score(["a"], [np.zeros((4, 4), np.float32)]),
        "url": lambda: mcs.score(["a"], ["https://example.org/a.png"]),
        "caption": lambda: mcs.score([""], [wall]),
        "no text": lambda: mcs.score([None], [wall]),
        "language": lambda: mcs.score(["a"], [wall], language="klingon"),
        "on error": lambda: mcs.score(["a"], [wall], on_error="ignore"),
        "boxes": lambda: infometic.score(["a wall"], ["red.png"], boxes=[[[5, 5, 1, 1]]], language="en"),
        "tagger": lambda: infometic.score(["a wall"], ["red.png"], language="my"),
        "benchmark": lambda: capscore.load_benchmark("flikr8k"),
        "configuration": lambda: capscore.load_benchmark("xvnli"),
        "data_dir": lambda: capscore.load_benchmark("thumb", data_dir="nowhere"),
        "file": lambda: capscore.load_benchmark("thumb", data_dir="."),
        "benchmark option": lambda: capscore.load_benchmark("thumb", data_dir=".", options={"colour": 1}),
        "module": lambda: capscore.module_folder("bleu"),
        "code": lambda: language_code("no language"),
        "segmenter": lambda: segmentation.tokenize(["a"], "km"),
        "classes": lambda: word_classes.tag(["a"], "mi"),
        "kind": lambda: perturbations.perturb(["a"], "jumbel"),
        "p": lambda: perturbations.perturb(["a"], "jumble", p=2),
        "objects": lambda: perturbations.perturb(["a b"], "jumble", objects=[["a"]]),
        "unseen": lambda: unseen_perturbations.perturb_unseen(["a"], "number", "sw"),
        "foils": lambda: protocols.foils([0.1], [0.2, 0.3]),
        "missing": lambda: protocols.foils([0.1, None], [0.2, 0.3]),
        "labels": lambda: protocols.xvnli([0.1], ["maybe"], ["a"]),
        "ratings": lambda: agreement.agreement([1.0, 2.0], [1, 2, 3]),
        "raters": lambda: agreement.agreement([1.0, 2.0], [[1, 2], [2, 3]]),
        "statistic": lambda: agreement.agreement([1.0, 2.0], [1, 2], statistics="kendall"),
        "bootstrap": lambda: agreement.agreement([1.0, 2.0], [1, 2], bootstrap=-1),
    }
    found = {}
    for name, attempt in tried.items():
        try:
            attempt()
            found[name] = None
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__[:-2]]
            found[name] = [kinds, str(error)]
    return found
