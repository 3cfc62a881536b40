"""Chooses and loads a region finder by its name: things, windows, or a detector of transformers or
torchvision."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InputError, Setting
from .regions import KINDS, MOST, RegionFinder, check_names

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from .judge_folder import LoadedJudge


def load_finder(
    spec: str | RegionFinder,
    embedder: Embedder,
    *,
    names: Sequence[str] | None = None,
    revision: str | None = None,
    device: str | None = None,
    threshold: float | None = None,
    most: int = MOST,
    judge: LoadedJudge | None = None,
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
        judge: Judge of the backbone, for "things".

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
        from .things import ThingFinder

        _refuse(kind, revision=revision, device=device, threshold=threshold)
        if judge is None:
            raise InputError(
                Setting("regions", "things"),
                f" needs a judge of marks, which the backbone {embedder.backbone.name!r} has none of",
            )
        return ThingFinder(embedder, judge, most=most)
    if kind == "windows":
        from .windows import WindowFinder

        _refuse(kind, revision=revision, device=device, threshold=threshold)
        return WindowFinder(embedder, most=most)

    from .detectors import TorchvisionDetector, TransformersDetector

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
