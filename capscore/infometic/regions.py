"""Regions of photos that captions may mention, and the interface of the finders that propose them.

In: RGB photos. Out: one `Regions` per photo: boxes in pixels, confidences, labels. `load_finder` loads a
finder by name: "windows" needs no weights besides the backbone's; detectors come from transformers or
torchvision.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, Setting

if TYPE_CHECKING:
    from PIL import Image

# Number of boxes that the paper takes from its detector (Hu et al. 2023, section 4.1).
MOST = 100
KINDS = ("things", "windows", "detr", "owlv2", "grounding-dino", "torchvision")
# Kinds that look for the things that they are told to find.
OPEN_VOCABULARY = ("owlv2", "grounding-dino")


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of one photo.

    Attributes:
        boxes: float64 (m, 4), left, top, right, bottom in pixels, within the photo.
        confidences: float64 (m,), in [0, 1]: the finder's confidence that the box shows a thing.
        labels: m names of the things, "" if the finder does not name them.

    Raises:
        InputError: the shapes of the arrays do not agree.
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
        """The regions at these indices, in this order.

        >>> both = Regions(np.array([[0, 0, 2, 2], [1, 1, 3, 3]]), np.array([0.2, 0.9]), ("cat", "dog"))
        >>> both.take(np.array([1])).labels
        ('dog',)
        """
        labels = tuple(self.labels[index] for index in np.asarray(indices).tolist())
        return Regions(self.boxes[indices], self.confidences[indices], labels)


class RegionFinder(ABC):
    """Proposes regions of photos.

    Attributes:
        name: Name in signatures, such as "windows" or "detr:facebook/detr-resnet-50".
        fingerprint: Digest that changes whenever the regions of a photo could.
        most: Maximum number of regions per photo.
        names: Things that it was told to look for; () if it takes no names.
    """

    name: str
    fingerprint: str
    most: int
    names: tuple[str, ...] = ()

    @abstractmethod
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → the regions of each, at most `most`, most confident first.

        The regions of a photo do not depend on the other photos. A detector may find nothing.
        """


def check_names(kind: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Names for a kind of finder, stripped and without repetitions; () if it takes none.

    Raises:
        InputError: names for a finder that takes none, none for one that needs them, or an empty one.
    """
    if kind not in OPEN_VOCABULARY:
        if names is not None:
            raise InputError(
                f"{names!r:.200} do not go with ",
                Setting("regions", kind),
                f", which takes none: names are for {' and '.join(OPEN_VOCABULARY)}",
                field="names",
            )
        return ()
    listed = [] if names is None or isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not listed or not all(isinstance(name, str) for name in listed):
        raise InputError(
            Setting("regions", kind),
            f" finds what it is told to look for: expected a list of names such as ['dog', 'red ball'], got "
            f"{names!r:.200}",
            field="names",
        )
    stripped = [name.strip() for name in listed]
    if not all(stripped):
        raise InputError(f"name {stripped.index('')}, counted from 0, is empty", field="names")
    dotted = [name for name in stripped if kind == "grounding-dino" and "." in name]
    if dotted:
        raise InputError(
            f"{dotted[0]!r} has a full stop, which separates the names for {kind!r}", field="names"
        )
    return tuple(dict.fromkeys(stripped))


def __getattr__(name: str) -> Any:
    if name in ("check_finder", "load_finder"):  # they were here until 0.1
        return getattr(importlib.import_module(".load_finder", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
