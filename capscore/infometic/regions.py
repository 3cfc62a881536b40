"""What may be mentioned in a caption: regions of a photo, and the finders that propose them.

In: RGB photos. Out: per photo a `Regions`: boxes in pixels, confidences, labels. Which finder is said in one
word: "windows" needs no weights but the backbone's; detectors come from transformers or torchvision.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder

# As many boxes as the paper takes from its detector (Hu et al. 2023, section 4.1).
MOST = 100
KINDS = ("windows", "detr", "owlv2", "grounding-dino", "torchvision")
# Those that find what they are told to look for.
OPEN_VOCABULARY = ("owlv2", "grounding-dino")


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of one photo.

    Attributes:
        boxes: float64 (m, 4), left, top, right, bottom in pixels, on the photo.
        confidences: float64 (m,), in [0, 1]: how sure the finder is that there is a thing.
        labels: m names of what it takes them for; "" where it does not say.

    Raises:
        InputError: arrays that do not go with each other.
    """

    boxes: np.ndarray
    confidences: np.ndarray
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        boxes, confidences = np.shape(self.boxes), np.shape(self.confidences)
        if not len(boxes) == 2 or boxes[1] != 4 or not boxes[:1] == confidences == (len(self.labels),):
            raise InputError(
                f"regions with boxes of shape {boxes}, confidences of shape {confidences} and "
                f"{len(self.labels)} labels; expected (m, 4), (m,) and m"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> Regions:
        """The regions at these places, in this order.

        >>> both = Regions(np.array([[0, 0, 2, 2], [1, 1, 3, 3]]), np.array([0.2, 0.9]), ("cat", "dog"))
        >>> both.take(np.array([1])).labels
        ('dog',)
        """
        labels = tuple(self.labels[index] for index in np.asarray(indices).tolist())
        return Regions(self.boxes[indices], self.confidences[indices], labels)


class RegionFinder(ABC):
    """Proposes regions of photos.

    Attributes:
        name: what signatures call it, such as "windows" or "detr:facebook/detr-resnet-50".
        fingerprint: changes whenever the regions of a photo could.
        most: how many regions of a photo it returns at most.
        names: what it was told to look for; () of a finder that is told nothing.
    """

    name: str
    fingerprint: str
    most: int
    names: tuple[str, ...] = ()

    @abstractmethod
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → the regions of each, at most `most`, most confident first.

        What is found in a photo does not depend on the others. A detector may find nothing.
        """


def load_finder(
    spec: str | RegionFinder,
    embedder: Embedder,
    *,
    names: Sequence[str] | None = None,
    revision: str | None = None,
    device: str | None = None,
    threshold: float | None = None,
    most: int = MOST,
) -> RegionFinder:
    """Make a region finder.

    Args:
        spec: one of

            - "windows": windows of several sizes, ranked by what the embedder's image tower sees in them;
            - "detr:ID": any object detector of transformers (DETR, YOLOS, RT-DETR, …), a Hub id or folder;
            - "owlv2:ID" or "grounding-dino:ID": a detector of things that `names` lists;
            - "torchvision:NAME": a detector of torchvision, such as "fasterrcnn_resnet50_fpn_v2";
            - a finder, which is returned as it is.
        embedder: whose backbone the regions will be embedded with.
        names: for open-vocabulary detectors: what to look for, such as ("dog", "red ball").
        revision: for Hub ids: commit, branch or tag; None for `main`.
        device: of a detector; None for the backbone's.
        threshold: confidence that a detector's box must exceed; None for the finder's own.
        most: how many regions of a photo to return at most.

    Raises:
        InputError: no such kind of finder, or an option that does not go with it; names beyond what the
            detector reads.
        BackboneUnavailable: a detector's weights cannot be had; the message says why.
    """
    kind, model, listed = check_finder(spec, names)
    if isinstance(spec, RegionFinder):
        _refuse(kind, revision=revision, device=device, threshold=threshold)
        return spec
    if most < 1:
        raise InputError(f"most={most!r}: expected at least 1 region")
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
    """What `load_finder` is asked for, as far as it can be told without loading anything.

    Args:
        spec: as `load_finder` takes it.
        names: likewise.

    Returns:
        The kind ("a finder" for one that is made already), the model ("" where there is none), the names.

    Raises:
        InputError: no such kind, or names that do not go with it; the latter with the field "names".

    >>> check_finder("owlv2:org/detector", ["dog", "red ball", "dog"])
    ('owlv2', 'org/detector', ('dog', 'red ball'))
    """
    if isinstance(spec, RegionFinder):
        return "a finder", "", check_names("a finder", names)
    kind, _, model = spec.strip().partition(":") if isinstance(spec, str) else ("", "", "")
    if kind not in KINDS or bool(model) == (kind == "windows"):
        raise InputError(f"regions={spec!r}: {_expected(kind)}")
    return kind, model, check_names(kind, names)


def check_names(kind: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Names for a kind of finder, without blanks around them and each once; () where it takes none.

    Raises:
        InputError: names for a finder that takes none, none for one that needs them, or an empty one.
    """
    if kind not in OPEN_VOCABULARY:
        if names is not None:
            raise InputError(
                f"{names!r:.200} do not go with regions={kind!r}, which takes none: names are for "
                f"{' and '.join(OPEN_VOCABULARY)}",
                field="names",
            )
        return ()
    listed = [] if names is None or isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not listed or not all(isinstance(name, str) for name in listed):
        raise InputError(
            f"regions={kind!r} finds what it is told to look for: expected a list of names such as "
            f"['dog', 'red ball'], got {names!r:.200}",
            field="names",
        )
    stripped = [name.strip() for name in listed]
    if not all(stripped):
        raise InputError(f"name {stripped.index('')}, counted from 0, is empty", field="names")
    dotted = [name for name in stripped if kind == "grounding-dino" and "." in name]
    if dotted:
        raise InputError(f"{dotted[0]!r} has a full stop, which parts the names for {kind!r}", field="names")
    return tuple(dict.fromkeys(stripped))


def _refuse(kind: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option}={value!r} does not go with regions={kind!r}")


def _expected(kind: str) -> str:
    close = difflib.get_close_matches(kind, KINDS, n=1)
    hint = f"did you mean {close[0]!r}? " if close and close[0] != kind else ""
    return (
        f"{hint}expected 'windows', 'detr:ID', 'owlv2:ID', 'grounding-dino:ID' (a Hub id or a folder), "
        "or 'torchvision:NAME'"
    )
