"""Pairs of an image and a caption → batches of InfoMetIC's tasks, as a pure function of epoch and step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capscore.errors import InputError
from training.data.alignment_data import AlignmentData
from training.data.batches import ShuffledBatches

TASKS = ("coarse", "text", "vision")
WITHOUT = {
    "coarse": "there are no captions to train on",
    "text": "tasks has 'text', but no caption could be polluted: there is no semantic word that another "
    "word of its class could replace",
    "vision": "tasks has 'vision', but no row says which regions its caption mentions: give the rows "
    "'mentioned', add Flickr30k Entities, or leave the task out, as --tasks coarse text does",
}


@dataclass(frozen=True)
class AlignmentItem:
    """A row of a batch: its task, its place in the batch, numbers of pair, image and text, and the text.

    In text batches the text is a polluted one, and `other` the original caption; in coarse batches `other` is
    the hard negative. It is −1 without any.
    """

    task: str
    position: int
    pair: int
    image: int
    text: int
    other: int
    caption: str


class AlignmentBatches:
    """Batches of the tasks in turn; each task goes through its own pairs in its own order.

    A batch is a pure function of (seed, epoch, step). In an epoch every pair of the most frequent task
    appears once. InputError if no pair has what a task needs. `untouched` is the share of the rows of text
    batches that keep their caption.
    """

    def __init__(
        self,
        data: AlignmentData,
        pairs: np.ndarray,
        *,
        tasks: Sequence[str],
        batch_size: int,
        hard_negatives: bool = True,
        seed: int = 0,
        untouched: float = 0.0,
    ):
        self.data, self.tasks, self.seed, self.untouched = data, list(tasks), seed, untouched
        self.hard_negatives = data.hard_negatives() if hard_negatives else []
        usable = {
            "coarse": pairs,
            "text": pairs[data.with_pollution()[pairs]],
            "vision": pairs[data.with_region_labels()[pairs]],
        }
        self.rows = {task: usable[task] for task in TASKS if task in self.tasks}
        self._shuffled: dict[str, ShuffledBatches] = {}
        for task, rows in self.rows.items():
            if not len(rows):
                raise InputError(WITHOUT[task], field="tasks")
            own_seed = seed + 1_000_003 * TASKS.index(task)
            compared = data.pair_image[rows].tolist() if task == "coarse" else ()
            self._shuffled[task] = ShuffledBatches(rows, batch_size, own_seed, compared=compared)
        leading = max(self.rows, key=self.tasks.count)
        turns = -(-self._shuffled[leading].steps_per_epoch // self.tasks.count(leading))
        self.steps_per_epoch = turns * len(self.tasks)

    def batch(self, epoch: int, step: int) -> list[AlignmentItem]:
        turn, index = divmod(epoch * self.steps_per_epoch + step, len(self.tasks))
        task = self.tasks[index]
        number = turn * self.tasks.count(task) + self.tasks[:index].count(task)
        shuffled = self._shuffled[task]
        own_epoch, own_step = divmod(number, shuffled.steps_per_epoch)
        pairs = enumerate(shuffled.batch(own_epoch, own_step))
        return [self.item(task, position, int(pair), own_epoch) for position, pair in pairs]

    def item(self, task: str, position: int, pair: int, epoch: int) -> AlignmentItem:
        """A row of a batch, as it is drawn in an epoch of its task."""
        data = self.data
        text, other = int(data.pair_text[pair]), -1
        chance = np.random.default_rng((self.seed, epoch, TASKS.index(task), pair))
        if task == "coarse" and self.hard_negatives:
            choices = self.hard_negatives[pair]
            other = int(chance.choice(choices)) if len(choices) else -1
        elif task == "text" and not (self.untouched and chance.random() < self.untouched):
            text, other = int(chance.choice(data.polluted[pair])), text
        return AlignmentItem(task, position, pair, int(data.pair_image[pair]), text, other, data.texts[text])
