"""Processes for tests: command line in, exit code and both streams out.

A fresh interpreter needs seconds until torch is imported. These processes are forks of one server per test
worker, which has imported what capscore uses and has done nothing else. Tests of what happens when an
interpreter starts (what an import brings along, hash seeds, a first reading of HF_ENDPOINT) use `subprocess`.
"""

import atexit
import importlib
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from torch.distributed import TCPStore

ROOT = Path(__file__).resolve().parents[1]
# Imported by the server once; what cannot be imported is left to the processes themselves.
PRELOADED = """torch.distributed accelerate datasets evaluate safetensors.torch transformers.models.auto
    capscore.cli capscore.metrics.with_backbone capscore.scoring.files training.engine.loop""".split()
# As it is before any test runs: evaluate and datasets add the folders of their copied modules.
PATH = list(sys.path)
# Variables that libraries of the server read when they are imported.
HUB = ("HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE")


class Process:
    """A running process, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, arguments: Sequence[object], *, cwd: Any = None, env: Any = None, stdout: Any = None):
        folder = tempfile.mkdtemp(prefix="process-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._streams = [Path(folder) / name for name in ("out", "err")]
        streams: list[object] = list(map(str, self._streams))
        if stdout is not None:
            streams[0] = multiprocessing.reduction.DupFd(stdout)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        given = (list(map(str, arguments)), str(cwd or Path.cwd()), PATH, dict(env or os.environ), streams)
        self._process = context.Process(target=_begin, args=given)
        # torch reads it once, in the server
        with mock.patch.dict(os.environ, OMP_NUM_THREADS=os.environ.get("CAPSCORE_TEST_THREADS", "1")):
            self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What the process wrote to stdout and stderr, once it has ended."""
        self.wait(timeout)
        return tuple(path.read_text() if path.exists() else "" for path in self._streams)


def run(arguments: Sequence[object], *, timeout: float = 300, **options) -> subprocess.CompletedProcess:
    """`python ARGUMENTS…`, run to its end in a fork; `arguments` begin with -m MODULE or -c CODE."""
    process = Process(arguments, **options)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def run_distributed(arguments: Sequence[object], **options) -> list[subprocess.CompletedProcess]:
    """Run the same command in two processes that torch.distributed connects, as its launcher does."""
    # the store where they meet has its port before they begin, so that no other process can take it
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"ACCELERATE_USE_CPU": "true", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    shared["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    processes = [Process(arguments, env={**os.environ, **shared, **rank}, **options) for rank in ranks]
    done = []
    try:
        for process in processes:
            streams = process.communicate(300)
            done.append(subprocess.CompletedProcess(arguments, process.returncode, *streams))
    finally:
        for process in processes:
            process.kill()
    return done


def _begin(arguments: list[str], cwd: str, path: list[str], environment: dict, streams: list) -> None:
    """Become `python ARGUMENTS…`."""
    for number, target in enumerate((os.devnull, *streams)):
        opened = os.open(target, os.O_RDWR | os.O_CREAT) if isinstance(target, str) else target.detach()
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(cwd)
    sys.path[:] = path
    hub_changes = any(environment.get(name) != os.environ.get(name) for name in HUB)
    os.environ.clear()
    os.environ.update(environment)
    if hub_changes:
        for name in ("huggingface_hub.constants", "datasets.config", "evaluate.config"):
            importlib.reload(importlib.import_module(name))
    kind, program, *rest = arguments
    try:
        if kind == "-m":
            sys.argv = [program, *rest]
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.argv = ["-c", *rest]
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), main.__dict__)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 120
    os._exit(code)
