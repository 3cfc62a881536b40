"""Where a case works: its own folder, backbones that are loaded once, photos, captions, the command."""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import re
import runpy
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

import capscore
from tests.datasets_scripts.conftest import write_photos
from tools.tiny.transformers_models import write_clip

ROOT = Path(__file__).resolve().parents[2]
CAPTIONS = ROOT / "capscore" / "show" / "examples.json"
_ENVIRONMENT = {
    "COLUMNS": "100",
    "LINES": "50",
    "TERM": "dumb",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
_UNSET = ("CAPSCORE_BACKBONE", "CAPSCORE_DEBUG", "FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "CAPSCORE_DATA")


class Place:
    """A folder that stays until all cases are done, and what cases need; `case` gives each its own in it."""

    def __init__(self, root: Path):
        self.root = Path(os.path.realpath(root))

    @property
    def names(self) -> dict[str, str]:
        """Folders of this machine → what is written for them."""
        import site

        from huggingface_hub.constants import HF_HUB_CACHE

        packages = {os.path.realpath(folder): "<packages>" for folder in site.getsitepackages()}
        return {
            str(self.root): "<tmp>",
            HF_HUB_CACHE: "<hub>",
            **packages,
            str(ROOT): "<repository>",
            sys.prefix: "<prefix>",
            str(Path.home()): "<home>",
        }

    @contextmanager
    def open(self) -> Iterator[Place]:
        """What all cases rest on: no network, caches in the root, one thread."""
        import datasets
        import torch

        datasets.disable_progress_bars()
        threads = torch.get_num_threads()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (_ENVIRONMENT | {"CAPSCORE_CACHE": str(self.root / "embeddings")}).items():
                patch.setenv(name, value)
            for name in _UNSET:
                patch.delenv(name, raising=False)
            patch.setattr(datasets.config, "HF_DATASETS_CACHE", self.root / "datasets")
            patch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", self.root / "downloads")
            patch.setattr(datasets.config, "HF_MODULES_CACHE", str(self.root / "modules"))
            torch.set_num_threads(1)
            try:
                yield self
            finally:
                torch.set_num_threads(threads)

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """An empty folder for a case, as the working directory; chance as it is anew, warnings not shown."""
        import torch

        torch.manual_seed(0)
        random.seed(0)
        folder = self.root / "cases" / re.sub(r"\W+", "_", name)
        folder.mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ), warnings.catch_warnings():
            patch.chdir(folder)
            warnings.simplefilter("ignore")
            yield
        shutil.rmtree(folder, ignore_errors=True)

    # -------------------------------------------------------------- inputs

    @cached_property
    def embedded(self) -> Any:
        return capscore.load_backbone("embedded", device="cpu")

    @cached_property
    def pr_mcs(self) -> Any:
        return capscore.load_backbone("embedded-pr-mcs", device="cpu")

    @cached_property
    def entries(self) -> dict[str, Any]:
        """The demo's photos by name, each with its captions in eight languages."""
        return json.loads(CAPTIONS.read_text(encoding="utf-8"))

    def photos(self, folder: str = "photos") -> list[str]:
        """Put the demo's photos into a folder of the case: their paths."""
        home = Path(str(files("skimage").joinpath("data")))
        Path(folder).mkdir(exist_ok=True)
        paths = []
        for entry in self.entries.values():
            shutil.copy(home / entry["file"], folder)
            paths.append(f"{folder}/{entry['file']}")
        return paths

    def captions(self, language: str, marks: Sequence[str] = ("right",)) -> list[str]:
        """The demo's captions of a language, photo by photo, a mark after the other."""
        return [entry["captions"][language][mark] for mark in marks for entry in self.entries.values()]

    def references(self, language: str) -> list[list[str]]:
        """Their references."""
        return [entry["captions"][language]["references"] for entry in self.entries.values()]

    def clip(self, folder: str = "clip") -> str:
        """A tiny CLIP checkpoint with random weights, in the case's folder: its name."""
        kept = self.root / "shared" / "clip"
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            write_clip(kept)
            coarse(kept / "model.safetensors")
        shutil.copytree(kept, folder)
        return folder

    def benchmark(self, slug: str, *, photos: bool = True) -> ModuleType:
        """The tiny official files of a benchmark, in a folder of its name: what says what is in them."""
        official = importlib.import_module(f"tools.tiny.official.{slug}")
        Path(slug).mkdir()
        official.write(Path(slug))
        if photos:
            write_photos(slug, Path(slug))
        return official

    def rated(self, folder: str = "flickr8k_human") -> str:
        """Flickr8k's ratings in their official files: twelve invented rows of four photos; the folder."""
        import numpy as np

        draw = np.random.default_rng(1)
        words = "dog cat boy girl runs sleeps red blue house tree".split()
        Path(folder).mkdir()
        texts = [
            f"{photo}.jpg#{number}\t{' '.join(draw.choice(words, 5))}\n"
            for photo in range(16)
            for number in range(5)
        ]
        rows = []
        for row in range(12):
            ratings = sorted(draw.integers(1, 5, 3))
            rows.append("\t".join([f"{row % 4}.jpg", f"{row + 4}.jpg#2", *map(str, ratings)]) + "\n")
        Path(folder, "Flickr8k.token.txt").write_text("".join(texts))
        Path(folder, "ExpertAnnotations.txt").write_text("".join(rows))
        return folder

    # -------------------------------------------------------------- the command

    def capscore(self, *arguments: Any) -> dict[str, Any]:
        """`python -m capscore` in this process: "exit", "out" (JSON if it is, else lines), "err" (lines)."""
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
        before, sys.argv = sys.argv, ["capscore", *map(str, arguments)]
        code: Any = 0
        try:
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                runpy.run_module("capscore", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.argv = before
        out, err = (stream.buffer.getvalue().decode("utf-8") for stream in streams)
        return {
            "exit": code,
            "out": parsed(out),
            "err": [line.rstrip() for line in err.splitlines() if line.startswith("capscore:")],
        }


def coarse(path: Path) -> None:
    """Leave few digits of weights, so that processors which draw them otherwise agree."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = {
        name: (values * 256).round() / 256 if values.dtype == torch.float32 else values
        for name, values in load_file(path).items()
    }
    save_file(weights, path, {"format": "pt"})


def parsed(text: str) -> Any:
    """A printed text → what it is as JSON, or its lines without blanks at their ends."""
    try:
        return json.loads(text)
    except ValueError:
        return [line.rstrip() for line in text.splitlines()]


def file_rows(path: str | Path) -> Any:
    """A file that a command wrote → its content: rows, a document, or lines."""
    path = Path(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path).to_pylist()
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else parsed(text)


def write_rows(path: str, rows: Sequence[dict[str, Any]]) -> str:
    """Rows → a JSONL file: its path."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")
    return path
