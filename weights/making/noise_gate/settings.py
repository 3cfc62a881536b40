"""The settings of the noise gate's recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from capscore.errors import CapscoreError
from training.engine.loop_settings import LoopSettings, require
from weights.making.settings import named_numbers


@dataclass
class NoiseGateSettings(LoopSettings):
    """Settings of a run, besides those of the loop.

    Attributes:
        base: Backbone that gets the noise gate; its text network is that of the embedded backbones.
        texts: Files of `weights.making.captions`.
        languages: How often each language is drawn, as language:number.
        sources: Weight of each caption of a data set, as name:number; 1 for those not named.
        gate: Width, layers and heads of the noise gate.
        kind_weight, touched_weight: Weights of terms of the loss (`weights.making.noise_gate.loss`).
        right: Weight of right texts of a language in the loss, as name:number; 1 for those not named.
        validation_share: Share of the photos whose captions are kept for validation.
        validation_texts: Number of samples to measure on.
        keep_right: Share of the score that right texts keep on average, in every style; the curve is
            set so that they do.
        stored_dtype: Type of the numbers in the saved weights.
        name, license: For the card.
    """

    recipe_name: ClassVar[str] = "noise_gate"
    module: ClassVar[str] = "weights.making.noise_gate"

    base: str = "embedded"
    texts: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    gate: list[int] = field(default_factory=lambda: [192, 4, 4])
    kind_weight: float = 0.3
    touched_weight: float = 0.5
    right: list[str] = field(default_factory=list)
    validation_share: float = 0.01
    validation_texts: int = 20_000
    keep_right: float = 0.985
    stored_dtype: Literal["float32", "float16"] = "float16"
    name: str = ""
    license: str = "unknown"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.texts:
            raise CapscoreError("texts is missing: files of weights.making.captions")
        if not self.languages:
            raise CapscoreError("languages is missing: how often each is drawn, such as en:20 de:10")
        _ = self.language_shares, self.source_shares, self.right_weights
        weight = "a weight of at least 0"
        for name, good, expected in (
            ("max_steps", self.max_steps is not None, "the number of steps"),
            ("validation_texts", self.validation_texts >= 1, "at least 1"),
            ("validation_share", 0 < self.validation_share < 1, "a share between 0 and 1"),
            ("keep_right", 0 < self.keep_right < 1, "a share between 0 and 1"),
            ("kind_weight", 0 <= self.kind_weight < float("inf"), weight),
            ("touched_weight", 0 <= self.touched_weight < float("inf"), weight),
        ):
            require(good, name, getattr(self, name), expected)
        right = len(self.gate) == 3 and min(self.gate) >= 1
        right = right and not (self.gate[0] % self.gate[2] or self.gate[0] % 2)
        expected = "its width, layers and heads, an even width that the heads divide, such as 192 4 4"
        require(right, "gate", self.gate, expected)

    @property
    def language_shares(self) -> dict[str, float]:
        return named_numbers(self.languages, "languages", float)

    @property
    def source_shares(self) -> dict[str, float]:
        return named_numbers(self.sources, "sources", float)

    @property
    def right_weights(self) -> dict[str, float]:
        return named_numbers(self.right, "right", float)

    @property
    def parts(self) -> dict[str, Any]:
        return {"noise_gate": dict(zip(("width", "layers", "heads"), self.gate, strict=True))}
