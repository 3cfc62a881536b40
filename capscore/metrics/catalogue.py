"""The metrics by name: where each scorer is, and which inputs it reads."""

from __future__ import annotations

from dataclasses import dataclass

IMAGES, BOTH, REFERENCES = "Images", "Images and references", "References"


@dataclass(frozen=True)
class CatalogueEntry:
    """One metric.

    Attributes:
        module: Module of `capscore.metrics` that has its scorer.
        scorer: Name of the scorer's class.
        looks_at: Inputs besides the candidates: `IMAGES`, `BOTH` or `REFERENCES`.
        has_backbone: Whether it embeds its inputs with a backbone.
    """

    module: str
    scorer: str
    looks_at: str
    has_backbone: bool = True


METRICS = {
    "mcs": CatalogueEntry("mcs", "MCS", IMAGES),
    "pr_mcs": CatalogueEntry("pr_mcs", "PRMCS", IMAGES),
    "clip_score": CatalogueEntry("clip_score", "CLIPScore", IMAGES),
    "infometic": CatalogueEntry("infometic", "InfoMetIC", IMAGES),
    "ref_clip_score": CatalogueEntry("ref_clip_score", "RefCLIPScore", BOTH),
    "clip_cider": CatalogueEntry("clip_cider", "CLIPCIDEr", BOTH),
    "text_score": CatalogueEntry("text_score", "TextScore", REFERENCES),
    "cider": CatalogueEntry("cider", "CIDEr", REFERENCES, has_backbone=False),
    "cider_d": CatalogueEntry("cider", "CIDErD", REFERENCES, has_backbone=False),
    "bleu": CatalogueEntry("bleu", "BLEU", REFERENCES, has_backbone=False),
    "rouge_l": CatalogueEntry("rouge_l", "ROUGEL", REFERENCES, has_backbone=False),
    "meteor": CatalogueEntry("java_metrics", "METEOR", REFERENCES, has_backbone=False),
    "spice": CatalogueEntry("java_metrics", "SPICE", REFERENCES, has_backbone=False),
}
# sets of metrics under one name, for `--preset`
PRESETS = {
    # the numbers of papers on COCO, without those that need Java (meteor and spice)
    "coco": ("bleu", "rouge_l", "cider", "ref_clip_score"),
    # every language that the backbone knows: one metric for the photo, two for the references
    "multilingual": ("mcs", "cider", "rouge_l"),
    # the photo alone: in every language, and as published for English; each with its own backbone
    "reference-free": ("mcs", "clip_score"),
}
# inputs → the metrics that read them
KINDS = {
    kind: tuple(name for name, entry in METRICS.items() if entry.looks_at == kind)
    for kind in (IMAGES, BOTH, REFERENCES)
}
