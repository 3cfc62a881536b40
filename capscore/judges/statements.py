"""A reading of the judge that asks for each claim of a caption whether it is true of the photo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..statistics.battles import log_logistic
from ..text.claims import Claim, claims
from .listing import Split
from .prompts import Prompt
from .readings import Yes

_TOLD = (
    'Here is a description of a photo: "{caption}"\n'
    'Does the description say this: "{reference_0}"? Judge by the description alone. Answer yes or no.'
)


class Statements(Yes):
    """The mean probability that a claim of the caption is true of its photo (its precision).

    A caption is split into claims, by rule (`capscore.text.claims`) or, with claims_by="model", by the model
    itself (`capscore.judges.listing`), and each is asked about as `Yes` asks, on the same photo. With
    references, "recall" is the mean probability that the caption says a claim of theirs, by the caption's
    words alone, without the photo, and "f1" the harmonic mean of both. So statements are what DCScore (Ye et
    al. 2025) and FActScore (Min et al. 2023) ask, with probabilities in place of verdicts.
    """

    question = (
        'Here is a statement about this photo: "{caption}"\n'
        "Is the statement true of the photo? Answer yes or no."
    )
    formulas = ()
    lists_claims = True
    more_components: ClassVar[tuple[str, ...]] = ("precision",)
    reference_components: ClassVar[tuple[str, ...]] = ("recall", "f1")

    detail_names: ClassVar[tuple[str, ...]] = ("claims", "false_claims")
    detail_columns: ClassVar[Mapping[str, type]] = {"false_claims": str}

    def prompts(
        self, caption: str, references: Sequence[str], context: str, splits: Mapping[str, Split] | None = None
    ) -> list[Prompt]:
        asked = []
        for claim in _claims(caption, splits):
            asked += super().prompts(claim.text, (), context)
        for reference in references:
            for claim in _claims(reference, splits):
                (prompt,) = super().prompts(caption, (), "")
                turns = (*prompt.turns[:-1], ("user", _TOLD))
                asked.append(Prompt(turns, {**prompt.data, "reference_0": claim.text}, has_photo=False))
        return asked

    def joined(self, numbers: np.ndarray, prompts: Sequence[Prompt]) -> np.ndarray:
        """Log-odds of the mean probability of the claims, the mass, and the shares of claims."""
        is_told = np.array(["reference_0" in prompt.data for prompt in prompts])
        odds, mass = numbers.T.astype(np.float64)
        right, wrong = (np.logaddexp.reduce(log_logistic(sign * odds[~is_told])) for sign in (1, -1))
        precision = float(np.exp(log_logistic(right - wrong)))
        shares = [precision]
        if is_told.any():
            recall = float(np.exp(log_logistic(odds[is_told])).mean())
            shares += [recall, 2 * precision * recall / max(precision + recall, 1e-12)]
        return np.array([right - wrong, mass.mean(), *shares])

    def details(
        self, caption: str, numbers: np.ndarray, splits: Mapping[str, Split] | None = None
    ) -> dict[str, object]:
        """The claims of a caption, each with where it stands and the probability that it is true.

        With claims_by="model" also "claims_by", what split the caption, and "dropped", what the model added.
        """
        chances = np.exp(log_logistic(numbers[:, 0].astype(np.float64))).tolist()
        found = [
            claim._asdict() | {"p": p} for claim, p in zip(_claims(caption, splits), chances, strict=False)
        ]
        false = [claim["text"] for claim in found if claim["p"] < 0.5]
        details: dict[str, object] = {"claims": found, "false_claims": "; ".join(false)}
        if splits is not None:
            split = splits[caption]
            details |= {"claims_by": "model" if split.is_listed else "rules", "dropped": split.dropped}
        return details


def _claims(text: str, splits: Mapping[str, Split] | None) -> list[Claim]:
    return claims(text) if splits is None else splits[text].claims
