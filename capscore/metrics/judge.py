"""A vision–language model as a metric: it is asked whether a caption describes its photo.

In: captions with photos, in any language that the model reads, with references and text around the photo if
there are any. Out: one score per row, from the logits of one forward pass. `yes` follows VQAScore (Lin et al.
2024), `grade` FLEUR (Lee et al. 2024, section 3.2), with the differences that their classes in
`capscore.judges.readings` state.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .. import __version__
from ..backbones.base import fingerprint_of
from ..errors import InputError, OptionError, RowWarning, Setting, warn
from ..files.columns import is_missing
from ..images.load import DECODING
from ..options import check_whole_number
from ..registry import READINGS
from ..text.suspicious import is_empty, text_problem
from .base import Scorer
from .rows import RIVAL, ExtraColumn, InputRows, PreparedRows, empty_caption, row_settings
from .scores import Detail, Scores, WrongWord

if TYPE_CHECKING:
    from ..judges.asker import Asker
    from ..judges.base import PhotoModel
    from ..judges.listing import Split
    from ..judges.prompts import Prompt
    from ..judges.readings import Reading

_LOG = logging.getLogger(__name__)
MAX_PIXELS = 602_112  # 768 tokens of Qwen2.5-VL
PATCH_PIXELS = 28 * 28  # one token of Qwen2.5-VL
WHY = (
    "In one or two sentences, say which words of the caption do not fit the photo, and which important part "
    "of the photo the caption leaves out. If nothing is wrong, say so. Write in the language of the caption."
)
LOW_MASS = 0.5
TIE_BAND = 0.05  # of the probability of a win, around 0.5


class Judge(Scorer):
    """The probability that a vision–language model finds a caption right, in [0, 1].

    Components: "margin", the log-odds of the score, on which rows are ranked, since scores near 0 and 1 are
    hard to tell apart; "mass", the probability that the model answers in the asked way at all.

    With `explain`, `details` have "reason": what the model says is wrong, in the language of the caption. The
    score does not depend on it. With reading="statements", they have "claims", each with its place in the
    caption and "p", the probability that it is true, and "false_claims", those with p below 0.5; with
    claims_by="model" also "claims_by", "model" or "rules" where it listed none, and "dropped", what it listed
    that shares no word with the caption. A warning counts both.

    Args:
        asker: What asks the model.
        reading: Answer that is read: "yes" (default), "grade", "match", "battle", "statements", or a reading
            of another package. "yes": log-odds of yes against no where the answer begins. "grade":
            expectation over the digits of a grade from 0.0 to 1.0. "match": the head of BLIP and BLIP-2 for
            image–text matching, or a reranker's yes and no under its own prompt. "battle": probability that a
            caption is better than the one in the column `rival`, the mean of both orders. "statements": mean
            probability that a claim of the caption is true, sentence by sentence and clause by clause.
        formula: Formula of the reading "yes": "ratio" (default) for yes against no; "p_yes" for the
            probability of yes among all tokens, as VQAScore has it.
        question: Question with {caption} where the caption goes, {photo} where the photo goes if it does not
            come first, and in a battle {rival} where the rival goes. Default: one in plain English.
        instruction: Text of a system turn before the question. Default: none.
        answers: The two words that are read, yes first, such as ja/nein; in a battle the numbers of the
            captions, such as A/B. Default: yes/no, in a battle 1/2.
        with_references: Whether references of the rows join the question; in Python, giving them is enough.
        explain: Whether the model is asked what is wrong, which takes about as long as a hundred scores; of
            "statements", the false claims say it.
        claims_by: What splits a caption into claims, for reading="statements": "rules" (default); "model"
            lets the model itself list them, which takes longer than `explain`.
        max_pixels: Number of pixels to which larger photos are scaled down; 0 for no limit. Default: 602112.
        common: Options of `Scorer`.
    """

    metric = "judge"
    title = "Judge"
    citation: ClassVar[tuple[str, ...]] = ("lin-etal-2024-vqascore", "lee-etal-2024-fleur")
    score_range = (0, 1)
    default_backbone = "Qwen/Qwen3-VL-4B-Instruct"
    takes_backbone = True
    takes_servers = True
    backbone_variable = "CAPSCORE_JUDGE"
    refused_options = ("image_tower",)
    component_names = ("margin", "mass")
    ranked_by = "margin"
    needs_images = True
    takes_references = True
    detail_names = ("reason",)
    detail_columns: ClassVar[Mapping[str, type]] = {"reason": str}
    signed_values = ("context",)
    extra_columns = (
        ExtraColumn("context", "texts", "string", "Text around the photo", from_files=True),
        ExtraColumn(RIVAL, "captions", "string", 'Other captions, for reading="battle"', from_files=True),
    )
    kin: ClassVar[Mapping[str, str]] = {
        "fleur": "FLEUR",
        "ref_fleur": "RefFLEUR",
        "expert": "EXPERT",
        "discode": "DISCODE",
        "vc_inspector": "VC-Inspector",
    }
    explaining: ClassVar[Mapping[str, object]] = {"explain": True}
    battling: ClassVar[Mapping[str, object]] = {"reading": "battle"}
    about_scores = (
        "What a vision–language model says of each caption. The score is from 0 to 1, the margin is its "
        "log-odds, and the mass is the probability that the model answers as asked. What is marked is "
        "likelier false than true. A reason was asked for afterwards; the score does not depend on it."
    )

    @classmethod
    def reason(cls, detail: Detail) -> str:
        return " ".join(detail.get("reason", "").split())

    @classmethod
    def wrong_words(cls, detail: Detail) -> list[WrongWord]:
        """The claims that are likelier false than true, of a reading that asks about claims."""
        wrong = [claim for claim in detail.get("claims", ()) if claim["p"] < 0.5]
        return [(claim["start"], claim["end"], claim["text"]) for claim in wrong]

    @classmethod
    def found(cls, detail: Detail, *, brief: bool = False) -> str:
        """The claims that are likelier false than true."""
        claims = "; ".join(text for _, _, text in cls.wrong_words(detail))
        return f"{'false' if brief else 'likely false'}: {claims}" if claims else ""

    @classmethod
    def doubt(cls, components: Mapping[str, float]) -> str:
        if components["mass"] >= LOW_MASS:
            return ""
        return "The model would rather say something else than answer: this score means nothing."

    def __init__(
        self,
        asker: Asker,
        *,
        reading: str = "yes",
        formula: Literal["ratio", "p_yes"] = "ratio",
        question: str | None = None,
        instruction: str = "",
        answers: str = "yes/no",
        with_references: bool = False,
        explain: bool = False,
        claims_by: Literal["rules", "model"] = "rules",
        max_pixels: int = MAX_PIXELS,
        **common: Any,
    ):
        super().__init__(**common)
        words = {"question": question, "instruction": instruction, "answers": answers}
        checked = {
            **words,
            "reading": reading,
            "formula": formula,
            "explain": explain,
            "claims_by": claims_by,
        }
        self.check({**checked, "max_pixels": max_pixels})
        self.asker, self.model = asker, asker.model
        self.reading_name, self.max_pixels, self.explain = reading, max_pixels, explain
        if 0 < max_pixels < PATCH_PIXELS:
            problem = f" leaves less of a photo than the {PATCH_PIXELS} pixels of one patch: it shows nothing"
            warn(RowWarning(Setting("max_pixels", max_pixels), problem))
        self.reading: Reading = READINGS.get(reading)(**words, formula=formula, claims_by=claims_by)
        stated = {**words, "explain": explain, "claims_by": claims_by}
        if not self.model.fits(self.reading):
            raise OptionError(Setting("reading", reading), *self.model.limits())
        for name in self.model.refused_options:
            if stated[name] != _DEFAULTS[name]:
                raise OptionError(Setting(name, stated[name]), *self.model.limits())
        changed: dict[str, object] = {"needs_references": with_references}
        if not explain:
            changed["detail_columns"] = {}
        if not self.reading.ranks_by_margin:
            changed["ranked_by"] = ""
        self._of_model = self.model.value_names[2:]  # such as what lies outside a server's likeliest tokens
        self._joined: tuple[str, ...] = self.reading.more_components
        if with_references:
            self._joined = (*self._joined, *self.reading.reference_components)
        if more := (*self._joined, *self._of_model):
            changed["component_names"] = (*self.component_names, *more)
        if self.reading.detail_columns:
            changed["detail_names"] = (*self.reading.detail_names, *(_OF_SPLIT if self._lists else ()))
            changed["detail_columns"] = self.reading.detail_columns
        if self.compares_candidates:
            changed["tie_band"] = TIE_BAND
        else:
            changed["extra_columns"] = tuple(item for item in self.extra_columns if item.name != RIVAL)
        if self.model.prompter is None:  # it sees a photo and a caption alone
            changed |= {"takes_references": False, "extra_columns": ()}
        self.set_own(**changed)
        if self.model.prompter is not None:
            self.reading.bind(self.model.prompter, self.reading.prompts("", (), "")[0])

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        reading = options.get("reading", "yes")
        READINGS.get(reading).check({**options, "reading": reading})
        if options.get("explain") and READINGS.get(reading).has_rival:
            raise OptionError(Setting("explain", True), " does not go with ", Setting("reading", reading))
        check_whole_number("max_pixels", options.get("max_pixels", 0), 0)

    @classmethod
    def open_backbone(cls, spec: Any, options: Mapping[str, Any]) -> Asker:
        from ..embedding.cache import resolve_cache
        from ..judges.asker import Asker
        from ..judges.model import load_judge
        from ..judges.server import is_address, open_server

        others = {name: options[name] for name in _OF_ASKER if name in options}
        if is_address(spec):
            return Asker(open_server(spec, options), cache=resolve_cache(options.get("cache")), **others)
        for name in ("model", "top_logprobs"):
            if options.get(name) is not None:
                address = Setting("backbone", "http://127.0.0.1:8000/v1")
                raise OptionError(Setting(name, options[name]), " goes with a server, such as ", address)
        of_model = {name: options.get(name) for name in ("device", "dtype", "revision", "batch_size")}
        model = load_judge(spec, **of_model)
        _LOG.info("loaded %s@%s on %s, %s", model.name, model.revision, model.device, model.dtype)
        return Asker(model, cache=resolve_cache(options.get("cache")), **others)

    @property
    def backbone(self) -> PhotoModel[Any]:
        """The model, with its `name` and `revision`."""
        return self.model

    @classmethod
    def battles(cls, options: Mapping[str, Any]) -> bool:
        return bool(READINGS.get(options.get("reading", "yes")).has_rival)

    @property
    def compares_candidates(self) -> bool:
        return self.reading.has_rival

    @property
    def value_names(self) -> tuple[str, ...]:
        more: tuple[str, ...] = ()
        if self.compares_candidates:
            more = ("walkover",)
        elif self._lists:
            more = ("unlisted", "dropped")
        return "number", "mass", "context", *self._joined, *self._of_model, *more

    @property
    def _lists(self) -> bool:
        """Whether the model itself lists the claims of a caption."""
        return self.reading.claims_by == "model"

    @property
    def settings(self) -> dict[str, object]:
        reading = self.reading
        settings: dict[str, object] = {
            "backbone": f"{self.model.name}@{self.model.revision}",
            "reading": self.reading_name,
        }
        if reading.formulas:
            settings["formula"] = reading.formula
        texts = [reading.instruction, reading.question, "/".join(reading.words)]
        if self._lists:
            from ..judges.listing import LIST

            settings["claims"] = reading.claims_by
            texts.append(LIST)
        if self.model.prompter is not None:
            asked = "\x1f".join(texts)
            settings["template"] = self.model.prompter.digest
            settings["question"] = hashlib.sha256(asked.encode()).hexdigest()[:8]
            settings["answers"] = reading.read_answers
        settings.update(pixels=self.max_pixels or "all", **self.model.settings, version=__version__)
        return settings

    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        contexts, rivals = self._contexts(rows), self._rivals(rows)
        splits = self._splits(rows, on_error)
        questions = self._questions(rows, contexts, rivals, splits)
        self._check_lengths(questions, rows, on_error)
        questions = [(row, prompt) for row, prompt in questions if row not in rows.failures]
        answers = self.asker.ask(
            rows.images,
            questions,
            self.reading,
            fingerprint=self._fingerprint(DECODING),
            max_pixels=self.max_pixels,
            on_error=on_error,
        )
        rows.failures.update(answers.failures)
        of_row: dict[int, list[np.ndarray]] = {}
        asked: dict[int, list[Prompt]] = {}
        for (row, prompt), numbers in zip(questions, answers.numbers, strict=True):
            if row not in answers.failures:
                of_row.setdefault(row, []).append(numbers)
                asked.setdefault(row, []).append(prompt)
        names = ("number", "mass", *self._joined)
        joined, details = [], []
        for row, numbers in of_row.items():
            pairs = np.array(numbers)[:, :2]
            joined.append(self.reading.joined(pairs, asked[row]))
            if self.reading.detail_columns:
                more = {} if splits is None else {"splits": splits}
                details.append(self.reading.details(rows.candidates[row], pairs, **more))
        values = dict(zip(names, np.array(joined, np.float64).reshape(-1, len(names)).T, strict=True))
        values["context"] = np.array([bool(contexts[row]) for row in of_row], np.float64)
        if self.compares_candidates:
            values["walkover"] = np.array([rivals[row] == "" for row in of_row], np.float64)
        if splits is not None:
            of_rows = [splits[rows.candidates[row]] for row in of_row]
            values["unlisted"] = np.array([not split.is_listed for split in of_rows], np.float64)
            values["dropped"] = np.array([len(split.dropped) for split in of_rows], np.float64)
        for column, name in enumerate(self._of_model, 2):
            largest = [np.max(numbers, axis=0)[column] for numbers in of_row.values()]
            values[name] = np.array(largest, np.float64)
        rows.image_keys = answers.keys
        if self.reading.detail_columns:
            rows.details = details
        elif self.explain:
            numbers_of = dict(zip(of_row, values["number"].tolist(), strict=True))
            rows.details = self._reasons(rows, questions, numbers_of)
        return values

    def finish(self, rows: PreparedRows) -> Scores:
        values = {name: rows.values[name][rows.kept] for name in self.value_names}
        scores, margin = self.reading.scores(values["number"], values["mass"])
        settings = self.settings
        version = settings.pop("version")
        if values["context"].any():
            settings["context"] = "yes" if values["context"].all() else "var"
        settings |= row_settings(rows)
        walkover = rows.values.get("walkover", np.zeros(len(rows))) == 1
        if walkover.any():
            settings["empty"] = rows.empty_as
            if rows.empty_as == "worst":
                # a caption wins against one that says nothing; of two that do, none does
                scores = np.where(walkover[rows.kept] & ~rows.empty[rows.kept], 1.0, scores)
                rows = replace(rows, empty=rows.empty & ~walkover)
        settings["version"] = version
        components = {"margin": margin, "mass": values["mass"]}
        components |= {name: values[name] for name in (*self._joined, *self._of_model)}
        return self.make_scores(rows, scores, components, settings)

    def varied_settings(self, rows: PreparedRows) -> dict[str, list[str]]:
        return {"context": ["yes" if shown else "none" for shown in np.nan_to_num(rows.values["context"])]}

    def _contexts(self, rows: InputRows) -> list[str]:
        """The text around the photo of each row, "" for none; a bad one is a failure of its row."""
        contexts = [*rows.extra.get("context", [""] * len(rows))]
        for row in np.flatnonzero(rows.kept()).tolist():
            if is_missing(contexts[row]) or is_empty(contexts[row]):
                contexts[row] = ""
            elif problem := text_problem(contexts[row]):
                rows.failures[row] = InputError(f"expected text, got {problem}", field="context").at(row)
        return contexts

    def _rivals(self, rows: InputRows) -> list[str]:
        """The captions that candidates are compared with, "" for an empty one; a bad one fails its row."""
        if not self.compares_candidates:
            return [""] * len(rows)
        if RIVAL not in rows.extra:
            reading = Setting("reading", self.reading_name)
            raise OptionError(reading, f" compares each caption with another: give a column {RIVAL!r}")
        rivals = rows.extra[RIVAL]
        for row in np.flatnonzero(rows.kept()).tolist():
            if is_empty(rivals[row]):
                if self.empty == "raise":
                    raise InputError(*empty_caption(rivals[row]).parts, field=RIVAL).at(row)
                rivals[row], rows.empty[row] = "", rows.empty[row] or rows.skips_empty
            elif problem := text_problem(rivals[row]):
                rows.failures[row] = InputError(f"expected a caption, got {problem}", field=RIVAL).at(row)
        return rivals

    def _fingerprint(self, *more: object) -> str:
        """Digest of everything that an answer depends on besides photo and question."""
        return fingerprint_of(*self.settings.values(), *self.model.identity, *more)

    def _check_lengths(self, asked: Sequence[tuple[int, Prompt]], rows: InputRows, on_error: str) -> None:
        """Make rows whose questions are too long to be read failures, or raise the first failure."""
        for row, error in self.model.check_lengths(asked).items():
            rows.failures[row] = error.at(row)
        if rows.failures and on_error == "raise":
            raise rows.failures[min(rows.failures)]

    def _splits(self, rows: InputRows, on_error: str) -> dict[str, Split] | None:
        """Candidate or reference → the claims that the model lists of it; None if it is not asked."""
        from ..judges.listing import LIST, MAX_TOKENS, split_by
        from ..judges.prompts import Prompt

        if not self._lists:
            return None
        prompts: dict[str, Prompt] = {}
        texts_of: list[tuple[int, str]] = []
        for row in np.flatnonzero(rows.kept()).tolist():
            texts = [("caption", rows.candidates[row])]
            texts += [("reference_0", text) for text in (rows.references[row] if rows.references else ())]
            for name, text in texts:
                turn = ("user", LIST.replace("{caption}", f"{{{name}}}"))
                prompts.setdefault(text, Prompt((turn,), {name: text}, has_photo=False))
                texts_of.append((row, text))
        self._check_lengths([(row, prompts[text]) for row, text in texts_of], rows, on_error)
        wanted = {text: prompts[text] for row, text in texts_of if row not in rows.failures}
        answers = self.asker.written(wanted, self._fingerprint("list"), MAX_TOKENS)
        return {text: split_by(answer, text) for text, answer in answers.items()}

    def _questions(
        self,
        rows: InputRows,
        contexts: Sequence[str],
        rivals: Sequence[str],
        splits: Mapping[str, Split] | None,
    ) -> list[tuple[int, Prompt]]:
        references = rows.references or [[]] * len(rows)
        questions: list[tuple[int, Prompt]] = []
        for row in np.flatnonzero(rows.kept()).tolist():
            more: dict[str, Any] = {}
            if self.compares_candidates:
                more["rival"] = rivals[row]
            elif splits is not None:
                more["splits"] = splits
            prompts = self.reading.prompts(rows.candidates[row], references[row], contexts[row], **more)
            questions += [(row, prompt) for prompt in prompts]
        return questions

    def _reasons(
        self, rows: InputRows, questions: Sequence[tuple[int, Prompt]], numbers: Mapping[int, float]
    ) -> list[dict[str, str]]:
        """What the model says is wrong with each kept row, in a second turn after its first question."""
        asked: dict[int, Prompt] = {}
        for row, prompt in questions:
            if row in numbers and row not in asked:
                asked[row] = prompt.continued(self.reading.said(numbers[row]), WHY)
        texts = self.asker.texts(rows.images, asked, self.max_pixels)
        return [{"reason": texts[row]} for row in numbers]

    def odd_rows(self, rows: PreparedRows) -> dict[str, list[int]]:
        found = super().odd_rows(rows) | {"mass": np.flatnonzero(rows.values["mass"] < LOW_MASS).tolist()}
        if self._lists:
            for name in ("unlisted", "dropped"):
                found[name] = np.flatnonzero(rows.values[name] > 0).tolist()
        return found


_OF_ASKER = ("allow_urls", "allow_private_urls", "progress")
_OF_SPLIT = ("claims_by", "dropped")
_DEFAULTS = {"question": None, "instruction": "", "answers": "yes/no", "explain": False, "claims_by": "rules"}
