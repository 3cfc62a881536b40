"""CIDEr and CIDEr-D (Vedantam et al. 2015), which count n-grams shared with references; and CLIP+CIDEr.

In: captions, each with a list of references. Out: one score per row in [0, 10], and their mean. Documents
are the references of all rows, or come from a file of document frequencies.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xxhash

from ..errors import CapscoreError, CorpusWarning, InputError, Setting, warn
from .backbone_scorer import BackboneScorer, clip_score, ref_clip_score
from .base import PreparedRows, Scores
from .reference_scorer import UNSTATED, Compared, ReferenceScorer, Texts, splitting_problem

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from .formulas.cider import DocumentFrequencies


class Consensus:
    """CIDEr of texts, each language separately; part of every scorer that computes CIDEr.

    Rows are split by the rules of their language, and documents are counted among the rows of one language.
    Otherwise common German words would count as rare if most rows were English. The arguments are those of
    `CIDEr`; raises CapscoreError for an unknown variant, or a file without document frequencies.
    """

    def __init__(self, document_frequencies: Any = None, variant: Literal["coco", "paper"] = "coco"):
        from .formulas.cider import DocumentFrequencies

        if variant not in ("coco", "paper"):
            raise InputError(Setting("variant", variant), ": expected 'coco' or 'paper'")
        self.variant = variant
        if isinstance(document_frequencies, (str, Path)):
            document_frequencies = DocumentFrequencies.load(document_frequencies)
        elif not isinstance(document_frequencies, (DocumentFrequencies, type(None))):
            raise CapscoreError(
                Setting("document_frequencies", document_frequencies),
                ": expected a DocumentFrequencies, or the file that one was saved to",
            )
        self.given: DocumentFrequencies | None = document_frequencies

    def language_problem(self, code: str) -> str:
        """Why texts in a language cannot be split or do not fit the given frequencies; "" if they can."""
        problem = splitting_problem(code)
        if problem or self.given is None or self.given.segmenter is None:
            return problem
        from ..text.segmentation import segmenter_name

        splits, counted = segmenter_name(code or UNSTATED), self.given.segmenter
        if splits == counted:
            return ""
        texts = f"texts in {code!r}" if code else "texts whose language is not stated"
        return (
            f"{texts} are split by {splits}, but the document frequencies were counted on tokens of {counted}"
        )

    def score(self, texts: Texts) -> np.ndarray:
        """float64 (n,), 0 to 10; warns where document frequencies say nothing about a language's texts."""
        from .formulas.cider import cider, tells_rows_apart

        scores, alike = np.zeros(len(texts.candidates)), []
        for code, rows, part in texts.by_language():
            if self.given is None and not tells_rows_apart(part.tokens):
                alike.append(f"{len(rows):,} in {code!r}")
            scores[rows] = cider(part.tokens, frequencies=self.given, variant=self.variant)
        if alike:
            problem = (
                f"all n-grams are in the references of each row ({', '.join(alike)}): none is rare, and each "
                "CIDEr is 0 by definition. Score more rows at once, or give "
            )
            warn(CorpusWarning(problem, Setting("document_frequencies")))
        return scores

    def settings(self, texts: Texts) -> dict[str, object]:
        """Settings for the signature: segmenters, documents that were counted, and the formula's constants.

        `df:rows@…` stands for the references of the scored rows in any order, `df:…` for given frequencies.
        """
        from .formulas.cider import SIGMA
        from .formulas.ngrams import ORDERS

        counted = f"rows@{_references_digest(texts)}" if self.given is None else self.given.fingerprint
        return {
            "segmenter": texts.segmenters,
            "df": counted,
            "n": ORDERS,
            **({"sigma": SIGMA} if self.variant == "coco" else {}),
        }


class CIDEr(ReferenceScorer):
    """CIDEr; by default as coco-caption computes it and papers report it, which is CIDEr-D with σ = 6.

    Args:
        document_frequencies: Document frequencies (counted in references of one language, with the same
            segmenter), or the file that holds them. None counts them in the references of the scored rows.
        variant: Formula: "coco", or "paper" for the plain CIDEr of Vedantam et al. (2015, eq. 2 and 3).
    """

    metric = "cider"
    title = "CIDEr"
    citation = ("vedantam-etal-2015-cider",)
    score_range = (0, 10)

    def __init__(
        self,
        *,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        variant: Literal["coco", "paper"] = "coco",
        **common: Any,
    ):
        super().__init__(**common)
        self.consensus = Consensus(document_frequencies, variant)

    @property
    def compares_rows(self) -> bool:
        return self.consensus.given is None

    def language_problem(self, code: str) -> str:
        return self.consensus.language_problem(code)

    def compare(self, texts: Texts) -> Compared:
        return Compared(
            self.consensus.score(texts),
            {"variant": self.consensus.variant, **self.consensus.settings(texts)},
        )


class CIDErD(CIDEr):
    """CIDEr-D with σ = 6, which `CIDEr` computes by default.

    Args:
        document_frequencies, empty: As in `CIDEr`.
    """

    metric = "cider_d"
    title = "CIDEr-D"

    def __init__(
        self,
        *,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        empty: Literal["raise", "score", "skip"] = "raise",
    ):
        super().__init__(document_frequencies=document_frequencies, empty=empty)

    def compare(self, texts: Texts) -> Compared:
        return Compared(self.consensus.score(texts), self.consensus.settings(texts))


class CLIPCIDEr(BackboneScorer):
    """CLIP+CIDEr (Qiu et al. 2023): the plain average of CIDEr and RefCLIPScore (or CLIPScore).

    Components: "clip_term" (RefCLIPScore or CLIPScore) and "cider".

    The text of its paper averages CIDEr with RefCLIPScore; the caption of its table says CLIPScore. CIDEr
    goes up to 10 and RefCLIPScore to 1.43, so CIDEr dominates unless it is near 0.

    Args:
        document_frequencies: Document frequencies, or the file that holds them; None counts them in the
            references of the scored rows.
        clip: Score that is averaged with CIDEr: "ref_clip_score" (as published), or "clip_score", which
            compares captions with images only.
    """

    metric = "clip_cider"
    title = "CLIP+CIDEr"
    citation = ("hessel-etal-2021-clipscore", "vedantam-etal-2015-cider")
    score_range = (0, None)
    default_backbone = "ViT-B-32-quickgelu/openai"
    component_names = ("clip_term", "cider")
    needs_references = True
    splits_texts = True
    waits = True

    def __init__(
        self,
        embedder: Embedder,
        *,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        clip: Literal["ref_clip_score", "clip_score"] = "ref_clip_score",
        **common: Any,
    ):
        super().__init__(embedder, **common)
        if clip not in ("ref_clip_score", "clip_score"):
            raise InputError(Setting("clip", clip), ": expected 'ref_clip_score' or 'clip_score'")
        self.clip = clip
        self.consensus = Consensus(document_frequencies)

    @property
    def compares_texts(self) -> bool:
        return self.clip == "ref_clip_score"

    def constants(self) -> dict[str, object]:
        return {"clip": self.clip, "w": self.backbone.w}

    @property
    def compares_rows(self) -> bool:
        return self.consensus.given is None

    def language_problem(self, code: str) -> str:
        return self.consensus.language_problem(code)

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        image, cider, w = values["image_cosine"], values["cider"], self.backbone.w
        if self.compares_texts:
            term = ref_clip_score(image, values["text_cosine"], w)
        else:
            term = clip_score(image, w)
        return (term + cider) / 2, {"clip_term": term, "cider": cider}

    def finish(self, rows: PreparedRows) -> Scores:
        texts = Texts.of(rows)
        return self.finish_with(rows, {"cider": self.consensus.score(texts)}, self.consensus.settings(texts))


def _references_digest(texts: Texts) -> str:
    """8 hexadecimal digits for the languages and references of the rows, whatever their order."""
    times = Counter(
        (code, *sorted(references))
        for code, references in zip(texts.languages, texts.references, strict=True)
    )
    rows = sorted(json.dumps([*row, count]) for row, count in times.items())
    return xxhash.xxh3_64_hexdigest("\n".join(rows).encode())[:8]
