"""What an InfoMetIC network is: sizes, a switch for each choice, and the backbone that it was trained on."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError

if TYPE_CHECKING:
    from ..backbones.base import Backbone


@dataclass(frozen=True)
class InfoMetICConfig:
    """What an InfoMetIC network is, and which backbone it was trained on.

    The defaults are those of the paper (Hu et al. 2023, sections 3.1 and 4.1). Where the authors' public code
    differs there is a switch; `released` gives them all as that code has them.

    Attributes:
        dim: length d of the backbone's embeddings.
        width: length of the network's own vectors, for smaller weights; None for d. With a number there is a
            linear layer into the network and one out of it for either modality.
        heads: attention heads; divides the width.
        intra_layers: transformer layers over the image tokens, and as many over the text tokens; 0 for none.
        inter_layers: transformer layers over both; 0 for none.
        shared_norm: one final layer norm for the three transformers (public code) instead of one for each.
        mask_padding: keep padding out of the transformers. The public code does not, so that its scores
            depend on how long the other captions are.
        text_positions: learned positions of the pieces (paper; the public code has none).
        box_positions: a linear layer from a region's box to its position.
        global_box: the whole image has a position as well, that of the box (0, 0, 1, 1) (public code).
        global_in_fusion: the whole image's embedding is a token of the transformers (never a scored one).
        null_token: a zero vector beside the regions, for captions that mention none of them.
        input_scale: what embeddings are multiplied by when they come in. The paper takes CLIP's as they are,
            of a length of about 10; backbones here give rows of unit length.
        context_width: hidden width of a part that the paper does not have, which scores words by what each
            adds to its caption (`capscore.infometic.alignment.WordContext`); with it only pieces of semantic
            words have a score. For text towers that read a piece alone as well as they read a sentence it has
            nothing to add; for sentence encoders it has much. None for none.
        sharpness: what the products of the image with the pieces are multiplied by before the softmax; not in
            the paper, where it is 1. Training may set it, so that few right words fall below β.
        n_regions: how many regions of an image the network was trained with; it takes any number.
        max_tokens: most pieces of a text.
        backbone: its name; "" if not known.
        backbone_revision: its `Backbone.revision`; "" if not known.
        backbone_fingerprint: its `Backbone.fingerprint`; "" if not known.

    Raises:
        CapscoreError: a value of another type or out of range.

    >>> InfoMetICConfig(dim=512, width=128, heads=4).to_dict()["width"]
    128
    >>> InfoMetICConfig(dim=512, heads=12)
    Traceback (most recent call last):
        ...
    capscore.errors.CapscoreError: heads=12 does not divide the width 512
    """

    dim: int = 512
    width: int | None = None
    heads: int = 16
    intra_layers: int = 4
    inter_layers: int = 2
    shared_norm: bool = False
    mask_padding: bool = True
    text_positions: bool = True
    box_positions: bool = True
    global_box: bool = False
    global_in_fusion: bool = True
    null_token: bool = True
    input_scale: float = 10.0
    context_width: int | None = None
    sharpness: float = 1.0
    n_regions: int = 20
    max_tokens: int = 32
    backbone: str = ""
    backbone_revision: str = ""
    backbone_fingerprint: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_field(field.name, str(field.type), getattr(self, field.name))
        if self.inner_width % self.heads:
            raise CapscoreError(f"heads={self.heads} does not divide the width {self.inner_width}")

    @property
    def inner_width(self) -> int:
        """Length of the network's own vectors."""
        return self.dim if self.width is None else self.width

    def released(self) -> InfoMetICConfig:
        """The same with every switch as in the authors' public code.

        Its inputs are CLIP's embeddings as they come, and its sequences of text begin and end with the
        special tokens: pass them to `encode_texts` and leave them out of `scored`.
        """
        return replace(
            self,
            shared_norm=True,
            mask_padding=False,
            text_positions=False,
            box_positions=True,
            global_box=True,
            global_in_fusion=True,
            null_token=True,
        )

    def on(self, backbone: Backbone) -> InfoMetICConfig:
        """The same for the embeddings of a backbone, whose identity is recorded."""
        return replace(
            self,
            dim=backbone.dim,
            backbone=backbone.name,
            backbone_revision=backbone.revision,
            backbone_fingerprint=backbone.fingerprint,
        )

    def check_backbone(self, backbone: Backbone) -> None:
        """Raise unless weights with this config go with a backbone.

        They do if dim and either fingerprint or revision are the same: the fingerprint also changes with the
        dtype that a backbone is loaded in and with the version of its library, neither of which makes other
        weights of it. A config that records neither goes with any backbone of its dim.

        Raises:
            CapscoreError: the embeddings are another backbone's.
        """
        made_for = " @ ".join(part for part in (self.backbone, self.backbone_revision) if part)
        made_for = made_for or "a backbone that they do not name"
        given = f"{backbone.name} @ {backbone.revision}"
        if backbone.dim != self.dim:
            raise CapscoreError(
                f"the InfoMetIC weights were made for embeddings of length {self.dim} ({made_for}); "
                f"those of {given} have length {backbone.dim}"
            )
        recorded = (
            (self.backbone_revision, backbone.revision),
            (self.backbone_fingerprint, backbone.fingerprint),
        )
        recorded = [(mine, other) for mine, other in recorded if mine]
        if recorded and not any(mine == other for mine, other in recorded):
            raise CapscoreError(
                f"the InfoMetIC weights were made for {made_for}, not for {given}: "
                "take that backbone, or weights for this one"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> InfoMetICConfig:
        """What `to_dict` gave; what is left out is as in the paper.

        Raises:
            CapscoreError: an unknown name, or a value of another type or out of range.

        >>> InfoMetICConfig.from_dict({"widht": 64})
        Traceback (most recent call last):
            ...
        capscore.errors.CapscoreError: an InfoMetIC config has no 'widht'; did you mean 'width'?
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise CapscoreError(f"an InfoMetIC config has no {name!r}{hint}")
        return cls(**values)


def _check_field(name: str, kind: str, value: Any) -> None:
    if kind == "bool":
        right, expected = isinstance(value, bool), "true or false"
    elif kind == "str":
        right, expected = isinstance(value, str), "a string"
    elif kind == "float":
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        right, expected = is_number and 0 < value < math.inf, "a number above 0"
    else:
        least = 0 if name in ("intra_layers", "inter_layers") else 1
        is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
        right = is_whole or (value is None and kind == "int | None")
        expected = f"a whole number, at least {least}" + (", or None" if kind == "int | None" else "")
    if not right:
        raise CapscoreError(f"{name}={value!r}: expected {expected}")
