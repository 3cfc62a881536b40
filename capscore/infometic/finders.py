"""Chooses and loads a region finder by its name: things, windows, or a detector of transformers or
torchvision."""

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
    fetch,
    in_one_line,
    load_config,
    load_processor,
    load_with_report,
    needed_files,
    offline_variable,
    read_json,
    refuse_misreport,
    weight_files,
)
from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting
from ..images.boxes import suppress
from .regions import KINDS, MOST, OPEN_VOCABULARY, RegionFinder, Regions, check_names

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder
    from .mark_calibration import MarkCalibration


def load_finder(
    spec: str | RegionFinder,
    embedder: Embedder,
    *,
    names: Sequence[str] | None = None,
    revision: str | None = None,
    device: str | None = None,
    threshold: float | None = None,
    most: int = MOST,
    judge: MarkCalibration | None = None,
) -> RegionFinder:
    """Load a region finder.

    Args:
        spec: Finder to load, one of

            - "things": boxes of things that a judge finds in the backbone's feature map, then windows;
            - "windows": windows of several sizes, ranked by the embedder's image tower;
            - "detr:ID": any object detector of transformers (DETR, YOLOS, RT-DETR, …), by Hub id or folder;
            - "owlv2:ID" or "grounding-dino:ID": a detector of the things in `names`;
            - "torchvision:NAME": a detector of torchvision, such as "fasterrcnn_resnet50_fpn_v2";
            - a finder, which is returned as it is.
        embedder: Embedder of the backbone that will embed the regions.
        names: Things to look for, such as ("dog", "red ball"), for open-vocabulary detectors.
        revision: Commit, branch or tag of a Hub id; None for `main`.
        device: Device of a detector; None for the backbone's.
        threshold: Confidence that a detector's box must exceed; None for the finder's default.
        most: Maximum number of regions per photo.
        judge: MarkNetwork of the backbone, for "things".

    Raises:
        InputError: an unknown kind of finder, an option that does not go with it, or more names than the
            detector reads.
        BackboneUnavailable: a detector's weights are not available; the message says why.
    """
    kind, model, listed = check_finder(spec, names)
    if isinstance(spec, RegionFinder):
        _refuse(kind, revision=revision, device=device, threshold=threshold)
        return spec
    if most < 1:
        raise InputError(Setting("most", most), ": expected at least 1 region")
    if kind == "things":
        from .regions import ObjectFinder

        _refuse(kind, revision=revision, device=device, threshold=threshold)
        if judge is None:
            raise InputError(
                Setting("regions", "things"),
                f" needs a judge of marks, which the backbone {embedder.backbone.name!r} has none of",
            )
        return ObjectFinder(embedder, judge, most=most)
    if kind == "windows":
        from .regions import WindowFinder

        _refuse(kind, revision=revision, device=device, threshold=threshold)
        return WindowFinder(embedder, most=most)

    from .finders import TorchvisionDetector, TransformersDetector

    device = embedder.backbone.device if device is None else device
    if kind == "torchvision":
        _refuse(kind, revision=revision)
        return TorchvisionDetector.load(model, device=device, threshold=threshold, most=most)
    return TransformersDetector.load(
        model,
        kind=kind,
        names=listed or None,
        revision=revision,
        device=device,
        threshold=threshold,
        most=most,
    )


def check_finder(
    spec: str | RegionFinder, names: Sequence[str] | None = None
) -> tuple[str, str, tuple[str, ...]]:
    """Check the arguments of `load_finder` as far as possible without loading anything.

    Args:
        spec: Finder, as for `load_finder`.
        names: Things to look for, likewise.

    Returns:
        The kind ("a finder" for a finder object), the model ("" if there is none), and the names.

    Raises:
        InputError: an unknown kind, or names that do not go with it; the latter with the field "names".

    >>> check_finder("owlv2:org/detector", ["dog", "red ball", "dog"])
    ('owlv2', 'org/detector', ('dog', 'red ball'))
    """
    if isinstance(spec, RegionFinder):
        return "a finder", "", check_names("a finder", names)
    kind, _, model = spec.strip().partition(":") if isinstance(spec, str) else ("", "", "")
    if kind not in KINDS or bool(model) == (kind in ("things", "windows")):
        raise InputError(Setting("regions", spec), f": {_expected(kind)}")
    return kind, model, check_names(kind, names)


def _refuse(kind: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(Setting(option, value), " does not go with ", Setting("regions", kind))


def _expected(kind: str) -> str:
    close = difflib.get_close_matches(kind, KINDS, n=1)
    hint = f"did you mean {close[0]!r}? " if close and close[0] != kind else ""
    return (
        f"{hint}expected 'things', 'windows', 'detr:ID', 'owlv2:ID', 'grounding-dino:ID' (a Hub id or a "
        "folder), or 'torchvision:NAME'"
    )


# torchvision's own threshold; choosing by clusters needs many boxes rather than certain ones.
THRESHOLD = 0.05
# Overlap above which two boxes are the same thing, found under two names or by two queries.
SAME_BOX = 0.7
# Number of names that an error lists.
_SHOWN = 5
# Model types of the open-vocabulary kinds; "detr" takes any object detector of transformers.
_TYPES = dict(
    zip(OPEN_VOCABULARY, (("owlv2", "owlvit"), ("grounding-dino", "mm-grounding-dino")), strict=True)
)


class TransformersDetector(RegionFinder):
    """A detector of transformers: with its own classes (the DETR family), or for given names.

    Made by `TransformersDetector.load`.

    Args:
        model: Network in float32.
        processor: Converter of photos (and names) to the network's input, and of its output to boxes.
        kind: "detr", "owlv2" or "grounding-dino".
        name: Name of the model in signatures.
        names: Things that an open-vocabulary detector looks for; () for other kinds.
        device: Device from `capscore.backbones.base.resolve_device`.
        threshold: Confidence that a box must exceed.
        most: Maximum number of regions per photo.
        settings: Digest of the files that say how the weights are used.
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
        """Load a detector from a local folder or the Hub; code that comes with weights never runs.

        Args:
            model: Folder with config.json, weights and preprocessor_config.json (and, for an open vocabulary,
                a tokenizer), or Hub id.
            kind: "detr" (any object detector of transformers), "owlv2" (OWLv2, OWL-ViT) or
                "grounding-dino".
            names: Things that an open-vocabulary detector should look for; None for other kinds.
            revision: Commit, branch or tag of a Hub id; None for `main`.
            device: Torch device; None for a GPU if there is one.
            threshold: Confidence in [0, 1] that a box must exceed; None for 0.05.
            most: Maximum number of regions per photo.

        Raises:
            BackboneUnavailable: files are not available, damaged, or do not fit each other.
            InputError: names for a detector that takes none, no names for one that needs them, or more names
                than it reads.
            CapscoreError: the folder does not hold a detector of that kind.
        """
        listed = check_names(kind, names)
        folder = Path(os.path.expanduser(model))
        if folder.is_dir():
            if revision:
                raise InputError(Setting("revision", revision), f" does not go with the folder {folder}")
            name = folder.resolve().name.replace("@", "_")
        elif folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
            raise BackboneUnavailable(
                Setting("regions", f"{kind}:{model}"), f": there is no folder {model!r}"
            )
        else:
            try:
                folder, commit = fetch(model, revision or "", needed_files)
            except BackboneUnavailable as error:
                raise BackboneUnavailable(
                    Setting("regions", f"{kind}:{model}"),
                    " is not available: ",
                    *error.parts,
                    "\nInstead: ",
                    Setting("regions", "windows"),
                    " (needs no weights besides the backbone's), a local folder, or boxes of your own.",
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
        # With an explicit layout: some processors mistake an image 3 pixels high for channels first.
        settings = {"images": np.array(image), "input_data_format": "channels_last", "return_tensors": "pt"}
        if self._kind == "owlv2":
            settings["text"] = [list(self.names)]
        elif self._kind == "grounding-dino":
            settings["text"] = " ".join(_as_read(self.names))
        return self._processor(**settings).to(self._device)


class TorchvisionDetector(RegionFinder):
    """A detector of torchvision with torchvision's weights.

    Made by `TorchvisionDetector.load`.

    Args:
        model: Network in float32.
        name: torchvision's names of the model and of the weights.
        labels: Names of its classes.
        device: Device from `capscore.backbones.base.resolve_device`.
        threshold: Confidence that a box must exceed.
        most: Maximum number of regions per photo.
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
        """Load a detector of torchvision with its default weights.

        Args:
            model: Name of the detector, such as "fasterrcnn_resnet50_fpn_v2";
                `torchvision.models.list_models` lists them.
            device: Torch device; None for a GPU if there is one.
            threshold: Confidence in [0, 1] that a box must exceed; None for 0.05, below which torchvision
                itself drops boxes.
            most: Maximum number of regions per photo; torchvision returns 100, SSD up to 300.

        Raises:
            InputError: torchvision has no detector of that name.
            BackboneUnavailable: the weights are neither in torch's cache nor available online, or are
                damaged.
        """
        import torchvision

        known = torchvision.models.list_models(module=torchvision.models.detection)
        if model not in known:
            close = difflib.get_close_matches(model, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                Setting("regions", f"torchvision:{model}"),
                f": torchvision has the detectors {', '.join(known)}{hint}",
            )
        limit = _checked_threshold(threshold)
        weights = torchvision.models.get_model_weights(model).DEFAULT
        file = _published_file(model, weights.url)
        try:
            # Checked before torchvision reads it: its loader would unpickle anything.
            torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # the bytes of a damaged file can raise anything, such as IndexError
            reason = in_one_line(error)[:300]
            if isinstance(error, pickle.UnpicklingError):  # its message advises to load the file anyway
                reason = "it is damaged, or holds more than tensors"
            raise BackboneUnavailable(f"{file} cannot be read as weights of {model}: {reason}") from None
        try:
            network = torchvision.models.get_model(model, weights=weights, progress=False)
        except RuntimeError as error:  # other names and shapes than the model's
            raise BackboneUnavailable(
                f"{file} does not hold weights of {model}: {in_one_line(error)[:300]}"
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
    """A detector's output → distinct regions within the photo, most confident first."""
    corners = boxes.detach().cpu().numpy().astype(np.float64).reshape(-1, 4)
    scores = confidences.detach().cpu().numpy().astype(np.float64)
    if not (np.isfinite(corners).all() and np.isfinite(scores).all()):
        raise CapscoreError(f"{name} returned NaN or infinite boxes; its weights are damaged, or hold NaN")
    width, height = size
    corners = corners.clip(0.0, [width, height, width, height])
    # OWLv2 also finds boxes in the padding around the photo, which are empty after clipping
    on_photo = np.flatnonzero((corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1]))
    regions = Regions(corners, scores, tuple(labels)).take(on_photo)
    return regions.take(suppress(regions.boxes, regions.confidences, SAME_BOX)[:most])


# ------------------------------------------------------------------------ loading


def _as_read(names: Sequence[str]) -> list[str]:
    """Names in the form that Grounding DINO reads: in small letters, each followed by a full stop."""
    return [f"{name.lower()}." for name in names]


def _check_lengths(kind: str, names: tuple[str, ...], config: Any, processor: Any) -> None:
    """Refuse names that a network would not read to their end.

    Grounding DINO reads all names as one text; beyond its limit transformers silently cuts the text, or fails
    at the first photo, depending on its version. OWLv2 reads each name alone and fails at the first photo.
    """
    if kind == "owlv2":
        limit = config.text_config.max_position_embeddings
        lengths = [len(ids) for ids in processor.tokenizer(list(names))["input_ids"]]
        limited = f"{kind!r} reads {limit} tokens per name"
    elif kind == "grounding-dino":
        limit = config.max_text_len
        pieces = processor.tokenizer(_as_read(names), add_special_tokens=False)["input_ids"]
        lengths = np.cumsum([2, *map(len, pieces)])[1:].tolist()  # one token begins the text, one ends it
        limited = f"{kind!r} reads {limit} tokens of all names together"
    else:
        return
    beyond = [repr(name) for name, length in zip(names, lengths, strict=True) if length > limit]
    if beyond:
        shown = ", ".join(beyond[:_SHOWN]) + (", …" if len(beyond) > _SHOWN else "")
        raise InputError(
            f"{limited}; {len(beyond)} of {len(names)} names go beyond, and would not be looked for: {shown}",
            field="names",
        )


def _checked_threshold(threshold: float | None) -> float:
    if threshold is None:
        return THRESHOLD
    if not 0.0 <= threshold <= 1.0:
        raise InputError(Setting("threshold", threshold), ": expected a confidence from 0 to 1")
    return float(threshold)


def _load_network(folder: Path, kind: str) -> Any:
    raw = read_json(folder / "config.json")
    found = raw.get("model_type", "")
    weight_files(folder)  # "file missing" is a clearer error than one about the config
    config = load_config(folder, "a detector")
    auto: Any
    if kind in _TYPES:
        fits, expected = found in _TYPES[kind], " or ".join(_TYPES[kind])
        auto = transformers.AutoModelForZeroShotObjectDetection
    else:
        fits = type(config) in transformers.MODEL_FOR_OBJECT_DETECTION_MAPPING
        auto, expected = transformers.AutoModelForObjectDetection, "an object detector"
    if not fits:
        others = [other for other, types in _TYPES.items() if found in types]
        hint = ("; did you mean ", Setting("regions", f"{others[0]}:…"), "?") if others else ()
        raise CapscoreError(
            f"{folder / 'config.json'} describes a model of type {found!r}; {kind!r} takes {expected}", *hint
        )
    if getattr(config, "use_pretrained_backbone", False):
        config.use_pretrained_backbone = False  # the weights are complete: do not download a part
    try:
        model, report = load_with_report(auto, folder, config=config, trust_remote_code=False)
    except Exception as error:  # damaged pickles, wrong configs, a missing timm
        raise BackboneUnavailable(
            f"no detector can be built from {folder}: {in_one_line(error)[:400]}"
        ) from error
    # Unused weights are harmless: published detectors contain some from their training.
    refuse_misreport(folder, {**report, "unexpected_keys": []})
    return model


def _load_processor(folder: Path, kind: str) -> Any:
    auto = transformers.AutoProcessor if kind in _TYPES else transformers.AutoImageProcessor
    return load_processor(auto, folder, "processor", trust_remote_code=False)


def _published_file(model: str, url: str) -> Path:
    """The file in torch's cache with the weights from a URL, downloaded if necessary."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if file.is_file():
        return file
    variable = offline_variable()
    if variable is not None:
        raise BackboneUnavailable(
            Setting("regions", f"torchvision:{model}"),
            f" is not available: {variable} is set, so the network is not used, and there is no {file}; put "
            f"{url} there, or use ",
            Setting("regions", "windows"),
        )
    prefix = file.stem.rpartition("-")[2]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(file), prefix, progress=False)
    except (OSError, RuntimeError) as error:  # URLError is an OSError; a wrong checksum a RuntimeError
        raise BackboneUnavailable(
            Setting("regions", f"torchvision:{model}"),
            f" is not available: {url} cannot be fetched ({in_one_line(error)}); use ",
            Setting("regions", "windows"),
        ) from error
    return file
