"""`embedded`: images are embedded as by `embedded-free`."""

from __future__ import annotations

from .base import resolve_device, resolve_dtype
from .free import FreeBackbone, load_image_tower
from .use_text import PieceTokenizer, UniversalSentenceEncoder, package_files


def load_embedded(*, device: str | None = None, dtype: str | None = None) -> EmbeddedBackbone:
    """Load `embedded`; arguments and errors are those of `capscore.backbones.free.load_free`."""
    files = package_files()
    return EmbeddedBackbone(
        text=UniversalSentenceEncoder.from_npz(files["weights.npz"]).eval(),
        tokenizer=PieceTokenizer(files["sp.model"]),
        image=load_image_tower(),
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


class EmbeddedBackbone(FreeBackbone):
    """The backbone `embedded`, made by `load_embedded`."""

    name = "embedded"
