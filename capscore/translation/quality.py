"""A text and its translation → an estimate of the translation's quality, without a reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    InputError,
    LanguageWarning,
    Setting,
    warn,
)
from .comet_process import CometProcess
from .comet_worker import estimate, load_model

DEFAULT_BACKBONE = "embedded-free"
DEFAULT_COMET = "Unbabel/wmt22-cometkiwi-da"
KINDS = ("cosine", "cometkiwi")


class QualityEstimator(Protocol):
    """What estimates quality.

    Attributes:
        name: Name in signatures: what it is, and of which weights.
    """

    name: str

    def check_languages(self, languages: Sequence[str]) -> None:
        """Warn of languages, as of `language_code`, that the estimates mean little in."""

    def estimate(self, sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
        """Quality of n translations, float64 (n,), higher is better."""


class CosineQuality:
    """Cosine of a text and its translation under the text tower of a multilingual backbone, −1 to 1.

    Args:
        backbone: What `load_backbone` takes.
        device, dtype: As of `load_backbone`.
    """

    def __init__(
        self, backbone: Any = DEFAULT_BACKBONE, *, device: str | None = None, dtype: str | None = None
    ):
        from ..backbones.loading import load_backbone
        from ..embedding.embedder import Embedder

        loaded = load_backbone(backbone, device=device, dtype=dtype)
        # candidates are many, and seen once: they are not kept on disk
        self._embedder = Embedder(loaded, cache=None, progress=False)
        self.name = f"cosine:{loaded.name}@{loaded.revision}"

    def check_languages(self, languages: Sequence[str]) -> None:
        """Warn of languages that the backbone was not trained on."""
        backbone = self._embedder.backbone
        strange = sorted(set(languages) - (backbone.languages or set(languages)))
        if strange:
            warn(
                LanguageWarning(
                    f"the backbone {backbone.name} was not trained on {', '.join(strange)}: its cosines say "
                    "little about translations into these languages; ",
                    Setting("quality"),
                    " names another estimator",
                )
            )

    def estimate(self, sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
        """Cosines, float64 (n,)."""
        one, other = (self._embedder.texts(texts) for texts in (sources, translations))
        rows = (part.matrix[part.index].astype(np.float64) for part in (one, other))
        return np.einsum("nd,nd->n", *rows)


class CometKiwiQuality:
    """COMETKiwi (Rei et al. 2022, 2023), through the package unbabel-comet; about 0 to 1.

    Args:
        model: Hub id of a COMET model that needs no reference, the file of a checkpoint, or its folder.
        batch_size: Number of pairs per batch.
        device: Torch device; None for a GPU if there is one.
        python: Path of the Python of another environment, which has the package; None for this one.

    Raises:
        BackboneUnavailable: The package is not installed here, or the weights are not available; most are
            gated on the Hub.
        InputError: The other Python has no such package, or the model compares with references.
    """

    def __init__(
        self,
        model: str = DEFAULT_COMET,
        *,
        batch_size: int = 16,
        device: str | None = None,
        python: str | Path | None = None,
    ):
        from ..backbones.base import resolve_device

        self._batch_size = batch_size
        self._gpus = int(resolve_device(device).startswith("cuda"))
        try:
            if python is None:
                self._model = load_model(model)
                references = self._model.requires_references()
            else:
                self._model = CometProcess(python, model, batch_size=batch_size, gpus=self._gpus)
                references = self._model.references
        except ImportError as error:
            raise BackboneUnavailable(
                f"quality estimation by COMETKiwi needs the package unbabel-comet ({error}), which needs "
                "older packages than capscore's: make an environment for it (`python -m venv comet && "
                "comet/bin/pip install unbabel-comet`), and give ",
                Setting("quality_python", "comet/bin/python"),
            ) from error
        except InputError:
            raise
        except Exception as error:  # comet raises KeyError and Exception
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BackboneUnavailable(
                f"the COMET model {model!r} is not available: {reason[:300]}. Models of COMETKiwi are gated: "
                "accept the terms on the model's page, then `hf auth login` or set HF_TOKEN"
            ) from error
        if references:
            raise InputError(
                Setting("quality", f"cometkiwi:{model}"),
                " compares with references; expected a model without",
            )
        self.name = f"cometkiwi:{model}"

    def check_languages(self, languages: Sequence[str]) -> None:
        """COMETKiwi states no list of languages."""

    def estimate(self, sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
        """Estimates, float64 (n,)."""
        if not sources:
            return np.zeros(0)
        pairs = [*zip(sources, translations, strict=True)]
        if isinstance(self._model, CometProcess):
            return np.asarray(self._model.estimate(pairs), dtype=np.float64)
        return np.asarray(estimate(self._model, pairs, self._batch_size, self._gpus), dtype=np.float64)


def load_quality(
    spec: str, *, device: str | None = None, python: str | Path | None = None
) -> QualityEstimator:
    """The estimator that an option names.

    Args:
        spec: "cosine" or "cosine:BACKBONE", "cometkiwi" or "cometkiwi:MODEL".
        device: Torch device; None for a GPU if there is one.
        python: Path of the Python that has unbabel-comet; None for this one.

    Raises:
        InputError: Neither of these, or another Python for what runs in this one.
        BackboneUnavailable: The weights or the package are not here.
    """
    kind, _, model = spec.partition(":")
    if kind == "cosine" and python is not None:
        raise InputError(
            Setting("quality_python", str(python)), " goes with ", Setting("quality", "cometkiwi")
        )
    if kind == "cosine":
        return CosineQuality(model or DEFAULT_BACKBONE, device=device)
    if kind == "cometkiwi":
        return CometKiwiQuality(model or DEFAULT_COMET, device=device, python=python)
    raise InputError(
        Setting("quality", spec), ": expected cosine, cosine:BACKBONE, cometkiwi or cometkiwi:MODEL"
    )


def check_finite(quality: np.ndarray, name: str) -> None:
    """Raise CapscoreError if an estimator gave something that is no number."""
    if not np.isfinite(quality).all():
        raise CapscoreError(f"{name} gave {int((~np.isfinite(quality)).sum())} qualities that are no numbers")
