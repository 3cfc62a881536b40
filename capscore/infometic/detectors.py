"""Finders of regions by name, and detectors of transformers: RGB photos → boxes, confidences and labels."""

from __future__ import annotations

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

DETECTORS = ("detr", "owlv2", "grounding-dino")
# Detectors that look for the objects that they are told to find, and their types of models.
OPEN_VOCABULARY = {"owlv2": ("owlv2", "owlvit"), "grounding-dino": ("grounding-dino", "mm-grounding-dino")}
# Least confidence of a box; choosing by clusters needs many boxes rather than certain ones.
THRESHOLD = 0.05
# Overlap above which two boxes are the same object, found under two names or by two queries.
SAME_BOX = 0.7


class Detector(RegionFinder):
    """A detector of transformers: with its own classes (the DETR family), or for given names.

    The pipelines of transformers round boxes to whole pixels and look for one name at a time, so networks are
    called directly. Photos are looked at one by one, since padding to a batch would move boxes.

    Args:
        model: Folder, or Hub id. Code that comes with weights never runs.
        kind: "detr" (any object detector of transformers), "owlv2" (OWLv2, OWL-ViT) or "grounding-dino".
        names: Names of objects that an open-vocabulary detector should look for; () for other kinds.
        revision: Commit, branch or tag of a Hub id; None for `main`.
        device: Torch device.
        threshold: Confidence in [0, 1] that a box must exceed.
        max_regions: Maximum number of regions per photo.
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
            instead = "\nInstead: ", Setting("regions", "windows"), ", or boxes of your own."
            raise BackboneUnavailable(*error.parts, *instead) from error
        self.names, self.threshold, self.max_regions = tuple(names), threshold, max_regions
        self._kind = kind
        network, self._processor = _load_detector(folder, kind)
        self._check_names(network.config)
        weights = weights_digest(network)
        self.name = f"{kind}:{name.replace('@', '_')}@{commit or f'w{weights[:8]}'}"
        self.fingerprint = fingerprint_of(
            "transformers_detector",
            kind,
            weights,
            architecture_digest(network),
            settings_digest(folder),
            type(self._processor).__name__,
            type(getattr(self._processor, "image_processor", self._processor)).__name__,
            self.names,
            threshold,
            max_regions,
        )
        self._network = network.to(device).eval().requires_grad_(False)

    def _check_names(self, config: Any) -> None:
        """Refuse names that a network would not read to their end: transformers cuts them silently."""
        if not self.names:
            return
        if self._kind == "owlv2":
            limit = config.text_config.max_position_embeddings
            length = max(map(len, self._processor.tokenizer(list(self.names))["input_ids"]))
        else:
            limit, length = config.max_text_len, len(self._processor.tokenizer(self._joined)["input_ids"])
        if length > limit:
            raise InputError(
                Setting("region_names"),
                f": {self._kind!r} reads {limit} tokens; these names go beyond, and would not be looked for",
            )

    @property
    def _joined(self) -> str:
        """The names as Grounding DINO reads them: in small letters, each followed by a full stop."""
        return " ".join(f"{name.lower()}." for name in self.names)

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        return [self._find(image) for image in images]

    def _find(self, image: Image.Image) -> Regions:
        import torch

        device = self._network.device
        # With an explicit layout: some processors mistake an image 3 pixels high for channels first.
        inputs: dict[str, Any] = {"images": np.array(image), "input_data_format": "channels_last"}
        options: dict[str, Any] = {"target_sizes": torch.tensor([[image.height, image.width]], device=device)}
        if self._kind == "owlv2":
            inputs["text"] = options["text_labels"] = [list(self.names)]
        elif self._kind == "grounding-dino":
            inputs["text"] = self._joined
        inputs = self._processor(**inputs, return_tensors="pt").to(device)
        if self._kind == "grounding-dino":
            options |= {"input_ids": inputs["input_ids"], "text_threshold": self.threshold}
        with exact_convolutions("float32"), torch.inference_mode():
            outputs = self._network(**inputs)
        grounded = "grounded_" if self.names else ""
        process = getattr(self._processor, f"post_process_{grounded}object_detection")
        (found,) = process(outputs, threshold=self.threshold, **options)
        if self.names:
            labels = found["text_labels"]
        else:
            classes = getattr(self._network.config, "id2label", {})
            labels = [str(classes.get(index, index)) for index in found["labels"].tolist()]
        boxes = found["boxes"].cpu().numpy().astype(np.float64).reshape(-1, 4)
        scores = found["scores"].cpu().numpy().astype(np.float64)
        if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
            raise CapscoreError(f"{self.name} returned NaN or infinite boxes; its weights are damaged")
        # OWLv2 also finds boxes in the padding around the photo, which are empty after clipping
        boxes = boxes.clip(0.0, [*image.size, *image.size])
        on_photo = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(axis=1))
        regions = Regions(boxes, scores, tuple(labels)).take(on_photo)
        return regions.take(suppress(regions.boxes, regions.confidences, SAME_BOX)[: self.max_regions])


def _load_detector(folder: Path, kind: str) -> tuple[Any, Any]:
    """Network and processor of a folder."""
    import transformers

    from ..backbones import checkpoint

    config = checkpoint.load_config(folder)
    auto: Any = transformers.AutoModelForObjectDetection
    processors: Any = transformers.AutoImageProcessor
    fits = type(config) in transformers.MODEL_FOR_OBJECT_DETECTION_MAPPING
    if kind in OPEN_VOCABULARY:
        fits = config.model_type in OPEN_VOCABULARY[kind]
        auto, processors = transformers.AutoModelForZeroShotObjectDetection, transformers.AutoProcessor
    if not fits:
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {config.model_type!r}, no {kind!r} detector"
        )
    if getattr(config, "use_pretrained_backbone", False):
        config.use_pretrained_backbone = False  # the weights are complete: do not download a part
    # Unused weights are harmless: published detectors contain some from their training.
    network = checkpoint.load_folder_strictly(auto, folder, allow_unused=True, config=config)
    with checkpoint.refusing(f"the processor in {folder}"):
        processor = processors.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return network, processor


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
            - a finder, which is returned as it is.
        embedder: Embedder of the backbone that will embed the regions; detectors run on its device.
        names: Names of objects to look for, such as ("dog", "red ball"), for open-vocabulary detectors.
        revision: Commit, branch or tag of a Hub id; None for `main`.
        calibration: Mark calibration of the backbone, for "things".

    Raises:
        InputError: an unknown kind of finder, or names that do not go with it or are too many.
        BackboneUnavailable: a detector's weights are not available; the message says why.
    """
    kind, model, names = check_finder(spec, names)
    if model:
        return Detector(model, kind=kind, names=names, revision=revision, device=embedder.backbone.device)
    if revision is not None:
        raise InputError(Setting("revision", revision), " does not go with ", Setting("regions", kind))
    if isinstance(spec, RegionFinder):
        return spec
    if kind == "windows":
        return WindowFinder(embedder)
    if calibration is None:
        raise InputError(
            Setting("regions", "things"),
            f" needs a mark calibration, and there is none for the backbone {embedder.backbone.name!r}",
        )
    return ObjectFinder(embedder, calibration)


def check_finder(
    spec: str | RegionFinder, names: Sequence[str] | None = None
) -> tuple[str, str, tuple[str, ...]]:
    """Kind ("" for a finder object), model ("" for none) and distinct names of a `spec` of `load_finder`.

    Raises:
        InputError: an unknown kind, or names that do not go with it.

    >>> check_finder("owlv2:org/detector", ["dog", "red ball", "dog"])
    ('owlv2', 'org/detector', ('dog', 'red ball'))
    """
    kind, _, model = spec.strip().partition(":") if isinstance(spec, str) else ("", "", "")
    if not (kind in DETECTORS if model else kind in ("things", "windows") or isinstance(spec, RegionFinder)):
        raise InputError(
            Setting("regions", spec),
            ": expected 'things', 'windows', 'detr:ID', 'owlv2:ID' or 'grounding-dino:ID' (Hub id or folder)",
        )
    if kind not in OPEN_VOCABULARY:
        if names is not None:
            raise InputError(
                Setting("region_names"), " do not go with ", Setting("regions", spec), ", which takes none"
            )
        return kind, model, ()
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else []
    if not listed or not all(isinstance(name, str) and name.strip() and "." not in name for name in listed):
        raise InputError(
            Setting("region_names"),
            f": expected a list of names such as ['dog', 'red ball'], without full stops, for {kind}; got "
            f"{names!r:.200}",
        )
    return kind, model, tuple(dict.fromkeys(name.strip() for name in listed))
