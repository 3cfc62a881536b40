"""Writes a benchmark as a folder of Parquet files with a card, which every version of `datasets` loads.

`load_dataset(folder, "fr")` needs neither script nor capscore, from datasets 3.6 on. On the Hub the same
folder is a data set. Available photos are stored in the Parquet files.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CapscoreError, InputError, ResultWriteError, Setting
from ...files.shipped import benchmark_folder
from .load import benchmark_builder, builder_class, config_name

if TYPE_CHECKING:
    from .builder import CaptionBenchmark


# a line in the card of every written folder
_WRITTEN_BY = "Written from the official files by `capscore data export"


def export_benchmark(
    slug: str,
    out: str | Path,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
    images: bool | None = None,
    force: bool = False,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Write a benchmark as Parquet with a card.

    Args:
        slug: Name of the benchmark.
        out: Folder to write; it gets its name only once it is complete.
        configs: Names of configurations; None takes all whose files are available.
        data_dir, image_dir, images: As in `capscore.load_benchmark`.
        force: Whether to replace an empty folder, or one written by this function.
        say: Function that takes one line about what is being done.

    Raises:
        InputError: the folder exists (with `force`: and was not written by this function, or holds the files
            to read), `data_dir` is not a folder, or a configuration is unknown.
        AnnotationError: a file is damaged, or a file of a named configuration is missing.
        ResultWriteError: the folder cannot be written.

    >>> from datasets import load_dataset
    >>> export_benchmark("xvnli", "xvnli-parquet", ["fr"], data_dir="xvnli")        # doctest: +SKIP
    >>> load_dataset("xvnli-parquet", "fr", split="test").num_rows                   # doctest: +SKIP
    1164
    """
    from .annotation_files import MissingAnnotations

    names = [config_name(slug, name) for name in configs or ()]
    names = names or [known.name for known in builder_class(slug).BUILDER_CONFIGS]
    if data_dir is not None and not os.path.isdir(os.path.expanduser(data_dir)):
        raise InputError(f"{data_dir} is not a folder", field="data_dir")
    out = Path(os.path.expanduser(out))
    _check_place(out, (data_dir, image_dir, os.getcwd()), force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    except OSError as error:
        raise ResultWriteError(f"{out} could not be written ({error.strerror})") from error
    try:
        written: dict[str, Any] = {}
        absent: list[MissingAnnotations] = []
        for config in names:
            builder = benchmark_builder(
                slug,
                config,
                data_dir=data_dir,
                image_dir=image_dir,
                images=images,
                cache_dir=beside / ".cache",
            )
            if say is not None:
                say(f"{slug} ({config})")
            try:
                written[config] = _write_config(builder, beside / ".cache", beside / config)
            except MissingAnnotations as error:
                if configs:
                    raise
                absent.append(error)
        if not written:
            raise absent[0]
        shutil.rmtree(beside / ".cache", ignore_errors=True)
        (beside / "README.md").write_text(_card(slug, written), encoding="utf-8")
        os.chmod(beside, 0o755)
        if out.is_dir():
            shutil.rmtree(out)
        os.replace(beside, out)
    except ResultWriteError as error:  # its message names a cache, which is inside the folder here
        raise ResultWriteError(f"{out} could not be written ({error.__cause__})") from error
    except CapscoreError:  # some are OSErrors, but not about writing
        raise
    except OSError as error:
        raise ResultWriteError(f"{out} could not be written ({error})") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return out


def _check_place(out: Path, needed: Sequence[str | Path | None], force: bool) -> None:
    if not os.path.lexists(out):
        return
    if not force:
        raise InputError(f"{out} exists; ", Setting("force", True), " replaces it", field="out")
    if out.is_symlink() or not out.is_dir() or not (_is_ours(out) or not any(out.iterdir())):
        raise InputError(f"{out} exists and is not an exported benchmark; it is left as it is", field="out")
    for folder in needed:
        if folder is not None and Path(os.path.expanduser(folder)).resolve().is_relative_to(out.resolve()):
            raise InputError(f"{out} is not replaced, because {folder} lies in it", field="out")


def _is_ours(folder: Path) -> bool:
    card = folder / "README.md"
    return card.is_file() and _WRITTEN_BY in card.read_text(encoding="utf-8", errors="replace")


def _write_config(builder: CaptionBenchmark, workshop: Path, folder: Path) -> dict[str, Any]:
    """Write the Parquet files of a configuration, and return its entries in the card.

    `datasets` leaves notes and locks beside the files it writes, so it writes in the workshop.
    """
    made = workshop / "prepared" / builder.config.name
    builder.download_and_prepare(str(made), file_format="parquet")
    info = builder.info
    folder.mkdir()
    files = []
    for split in info.splits:
        paths = sorted(made.glob(f"{builder.dataset_name}-{split}.parquet"))
        paths += sorted(made.glob(f"{builder.dataset_name}-{split}-[0-9]*-of-[0-9]*.parquet"))
        if not paths:
            raise CapscoreError(f"{builder.name} ({builder.config.name}): the split {split} was not written")
        for path in paths:
            _copy_without_features(path, folder / path.name)
        files.append({"split": str(split), "path": [f"{folder.name}/{path.name}" for path in paths]})
    return {
        "files": files,
        "info": {
            "config_name": builder.config.name,
            "features": info.features._to_yaml_list(),
            "splits": [
                {"name": str(name), "num_bytes": split.num_bytes, "num_examples": split.num_examples}
                for name, split in info.splits.items()
            ],
        },
    }


def _copy_without_features(path: Path, target: Path) -> None:
    """Copy Parquet without the features in the format of this `datasets`, which older versions cannot read.

    The card has them in a form that all versions read.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as source:
        with pq.ParquetWriter(target, source.schema_arrow.remove_metadata()) as copy:
            for group in range(source.num_row_groups):
                copy.write_table(source.read_row_group(group).replace_schema_metadata(None))


def _card(slug: str, written: dict[str, Any]) -> str:
    """The script's card, with the written configurations."""
    import yaml

    text = Path(benchmark_folder(slug), "README.md").read_text(encoding="utf-8")
    _, front, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    head = yaml.safe_load(front)
    head["configs"] = [
        {"config_name": config, "data_files": part["files"]} for config, part in written.items()
    ]
    head["dataset_info"] = [part["info"] for part in written.values()]
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=110)
    first = next(iter(written))
    how = (
        "## How to load\n\n```python\nfrom datasets import load_dataset\n\n"
        f'data = load_dataset("path/or/id/of/this/folder", "{first}")\n```\n\n'
        f"{_WRITTEN_BY} {slug}`.\n\n"
    )
    body = re.sub(r"^## How to load\n.*?(?=^## )", lambda _: how, body, flags=re.DOTALL | re.MULTILINE)
    return f"---\n{front}---\n{body}"
