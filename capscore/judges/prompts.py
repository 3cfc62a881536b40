"""What a judge reads: one photo, and turns of text in which captions are data, as token ids.

A chat template is rendered once, with marks where data go. A caption that holds markers of the template,
such as the end of a turn or the place of a photo, is cut inside each of them before it is tokenised. So it
stays text: it can neither close the turn nor add a photo.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Any

from ..backbones.checkpoint import in_one_line
from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting

Turn = tuple[str, str]  # role, and text with names of data in braces

# Names of data in a question, and where one stands in a rendered template
_NAME = re.compile(r"\{(caption|context|answer|reference_\d+)\}")
_MARK = re.compile("\ue000([a-z_0-9]+)\ue001")
# Families that were published with prompts and without a chat template, as Jinja
TEMPLATES = {
    "paligemma": (
        "{% for message in messages %}{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}<image>{% else %}answer en {{ part['text'] }}{% endif %}"
        "{% endfor %}{% endfor %}"
    )
}


@dataclass(frozen=True)
class Prompt:
    """A question about a photo: turns, and the data of one row, by the names that stand in the turns."""

    turns: tuple[Turn, ...]
    data: Mapping[str, str]

    def continued(self, answer: str, question: str) -> Prompt:
        """The prompt after an answer to it, and a further question."""
        turns = (*self.turns, ("assistant", "{answer}"), ("user", question))
        return Prompt(turns, {**self.data, "answer": answer})


def check_turn(name: str, text: str, *, needs_caption: bool) -> None:
    """Raise InputError unless a turn is text, with places for the caption alone, at least one if need be."""
    if not isinstance(text, str) or re.search("[\ud800-\udfff\ue000\ue001]", text):
        raise InputError(Setting(name, text), ": expected text")
    names = {*_NAME.findall(text)}
    if needs_caption and "caption" not in names:
        raise InputError(Setting(name, text), ": expected text with {caption} where the caption goes")
    if others := sorted(names - {"caption"}):
        raise InputError(
            Setting(name, text), f": {{{others[0]}}} has no place of its own, only {{caption}} has"
        )


def named_turns(
    question: str, n_references: int, has_context: bool, instruction: str = ""
) -> tuple[Turn, ...]:
    """The turns of a question, with what else is known of the photo before it.

    >>> named_turns("Is {caption} right?", 1, False)
    (('user', 'People described this photo like this: "{reference_0}"\\n\\nIs {caption} right?'),)
    """
    blocks = ['The photo stands in this text: "{context}"'] if has_context else []
    if n_references:
        listed = ", ".join(f'"{{reference_{number}}}"' for number in range(n_references))
        blocks.append(f"People described this photo like this: {listed}")
    user = ("user", "\n\n".join([*blocks, question]))
    return (("system", instruction), user) if instruction else (user,)


def row_data(caption: str, references: Sequence[str], context: str) -> dict[str, str]:
    """The data of a row, by the names of `named_turns`."""
    numbered = {f"reference_{number}": text for number, text in enumerate(references)}
    return {"caption": caption, "context": context, **numbered}


class Prompter:
    """Turns prompts into token ids, as the model's own processor does.

    Args:
        processor: Processor of a vision–language model, with a tokenizer and an image processor.
        name: Name of the model, for errors.
        model_type: Its family.

    Raises:
        BackboneUnavailable: the processor has no chat template.
    """

    def __init__(self, processor: Any, name: str, model_type: str):
        self.processor, self.name = processor, name
        self.tokenizer: Any = processor.tokenizer
        template = getattr(processor, "chat_template", None) or getattr(self.tokenizer, "chat_template", None)
        if isinstance(template, Mapping):
            template = template.get("default")
        self.template = template or TEMPLATES.get(model_type)
        if not self.template:
            raise BackboneUnavailable(
                f"{name} has no chat template, so nothing says how a question is put to it: use a model that "
                "was tuned on instructions"
            )
        self._render = lru_cache(256)(self._rendered)

    @cached_property
    def digest(self) -> str:
        """Eight hexadecimal digits of the chat template, what it says (some state the day), and settings."""
        said = self._render((("user", "{caption}"),))
        image_settings = self.processor.image_processor.to_dict()
        unstable = ("image_processor_type", "processor_class", "_processor_class", "device", "return_tensors")
        stated = sorted((key, str(value)) for key, value in image_settings.items() if key not in unstable)
        return hashlib.sha256(f"{self.template}{said}{stated}".encode()).hexdigest()[:8]

    def text(self, prompt: Prompt) -> str:
        """The whole prompt as text, before its photo is put in."""
        return "".join(self._parts(prompt))

    def most_tokens(self, prompt: Prompt) -> int:
        """An upper limit of the number of tokens: a byte each, of which NFKC makes at most eleven of one."""
        return 11 * len(self.text(prompt).encode("utf-8", "surrogatepass"))

    def ids(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Token ids of prompts, with one mark where each photo goes, as the tokenizer gives them."""
        pieces = [self._pieces(self._parts(prompt)) for prompt in prompts]
        plain = [row for row, cut in enumerate(pieces) if len(cut) == 1]
        found: list[list[int]] = [[] for _ in prompts]
        if plain:
            texts = [pieces[row][0] for row in plain]
            for row, ids in zip(plain, self._tokenized(texts, self._adds_special(texts[0])), strict=True):
                found[row] = ids
        for row, cut in enumerate(pieces):
            if len(cut) > 1:
                found[row] = self._joined_ids(cut)
        return found

    def photo_inputs(self, image: Any, prompt: Prompt) -> tuple[list[int], dict[str, Any]]:
        """What the processor makes of a photo and a `harmless` prompt: token ids, and all its tensors."""
        text = self.text(prompt)
        # threads share the tokenizer, where padding is a state: Gemma 4's processor would turn it on
        more = {"padding": False, "truncation": False, "add_special_tokens": self._adds_special(text)}
        try:
            made = self.processor(text=[text], images=[[image]], return_tensors="pt", **more)
        except Exception as error:  # such as ValueError, for a template without the place of a photo
            raise BackboneUnavailable(
                f"the processor of {self.name} refuses the photo and its question: {in_one_line(error)}"
            ) from error
        return made["input_ids"][0].tolist(), dict(made)

    def harmless(self, prompt: Prompt) -> Prompt:
        """The same prompt without markers in its data, for measures of the photo alone."""
        data = {name: self.markers.sub("", text) for name, text in prompt.data.items()}
        made = Prompt(prompt.turns, data)
        if len(self._pieces(self._parts(made))) == 1:
            return made
        return Prompt(prompt.turns, dict.fromkeys(data, ""))  # what was left makes markers again

    def natural_ids(self, prompt: Prompt, answer: str) -> list[int]:
        """The token ids of an answer where the model begins to speak.

        After a template that ends in a word, such as "ASSISTANT:", an answer begins with a blank.
        """
        text = self.text(prompt)
        ends_in_word = bool(text) and not self._ends_in_marker(text) and not text[-1].isspace()
        before, after = self._tokenized([text, text + (" " if ends_in_word else "") + answer], False)
        return after[len(before) :] if after[: len(before)] == before else []

    def spellings(self, word: str, exact: bool = False) -> list[int]:
        """Ids of the single tokens that spell a word: in lower case or capitals, with or without a blank."""
        if exact:
            return [ids[0] for ids in self._tokenized([word], False) if len(ids) == 1]
        written = dict.fromkeys(
            form for text in (word, word.lower(), word.capitalize()) for form in (text, f" {text}")
        )
        ids = [ids[0] for ids in self._tokenized([*written], False) if len(ids) == 1]
        # where a blank is put before every text, the forms without one
        vocabulary = self.tokenizer.get_vocab()
        ids += [vocabulary[form] for form in written if form in vocabulary]
        return sorted({*ids} - {self.tokenizer.unk_token_id})

    @cached_property
    def markers(self) -> re.Pattern[str]:
        """What data must not hold in one piece: special tokens, those of the template, the end of a turn."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        rendered = self._render((("user", "{caption}"),))
        own = {*self._tokenized([rendered], False)[0]}
        texts = {str(token) for number, token in added.items() if token.special or number in own}
        texts |= {str(getattr(self.processor, name, "") or "") for name in ("image_token", "boi_token")}
        texts.add(_MARK.split(rendered)[-1].strip())  # such as "ASSISTANT:"
        listed = sorted((text for text in texts if len(text.strip()) > 1), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, listed)) or r"(?!)")

    def _parts(self, prompt: Prompt) -> list[str]:
        """Literal text and data by turns, literal text first and last."""
        parts = _MARK.split(self._render(prompt.turns))
        return [prompt.data[part] if number % 2 else part for number, part in enumerate(parts)]

    def _rendered(self, turns: tuple[Turn, ...]) -> str:
        """Turns as text, with marks where data go; the photo is in the first turn of the user."""
        messages: list[dict[str, Any]] = []
        for role, text in turns:
            before, after, content = "", _NAME.sub("\ue000\\1\ue001", text), []
            if role == "user" and all(message["role"] != "user" for message in messages):
                if "{photo}" in after:
                    before, _, after = after.partition("{photo}")
                content = [{"type": "image"}]
            texts = [[{"type": "text", "text": part}] if part else [] for part in (before, after)]
            messages.append({"role": role, "content": [*texts[0], *content, *texts[1]]})
        try:
            text = self.processor.apply_chat_template(
                messages, chat_template=self.template, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # whatever the template raises
            has_system = turns[0][0] == "system"
            advice = ("; without ", Setting("instruction"), " it may do") if has_system else ()
            raise CapscoreError(
                f"the chat template of {self.name} refuses the question: {error}", *advice
            ) from error
        asked = {name for _, text in turns for name in _NAME.findall(text)}
        if missing := asked - {*_MARK.findall(text)}:
            names = ", ".join(sorted(missing))
            raise BackboneUnavailable(
                f"the chat template of {self.name} leaves out the text of a turn ({names})"
            )
        return text

    def _adds_special(self, text: str) -> bool:
        """Whether the tokenizer puts its own first token before a text: not where the template did."""
        bos = self.tokenizer.bos_token
        return not (bos and text.startswith(bos))

    def _tokenized(self, texts: Iterable[str], add_special: bool) -> list[list[int]]:
        return self.tokenizer([*texts], add_special_tokens=add_special)["input_ids"]

    def _ends_in_marker(self, text: str) -> bool:
        added = getattr(self.tokenizer, "added_tokens_decoder", {}).values()
        return any(text.endswith(str(token)) for token in added)

    def _pieces(self, parts: Sequence[str]) -> list[str]:
        """A prompt, cut after the first character of each marker that data hold or complete."""
        text, ends = "".join(parts), [*accumulate(map(len, parts))]
        cuts, at = [0], 0
        while found := self.markers.search(text, at):
            part = bisect_right(ends, found.start())
            literal = part % 2 == 0 and found.end() <= ends[part]
            at = found.end() if literal else found.start() + 1
            if not literal:
                cuts.append(at)
        return [text[start:end] for start, end in pairwise([*cuts, len(text)])]

    def _joined_ids(self, pieces: Sequence[str]) -> list[int]:
        """Token ids of a prompt in pieces."""
        ids = [token for piece in self._tokenized(pieces, False) for token in piece]
        bare, whole = (
            self._tokenized(["a"], False)[0],
            self._tokenized(["a"], self._adds_special(pieces[0]))[0],
        )
        before = len(whole) - len(bare) if whole[-len(bare) :] == bare else whole.index(bare[0])
        return [*whole[:before], *ids, *whole[before + len(bare) :]]


@dataclass(frozen=True)
class PhotoTokens:
    """What a processor puts into the ids of a text for a photo.

    Attributes:
        mark: Ids that stand for the photo in the text.
        ids: Ids that the processor puts there instead, which are `start` and following of all of its ids.
        start: See `ids`.
        end: Ids that it adds after the text.
    """

    mark: list[int]
    ids: list[int]
    start: int
    end: list[int]

    @classmethod
    def found(cls, text_ids: Sequence[int], photo_ids: Sequence[int], mark: int = -1) -> PhotoTokens:
        """From the ids of one text without and with its photo; a photo of one token may be its own mark.

        >>> PhotoTokens.found([1, 9, 5], [1, 9, 9, 9, 5])
        PhotoTokens(mark=[9], ids=[9, 9, 9], start=1, end=[])
        """
        same_after, added = max((_same_end(text_ids, photo_ids[: len(photo_ids) - n]), -n) for n in range(3))
        before = _same_start(text_ids, photo_ids)
        if before == len(text_ids) and mark in text_ids:
            before = [*text_ids].index(mark) + 1
        if before + same_after >= len(text_ids):  # the mark is the first of the photo's ids too
            before = max(0, before - 1)
            same_after = min(same_after, len(text_ids) - before - 1)
        stop = len(photo_ids) + added
        ids = photo_ids[before : stop - same_after]
        return cls([*text_ids[before : len(text_ids) - same_after]], [*ids], before, [*photo_ids[stop:]])

    def put_into(self, text_ids: Sequence[int]) -> tuple[list[int], int] | None:
        """The ids of another text with the photo, and where they begin; None unless the mark is there once.

        >>> PhotoTokens([9], [9, 9, 9], 1, []).put_into([1, 9, 7, 8])
        ([1, 9, 9, 9, 7, 8], 1)
        """
        width = len(self.mark)
        at = [n for n in range(len(text_ids) - width + 1) if [*text_ids[n : n + width]] == self.mark]
        if len(at) != 1:
            return None
        return [*text_ids[: at[0]], *self.ids, *text_ids[at[0] + width :], *self.end], at[0]


def _same_start(left: Sequence[int], right: Sequence[int]) -> int:
    return next(
        (n for n, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]),
        min(len(left), len(right)),
    )


def _same_end(left: Sequence[int], right: Sequence[int]) -> int:
    return _same_start(left[::-1], right[::-1])
