"""The interface of every backbone: an image tower and a text tower with one embedding space.

In: RGB images and strings. Out: float32 rows of unit length. Preprocessing and tokenisation are separate
steps, so that `capscore.embedding.embedder` can decode in parallel, sort by length and pad to the batch. The
text tower can be fine-tuned: `embed_tokens` is `encode_tokens` with gradients.
"""

from __future__ import annotations

import copy
import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CapscoreError, InputError, Part, Setting
from ..images.boxes import check_boxes, crops, normalised
from ..text.languages import language_code

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from PIL import Image

# CLIPScore's weight (Hessel et al. 2021, section 3).
PUBLISHED_W = 2.5
# Photos or crops that `Backbone.encode_region_batch` gives to the image tower at once.
_REGION_BATCH = 32
# Texts that most tokenizers read as a single piece.
_PROBES = ("a", "dog", ".", "1", "的")
DTYPES = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
}


@dataclass(frozen=True)
class Tokens:
    """Tokenised texts.

    Attributes:
        ids: One list of token ids per text, special tokens included, without padding, at most
            `Backbone.max_tokens` long.
        truncated: bool (n,), True where the text was longer than the context and was cut. A cut text
            keeps its end-of-text token.
    """

    ids: list[list[int]]
    truncated: np.ndarray


def _no_loader(spec: str, **_: Any) -> Backbone:
    raise CapscoreError(f"the backbone {spec!r} cannot be loaded: LoadOptions.load_backbone is not set")


@dataclass(frozen=True)
class LoadOptions:
    """Everything that says what a backbone should be, apart from its files.

    Every module that loads a kind of backbone has a `load_folder(folder, options)`.

    Attributes:
        name: Name in signatures.
        revision: Commit of the weights; "" for a digest of the folder.
        prefix: Text put before every candidate and reference; "" for none, or for what the folder says.
        languages: Codes from `capscore.text.languages.language_code`; None for what the folder says.
        device: Device from `resolve_device`.
        dtype: "float32", "bfloat16" or "float16".
        image_tower: Image tower for a text tower without one: a backbone or what `load_backbone` takes; None
            for the one that the text tower was made for.
        trust_remote_code: Whether Python code that comes with the weights may run.
        load_backbone: `capscore.backbones.loading.load_backbone`, for kinds that are built on another
            backbone: image towers, and the bases of fine-tuned text towers.
    """

    name: str
    revision: str = ""
    prefix: str = ""
    languages: frozenset[str] | None = None
    device: str = "cpu"
    dtype: str = "float32"
    image_tower: str | Backbone | None = None
    trust_remote_code: bool = False
    load_backbone: Callable[..., Backbone] = field(default=_no_loader, repr=False, compare=False)


class Backbone(ABC):
    """An image tower and a text tower in one embedding space.

    Attributes:
        name: Name in signatures, such as "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k".
        revision: Hub commit if known, otherwise a digest of the weights and of the files that say how to use
            them ("w" and eight hexadecimal digits).
        dim: Length d of an embedding.
        prefix: Text put before every candidate and reference; "" for none.
        max_tokens: Context length, special tokens included.
        logit_scale: Factor (not its logarithm) on cosines during the model's training.
        w: Factor on cosines of photo and text in CLIPScore and the metrics built on it. A backbone whose
            photos and texts lie further apart or closer together than CLIP's brings them to the scale of its
            cosines of two texts by a factor of its own.
        languages: BCP 47 primary subtags of the text tower's training languages, or None if not known.
        dtype: "float32", "bfloat16" or "float16".
        device: Device of the towers, such as "cpu" or "cuda:0".
        fingerprint: Digest that changes whenever an embedding could: weights, architecture, dtype,
            preprocessing, tokenizer, context length.
        recipe: Recipe in `training/` that fine-tuned it, such as "pr_mcs"; "" if none did.
        rated_from: Name and revision of the backbone that was fine-tuned on human ratings, for signatures;
            "" if it was not fine-tuned on any.
        unit_rows: Whether its rows have unit length, as all have except some of `features.as_read`.
        has_feature_map: Whether the image tower gives a photo and all of its regions from one pass, by
            `feature_maps`, `encode_maps` and `encode_map_regions`. Other towers embed crops.
        text_batch: Number of texts that suits the text tower on a CPU.

    Revision and fingerprint are computed when a backbone is made: after training a tower, use the backbone
    that `remade` returns.
    """

    name: str
    revision: str
    dim: int
    prefix: str = ""
    max_tokens: int
    logit_scale: float
    w: float = PUBLISHED_W
    languages: frozenset[str] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    fingerprint: str
    recipe: str = ""
    rated_from: str = ""
    unit_rows: bool = True
    has_feature_map: bool = False
    text_batch: int = 64

    @abstractmethod
    def preprocess(self, image: Image.Image) -> torch.Tensor:
        """One RGB image → input of the image tower, float32, in whatever shape the tower reads.

        May be called from several threads at once.
        """

    @abstractmethod
    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        """A batch of `preprocess` results → float32 (n, d), rows of unit length."""

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Texts (already prefixed) → token ids without padding, and which texts were cut."""

    @abstractmethod
    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """A batch of `Tokens.ids` → float32 (n, d), rows of unit length.

        Pads to the longest text of the batch wherever that does not change the numbers.
        """

    @property
    def kinds_of_noise(self) -> tuple[str, ...]:
        """What a gate of the text tower can find in a text, "none" among it; () without a gate."""
        return ()

    def encode_judged(self, ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_tokens`, and what the gate of the text tower says of each text.

        Returns:
            float32 (n, d), rows of unit length; and float32 (n, 1 + k), the share of its score that a text
            keeps, then the probability of each of the k `kinds_of_noise`; (n, 0) without a gate.
        """
        return self.encode_tokens(ids), np.zeros((len(ids), 0), np.float32)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """The tokens that the text tower reads from each text, and their places in the text.

        Args:
            texts: n texts; no prefix is added.

        Returns:
            n lists of (token id, start, end). The ids are those of `tokenize` without special tokens, and
            long texts are not cut. Start and end count characters of the text as given, from 0, whatever the
            tokenizer lower-cases or normalises; neither ever decreases. Pieces of one character share its
            place. A piece that writes nothing, such as a blank, starts where it ends.

        Raises:
            CapscoreError: this backbone cannot say where its tokens are.
        """
        raise CapscoreError(f"the backbone {self.name!r} does not say where in a text its tokens are")

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """The special tokens that `tokenize` puts before and after the pieces of a text.

        Raises:
            CapscoreError: this backbone cannot say where its tokens are.
        """
        whole = self.tokenize(_PROBES)
        texts = [
            (full, [token for token, _, _ in spans])
            for full, spans in zip(whole.ids, self.piece_spans(_PROBES), strict=True)
        ]
        # Texts of one piece first: if a tokenizer fills up the context, the filling then has the right
        # length.
        for full, body in sorted(texts, key=lambda text: len(text[1])):
            for start in range(len(full) - len(body) + 1):
                if body and full[start : start + len(body)] == body:
                    return full[:start], full[start + len(body) :]
        full, body = texts[0]
        raise CapscoreError(
            f"the tokens of {self.name!r} for {_PROBES[0]!r}, {full}, do not contain its pieces {body}"
        )

    def pixel_features(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        """`encode_pixels`, float32 (n, d), with the length that the image tower gives each row.

        Raises:
            CapscoreError: this backbone gives only rows of unit length.
        """
        raise CapscoreError(f"the backbone {self.name!r} gives only embeddings of unit length")

    def token_features(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """`encode_tokens`, float32 (n, d), with the length that the text tower gives each row.

        Raises:
            CapscoreError: this backbone gives only rows of unit length.
        """
        raise CapscoreError(f"the backbone {self.name!r} gives only embeddings of unit length")

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

    # ------------------------------------------------------------- regions

    def encode_regions(self, image: Image.Image, boxes: Any) -> np.ndarray:
        """Regions of one RGB image → float32 (k, d), rows of unit length.

        They come from one pass over the image if the image tower has a feature map, otherwise from its crops.
        The box of the whole image gives the embedding of the image.

        Args:
            image: Upright RGB image.
            boxes: k boxes (left, top, right, bottom) in pixels, counted from the image's upper left corner;
                what `capscore.images.boxes.check_boxes` takes. Boxes are clipped to the image.

        Raises:
            InputError: a box that is not four finite numbers, has no area, or lies outside the image; the
                message has its number, counted from 0.

        >>> from PIL import Image
        >>> from capscore import load_backbone
        >>> photo, boxes = Image.new("RGB", (64, 48), "red"), [[0, 0, 32, 48], [8, 8, 9, 9]]
        >>> load_backbone("embedded", device="cpu").encode_regions(photo, boxes).shape
        (2, 512)
        """
        return self._encode_checked([image], [check_boxes(boxes, image.size)])[0]

    def encode_region_batch(self, images: Sequence[Image.Image], boxes: Sequence[Any]) -> list[np.ndarray]:
        """Regions of n RGB images → n float32 (k, d), as `encode_regions` gives them, in full batches.

        Args:
            images: n upright RGB images.
            boxes: Boxes of each image, as `encode_regions` takes them.

        Raises:
            InputError: a box that cannot be used, named with the number of its image as the row, or another
                number of lists of boxes than of images.
        """
        if len(images) != len(boxes):
            raise InputError(
                f"{len(boxes)} lists of boxes for {len(images)} images; expected one for each", field="boxes"
            )
        checked = [
            check_boxes(own, image.size, row=row)
            for row, (image, own) in enumerate(zip(images, boxes, strict=True))
        ]
        return self._encode_checked(images, checked)

    def _encode_checked(self, images: Sequence[Image.Image], boxes: list[np.ndarray]) -> list[np.ndarray]:
        if not boxes:
            return []
        rows: list[np.ndarray] = [np.zeros((0, self.dim), np.float32)]
        if self.has_feature_map:
            asked = [place for place, own in enumerate(boxes) if len(own)]
            for start in range(0, len(asked), _REGION_BATCH):
                part = asked[start : start + _REGION_BATCH]
                maps = self.feature_maps([self.preprocess(images[place]) for place in part])
                shares = [normalised(boxes[place], images[place].size) for place in part]
                rows.append(self.encode_map_regions(maps, shares))
        else:
            waiting: list[torch.Tensor] = []
            for image, own in zip(images, boxes, strict=True):
                for box in own:
                    waiting += [self.preprocess(crop) for crop in crops(image, box)]
                    if len(waiting) == _REGION_BATCH:
                        rows.append(self.encode_pixels(waiting))
                        waiting = []
            if waiting:
                rows.append(self.encode_pixels(waiting))
        return np.split(np.concatenate(rows), np.cumsum([len(own) for own in boxes])[:-1])

    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        """A batch of `preprocess` results → feature maps (n, channels, height, width) on the device.

        Raises:
            CapscoreError: this backbone's image tower has no feature map.
        """
        raise self._no_feature_map()

    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        """`feature_maps` → what `encode_pixels` gives for the same photos, float32 (n, d)."""
        raise self._no_feature_map()

    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        """`feature_maps` of n photos → float32 (k_1 + … + k_n, d), rows of unit length.

        Args:
            maps: (n, channels, height, width).
            boxes: n arrays (k_i, 4), left, top, right, bottom as shares of the photo's width and height, in
                [0, 1].
        """
        raise self._no_feature_map()

    def _no_feature_map(self) -> CapscoreError:
        return CapscoreError(
            f"the backbone {self.name!r} has no feature map: encode_regions embeds crops of the photo"
        )

    # ------------------------------------------------------------- fine-tuning

    def text_network(self) -> torch.nn.Module:
        """The module that fine-tuning trains: the text tower without any part of the image tower.

        Its state dict has the same names each time the same backbone is loaded. Parameters may be frozen:
        `text_network().requires_grad_(True)` unfreezes them.

        Raises:
            CapscoreError: this backbone cannot be fine-tuned.
        """
        raise CapscoreError(f"the backbone {self.name!r} cannot be fine-tuned: it has no text network")

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → float32 (n, d) on the backbone's device, rows of unit length.

        The same numbers as `encode_tokens` up to rounding, with gradients to the parameters of
        `text_network`.

        Raises:
            CapscoreError: this backbone cannot be fine-tuned.
        """
        raise CapscoreError(f"the backbone {self.name!r} cannot be fine-tuned: it has no embed_tokens")

    def network(self) -> torch.nn.Module:
        """The module with both towers, for fine-tuning that trains the image tower too.

        Its state dict has the same names each time the same backbone is loaded. Parameters may be frozen.

        Raises:
            CapscoreError: the image tower of this backbone cannot be fine-tuned.
        """
        raise self._no_network()

    def text_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters of `network` that belong to the text side."""
        return list(self.text_network().parameters())

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        """A batch of `preprocess` results → float32 (n, d) on the backbone's device, rows of unit length.

        The same numbers as `encode_pixels` up to rounding, with gradients to the parameters of `network`.

        Raises:
            CapscoreError: the image tower of this backbone cannot be fine-tuned.
        """
        raise self._no_network()

    def embed_maps(self, maps: torch.Tensor) -> torch.Tensor:
        """`encode_maps` with gradients to the parameters of `network` behind the feature map, float32 (n, d).

        Raises:
            CapscoreError: this backbone's image tower has no feature map, or cannot be fine-tuned.
        """
        raise self._no_feature_map()

    def _no_network(self) -> CapscoreError:
        return CapscoreError(f"the image tower of the backbone {self.name!r} cannot be fine-tuned")

    def remade(
        self,
        *,
        name: str | None = None,
        revision: str | None = None,
        languages: Iterable[str] | None = None,
    ) -> Backbone:
        """A backbone with the same towers in their present state, revision and fingerprint computed again.

        The towers are shared, not copied, and keep their state: train or eval mode, frozen or not.

        Args:
            name: Name of the new backbone; None for the same.
            revision: Its revision; None for a digest of the weights. A text tower that uses the image tower
                of another backbone adds that tower's revision.
            languages: Language codes that the text tower was trained on; None for the same.

        Raises:
            CapscoreError: this backbone cannot be fine-tuned.
            InputError: an unknown language code.
        """
        again = copy.copy(self)
        again.name = name or self.name
        if languages is not None:
            again.languages = frozenset(map(language_code, languages))
        again._identify(revision or "")
        return again

    def _identify(self, revision: str) -> None:
        """Set `revision` ("" for a digest) and `fingerprint` from the present state of the towers."""
        raise CapscoreError(f"the backbone {self.name!r} cannot be fine-tuned: it cannot be remade")

    def network_parts(self) -> dict[str, Any] | None:
        """Description, ready for JSON, of modules added to the published text network, or None."""
        return None

    def add_network_parts(self, parts: dict[str, Any]) -> None:
        """Add untrained modules to the text network; afterwards use the backbone that `remade` returns.

        Args:
            parts: Description of the modules, as `network_parts` returns it.

        Raises:
            CapscoreError: this backbone takes no such modules, or already has some.
        """
        raise CapscoreError(
            f"the text network of the backbone {self.name!r} takes no further parts; asked for {parts!r}"
        )

    def text_settings(self) -> tuple[Any, ...]:
        """Config and tokenizer of the text tower, or other settings, each with a `save_pretrained`."""
        return ()


class TrainableBackbone(Backbone):
    """A backbone whose text tower can be fine-tuned; `encode_tokens` comes from `embed_tokens`."""

    @abstractmethod
    def text_network(self) -> torch.nn.Module: ...

    @abstractmethod
    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor: ...

    @abstractmethod
    def _identify(self, revision: str) -> None: ...

    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        import torch

        with torch.inference_mode():
            return self.embed_tokens(ids).cpu().numpy()


def resolve_device(device: str | torch.device | None) -> str:
    """None → "cuda" if there is such a device, otherwise "cpu"; any other value is checked and returned."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise CapscoreError(Setting("device", device), f" is not a torch device: {error}") from None
    if resolved.type == "cpu":
        return "cpu"
    if resolved.type not in ("cuda", "mps", "xpu"):
        raise CapscoreError(
            Setting("device", str(device)), ": expected 'cpu', 'cuda', 'cuda:1', 'mps' or 'xpu'"
        )
    kind = resolved.type
    backend = torch.backends.mps if kind == "mps" else getattr(torch, kind)
    if not backend.is_available():
        raise CapscoreError(
            Setting("device", str(device)), f" was asked for, but torch sees no {kind.upper()} device"
        )
    if kind != "mps" and (resolved.index or 0) >= backend.device_count():
        raise CapscoreError(
            Setting("device", str(device)),
            f" was asked for, but torch sees {backend.device_count()} {kind.upper()} devices, counted from 0",
        )
    return str(resolved)


def resolve_dtype(dtype: Any) -> str:
    """None, a name, a short name ("bf16") or a torch dtype → "float32", "bfloat16" or "float16"."""
    if dtype is None:
        return "float32"
    name = str(dtype).removeprefix("torch.")
    for full, short in DTYPES.items():
        if name in (full, short):
            return full
    known = [*DTYPES, *DTYPES.values()]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise CapscoreError(Setting("dtype", dtype), f" is not one of {', '.join(known)}{hint}")


def weights_digest(*modules: torch.nn.Module) -> str:
    """Digest (32 hexadecimal digits) of every parameter and buffer of the modules.

    It is computed from the loaded tensors, so files with equal names cannot be confused. Call it before the
    weights are cast to another dtype.
    """
    return tensors_digest(*(module.state_dict() for module in modules))


def tensors_digest(*states: Mapping[str, torch.Tensor]) -> str:
    """Digest (32 hexadecimal digits) of named tensors: names, dtypes, shapes and values."""
    import torch
    import xxhash

    digest = xxhash.xxh3_128()
    for state in states:
        for key, tensor in sorted(state.items()):
            digest.update(f"{key}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
            flat = tensor.detach().cpu().contiguous().flatten()
            if flat.numel():
                digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def architecture_digest(*modules: torch.nn.Module) -> str:
    """Digest (32 hexadecimal digits) of everything about networks except their weights.

    Layers, activations, heads, epsilons, pooling: with another config the same tensors give other numbers.
    """
    import xxhash

    digest = xxhash.xxh3_128()
    for module in modules:
        digest.update(without_addresses(repr(module)).encode())
        for name, part in module.named_modules():
            plain = {
                key: value
                for key, value in vars(part).items()
                if isinstance(value, (bool, int, float, str, tuple)) and key not in _NO_ARCHITECTURE
            }
            digest.update(f"{name}|{without_addresses(str(sorted(plain.items(), key=str)))}".encode())
    return digest.hexdigest()


# Attributes of a module that do not change what it computes.
_NO_ARCHITECTURE = frozenset(("training", "name_or_path"))


def without_addresses(description: str) -> str:
    """A repr without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", description)


def settings_digest(folder: Path, *, code: bool = False) -> str:
    """Digest (32 hexadecimal digits) of the files in a folder that say how its weights are used.

    It covers names and contents of configurations and vocabularies, and of Python files if their `code` may
    run. The folder's place, and how the weights are split into files, do not matter.
    """
    import xxhash

    endings = {".json", ".txt", ".model"} | ({".py"} if code else set())
    files = sorted(
        (path.relative_to(folder).as_posix(), path)
        for path in folder.rglob("*")
        if path.suffix in endings and not path.name.endswith(".index.json") and path.is_file()
    )
    return fingerprint_of(
        *(
            f"{name}|{xxhash.xxh3_128_hexdigest(path.read_bytes())}"
            for name, path in files
            if not name.startswith(".") and "/." not in name  # left by version control and downloads
        )
    )


@contextmanager
def exact_convolutions(dtype: str) -> Iterator[None]:
    """Keep a GPU from computing float32 convolutions in TensorFloat-32, its default.

    Changes torch's switch, which holds for the whole process, and restores it afterwards. With other dtypes
    it does nothing.

    Args:
        dtype: Dtype of the convolutions, named as in `Backbone.dtype`.
    """
    import torch

    if dtype != "float32" or not torch.backends.cudnn.is_available():
        yield
        return
    before = torch.backends.cudnn.allow_tf32
    # Not `cudnn.flags(allow_tf32=False)`: by default that turns cuDNN off entirely.
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def fingerprint_of(*parts: object) -> str:
    """One digest (32 hexadecimal digits) of all parts; used for everything that an embedding depends on."""
    import xxhash

    return xxhash.xxh3_128("\x1f".join(map(str, parts)).encode()).hexdigest()


def unit_rows(embeddings: torch.Tensor) -> torch.Tensor:
    """Any-dtype (n, d) tensor → float32 rows of unit length, with gradients."""
    import torch

    return torch.nn.functional.normalize(embeddings.to(torch.float32), dim=-1)


def to_unit_rows(embeddings: torch.Tensor) -> np.ndarray:
    """Any-dtype (n, d) tensor → float32 NumPy rows of unit length."""
    return unit_rows(embeddings.detach()).cpu().numpy()


def pad_batch(ids: Sequence[Sequence[int]], pad_id: int, length: int | None = None) -> tuple[Any, Any]:
    """Token ids → int64 (n, L) ids and mask (1 token, 0 padding); L is the longest length, or `length`."""
    import torch

    width = length or max(map(len, ids))
    padded = torch.full((len(ids), width), pad_id, dtype=torch.long)
    mask = torch.zeros((len(ids), width), dtype=torch.long)
    for row, sequence in enumerate(ids):
        padded[row, : len(sequence)] = torch.as_tensor(sequence, dtype=torch.long)
        mask[row, : len(sequence)] = 1
    return padded, mask


def first_line(error: CapscoreError) -> tuple[Part, ...]:
    """The parts of an error's message up to its first line break."""
    parts: list[Part] = []
    for part in error.parts:
        if isinstance(part, str) and "\n" in part:
            return (*parts, part.partition("\n")[0])
        parts.append(part)
    return tuple(parts)


def as_read(backbone: Backbone, *, unit: bool = True, caption_tokens: int | None = None) -> Backbone:
    """The backbone whose embeddings a network reads.

    Args:
        backbone: Backbone with the towers.
        unit: Whether rows have unit length; otherwise they are as long as the towers give them.
        caption_tokens: Number of tokens, with the special ones, at which texts are cut; None for the
            backbone's context, which is also the maximum.

    Returns:
        The backbone itself if there is nothing to change.

    Raises:
        CapscoreError: the backbone gives only rows of unit length, or its special tokens leave no room.

    >>> from capscore import load_backbone
    >>> as_read(load_backbone("embedded", device="cpu"), caption_tokens=8).tokenize(["a dog " * 9]).truncated
    array([ True])
    """
    if unit and (caption_tokens is None or caption_tokens >= backbone.max_tokens):
        return backbone
    return _FeatureBackbone(backbone, unit, caption_tokens)


class _FeatureBackbone(Backbone):
    """See `as_read`. Unlike other backbones', its rows may have any length."""

    def __init__(self, backbone: Backbone, unit: bool, caption_tokens: int | None):
        if not unit and type(backbone).token_features is Backbone.token_features:
            backbone.token_features([])  # raises
        self._backbone, self.unit_rows = backbone, unit
        self.name, self.revision, self.recipe = backbone.name, backbone.revision, backbone.recipe
        self.dim, self.prefix, self.logit_scale = backbone.dim, backbone.prefix, backbone.logit_scale
        self.languages, self.dtype, self.device = backbone.languages, backbone.dtype, backbone.device
        self.w, self.has_feature_map = backbone.w, backbone.has_feature_map and unit
        self.text_batch = backbone.text_batch
        self.max_tokens = min(caption_tokens or backbone.max_tokens, backbone.max_tokens)
        self._after: list[int] = []
        if self.max_tokens < backbone.max_tokens:
            before, self._after = backbone.special_tokens()
            if len(before) + len(self._after) >= self.max_tokens:
                raise CapscoreError(
                    Setting("caption_tokens", caption_tokens),
                    f": {backbone.name!r} puts {len(before) + len(self._after)} special tokens around a text",
                )
        self.fingerprint = fingerprint_of(backbone.fingerprint, "unit" if unit else "raw", self.max_tokens)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return self._backbone.preprocess(image)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return (
            self._backbone.encode_pixels(pixels) if self.unit_rows else self._backbone.pixel_features(pixels)
        )

    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._backbone.feature_maps(pixels)

    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        return self._backbone.encode_maps(maps)

    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self._backbone.encode_map_regions(maps, boxes)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        whole, most = self._backbone.tokenize(texts), self.max_tokens
        long = np.array([len(ids) > most for ids in whole.ids], dtype=bool)
        kept = most - len(self._after)
        ids = [
            [*row[:kept], *self._after] if too_long else row
            for row, too_long in zip(whole.ids, long, strict=True)
        ]
        return Tokens(ids, whole.truncated | long)

    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        return self._backbone.encode_tokens(ids) if self.unit_rows else self._backbone.token_features(ids)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self._backbone.piece_spans(texts)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        return self._backbone.special_tokens()


# how deep networks lie in the objects that hold them: backbone → tower → network
_DEPTH = 4


def count_weights(backbone: Backbone) -> int:
    """Number of weights of all networks of a backbone, frozen ones included, each once.

    Counted are parameters, and the frozen tables that capscore's own networks hold as buffers. A backbone
    without networks has 0.

    >>> count_weights(load_backbone("embedded-free"))                               # doctest: +SKIP
    75077498
    """
    sizes = {
        tensor.data_ptr(): tensor.numel()
        for network in _networks(backbone, set(), _DEPTH)
        for tensor in (*network.parameters(), *(network.buffers() if _is_own(network) else ()))
    }
    return sum(sizes.values())


def _is_own(held: Any) -> bool:
    return type(held).__module__.startswith(__name__.partition(".")[0] + ".")


def _networks(held: Any, seen: set[int], depth: int) -> Iterator[torch.nn.Module]:
    import torch

    if depth == 0 or id(held) in seen:
        return
    seen.add(id(held))
    if isinstance(held, torch.nn.Module):
        yield held
    elif isinstance(held, Backbone) or _is_own(held):
        for value in getattr(held, "__dict__", {}).values():
            yield from _networks(value, seen, depth - 1)


@dataclass(frozen=True)
class Judgement:
    """The verdict on a text.

    Attributes:
        kept: Share of its score that the text keeps, from 0 to 1; of a long text, the mean over its
            sentences by their lengths.
        kinds: Kind of noise, and "none" → probability; they sum to 1.
    """

    kept: float
    kinds: dict[str, float]

    @property
    def kind(self) -> str:
        """The most likely kind of noise, "none" if nothing is likely wrong."""
        return max(self.kinds, key=self.kinds.__getitem__)


def verdict_width(kinds: Sequence[str]) -> int:
    """Length of a verdict as numbers: the kept share, and the probability of each kind; 0 without kinds."""
    return 1 + len(kinds) if kinds else 0


def judgements(verdicts: np.ndarray, kinds: Sequence[str]) -> list[Judgement]:
    """Verdicts as numbers, (n, 1 + k), as `Backbone.encode_judged` gives them → n judgements.

    >>> judgements(np.array([[0.25, 0.125, 0.875]]), ("none", "jumble"))[0].kind
    'jumble'
    """
    return [Judgement(kept, dict(zip(kinds, row, strict=True))) for kept, *row in verdicts.tolist()]
