"""Token ids of texts → the parts that a gate reads, and the verdicts on parts → those on texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .sentence_cuts import sentence_cuts
from .use_package import END, START

# What a part counts in the verdict on the kind besides what it loses, so that a text that loses nothing has
# kinds too.
_LEAST = 1e-6


@dataclass(frozen=True)
class TextParts:
    """The parts of n texts, those of a text one after the other.

    Attributes:
        ids: Token ids of each part, with start and end; m ≥ n parts.
        owners: Number of the text of each part.
        n_texts: n.
    """

    ids: list[Sequence[int]]
    owners: list[int]
    n_texts: int

    @property
    def in_one(self) -> bool:
        """Whether each text is one part."""
        return len(self.ids) == self.n_texts

    @property
    def first(self) -> list[int]:
        """The place of each text's first part."""
        places = dict(zip(reversed(self.owners), range(len(self.owners) - 1, -1, -1), strict=True))
        return [places[text] for text in range(self.n_texts)]

    @property
    def cut(self) -> list[int]:
        """The texts that have several parts."""
        pairs = zip(self.owners, self.owners[1:], strict=False)
        return list(dict.fromkeys(owner for owner, following in pairs if owner == following))

    def joined(self, verdicts: torch.Tensor) -> torch.Tensor:
        """Verdicts on the parts, (m, 1 + k): kept share and probability of each kind → those on the texts.

        A text keeps the mean of its parts by their lengths. What is wrong with it is what is wrong with the
        parts that lose something.

        >>> parts = TextParts([[1, 7, 8, 9, 2], [1, 7, 2], [1, 7, 2]], [0, 0, 1], 2)
        >>> parts.joined(torch.tensor([[1.0, 1.0, 0.0], [0.2, 0.0, 1.0], [0.5, 0.5, 0.5]])).tolist()
        ... # doctest: +ELLIPSIS
        [[0.8..., ..., 0.99999...], [0.5, 0.5, 0.5]]
        """
        if self.in_one:
            return verdicts
        own = torch.tensor(self.owners, device=verdicts.device)
        lengths = torch.tensor([float(len(part) - 2) for part in self.ids], device=verdicts.device)
        shares = lengths / self._sums(lengths, own)[own]
        lost = shares * (1 - verdicts[:, 0])
        weights = lost + _LEAST * shares
        weights = weights / self._sums(weights, own)[own]
        # what is lost is summed up, so that a text whose parts lose nothing keeps 1 exactly
        kept = (1 - self._sums(lost, own)).clamp(0, 1)
        return torch.cat([kept.unsqueeze(1), self._sums(weights.unsqueeze(1) * verdicts[:, 1:], own)], dim=1)

    def _sums(self, values: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """The sums of the parts' values over each text."""
        return torch.zeros(self.n_texts, *values.shape[1:], device=values.device).index_add(0, own, values)


def text_parts(
    ids: Sequence[Sequence[int]], pieces_of: Callable[[Sequence[int]], Sequence[str]]
) -> TextParts:
    """Cut texts into the parts that a gate reads, by `sentence_cuts`.

    Args:
        ids: Token ids of n texts, with start and end.
        pieces_of: Token ids → their pieces.
    """
    parts: list[Sequence[int]] = []
    owners: list[int] = []
    for text, sequence in enumerate(ids):
        own = _parts_of(sequence, pieces_of)
        parts += own
        owners += [text] * len(own)
    return TextParts(parts, owners, len(ids))


def _parts_of(ids: Sequence[int], pieces_of: Callable[[Sequence[int]], Sequence[str]]) -> list[Sequence[int]]:
    inner = ids[1:-1]
    cuts = sentence_cuts(pieces_of(inner))
    if len(cuts) == 1:
        return [ids]
    return [[START, *inner[start:stop], END] for start, stop in zip([0, *cuts], cuts, strict=False)]
