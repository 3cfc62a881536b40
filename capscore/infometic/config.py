"""Configuration of an InfoMetIC network: sizes, switches, and the backbone that it was trained on."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, Setting

if TYPE_CHECKING:
    from ..backbones.base import Backbone

# Fields that came after version 0.1; their defaults are what networks did before.
_ADDED = frozenset(("pad_token", "frame", "caption_tokens", "unit_inputs", "prefix"))

# Largest whole numbers: far above any network, and far below what fills a machine's memory.
_MOST = {"dim": 2**14, "width": 2**14, "context_width": 2**14, "intra_layers": 100, "inter_layers": 100}
_MOST_OF_OTHERS = 2**20


@dataclass(frozen=True)
class InfoMetICConfig:
    """Configuration of an InfoMetIC network, and the backbone that it was trained on.

    The defaults are those of the paper (Hu et al. 2023, sections 3.1 and 4.1). There is a switch for every
    difference from the authors' public code; `released` sets all of them as in that code.

    Attributes:
        dim: Length d of the backbone's embeddings.
        width: Length of the network's own vectors, for smaller weights; None for d. With a number, there is a
            linear layer into the network and one out of it for each modality.
        heads: Number of attention heads; divides the width.
        intra_layers: Number of transformer layers over the image tokens, and over the text tokens; may be 0.
        inter_layers: Number of transformer layers over both; may be 0.
        shared_norm: Whether the three transformers share one final layer norm (public code).
        mask_padding: Whether the end of a short text is left empty, and masked. If not (public code), every
            text is filled up to `max_tokens`, and the transformers attend to the filling. In neither case do
            scores depend on the other captions, nor on the number of regions of other images.
        pad_token: Id of the token that fills texts up, encoded alone as pieces are (public code: 0); None for
            zero vectors. Needs `mask_padding` to be false.
        frame: Whether the special tokens around a caption, each encoded alone as pieces are, stand before and
            after its pieces (public code). They have no score, and count in `max_tokens`.
        text_positions: Whether pieces have learned positions (paper; not in the public code).
        box_positions: Whether regions have positions, by a linear layer from their boxes.
        global_box: Whether the whole image has the position of the box (0, 0, 1, 1) (public code).
        global_in_fusion: Whether the whole image is a token of the transformers (it is never scored).
        null_token: Whether there is a zero vector besides the regions, for captions that mention none of
            them.
        input_scale: Factor on embeddings. The paper uses CLIP's embeddings, of a length of about 10; those of
            backbones have unit length, unless `unit_inputs` is false.
        context_width: Hidden width of a part, not in the paper, that scores words by what each adds to its
            caption (`capscore.infometic.alignment.WordContext`); with it, only pieces of semantic words have
            a score. It helps with sentence encoders, but not with text towers that embed single words well.
            None for no such part.
        sharpness: Factor on the products of the image with the pieces before the softmax, 1 in the paper.
            Training may set it so that few correct words fall below β.
        n_regions: Number of regions per image in training; scoring may use any number.
        max_tokens: Maximum number of pieces per text, with the frame if there is one.
        caption_tokens: Number of tokens, with the special ones, at which a caption is cut before it is
            embedded as a whole (public code: 32); None for the context of the backbone.
        unit_inputs: Whether embeddings come with unit length. The public code reads them as the backbone's
            towers give them.
        prefix: Text before captions that are embedded as a whole, "" for none (public code); None for the
            backbone's own.
        backbone: Name of the backbone; "" if not known.
        backbone_revision: `Backbone.revision` of the backbone; "" if not known.
        backbone_fingerprint: `Backbone.fingerprint` of the backbone; "" if not known.

    Raises:
        CapscoreError: a value has the wrong type or is out of range.

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
    pad_token: int | None = None
    frame: bool = False
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
    caption_tokens: int | None = None
    unit_inputs: bool = True
    prefix: str | None = None
    backbone: str = ""
    backbone_revision: str = ""
    backbone_fingerprint: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_field(field.name, str(field.type), getattr(self, field.name))
        if self.inner_width % self.heads:
            raise CapscoreError(
                Setting("heads", self.heads), f" does not divide the width {self.inner_width}"
            )
        if self.pad_token is not None and self.mask_padding:
            raise CapscoreError(
                Setting("pad_token", self.pad_token),
                " has no effect with ",
                Setting("mask_padding", True),
                ": nothing attends to what is masked",
            )

    @property
    def inner_width(self) -> int:
        """Length of the network's own vectors."""
        return self.dim if self.width is None else self.width

    def released(self) -> InfoMetICConfig:
        """The same configuration with every switch as in the authors' public code.

        Sizes (`dim`, `heads`, numbers of layers, `max_tokens`) stay; parts that the public code lacks are
        left out. `capscore.metrics.infometic.InfoMetIC` follows all of them, so that its scores are those of
        the public code for the same features and boxes.

        >>> released = InfoMetICConfig().released()
        >>> released.frame, released.pad_token, released.caption_tokens, released.unit_inputs
        (True, 0, 32, False)
        """
        return replace(
            self,
            width=None,
            shared_norm=True,
            mask_padding=False,
            pad_token=0,
            frame=True,
            text_positions=False,
            box_positions=True,
            global_box=True,
            global_in_fusion=True,
            null_token=True,
            input_scale=1.0,
            context_width=None,
            sharpness=1.0,
            caption_tokens=self.max_tokens,
            unit_inputs=False,
            prefix="",
        )

    @property
    def reading(self) -> str:
        """How captions and images are read where it differs from the defaults, for signatures.

        >>> InfoMetICConfig().reading, InfoMetICConfig().released().reading
        ('', 'frame,pad=0,32+32tokens,raw')
        """
        parts = {
            "frame": self.frame,
            f"pad={'zeros' if self.pad_token is None else self.pad_token}": not self.mask_padding,
            f"{self.max_tokens}+{self.caption_tokens}tokens": self.caption_tokens is not None,
            "raw": not self.unit_inputs,
        }
        return ",".join(part for part, holds in parts.items() if holds)

    def on(self, backbone: Backbone) -> InfoMetICConfig:
        """The same configuration for a backbone, whose identity is recorded."""
        return replace(
            self,
            dim=backbone.dim,
            backbone=backbone.name,
            backbone_revision=backbone.revision,
            backbone_fingerprint=backbone.fingerprint,
        )

    def check_backbone(self, backbone: Backbone) -> None:
        """Raise unless weights with this configuration are for a backbone.

        They are if dim and either fingerprint or revision are equal: the fingerprint also changes with the
        backbone's dtype and the version of its library, which do not change the backbone's weights. A
        configuration that records neither fits every backbone of its dim.

        Raises:
            CapscoreError: the weights are for another backbone.
        """
        made_for = " @ ".join(part for part in (self.backbone, self.backbone_revision) if part)
        made_for = made_for or "an unnamed backbone"
        given = f"{backbone.name} @ {backbone.revision}"
        if backbone.dim != self.dim:
            raise CapscoreError(
                f"the InfoMetIC weights were made for embeddings of length {self.dim} ({made_for}); "
                f"the embeddings of {given} have length {backbone.dim}"
            )
        both = (
            (self.backbone_revision, backbone.revision),
            (self.backbone_fingerprint, backbone.fingerprint),
        )
        recorded = [(mine, other) for mine, other in both if mine]
        if recorded and not any(mine == other for mine, other in recorded):
            raise CapscoreError(
                f"the InfoMetIC weights were made for {made_for}, not for {given}: "
                "use that backbone, or weights for this one"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def identity(self) -> dict[str, Any]:
        """`to_dict` for fingerprints, which stay the same when a later version adds a field.

        >>> "frame" in InfoMetICConfig().identity(), "frame" in InfoMetICConfig(frame=True).identity()
        (False, True)
        """
        defaults = {field.name: field.default for field in fields(self)}
        return {
            name: value
            for name, value in self.to_dict().items()
            if name not in _ADDED or value != defaults[name]
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> InfoMetICConfig:
        """A configuration from the values of `to_dict`; values that are left out are the paper's.

        Raises:
            CapscoreError: an unknown name, or a value of the wrong type or out of range.

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
    elif kind in ("str", "str | None"):
        right = isinstance(value, str) or (value is None and kind != "str")
        expected = "a string" + ("" if kind == "str" else ", or None")
    elif kind == "float":
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        right, expected = is_number and 0 < value < math.inf, "a number above 0"
    else:
        least = 0 if name in ("intra_layers", "inter_layers", "pad_token") else 1
        most = _MOST.get(name, _MOST_OF_OTHERS)
        is_whole = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        right = is_whole or (value is None and kind == "int | None")
        expected = f"a whole number, at least {least}" + (", or None" if kind == "int | None" else "")
        if isinstance(value, int) and value > most:
            expected = f"at most {most:,}"
    if not right:
        raise CapscoreError(Setting(name, value), f": expected {expected}")
