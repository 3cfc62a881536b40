"""A vision–language model as a metric: it is asked whether a caption describes its photo.

In: captions with photos, in any language that the model reads, with references and text around the photo if
there are any. Out: one score per row, from the logits of one forward pass. `yes` follows VQAScore (Lin et al.
2024), `grade` FLEUR (Lee et al. 2024, section 3.2), with the differences that their classes in
`capscore.judges.readings` state.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from .. import __version__
from ..backbones.base import DTYPES, fingerprint_of
from ..errors import InputError, OptionError, Setting
from ..files.columns import is_missing
from ..images.load import DECODING
from .base import Scorer
from .rows import ExtraColumn, InputRows, Measured, PreparedRows, is_empty, row_settings, text_problem
from .scores import Scores

if TYPE_CHECKING:
    from ..judges.asker import Asker
    from ..judges.prompts import Prompt, Turn
    from ..text.suspicious import OddRows

_LOG = logging.getLogger(__name__)
MAX_PIXELS = 602_112  # 768 tokens of Qwen2.5-VL
QUESTIONS = {
    "yes": (
        'Here is a caption of this photo: "{caption}"\n'
        "Does the caption describe the photo correctly? Answer yes or no."
    ),
    "grade": (
        'Here is a caption of this photo: "{caption}"\n'
        "How well does the caption describe the photo? Give a grade from 0.0, which means that it describes "
        "another photo, to 1.0, which means that it is correct and complete. Answer with the number alone."
    ),
    # the layout of Qwen3-VL-Reranker
    "match": (
        "<Instruct>: Given a caption, find the photo that it describes.<Query>:{caption}\n<Document>:{photo}"
    ),
}
RERANKER = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
WHY = (
    "In one or two sentences, say which words of the caption do not fit the photo, and which important part "
    "of the photo the caption leaves out. If nothing is wrong, say so. Write in the language of the caption."
)
LOW_MASS = 0.5


class Judge(Scorer):
    """The probability that a vision–language model finds a caption right, in [0, 1].

    Components: "margin", the log-odds of the score, on which rows are ranked, since scores near 0 and 1 are
    hard to tell apart; "mass", the probability that the model answers in the asked way at all.

    With `explain`, `details` have "reason": what the model says is wrong, in the language of the caption. The
    score does not depend on it.

    Args:
        asker: What asks the model.
        reading: Answer that is read: "yes" (default), "grade" or "match". "yes": log-odds of yes against no
            where the answer begins. "grade": expectation over the digits of a grade from 0.0 to 1.0. "match":
            the head of BLIP and BLIP-2 for image–text matching, or a reranker's yes and no under its own
            prompt.
        formula: Formula of the reading "yes": "ratio" (default) for yes against no; "p_yes" for the
            probability of yes among all tokens, as VQAScore has it.
        question: Question with {caption} where the caption goes, and {photo} where the photo goes if it does
            not come first. Default: one in plain English.
        instruction: Text of a system turn before the question. Default: none.
        answers: The two words that are read, yes first, such as ja/nein. Default: yes/no.
        with_references: Whether references of the rows join the question; in Python, giving them is enough.
        explain: Whether the model is asked what is wrong, which takes about as long as a hundred scores.
        max_pixels: Number of pixels to which larger photos are scaled down; 0 for no limit. Default: 602112.
        common: Options of `Scorer`.
    """

    metric = "judge"
    title = "Judge"
    citation: ClassVar[tuple[str, ...]] = ("lin-etal-2024-vqascore", "lee-etal-2024-fleur")
    score_range = (0, 1)
    default_backbone = "Qwen/Qwen3-VL-4B-Instruct"
    takes_backbone = True
    backbone_variable = "CAPSCORE_JUDGE"
    refused_options = ("image_tower",)
    component_names = ("margin", "mass")
    ranked_by = "margin"
    needs_images = True
    takes_references = True
    detail_names = ("reason",)
    detail_columns: ClassVar[Mapping[str, type]] = {"reason": str}
    value_names = ("number", "mass", "context")
    signed_values = ("context",)
    extra_columns = (ExtraColumn("context", "texts", "string", "Text around the photo", from_files=True),)
    kin: ClassVar[Mapping[str, str]] = {
        "fleur": "FLEUR",
        "ref_fleur": "RefFLEUR",
        "expert": "EXPERT",
        "discode": "DISCODE",
        "vc_inspector": "VC-Inspector",
    }
    explaining: ClassVar[Mapping[str, object]] = {"explain": True}
    about_scores = (
        "What a vision–language model says of each caption. The score is from 0 to 1, the margin is its "
        "log-odds, and the mass is the probability that the model answers as asked. The reason was asked for "
        "afterwards; the score does not depend on it."
    )

    @classmethod
    def reason(cls, detail: Mapping[str, Any]) -> str:
        return " ".join(detail.get("reason", "").split())

    @classmethod
    def doubt(cls, components: Mapping[str, float]) -> str:
        if components["mass"] >= LOW_MASS:
            return ""
        return "The model would rather say something else than answer: this score means nothing."

    def __init__(
        self,
        asker: Asker,
        *,
        reading: Literal["yes", "grade", "match"] = "yes",
        formula: Literal["ratio", "p_yes"] = "ratio",
        question: str | None = None,
        instruction: str = "",
        answers: str = "yes/no",
        with_references: bool = False,
        explain: bool = False,
        max_pixels: int = MAX_PIXELS,
        **common: Any,
    ):
        super().__init__(**common)
        words = {"question": question, "instruction": instruction, "answers": answers}
        self.check({**words, "reading": reading, "formula": formula, "max_pixels": max_pixels})
        from ..judges.matching import Matcher
        from ..judges.model import BOTH_WAYS
        from ..judges.readings import two_words

        self.asker, self.model = asker, cast(Any, asker.model)
        self.reading, self.formula, self.explain = reading, formula, explain
        self.question = QUESTIONS[reading] if question is None else question
        self.instruction = instruction
        self.answers, self.max_pixels = "/".join(two_words(answers)), max_pixels
        self.needs_references = with_references  # type: ignore[misc]
        if not explain:
            self.detail_columns = {}  # type: ignore[misc]
        if formula == "p_yes":  # the log-odds of yes against no are those of another score
            self.ranked_by = ""  # type: ignore[misc]
        self.matches = isinstance(self.model, Matcher)
        if self.matches:  # it sees a photo and a caption, and says nothing
            self.takes_references, self.extra_columns = False, ()  # type: ignore[misc, assignment]
            needed = {"reading": "match", "question": None, "instruction": "", "answers": "yes/no"}
            stated = {**words, "reading": reading, "explain": explain}
            for name, value in {**needed, "explain": False}.items():
                if stated[name] != value:
                    only = f": {self.model.name} has only a head for matching, which takes "
                    raise OptionError(
                        Setting(name, stated[name]), only, Setting("reading", "match"), " and no words"
                    )
        elif self.model.family in BOTH_WAYS:
            why = f": {self.model.family} reads a prompt both ways, and has no turns"
            begun = reading if reading == "grade" else ""
            for name, asked in {"reading": begun, "instruction": instruction, "explain": explain}.items():
                if asked:
                    raise OptionError(Setting(name, asked), why)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        from ..judges.prompts import check_turn
        from ..judges.readings import two_words

        if options.get("question") is not None:
            check_turn("question", options["question"], needs_caption=True)
        check_turn("instruction", options.get("instruction", ""), needs_caption=False)
        words = two_words(options.get("answers", "yes/no"))
        if options.get("reading") == "grade" and words != ["yes", "no"]:
            raise OptionError(Setting("answers", options["answers"]), " does not go with a grade")
        if options.get("formula", "ratio") != "ratio" and options.get("reading", "yes") != "yes":
            raise OptionError(
                Setting("formula", options["formula"]), " goes with ", Setting("reading", "yes")
            )
        pixels = options.get("max_pixels", 0)
        if isinstance(pixels, bool) or not isinstance(pixels, int) or pixels < 0:
            raise InputError(Setting("max_pixels", pixels), ": expected a whole number, 0 for no limit")

    @classmethod
    def open_backbone(cls, spec: Any, options: Mapping[str, Any]) -> Asker:
        from ..embedding.cache import resolve_cache
        from ..judges.asker import Asker
        from ..judges.model import load_judge

        of_model = {name: options.get(name) for name in ("device", "dtype", "revision", "batch_size")}
        others = {name: options[name] for name in _OF_ASKER if name in options}
        model: Any = load_judge(spec, **of_model)
        _LOG.info("loaded %s@%s on %s, %s", model.name, model.revision, model.device, model.dtype)
        return Asker(model, cache=resolve_cache(options.get("cache")), **others)

    @property
    def backbone(self) -> Any:
        """The model, with its `name` and `revision`."""
        return self.model

    @property
    def settings(self) -> dict[str, object]:
        """The settings of the signature that do not depend on rows, in its order."""
        asked = "\x1f".join((self.instruction, self.question, self.answers))
        spelled = (
            {}
            if self.matches
            else {
                "template": self.model.prompter.digest,
                "question": hashlib.sha256(asked.encode()).hexdigest()[:8],
                "answers": self.answers if self.reading != "grade" else "digits",
            }
        )
        return {
            "backbone": f"{self.model.name}@{self.model.revision}",
            "reading": self.reading,
            **({"formula": self.formula} if self.reading == "yes" else {}),
            **spelled,
            "pixels": self.max_pixels or "all",
            "dtype": DTYPES[self.model.dtype],
            "version": __version__,
        }

    def measure(self, rows: InputRows, on_error: str) -> Measured:
        prompts = self._prompts(rows)
        for row, error in self.model.check_lengths([*prompts.items()]).items():
            rows.failures[row] = error.at(row)
            del prompts[row]
        if rows.failures and on_error == "raise":
            raise rows.failures[min(rows.failures)]
        numbers, keys, failures = self.asker.ask(
            rows.images,
            [*prompts.items()],
            self._reading(prompts),
            fingerprint=fingerprint_of(*self.settings.values(), DECODING),
            max_pixels=self.max_pixels,
            on_error=on_error,
        )
        rows.failures.update(failures)
        number, mass = numbers[[row not in failures for row in prompts]].astype(np.float64).T
        kept = [row for row in prompts if row not in failures]
        details = self._reasons(rows, kept, prompts, number) if self.explain else None
        context = np.array([bool(prompts[row].data["context"]) for row in kept], dtype=np.float64)
        values = {"number": number, "mass": mass, "context": context}
        return Measured(values, keys, np.zeros(len(rows), dtype=bool), details)

    def finish(self, rows: PreparedRows) -> Scores:
        number, mass, context = (rows.values[name][rows.kept] for name in self.value_names)
        if self.reading == "grade":
            scores = number
            with np.errstate(divide="ignore"):
                margin = np.log(number) - np.log1p(-number)
            margin = np.nan_to_num(margin, posinf=_BOUND, neginf=-_BOUND)
        else:
            scores, margin = np.exp(-np.logaddexp(0, -number)), number
            if self.formula == "p_yes":
                scores = scores * mass
        around = {"context": "yes" if context.all() else "var"} if context.any() else {}
        settings = {**self.settings, **around, **row_settings(rows)}
        settings["version"] = settings.pop("version")
        return self.make_scores(rows, scores, {"margin": margin, "mass": mass}, settings)

    def _prompts(self, rows: InputRows) -> dict[int, Prompt]:
        """What is asked about the photo of each row."""
        from ..judges.prompts import Prompt, named_turns, row_data

        n_rows, found = len(rows), {}
        contexts, references = rows.extra.get("context") or [""] * n_rows, rows.references or [[]] * n_rows
        instruction = self.instruction or (RERANKER if self.reading == "match" else "")
        for row in np.flatnonzero(rows.kept()).tolist():
            context = contexts[row]
            if is_missing(context) or is_empty(context):
                context = ""
            elif problem := text_problem(context):
                rows.failures[row] = InputError(f"expected text, got {problem}", field="context").at(row)
                continue
            turns = named_turns(self.question, len(references[row]), bool(context), instruction)
            found[row] = Prompt(turns, row_data(rows.candidates[row], references[row], context))
        return found

    def _reading(self, prompts: Mapping[int, Prompt]) -> Any:
        """What gives number and mass of prompts about photos."""
        from ..judges.readings import Grade, YesOrNo

        if self.matches or not prompts:
            return None
        if self.reading == "grade":
            return Grade(self.model.prompter, next(iter(prompts.values())))
        return YesOrNo(self.model.prompter, self.answers, exact=self.reading == "match")

    def _reasons(
        self, rows: InputRows, kept: list[int], prompts: Mapping[int, Prompt], numbers: np.ndarray
    ) -> list[dict[str, str]]:
        """What the model says is wrong with each kept row, in a second turn."""
        from ..judges.prompts import Prompt

        yes, no = self.answers.split("/")
        asked = {}
        for row, number in zip(kept, numbers, strict=True):
            answer = f"{number:.2f}" if self.reading == "grade" else (yes if number > 0 else no)
            first = prompts[row]
            turns: tuple[Turn, ...] = (*first.turns, ("assistant", "{answer}"), ("user", WHY))
            asked[row] = Prompt(turns, {**first.data, "answer": answer})
        texts = self.asker.texts(rows.images, asked, self.max_pixels)
        return [{"reason": texts[row]} for row in kept]

    def count_odd(self, rows: PreparedRows, odd: OddRows, start: int = 0) -> OddRows:
        for row in np.flatnonzero(rows.values["mass"] < LOW_MASS).tolist():
            odd.count("mass", start + row)
        return odd


_OF_ASKER = ("allow_urls", "allow_private_urls", "progress")
_BOUND = 40.0  # of the margin of a grade of exactly 0 or 1
