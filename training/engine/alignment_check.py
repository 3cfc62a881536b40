"""A network of InfoMetIC and validation pairs → how well it judges words, regions and captions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from capscore.infometic.network import Alignment, InfoMetIC
from training.data.alignment_data import AlignmentData, TextBatch
from training.engine.infometic_losses import device_of, word_shares

_BETA = 0.1  # above which a word counts as right and a region as mentioned
_MOST, _PAIRS_AT_ONCE = 2000, 64  # pairs that are measured


class AlignmentCheck:
    """Measures a network, or InfoCLIP, on validation pairs, of which at most 2,000 are drawn.

    Called with a network, or InfoCLIP, in eval mode it returns these shares, where the pairs allow it:

    - words_right: semantic words of polluted captions that are judged as labelled;
    - planted_found: polluted captions whose wrong word has the lowest score of the semantic words;
    - planted_by_chance: the same for a random guess;
    - false_alarms: semantic words of original captions that are judged wrong;
    - precision_falls: polluted captions whose precision is below that of the original caption;
    - recall_falls: captions that say less whose recall is below that of the caption that says more;
    - regions_right: regions that are judged mentioned or not as labelled.
    """

    def __init__(self, data: AlignmentData, pairs: np.ndarray, *, seed: int = 0):
        chosen = np.random.default_rng((seed, 4)).permutation(pairs)[:_MOST]
        self.data, self.pairs = data, np.sort(chosen)
        self.n = len(self.pairs)
        self.base_numbers: dict[str, float] = {}
        self._polluted = data.with_pollution()
        self._labelled = data.with_region_labels()
        self._hard = data.hard_negatives()

    @torch.no_grad()
    def __call__(self, aligner: InfoMetIC, *, alarms_only: bool = False) -> dict[str, float]:
        """The numbers, by name; of `alarms_only`, which takes a third of the time, just false_alarms."""
        sums: dict[str, list[float]] = {}

        def add(name: str, values: Tensor) -> None:
            total = sums.setdefault(name, [0.0, 0.0])
            total[0] += float(values.double().sum())
            total[1] += values.numel()

        for start in range(0, self.n, _PAIRS_AT_ONCE):
            self._measure(aligner, self.pairs[start : start + _PAIRS_AT_ONCE], add, alarms_only)
        return {name: total / n for name, (total, n) in sums.items() if n}

    def _measure(
        self, aligner: InfoMetIC, pairs: np.ndarray, add: Callable[[str, Tensor], None], alarms_only: bool
    ) -> None:
        data = self.data
        at = device_of(aligner)
        batch = data.images(data.pair_image[pairs].tolist(), at)
        images = aligner.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)

        def scored(texts: Iterable[int], rows: np.ndarray) -> tuple[TextBatch, Alignment, Tensor]:
            """Texts, each with the image of its row, their scores, and those of their words."""
            few = data.text_batch([int(text) for text in texts], at)
            states = aligner.encode_texts(few.global_, few.tokens, few.mask, context=few.context)
            index, own = torch.from_numpy(rows).to(at), torch.arange(len(few.mask), device=at)
            scores = aligner.pairs(images, states, index, own)
            return few, scores, word_shares(scores.token_scores.float(), few.shares)

        texts, plain, alpha = scored(data.pair_text[pairs], np.arange(len(pairs)))
        add("false_alarms", (alpha <= _BETA)[texts.counted])
        if alarms_only:
            return
        rows = np.flatnonzero(self._labelled[pairs])
        if len(rows):
            labels = data.region_labels(pairs[rows].tolist(), batch.mask.shape[1], at)[:, :-1] > 0
            mentioned = plain.region_scores[rows, :-1] > _BETA
            add("regions_right", (mentioned == labels)[batch.mask[rows]])
        rows = np.flatnonzero(self._polluted[pairs])
        if len(rows):
            texts, found, alpha = scored([data.polluted[pair][0] for pair in pairs[rows]], rows)
            add("words_right", ((alpha > _BETA) == (texts.labels > 0))[texts.counted])
            lowest = alpha.masked_fill(~texts.counted, torch.inf).argmin(dim=1, keepdim=True)
            add("planted_found", (texts.labels.gather(1, lowest) == 0).float())
            add("planted_by_chance", 1 / texts.counted.sum(dim=1).float())
            add("precision_falls", (found.precision < plain.precision[rows]).float())
        rows = np.flatnonzero([len(self._hard[pair]) > 0 for pair in pairs])
        if len(rows):
            _, found, _ = scored([self._hard[pair][0] for pair in pairs[rows]], rows)
            add("recall_falls", (found.recall < plain.recall[rows]).float())
