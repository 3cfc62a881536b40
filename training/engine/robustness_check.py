"""A text tower and validation captions → how perturbations change the mean score, and how far the base is."""

from __future__ import annotations

import math

import numpy as np

from capscore.backbones.base import Backbone
from capscore.benchmarks.protocols.recall import retrieval
from capscore.embedding.embedder import Embedder
from capscore.perturbations import KINDS
from capscore.statistics.correlation import spearman
from training.data.captions import Captions
from training.data.triples import Noise, noun_finders, perturb_rows


class RobustnessCheck:
    """Scores captions and their perturbations against their images: `n` of these rows, `most` at the most.

    The perturbations are drawn once, so that two evaluations differ only by the tower. All five kinds are
    measured, but substitution, which needs a noun finder, only if the run uses it.
    """

    def __init__(
        self,
        captions: Captions,
        rows: np.ndarray,
        noise: Noise,
        base: Backbone,
        *,
        most: int = 2000,
        seed: int = 0,
    ):
        chosen = np.sort(np.random.default_rng((seed, 2)).permutation(rows)[:most])
        self.n = len(chosen)
        self.kinds = tuple(kind for kind in KINDS if kind != "substitution" or kind in noise.kinds)
        self._texts = [captions.rows[row].caption for row in chosen]
        self._perturbed: dict[str, list[str]] = {}
        finders = noun_finders(captions, chosen) if "substitution" in self.kinds else {}
        for kind in self.kinds:
            self._perturbed[kind], _ = perturb_rows(captions, chosen, kind, noise, finders, seed)
        # numbers of the images among the images of these captions
        distinct, self._image = np.unique(captions.image[chosen], return_inverse=True)
        self._images = np.array(captions.embeddings[distinct], dtype=np.float32)
        self._base_cosines: np.ndarray | None = None
        self.base_numbers = self(base)

    def __call__(self, backbone: Backbone) -> dict[str, float]:
        """Measure the tower; NaN where a number is undefined.

        "original" is the mean score, and "original_of_base" the same as a share of the base's; "drop_<kind>"
        is (perturbed − original) / original, over unchanged captions too, and "drop_average" their plain
        mean; "agreement_with_base" is Spearman's ρ with the base's cosines, over each caption with its own
        image and with another one.
        """
        texts = [*self._texts, *(text for kind in self.kinds for text in self._perturbed[kind])]
        embedded = Embedder(backbone, progress=False).texts(texts, prefix=backbone.prefix)
        matrix = embedded.matrix[embedded.index]
        own = self._images[self._image]
        scores = backbone.w * np.maximum((matrix * np.tile(own, (1 + len(self.kinds), 1))).sum(axis=1), 0)
        original, *means = scores.reshape(1 + len(self.kinds), self.n).mean(axis=1, dtype=float).tolist()
        drops = [(mean - original) / original if original > 0 else math.nan for mean in means]
        originals = matrix[: self.n]
        other = self._images[(self._image + 1) % len(self._images)]
        cosines = np.concatenate([(originals * own).sum(axis=1), (originals * other).sum(axis=1)])
        if self._base_cosines is None:
            self._base_cosines = cosines
            self._base_mean = original
        found = retrieval(
            image_embeddings=self._images, text_embeddings=originals, text_to_image=self._image, ks=(1,)
        )
        numbers = {
            "original": original,
            "original_of_base": original / self._base_mean if self._base_mean else None,
            "drop_average": sum(drops) / len(drops),
            **{f"drop_{kind}": drop for kind, drop in zip(self.kinds, drops, strict=True)},
            "text_to_image_r@1": found.value("text_to_image_r@1"),
            "image_to_text_r@1": found.value("image_to_text_r@1"),
            "agreement_with_base": spearman(cosines, self._base_cosines),
        }
        return {name: math.nan if number is None else float(number) for name, number in numbers.items()}
