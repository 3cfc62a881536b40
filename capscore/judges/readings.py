"""What the logits of an answer mean: log-odds of yes against no, or a grade as an expectation over digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import BackboneUnavailable, InputError, Setting

if TYPE_CHECKING:
    import torch

    from .prompts import Prompt, Prompter

# The tokens with which each of b answers begins → float32 logits (b, 1 + their number, vocabulary)
Run = Callable[[Sequence[Sequence[int]]], "torch.Tensor"]


class Reading(Protocol):
    """b, and what gives the logits of b answers → numbers (b, k); it asks for logits `passes` times."""

    passes: int

    def __call__(self, n: int, run: Run) -> np.ndarray: ...


class YesOrNo:
    """Log-odds of yes against no at the first place of the answer.

    Args:
        prompter: Prompter of the model.
        answers: The two words, yes first, such as "yes/no" or "ja/nein".
        exact: Whether only these spellings count.

    Called with n and a function that gives logits, it returns float32 (n, 2): the margin z_yes − z_no, where
    z is the logsumexp over all single-token spellings of a word, and the mass, the probability of both words.
    """

    passes = 1

    def __init__(self, prompter: Prompter, answers: str, exact: bool = False):
        words = two_words(answers)
        self.spellings = [prompter.spellings(word, exact) for word in words]
        for word, ids in zip(words, self.spellings, strict=True):
            if not ids:
                raise BackboneUnavailable(
                    f"{prompter.name} has no token for {word!r}; try other ", Setting("answers")
                )
        if set(self.spellings[0]) & set(self.spellings[1]):
            raise InputError(Setting("answers", answers), f": {prompter.name} has one token for both words")

    def __call__(self, n: int, run: Run) -> np.ndarray:
        logits = run([()] * n)[:, 0]
        whole = logits.logsumexp(dim=1)
        yes, no = (logits[:, ids].logsumexp(dim=1) for ids in self.spellings)
        mass = ((yes - whole).exp() + (no - whole).exp()).clamp(max=1)
        return np.stack([(yes - no).cpu().numpy(), mass.cpu().numpy()], axis=1)


class Grade:
    """Expected grade from 0.0 to 1.0, over the digits that the model might say.

    p(1) + p(0) · (Σ d·q₁(d)/10 + Σ d·q₂(d)/100): p over 0 and 1 at the first place, q₁ over ten digits after
    "0.", q₂ after "0." and the likeliest digit of q₁. All three are renormalised over digits.

    Args:
        prompter: Prompter of the model.
        prompt: Any prompt of the question.

    Called with n and a function that gives logits, it returns float32 (n, 2): the grade, and the mass, the
    product of the three probabilities that a digit is said.

    Raises:
        BackboneUnavailable: the tokenizer has no single token for some digit.
    """

    passes = 2

    def __init__(self, prompter: Prompter, prompt: Prompt):
        spelled = [prompter.natural_ids(prompt, f"0.{digit}{digit}") for digit in range(10)]
        one = prompter.natural_ids(prompt, "1.00")
        lead = len(spelled[0]) - 4  # some tokenizers put a token before a number
        self.digits = [ids[-1] for ids in spelled if ids]
        fits = lead >= 0 and all(ids[:-2] == spelled[0][:-2] and ids[-2] == ids[-1] for ids in spelled)
        if not fits or len(set(self.digits)) < 10 or one[lead + 1 :] != spelled[0][lead + 1 :]:
            raise BackboneUnavailable(
                f"{type(prompter.tokenizer).__name__} of {prompter.name} has no single token for each digit, "
                "so no expectation over digits can be read: use ",
                Setting("reading", "yes"),
            )
        self.begun = spelled[0][:-2]
        self.integers = [spelled[0][lead], one[lead]]
        self.lead = lead

    def __call__(self, n: int, run: Run) -> np.ndarray:
        first = run([self.begun] * n)
        integer, mass = _among(first[:, self.lead], self.integers)
        tenths, mass_of_tenths = _among(first[:, -1], self.digits)
        said = tenths.argmax(axis=1)
        hundredths, mass_of_hundredths = _among(
            run([[*self.begun, self.digits[d]] for d in said])[:, -1], self.digits
        )
        digits = np.arange(10)
        below_one = tenths @ digits / 10 + hundredths @ digits / 100
        grade = integer[:, 1] + integer[:, 0] * below_one
        return np.stack([grade, mass * mass_of_tenths * mass_of_hundredths], axis=1).astype(np.float32)


def _among(logits: torch.Tensor, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities among some tokens, float64 (n, k), and the probability of all of them together (n,)."""
    chosen = logits[:, list(ids)]
    together = (chosen.logsumexp(dim=1) - logits.logsumexp(dim=1)).exp()
    return chosen.double().softmax(dim=1).cpu().numpy(), together.double().cpu().numpy()


def two_words(answers: str) -> list[str]:
    """The words of `answers`, yes first; InputError unless there are two."""
    words = [word.strip() for word in str(answers).split("/")]
    if len(words) != 2 or not all(word and word.isprintable() for word in words):
        raise InputError(Setting("answers", answers), ": expected two words, yes first, such as 'yes/no'")
    return words
