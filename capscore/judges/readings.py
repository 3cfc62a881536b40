"""Readings of a judge: what it is asked about a caption, and what the logits of its answer are worth.

One class a reading. `judge` takes as its option `reading` the names of `capscore.registry.READINGS`: "yes",
"grade", "match", "battle" and "statements" (in files of these names), and those of other packages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import BackboneUnavailable, InputError, OptionError, Setting
from ..statistics.battles import log_logistic
from .prompts import Prompt, Prompter, check_turn

if TYPE_CHECKING:
    import torch

Run = Callable[[Sequence[Sequence[int]]], "torch.Tensor"]
"""The tokens with which each of b answers begins → float32 logits (b, 1 + their number, vocabulary)."""

ANSWERS, FORMULA, CLAIMS_BY = "yes/no", "ratio", "rules"  # defaults of the options of these names
_BOUND = 40.0  # of the margin of a grade of exactly 0 or 1


class Reading(ABC):
    """A question about a caption, and what the logits of its answer are worth.

    A subclass has a `question`. It finds the tokens to read in `bind`, makes numbers of logits in `read`, and
    scores of numbers in `scores`; `register_reading` gives it a name. One that asks several questions per
    row, such as one per statement, overrides `prompts` and `joined`.

    Args:
        question: Question in place of the class's own; None for that.
        instruction: System turn in place of the class's own; "" for that.
        answers: The two words that are read, yes first.
        formula: Formula by which numbers become scores.
        claims_by: What splits a caption into claims, if it is split: "rules" or "model".

    Attributes:
        question: Question with {caption} where the caption goes; {photo} where the photo goes, if not first;
            {rival} where the rival goes, of a reading that has one.
        system: Text of a system turn; "" for none.
        formulas: Formulas that may be named, the default first; () for a reading with one alone.
        lists_claims: Whether the model may list the claims of a caption; `prompts` and `details` then also
            get `splits`, a `capscore.judges.listing.Split` per text.
        takes_answers: Whether the two words that are read may be chosen.
        begins_answer: Whether it reads further than the first token, after an answer that it begins itself.
        reads_heads: Whether it also reads a head for image–text matching, which takes no question.
        has_rival: Whether it compares the caption with another, which `prompts` then gets as `rival`.
        more_components: Names of further numbers that `joined` gives, which become components of the score.
        reference_components: Names of those that it gives after them, of rows with references.
        detail_names, detail_columns: Keys of `details`, and those that are also columns of a result; none for
            a reading without details.
        passes: Number of times that `read` asks for logits.
    """

    question: str
    system: ClassVar[str] = ""
    formulas: ClassVar[tuple[str, ...]] = ()
    lists_claims: ClassVar[bool] = False
    takes_answers: ClassVar[bool] = False
    begins_answer: ClassVar[bool] = False
    reads_heads: ClassVar[bool] = False
    has_rival: ClassVar[bool] = False
    more_components: ClassVar[tuple[str, ...]] = ()
    reference_components: ClassVar[tuple[str, ...]] = ()
    detail_names: ClassVar[tuple[str, ...]] = ()
    detail_columns: ClassVar[Mapping[str, type]] = {}
    passes: ClassVar[int] = 1

    def __init__(
        self,
        *,
        question: str | None = None,
        instruction: str = "",
        answers: str = ANSWERS,
        formula: str = FORMULA,
        claims_by: str = CLAIMS_BY,
    ):
        if question is not None:
            self.question = question
        self.instruction, self.formula, self.claims_by = instruction, formula, claims_by
        self.words = two_words(answers)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Check the options of `__init__`, with the name of the reading beside them.

        Raises:
            InputError: a question without a place for the caption, or answers that are not two words.
            OptionError: an option that does not go with this reading.
        """
        places = ("caption", "rival") if cls.has_rival else ("caption",)
        if options.get("question") is not None:
            check_turn("question", options["question"], places, needs_all=True)
        check_turn("instruction", options.get("instruction", ""), places)
        answers, formula = options.get("answers", ANSWERS), options.get("formula", FORMULA)
        refused = {
            "answers": not cls.takes_answers and two_words(answers) != two_words(ANSWERS),
            "formula": formula not in (FORMULA, *cls.formulas),
            "claims_by": not cls.lists_claims and options.get("claims_by", CLAIMS_BY) != CLAIMS_BY,
        }
        for name, is_refused in refused.items():
            if is_refused:
                reading = Setting("reading", options.get("reading"))
                raise OptionError(Setting(name, options[name]), " does not go with ", reading)

    @property
    def read_answers(self) -> str:
        """What is read of an answer, for the signature."""
        return "/".join(self.words)

    @property
    def ranks_by_margin(self) -> bool:
        """Whether margins rank rows as scores do; they tell scores near 0 and 1 apart."""
        return True

    def prompts(self, caption: str, references: Sequence[str], context: str) -> list[Prompt]:
        """What is asked about the photo of a row: one prompt, or several."""
        system = self.instruction or self.system
        return [Prompt.about(self.question, caption, references, context, system)]

    @abstractmethod
    def bind(self, prompter: Prompter, prompt: Prompt) -> None:
        """Find the tokens that are read; called once, with any prompt of the reading."""

    @abstractmethod
    def read(self, n: int, run: Run) -> np.ndarray:
        """Read n answers; `run` gives their logits, as often as `passes` says.

        Returns:
            (n, 2): the number that `scores` takes, and the probability of an answer in the asked way.
        """

    def joined(self, numbers: np.ndarray, prompts: Sequence[Prompt]) -> np.ndarray:
        """Numbers of the prompts of one row (k, 2) → those of the row (2,), and of further components."""
        return numbers[0]

    def details(self, caption: str, numbers: np.ndarray) -> dict[str, object]:
        """What the numbers of a row's prompts (k, 2) say of its caption, part by part; {} for nothing."""
        return {}

    @abstractmethod
    def scores(self, numbers: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of n rows, float64 (n,) each → scores and margins."""

    @abstractmethod
    def said(self, number: float) -> str:
        """The answer that a number stands for, as the judge would have written it."""


class Yes(Reading):
    """Log-odds of yes against no at the first place of the answer, over all single-token spellings.

    The number is z_yes − z_no, where z is the logsumexp over the spellings of a word; the mass is the
    probability of both words. The score is the logistic function of the number; with the formula "p_yes" it
    is the probability of yes among all tokens, as VQAScore (Lin et al. 2024) has it.
    """

    question = (
        'Here is a caption of this photo: "{caption}"\n'
        "Does the caption describe the photo correctly? Answer yes or no."
    )
    formulas: ClassVar[tuple[str, ...]] = ("ratio", "p_yes")
    takes_answers = True
    is_exact: ClassVar[bool] = False  # whether only the words as they are written count

    @property
    def ranks_by_margin(self) -> bool:
        return self.formula != "p_yes"  # the log-odds of yes against no are those of another score

    def bind(self, prompter: Prompter, prompt: Prompt) -> None:
        self.spellings = [prompter.spellings(word, self.is_exact) for word in self.words]
        for word, ids in zip(self.words, self.spellings, strict=True):
            if not ids:
                lacking = f"{prompter.name} has no token for {word!r}; try other "
                raise BackboneUnavailable(lacking, Setting("answers"))
        if set(self.spellings[0]) & set(self.spellings[1]):
            same = f": {prompter.name} has one token for both words"
            raise InputError(Setting("answers", self.read_answers), same)

    def read(self, n: int, run: Run) -> np.ndarray:
        logits = run([()] * n)[:, 0]
        whole = logits.logsumexp(dim=1)
        yes, no = (logits[:, ids].logsumexp(dim=1) for ids in self.spellings)
        mass = ((yes - whole).exp() + (no - whole).exp()).clamp(max=1)
        return np.stack([(yes - no).cpu().numpy(), mass.cpu().numpy()], axis=1)

    def scores(self, numbers: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = np.exp(log_logistic(numbers))
        if self.formula == "p_yes":
            scores *= mass
        return scores, numbers

    def said(self, number: float) -> str:
        yes, no = self.words
        return yes if number > 0 else no


class Match(Yes):
    """The same for a reranker under its own prompt, or the log-odds that a head for matching gives."""

    # the layout of Qwen3-VL-Reranker
    question = (
        "<Instruct>: Given a caption, find the photo that it describes.<Query>:{caption}\n<Document>:{photo}"
    )
    system = (
        "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
        'Note that the answer can only be "yes" or "no".'
    )
    formulas = ()
    reads_heads = True
    is_exact = True


class Grade(Reading):
    """Expected grade from 0.0 to 1.0, over the digits that the model might say (FLEUR, Lee et al. 2024).

    p(1) + p(0) · (Σ d·q₁(d)/10 + Σ d·q₂(d)/100): p over 0 and 1 at the first place, q₁ over ten digits after
    "0.", q₂ after "0." and the likeliest digit of q₁. All three are renormalised over digits. The mass is the
    product of the three probabilities that a digit is said.
    """

    question = (
        'Here is a caption of this photo: "{caption}"\n'
        "How well does the caption describe the photo? Give a grade from 0.0, which means that it describes "
        "another photo, to 1.0, which means that it is correct and complete. Answer with the number alone."
    )
    begins_answer = True
    passes = 2
    read_answers = "digits"

    def bind(self, prompter: Prompter, prompt: Prompt) -> None:
        spelled = [prompter.natural_ids(prompt, f"0.{digit}{digit}") for digit in range(10)]
        one = prompter.natural_ids(prompt, "1.00")
        self.lead = len(spelled[0]) - 4  # some tokenizers put a token before a number
        self.begun, places = spelled[0][:-2], slice(self.lead + 1, None)
        self.digits = [ids[-1] for ids in spelled if ids]
        has_digits = self.lead >= 0 and all(ids[:-2] == self.begun and ids[-2] == ids[-1] for ids in spelled)
        if not has_digits or len(set(self.digits)) < 10 or one[places] != spelled[0][places]:
            raise BackboneUnavailable(
                f"the tokenizer of {prompter.name} has no single token for each digit, "
                "so no expectation over digits can be read: use ",
                Setting("reading", "yes"),
            )
        self.integers = [spelled[0][self.lead], one[self.lead]]

    def read(self, n: int, run: Run) -> np.ndarray:
        first = run([self.begun] * n)
        integer, mass = among(first[:, self.lead], self.integers)
        tenths, mass_of_tenths = among(first[:, -1], self.digits)
        begun = [[*self.begun, self.digits[digit]] for digit in tenths.argmax(axis=1)]
        hundredths, mass_of_hundredths = among(run(begun)[:, -1], self.digits)
        below_one = tenths @ np.arange(10) / 10 + hundredths @ np.arange(10) / 100
        grade = integer[:, 1] + integer[:, 0] * below_one
        return np.stack([grade, mass * mass_of_tenths * mass_of_hundredths], axis=1)

    def scores(self, numbers: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            margins = np.log(numbers) - np.log1p(-numbers)
        return numbers, np.nan_to_num(margins, posinf=_BOUND, neginf=-_BOUND)

    def said(self, number: float) -> str:
        return f"{number:.2f}"


def among(logits: torch.Tensor, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
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
