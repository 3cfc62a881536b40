"""Train the InfoMetIC network of capscore-weights: `training.infometic`, with what the paper does not have.

In: rows of `weights.making.infometic`. Out: as `training.infometic`. The network reads what each word adds
to its caption, since the encoder of `embedded` embeds a piece without its context. Some wrong words are like
the right ones, and some captions of text batches stay right. At the end the sharpness is set.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from capscore.infometic.network import InfoMetIC
from capscore.infometic.words import CaptionWord, added_by_words
from capscore.text.letters import folded
from training import infometic
from training.data.alignment_batches import AlignmentBatches
from training.data.alignment_data import AlignmentData
from training.data.alignment_features import Embed, FeatureOptions, embedded, prepare
from training.data.rows import Row
from training.data.stored import StoredRows
from training.data.word_pollution import Choices, DrawnChoices, any_frequent, frequent_words
from training.engine import recipe
from training.engine.config import main as run_as_command
from training.engine.infometic_losses import AlignmentLoss
from training.engine.loop_settings import ABOVE_ZERO, require_range
from weights.making.image_tower.features import stored
from weights.making.settings import named_numbers

# Number of most similar words that may replace a word; the very first, SAME, are too often synonyms.
LIKE, SAME = 24, 1
_TEXTS_AT_ONCE = 16_384
# Steps of the logarithm of the sharpness, of which there are as many on both sides of 1.
_STEPS = 2048


@dataclass
class Settings(infometic.Settings):
    """Settings of a run, besides those of `training.infometic`.

    Attributes:
        frequent: Number of words of a class from which a replacement is drawn.
        alike: Share of the polluted captions whose wrong word is among the words most like the right one
            (dog → cat, red → blue), according to the backbone.
        untouched: Share of the rows of a text batch that keep their caption, all of whose words are right.
        terms: Weights of the terms of the loss, as name:number; 1 for those not named. Besides those of the
            paper there is "pollution": a caption has higher precision than its polluted form.
        context_width: Width of what the network reads of the words' contexts.
        false_alarms: Largest share of the right words of validation captions that score β or below.
    """

    module: ClassVar[str] = "weights.making.infometic_network"

    frequent: int = 600
    alike: float = 0.3
    untouched: float = 0.35
    terms: list[str] = field(default_factory=list)
    context_width: int = 192
    false_alarms: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self, ["alike", "untouched"], 0, 1, "a share from 0 to below 1")
        require_range(self, ["false_alarms"], ABOVE_ZERO, 1, "a share between 0 and 1")
        if not self.validation_share:
            raise CapscoreError("false_alarms is set on validation captions, but validation_share is 0")

    @property
    def features(self) -> FeatureOptions:
        return LikeOptions(**infometic.shared_with(self, LikeOptions))


@dataclass
class LikeOptions(FeatureOptions):
    """How rows become features, with a share of wrong words that are like the right ones."""

    alike: float = 0.0

    def replacements(self, captions: Sequence[Sequence[CaptionWord]], embed: Embed) -> DrawnChoices:
        frequent = frequent_words(captions, most=self.frequent)
        return partial(alike_or_frequent, any_frequent(frequent), like_words(frequent, embed), self.alike)


def alike_or_frequent(
    frequent: Choices, like: Mapping[str, Mapping[str, Sequence[str]]], share: float, rng: np.random.Generator
) -> Choices:
    """The words that may replace a word: a share of the draws has those most like it (`like_words`)."""
    if rng.random() >= share:
        return frequent
    return lambda word: like.get(word.word_class, {}).get(folded(word.text), frequent(word))


def like_words(frequent: Mapping[str, Sequence[str]], embed: Embed) -> dict[str, dict[str, list[str]]]:
    """Class → frequent word, in lower case → the words of its class most like it, without the very first."""
    found: dict[str, dict[str, list[str]]] = {}
    for kind, words in frequent.items():
        rows = np.asarray(embed(words), np.float64)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -np.inf)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, SAME : len(words) - 1][:, :LIKE]
        similar = np.array(words)[order].tolist()
        found[kind] = dict(zip(map(folded, words), similar, strict=True))
    return found


def prepare_context(
    rows: Sequence[Row], embedder: Embedder, options: FeatureOptions, folder: Path
) -> AlignmentData:
    """`training.data.alignment_features.prepare`, and what words add, which is beside its files."""
    data = prepare(rows, embedder, options, folder)
    # not cached: there are many texts, and nothing else needs them
    embed = partial(embedded, Embedder(embedder.backbone, progress=embedder.progress))

    def computed() -> np.ndarray:
        found = StoredRows(embedder.backbone.dim, dtype=np.float16)
        for start in range(0, len(data.texts), _TEXTS_AT_ONCE):
            texts = data.texts[start : start + _TEXTS_AT_ONCE]
            words = []
            for number, text in enumerate(texts, start):
                spans = data.spans[number].tolist()
                words.append([CaptionWord(text[a:b], a, b, True, "") for a, b in spans])
            found.append(np.concatenate(added_by_words(texts, words, embed)))
        return found.finish()

    return replace(data, added=stored(folder / data.digest / "added.npy", computed))


def set_sharpness(model: InfoMetIC, check: Callable[..., Mapping[str, float]], share: float) -> None:
    """Set a network's sharpness so that by `AlignmentCheck` at most a share of the right words is wrong.

    A sharper network has more of these words.
    """
    plain = model.config

    def is_too_sharp(step: int) -> bool:
        model.config = replace(plain, sharpness=10 ** (step / _STEPS - 1))
        return check(model, alarms_only=True).get("false_alarms", 0.0) > share

    step = bisect_left(range(1, 2 * _STEPS), True, key=is_too_sharp)
    # rounded down: rounded up, it could exceed the share
    model.config = replace(plain, sharpness=math.floor(10 ** (step / _STEPS - 1) * 1e4) / 1e4)


def train(settings: Settings) -> recipe.Trained:
    """Run the recipe, as `training.infometic.train` does."""
    weights = {"pollution": 1.0, **named_numbers(settings.terms, "terms", float)}
    return infometic.train(
        settings,
        prepare=prepare_context,
        batches=partial(AlignmentBatches, untouched=settings.untouched),
        loss=partial(AlignmentLoss, weights=weights),
        finish=partial(set_sharpness, share=settings.false_alarms),
    )


def main(argv: Sequence[str] | None = None) -> None:
    recipe.run_recipe(Settings, train, argv, "Train the InfoMetIC network of capscore-weights.")


if __name__ == "__main__":
    torch.set_flush_denormal(True)  # as training.infometic does
    run_as_command(main, Settings)
