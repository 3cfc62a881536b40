"""Captioners in a published order, and wrong sentences: should a paragraph's embedding be of unit length?

    python -m weights.measuring.captioners --captions awesome-captioning-evaluation/test_captions \
        --photos val2014 --rows rows

In: the captions of four captioners and of people on Karpathy's test photos of COCO, as Sarto et al. (2025)
released them, and those of the photos that are available. Out: a file of rows per captioner, in which each
caption of people is scored beside the other four, for `capscore compare --published coco_captions`; and a
table for MCS and Fit of a paragraph's cosine divided by |u|^e, where u is the mean of its sentences'
embeddings (0 is the mean of their cosines, 1 unit length): pairs of captioners in the published order, and
how often sentences of another photo lower the score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import capscore
from capscore.benchmarks.protocols.recall import COSINE_TIE
from capscore.benchmarks.published import orders_of
from capscore.comparing.published_order import agreements, orders_among
from capscore.files.photo_names import KnownNames
from capscore.metrics.fit import Fit, fit
from capscore.metrics.with_backbone import BackboneScorer, row_cosines
from capscore.tables import Table
from capscore.text.sentences import split_texts
from training.engine.config import main as run_as_command
from weights.making.jsonl import write_lines
from weights.measuring.figures import study_parser, write_results

# system, as it is published → its file
SYSTEMS = {
    "M2 Transformer": "m2_transformer.json",
    "BLIP-2": "blip2_results_xe.json",
    "LLaVA-1.5 brief": "llava-1.5-7b_briefly.json",
    "LLaVA-1.5": "llava-1.5-7b_default.json",
}
PEOPLE, LONG = "Humans", "LLaVA-1.5"
N_REFERENCES = 5
EXPONENTS = (0.0, 0.5, 1.0)
ADDED = (1, 3)
ORDERS = ("CLIPScore", "PAC-S++")

Row = dict[str, object]


def read_captions(path: Path) -> dict[str, str]:
    """Photo's number → caption; some files are lists of such dicts of one entry."""
    found = json.loads(path.read_text(encoding="utf-8"))
    parts = found if isinstance(found, list) else [found]
    return {number: caption.strip() for part in parts for number, caption in part.items()}


def rows_by_system(captions: Path, photos: Path) -> dict[str, list[Row]]:
    """System → five rows per photo, each beside the four references that are not the person's caption."""
    references = json.loads((captions / "reference_captions.json").read_text(encoding="utf-8"))
    files = {path.stem: path for path in sorted(photos.iterdir())}
    known = KnownNames([*references]).match([*files]).matches
    systems = {name: read_captions(captions / file) for name, file in SYSTEMS.items()}
    found: dict[str, list[Row]] = {name: [] for name in (*systems, PEOPLE)}
    for stem, number in sorted(known.items()):
        listed = [text.strip() for text in references[number][:N_REFERENCES]]
        for at, of_person in enumerate(listed):
            others = [text for place, text in enumerate(listed) if place != at]
            for name, rows in found.items():
                caption = of_person if name == PEOPLE else systems[name][number]
                shared = {"id": f"{number}-{at}", "image": str(files[stem].absolute())}
                rows.append({**shared, "caption": caption, "references": others})
    return found


def sentences_of(texts: Sequence[str]) -> list[list[tuple[str, int]]]:
    """The sentences of each text with their lengths; a text of one sentence is itself."""
    split = split_texts(texts)
    return [split.get(text, [(text, 1)]) for text in texts]


def scores_at(
    scorer: BackboneScorer, texts: Sequence[str], photos: Sequence[object]
) -> dict[str, np.ndarray]:
    """Exponent → scores of n captions beside n photos, with cosines divided by |u|^e; of Fit, log-odds.

    Of Fit also "mean": the mean over sentences, weighted by length, of what each has beyond its usual cosine.
    """
    sides, (rows, _) = scorer.embedder.images(photos), scorer.texts(texts)
    cosines = row_cosines(rows.matrix, rows.index, sides.matrix, sides.index)
    lengths = np.linalg.norm(rows.matrix[rows.index], axis=1).astype(np.float64)
    shrunk = {f"{exponent:g}": lengths ** (1 - exponent) for exponent in EXPONENTS}
    if not isinstance(scorer, Fit):
        of_unit = cosines / lengths
        return {name: scorer.combine({"image_cosine": of_unit * part})[0] for name, part in shrunk.items()}
    usual = scorer.text_values(rows, rows.index)["usual"]
    clear = {name: (cosines / lengths - usual) * part for name, part in shrunk.items()}
    listed = sentences_of(scorer.backbone.unwrapped(texts))
    owners = np.repeat(np.arange(len(listed)), [*map(len, listed)])
    shares = np.array([length for parts in listed for _, length in parts], float)
    alone = scorer.embedder.texts([sentence for parts in listed for sentence, _ in parts])
    own = row_cosines(alone.matrix, alone.index, sides.matrix, sides.index[owners])
    own -= scorer.background.usual(alone.matrix)[alone.index]
    clear["mean"] = np.bincount(owners, shares * own) / np.bincount(owners, shares)
    scale, bias = scorer.background.curves["en"]
    return {name: fit(numbers, scale, bias)[0] for name, numbers in clear.items()}


def measure(scorer: BackboneScorer, systems: Mapping[str, Sequence[Row]]) -> list[list[str]]:
    """A line per exponent: means, pairs in each published order, paragraphs that wrong sentences lower."""
    orders = [order for order in orders_of("coco_captions") if order.title in ORDERS]
    orders = orders_among(orders, [*systems])
    scores = {}
    for name, rows in systems.items():
        texts, photos = ([row[column] for row in rows] for column in ("caption", "image"))
        scores[name] = scores_at(scorer, [str(text) for text in texts], photos)
    firsts = systems[LONG][::N_REFERENCES]
    paragraphs = [str(row["caption"]) for row in firsts]
    others = sentences_of(paragraphs)
    others = [*others[len(others) // 2 :], *others[: len(others) // 2]]
    lines = []
    for exponent in scores[LONG]:
        figures = {}
        for name, found in scores.items():
            numbers = fit(found[exponent])[1] if isinstance(scorer, Fit) else found[exponent]
            figures[name] = float(np.mean(numbers))
        line = [scorer.metric, exponent, *(f"{figure:.3f}" for figure in figures.values())]
        for agreement in agreements(orders, scorer.metric, figures, lambda pairs: None):
            line.append(f"{agreement.n_agree} of {len(agreement.pairs)}")
        right = scores[LONG][exponent][::N_REFERENCES]
        for n in ADDED:
            added = [" ".join(sentence for sentence, _ in other[:n]) for other in others]
            longer = [f"{text} {more}" for text, more in zip(paragraphs, added, strict=True)]
            lower = scores_at(scorer, longer, [row["image"] for row in firsts])[exponent]
            line.append(f"{100 * np.mean(lower < right - COSINE_TIE):.1f}")
        lines.append(line)
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    parser = study_parser("captioners", __doc__, data_required=False)
    parser.add_argument("--captions", type=Path, required=True, help="folder of the released captions")
    parser.add_argument("--photos", type=Path, required=True, help="folder of photos of COCO val2014")
    parser.add_argument("--rows", type=Path, help="folder for a file of rows per captioner")
    parser.add_argument("--backbone", default="embedded")
    given = parser.parse_args(argv)
    systems = rows_by_system(given.captions, given.photos)
    if given.rows:
        for name, rows in systems.items():
            write_lines(given.rows / f"{name}.jsonl", rows)
    lines = []
    for metric in ("mcs", "fit"):
        lines += measure(capscore.load(metric, backbone=given.backbone), systems)
    lowered = [f"{n} wrong sentence{'s' * (n > 1)} lower, %" for n in ADDED]
    headings = ("metric", "e", *systems, *ORDERS, *lowered)
    write_results(given, lines, Table(headings, lines, left=2).markdown())


if __name__ == "__main__":
    run_as_command(main)
