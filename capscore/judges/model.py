"""A vision–language model that answers questions about photos: how it is loaded, and what it would say.

Prompts of one photo share the photo's part of the sequence: its keys and values are computed once. All other
rows of a batch are padded on the right, where causal attention never looks.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from ..backbones import find
from ..backbones.base import fingerprint_of, resolve_device, resolve_dtype, settings_digest
from ..backbones.checkpoint import (
    HUB_ID,
    fetch_model,
    load_config,
    needed_files,
    quietly_refusing,
    refuse_misfit,
    refuse_oversized,
    weight_files,
)
from ..embedding.photos import in_batches
from ..errors import BackboneUnavailable, CapscoreError, InputError, Part, Setting
from .base import LocalModel, TooLong, clear_errors
from .matching import MATCHERS, Matcher
from .prompts import ChatPrompter, PhotoTokens, Prompt, n_alike
from .readings import Reading

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from transformers import PreTrainedModel, ProcessorMixin

# Families that read a text from left to right after its photo, so that rows of a photo can share its part.
# tests/judges compares each of them with rows alone.
SHARING = frozenset(
    ("gemma3", "idefics3", "internvl", "llava", "llava_onevision", "qwen2_5_vl", "qwen3_vl", "smolvlm")
)
# Families whose attention sees a whole prompt at once: an answer cannot be begun for them
BOTH_WAYS = frozenset(("paligemma",))
MAX_TOKENS = 8192  # of a row's text
_OF_TEXT = ("input_ids", "attention_mask", "labels")  # tensors that rows have of their own


def known_models() -> dict[str, dict[str, Any]]:
    """Hub id → what is known of a model: parameters, licence and its source, languages, kind."""
    return json.loads((files("capscore.judges") / "models.json").read_text(encoding="utf-8"))


@dataclass(eq=False)
class PhotoRows:
    """A photo and its rows, ready for the model.

    Attributes:
        end: Number of ids up to the end of the photo.
        head: Number of ids that all of its rows share; 0 if the photo is not among them.
        tensors: The processor's tensors of the photo, on the device of the model.
        marks: Name → one number per token of a row, up to the end of the photo: kinds of tokens, 0 for text.
    """

    ids: list[list[int]]
    end: int
    head: int
    tensors: dict[str, torch.Tensor]
    marks: dict[str, list[list[int]]] = field(default_factory=dict)

    @property
    def rows(self) -> list[_Row]:
        """The photo with the index of each of its rows."""
        return [(self, index) for index in range(len(self.ids))]

    @property
    def shapes(self) -> tuple[tuple[str, torch.Size], ...]:
        """What tensors of several photos must have in common to be joined."""
        return tuple((name, tensor.shape[1:]) for name, tensor in sorted(self.tensors.items()))


_Row = tuple[PhotoRows, int]  # a photo, and the index of one of its rows


class JudgeModel(LocalModel[PhotoRows]):
    """A vision–language model that answers questions about photos."""

    def __init__(
        self,
        model: PreTrainedModel,
        processor: ProcessorMixin,
        name: str,
        revision: str,
        *,
        batch_size: int | None = None,
    ):
        super().__init__(model, processor, name, revision, batch_size=batch_size)
        self.family = model.config.model_type
        self.prompter: ChatPrompter = ChatPrompter(processor, name, self.family)
        if self.family in BOTH_WAYS:
            self.refused_options = ("instruction", "explain", "claims_by")
        parameters = inspect.signature(model.forward).parameters
        self._takes = frozenset(parameters)
        # renamed in transformers 5
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"

    @property
    def max_tokens(self) -> int:
        """Number of tokens of a row that the model can read."""
        return self._positions or MAX_TOKENS

    @cached_property
    def _positions(self) -> int:
        """Number of places of a row, its photo's among them; 0 where the model's config has none."""
        return int(getattr(self.model.config.get_text_config(), "max_position_embeddings", 0) or 0)

    def fits(self, reading: Reading) -> bool:
        return not (reading.begins_answer and self.family in BOTH_WAYS)

    def limits(self) -> tuple[Part, ...]:
        return (f": {self.family} reads a prompt both ways, and has no turns",)

    def check_lengths(self, questions: Sequence[tuple[int, Prompt]]) -> dict[int, InputError]:
        limit = min(MAX_TOKENS, self.max_tokens)
        fields = {"caption": "candidate", "context": "context", "rival": "rival"}
        problems: dict[int, InputError] = {}
        for row, prompt in questions:
            if self.prompter.most_tokens(prompt) <= limit or (n := len(self.prompter.ids(prompt))) <= limit:
                continue
            lengths = {name: len(text) for name, text in prompt.data.items()}
            field = fields.get(max(lengths, key=lengths.__getitem__), "references")
            given = f"its question has {n:,} tokens; {self.name} reads at most {limit:,} here"
            problems.setdefault(row, InputError(given, field=field))
        return problems

    def read(self, photos: Sequence[PhotoRows], reading: Reading) -> list[np.ndarray]:
        found = {photo: np.zeros((len(photo.ids), 2), np.float32) for photo in photos}
        for (photo, index), numbers in self._answers(photos, reading):
            found[photo][index] = numbers
        return [*found.values()]

    def generate(self, image: Image.Image | None, prompt: Prompt, max_new_tokens: int = 160) -> str:
        import torch

        speaker: Any = self.model  # not every class of transformers speaks
        photo = self.prepare(image, [prompt])
        inputs = self._inputs([photo], photo.ids, [0])
        with torch.inference_mode(), clear_errors(self):
            made = speaker.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
        new = made[0, inputs["input_ids"].shape[1] :]
        return self.prompter.tokenizer.decode(new, skip_special_tokens=True).strip()

    def prepare(self, image: Image.Image | None, prompts: Sequence[Prompt]) -> PhotoRows:
        if image is None:
            ids = [self.prompter.ids(prompt) for prompt in prompts]
            self._check_places(ids, 0)
            return PhotoRows(ids, 0, 0, {})
        harmless = self.prompter.harmless(prompts[0])
        photo_ids, made = self.prompter.photo_inputs(image, harmless)
        mark = getattr(self.processor, "image_token_id", None)
        photo = PhotoTokens.found(self.prompter.ids(harmless), photo_ids, -1 if mark is None else mark)
        rows, starts = [], []
        for prompt in prompts:
            put = photo.put_into(self.prompter.ids(prompt))
            if put is None:  # the processor changes the text in other places too
                put = self.prompter.photo_inputs(image, self.prompter.harmless(prompt))[0], photo.start
            rows.append(put[0])
            starts.append(put[1])
        self._check_places(rows, len(photo.ids))
        tensors, marks = {}, {}
        for name, tensor in made.items():
            if name in _OF_TEXT or name not in self._takes:
                continue
            if tensor.shape == (1, len(photo_ids)):
                of_photo = tensor[0, photo.start : photo.start + len(photo.ids)].tolist()
                marks[name] = [[0] * start + of_photo for start in starts]
            else:
                dtype = self.model.dtype if tensor.is_floating_point() else tensor.dtype
                with clear_errors(self):
                    tensors[name] = tensor.to(self.model.device, dtype)
        # each row keeps at least one id of its own
        head, end = min(n_alike(*rows), *(len(row) - 1 for row in rows)), max(starts) + len(photo.ids)
        return PhotoRows(rows, end, head if head >= end else 0, tensors, marks)

    def _check_places(self, rows: Sequence[Sequence[int]], n_of_photo: int) -> None:
        """Raise TooLong for rows with more ids than the model has places."""
        problems = {}
        for index, ids in enumerate(rows):
            if self._positions and len(ids) > self._positions:
                problems[index] = InputError(
                    f"its question and photo have {len(ids):,} tokens, {n_of_photo:,} of them for the photo; "
                    f"{self.name} reads at most {self._positions:,}: shorten the text, or set a lower ",
                    Setting("max_pixels"),
                    field="image" if 2 * n_of_photo > len(ids) else "candidate",
                )
        if problems:
            raise TooLong(problems)

    def _answers(self, photos: Sequence[PhotoRows], reading: Reading) -> Iterator[tuple[_Row, np.ndarray]]:
        import torch

        shared: dict[object, list[PhotoRows]] = defaultdict(list)
        whole: dict[object, list[_Row]] = defaultdict(list)
        for photo in photos:
            if len(photo.ids) * reading.passes > 1 and photo.head and self.family in SHARING:
                shared[photo.shapes, photo.end].append(photo)
            else:
                whole[photo.shapes] += photo.rows
        with torch.inference_mode(), clear_errors(self):
            for rows in whole.values():
                for part in self._batches(rows):
                    yield from self._whole_answers(part, reading)
            for alike in shared.values():
                for some in in_batches(alike, self.batch_size):
                    yield from self._shared_answers(some, reading)

    def _batches(self, rows: list[_Row]) -> Iterator[list[_Row]]:
        """Rows of like length together, so that there is little padding."""
        rows = sorted(rows, key=lambda row: len(row[0].ids[row[1]]))
        size = math.ceil(len(rows) / math.ceil(len(rows) / self.batch_size))
        return in_batches(rows, size)

    def _whole_answers(self, rows: Sequence[_Row], reading: Reading) -> Iterator[tuple[_Row, np.ndarray]]:
        """The answers to rows, each of which is read from its first token on."""
        photos, indices = zip(*rows, strict=True)
        ids = [photo.ids[index] for photo, index in rows]

        def run(begun: Sequence[Sequence[int]]) -> torch.Tensor:
            inputs = self._inputs(
                photos, [[*row, *tokens] for row, tokens in zip(ids, begun, strict=True)], indices
            )
            return self._logits({**inputs, "use_cache": False}, [*map(len, ids)], len(begun[0]))

        return zip(rows, reading.read(len(rows), run), strict=True)

    def _shared_answers(
        self, photos: Sequence[PhotoRows], reading: Reading
    ) -> Iterator[tuple[_Row, np.ndarray]]:
        """The answers about photos that end at the same place; what the rows of each share is read once."""
        import torch
        from transformers import DynamicCache

        head = min(photo.head for photo in photos)
        cache = DynamicCache(config=self.model.config.get_text_config())
        inputs = self._inputs(photos, [photo.ids[0][:head] for photo in photos], [0] * len(photos))
        inputs.pop("attention_mask")  # nothing is padded
        self._run({**inputs, self._cache_name: cache, "use_cache": True}, [[head - 1]] * len(photos))
        base: Any = getattr(self.model, "model", None)
        deltas = getattr(base, "rope_deltas", None)  # of families that count the places of a photo otherwise
        number_of = {photo: number for number, photo in enumerate(photos)}
        rows = itertools.chain.from_iterable(photo.rows for photo in photos)
        for part in self._batches([*rows]):
            owners = torch.tensor([number_of[photo] for photo, _ in part], device=self.model.device)
            ends = [photo.ids[index][head:] for photo, index in part]

            def run(begun: Sequence[Sequence[int]], owners: Any = owners, ends: Any = ends) -> torch.Tensor:
                own = copy.copy(cache)
                own.layers = [copy.copy(layer) for layer in cache.layers]
                own.batch_select_indices(owners)  # which copies keys and values
                if deltas is not None:
                    base.rope_deltas = deltas[owners]
                ids = self._padded([[*end, *tokens] for end, tokens in zip(ends, begun, strict=True)])
                inputs = {"input_ids": ids, self._cache_name: own, "use_cache": True}
                return self._logits(inputs, [*map(len, ends)], len(begun[0]))

            yield from zip(part, reading.read(len(part), run), strict=True)

    def _logits(self, inputs: Mapping[str, object], lengths: Sequence[int], n_begun: int) -> torch.Tensor:
        """float32 logits (b, 1 + n_begun, vocabulary): after the prompt, and after each begun token."""
        return self._run(inputs, [range(length - 1, length + n_begun) for length in lengths]).float()

    def _run(self, inputs: Mapping[str, object], places: Sequence[Sequence[int]]) -> torch.Tensor:
        """The model's logits at k places of each of b rows; the vocabulary is read at no others."""
        import torch

        columns = torch.tensor(places, device=self.model.device)
        rows = torch.arange(len(places), device=self.model.device)[:, None]
        head = self.model.get_output_embeddings()
        if head is None:
            return self.model(**inputs).logits[rows, columns]
        hook = head.register_forward_pre_hook(lambda _, given: (given[0][rows, columns],))
        try:
            return self.model(**inputs).logits
        finally:
            hook.remove()

    def _inputs(
        self, photos: Sequence[PhotoRows], ids: Sequence[Sequence[int]], indices: Sequence[int]
    ) -> dict[str, torch.Tensor]:
        """Tensors for rows of photos, padded on the right."""
        import torch

        padded = self._padded(ids)
        mask = self._padded([[1] * len(row) for row in ids], fill=0)
        inputs = {"input_ids": padded, "attention_mask": mask}
        for name in photos[0].marks:
            rows = [photo.marks[name][index] for photo, index in zip(photos, indices, strict=True)]
            inputs[name] = self._padded(rows, fill=0, length=padded.shape[1])
        for name in photos[0].tensors:
            inputs[name] = torch.cat([photo.tensors[name] for photo in photos])
        return inputs

    def _padded(
        self, rows: Sequence[Sequence[int]], fill: int | None = None, length: int = 0
    ) -> torch.Tensor:
        """Rows of numbers as a tensor, filled up on the right with the padding token or another number."""
        import torch

        length = length or max(map(len, rows))
        if fill is None:
            fill = self.prompter.tokenizer.pad_token_id or 0
        filled = [[*row, *[fill] * (length - len(row))] for row in rows]
        return torch.tensor(filled, device=self.model.device)


def load_judge(
    spec: str | Path | JudgeModel | Matcher,
    *,
    device: str | int | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    batch_size: int | None = None,
) -> JudgeModel | Matcher:
    """Load a vision–language model that `transformers` has a class for; code of repositories never runs."""
    if isinstance(spec, JudgeModel | Matcher):
        for option, value in (("device", device), ("dtype", dtype), ("revision", revision)):
            if value:
                raise CapscoreError(Setting(option, value), f" does not go with {spec.name}, which is loaded")
        if batch_size:
            spec = copy.copy(spec)
            spec.batch_size = batch_size
        return spec
    if not isinstance(spec, str | Path) or not str(spec).strip():
        raise CapscoreError(Setting("backbone", spec), ": expected a Hub id or a folder")
    name, folder, revision = _found(str(spec).strip(), revision)
    where = resolve_device(device)
    number_format = resolve_dtype(dtype or ("float32" if where == "cpu" else "bfloat16"))
    try:
        model, processor = _model_and_processor(folder, number_format, where)
    except BackboneUnavailable as error:
        raise type(error)(Setting("backbone", str(spec)), ": ", *error.parts) from error
    made = Matcher if type(model).__name__ in MATCHERS else JudgeModel
    return made(model, processor, name, revision, batch_size=batch_size)


def _found(spec: str, revision: str | None) -> tuple[str, Path, str]:
    """Name, folder and revision of a model."""
    folder = Path(spec).expanduser()
    if os.path.isdir(folder):  # of a name that is too long, pathlib raises
        if revision:
            raise CapscoreError(Setting("revision", revision), " does not go with a folder")
        digest = fingerprint_of(_weights_digest(folder), settings_digest(folder))
        return folder.resolve().name, folder, f"w{digest[:8]}"
    name, _, at = spec.partition("@")
    if find(name) is not None:
        raise BackboneUnavailable(
            Setting("backbone", spec), " makes embeddings; a judge answers questions about photos"
        )
    if not HUB_ID.fullmatch(name):
        raise BackboneUnavailable(
            Setting("backbone", spec), ": there is no such folder, and it is no Hub id, such as org/name"
        )
    folder, commit = fetch_model(name, revision or at, _files_of)
    return name, folder, commit


def _files_of(names: Sequence[str]) -> list[str]:
    """The files of a repository that a judge reads, chat templates among them."""
    return [*needed_files(names), *(name for name in names if name.endswith(".jinja"))]


def _weights_digest(folder: Path) -> str:
    digest = xxhash.xxh3_128()
    for path in weight_files(folder):
        with path.open("rb") as file:
            while part := file.read(2**24):
                digest.update(part)
    return digest.hexdigest()


def _model_and_processor(folder: Path, dtype: str, device: str) -> tuple[PreTrainedModel, ProcessorMixin]:
    import torch
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if (folder / "adapter_config.json").is_file():  # transformers would load the model that it names
        raise BackboneUnavailable("it is an adapter; merge it into its model, and name the folder of both")
    config = load_config(folder)
    matcher = next((name for name in config.architectures or () if name in MATCHERS), None)
    if config.model_type not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise BackboneUnavailable(
            f"a model of the kind {config.model_type!r} does not answer questions about photos, as "
            f"{', '.join(sorted(SHARING | BOTH_WAYS))} and others do"
        )
    if config.is_encoder_decoder and not matcher:
        raise BackboneUnavailable(
            "it has an encoder and a decoder; a judge is one sequence of photo, text and answer"
        )
    refuse_oversized(folder, config.to_dict(), sum(path.stat().st_size for path in weight_files(folder)))
    # Always set: otherwise transformers asks on the terminal whether it may run code.
    where = {"local_files_only": True, "trust_remote_code": False}
    with quietly_refusing(f"the model in {folder}"):
        kind = getattr(transformers, matcher or "AutoModelForImageTextToText")
        asked = {"dtype": getattr(torch, dtype), "ignore_mismatched_sizes": True, "output_loading_info": True}
        model, report = kind.from_pretrained(folder, **asked, **where)
    refuse_misfit(folder, report["missing_keys"], (), report["mismatched_keys"])
    with quietly_refusing(f"the processor in {folder}"):
        processor = transformers.AutoProcessor.from_pretrained(folder, **where)
    return model.eval().to(device), processor
