"""A benchmark's files → a folder of Parquet with a card, which every version of `datasets` loads by itself.

`load_dataset(folder, "fr")` needs no script and no capscore, from datasets 3.6 on; on the Hub the same folder
is a data set. Photos that are there are put into the Parquet files.
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
from ...registry import BENCHMARKS
from .load import benchmark_builder, builder_class, config_name

if TYPE_CHECKING:
    from .builder import CaptionBenchmark


# in the card of every folder that is written
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
        slug: name of the benchmark.
        out: the folder to make; it has its name only once it is whole.
        configs: which configurations; None takes all whose files are there.
        data_dir, image_dir, images: as in `capscore.load_benchmark`.
        force: replace the folder if it is there: an empty one, or one that was made by this.
        say: takes one line on what is being done.

    Raises:
        InputError: the folder is there (with `force`: and was not made by this, or holds the files that are
            read), `data_dir` is none, or a configuration is unknown.
        AnnotationError: a file is missing (of a configuration that was named) or damaged.
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
    except ResultWriteError as error:  # its message is of a cache, which here is a part of the folder
        raise ResultWriteError(f"{out} could not be written ({error.__cause__})") from error
    except CapscoreError:  # some are OSErrors, but not of writing
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
        raise InputError(f"{out} exists and is not an exported benchmark; it is left alone", field="out")
    for folder in needed:
        if folder is not None and Path(os.path.expanduser(folder)).resolve().is_relative_to(out.resolve()):
            raise InputError(f"{out} is not replaced, for {folder} lies in it", field="out")


def _is_ours(folder: Path) -> bool:
    card = folder / "README.md"
    return card.is_file() and _WRITTEN_BY in card.read_text(encoding="utf-8", errors="replace")


def _write_config(builder: CaptionBenchmark, workshop: Path, folder: Path) -> dict[str, Any]:
    """Parquet files of a configuration → its entries in the card.

    `datasets` leaves notes and locks beside what it writes, so it writes in the workshop.
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
    """Copy Parquet without the features as this `datasets` notes them, which older ones cannot read.

    The card has them in a form that all of them read.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as source:
        with pq.ParquetWriter(target, source.schema_arrow.remove_metadata()) as copy:
            for group in range(source.num_row_groups):
                copy.write_table(source.read_row_group(group).replace_schema_metadata(None))


def _card(slug: str, written: dict[str, Any]) -> str:
    """The benchmark's card, with the configurations that were written."""
    import yaml

    if slug in BENCHMARKS:
        kind = builder_class(slug)
        head: dict[str, Any] = {"license": "other", "license_name": kind.LICENSE, "pretty_name": slug}
        body = (
            f"\n# {slug}\n\n{kind.DESCRIPTION}\n\n## How to load\n\n## Licence\n\n{kind.LICENSE}\n\n"
            f"## Citation\n\n```bibtex\n{kind.CITATION.strip()}\n```\n"
        )
    else:
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
