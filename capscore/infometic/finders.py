"""Finders of regions by name: windows, objects, and detectors of transformers and torchvision.

Photos go through a detector one by one: padding to a batch would move boxes, and the regions of a photo must
not depend on other photos.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backbones.base import (
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    settings_digest,
    weights_digest,
)
from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting
from ..images.boxes import suppress
from .regions import MAX_REGIONS, ObjectFinder, RegionFinder, Regions, WindowFinder

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder
    from .mark_calibration import MarkCalibration

KINDS = ("things", "windows", "detr", "owlv2", "grounding-dino", "torchvision")
# Kinds that look for the objects that they are told to find, and their types of models.
OPEN_VOCABULARY = {
    "owlv2": ("owlv2", "owlvit"),
    "grounding-dino": ("grounding-dino", "mm-grounding-dino"),
}
# torchvision's own threshold; choosing by clusters needs many boxes rather than certain ones.
THRESHOLD = 0.05
# Overlap above which two boxes are the same object, found under two names or by two queries.
SAME_BOX = 0.7


def load_finder(
    spec: str | RegionFinder,
    embedder: Embedder,
    *,
    names: Sequence[str] | None = None,
    revision: str | None = None,
    calibration: MarkCalibration | None = None,
) -> RegionFinder:
    """Load a finder of regions by name.

    Args:
        spec: Finder:

            - "windows": windows of several sizes, ranked by the backbone; needs nothing else;
            - "things": boxes that the mark calibration finds in the backbone's feature map, then windows;
            - "detr:ID": an object detector of transformers (DETR, YOLOS, RT-DETR, …), by Hub id or folder;
            - "owlv2:ID" or "grounding-dino:ID": a detector of the objects in `names`;
            - "torchvision:NAME": a detector of torchvision, such as "fasterrcnn_resnet50_fpn_v2";
            - a finder, which is returned as it is.
        embedder: Embedder of the backbone that will embed the regions; detectors run on its device.
        names: Names of objects to look for, such as ("dog", "red ball"), for open-vocabulary detectors.
        revision: Commit, branch or tag of a Hub id; None for `main`.
        calibration: Mark calibration of the backbone, for "things".

    Raises:
        InputError: an unknown kind of finder, an option that does not go with it, or more names than the
            detector reads.
        BackboneUnavailable: a detector's weights are not available; the message says why.
    """
    kind, model, listed = check_finder(spec, names)
    if revision is not None and (isinstance(spec, RegionFinder) or not _is_of_transformers(kind)):
        raise InputError(Setting("revision", revision), " does not go with ", Setting("regions", kind))
    if isinstance(spec, RegionFinder):
        return spec
    if kind == "windows":
        return WindowFinder(embedder)
    if kind == "things":
        if calibration is None:
            raise InputError(
                Setting("regions", "things"),
                f" needs a mark calibration, and there is none for the backbone {embedder.backbone.name!r}",
            )
        return ObjectFinder(embedder, calibration)
    if kind == "torchvision":
        return TorchvisionDetector(model, device=embedder.backbone.device)
    return TransformersDetector(
        model, kind=kind, names=listed, revision=revision, device=embedder.backbone.device
    )


def check_finder(
    spec: str | RegionFinder, names: Sequence[str] | None = None
) -> tuple[str, str, tuple[str, ...]]:
    """Check the arguments of `load_finder` as far as possible without loading anything.

    Returns:
        The kind ("a finder" for a finder object), the model ("" if there is none), and the names, stripped
        and without repetitions.

    Raises:
        InputError: an unknown kind, or names that do not go with it; the latter with the field "names".

    >>> check_finder("owlv2:org/detector", ["dog", "red ball", "dog"])
    ('owlv2', 'org/detector', ('dog', 'red ball'))
    """
    kind, _, model = spec.strip().partition(":") if isinstance(spec, str) else ("a finder", "", "")
    if not isinstance(spec, RegionFinder) and (
        kind not in KINDS or bool(model) == (kind in ("things", "windows"))
    ):
        close = [near for near in difflib.get_close_matches(kind, KINDS, n=1) if near != kind]
        raise InputError(
            Setting("regions", spec),
            f": {f'did you mean {close[0]!r}? ' if close else ''}expected 'things', 'windows', 'detr:ID', "
            "'owlv2:ID', 'grounding-dino:ID' (a Hub id or a folder), or 'torchvision:NAME'",
        )
    if kind not in OPEN_VOCABULARY:
        if names is not None:
            raise InputError(
                f"{names!r:.200} do not go with ",
                Setting("regions", kind),
                f", which takes none: names are for {' and '.join(OPEN_VOCABULARY)}",
                field="names",
            )
        return kind, model, ()
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else []
    if not listed or not all(isinstance(name, str) and name.strip() for name in listed):
        raise InputError(
            Setting("regions", kind),
            f" finds what it is told to look for: expected a list of names such as ['dog', 'red ball'], got "
            f"{names!r:.200}",
            field="names",
        )
    dotted = [name for name in listed if kind == "grounding-dino" and "." in name]
    if dotted:
        raise InputError(
            f"{dotted[0]!r} has a full stop, which separates the names for {kind!r}", field="names"
        )
    return kind, model, tuple(dict.fromkeys(name.strip() for name in listed))


def _is_of_transformers(kind: str) -> bool:
    return kind == "detr" or kind in OPEN_VOCABULARY


class TransformersDetector(RegionFinder):
    """A detector of transformers: with its own classes (the DETR family), or for given names.

    Code that comes with weights never runs.

    Args:
        model: Folder with config.json, weights and preprocessor_config.json (and, for an open vocabulary, a
            tokenizer), or Hub id.
        kind: "detr" (any object detector of transformers), "owlv2" (OWLv2, OWL-ViT) or "grounding-dino".
        names: Names of objects that an open-vocabulary detector should look for; () for other kinds.
        revision: Commit, branch or tag of a Hub id; None for `main`.
        device: Torch device.
        threshold: Confidence in [0, 1] that a box must exceed.
        max_regions: Maximum number of regions per photo.

    Raises:
        BackboneUnavailable: files are not available, damaged, or do not fit each other.
        InputError: more names than the detector reads.
        CapscoreError: the folder does not hold a detector of that kind.
    """

    def __init__(
        self,
        model: str,
        *,
        kind: str = "detr",
        names: Sequence[str] = (),
        revision: str | None = None,
        device: str = "cpu",
        threshold: float = THRESHOLD,
        max_regions: int = MAX_REGIONS,
    ):
        from ..backbones.checkpoint import needed_files
        from .folders import find_folder

        try:
            folder, name, commit = find_folder(model, revision, "regions", needed_files)
        except BackboneUnavailable as error:
            raise BackboneUnavailable(
                *error.parts, "\nInstead: ", Setting("regions", "windows"), ", or boxes of your own."
            ) from error
        network, processor = _load_detector(folder, kind)
        self.names, self.threshold, self.max_regions = tuple(names), threshold, max_regions
        _check_lengths(kind, self.names, network.config, processor)
        weights = weights_digest(network)
        self.name = f"{kind}:{name.replace('@', '_')}@{commit or f'w{weights[:8]}'}"
        self.fingerprint = fingerprint_of(
            "transformers_detector",
            kind,
            weights,
            architecture_digest(network),
            settings_digest(folder),
            type(processor).__name__,
            type(getattr(processor, "image_processor", processor)).__name__,
            self.names,
            threshold,
            max_regions,
        )
        self._kind, self._processor = kind, processor
        self._network = network.to(device).eval().requires_grad_(False)

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        return [self._find(image) for image in images]

    def _find(self, image: Image.Image) -> Regions:
        import torch

        # With an explicit layout: some processors mistake an image 3 pixels high for channels first.
        settings = {"images": np.array(image), "input_data_format": "channels_last", "return_tensors": "pt"}
        if self._kind == "owlv2":
            settings["text"] = [list(self.names)]
        elif self._kind == "grounding-dino":
            settings["text"] = " ".join(_with_stops(self.names))
        inputs = self._processor(**settings).to(self._network.device)
        with exact_convolutions("float32"), torch.inference_mode():
            outputs = self._network(**inputs)
        arguments = {"threshold": self.threshold, "target_sizes": torch.tensor([[image.height, image.width]])}
        arguments["target_sizes"] = arguments["target_sizes"].to(self._network.device)
        if self._kind == "detr":
            (found,) = self._processor.post_process_object_detection(outputs, **arguments)
            names = self._network.config.id2label
            labels = [str(names.get(index, index)) for index in found["labels"].tolist()]
        else:
            if self._kind == "owlv2":
                arguments["text_labels"] = [list(self.names)]
            else:
                arguments |= {"input_ids": inputs["input_ids"], "text_threshold": self.threshold}
            (found,) = self._processor.post_process_grounded_object_detection(outputs, **arguments)
            labels = found["text_labels"]
        return _tidied(found["boxes"], found["scores"], labels, image.size, self)


class TorchvisionDetector(RegionFinder):
    """A detector of torchvision with its default weights.

    Args:
        model: Name of the detector, such as "fasterrcnn_resnet50_fpn_v2"; `torchvision.models.list_models`
            lists them.
        device: Torch device.
        threshold: Confidence in [0, 1] that a box must exceed; torchvision itself drops boxes below 0.05.
        max_regions: Maximum number of regions per photo; torchvision returns 100, SSD up to 300.

    Raises:
        InputError: torchvision has no detector of that name.
        BackboneUnavailable: the weights are neither in torch's cache nor available online, or are damaged.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "cpu",
        threshold: float = THRESHOLD,
        max_regions: int = MAX_REGIONS,
    ):
        import torchvision

        known = torchvision.models.list_models(module=torchvision.models.detection)
        if model not in known:
            raise InputError(
                Setting("regions", f"torchvision:{model}"), f": torchvision has {', '.join(known)}"
            )
        weights = torchvision.models.get_model_weights(model).DEFAULT
        network = _load_torchvision(model, weights)
        self._labels = tuple(weights.meta["categories"])
        self.name, self.threshold, self.max_regions = (
            f"torchvision:{model}@{weights.name}",
            threshold,
            max_regions,
        )
        self.fingerprint = fingerprint_of(
            "torchvision_detector",
            weights_digest(network),
            architecture_digest(network),
            self._labels,
            threshold,
            max_regions,
        )
        self._network, self._device = network.to(device).eval().requires_grad_(False), device

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        return [self._find(image) for image in images]

    def _find(self, image: Image.Image) -> Regions:
        import torch

        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(self._device).float() / 255.0
        with exact_convolutions("float32"), torch.inference_mode():
            (found,) = self._network([pixels])
        above = found["scores"] > self.threshold
        labels = [self._labels[index] for index in found["labels"][above].tolist()]
        return _tidied(found["boxes"][above], found["scores"][above], labels, image.size, self)


def _tidied(
    boxes: Any, confidences: Any, labels: Sequence[str], size: tuple[int, int], finder: RegionFinder
) -> Regions:
    """A detector's output → distinct regions within the photo, most confident first."""
    corners = boxes.detach().cpu().numpy().astype(np.float64).reshape(-1, 4)
    scores = confidences.detach().cpu().numpy().astype(np.float64)
    if not (np.isfinite(corners).all() and np.isfinite(scores).all()):
        raise CapscoreError(f"{finder.name} returned NaN or infinite boxes; its weights are damaged")
    corners = corners.clip(0.0, [*size, *size])
    # OWLv2 also finds boxes in the padding around the photo, which are empty after clipping
    on_photo = np.flatnonzero((corners[:, 2:] > corners[:, :2]).all(axis=1))
    regions = Regions(corners, scores, tuple(labels)).take(on_photo)
    return regions.take(suppress(regions.boxes, regions.confidences, SAME_BOX)[: finder.max_regions])


def _with_stops(names: Sequence[str]) -> list[str]:
    """Names in the form that Grounding DINO reads: in small letters, each followed by a full stop."""
    return [f"{name.lower()}." for name in names]


def _check_lengths(kind: str, names: tuple[str, ...], config: Any, processor: Any) -> None:
    """Refuse names that a network would not read to their end: transformers would cut them silently, or fail.

    Grounding DINO reads all names as one text, OWLv2 each name alone.
    """
    if kind == "owlv2":
        limit, limited = config.text_config.max_position_embeddings, "per name"
        lengths = [len(ids) for ids in processor.tokenizer(list(names))["input_ids"]]
    elif kind == "grounding-dino":
        limit, limited = config.max_text_len, "of all names together"
        pieces = processor.tokenizer(_with_stops(names), add_special_tokens=False)["input_ids"]
        lengths = np.cumsum([2, *map(len, pieces)])[1:].tolist()  # one token begins the text, one ends it
    else:
        return
    beyond = [repr(name) for name, length in zip(names, lengths, strict=True) if length > limit]
    if beyond:
        raise InputError(
            f"{kind!r} reads {limit} tokens {limited}; {len(beyond)} of {len(names)} names go beyond, and "
            f"would not be looked for: {', '.join(beyond[:5])}{', …' if len(beyond) > 5 else ''}",
            field="names",
        )


def _load_detector(folder: Path, kind: str) -> tuple[Any, Any]:
    """Network and processor of a folder."""
    import transformers

    from ..backbones import checkpoint

    found = checkpoint.read_json(folder / "config.json").get("model_type", "")
    checkpoint.weight_files(folder)  # "file missing" is a clearer error than one about the config
    config = checkpoint.load_config(folder, "a detector")
    if kind in OPEN_VOCABULARY:
        fits, expected = found in OPEN_VOCABULARY[kind], " or ".join(OPEN_VOCABULARY[kind])
        classes = transformers.AutoModelForZeroShotObjectDetection, transformers.AutoProcessor
    else:
        fits = type(config) in transformers.MODEL_FOR_OBJECT_DETECTION_MAPPING
        expected = "an object detector"
        classes = transformers.AutoModelForObjectDetection, transformers.AutoImageProcessor
    if not fits:
        others = [other for other, types in OPEN_VOCABULARY.items() if found in types]
        hint = f"; did you mean '{others[0]}:…'?" if others else ""
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {found!r}; {kind!r} takes {expected}{hint}"
        )
    if getattr(config, "use_pretrained_backbone", False):
        config.use_pretrained_backbone = False  # the weights are complete: do not download a part
    try:
        network, report = checkpoint.load_with_report(
            classes[0], folder, config=config, trust_remote_code=False
        )
    except Exception as error:  # damaged pickles, wrong configs, a missing timm
        reason = checkpoint.in_one_line(error)[:400]
        raise BackboneUnavailable(f"no detector can be built from {folder}: {reason}") from error
    # Unused weights are harmless: published detectors contain some from their training.
    checkpoint.refuse_misreport(folder, {**report, "unexpected_keys": []})
    return network, checkpoint.load_processor(classes[1], folder, "processor", trust_remote_code=False)


def _load_torchvision(model: str, weights: Any) -> Any:
    import torch
    import torchvision

    from ..backbones.checkpoint import in_one_line, offline_variable

    file = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    if offline_variable() and not file.is_file():
        raise BackboneUnavailable(
            Setting("regions", f"torchvision:{model}"),
            f" is not available: {offline_variable()} is set, so the network is not used, and there is no "
            f"{file}; put {weights.url} there, or use ",
            Setting("regions", "windows"),
        )
    try:
        # Read before torchvision does, whose loader would unpickle anything.
        torch.hub.load_state_dict_from_url(
            weights.url, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )
        return torchvision.models.get_model(model, weights=weights, progress=False)
    except Exception as error:  # no network, a damaged file, or weights of another model
        raise BackboneUnavailable(
            Setting("regions", f"torchvision:{model}"),
            f" is not available: {file} cannot be fetched or read as its weights "
            f"({in_one_line(error).partition('. (1)')[0][:300]}); use ",
            Setting("regions", "windows"),
        ) from None
