"""InfoMetIC's network: embeddings of image, regions, caption and pieces → token scores, recall, precision."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ..backbones.base import Backbone, fingerprint_of, resolve_device, tensors_digest
from ..backbones.checkpoint import CONFIG, built, find_folder, read_network, write_network
from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting
from ..files.shipped import weights_folder

MODEL_TYPE = "infometic"
INFO_CLIP = "info_clip"
# Backbone's name → folder with its weights in the distribution capscore-weights.
INSTALLED = {"embedded": "infometic"}
# CLIP's factor on cosines, for backbones that were trained without one.
_CLIP_SCALE = 100.0
_FORMAT = 1
# Entries of config.json besides the fields of the config.
_RECORD = ("model_type", "format", "dtype", "weights", "notes")
# Fields that came after version 0.1; their defaults are what networks did before.
_ADDED_FIELDS = frozenset(("pad_token", "frame", "caption_tokens", "unit_inputs", "prefix"))
# Least and largest sizes: far above any network, and far below what fills a machine's memory.
_SIZES = {
    **dict.fromkeys(("dim", "width", "context_width"), (1, 2**14)),
    **dict.fromkeys(("intra_layers", "inter_layers"), (0, 100)),
    "pad_token": (0, 2**20),
}
_FIRST_SCALE = 1 / 0.07
_POSITION_STD = 0.01
# For networks that read words: initial factor on the cosine that a word adds, and factor by which the part
# with the transformers starts smaller.
_FIRST_WORD_SCALE = 5.0
_QUIET = 0.1


@dataclass(frozen=True)
class InfoMetICConfig:
    """Configuration of an InfoMetIC network, and the backbone that it was trained on.

    The defaults are those of the paper (Hu et al. 2023, sections 3.1 and 4.1); `released` gives those of the
    authors' public code.

    Attributes:
        dim: Length d of the backbone's embeddings.
        width: Length of the network's own vectors, for smaller weights; None for d.
        intra_layers: Number of transformer layers over the image tokens, and over the text tokens; may be 0.
        inter_layers: Number of transformer layers over both; may be 0.
        shared_norm: Whether the three transformers share one final layer norm (public code).
        mask_padding: Whether the end of a short text is masked. If not (public code), every text is filled up
            to `max_tokens`, and the transformers attend to the filling.
        pad_token: Id of the token that fills texts up (public code: 0); None for zero vectors. Needs
            `mask_padding` to be false.
        frame: Whether the special tokens around a caption stand before and after its pieces (public code).
            They have no score, and count in `max_tokens`.
        text_positions: Whether pieces have learned positions (paper; not in the public code).
        box_positions: Whether regions have positions, by a linear layer from their boxes.
        global_box: Whether the whole image has the position of the box (0, 0, 1, 1) (public code).
        global_in_fusion: Whether the whole image is a token of the transformers (it is never scored).
        null_token: Whether there is a zero vector besides the regions, for captions that mention none.
        input_scale: Factor on embeddings, since CLIP's have a length of about 10.
        context_width: Hidden width of a part, not in the paper, that scores words by what each adds to its
            caption (`WordContext`); with it, only pieces of semantic words have a score. None for no such
            part.
        sharpness: Factor on the products of the image with the pieces before the softmax, 1 in the paper.
        n_regions: Number of regions per image in training; scoring may use any number.
        max_tokens: Maximum number of pieces per text, with the frame if there is one.
        caption_tokens: Number of tokens at which a whole caption is cut (public code: 32); None for the
            context of the backbone.
        unit_inputs: Whether embeddings come with unit length, unlike in the public code.
        prefix: Text before whole captions (public code: ""); None for the backbone's own.
        backbone, backbone_revision, backbone_fingerprint: Identity of the backbone; "" if not known.
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
                Setting("pad_token", self.pad_token), " has no effect with ", Setting("mask_padding", True)
            )

    @property
    def inner_width(self) -> int:
        return self.dim if self.width is None else self.width

    def released(self) -> InfoMetICConfig:
        """The same sizes with every switch as in the authors' public code, so that scores are the same."""
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
        """How captions and images are read where it differs from the defaults, for signatures."""
        parts = []
        if self.frame:
            parts.append("frame")
        if not self.mask_padding:
            parts.append(f"pad={'zeros' if self.pad_token is None else self.pad_token}")
        if self.caption_tokens is not None:
            parts.append(f"{self.max_tokens}+{self.caption_tokens}tokens")
        if not self.unit_inputs:
            parts.append("raw")
        return ",".join(parts)

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
        """Raise CapscoreError unless dim and either fingerprint or revision, where recorded, are equal."""
        recorded = {self.backbone_revision, self.backbone_fingerprint} - {""}
        same = not recorded or recorded & {backbone.revision, backbone.fingerprint}
        if backbone.dim != self.dim or not same:
            made_for = " @ ".join(part for part in (self.backbone, self.backbone_revision) if part)
            raise CapscoreError(
                f"the InfoMetIC weights were made for {made_for or 'an unnamed backbone'}, not for "
                f"{backbone.name} @ {backbone.revision}: use that backbone, or weights for this one (length "
                f"of the embeddings: {self.dim}, not {backbone.dim})"
            )

    def identity(self) -> dict[str, object]:
        """The values for fingerprints, which stay the same when a later version adds a field."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in _ADDED_FIELDS or getattr(self, field.name) != field.default
        }


def _check_field(name: str, kind: str, value: Any) -> None:
    """Raise CapscoreError if a field of the config has the wrong type or is out of range."""
    if kind.endswith(" | None") and value is None:
        return
    low, high = _SIZES.get(name, (1, 2**20))
    fits, expected = {
        "int": (type(value) is int and low <= value <= high, f"a whole number from {low} to {high:,}"),
        "float": (type(value) in (int, float) and 0 < value < math.inf, "a number above 0"),
        "bool": (type(value) is bool, "true or false"),
        "str": (type(value) is str, "a string"),
    }[kind.removesuffix(" | None")]
    if not fits:
        raise CapscoreError(Setting(name, value), f": expected {expected}")


@dataclass(frozen=True)
class States:
    """States of n images of m regions, without their captions, or of n texts of l pieces; len() is n.

    Attributes:
        global_: (n, d), embeddings of the whole images or texts.
        query: (n, width), vectors that are compared with the tokens of the other kind.
        tokens: (n, 1 + m + 1, width), states of whole image, regions and null token; or (n, l or more,
            width), states of the pieces, and of what fills the text up.
        attended: bool, as long as `tokens`: those that the transformer over both kinds attends to.
        scored: bool (n, m + 1), existing regions and the null token; or (n, l), pieces that get a score.
        words, hidden: (n, d) and (n, h) of images, (n, l, d) and (n, l, h) of texts: what words add to their
            texts, and what that is compared with; None if no words are read.
        log_weight: (n, l), of the pieces of texts; None for images, and if no words are read.
    """

    global_: Tensor
    query: Tensor
    tokens: Tensor
    attended: Tensor
    scored: Tensor
    words: Tensor | None = None
    hidden: Tensor | None = None
    log_weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.global_)

    def take(self, index: Tensor) -> States:
        """The states at indices (p,), as p images or texts."""
        present = {name: part for name, part in vars(self).items() if part is not None}
        return replace(self, **{name: part[index] for name, part in present.items()})


@dataclass(frozen=True)
class WordContext:
    """What words add to their n texts of at most l pieces (`capscore.infometic.words.added_by_words`).

    Attributes:
        added: (n, l, d), embedding of the text minus that of the text without the piece's word; 0 for pieces
            outside semantic words.
        weight: (n, l) in [0, 1]. The pieces of a semantic word share a weight of 1; others have weight 0 and
            no score. In a text without semantic words all pieces count.
    """

    added: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Alignment:
    """Scores of p pairs of an image and a text.

    Attributes:
        region_scores: (p, m + 1) in [0, 1], the null token last; rows sum to 1, or are all 0 without regions
            and null token. Masked scores are exactly 0.
        token_scores: (p, l) in [0, 1], likewise.
        recall: (p,), scale × cosine of the mean region, weighted by region scores, with the whole image; 0 if
            all region scores are 0.
        precision: (p,), likewise for pieces and the whole text.
    """

    region_scores: Tensor
    token_scores: Tensor
    recall: Tensor
    precision: Tensor

    @property
    def overall(self) -> Tensor:
        """(p,): recall + precision (Hu et al. 2023, equation 4)."""
        return self.recall + self.precision


class InfoMetIC(nn.Module):
    """The network of InfoMetIC (Hu et al. 2023, section 3.1), to be trained or loaded with `from_pretrained`.

    New networks have random weights; call `torch.manual_seed` first to reproduce them.

    Attributes:
        name: Name that it was loaded by; "" for a new network.
        revision: Commit, or a digest of the weights ("w" and eight hexadecimal digits); "" for a new network.
        notes: Notes recorded when it was saved; empty for a new network.

    >>> _ = torch.manual_seed(0)
    >>> model = InfoMetIC(InfoMetICConfig(dim=8, heads=2, intra_layers=1, inter_layers=1)).eval()
    >>> images = model.encode_images(
    ...     torch.eye(8)[:2], torch.randn(2, 3, 8), torch.rand(2, 3, 4), torch.ones(2, 3).bool()
    ... )
    >>> texts = model.encode_texts(torch.eye(8)[2:4], torch.randn(2, 5, 8), torch.ones(2, 5).bool())
    >>> tuple(model.pairs(images, texts, [0, 1, 1], [0, 0, 1]).region_scores.shape)
    (3, 4)
    """

    def __init__(self, config: InfoMetICConfig) -> None:
        super().__init__()
        self.config = config
        self.name, self.revision = "", ""
        self.notes: dict[str, object] = {}
        dim, width = config.dim, config.inner_width
        if config.width is not None:
            self.image_in, self.text_in = (nn.Linear(dim, width, bias=False) for _ in range(2))
            self.image_out, self.text_out = (nn.Linear(width, dim, bias=False) for _ in range(2))
        if config.box_positions:
            self.box_position = nn.Linear(4, width, bias=False)
        if config.text_positions:
            self.text_position = nn.Parameter(torch.empty(config.max_tokens, width))
        self.image_layers = _layers(config, config.intra_layers)
        self.text_layers = _layers(config, config.intra_layers)
        self.inter_layers = _layers(config, config.inter_layers)
        depths = {"image": config.intra_layers, "text": config.intra_layers, "inter": config.inter_layers}
        names = [name for name, depth in depths.items() if depth]
        if config.shared_norm and names:
            names = ["all"]
        self.norms = nn.ModuleDict({name: nn.LayerNorm(width) for name in names})
        self.region_query, self.token_query = (nn.Linear(dim, width, bias=False) for _ in range(2))
        self.region_key, self.token_key = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.log_scale = nn.Parameter(torch.tensor(math.log(_FIRST_SCALE)))
        if config.context_width is not None:
            hidden = config.context_width
            self.word_query = nn.Linear(dim, dim, bias=False)
            self.word_image, self.word_text, self.word_alone, self.word_added = (
                nn.Linear(dim, hidden, bias=name == "image") for name in ("image", "text", "alone", "added")
            )
            self.word_hidden, self.word_out = nn.Linear(hidden, hidden), nn.Linear(hidden, 1, bias=False)
        self._initialise()

    def _initialise(self) -> None:
        config = self.config
        for layers in (self.image_layers, self.text_layers, self.inter_layers):
            for layer in layers:
                cast(_Layer, layer).initialise(len(layers))  # a ModuleList does not say what it holds
        linears = [self.region_query, self.token_query, self.region_key, self.token_key]
        if config.width is not None:
            linears += [self.image_in, self.text_in, self.image_out, self.text_out]
        for linear in linears:
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        if config.box_positions:
            nn.init.normal_(self.box_position.weight, std=_POSITION_STD)
        if config.text_positions:
            nn.init.normal_(self.text_position, std=_POSITION_STD)
        if config.context_width is not None:
            # start from a cue without training: the loss of cosine with the image if the word is left out
            nn.init.eye_(self.word_query.weight)
            self.word_query.weight.data *= _FIRST_WORD_SCALE
            self.token_query.weight.data *= _QUIET

    @property
    def reads_words(self) -> bool:
        """Whether `encode_texts` needs the context of the words."""
        return self.config.context_width is not None

    @property
    def scale(self) -> Tensor:
        """Learned factor on cosines, the paper's 1/τ, starting at 1/0.07."""
        return self.log_scale.exp()

    def fingerprint(self) -> str:
        """Digest (32 hexadecimal digits) of the config and the present weights."""
        return fingerprint_of(
            json.dumps(self.config.identity(), sort_keys=True), tensors_digest(self.state_dict())
        )

    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> States:
        """States of images, computed without texts.

        Args:
            global_: (n, d), the backbone's embeddings of whole images.
            regions: (n, m, d), embeddings of their regions, each cut out and embedded alone.
            boxes: (n, m, 4), left, top, right, bottom as shares of the image's width and height.
            mask: bool (n, m), False for padding.
        """
        config, dtype = self.config, self.log_scale.dtype
        scaled, mask = global_.to(dtype) * config.input_scale, mask.bool()
        regions = blank(regions, mask).to(dtype) * config.input_scale
        sequence = torch.cat([scaled[:, None], regions, torch.zeros_like(scaled[:, None])], dim=1)
        if config.width is not None:
            sequence = self.image_in(sequence)
        if config.box_positions:
            # neither the null token nor, in the paper, the whole image has a position
            boxes = functional.pad(blank(boxes, mask).to(dtype), (0, 0, 1, 1))
            if config.global_box:
                boxes[:, 0] = boxes.new_tensor([0.0, 0.0, 1.0, 1.0])
            sequence = sequence + self.box_position(boxes)
        scored = functional.pad(mask, (0, 1), value=config.null_token)
        attended = functional.pad(scored, (1, 0), value=config.global_in_fusion)
        words = hidden = None
        if self.reads_words:
            words, hidden = self.word_query(global_.to(dtype)), self.word_image(scaled)
        return States(
            global_=global_.to(dtype),
            query=self.token_query(scaled) @ self.token_key.weight,
            tokens=self._through("image", self.image_layers, sequence, attended),
            attended=attended,
            scored=scored,
            words=words,
            hidden=hidden,
        )

    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> States:
        """States of texts, computed without images.

        Args:
            global_: (n, d), the backbone's embeddings of whole texts.
            tokens: (n, l, d), embeddings of their pieces, each embedded alone.
            mask: bool (n, l), False for padding.
            scored: bool (n, l), pieces that get a score, unlike special tokens; None for all.
        """
        config, dtype = self.config, self.log_scale.dtype
        needs_places = config.text_positions or not config.mask_padding
        if needs_places and tokens.shape[1] > config.max_tokens:
            raise InputError(
                f"texts of {tokens.shape[1]} pieces, including padding: expected at most {config.max_tokens}"
            )
        scaled, mask = global_.to(dtype) * config.input_scale, mask.bool()
        alone = blank(tokens, mask).to(dtype) * config.input_scale
        scored = mask if scored is None else mask & scored.bool()
        added = hidden = log_weight = None
        if self.reads_words:
            if context is None:
                raise InputError("these weights read what each word adds to its text and need a WordContext")
            added = blank(context.added, mask).to(dtype)
            hidden = (
                self.word_text(scaled)[:, None]
                + self.word_alone(alone)
                + self.word_added(added * config.input_scale)
            )
            weight = context.weight.to(dtype).masked_fill(~scored, 0.0)
            # in a text without semantic words all pieces count
            weight = torch.where(weight.any(dim=1, keepdim=True), weight, scored.to(dtype))
            scored = weight > 0
            log_weight = weight.masked_fill(~scored, 1.0).log()
        sequence, attended = alone, mask
        if not config.mask_padding:
            # always the same length, or else the scores would depend on the longest text of the batch
            sequence = functional.pad(alone, (0, 0, 0, config.max_tokens - tokens.shape[1]))
            attended = mask.new_ones(len(mask), config.max_tokens)
        if config.width is not None:
            sequence = self.text_in(sequence)
        if config.text_positions:
            sequence = sequence + self.text_position[: sequence.shape[1]]
        return States(
            global_=global_.to(dtype),
            query=self.region_query(scaled) @ self.region_key.weight,
            tokens=self._through("text", self.text_layers, sequence, attended),
            attended=attended,
            scored=scored,
            words=added,
            hidden=hidden,
            log_weight=log_weight,
        )

    def pairs(
        self,
        images: States,
        texts: States,
        image_index: Tensor | Sequence[int],
        text_index: Tensor | Sequence[int],
    ) -> Alignment:
        """Scores of p pairs, which are given by the indices of their images and texts."""
        device = images.tokens.device
        first, second = (torch.as_tensor(index, device=device).long() for index in (image_index, text_index))
        return self._align(images.take(first), texts.take(second))

    def _align(self, images: States, texts: States) -> Alignment:
        """Scores of p images with p texts, row by row."""
        n_image = images.tokens.shape[1]
        both = torch.cat([images.tokens, texts.tokens], dim=1)
        attended = torch.cat([images.attended, texts.attended], dim=1)
        both = self._through("inter", self.inter_layers, both, attended)
        # what fills a text up comes after its pieces
        regions, tokens = both[:, 1:n_image], both[:, n_image : n_image + texts.scored.shape[1]]
        # (q W_q) · (k W_k) as (q W_q W_kᵀ) · k: one product per image and text, not per token
        region_scores = softmax_over(products(texts.query, regions), images.scored)
        asked = products(images.query, tokens)
        if images.words is not None and texts.words is not None:
            asked = asked + products(images.words, texts.words)
        if images.hidden is not None and texts.hidden is not None:
            hidden = functional.gelu(images.hidden[:, None] + texts.hidden)
            asked = asked + self.word_out(functional.gelu(self.word_hidden(hidden)))[..., 0]
        asked = asked * self.config.sharpness
        if texts.log_weight is not None:
            asked = asked + texts.log_weight
        token_scores = softmax_over(asked, texts.scored)
        seen, read = mean_by(region_scores, regions), mean_by(token_scores, tokens)
        if self.config.width is not None:
            seen, read = self.image_out(seen), self.text_out(read)
        return Alignment(
            region_scores,
            token_scores,
            recall=self.scale * cosine(seen, images.global_),
            precision=self.scale * cosine(read, texts.global_),
        )

    def all_pairs(self, images: States, texts: States, chunk: int | None = None) -> tuple[Tensor, Tensor]:
        """Recall (a, b) and precision (a, b) of each of a images with each of b texts.

        `chunk` is the maximum number of pairs at a time, which bounds the memory; with gradients, each chunk
        is computed again in the backward pass. None for all pairs at once.
        """
        n_texts = len(texts)
        every = torch.arange(len(images) * n_texts, device=images.tokens.device)
        chunks = every.split(chunk) if chunk and len(every) else (every,)

        def score(pair: Tensor) -> tuple[Tensor, Tensor]:
            found = self._align(images.take(pair // n_texts), texts.take(pair % n_texts))
            return found.recall, found.precision

        recompute = len(chunks) > 1 and torch.is_grad_enabled()
        parts = [
            checkpoint(score, part, use_reentrant=False) if recompute else score(part) for part in chunks
        ]
        recall, precision = (torch.cat(part).view(len(images), n_texts) for part in zip(*parts, strict=True))
        return recall, precision

    def _through(self, name: str, layers: nn.ModuleList, sequence: Tensor, attended: Tensor) -> Tensor:
        if not len(layers):
            return sequence
        # A row with nothing to attend to would be NaN, although its states are not used.
        mask = (attended | ~attended.any(dim=1, keepdim=True))[:, None, None]
        for layer in layers:
            sequence = layer(sequence, mask)
        return self.norms["all" if self.config.shared_norm else name](sequence)

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        dtype: str = "float32",
        notes: Mapping[str, object] | None = None,
    ) -> None:
        """Write config.json and model.safetensors, which `from_pretrained` reads.

        Args:
            dtype: "float32", or "float16" for half the size.
            notes: Anything worth recording, ready for JSON; None for the notes that it was loaded with.
        """
        record = {"model_type": MODEL_TYPE, "format": _FORMAT, **asdict(self.config)}
        record["notes"] = dict(self.notes if notes is None else notes)
        write_network(folder, self, record, dtype)

    @classmethod
    def from_pretrained(
        cls,
        spec: str | os.PathLike[str],
        *,
        revision: str | None = None,
        backbone: Backbone | None = None,
        device: str | None = "cpu",
    ) -> InfoMetIC:
        """Load a network from `save_pretrained`, in float32 and in eval mode.

        Args:
            spec: Folder, or Hub id of a model ("org/name"), which "@revision" may follow.
            backbone: Backbone that the embeddings will come from, to check that the weights are for it.

        Raises:
            BackboneUnavailable: the weights are missing, damaged, or do not fit their config.
            CapscoreError: the weights are for another backbone.
        """
        folder, name, commit = find_folder(spec, revision)
        content, state = read_network(folder, MODEL_TYPE, _FORMAT)
        try:
            config = InfoMetICConfig(**{name: content[name] for name in content if name not in _RECORD})
        except (CapscoreError, TypeError) as error:  # a wrong value, or an unknown name
            raise BackboneUnavailable(f"{folder / CONFIG}: {error}") from None
        if backbone is not None:
            config.check_backbone(backbone)
        model = built(folder, state, asdict(config), lambda: cls(config))
        model.name, model.notes = name, content["notes"]
        model.revision = commit or f"w{model.fingerprint()[:8]}"
        return model.to(resolve_device(device))


class InfoCLIP(InfoMetIC):
    """The baseline without training (Hu et al. 2023, appendix D): scores directly from the embeddings.

    It has no transformers, and boxes are not used. The null token is a zero vector, so its product is 0.

    Args:
        sharpness: Factor on the products of query and tokens before the softmax; 100 for embeddings of unit
            length is the same as 1 for CLIP's, of a length of about 10.
        scale: Factor on cosines in recall and precision, CLIP's `logit_scale`.
    """

    def __init__(self, dim: int, sharpness: float = 100.0, scale: float = 100.0) -> None:
        config = InfoMetICConfig(dim, heads=1, intra_layers=0, inter_layers=0, input_scale=1.0)
        super().__init__(replace(config, text_positions=False, box_positions=False))
        self._scale = float(scale)
        for query, key in ((self.region_query, self.region_key), (self.token_query, self.token_key)):
            query.weight.data = sharpness * torch.eye(dim)
            key.weight.data = torch.eye(dim)
        self.requires_grad_(False)

    @property
    def scale(self) -> Tensor:
        return self.log_scale.new_tensor(self._scale)


def _layers(config: InfoMetICConfig, depth: int) -> nn.ModuleList:
    return nn.ModuleList(_Layer(config.inner_width, config.heads) for _ in range(depth))


class _Layer(nn.Module):
    """A transformer layer with pre-normalisation, QuickGELU and a hidden layer of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention_in, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def initialise(self, depth: int) -> None:
        """Initial weights like those of CLIP's text tower: residual branches shrink with the depth."""
        width = self.attention_out.in_features
        added = width**-0.5 * (2 * depth) ** -0.5
        linears = (self.attention_in, self.attention_out, self.mlp_in, self.mlp_out)
        for linear, std in zip(linears, (width**-0.5, added, (2 * width) ** -0.5, added), strict=True):
            nn.init.normal_(linear.weight, std=std)
            nn.init.zeros_(linear.bias)

    def forward(self, sequence: Tensor, mask: Tensor) -> Tensor:
        parts = self.attention_in(self.attention_norm(sequence)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        sequence = sequence + self.attention_out(mixed.transpose(1, 2).flatten(2))
        hidden = self.mlp_in(self.mlp_norm(sequence))
        return sequence + self.mlp_out(hidden * torch.sigmoid(1.702 * hidden))


def softmax_over(products: Tensor, scored: Tensor) -> Tensor:
    """Softmax over scored entries: (p, s) and bool (p, s) → (p, s), exactly 0 for other entries."""
    lowest = torch.finfo(products.dtype).min
    return products.masked_fill(~scored, lowest).softmax(dim=-1) * scored


def mean_by(scores: Tensor, tokens: Tensor) -> Tensor:
    """Mean of tokens, weighted by their scores: (p, s) and (p, s, w) → (p, w)."""
    return (scores.to(tokens.dtype)[:, None] @ tokens)[:, 0]


def products(query: Tensor, tokens: Tensor) -> Tensor:
    """Products of each row's query with its tokens: (p, w) and (p, s, w) → (p, s)."""
    return (tokens @ query.to(tokens.dtype)[:, :, None])[:, :, 0]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosines of rows: (p, d) and (p, d) → (p,); 0 if either row is a zero vector."""
    return (_unit(first) * _unit(second)).sum(dim=-1)


def _unit(rows: Tensor) -> Tensor:
    # Divided by the largest number first: a mean dominated by the null token may be too small to be squared.
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    rows = rows / largest.masked_fill(largest == 0, 1.0)
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / length.masked_fill(length == 0, 1.0)


def blank(values: Tensor, mask: Tensor) -> Tensor:
    """Values (n, s, w) with zeros where bool (n, s) is False, so that NaN in padding cannot reach a sum."""
    return values.masked_fill(~mask[..., None], 0.0)


def padded(
    parts: Sequence[np.ndarray], device: str | torch.device, min_length: int = 0
) -> tuple[Tensor, Tensor]:
    """n arrays (s, …) of different lengths → (n, m, …), float32 or int64 with zeros at the end, and a mask.

    The mask is bool (n, m), False for padding; m is the greatest length, and at least `min_length`.
    """
    lengths = np.array([len(part) for part in parts])
    length = max(lengths.max(initial=0), min_length)
    dtype = np.float32 if parts[0].dtype.kind == "f" else np.int64
    batch = np.zeros((len(parts), length, *parts[0].shape[1:]), dtype)
    for row, part in zip(batch, parts, strict=True):
        row[: len(part)] = part
    mask = np.arange(length) < lengths[:, None]
    return torch.from_numpy(batch).to(device), torch.from_numpy(mask).to(device)


def cosine_scale(backbone: Backbone) -> float:
    """Factor on a backbone's cosines of image and caption: its logit scale, or CLIP's 100."""
    return _CLIP_SCALE if backbone.logit_scale == 1.0 else float(backbone.logit_scale)


def load_aligner(weights: str | os.PathLike[str] | None, backbone: Backbone) -> tuple[InfoMetIC, str]:
    """The aligner for a backbone, in eval mode on its device, and the aligner's name for signatures."""
    if weights is None:
        weights = weights_folder(INSTALLED[backbone.name]) if backbone.name in INSTALLED else INFO_CLIP
    if str(weights) == INFO_CLIP:
        return InfoCLIP(backbone.dim, scale=cosine_scale(backbone)).to(backbone.device).eval(), INFO_CLIP
    network = InfoMetIC.from_pretrained(weights, backbone=backbone, device=backbone.device)
    return network, f"{network.name}@{network.revision}"
