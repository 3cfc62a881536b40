"""The interface of every backbone: an image tower and a text tower with one embedding space."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import xxhash

from ..errors import CapscoreError, Setting
from ..images.boxes import check_boxes, crops, normalised
from ..switches import Switch
from ..text.languages import language_code

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike
    from PIL import Image

Batch = TypeVar("Batch", bound=Sized)
# CLIPScore's weight (Hessel et al. 2021, section 3).
PUBLISHED_W = 2.5
# What CLIPScore's code writes before each text.
PUBLISHED_PREFIX = "A photo depicts "
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
# Crops that `Backbone.encode_regions` gives to the image tower at once.
_MAX_CROPS = 32
# Texts that most tokenizers read as a single piece.
_PROBES = ("a", "dog", ".", "1", "的")
_NO_MAP = "a feature map: encode_regions embeds crops of the photo"
_NOT_TRAINABLE = "a network that can be fine-tuned"


@dataclass(frozen=True)
class Tokens:
    """Tokenised texts.

    Attributes:
        ids: One list of token ids per text, at most `Backbone.max_tokens` long, special tokens included.
        truncated: bool (n,), True where a text was cut; it keeps its end-of-text token.
    """

    ids: list[list[int]]
    truncated: np.ndarray


@dataclass(frozen=True)
class BackboneOptions:
    """Everything that says what a backbone should be, apart from its files.

    Attributes:
        name, prefix, languages, device, dtype: As in `Backbone`; "" and None for what the folder says.
        revision: Commit of the weights; "" for a digest of the folder.
        image_tower: Image tower for a text tower without one; None for the one that it was made for.
    """

    name: str
    revision: str = ""
    prefix: str | None = None
    languages: frozenset[str] | None = None
    device: str = "cpu"
    dtype: str = "float32"
    image_tower: str | Backbone | None = None

    def refuse_image_tower(self) -> None:
        """Raise if an image tower is named for a model that has one."""
        if self.image_tower:
            tower = Setting("image_tower", self.image_tower)
            raise CapscoreError(tower, f": {self.name} has its own image tower")

    def give_to(self, backbone: Backbone) -> None:
        """Set what the options say on a backbone that is being made."""
        backbone.name, backbone.prefix, backbone.languages = self.name, self.prefix or "", self.languages
        backbone.states_prefix = self.prefix is not None
        backbone.device, backbone.dtype = self.device, self.dtype


class Backbone(ABC):
    """An image tower and a text tower in one embedding space.

    A subclass has `preprocess` and `tokenize`, and for each tower one of three methods, from which the others
    follow: `encode_…`; `embed_…`, with gradients; or `…_features`, with gradients and not normalised. To be
    fine-tuned, it needs one with gradients, `text_network` or `network`, and `_identify`. A method that a
    backbone does not offer raises `CapscoreError`.

    Attributes:
        name: Name in signatures, such as "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k".
        revision: Hub commit, or "w" and eight hexadecimal digits of a digest of weights and settings.
        dim: Length d of an embedding.
        prefix: Text put before every candidate and reference; "" for none.
        states_prefix: Whether `prefix` is what its makers say; otherwise a metric takes its own.
        max_tokens: Context length, special tokens included.
        logit_scale: Factor (not its logarithm) on cosines during the model's training.
        w: Factor on cosines of photo and text in CLIPScore and the metrics built on it.
        languages: BCP 47 primary subtags of the text tower's training languages, or None if not known.
        dtype: "float32", "bfloat16" or "float16".
        device: Device of the towers, such as "cpu" or "cuda:0".
        fingerprint: Digest that changes whenever an embedding could; of weights and settings alone, so that
            it is the same with any version of torch and of other libraries.
        recipe: Recipe in `training/` that fine-tuned the backbone, such as "pr_mcs"; "" for none.
        rated_from: Name and revision of the backbone from which this one was fine-tuned on ratings; "" for
            none.
        tuned_from: Name of the backbone that all fine-tuning began with; "" for one that was not fine-tuned.
        unit_rows: Whether its rows have unit length, as all have except some of `as_read`.
        has_feature_map: Whether the image tower embeds a photo and all of its regions in one pass.
        text_rule: What is done to texts before they become tokens, as signatures name it; "" for nothing.
        text_batch: Number of texts that suits the text tower on a CPU.
        by_sentence: Whether a text of several sentences is scored by its sentences if nothing else is asked
            for.
        kinds_of_noise: What a noise gate in the text tower can find, "none" among it; () without a gate.

    Revision and fingerprint describe the towers when the backbone was made; after training, use `remade`.
    """

    name: str
    revision: str
    dim: int
    prefix: str = ""
    states_prefix: bool = True
    max_tokens: int
    logit_scale: float
    w: float = PUBLISHED_W
    languages: frozenset[str] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    fingerprint: str
    recipe: str = ""
    rated_from: str = ""
    tuned_from: str = ""
    unit_rows: bool = True
    has_feature_map: bool = False
    text_rule: str = ""
    text_batch: int = 64
    by_sentence: bool = False
    kinds_of_noise: tuple[str, ...] = ()

    @property
    def verdict_width(self) -> int:
        """Number of values that `encode_judged` gives for each text besides its embedding."""
        return 1 + len(self.kinds_of_noise) if self.kinds_of_noise else 0

    @property
    def torch_dtype(self) -> torch.dtype:
        """`dtype` as torch has it."""
        import torch

        return getattr(torch, self.dtype)

    @abstractmethod
    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """One RGB image → float32 input of the image tower. May be called from several threads at once."""

    def unwrapped(self, texts: Iterable[str]) -> list[str]:
        """Texts without what stands around them and is not read; only then are they split into sentences."""
        return list(texts)

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts (already prefixed) → token ids without padding, and which texts were cut."""

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        """A batch of `preprocess` results → float32 (n, d), rows of unit length."""
        return self._rows(self.embed_pixels if self.unit_rows else self.pixel_features, pixels)

    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """A batch of `Tokens.ids`, padded as far as that changes no number → float32 (n, d), unit rows."""
        return self._rows(self.embed_tokens if self.unit_rows else self.token_features, ids)

    def encode_judged(self, ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_tokens`, and the verdict of the text tower's noise gate on each text.

        Returns:
            float32 (n, d), unit rows; and float32 (n, 1 + k), the share of its score that a text keeps, then
            the probability of each of the k `kinds_of_noise`; (n, 0) without a gate.
        """
        return self.encode_tokens(ids), np.zeros((len(ids), 0), np.float32)

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """RGB images, one batch → float32 (n, d), rows of unit length."""
        if not len(images):
            return np.zeros((0, self.dim), np.float32)
        return self.encode_pixels([self.preprocess(image) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Texts (no prefix is added), one batch → float32 (n, d), rows of unit length."""
        if not len(texts):
            return np.zeros((0, self.dim), np.float32)
        return self.encode_tokens(self.tokenize(texts).ids)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """The tokens of each text, uncut and without special ones, as n lists of (token id, start, end).

        Start and end count characters of the text as given, from 0; neither ever decreases. An empty piece
        starts where it ends.
        """
        raise self._not_offered("the places of its tokens in a text")

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """The special tokens that `tokenize` puts before and after the pieces of a text."""
        probes = zip(self.piece_spans(_PROBES), self.tokenize(_PROBES).ids, strict=True)
        # The text of the fewest pieces: what fills up a context then has the right length.
        pieces, full = min((probe for probe in probes if probe[0]), key=lambda probe: len(probe[0]))
        body = [token for token, _, _ in pieces]
        for start in range(len(full) - len(body) + 1):
            if full[start : start + len(body)] == body:
                return full[:start], full[start + len(body) :]
        raise self._not_offered(f"its pieces: {body} are not in its tokens {full}")

    def encode_regions(self, image: Image.Image, boxes: ArrayLike) -> np.ndarray:
        """Regions of one upright RGB image → float32 (k, d), rows of unit length.

        They come from one pass over the image if the image tower has a feature map, otherwise from crops.

        Args:
            image: Upright RGB image.
            boxes: k boxes (left, top, right, bottom) in pixels, clipped to the image.

        Raises:
            InputError: a box that is not four finite numbers, has no area, or lies outside the image.

        >>> from PIL import Image
        >>> from capscore import load_backbone
        >>> photo, boxes = Image.new("RGB", (64, 48), "red"), [[0, 0, 32, 48], [8, 8, 9, 9]]
        >>> load_backbone("embedded", device="cpu").encode_regions(photo, boxes).shape
        (2, 512)
        """
        checked = check_boxes(boxes, image.size)
        if self.has_feature_map and len(checked):
            maps = self.feature_maps([self.preprocess(image)])
            return self.encode_map_regions(maps, [normalised(checked, image.size)])
        rows = [np.zeros((0, self.dim), np.float32)]
        for start in range(0, len(checked), _MAX_CROPS):
            rows.append(self.encode_images(crops(image, checked[start : start + _MAX_CROPS])))
        return np.concatenate(rows)

    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        """A batch of `preprocess` results → feature maps (n, channels, height, width) on the device."""
        raise self._not_offered(_NO_MAP)

    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        """`feature_maps` → what `encode_pixels` gives for the same photos, float32 (n, d)."""
        return self._rows(self.embed_maps, maps)

    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        """`feature_maps` of n photos → float32 (k_1 + … + k_n, d), rows of unit length.

        `boxes` are n arrays (k_i, 4): left, top, right, bottom as shares of the photo's sides, in [0, 1].
        """
        raise self._not_offered(_NO_MAP)

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        """`embed_pixels` with the length that the image tower gives each row."""
        raise self._not_offered("image embeddings with gradients, or of any length but 1")

    def token_features(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """`embed_tokens` with the length that the text tower gives each row."""
        raise self._not_offered("text embeddings with gradients, or of any length but 1")

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        """A batch of `preprocess` results → float32 (n, d) on the device, unit rows, with gradients."""
        return unit_rows(self.pixel_features(pixels))

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → float32 (n, d) on the device, unit rows, with gradients."""
        return unit_rows(self.token_features(ids))

    def embed_maps(self, maps: torch.Tensor) -> torch.Tensor:
        """`feature_maps` → float32 (n, d) on the device, unit rows, with gradients."""
        raise self._not_offered(_NO_MAP)

    def _rows(self, embed: Callable[[Batch], torch.Tensor], batch: Batch) -> np.ndarray:
        import torch

        if not len(batch):
            return np.zeros((0, self.dim), np.float32)
        with torch.inference_mode():
            return embed(batch).float().cpu().numpy()

    def text_network(self) -> torch.nn.Module:
        """The text tower without any part of the image tower, which fine-tuning trains; may be frozen."""
        raise self._not_offered(_NOT_TRAINABLE)

    def network(self) -> torch.nn.Module:
        """The module with both towers, for fine-tuning that trains the image tower too."""
        raise self._not_offered("a network with both towers: its image tower cannot be fine-tuned")

    def add_network_parts(self, parts: Mapping[str, Mapping[str, int]]) -> None:
        """Put untrained parts, such as a noise gate, into the text network; `remade` then takes note of them.

        Raises:
            CapscoreError: the text network takes no such parts, or has some.
        """
        raise self._not_offered("further parts of its text network")

    def text_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters of `network` that belong to the text side."""
        return list(self.text_network().parameters())

    def remade(
        self, *, name: str | None = None, revision: str | None = None, languages: Iterable[str] | None = None
    ) -> Backbone:
        """A backbone that shares the towers, with revision and fingerprint of their present state.

        None keeps the name and languages, and takes a digest of the weights as the revision.
        """
        again = copy.copy(self)
        again.name = name or self.name
        if languages is not None:
            again.languages = frozenset(map(language_code, languages))
        again._identify(revision or "")
        return again

    def _identify(self, revision: str) -> None:
        """Set `revision` ("" for a digest) and `fingerprint` from the present state of the towers."""
        raise self._not_offered(_NOT_TRAINABLE)

    def _not_offered(self, what: str) -> CapscoreError:
        return CapscoreError(f"the backbone {self.name!r} does not offer {what}")


def as_read(backbone: Backbone, *, unit: bool = True, caption_tokens: int | None = None) -> Backbone:
    """The backbone as a network reads it that was trained on other rows or shorter captions."""
    limit = min(caption_tokens or backbone.max_tokens, backbone.max_tokens)
    if unit and limit == backbone.max_tokens:
        return backbone
    reader = copy.copy(backbone)
    reader.unit_rows, reader.max_tokens = unit, limit
    reader.has_feature_map = backbone.has_feature_map and unit
    reader.fingerprint = fingerprint_of(backbone.fingerprint, "unit" if unit else "raw", limit)
    if not unit and type(backbone).token_features is Backbone.token_features:
        backbone.token_features([])  # raises
    if limit < backbone.max_tokens:
        before, after = backbone.special_tokens()
        if len(before) + len(after) >= limit:
            raise CapscoreError(
                Setting("caption_tokens", caption_tokens),
                f": {backbone.name!r} puts {len(before) + len(after)} special tokens around a text",
            )
        vars(reader)["tokenize"] = partial(_cut_texts, backbone.tokenize, limit, after)
    return reader


def _cut_texts(
    tokenize: Callable[[Sequence[str]], Tokens], limit: int, end: list[int], texts: Sequence[str]
) -> Tokens:
    tokens = tokenize(texts)
    long = np.array([len(ids) > limit for ids in tokens.ids], dtype=bool)
    return Tokens(cut(tokens.ids, limit, end), tokens.truncated | long)


def cut(ids: Iterable[Sequence[int]], limit: int, end: Sequence[int]) -> list[list[int]]:
    """Token ids of texts, at most `limit` of each, with `end` as the last of them."""
    return [list(row) if len(row) <= limit else [*row[: limit - len(end)], *end] for row in ids]


def resolve_device(device: str | int | torch.device | None) -> str:
    """None or "auto" → "cuda" if there is one, else "cpu"; 0 → "cuda:0"; others are checked and returned."""
    import torch

    if str(device).isdecimal():
        device = f"cuda:{device}"
    if device is None or device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
        if resolved.type == "cpu":
            return "cpu"
        backend = torch.backends.mps if resolved.type == "mps" else getattr(torch, resolved.type)
        count = int(backend.is_available()) and (1 if resolved.type == "mps" else backend.device_count())
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CapscoreError(Setting("device", device), f" is not a device of this torch: {error}") from None
    if (resolved.index or 0) >= count:
        raise CapscoreError(Setting("device", str(device)), f": torch sees {count} {resolved.type} devices")
    return str(resolved)


def resolve_dtype(dtype: str | torch.dtype | None) -> str:
    """None, a name, a short name ("bf16") or a torch dtype → "float32", "bfloat16" or "float16"."""
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    for full, short in DTYPES.items():
        if name in (full, short):
            return full
    raise CapscoreError(Setting("dtype", dtype), f" is not one of {', '.join((*DTYPES, *DTYPES.values()))}")


def fingerprint_of(*parts: object) -> str:
    """One digest (32 hexadecimal digits) of all parts; used for everything that an embedding depends on."""
    return xxhash.xxh3_128("\x1f".join(map(str, parts)).encode()).hexdigest()


def weights_digest(*modules: torch.nn.Module) -> str:
    """Digest of every parameter and buffer of the modules."""
    return tensors_digest(*(module.state_dict() for module in modules))


def tensors_digest(*states: Mapping[str, torch.Tensor]) -> str:
    """Digest (32 hexadecimal digits) of named tensors: names, dtypes, shapes and values."""
    import torch

    digest = xxhash.xxh3_128()
    for state in states:
        for key, tensor in sorted(state.items()):
            digest.update(f"{key}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
            flat = tensor.detach().cpu().contiguous().flatten()
            if flat.numel():
                digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


# files of configurations, tokenizers and processors, by the names that libraries give them
_SETTINGS = re.compile(
    r"(.*[_.-])?config([_.-].*)?\.json|capscore_\w+\.json|modules\.json|chat_template.*\.json|.*processor.*\.json"
    r"|(.*[_-])?(tokenizer|vocab|merges|special_tokens_map|added_tokens|dict)([_.-].*)?\.(json|txt)|.*\.model"
)


def settings_digest(folder: Path) -> str:
    """Digest of the files in a folder that say how its weights are used, wherever the folder is."""
    parts = []
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder).as_posix()
        is_hidden = name.startswith(".") or "/." in name  # left by version control and downloads
        if _SETTINGS.fullmatch(path.name) and not is_hidden and path.is_file():
            parts.append(f"{name}|{xxhash.xxh3_128_hexdigest(path.read_bytes())}")
    return fingerprint_of(*parts)


def exact_convolutions(dtype: str) -> AbstractContextManager[None]:
    """Keep a GPU from computing float32 convolutions in TensorFloat-32, its default, within the block."""
    return _TENSOR_FLOAT_32.at(False) if dtype == "float32" else nullcontext()


# Not `cudnn.flags(allow_tf32=False)`: by default that turns cuDNN off entirely.
_TENSOR_FLOAT_32 = Switch.of_attribute("torch.backends.cudnn", "allow_tf32")


def unit_rows(embeddings: torch.Tensor) -> torch.Tensor:
    """Any-dtype (n, d) tensor → float32 rows of unit length, with gradients."""
    import torch

    return torch.nn.functional.normalize(embeddings.to(torch.float32), dim=-1)


def pad_batch(
    ids: Sequence[Sequence[int]], pad_id: int, length: int | None = None, side: str = "right"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids → int64 (n, L) ids and mask (1 token, 0 padding); L is `length`, or the longest length."""
    import torch

    width = length or max(map(len, ids))
    padded = torch.full((len(ids), width), pad_id, dtype=torch.long)
    mask = torch.zeros((len(ids), width), dtype=torch.long)
    for row, sequence in enumerate(ids):
        columns = slice(len(sequence)) if side == "right" else slice(width - len(sequence), width)
        padded[row, columns] = torch.as_tensor(sequence, dtype=torch.long)
        mask[row, columns] = 1
    return padded, mask
