"""Every metric by `capscore.load`, every module by `evaluate`: rows, means, components, counts, signature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tools.tiny import colours as toy
from tools.tiny.backbones import Checkpoint

from .place import Place
from .plain import plain
from .table import KERNELS, case

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh", "ar", "ru")
OF_WORDS = ("cider", "cider_d", "bleu", "rouge_l")
OF_PHOTOS = ("mcs", "clip_score", "ref_clip_score", "clip_cider", "text_score")
MARKS = ("right", "half", "wrong")


def has_meteor() -> bool:
    """Whether METEOR can be run."""
    from capscore.metrics.meteor import METEOR

    return not METEOR.what_is_missing()


def all_of(scores: Any) -> dict[str, Any]:
    """`Scores` → everything in it."""
    return {
        "dict": scores.to_dict(),
        "settings": {name: str(value) for name, value in scores.settings.items()},
        "n_references": scores.n_references,
        "truncated": scores.truncated,
        "languages": scores.languages,
        "image_keys": [bool(key) for key in scores.image_keys],
        "corpus": scores.corpus,
        "repr": repr(scores).partition(":")[0],
    }


def by_language(place: Place, metric: str, **options: Any) -> dict[str, Any]:
    """Right, half-right and wrong captions of six photos, in each language."""
    import capscore

    scorer = capscore.load(metric, **options)
    photos = place.photos() * len(MARKS) if "backbone" in options else None
    found = {}
    for language in LANGUAGES:
        references = None if metric in ("mcs", "pr_mcs", "clip_score") else place.references(language) * 3
        scores = scorer.score(place.captions(language, MARKS), photos, references, language)
        found[language] = scores.to_dict()
    return found


for _metric in OF_PHOTOS:

    @case(f"metrics/{_metric}")
    def _(place: Place, metric: str = _metric) -> Any:
        return by_language(place, metric, backbone=place.embedded)


for _metric in OF_WORDS:

    @case(f"metrics/{_metric}")
    def _(place: Place, metric: str = _metric) -> Any:
        return by_language(place, metric)


@case("metrics/pr_mcs", tolerance=KERNELS)
def _(place: Place) -> Any:
    return by_language(place, "pr_mcs", backbone=place.pr_mcs)


@case("metrics/many_languages", tolerance=KERNELS)
def _(place: Place) -> Any:
    """Rows of several languages at once, and rows that cannot be scored."""
    import capscore

    photos = place.photos()
    texts = [place.captions(language)[number] for number, language in enumerate(LANGUAGES[:6])]
    references = [place.references(language)[number] for number, language in enumerate(LANGUAGES[:6])]
    photos[2], texts[4], references[1] = "nowhere.png", "  ", references[1][:1]
    long = " ".join(["a cat"] * 300)
    found = {}
    for metric in (*OF_PHOTOS, *OF_WORDS, "infometic"):
        options = {"empty": "skip"} | ({} if metric in OF_WORDS else {"backbone": place.embedded})
        given = references if metric in (*OF_WORDS, "ref_clip_score", "clip_cider", "text_score") else None
        scores = capscore.load(metric, **options).score(
            [*texts[:3], long, *texts[4:]], photos, given, list(LANGUAGES[:6]), on_error="skip"
        )
        found[metric] = all_of(scores)
        found[metric]["dict"].pop("words", None)
        found[metric]["dict"].pop("regions", None)
    return found


@case("metrics/variants")
def _(place: Place) -> Any:
    """CIDEr as its paper has it, frequencies from a file, and corpora of one row."""
    import capscore
    from capscore.metrics import cider
    from capscore.text import segmentation

    texts, references = place.captions("en", MARKS), place.references("en") * 3
    tokens = [segmentation.tokenize(row, "en") for row in references]
    frequencies = cider.DocumentFrequencies.from_references(
        tokens, segmenter=segmentation.segmenter_name("en")
    )
    frequencies.save("frequencies.npz")
    loaded = cider.DocumentFrequencies.load("frequencies.npz")
    found: dict[str, Any] = {"n_documents": loaded.n_documents, "fingerprint": loaded.fingerprint}
    for name, metric, options in (
        ("paper", "cider", {"variant": "paper"}),
        ("coco", "cider", {"variant": "coco"}),
        ("frequencies", "cider", {"document_frequencies": frequencies}),
        ("file", "cider", {"document_frequencies": "frequencies.npz"}),
        ("cider_d", "cider_d", {"document_frequencies": loaded}),
    ):
        found[name] = all_of(
            capscore.load(metric, **options).score(texts, references=references, language="en")
        )
    one = capscore.load("bleu").score(texts[:1], references=references[:1], language="en")
    return {**found, "one row": all_of(one)}


@case("metrics/clip_cider_variants")
def _(place: Place) -> Any:
    import capscore

    photos, texts, references = place.photos(), place.captions("en"), place.references("en")
    return {
        clip: all_of(
            capscore.load("clip_cider", backbone=place.embedded, clip=clip).score(
                texts, photos, references, "en"
            )
        )
        for clip in ("clip_score", "ref_clip_score")
    }


@case("metrics/token_rows")
def _(place: Place) -> Any:
    """The n-gram metrics on tokens that are split at blanks: repeated words, empty captions, equal rows."""
    from capscore.metrics import bleu, cider, rouge_l
    from capscore.metrics.ngrams import TokenRows

    texts = [
        "a red kite a red kite over the hill",
        "two goats chew on a green hat",
        "snow",
        "",
        "a boat",
        "snow",
    ]
    references = [
        ["a red kite flies over the hill", "one kite above a hill", "a child flies a red paper kite"],
        ["the goats are eating a green hat", "two goats chew a hat on the farm"],
        ["snow covers the whole village", "snow"],
        ["a lamp", "the lamp on the table is not lit"],
        ["three ducks cross a road", ""],
        ["snow"],
    ]
    rows = TokenRows.build(texts, references, lambda given: [text.split() for text in given])
    frequencies = cider.DocumentFrequencies.from_rows(rows)
    return {
        "cider": cider.cider(rows),
        "paper": cider.cider(rows, variant="paper"),
        "frequencies": cider.cider(rows, frequencies=frequencies),
        "apart": cider.tells_rows_apart(rows),
        "bleu": bleu.bleu(rows),
        "corpus_bleu": bleu.corpus_bleu(rows),
        "rouge_l": rouge_l.rouge_l(rows),
    }


@case("metrics/meteor", needs=has_meteor)
def _(place: Place) -> Any:
    import capscore

    texts, references = place.captions("en", MARKS), place.references("en") * 3
    return all_of(capscore.load("meteor").score(texts, references=references, language="en"))


# ------------------------------------------------------------------ InfoMetIC


def _two(place: Place) -> tuple[list[str], list[str], list[str]]:
    """Right and half-right captions of two photos in four languages: captions, photos, languages."""
    photos = place.photos()
    rows = [
        (entry["captions"][language][mark], photo, language)
        for language in ("en", "de", "ja", "zh")
        for mark in ("right", "half")
        for entry, photo in list(zip(place.entries.values(), photos, strict=True))[:2]
    ]
    captions, shown, languages = map(list, zip(*rows, strict=True))
    return captions, shown, languages


for _name, _weights in (("infometic", None), ("infometic_info_clip", "info_clip")):

    @case(f"metrics/{_name}", tolerance=KERNELS)
    def _(place: Place, weights: str | None = _weights) -> Any:
        """The weights that ship, and the baseline, with all that they say of words and regions."""
        import capscore

        texts, photos, languages = _two(place)
        scorer = capscore.load("infometic", backbone=place.embedded, weights=weights)
        found = all_of(scorer.score(texts, photos, language=languages))
        matrix, components = scorer.score_matrix(texts[:4], place.photos()[:2], "en")
        return {**found, "matrix": matrix, "matrix components": components}


@case("metrics/infometic_boxes", tolerance=KERNELS)
def _(place: Place) -> Any:
    """Regions that are given; another threshold and number of regions."""
    import capscore

    photos, texts = place.photos()[:2], place.captions("en")[:2]
    boxes = [[[0, 0, 225, 300], [225, 0, 451, 300], [100, 50, 300, 200]], None]
    found = {}
    for weights in (None, "info_clip"):
        scorer = capscore.load("infometic", backbone=place.embedded, weights=weights)
        found[str(weights)] = all_of(scorer.score(texts, photos, language="en", boxes=boxes))
    few = capscore.load("infometic", backbone=place.embedded, n_regions=5, beta=0.2)
    return {**found, "few": all_of(few.score(texts, photos, language="en"))}


# ------------------------------------------------------------------ tiny backbones and toys


@case("metrics/toy")
def _(place: Place) -> Any:
    """Colours against the words red, green and blue."""
    import capscore

    texts = ["red", "red blue", "green", "blue", "red", "a red house at a green lake under a blue sky"]
    photos = [toy.RED, toy.RED, toy.RED, toy.BLUE, toy.GREEN, toy.BLUE]
    references = [["red"], ["green", "red"], ["green"], ["red", "green"], ["red", "blue", "green"], ["blue"]]
    found = {}
    for metric in (*OF_PHOTOS, "pr_mcs", "infometic"):
        backbone = toy.ColourBackbone(prefix="")
        backbone.recipe = "pr_mcs" if metric == "pr_mcs" else ""
        options: dict[str, Any] = {"weights": "info_clip"} if metric == "infometic" else {}
        scorer = capscore.load(metric, backbone=backbone, cache=False, **options)
        given = references if metric in ("ref_clip_score", "clip_cider", "text_score") else None
        found[metric] = all_of(scorer.score(texts, photos, given, "en"))
    return found


# every kind of checkpoint that `load_backbone` reads
CHECKPOINTS = (
    "open_clip clip",
    "clip",
    "metaclip 2",
    "altclip",
    "chinese clip",
    "siglip",
    "siglip 2",
    "siglip 2 naflex",
    "m-clip",
    "sentence-transformers",
    "student",
)
for _kind in CHECKPOINTS:

    @case(f"tiny/{_kind.replace(' ', '_')}")
    def _(place: Place, kind: str = _kind) -> Any:
        """A checkpoint with random weights: its embeddings, and scores of the demo's photos."""
        import capscore
        from capscore import load_image

        backbone = Checkpoint(kind, Path.cwd()).load()
        texts = [*place.captions("en")[:3], *place.captions("de")[:2], "x " * 300]
        images: list[Any] = place.photos()
        pixels = [np.asarray(backbone.preprocess(load_image(image))) for image in images]
        if kind.startswith("siglip"):  # it resizes with torch, to the last bit otherwise on every processor
            images = [np.full((40, 60, 3), 40 * number, np.uint8) for number in range(6)]
        scores = capscore.load("mcs", backbone=backbone, cache=False).score(texts, images, language="en")
        found = {
            "dim": backbone.dim,
            "max_tokens": backbone.max_tokens,
            "prefix": backbone.prefix,
            "logit_scale": backbone.logit_scale,
            "pixels": [[*each.shape, round(float(each.mean()), 2)] for each in pixels],
            "texts": backbone.encode_texts(texts)[:, :4].tolist(),
            "scores": all_of(scores),
        }
        # a checkpoint that is written here is not the same to the last bit on every processor
        return json.loads(json.dumps(plain(found, {backbone.revision: "*"})))


@case("metrics/backbones")
def _(place: Place) -> Any:
    """Embeddings of the backbones that ship, and what is known of them."""
    from PIL import Image

    photos = place.photos()
    images = [Image.open(photo).convert("RGB") for photo in photos[:3]]
    found = {}
    for name, backbone in (("embedded", place.embedded), ("embedded-pr-mcs", place.pr_mcs)):
        texts = backbone.encode_texts([*place.captions("en"), *place.captions("ar")])
        pixels = backbone.encode_pixels([backbone.preprocess(image) for image in images])
        found[name] = {
            "texts": texts[:, :6],
            "pixels": np.asarray(pixels)[:, :6],
            "norms": np.linalg.norm(texts, axis=1),
            "languages": backbone.languages,
            "dim": backbone.dim,
            "max_tokens": backbone.max_tokens,
            "name": backbone.name,
            "revision": backbone.revision,
            "fingerprint": backbone.fingerprint,
        }
    return found
