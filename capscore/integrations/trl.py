"""Metrics of captions as reward functions of TRL: GRPO and its kin learn to write what scores high."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..metrics.loading import ScorerLoader, check_options
from ..metrics.rows import is_empty
from ..options import RowOptions
from ..registry import METRICS
from ..scoring.streams import BatchScorer

_CAPTION = "completions"


def caption_reward(
    metric: str = "mcs",
    *,
    image_column: str | None = None,
    references_column: str | None = None,
    language_column: str | None = None,
    images: str | Path | None = None,
    language: str | None = None,
    on_error: str = "raise",
    **options: Any,
) -> Callable[..., list[float | None]]:
    """A reward function for `GRPOTrainer(reward_funcs=…)`: the reward of a completion is its score.

    Where less is better, as of an error rate, the reward is the score with its sign changed.

    TRL calls it with `prompts`, `completions` and the columns of the data set, and logs it under the metric's
    name. It reads `image` or `images` (a list of one photo), `references` and `language`. A completion is a
    string, or a list of messages, whose last one is the caption. An empty caption gets the metric's worst
    score or, where there is none, the score that the metric gives a text without words.

    Args:
        metric: Metric whose scores depend on the row alone; CIDEr needs `document_frequencies`.
        image_column, references_column, language_column: Names of columns with unfamiliar names, as in
            `capscore score`.
        images: Folder to which names of images are relative.
        language: Language code of all captions; None if rows name theirs, or none is stated.
        on_error: "raise" ends training at a row that cannot be scored; "skip" gives it None, with which TRL
            leaves the completion out.
        **options: Options of `capscore.load`; empty="score" has the metric score empty captions.

    Raises:
        CapscoreError: An option is wrong, or the metric compares rows with each other.

    >>> reward = caption_reward("rouge_l", language="en")
    >>> reward(prompts=["Describe."] * 2, completions=["a dog", ""], references=[["a dog"], ["a cat"]])
    [1.0, 0]
    """
    check_options([metric], options)
    kind = METRICS.get(metric)
    worst = kind.worst_score()
    empty = "score" if worst is None else "skip"
    scorer = ScorerLoader({"empty": empty, "progress": False, **options})(metric)
    rows = RowOptions(
        image_column=image_column,
        candidate_column=_CAPTION,
        references_column=references_column,
        language_column=language_column,
        images=images,
        language=language,
        on_error=on_error,
        allow_urls=bool(options.get("allow_urls", False)),
    )
    batches = BatchScorer([scorer], rows)
    new = batches.new_columns(())

    def reward(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        # a data set may have been scored before
        rows = {name: cells for name, cells in columns.items() if name not in new}
        rows[_CAPTION] = [*map(_caption, completions)]
        for name in rows.keys() & {"image", "images", image_column}:
            rows[name] = [*map(_photo, rows[name])]
        if image_column is None and "images" in rows:
            rows["image"] = rows["images"]
        scores = batches.score(rows)[metric]
        if scorer.empty == "skip":
            pairs = zip(scores, rows[_CAPTION], strict=True)
            scores = [worst if is_empty(caption) else score for score, caption in pairs]
        if not kind.higher_is_better:
            scores = [score if score is None else -score for score in scores]
        return scores

    reward.__name__ = reward.__qualname__ = metric
    return reward


def _photo(cell: object) -> Any:
    return cell[0] if isinstance(cell, list) and len(cell) == 1 else cell


def _caption(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of a completion, or of the last of its messages."""
    text = completion if isinstance(completion, str) else completion[-1].get("content") or ""
    if not isinstance(text, str):  # parts, of which images have no text
        text = "".join(part.get("text") or "" for part in text)
    return text.strip()
