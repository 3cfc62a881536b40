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
    MissingExtraError,
    Setting,
    warn,
)

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

    Raises:
        MissingExtraError: The package is not installed.
        BackboneUnavailable: The weights are not available; most are gated on the Hub.
        InputError: The model compares with references.
    """

    def __init__(self, model: str = DEFAULT_COMET, *, batch_size: int = 16, device: str | None = None):
        try:
            import comet
        except ImportError:
            raise MissingExtraError("unbabel-comet", "cometkiwi", "quality estimation by COMETKiwi") from None
        from ..backbones.base import resolve_device

        path = Path(model).expanduser()
        if path.is_dir():
            path = path / "checkpoints" / "model.ckpt"
        try:
            file = str(path) if path.is_file() else comet.download_model(model)
            self._model = comet.load_from_checkpoint(file)
        except Exception as error:  # comet raises KeyError and Exception
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BackboneUnavailable(
                f"the COMET model {model!r} is not available: {reason[:300]}. Models of COMETKiwi are gated: "
                "accept the terms on the model's page, then `hf auth login` or set HF_TOKEN"
            ) from error
        if self._model.requires_references():
            raise InputError(
                Setting("quality", f"cometkiwi:{model}"),
                " compares with references; expected a model without",
            )
        self._batch_size = batch_size
        self._gpus = int(resolve_device(device).startswith("cuda"))
        self.name = f"cometkiwi:{model}"

    def check_languages(self, languages: Sequence[str]) -> None:
        """COMETKiwi states no list of languages."""

    def estimate(self, sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
        """Estimates, float64 (n,)."""
        if not sources:
            return np.zeros(0)
        pairs = [{"src": one, "mt": other} for one, other in zip(sources, translations, strict=True)]
        made = self._model.predict(pairs, batch_size=self._batch_size, gpus=self._gpus, progress_bar=False)
        return np.asarray(made.scores, dtype=np.float64)


def load_quality(spec: str, *, device: str | None = None) -> QualityEstimator:
    """The estimator that an option names.

    Args:
        spec: "cosine" or "cosine:BACKBONE", "cometkiwi" or "cometkiwi:MODEL".
        device: Torch device; None for a GPU if there is one.

    Raises:
        InputError: Neither of these.
        BackboneUnavailable, MissingExtraError: The weights or the package are not here.
    """
    kind, _, model = spec.partition(":")
    if kind == "cosine":
        return CosineQuality(model or DEFAULT_BACKBONE, device=device)
    if kind == "cometkiwi":
        return CometKiwiQuality(model or DEFAULT_COMET, device=device)
    raise InputError(
        Setting("quality", spec), ": expected cosine, cosine:BACKBONE, cometkiwi or cometkiwi:MODEL"
    )


def check_finite(quality: np.ndarray, name: str) -> None:
    """Raise CapscoreError if an estimator gave something that is no number."""
    if not np.isfinite(quality).all():
        raise CapscoreError(f"{name} gave {int((~np.isfinite(quality)).sum())} qualities that are no numbers")
