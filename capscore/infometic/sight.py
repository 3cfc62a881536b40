"""What a judge of marks sees of a photo, small enough to be remembered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Sight:
    """What the judge sees of a photo.

    Attributes:
        cells: float16 (c, reduced), the reduced cells of the feature map.
        windows: float16 (k, d), embeddings of the photo's windows.
    """

    cells: np.ndarray
    windows: np.ndarray
