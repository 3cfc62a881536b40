"""Global switches of other libraries, turned for the time of a block by any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module


class Switch:
    """A switch that belongs to the whole process."""

    def __init__(self, read: Callable[[], object], write: Callable[..., object]):
        self._read, self._write = read, write
        self._lock = threading.Lock()
        self._holders = 0
        self._before: object = None

    @classmethod
    def of_attribute(cls, module: str, name: str) -> Switch:
        """The switch that an attribute of a module is; the module is imported when it is turned."""

        def read() -> object:
            return getattr(import_module(module), name)

        def write(value: object) -> None:
            setattr(import_module(module), name, value)

        return cls(read, write)

    @contextmanager
    def at(self, value: object) -> Iterator[None]:
        """Hold the switch at a value; all threads that hold it at once hold it at the same one."""
        with self._lock:
            if not self._holders or self._before is None:
                self._before = self._read()
            self._holders += 1
            self._write(value)
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._write(self._before)
