"""What a judge reads: one photo, and turns of text in which captions are data, as token ids.

A chat template is rendered once, with marks where data go. A caption that holds markers of the template,
such as the end of a turn or the place of a photo, is cut inside each of them before it is tokenised. So it
stays text: it can neither close the turn nor add a photo.
"""

from __future__ import annotations

import hashlib
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, TypedDict

from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting, message_of

if TYPE_CHECKING:
    from PIL import Image

Turn = tuple[str, str]  # role, and text with names of data in braces

# Names of data in a question, and where one stands in a rendered template
_NAME = re.compile(r"\{(caption|rival|context|answer|reference_\d+)\}")
_MARK = re.compile("\ue000([a-z_0-9]+)\ue001")
MAX_STEPS, MAX_WRITTEN = 100_000, 1_000_000
"""Lines of a compiled chat template that may run for one question, and characters that it may write."""
_ASKED = (("user", "{caption}"),)  # the shortest question, which shows the template around it
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
    """A question: turns, and the data of one row, by the names that stand in the turns.

    Attributes:
        turns, data: See above.
        has_photo: Whether it is about a photo, or about text alone.
    """

    turns: tuple[Turn, ...]
    data: Mapping[str, str]
    has_photo: bool = True

    @classmethod
    def about(
        cls, question: str, caption: str, references: Sequence[str] = (), context: str = "", system: str = ""
    ) -> Prompt:
        """A question about a caption, after a system turn and what else is known of the photo.

        >>> Prompt.about("Is {caption} right?", "a cat", ["two cats"]).turns
        (('user', 'People described this photo like this: "{reference_0}"\\n\\nIs {caption} right?'),)
        """
        data, blocks = {"caption": caption, "context": context}, [question]
        if references:
            names = [f"reference_{number}" for number in range(len(references))]
            data.update(zip(names, references, strict=True))
            listed = ", ".join(f'"{{{name}}}"' for name in names)
            blocks.insert(0, f"People described this photo like this: {listed}")
        if context:
            blocks.insert(0, 'The photo stands in this text: "{context}"')
        turns: tuple[Turn, ...] = (("user", "\n\n".join(blocks)),)
        return cls((("system", system), *turns) if system else turns, data)

    def continued(self, answer: str, question: str) -> Prompt:
        """The prompt after an answer to it, and a further question."""
        turns = (*self.turns, ("assistant", "{answer}"), ("user", question))
        return Prompt(turns, {**self.data, "answer": answer})


def check_turn(
    name: str, text: str, places: Sequence[str] = ("caption",), *, needs_all: bool = False
) -> None:
    """Raise InputError unless a turn is text, with no other places for data; with all of them if need be."""
    if not isinstance(text, str) or re.search("[\ud800-\udfff\ue000\ue001]", text):
        raise InputError(Setting(name, text), ": expected text")
    names = {*_NAME.findall(text)}
    if needs_all and not names.issuperset(places):
        where = " and ".join(f"{{{place}}} where the {place} goes" for place in places)
        raise InputError(Setting(name, text), f": expected text with {where}")
    if others := sorted(names.difference(places)):
        only = " and ".join(f"{{{place}}}" for place in places)
        has = "has" if len(places) == 1 else "have"
        raise InputError(Setting(name, text), f": {{{others[0]}}} has no place of its own, only {only} {has}")


class Prompter(ABC):
    """Finds the tokens of a model that a reading asks for."""

    name: str

    @property
    @abstractmethod
    def digest(self) -> str:
        """What the prompts of a model look like, for the signature."""

    @abstractmethod
    def natural_ids(self, prompt: Prompt, answer: str) -> list[int]:
        """The token ids of an answer where the model begins to speak; [] where it cannot be told apart."""

    @abstractmethod
    def spellings(self, word: str, exact: bool = False) -> list[int]:
        """Ids of the single tokens that spell a word: in lower case or capitals, with or without a blank."""

    @abstractmethod
    def text_of(self, token: int) -> str:
        """The text of a token of the model."""


def forms_of(word: str) -> list[str]:
    """How a word may be spelled: as it is, in lower case or capitals, with or without a blank.

    >>> forms_of("yes")
    ['yes', 'Yes', ' yes', ' Yes']
    """
    forms = [*dict.fromkeys((word, word.lower(), word.capitalize()))]
    return forms + [f" {form}" for form in forms]


class ChatPrompter(Prompter):
    """Turns prompts into token ids, as the model's own processor does."""

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
        image_settings = self.processor.image_processor.to_dict()
        unstable = ("image_processor_type", "processor_class", "_processor_class", "device", "return_tensors")
        stated = sorted((key, str(value)) for key, value in image_settings.items() if key not in unstable)
        return hashlib.sha256(f"{self.template}{self._render(_ASKED)}{stated}".encode()).hexdigest()[:8]

    def text(self, prompt: Prompt) -> str:
        """The whole prompt as text, before its photo is put in."""
        return "".join(self._parts(prompt))

    def most_tokens(self, prompt: Prompt) -> int:
        """An upper limit of the number of tokens: a byte each, of which NFKC makes at most eleven of one."""
        return 11 * len(self.text(prompt).encode("utf-8", "surrogatepass"))

    def ids(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, with one mark where its photo goes, as the tokenizer gives them."""
        pieces = self._pieces(prompt)
        adds_special = self._adds_special(pieces[0])
        if len(pieces) == 1:
            return self._tokenized(pieces, adds_special)[0]
        ids: list[int] = []
        for of_piece in self._tokenized(pieces, False):
            ids += of_piece
        # what the tokenizer puts before and after a text, it puts around all pieces together
        (bare,), (framed,) = self._tokenized(["a"], False), self._tokenized(["a"], adds_special)
        at = framed.index(bare[0])
        return [*framed[:at], *ids, *framed[at + len(bare) :]]

    def photo_inputs(self, image: Image.Image, prompt: Prompt) -> tuple[list[int], dict[str, Any]]:
        """What the processor makes of a photo and a `harmless` prompt: token ids, and all its tensors."""
        text = self.text(prompt)
        # threads share the tokenizer, where padding is a state: Gemma 4's processor would turn it on
        more = {"padding": False, "truncation": False, "add_special_tokens": self._adds_special(text)}
        try:
            made = self.processor(text=[text], images=[[image]], return_tensors="pt", **more)
        except Exception as error:  # such as ValueError, for a template without the place of a photo
            refused = f"the processor of {self.name} refuses the photo and its question"
            raise BackboneUnavailable(f"{refused}: {message_of(error)}") from error
        return made["input_ids"][0].tolist(), dict(made)

    def harmless(self, prompt: Prompt) -> Prompt:
        """The same prompt without markers in its data, for measures of the photo alone."""
        data = {name: self.markers.sub("", text) for name, text in prompt.data.items()}
        cleaned = Prompt(prompt.turns, data)
        if len(self._pieces(cleaned)) > 1:  # what was left makes markers again
            cleaned = Prompt(prompt.turns, dict.fromkeys(data, ""))
        return cleaned

    def natural_ids(self, prompt: Prompt, answer: str) -> list[int]:
        # after a template that ends in a word, such as "ASSISTANT:", an answer begins with a blank
        text = self.text(prompt)
        if not (text[-1].isspace() or any(text.endswith(str(token)) for token in self._added.values())):
            answer = f" {answer}"
        before, after = self._tokenized([text, text + answer], False)
        return after[len(before) :] if after[: len(before)] == before else []

    def spellings(self, word: str, exact: bool = False) -> list[int]:
        forms = [word] if exact else forms_of(word)
        ids = [ids[0] for ids in self._tokenized(forms, False) if len(ids) == 1]
        if exact:
            return ids
        # where a blank is put before every text, the forms without one
        vocabulary = self.tokenizer.get_vocab()
        ids += [vocabulary[form] for form in forms if form in vocabulary]
        return sorted({*ids} - {self.tokenizer.unk_token_id})

    def text_of(self, token: int) -> str:
        """The text that a token stands for."""
        return str(self.tokenizer.decode([token]))

    @cached_property
    def markers(self) -> re.Pattern[str]:
        """What data must not hold in one piece: tokens added to the vocabulary, the end of a turn."""
        rendered = self._render(_ASKED)
        texts = {str(getattr(self.processor, name, "") or "") for name in ("image_token", "boi_token")}
        texts.add(_MARK.split(rendered)[-1].strip())  # such as "ASSISTANT:"
        texts.update(map(str, self._added.values()))
        listed = sorted((text for text in texts if len(text.strip()) > 1), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, listed)) or r"(?!)")

    @cached_property
    def _added(self) -> dict[int, Any]:
        """Id → token of those that were added to the vocabulary, special ones among them."""
        return getattr(self.tokenizer, "added_tokens_decoder", {})

    def _parts(self, prompt: Prompt) -> list[str]:
        """Literal text and data by turns, literal text first and last."""
        parts = _MARK.split(self._render(prompt.turns, prompt.has_photo))
        parts[1::2] = [prompt.data[name] for name in parts[1::2]]
        return parts

    def _pieces(self, prompt: Prompt) -> list[str]:
        """The text of a prompt, cut after the first character of each marker that data hold or complete."""
        parts = self._parts(prompt)
        owners: list[int] = []  # the part of each character
        for number, part in enumerate(parts):
            owners += [number] * len(part)
        text, pieces, start, at = "".join(parts), [], 0, 0
        while found := self.markers.search(text, at):
            first, last = owners[found.start()], owners[found.end() - 1]
            if first == last and first % 2 == 0:  # the template's own
                at = found.end()
                continue
            at = found.start() + 1
            pieces.append(text[start:at])
            start = at
        return [*pieces, text[start:]]

    def _rendered(self, turns: tuple[Turn, ...], has_photo: bool = True) -> str:
        """Turns as text, with marks where data go; the photo is in the first turn of the user."""
        messages = messages_of(turns, lambda text: _NAME.sub("\ue000\\1\ue001", text), has_photo)
        try:
            with _limited_template(self.name):
                text = self.processor.apply_chat_template(
                    messages, chat_template=self.template, tokenize=False, add_generation_prompt=True
                )
        except BackboneUnavailable:
            raise
        except Exception as error:  # whatever the template raises
            refused = f"the chat template of {self.name} refuses the question: {error}"
            if turns[0][0] == "system":
                raise CapscoreError(refused, "; without ", Setting("instruction"), " it may do") from error
            raise CapscoreError(refused) from error
        asked = {name for _, said in turns for name in _NAME.findall(said)}
        if missing := asked - {*_MARK.findall(text)}:
            left_out = f"leaves out the text of a turn ({', '.join(sorted(missing))})"
            raise BackboneUnavailable(f"the chat template of {self.name} {left_out}")
        return text

    def _adds_special(self, text: str) -> bool:
        """Whether the tokenizer puts its own first token before a text: not where the template did."""
        bos = self.tokenizer.bos_token
        return not (bos and text.startswith(bos))

    def _tokenized(self, texts: Sequence[str], add_special: bool) -> list[list[int]]:
        return self.tokenizer([*texts], add_special_tokens=add_special)["input_ids"]


@contextmanager
def _limited_template(name: str) -> Iterator[None]:
    """End the rendering of a template that loops or writes without end; `name` is the model's.

    Jinja compiles a template to Python, whose lines are counted. What it writes is yielded; what it builds up
    is in local variables.
    """
    n_steps = n_written = 0

    def trace(frame: FrameType, event: str, value: object) -> Callable[..., Any] | None:
        nonlocal n_steps, n_written
        if frame.f_code.co_filename != "<template>":
            return None
        n_steps += 1
        if event == "return" and isinstance(value, str):
            n_written += len(value)
        longest = max(map(_size, frame.f_locals.values()), default=0)
        if n_steps > MAX_STEPS:
            raise BackboneUnavailable(
                f"the chat template of {name} does not end: stopped after {MAX_STEPS:,} steps"
            )
        if max(n_written, longest) > MAX_WRITTEN:
            raise BackboneUnavailable(
                f"the chat template of {name} writes over {MAX_WRITTEN:,} characters for one question"
            )
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _size(value: object) -> int:
    """Length of a variable of a template, or of the longest one in a namespace."""
    from jinja2.utils import Namespace

    if isinstance(value, Namespace):
        return max(map(_size, object.__getattribute__(value, "_Namespace__attrs").values()), default=0)
    return len(value) if isinstance(value, str | list | dict) else 0


class Message(TypedDict):
    """A turn as chat templates and servers take it: its parts are texts and places of photos."""

    role: str
    content: list[dict[str, str]]


def messages_of(turns: Sequence[Turn], filled: Callable[[str], str], has_photo: bool = True) -> list[Message]:
    """Turns as messages of a chat, whose texts `filled` completes; the first of the user has the photo.

    The photo, if there is one, is where {photo} stands, or first.

    >>> messages_of([("user", "Is {caption} right?")], lambda text: text.replace("{caption}", "a cat"))
    [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'Is a cat right?'}]}]
    """
    first_of_user = [role for role, _ in turns].index("user")
    messages: list[Message] = []
    for number, (role, text) in enumerate(turns):
        before, place, after = text.partition("{photo}")
        if number != first_of_user or not has_photo:
            content = [{"type": "text", "text": filled(text)}]
        else:
            texts = (before, after) if place else ("", text)
            first, last = ({"type": "text", "text": filled(part)} for part in texts)
            content = [part for part in (first, {"type": "image"}, last) if part.get("text") != ""]
        messages.append({"role": role, "content": content})
    return messages


def text_with(data: Mapping[str, str], text: str) -> str:
    """A text with data in place of their names."""
    return _NAME.sub(lambda found: data[found[1]], text)


@dataclass(frozen=True)
class PhotoTokens:
    """What a processor puts into the ids of a text for a photo.

    Attributes:
        mark: Ids that stand for the photo in the text.
        ids: Ids that the processor puts there instead, which are `start` and following of all of its ids.
        end: Ids that it adds after the text.
    """

    mark: list[int]
    ids: list[int]
    start: int
    end: list[int]

    @classmethod
    def found(cls, text_ids: Sequence[int], photo_ids: Sequence[int], mark: int = -1) -> PhotoTokens:
        """From the ids of one text without and with its photo; a photo of one token may be its own mark."""
        text, whole = [*text_ids], [*photo_ids]
        # up to two ids may follow the text: as many as make most of its end agree
        n_after, n_added = -1, 0
        for n in range(3):
            agreeing = n_alike(text[::-1], whole[: len(whole) - n][::-1])
            if agreeing > n_after:
                n_after, n_added = agreeing, n
        stop = len(whole) - n_added
        start = n_alike(text, whole)
        if start == len(text) and mark in text:
            start = text.index(mark) + 1
        if start + n_after >= len(text):  # the mark is the first of the photo's ids too
            start = max(0, start - 1)
            n_after = min(n_after, len(text) - start - 1)
        return cls(text[start : len(text) - n_after], whole[start : stop - n_after], start, whole[stop:])

    def put_into(self, text_ids: Sequence[int]) -> tuple[list[int], int] | None:
        """Ids of another text with the photo, and where they begin; None unless the mark is there once."""
        text, width = [*text_ids], len(self.mark)
        places = [at for at in range(len(text) - width + 1) if text[at : at + width] == self.mark]
        if len(places) != 1:
            return None
        start = places[0]
        return [*text[:start], *self.ids, *text[start + width :], *self.end], start


def n_alike(*rows: Sequence[int]) -> int:
    """Number of first ids in which rows agree."""
    places = enumerate(zip(*rows, strict=False))
    return next((at for at, ids in places if len({*ids}) > 1), min(map(len, rows)))
