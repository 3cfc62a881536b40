"""Metrics of captions as reward functions of TRL: GRPO and its kin learn to write what scores high."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..metrics.base import Scorer
from ..metrics.loading import load
from ..options import LoadOptions, RowOptions, split_options
from ..scoring.streams import BatchScorer
from ..text.reasoning import without_reasoning
from ..text.suspicious import OddRows

_CAPTION = "completions"


def caption_reward(
    metric: str | Scorer = "mcs", *, strip_reasoning: bool = False, **options: object
) -> Callable[..., list[float | None]]:
    """A reward function for `GRPOTrainer(reward_funcs=…)`: the reward of a completion is its score.

    Where less is better, as of an error rate, the reward is the score with its sign changed.

    TRL calls it with `prompts`, `completions` and the columns of the data set, and logs it under the metric's
    name. It reads `image` or `images` (a list of one photo), `references` and `language`. A completion is a
    string, or a list of messages, whose last one is the caption. An empty caption gets the metric's worst
    score. The first completions that look wrong, such as with reasoning, are warned of once per kind.

    Args:
        metric: METRIC, METRIC@BACKBONE, or a loaded scorer, whose scores depend on the row alone; CIDEr needs
            `document_frequencies`.
        strip_reasoning: Whether the reasoning of a completion, such as `<think>…</think>`, is left out before
            it is scored, and with it the tags around an answer. Reasoning that was cut off leaves no caption.
        **options: Options of `capscore.options.RowOptions`, such as image_column, references_column, language
            and images; on_error="raise" ends training at a row that cannot be scored, "skip" gives it None,
            with which TRL leaves the completion out. And those of `capscore.load`.

    Raises:
        CapscoreError: An option is wrong, or the metric compares rows with each other.

    >>> reward = caption_reward("rouge_l", language="en")
    >>> reward(prompts=["Describe."] * 2, completions=["a dog", ""], references=[["a dog"], ["a cat"]])
    [1.0, 0.0]
    """
    rows_of, loaded = split_options({**options, "candidate_column": _CAPTION}, RowOptions, LoadOptions)
    scorer = load(metric, **{"progress": False, **loaded.arguments()})
    batches = BatchScorer([scorer], rows_of)
    new = batches.new_columns(())
    warned: set[str] = set()

    def reward(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        # a data set may have been scored before
        rows = {name: cells for name, cells in columns.items() if name not in new}
        captions = [*map(_caption, completions)]
        if strip_reasoning:
            captions = [*map(without_reasoning, captions)]
        odd = OddRows().add(captions)
        if not warned.issuperset(odd.first):
            has_reasoning = "reasoning" in odd.first and not strip_reasoning
            odd.warn("; strip_reasoning=True leaves reasoning out" if has_reasoning else "")
            warned.update(odd.first)
        rows[_CAPTION] = captions
        for name in rows.keys() & {"image", "images", rows_of.image_column}:
            rows[name] = [*map(_photo, rows[name])]
        if rows_of.image_column is None and "images" in rows:
            rows["image"] = rows["images"]
        rewards: list[float | None] = []
        for score in batches.score(rows)[scorer.metric]:
            if score is not None and not scorer.higher_is_better:
                score = -score
            rewards.append(score)
        return rewards

    reward.__name__ = reward.__qualname__ = scorer.metric
    return reward


def _photo(cell: object) -> object:
    """A photo, which may come as a list of one."""
    if isinstance(cell, list) and len(cell) == 1:
        return cell[0]
    return cell


def _caption(completion: str | Sequence[Mapping[str, Any]] | None) -> str:
    """The text of a completion, or of the last of its messages; "" if there is none."""
    text: Any = completion or ""
    if not isinstance(text, str):
        text = text[-1].get("content") or ""
    if not isinstance(text, str):  # parts, of which images have no text
        text = "".join(part.get("text") or "" for part in text)
    return str(text).strip()
