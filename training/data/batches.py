"""Rows → the batches of each epoch and step, as a pure function of both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from capscore.errors import CapscoreError, InputError, Setting


class Batches(Protocol):
    """Source of each step's rows: the same call gives the same rows at any time, in any process."""

    steps_per_epoch: int

    def batch(self, epoch: int, step: int) -> Sequence[Any]:
        """The whole batch of a step, over all processes; epochs, and the steps of each, count from 0."""
        ...


class InTurn(list[Any]):
    """The rows of a step that has batches of several kinds, one after the other, never mixed.

    A loss sees one kind at a time; the gradients of all kinds are summed before the update.
    """

    def __init__(self, kinds: Sequence[Sequence[Any]]):
        super().__init__(chain.from_iterable(kinds))
        self.kinds = list(kinds)


def kinds_of(rows: Sequence[Any]) -> list[Sequence[Any]]:
    """The batches of a step: those of each kind, or the only one."""
    return rows.kinds if isinstance(rows, InTurn) else [rows]


class AlternatingBatches:
    """One batch of each source per step. A source that ends before the longest begins its next epoch."""

    def __init__(self, sources: Sequence[Batches]):
        self.sources = list(sources)
        self.steps_per_epoch = max(source.steps_per_epoch for source in sources)

    def batch(self, epoch: int, step: int) -> InTurn:
        number = epoch * self.steps_per_epoch + step
        return InTurn([source.batch(*divmod(number, source.steps_per_epoch)) for source in self.sources])


class ShuffledBatches:
    """Batches in which every row appears once per epoch, in a new order each epoch.

    The batches of an epoch differ by at most one row: no row is left out, and no batch is a small remainder.
    For a loss that compares the rows of a batch, `compared` has what it compares, such as the number of each
    row's image, of which there must be two. Each batch then has two rows or more; of an odd number of rows in
    batches of two, one batch has three.
    """

    def __init__(self, rows: Sequence[Any], batch_size: int, seed: int, *, compared: Sequence[int] = ()):
        if not len(rows):
            raise CapscoreError("there are no rows to train on")
        self.rows, self.seed = rows, seed
        self.steps_per_epoch = -(-len(rows) // batch_size)
        if compared:
            if batch_size < 2:
                alone = ": nothing is learned from a row alone; expected at least 2"
                raise CapscoreError(Setting("batch_size", batch_size), alone)
            if len(set(compared)) < 2:
                raise InputError("the loss compares images; the captions to train on show 1", field="data")
            self.steps_per_epoch = min(self.steps_per_epoch, len(rows) // 2)
        self._order: tuple[int, np.ndarray] | None = None

    def batch(self, epoch: int, step: int) -> list[Any]:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))
        start, stop = (len(self.rows) * edge // self.steps_per_epoch for edge in (step, step + 1))
        return [self.rows[row] for row in self._order[1][start:stop].tolist()]
