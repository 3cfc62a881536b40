"""Where weights lie that are a distribution of their own, because their licence is not the library's.

In: the name of a folder of weights, such as "pr_mcs". Out: its path. A distribution offers its folders by an
entry point of the group `capscore.weights`, whose value is the name of the package that they lie in. The
package is found, not imported: weights run no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from .. import __version__
from ..errors import MissingWeightsError, Part, Setting

GROUP = "capscore.weights"
DISTRIBUTION = "capscore-weights"
LICENCE = "CC BY-NC 4.0"
INSTALL = "pip install ./weights in a checkout of capscore"
# The backbone that needs none of these weights.
FREE = "embedded-free"


@dataclass(frozen=True)
class _Offer:
    """What one installed distribution offers: the places of its folders, in the order of the search path."""

    distribution: str
    version: str
    package: str
    places: tuple[Path, ...]

    def folder(self, name: str) -> Path | None:
        return next((place / name for place in self.places if _holds_weights(place / name)), None)


def weights_folder(name: str) -> Path:
    """Folder of installed weights.

    Args:
        name: Name of the folder, such as "pr_mcs" or "infometic".

    Raises:
        MissingWeightsError: no installed distribution offers the folder, several do, it is damaged, or
            `capscore-weights` belongs to another version of capscore.

    >>> sorted(path.name for path in weights_folder("infometic").glob("*.safetensors"))
    ['model.safetensors']
    """
    offers = _offers()
    found = [(offer, folder) for offer in offers if (folder := offer.folder(name)) is not None]
    ours = next((offer for offer in offers if offer.distribution == DISTRIBUTION), None)
    if (
        ours is not None
        and _series(ours.version) != _series(__version__)
        and (not found or ours is found[0][0])
    ):
        raise _unavailable(
            name,
            f"which is installed in version {ours.version}, but capscore {__version__} needs "
            f"{'.'.join(_series(__version__))}",
        )
    if len(found) > 1:
        several = " and ".join(offer.distribution for offer, _ in found)
        raise _unavailable(name, f"but {several} both have them: uninstall one of the two", install=False)
    if found:
        return found[0][1]
    if ours is None:
        raise _unavailable(name, "which is not installed")
    places = " and ".join(map(str, ours.places)) or f"a package {ours.package!r}, which is not there"
    raise _unavailable(
        name, f"but the installed {DISTRIBUTION} {ours.version} has no {name}/*.safetensors in {places}"
    )


def has_weights(name: str) -> bool:
    """Whether `weights_folder` finds a folder.

    >>> has_weights("pr_mcs"), has_weights("nothing")
    (True, False)
    """
    try:
        weights_folder(name)
    except MissingWeightsError:
        return False
    return True


def offered_weights() -> list[str]:
    """Names of all folders of installed weights.

    >>> offered_weights()
    ['image_tower', 'infometic', 'mark_calibration', 'pr_mcs']
    """
    places = [place for offer in _offers() for place in offer.places if place.is_dir()]
    return sorted({folder.name for place in places for folder in place.iterdir() if _holds_weights(folder)})


def _offers() -> list[_Offer]:
    """One per distribution and package, sorted by the distribution's name."""
    offers: dict[tuple[str, str], _Offer] = {}
    for point in entry_points(group=GROUP):
        if point.dist is None:
            continue
        distribution = point.dist.name.lower().replace("_", "-")
        offer = _Offer(distribution, point.dist.version, point.value, _places(point.value))
        offers.setdefault((distribution, point.value), offer)  # the first on the search path hides the rest
    return sorted(offers.values(), key=lambda offer: (offer.distribution, offer.package))


def _places(package: str) -> tuple[Path, ...]:
    # The parent of a name with a dot would be imported.
    spec = find_spec(package) if package.isidentifier() else None
    return tuple(map(Path, spec.submodule_search_locations or ())) if spec is not None else ()


def _holds_weights(folder: Path) -> bool:
    return any(path.is_file() for path in folder.glob("*.safetensors"))


def _series(version: str) -> tuple[str, ...]:
    """Major and minor version, which weights and library share."""
    return tuple(version.split(".")[:2])


def _unavailable(name: str, reason: str, install: bool = True) -> MissingWeightsError:
    how: tuple[Part, ...] = (f": {INSTALL}",) if install else ()
    return MissingWeightsError(
        f"the weights {name!r} are part of {DISTRIBUTION} ({LICENCE}, not for commercial use), {reason}",
        *how,
        "; ",
        Setting("backbone", FREE),
        " does without, and is Apache-2.0 throughout",
    )
