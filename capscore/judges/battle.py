"""A reading of the judge that sees two captions of a photo, in both orders, and says which is better."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..statistics.battles import log_logistic
from .prompts import Prompt, Prompter
from .readings import ANSWERS, Yes, two_words


class Battle(Yes):
    """Probability that a caption describes its photo better than its rival, the mean of both orders.

    The judge names the better one by a number. Once the caption comes first, once the rival does: with z₁ and
    z₂ the log-odds of the first number against the second, over all single-token spellings, the score is
    (σ(z₁) + σ(−z₂)) / 2. So a judge that always prefers what comes first gives 0.5; how much it does is
    "first", (σ(z₁) + σ(z₂)) / 2, which is 0.5 without such a bias. The mass is the mean of both.
    """

    formulas = ()
    has_rival = True
    more_components: ClassVar[tuple[str, ...]] = ("first",)

    def __init__(self, *, question: str | None = None, answers: str = ANSWERS, **options: Any):
        words = "1/2" if two_words(answers) == two_words(ANSWERS) else answers
        super().__init__(question=question, answers=words, **options)
        if question is None:
            one, other = self.words
            self.question = (
                f'Here are two captions of this photo.\n\nCaption {one}: "{{caption}}"\n\n'
                f'Caption {other}: "{{rival}}"\n\nWhich one describes the photo better? It should be '
                f"correct first, and then complete. Answer {one} or {other}."
            )

    def bind(self, prompter: Prompter, prompt: Prompt) -> None:
        super().bind(prompter, prompt)
        for word, ids in zip(self.words, self.spellings, strict=True):  # "a" is an article, not the letter A
            ids[:] = [token for token in ids if prompter.text_of(token).strip() == word] or ids

    def prompts(self, caption: str, references: Sequence[str], context: str, rival: str = "") -> list[Prompt]:
        (prompt,) = super().prompts(caption, references, context)
        orders: list[Mapping[str, str]] = [
            {**prompt.data, "caption": one, "rival": other}
            for one, other in itertools.permutations((caption, rival))
        ]
        return [Prompt(prompt.turns, data) for data in orders]

    def joined(self, numbers: np.ndarray, prompts: Sequence[Prompt]) -> np.ndarray:
        """Log-odds of both orders → those of the mean probability; "first" beside them."""
        (first, second), mass = numbers.T.astype(np.float64)
        for_caption = np.logaddexp(log_logistic(first), log_logistic(-second))
        for_rival = np.logaddexp(log_logistic(-first), log_logistic(second))
        of_first = np.exp(log_logistic(np.array([first, second]))).mean()
        return np.array([for_caption - for_rival, mass.mean(), of_first])
