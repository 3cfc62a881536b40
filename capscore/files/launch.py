"""The processes that a launcher started together: which of them this one is.

`torchrun` and `accelerate launch` say so in environment variables. Nothing here needs torch.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from ..errors import CapscoreError

_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass(frozen=True)
class Launch:
    """One process of a launch.

    Attributes:
        rank: Number of this process, from 0.
        world: Number of processes.
        local_rank: Number of this process on its machine, which chooses its GPU.
        name: Name of the launch, the same in all its processes, and perhaps in a later launch too.
        machine: Name of this machine.
        parent: Number of the process that started this one, which tells a launch from a later one.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    name: str = ""
    machine: str = ""
    parent: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this process puts results together and prints."""
        return self.rank == 0

    def __str__(self) -> str:
        return f"process {self.rank} of {self.world}"


def this_process() -> Launch:
    """The place of this process in its launch; process 0 of 1 without a launcher.

    Raises:
        CapscoreError: The launcher's variables are not the numbers of a process.
    """
    given = {name: os.environ.get(name, "") for name in _NUMBERS}
    if not given["RANK"] or not given["WORLD_SIZE"]:
        return Launch()
    given["LOCAL_RANK"] = given["LOCAL_RANK"] or given["RANK"]
    try:
        rank, world, local_rank = (int(given[name]) for name in _NUMBERS)
    except ValueError:
        rank, world, local_rank = -1, 0, 0
    if not 0 <= rank < world:
        told = ", ".join(f"{name}={value!r:.40}" for name, value in given.items())
        raise CapscoreError(
            f"the environment says {told}; expected what torchrun sets: whole numbers, RANK from 0 to below "
            "WORLD_SIZE"
        )
    if world == 1:
        return Launch()
    parts = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    name = "/".join(os.environ.get(part, "") for part in parts)
    return Launch(rank, world, local_rank, name, socket.gethostname(), os.getppid())
