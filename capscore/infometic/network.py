"""InfoMetIC's network: embeddings of image, regions, caption and pieces → token scores, recall, precision.

The frozen backbone is not part of the network, which reads its embeddings.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from ..backbones.base import Backbone, fingerprint_of, resolve_device, resolve_dtype, tensors_digest
from ..backbones.checkpoint import (
    in_one_line,
    read_json,
    read_marker,
    read_state_dict,
    refuse_misfit,
    refuse_oversized,
)
from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting
from ..files.whole_file import whole_file, write_text
from .alignment import (
    Aligner,
    Alignment,
    ImageStates,
    TextStates,
    WordContext,
    blank,
    check_context,
    check_images,
    check_texts,
    cosine,
    mean_by,
    products,
    softmax_over,
)
from .config import InfoMetICConfig

__all__ = ["Aligner", "Alignment", "ImageStates", "InfoMetIC", "InfoMetICConfig", "TextStates"]

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
MODEL_TYPE = "infometic"
_FORMAT = 1
# Entries of config.json besides the fields of the config, and their types.
_RECORD: dict[str, tuple[type, ...]] = {
    "model_type": (str,),
    "format": (int,),
    "dtype": (str,),
    "weights": (str,),
    "notes": (dict,),
}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FIRST_SCALE = 1 / 0.07
_POSITION_STD = 0.01
# For networks that read words: initial factor on the cosine that a word adds, and factor by which the part
# with the transformers starts smaller.
_FIRST_WORD_SCALE = 5.0
_QUIET = 0.1


class InfoMetIC(Aligner):
    """The network of InfoMetIC (Hu et al. 2023, section 3.1), to be trained or loaded with `from_pretrained`.

    New networks have random weights; call `torch.manual_seed` first to reproduce them.

    Args:
        config: Sizes and switches of the network.

    Attributes:
        config: Sizes and switches of the network.
        name: Name that it was loaded by; "" for a new network.
        revision: Commit, or a digest of the weights ("w" and eight hexadecimal digits); "" for a new network.
        loaded_fingerprint: `fingerprint()` when it was loaded; "" for a new network.
        notes: Notes recorded when it was saved; empty for a new network.

    >>> _ = torch.manual_seed(0)
    >>> model = InfoMetIC(InfoMetICConfig(dim=8, heads=2, intra_layers=1, inter_layers=1)).eval()
    >>> images = model.encode_images(
    ...     torch.eye(8)[:2], torch.randn(2, 3, 8), torch.rand(2, 3, 4), torch.ones(2, 3).bool()
    ... )
    >>> texts = model.encode_texts(torch.eye(8)[2:4], torch.randn(2, 5, 8), torch.ones(2, 5).bool())
    >>> found = model.pairs(images, texts, [0, 1, 1], [0, 0, 1])
    >>> tuple(found.region_scores.shape), tuple(found.token_scores.shape), tuple(found.recall.shape)
    ((3, 4), (3, 5), (3,))
    >>> recall, precision = model.all_pairs(images, texts)
    >>> bool((recall[1, 0] - found.recall[1]).abs() < 1e-5)
    True
    """

    def __init__(self, config: InfoMetICConfig) -> None:
        super().__init__()
        self.config = config
        self.name, self.revision, self.loaded_fingerprint = "", "", ""
        self.notes: dict[str, Any] = {}
        dim, width = config.dim, config.inner_width
        if config.width is not None:
            self.image_in, self.text_in, self.image_out, self.text_out = (
                nn.Linear(*sizes, bias=False)
                for sizes in ((dim, width), (dim, width), (width, dim), (width, dim))
            )
        if config.box_positions:
            self.box_position = nn.Linear(4, width, bias=False)
        if config.text_positions:
            self.text_position = nn.Parameter(torch.empty(config.max_tokens, width))
        self.image_layers = _layers(config, config.intra_layers)
        self.text_layers = _layers(config, config.intra_layers)
        self.inter_layers = _layers(config, config.inter_layers)
        depths = {"image": config.intra_layers, "text": config.intra_layers, "inter": config.inter_layers}
        names = [name for name, depth in depths.items() if depth]
        self.norms = nn.ModuleDict(
            {name: nn.LayerNorm(width) for name in (["all"] if config.shared_norm and names else names)}
        )
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
        layer: Any
        for layers in (self.image_layers, self.text_layers, self.inter_layers):
            for layer in layers:
                cast(_Layer, layer).initialise(len(layers))  # a ModuleList does not say what it holds
        for linear in (self.region_query, self.token_query, self.region_key, self.token_key):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        if config.width is not None:
            for linear in (self.image_in, self.text_in, self.image_out, self.text_out):
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

    # -------------------------------------------------------------- scoring

    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> ImageStates:
        config, dtype = self.config, self.log_scale.dtype
        check_images(global_, regions, boxes, mask, config.dim)
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
        attended = functional.pad(mask, (0, 1), value=config.null_token)
        attended = functional.pad(attended, (1, 0), value=config.global_in_fusion)
        return ImageStates(
            global_=global_.to(dtype),
            query=self.token_query(scaled) @ self.token_key.weight,
            tokens=self._through("image", self.image_layers, sequence, attended),
            attended=attended,
            scored=functional.pad(mask, (0, 1), value=config.null_token),
            word_query=self.word_query(global_.to(dtype)) if self.reads_words else None,
            hidden=self.word_image(scaled) if self.reads_words else None,
        )

    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> TextStates:
        config, dtype = self.config, self.log_scale.dtype
        check_texts(global_, tokens, mask, scored, config.dim)
        if tokens.shape[1] > config.max_tokens:
            raise InputError(
                f"texts of {tokens.shape[1]} pieces, including padding: expected at most {config.max_tokens}"
            )
        scaled, mask = global_.to(dtype) * config.input_scale, mask.bool()
        alone = blank(tokens, mask).to(dtype) * config.input_scale
        scored = mask if scored is None else mask & scored.bool()
        added = hidden = log_weight = None
        if self.reads_words:
            given = check_context(context, tokens, mask)
            added = blank(given.added, mask).to(dtype)
            hidden = (
                self.word_text(scaled)[:, None]
                + self.word_alone(alone)
                + self.word_added(added * config.input_scale)
            )
            weight = given.weight.to(dtype).masked_fill(~scored, 0.0)
            # in a text without semantic words all pieces count
            weight = torch.where(weight.any(dim=1, keepdim=True), weight, scored.to(dtype))
            scored = weight > 0
            log_weight = weight.masked_fill(~scored, 1.0).log()
        sequence, attended = alone, mask
        if not config.mask_padding:
            # always the same length, or else the scores would depend on the longest text of the batch
            more = config.max_tokens - tokens.shape[1]
            sequence = functional.pad(alone, (0, 0, 0, more))
            attended = mask.new_ones(len(mask), config.max_tokens)
        if config.width is not None:
            sequence = self.text_in(sequence)
        if config.text_positions:
            sequence = sequence + self.text_position[: sequence.shape[1]]
        return TextStates(
            global_=global_.to(dtype),
            query=self.region_query(scaled) @ self.region_key.weight,
            tokens=self._through("text", self.text_layers, sequence, attended),
            attended=attended,
            scored=scored,
            added=added,
            hidden=hidden,
            log_weight=log_weight,
        )

    def _align(
        self, images: ImageStates, texts: TextStates, image_index: Tensor, text_index: Tensor
    ) -> Alignment:
        n_image = images.tokens.shape[1]
        both = torch.cat([images.tokens[image_index], texts.tokens[text_index]], dim=1)
        attended = torch.cat([images.attended[image_index], texts.attended[text_index]], dim=1)
        both = self._through("inter", self.inter_layers, both, attended)
        # what fills a text up comes after its pieces
        regions, tokens = both[:, 1:n_image], both[:, n_image : n_image + texts.scored.shape[1]]
        # (q W_q) · (k W_k) as (q W_q W_kᵀ) · k: one product per image and text, not per token
        region_scores = softmax_over(products(texts.query[text_index], regions), images.scored[image_index])
        asked = products(images.query[image_index], tokens)
        if self.reads_words:
            asked = asked + self._words(images, texts, image_index, text_index)
        asked = asked * self.config.sharpness
        if texts.log_weight is not None:
            asked = asked + texts.log_weight[text_index]
        token_scores = softmax_over(asked, texts.scored[text_index])
        seen, read = mean_by(region_scores, regions), mean_by(token_scores, tokens)
        if self.config.width is not None:
            seen, read = self.image_out(seen), self.text_out(read)
        return Alignment(
            region_scores,
            token_scores,
            recall=self.scale * cosine(seen, images.global_[image_index]),
            precision=self.scale * cosine(read, texts.global_[text_index]),
        )

    def _words(
        self, images: ImageStates, texts: TextStates, image_index: Tensor, text_index: Tensor
    ) -> Tensor:
        """(p, l): products of the image with what each piece's word adds to the text."""
        assert images.word_query is not None and images.hidden is not None
        assert texts.added is not None and texts.hidden is not None
        added = products(images.word_query[image_index], texts.added[text_index])
        hidden = functional.gelu(images.hidden[image_index][:, None] + texts.hidden[text_index])
        return added + self.word_out(functional.gelu(self.word_hidden(hidden)))[..., 0]

    def _through(self, name: str, layers: nn.ModuleList, sequence: Tensor, attended: Tensor) -> Tensor:
        if not len(layers):
            return sequence
        # A row with nothing to attend to would be NaN, although its states are not used.
        seen = (attended | ~attended.any(dim=1, keepdim=True))[:, None, None]
        for layer in layers:
            sequence = layer(sequence, seen)
        return self.norms["all" if self.config.shared_norm else name](sequence)

    # -------------------------------------------------------------- on disk

    def save_pretrained(
        self, folder: str | Path, *, dtype: str = "float32", notes: Mapping[str, Any] | None = None
    ) -> None:
        """Write config.json and model.safetensors, which `from_pretrained` reads.

        Each file is written aside and renamed, config.json last, which has a digest of the weights. Other
        files in the folder stay.

        Args:
            folder: Folder to write, created if needed; refused if it holds another model.
            dtype: "float32", or "float16" for half the size.
            notes: Anything worth recording, ready for JSON; None for the notes that it was loaded with.

        Raises:
            CapscoreError: an unsupported dtype, a weight that is not finite in it, notes that are not ready
                for JSON, or a folder with another model.
            ResultWriteError: the folder could not be written.

        >>> import tempfile
        >>> model = InfoMetIC(InfoMetICConfig(dim=8, heads=2, intra_layers=1, inter_layers=1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_pretrained(folder, notes={"steps": 0})
        ...     again = InfoMetIC.from_pretrained(folder)
        >>> again.notes, again.fingerprint() == model.fingerprint()
        ({'steps': 0}, True)
        """
        folder = Path(folder).expanduser()
        stored = resolve_dtype(dtype)
        if stored == "bfloat16":
            raise CapscoreError(Setting("dtype", dtype), ": weights are stored as float32 or float16")
        tensors = {
            name: tensor.detach().to("cpu", getattr(torch, stored)).contiguous()
            for name, tensor in self.state_dict().items()
        }
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                raise CapscoreError(
                    f"{name} holds numbers that are not finite as {stored}: nothing was saved"
                )
        record = {
            "model_type": MODEL_TYPE,
            "format": _FORMAT,
            **self.config.to_dict(),
            "dtype": stored,
            "weights": tensors_digest(tensors),
            "notes": dict(self.notes if notes is None else notes),
        }
        try:
            text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise CapscoreError(f"notes must be ready for JSON: {in_one_line(error)}") from None
        _refuse_other_model(folder)
        with whole_file(folder / WEIGHTS, "weights", make_folders=True) as file:
            file.write(save(tensors, metadata={"format": "pt"}))
        write_text(folder / CONFIG, text, "config")

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
            revision: Commit, branch or tag on the Hub; None for `main`.
            backbone: Backbone that the embeddings will come from, to check that the weights are for it.
            device: Device such as "cpu" or "cuda:0"; None for a GPU if there is one.

        Raises:
            BackboneUnavailable: the weights are missing, damaged, or do not fit their config.
            CapscoreError: the weights are for another backbone.
        """
        folder, name, commit = find_weights(spec, revision)
        config, record = _read_config(folder)
        state = read_state_dict(folder)
        digest = tensors_digest(state)
        if digest != record["weights"]:
            raise BackboneUnavailable(
                f"{folder}: {WEIGHTS} does not belong to {CONFIG}; was saving interrupted?"
            )
        if backbone is not None:
            config.check_backbone(backbone)
        stored = sum(tensor.nbytes for tensor in state.values())
        refuse_oversized(folder, config.to_dict(), stored, lambda: cls(config))
        try:
            with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
                model = cls(config)
        except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:  # absurd sizes
            raise BackboneUnavailable(
                f"no network can be built from {folder / CONFIG}: {in_one_line(error)[:200]}"
            ) from None
        _fill(model, folder, state)
        model.name, model.notes = name, record["notes"]
        model.loaded_fingerprint = model.fingerprint()
        model.revision = commit or f"w{model.loaded_fingerprint[:8]}"
        return model.eval().to(resolve_device(device))


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
        for linear, std in (
            (self.attention_in, width**-0.5),
            (self.attention_out, added),
            (self.mlp_in, (2 * width) ** -0.5),
            (self.mlp_out, added),
        ):
            nn.init.normal_(linear.weight, std=std)
            nn.init.zeros_(linear.bias)

    def forward(self, sequence: Tensor, seen: Tensor) -> Tensor:
        parts = self.attention_in(self.attention_norm(sequence)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        sequence = sequence + self.attention_out(mixed.transpose(1, 2).flatten(2))
        hidden = self.mlp_in(self.mlp_norm(sequence))
        return sequence + self.mlp_out(hidden * torch.sigmoid(1.702 * hidden))


def _layers(config: InfoMetICConfig, depth: int) -> nn.ModuleList:
    return nn.ModuleList(_Layer(config.inner_width, config.heads) for _ in range(depth))


# ------------------------------------------------------------------ loading and saving


def find_weights(
    spec: str | os.PathLike[str], revision: str | None = None, what: str = "weights"
) -> tuple[Path, str, str]:
    """Folder of the files, name of the weights, and commit ("" for a folder); fetched if on the Hub.

    Raises:
        BackboneUnavailable: they are neither a folder nor on the Hub.
        CapscoreError: `spec` is empty, or says something else than `revision`.
    """
    asked = os.fspath(spec).strip() if isinstance(spec, (str, os.PathLike)) else ""
    if not asked:
        raise CapscoreError(Setting(what, spec), ": expected a folder or a Hub id")
    folder = Path(os.path.expanduser(asked))
    if folder.is_dir():
        if revision:
            raise CapscoreError(Setting("revision", revision), f" does not go with the folder {asked!r}")
        return folder, folder.resolve().name, ""  # not its path, so that signatures do not depend on it
    name, _, at = asked.partition("@")
    if revision and at and revision != at:
        raise CapscoreError(
            Setting(what, asked), " and ", Setting("revision", revision), " ask for two revisions"
        )
    if not _HUB_ID.fullmatch(name):
        raise BackboneUnavailable(
            f"InfoMetIC {what} {asked!r} are not available: there is no such folder, and it is not a Hub id "
            "(org/name)"
        )
    from ..backbones.checkpoint import fetch

    try:
        folder, commit = fetch(name, revision or at, _wanted)
    except BackboneUnavailable as error:
        raise BackboneUnavailable(f"InfoMetIC {what} {asked!r} are not available: ", *error.parts) from error
    return folder, name, commit


def _wanted(files: Sequence[str]) -> list[str]:
    return [name for name in files if name in (CONFIG, WEIGHTS)]


def _read_config(folder: Path) -> tuple[InfoMetICConfig, dict[str, Any]]:
    path = folder / CONFIG
    content = read_json(path)
    if content.get("model_type") != MODEL_TYPE:
        raise BackboneUnavailable(
            f"{path} describes a model of type {content.get('model_type')!r}, not {MODEL_TYPE!r}: the folder "
            "holds no InfoMetIC weights"
        )
    read_marker(path, _FORMAT, _RECORD, content)
    record = {name: content.pop(name) for name in _RECORD}
    try:
        return InfoMetICConfig.from_dict(content), record
    except CapscoreError as error:
        raise BackboneUnavailable(f"{path}: ", *error.parts) from None


def _fill(model: InfoMetIC, folder: Path, state: dict[str, Tensor]) -> None:
    expected = model.state_dict()
    refuse_misfit(
        folder,
        missing=(name for name in expected if name not in state),
        unexpected=(name for name in state if name not in expected),
        mismatched=(name for name in state if name in expected and state[name].shape != expected[name].shape),
    )
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})


def _refuse_other_model(folder: Path) -> None:
    if (folder / CONFIG).is_file():
        kind = read_json(folder / CONFIG).get("model_type")
        if kind != MODEL_TYPE:
            raise CapscoreError(f"{folder} already holds a model of type {kind!r}: use another folder")
    elif (folder / WEIGHTS).is_file():
        raise CapscoreError(
            f"{folder} already holds weights ({WEIGHTS}) without a {CONFIG}: use another folder, or delete "
            "them if they are left over from an earlier attempt"
        )
