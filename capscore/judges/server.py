"""A vision–language model behind a server of chat completions, as a judge under the readings of all judges.

The server says which tokens are likeliest at a place of its answer, and how likely. Those are the columns of
the logits that a reading gets; all others together are one more column, so that probabilities are those of
the whole vocabulary. What lies outside the likeliest tokens is reported as `missing`. An answer is begun by a
last message of the assistant that the server continues.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    CapscoreWarning,
    InputError,
    OptionError,
    Setting,
    warn,
)
from ..files.console import note_at_end
from ..options import check_whole_number
from .base import PhotoModel
from .client import Client, Refused, inside, whole_number
from .prompts import Prompt, Prompter, forms_of, messages_of, text_with
from .readings import Reading

if TYPE_CHECKING:
    import torch
    from PIL import Image

TOP_LOGPROBS = 20  # as many as the protocol allows
AT_ONCE = 8  # questions
ANSWER_TOKENS = 6  # of an answer that is read further than its first token
_OTHER = 0  # column of everything that no reading asks for
_NUMBER = re.compile(r"[\d.,]*\d[\d.,]*")
_TRIAL = Prompt((("user", "Is this photo dark? Answer yes or no."),), {})


class Place(NamedTuple):
    """What may stand at a place of an answer.

    Attributes:
        tokens: Text of each of the likeliest tokens → its log-probability; of equal texts, that of all.
        least: Log-probability of the least likely of them.
        missing: Probability of all other tokens together.
    """

    tokens: dict[str, float]
    least: float
    missing: float


@dataclass(eq=False)
class ServerPhoto:
    """A photo as a server gets it, what is asked about it, and what was answered."""

    address: str
    prompts: list[Prompt]
    numbers: np.ndarray | None = None
    problems: dict[int, InputError] = field(default_factory=dict)


class ServerPrompter(Prompter):
    """Gives an id to each text that a reading asks for; a server names tokens by their texts."""

    digest = "server"

    def __init__(self, name: str):
        self.name = name
        self.texts = [""]  # by id; the first stands for everything else

    def spellings(self, word: str, exact: bool = False) -> list[int]:
        return [*map(self._id, [word] if exact else forms_of(word))]

    def text_of(self, token: int) -> str:
        return self.texts[token]

    def natural_ids(self, prompt: Prompt, answer: str) -> list[int]:
        return [*map(self._id, re.findall(r"\d|[^\W\d]+|\W", answer))]

    def _id(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)


class Server(PhotoModel[ServerPhoto]):
    """A model that a server answers for."""

    value_names: ClassVar[tuple[str, ...]] = ("number", "mass", "missing")
    waits: ClassVar[bool] = True
    dtype = device = "server"

    def __init__(self, client: Client, model: str, kind: str, top_logprobs: int, batch_size: int):
        super().__init__(model, "unstated", batch_size)
        self.client, self.top_logprobs = client, top_logprobs
        self.settings = {"server": kind, "top_logprobs": top_logprobs}
        self.identity = (client.address,)
        self.prompter: ServerPrompter = ServerPrompter(model)
        self._is_tried, self._other_builds = False, set[str]()
        self._joins_texts = False  # whether tokens of one text are one entry of what it sends
        self._try()
        self._is_tried = True

    def fits(self, reading: Reading) -> bool:
        return True

    @contextmanager
    def asking(self) -> Iterator[None]:
        self.client.stopped.clear()
        try:
            yield
        except BaseException:
            self.client.stopped.set()
            raise
        if self._other_builds:
            mixed = f"{self.client.shown} answered as {', '.join(sorted(self._other_builds))}"
            self._other_builds.clear()
            warn(CapscoreWarning(f"{mixed}, and before as {self.revision}: all under one signature"))

    def spent(self) -> str:
        """What was asked so far, as a line; "" for nothing."""
        spent = self.client.spent
        if not spent["answered"]:
            return ""
        tokens = f"{spent['read']:,} tokens read and {spent['written']:,} written"
        if not spent["read"]:
            tokens = "it does not count tokens"
        line = f"{self.name} at {self.client.shown}: {spent['answered']:,} requests, {tokens}"
        return f"{line}; {spent['again']:,} tried again" if spent["again"] else line

    def prepare(self, image: Image.Image | None, prompts: Sequence[Prompt]) -> ServerPhoto:
        if image is None:
            return ServerPhoto("", [*prompts])
        file = io.BytesIO()
        image.convert("RGB").save(file, "PNG")
        coded = base64.b64encode(file.getvalue()).decode("ascii")
        return ServerPhoto(f"data:image/png;base64,{coded}", [*prompts])

    def read(self, photos: Sequence[ServerPhoto], reading: Reading) -> list[np.ndarray]:
        found = []
        for photo in photos:
            if photo.numbers is None:
                photo.numbers = np.full((len(photo.prompts), 3), np.nan, np.float32)
                for index, prompt in enumerate(photo.prompts):
                    try:
                        photo.numbers[index] = _Answer(self, photo.address, prompt, reading).numbers()
                    except InputError as error:
                        photo.problems[index] = error
                    except BackboneUnavailable as error:  # by the question itself, it may be
                        asked = f"; the question was about {prompt.data.get('caption', '')!r:.60}"
                        raise type(error)(*error.parts, asked) from error
            found.append(photo.numbers)
        return found

    def problems(self, photo: ServerPhoto) -> Mapping[int, InputError]:
        return photo.problems

    def generate(self, image: Image.Image | None, prompt: Prompt, max_new_tokens: int = 160) -> str:
        photo = self.prepare(image, [prompt])
        answer = self.ask(photo.address, prompt, {"max_tokens": max_new_tokens})
        text = inside(answer, "choices", 0, "message", "content")
        return self.client.blotted(str(text or "").strip())

    def ask(self, photo: str, prompt: Prompt, more: Mapping[str, object], begun: str = "") -> object:
        """The answer to a prompt about a photo, "" for none, after its beginning if there is one."""
        body = {"model": self.name, "messages": _messages(photo, prompt, begun), "temperature": 0, **more}
        if begun:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        answer = self.client.ask(body)
        stated = inside(answer, "system_fingerprint")
        if isinstance(stated, str) and stated:
            build = re.sub(r"[^\w.+-]", "_", self.client.blotted(stated))[:64]
            if not self._is_tried:
                self.revision = build
            elif build != self.revision:
                self._other_builds.add(build)
        return answer

    def places(
        self, photo: str, prompt: Prompt, n_tokens: int, begun: str = ""
    ) -> tuple[list[tuple[str, Place]], int]:
        """Each token of an answer with what may stand in its place, and the number of tokens before it."""
        asked = {"max_tokens": n_tokens, "logprobs": True, "top_logprobs": self.top_logprobs}
        answer = self.ask(photo, prompt, asked, begun)
        content = inside(answer, "choices", 0, "logprobs", "content")
        if content == [] and self._is_tried:
            raise InputError(f"{self.name} answers with nothing")
        if not isinstance(content, list) or not content:
            lacking = f"{self.client.shown} gives no log-probabilities of {self.name}, which a judge reads"
            remedy = "vLLM, SGLang and llama.cpp's server give them, and so do some hosted models"
            raise BackboneUnavailable(f"{lacking}: {remedy}")
        if len(content) > n_tokens:
            many = f"answered with {len(content):,} tokens where {n_tokens} were asked for"
            raise BackboneUnavailable(f"{self.client.shown} {many}")
        return [*map(self._place, content)], whole_number(inside(answer, "usage", "prompt_tokens"))

    def _place(self, item: Mapping[str, Any]) -> tuple[str, Place]:
        try:
            chosen = _text(item)
            listed = [(_text(token), float(token["logprob"])) for token in item["top_logprobs"]]
            listed = sorted(listed, key=lambda token: -token[1])[: self.top_logprobs]
            total = math.fsum(math.exp(value) for _, value in listed)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._no_probabilities() from error
        if not listed or not 0 <= total < 1.01 or any(math.isnan(value) for _, value in listed):
            raise self._no_probabilities()
        missing = max(0.0, 1 - total)
        if len(listed) < self.top_logprobs and missing > 0.001 and not self._joins_texts:
            fewer = f"{self.client.shown} gives {len(listed)} likeliest tokens of {self.top_logprobs}: set "
            raise _TooFew(fewer, Setting("top_logprobs", len(listed)))
        tokens: dict[str, float] = {}
        for text, value in listed:
            tokens[text] = np.logaddexp(tokens.get(text, -np.inf), value)
        return chosen, Place(tokens, listed[-1][1], missing)

    def _no_probabilities(self) -> BackboneUnavailable:
        return BackboneUnavailable(f"what {self.client.shown} sends as log-probabilities are none")

    def _try(self) -> None:
        """Ask about a dark and a bright photo: is all there that a judge needs, and does the model look?"""
        from PIL import Image as Pillow

        answers = []
        for colour in ("black", "white"):
            photo = self.prepare(Pillow.new("RGB", (56, 56), colour), [])
            try:
                answers.append(self._trial_answer(photo.address))
            except InputError as error:
                raise BackboneUnavailable(*error.parts) from error
        if answers[0] == answers[1]:
            blind = f"{self.name} at {self.client.shown} gives a black and a white photo the same answer"
            raise BackboneUnavailable(f"{blind}: it does not look at photos")

    def _trial_answer(self, photo: str) -> list[tuple[str, Place]]:
        """The answer to a trial, from a server that joins tokens of one text too.

        Such a server (llama-cpp-python) lists fewer tokens than are asked for, however few these are; one
        with a limit lists all that are asked for below it, and is refused.
        """
        try:
            return self.places(photo, _TRIAL, 1)[0]
        except _TooFew as error:
            (number,) = (part.value for part in error.parts if isinstance(part, Setting))
            answer = self.ask(photo, _TRIAL, {"max_tokens": 1, "logprobs": True, "top_logprobs": number})
            listed = inside(answer, "choices", 0, "logprobs", "content", 0, "top_logprobs")
            if not isinstance(listed, list) or len(listed) == number:
                raise
            self._joins_texts = True
        return self.places(photo, _TRIAL, 1)[0]


class _TooFew(BackboneUnavailable):
    """A server gives fewer of the likeliest tokens than were asked for; the last part names how many."""


class _Answer:
    """What a model may answer to one prompt, as far as it was asked for."""

    def __init__(self, server: Server, photo: str, prompt: Prompt, reading: Reading):
        self.server, self.photo, self.prompt, self.reading = server, photo, prompt, reading
        self.places: dict[str, Place] = {}  # the answer before a place → what may stand there
        self.read = dict[str, Place]()  # those of them that the reading reads
        self.missing = 0.0
        self.n_before = 0

    def numbers(self) -> tuple[float, float, float]:
        """Number and mass of the reading, and the largest probability outside of what the server sent."""
        number, mass = self.reading.read(1, lambda begun: self._logits(begun[0]))[0]
        if math.isinf(number):  # one of two words is not among the likeliest tokens
            number, mass = self.reading.read(1, lambda begun: self._logits(begun[0], bounded=True))[0]
        if not math.isfinite(number):
            raise self._unanswered()
        return number, mass, self.missing

    def _unanswered(self) -> InputError:
        """Which place of the answer has none of the texts that the reading asks for."""
        texts = {*self.server.prompter.texts[1:]}
        lacking = [begun for begun, place in self.read.items() if texts.isdisjoint(place.tokens)]
        begun = [*lacking, ""][0]
        likeliest = self.server.client.blotted(", ".join(map(repr, [*self.places[begun].tokens][:5])))
        after = f" after {begun!r}" if begun else ""
        return InputError(
            f"no answer that is asked for is among the {self.server.top_logprobs} likeliest tokens{after} of "
            f"{self.server.name} ({likeliest:.200}): set other ",
            *(Setting("answers"), " or another ", Setting("question"), ", a higher "),
            *(Setting("top_logprobs"), ", or serve a model that does not think before it answers"),
        )

    def _logits(self, begun: Sequence[int], bounded: bool = False) -> torch.Tensor:
        """float32 logits (1, 1 + tokens, ids) where the answer begins with these tokens.

        `bounded` counts texts that the server did not list as likely as the last one that it did, which is
        the most they can be, in place of 0.
        """
        import torch

        texts = self.server.prompter.texts
        rows = []
        for n in range(len(begun) + 1):
            place = self._place("".join(texts[id] for id in begun[:n]))
            unseen = place.least if bounded else -math.inf
            row = [place.tokens.get(text, unseen) for text in texts]
            known = math.fsum(math.exp(value) for value in row[1:])
            row[_OTHER] = math.log(rest) if (rest := 1 - known) > 0 else -math.inf
            rows.append(row)
        return torch.tensor([rows], dtype=torch.float32)

    def _place(self, begun: str) -> Place:
        """What may stand after the beginning of an answer."""
        if begun not in self.places:
            self._ask(begun)
        place = self.read[begun] = self.places[begun]
        self.missing = max(self.missing, place.missing)
        if self.reading.begins_answer:
            joined = [value for text, value in place.tokens.items() if _is_long_number(text)]
            if math.fsum(map(math.exp, joined)) > 0.01:
                problem = f"{self.server.name} has tokens of several digits, not of one: use "
                raise BackboneUnavailable(problem, Setting("reading", "yes"))
        return place

    def _ask(self, begun: str) -> None:
        """Ask for what comes after a beginning, and what the model goes on with."""
        n_tokens = ANSWER_TOKENS if self.reading.begins_answer else 1
        try:
            found, n_before = self.server.places(self.photo, self.prompt, n_tokens, begun)
        except Refused as error:
            if begun:
                raise self._cannot_begin(f": {error.message}") from error
            raise
        if not begun:
            self.n_before = n_before
        elif not 1 <= n_before - self.n_before <= len(begun) + 1:  # some put a token before a number
            # a turn that was closed has more tokens, and one that was dropped none
            raise self._cannot_begin("")
        text = begun
        for token, place in found:
            self.places[text] = place
            text = (text + token).lstrip()  # the place after a token of blanks alone is the first one

    def _cannot_begin(self, why: str) -> BackboneUnavailable:
        return BackboneUnavailable(
            f"{self.server.client.shown} does not continue an answer that is begun, which this reading needs "
            f"where {self.server.name} begins another one{why}: use ",
            *(Setting("reading", "yes"), ", or vLLM, SGLang or llama.cpp's server"),
        )


def is_address(spec: object) -> bool:
    """Whether a backbone is a server."""
    return isinstance(spec, str) and re.match(r"\s*https?:", spec, re.IGNORECASE) is not None


def open_server(address: str, options: Mapping[str, Any]) -> Server:
    """The model behind a server's address, after two questions that show what it can do."""
    client = Client(address)
    for name in ("device", "dtype", "revision"):
        if options.get(name) is not None:
            raise OptionError(Setting(name, options[name]), f" does not go with a server ({client.shown})")
    top_logprobs, batch_size = options.get("top_logprobs"), options.get("batch_size")
    if top_logprobs is not None:
        check_whole_number("top_logprobs", top_logprobs, 2, 200_000)
    models = client.models()
    only = next(iter(models)) if len(models) == 1 else ""
    name = str(options.get("model") or only).strip()
    if not name or (models and name not in models):
        listed = client.blotted(", ".join(sorted(models)[:8])) or "no names"
        raise CapscoreError(
            Setting("model", name or ...), f": expected a model of {client.shown}, which lists {listed}"
        )
    kind = re.sub(r"[^\w.+-]", "_", models.get(name, ""))[:32] or "unstated"
    server = Server(client, name, kind, top_logprobs or TOP_LOGPROBS, batch_size or AT_ONCE)
    note_at_end(server.spent)
    return server


def _messages(photo: str, prompt: Prompt, begun: str) -> list[object]:
    """The messages of a prompt and the beginning of an answer, as the protocol has them."""
    messages: list[object] = []
    for message in messages_of(prompt.turns, lambda text: text_with(prompt.data, text), prompt.has_photo):
        parts: list[object] = list(message["content"])
        if {"type": "image"} in parts:
            parts[parts.index({"type": "image"})] = {"type": "image_url", "image_url": {"url": photo}}
            messages.append({"role": message["role"], "content": parts})
        else:  # which all servers take
            messages.append({"role": message["role"], "content": message["content"][0]["text"]})
    if begun:
        messages.append({"role": "assistant", "content": begun})
    return messages


def _text(token: Mapping[str, object]) -> str:
    """A token's text; vocabularies write a blank as ▁ or Ġ, and readings digits without one."""
    text = re.sub("^[▁Ġ]", " ", str(token["token"]))
    return text.strip() if re.fullmatch(r"\s*\d\s*", text) else text


def _is_long_number(text: str) -> bool:
    """Whether a token is a number of several signs, such as 85 or 0. alone."""
    text = text.strip()
    return len(text) > 1 and _NUMBER.fullmatch(text) is not None
