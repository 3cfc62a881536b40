"""Object detectors of transformers and torchvision as finders of regions.

In: a Hub id, a folder or the name of a detector, then RGB photos. Out: `Regions` per photo: boxes in pixels,
confidences, and the names of what is in them.

Photos go through a detector one by one: padding to a batch would move boxes, and the same photo must give the
same regions whatever it is scored with.
"""

from __future__ import annotations

import difflib
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers

from ..backbones.base import (
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    resolve_device,
    settings_digest,
    weights_digest,
)
from ..backbones.checkpoint import (
    in_one_line,
    quiet_transformers,
    read_json,
    refuse_misreport,
    weight_files,
)
from ..backbones.download import fetch, needed_files, offline_variable
from ..errors import BackboneUnavailable, CapscoreError, InputError
from .boxes import suppress
from .regions import MOST, OPEN_VOCABULARY, RegionFinder, Regions, check_names

if TYPE_CHECKING:
    from PIL import Image

# torchvision's detectors keep what is above this; the choice by clusters wants many boxes, not sure ones.
THRESHOLD = 0.05
# Above this overlap two boxes are one thing found twice, under two names or by two queries.
SAME = 0.7
# so many of the names that are too long are told
_SHOWN = 5
# Config types of the open-vocabulary kinds; "detr" takes whatever transformers detects objects with.
_TYPES = dict(
    zip(OPEN_VOCABULARY, (("owlv2", "owlvit"), ("grounding-dino", "mm-grounding-dino")), strict=True)
)


class TransformersDetector(RegionFinder):
    """A detector of transformers: with its own classes (the DETR family), or with names that are given.

    Made by `TransformersDetector.load`.

    Args:
        model: the network, in float32.
        processor: what turns photos (and names) into its inputs, and its outputs into boxes.
        kind: "detr", "owlv2" or "grounding-dino".
        name: of the model, as signatures are to have it.
        names: what an open-vocabulary detector looks for; () for the others.
        device: as `capscore.backbones.base.resolve_device` gives it.
        threshold: confidence that a box must exceed.
        most: how many regions of a photo to return at most.
        settings: digest of the files that say how the weights are used.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        kind: str,
        name: str,
        names: tuple[str, ...],
        device: str,
        threshold: float,
        most: int,
        settings: str,
    ):
        weights = weights_digest(model)
        self.name = f"{kind}:{name if '@' in name else f'{name}@w{weights[:8]}'}"
        self.names, self.threshold, self.most = names, threshold, most
        self.fingerprint = fingerprint_of(
            "transformers_detector",
            kind,
            weights,
            architecture_digest(model),
            settings,
            type(processor).__name__,
            type(getattr(processor, "image_processor", processor)).__name__,
            names,
            threshold,
            most,
        )
        self._kind, self._processor, self._device = kind, processor, device
        self._model = model.to(device).eval().requires_grad_(False)

    @classmethod
    def load(
        cls,
        model: str,
        *,
        kind: str = "detr",
        names: Sequence[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
        threshold: float | None = None,
        most: int = MOST,
    ) -> TransformersDetector:
        """Load a detector from a local folder or the Hub; code that comes with weights is never run.

        Args:
            model: a folder with config.json, weights and preprocessor_config.json (and a tokenizer, for an
                open vocabulary), or a Hub id.
            kind: "detr" (any object detector of transformers), "owlv2" (OWLv2, OWL-ViT) or
                "grounding-dino".
            names: what an open-vocabulary detector is to look for; None for the others, which know what they
                know.
            revision: of a Hub id: commit, branch or tag; None for `main`.
            device: None for a GPU where there is one.
            threshold: confidence in [0, 1] that a box must exceed; None for 0.05.
            most: how many regions of a photo to return at most.

        Raises:
            BackboneUnavailable: files cannot be had, are torn, or do not fit each other.
            InputError: names for a detector that takes none, or none for one that needs them; names beyond
                what it reads.
            CapscoreError: the folder holds no detector of that kind.
        """
        listed = check_names(kind, names)
        folder = Path(os.path.expanduser(model))
        if folder.is_dir():
            if revision:
                raise InputError(f"revision={revision!r} does not go with the folder {folder}")
            name = folder.resolve().name.replace("@", "_")
        elif folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
            raise BackboneUnavailable(f"regions='{kind}:{model}': no folder {folder} is here")
        else:
            try:
                folder, commit = fetch(model, revision or "", needed_files)
            except BackboneUnavailable as error:
                raise BackboneUnavailable(
                    f"regions='{kind}:{model}' cannot be had: {error}\n"
                    "Instead: regions='windows' (needs no weights but the backbone's), a local folder, or "
                    "boxes of your own."
                ) from error
            name = f"{model}@{commit}"
        network, processor = _load_network(folder, kind), _load_processor(folder, kind)
        _check_lengths(kind, listed, network.config, processor)
        return cls(
            network,
            processor,
            kind=kind,
            name=name,
            names=listed,
            device=resolve_device(device),
            threshold=_checked_threshold(threshold),
            most=most,
            settings=settings_digest(folder),
        )

    @torch.inference_mode()
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        return [self._find(image) for image in images]

    def _find(self, image: Image.Image) -> Regions:
        inputs = self._inputs(image)
        with exact_convolutions("float32"):
            outputs = self._model(**inputs)
        # sizes are (height, width) here
        sizes = torch.tensor([[image.height, image.width]], device=self._device)
        if self._kind == "detr":
            result = self._processor.post_process_object_detection(
                outputs, threshold=self.threshold, target_sizes=sizes
            )[0]
            labels = [
                str(self._model.config.id2label.get(index, index)) for index in result["labels"].tolist()
            ]
        elif self._kind == "owlv2":
            result = self._processor.post_process_grounded_object_detection(
                outputs, threshold=self.threshold, target_sizes=sizes, text_labels=[list(self.names)]
            )[0]
            labels = list(result["text_labels"])
        else:
            result = self._processor.post_process_grounded_object_detection(
                outputs,
                inputs["input_ids"],
                threshold=self.threshold,
                text_threshold=self.threshold,
                target_sizes=sizes,
            )[0]
            labels = list(result["text_labels"])
        return _tidied(result["boxes"], result["scores"], labels, image.size, self.most, self.name)

    def _inputs(self, image: Image.Image) -> Any:
        # As an array whose layout is said: some processors take an image 3 pixels high for channels first.
        settings = {"images": np.array(image), "input_data_format": "channels_last", "return_tensors": "pt"}
        if self._kind == "owlv2":
            settings["text"] = [list(self.names)]
        elif self._kind == "grounding-dino":
            settings["text"] = " ".join(_as_read(self.names))
        return self._processor(**settings).to(self._device)


class TorchvisionDetector(RegionFinder):
    """A detector of torchvision with the weights that torchvision publishes for it.

    Made by `TorchvisionDetector.load`.

    Args:
        model: the network, in float32.
        name: torchvision's name of it, and of the weights.
        labels: what its class numbers mean.
        device: as `capscore.backbones.base.resolve_device` gives it.
        threshold: confidence that a box must exceed.
        most: how many regions of a photo to return at most.
    """

    def __init__(
        self, model: Any, *, name: str, labels: Sequence[str], device: str, threshold: float, most: int
    ):
        self.name, self.threshold, self.most = f"torchvision:{name}", threshold, most
        self.fingerprint = fingerprint_of(
            "torchvision_detector",
            weights_digest(model),
            architecture_digest(model),
            tuple(labels),
            threshold,
            most,
        )
        self._labels, self._device = tuple(labels), device
        self._model = model.to(device).eval().requires_grad_(False)

    @classmethod
    def load(
        cls,
        model: str,
        *,
        device: str | None = None,
        threshold: float | None = None,
        most: int = MOST,
    ) -> TorchvisionDetector:
        """Load a detector that torchvision knows, with its default weights.

        Args:
            model: such as "fasterrcnn_resnet50_fpn_v2"; `torchvision.models.list_models` names them.
            device: None for a GPU where there is one.
            threshold: confidence in [0, 1] that a box must exceed; None for 0.05, below which torchvision
                drops boxes itself.
            most: how many regions of a photo to return at most; torchvision gives 100, SSD up to 300.

        Raises:
            InputError: torchvision has no detector of that name.
            BackboneUnavailable: the weights are neither in torch's cache nor to be had, or are torn.
        """
        import torchvision

        known = torchvision.models.list_models(module=torchvision.models.detection)
        if model not in known:
            close = difflib.get_close_matches(model, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f"regions='torchvision:{model}': torchvision has the detectors {', '.join(known)}{hint}"
            )
        limit = _checked_threshold(threshold)
        weights = torchvision.models.get_model_weights(model).DEFAULT
        file = _published_file(model, weights.url)
        try:
            # Refuse before torchvision reads it: its loader would unpickle anything.
            torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever the bytes of a torn file happen to mean; IndexError as well
            reason = in_one_line(error)[:300]
            if isinstance(error, pickle.UnpicklingError):  # which would advise to load it all the same
                reason = "it is torn, or holds more than tensors"
            raise BackboneUnavailable(f"{file} cannot be read as weights of {model}: {reason}") from None
        try:
            network = torchvision.models.get_model(model, weights=weights, progress=False)
        except RuntimeError as error:  # names and shapes that are not the model's
            raise BackboneUnavailable(
                f"{file} holds no weights of {model}: {in_one_line(error)[:300]}"
            ) from error
        return cls(
            network,
            name=f"{model}@{weights.name}",
            labels=weights.meta["categories"],
            device=resolve_device(device),
            threshold=limit,
            most=most,
        )

    @torch.inference_mode()
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        return [self._find(image) for image in images]

    def _find(self, image: Image.Image) -> Regions:
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(self._device).float() / 255.0
        with exact_convolutions("float32"):
            result = self._model([pixels])[0]
        above = result["scores"] > self.threshold
        labels = [self._labels[index] for index in result["labels"][above].tolist()]
        return _tidied(
            result["boxes"][above], result["scores"][above], labels, image.size, self.most, self.name
        )


def _tidied(
    boxes: torch.Tensor,
    confidences: torch.Tensor,
    labels: Sequence[str],
    size: tuple[int, int],
    most: int,
    name: str,
) -> Regions:
    """A detector's answer → regions on the photo, none of them twice, most confident first."""
    corners = boxes.detach().cpu().numpy().astype(np.float64).reshape(-1, 4)
    scores = confidences.detach().cpu().numpy().astype(np.float64)
    if not (np.isfinite(corners).all() and np.isfinite(scores).all()):
        raise CapscoreError(f"{name} gave NaN or infinite boxes; its weights are damaged, or hold NaN")
    width, height = size
    corners = corners.clip(0.0, [width, height, width, height])
    # what lies in the padding around the photo, where OWLv2 looks too, is nothing after clipping
    on_photo = np.flatnonzero((corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1]))
    regions = Regions(corners, scores, tuple(labels)).take(on_photo)
    return regions.take(suppress(regions.boxes, regions.confidences, SAME)[:most])


# ------------------------------------------------------------------------ loading


def _as_read(names: Sequence[str]) -> list[str]:
    """Names as Grounding DINO reads them, one behind the other: in small letters, a full stop after each."""
    return [f"{name.lower()}." for name in names]


def _check_lengths(kind: str, names: tuple[str, ...], config: Any, processor: Any) -> None:
    """Refuse names that a network would not read to their end.

    Grounding DINO reads all names as one text, and transformers cuts what is beyond its limit without a word,
    or fails when the first photo is there, by its version. OWLv2 reads each by itself, and fails then.
    """
    if kind == "owlv2":
        limit = config.text_config.max_position_embeddings
        lengths = [len(ids) for ids in processor.tokenizer(list(names))["input_ids"]]
        told = f"{kind!r} reads {limit} tokens of a name"
    elif kind == "grounding-dino":
        limit = config.max_text_len
        pieces = processor.tokenizer(_as_read(names), add_special_tokens=False)["input_ids"]
        lengths = np.cumsum([2, *map(len, pieces)])[1:].tolist()  # one token begins the text, one ends it
        told = f"{kind!r} reads {limit} tokens of all names together"
    else:
        return
    beyond = [repr(name) for name, length in zip(names, lengths, strict=True) if length > limit]
    if beyond:
        shown = ", ".join(beyond[:_SHOWN]) + (", …" if len(beyond) > _SHOWN else "")
        raise InputError(
            f"{told}; {len(beyond)} of {len(names)} names go beyond, and would not be looked for: {shown}",
            field="names",
        )


def _checked_threshold(threshold: float | None) -> float:
    if threshold is None:
        return THRESHOLD
    if not 0.0 <= threshold <= 1.0:
        raise InputError(f"threshold={threshold!r}: expected a confidence from 0 to 1")
    return float(threshold)


def _load_network(folder: Path, kind: str) -> Any:
    raw = read_json(folder / "config.json")
    found = raw.get("model_type", "")
    files = weight_files(folder)
    try:
        with quiet_transformers():
            config = transformers.AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # each model type validates its config in its own way
        raise CapscoreError(
            f"{folder / 'config.json'} is no config of a detector: {in_one_line(error)}"
        ) from error
    if kind in _TYPES:
        fits, expected = found in _TYPES[kind], " or ".join(_TYPES[kind])
        auto = transformers.AutoModelForZeroShotObjectDetection
    else:
        fits = type(config) in transformers.MODEL_FOR_OBJECT_DETECTION_MAPPING
        auto, expected = transformers.AutoModelForObjectDetection, "an object detector"
    if not fits:
        others = [other for other, types in _TYPES.items() if found in types]
        hint = f"; did you mean regions='{others[0]}:…'?" if others else ""
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {found!r}; {kind!r} takes {expected}{hint}"
        )
    if getattr(config, "use_pretrained_backbone", False):
        config.use_pretrained_backbone = False  # the weights are here: none are to be downloaded for a part
    try:
        with quiet_transformers():
            model, report = auto.from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=files[0].suffix == ".safetensors",
                weights_only=True,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # they come back in the report, and are refused below
                output_loading_info=True,
            )
    except Exception as error:  # torn pickles, configs that make no sense, a missing timm
        raise BackboneUnavailable(f"{folder} makes no detector: {in_one_line(error)[:400]}") from error
    # Weights of no part of the model do no harm: published detectors have some that training left.
    refuse_misreport(folder, {**report, "unexpected_keys": []})
    return model


def _load_processor(folder: Path, kind: str) -> Any:
    auto = transformers.AutoProcessor if kind in _TYPES else transformers.AutoImageProcessor
    try:
        with quiet_transformers():
            return auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # OSError, ValueError or TypeError, after what is wrong in the files
        raise BackboneUnavailable(
            f"the processor in {folder} cannot be loaded: {in_one_line(error)[:400]}"
        ) from error


def _published_file(model: str, url: str) -> Path:
    """Where torch keeps the weights of this address, downloaded if need be."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if file.is_file():
        return file
    variable = offline_variable()
    if variable is not None:
        raise BackboneUnavailable(
            f"regions='torchvision:{model}' cannot be had: {variable} is set, so the network is not used, "
            f"and {file} is not there; put {url} there, or take regions='windows'"
        )
    prefix = file.stem.rpartition("-")[2]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(file), prefix, progress=False)
    except (OSError, RuntimeError) as error:  # URLError is an OSError; a wrong checksum a RuntimeError
        raise BackboneUnavailable(
            f"regions='torchvision:{model}' cannot be had: {url} cannot be fetched "
            f"({in_one_line(error)}); take regions='windows'"
        ) from error
    return file
