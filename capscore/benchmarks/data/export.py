"""A benchmark's files → a folder of Parquet with a card, which `datasets` loads without a script."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CapscoreError, InputError, ResultWriteError, Setting
from ...files.scratch import scratch_folder
from ...files.shipped import benchmark_card
from .annotation_files import MissingAnnotations
from .load import benchmark_builder, builder_class, check_data_dir, config_names

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
    """Write a benchmark as Parquet with a card."""
    say = say or (lambda message: None)
    names = config_names(slug, configs)
    check_data_dir(data_dir)
    out = Path(os.path.expanduser(out))
    _check_place(out, (data_dir, image_dir, os.getcwd()), force)
    written: dict[str, _Written] = {}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(out) as workshop:
            for config in names:
                say(f"{slug} ({config})")
                builder = benchmark_builder(
                    slug,
                    config,
                    data_dir=data_dir,
                    images=images,
                    image_dir=image_dir,
                    cache_dir=f"{workshop}/cache",
                )
                try:
                    written[config] = _write_config(builder, workshop)
                except MissingAnnotations as error:
                    if configs or (config == names[-1] and not written):
                        raise
                    say(str(error))
            whole = workshop / "whole"
            (whole / "README.md").write_text(_card(slug, written), encoding="utf-8")
            if out.is_dir():
                shutil.rmtree(out)
            os.replace(whole, out)
    except ResultWriteError as error:  # its message is of a cache, which here is a part of the folder
        raise ResultWriteError(f"{out} could not be written ({error.__cause__})") from error
    except CapscoreError:  # some are OSErrors, but not of writing
        raise
    except OSError as error:
        raise ResultWriteError(f"{out} could not be written ({error})") from error
    return out


def _check_place(out: Path, needed: Sequence[str | Path | None], force: bool) -> None:
    if not os.path.lexists(out):
        return
    if not force:
        raise InputError(f"{out} exists; ", Setting("force", True), " replaces it", field="out")
    card = out / "README.md"
    is_ours = card.is_file() and _WRITTEN_BY in card.read_text(encoding="utf-8", errors="replace")
    if out.is_symlink() or not out.is_dir() or (any(out.iterdir()) and not is_ours):
        raise InputError(f"{out} exists and is not an exported benchmark; it is left alone", field="out")
    for folder in needed:
        if folder is not None and Path(os.path.expanduser(folder)).resolve().is_relative_to(out.resolve()):
            raise InputError(f"{out} is not replaced, because {folder} is in it", field="out")


class _Written(NamedTuple):
    """What the card says of a configuration, under `configs` and under `dataset_info`."""

    files: dict[str, object]
    info: dict[str, object]


def _write_config(builder: CaptionBenchmark, workshop: Path) -> _Written:
    config = builder.config.name
    made = workshop / "prepared" / config  # `datasets` leaves notes and locks beside what it writes
    builder.download_and_prepare(str(made), file_format="parquet")
    folder = workshop / "whole" / config
    folder.mkdir(parents=True)
    files, splits = [], []
    for name, split in builder.info.splits.items():
        paths = sorted(made.glob(f"{builder.dataset_name}-{name}.parquet"))
        paths += sorted(made.glob(f"{builder.dataset_name}-{name}-[0-9]*-of-[0-9]*.parquet"))
        for path in paths:
            _copy_without_features(path, folder / path.name)
        files.append({"split": str(name), "path": [f"{config}/{path.name}" for path in paths]})
        splits.append({"name": str(name), "num_bytes": split.num_bytes, "num_examples": split.num_examples})
    features = builder.info.features._to_yaml_list()
    return _Written(
        {"config_name": config, "data_files": files},
        {"config_name": config, "features": features, "splits": splits},
    )


def _copy_without_features(path: Path, target: Path) -> None:
    """Copy Parquet without the features as this `datasets` notes them, which older ones cannot read."""
    import pyarrow.parquet as pq

    with (
        pq.ParquetFile(path) as source,
        pq.ParquetWriter(target, source.schema_arrow.remove_metadata()) as copy,
    ):
        for group in range(source.num_row_groups):
            copy.write_table(source.read_row_group(group).replace_schema_metadata(None))


def card_of(slug: str) -> str:
    """The card of a benchmark: the one that ships, or one that is made from its builder."""
    import yaml

    text = benchmark_card(slug)
    if text:
        return text
    kind = builder_class(slug)
    licence = kind.LICENSE.lower()
    head = {"license": licence, "pretty_name": slug}
    if not re.fullmatch(r"[a-z0-9.-]+", licence):
        head |= {"license": "other", "license_name": kind.LICENSE}
    return (
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n# {slug}\n\n{kind.__doc__}\n\n"
        f"## How to load\n\n## Licence\n\n{kind.LICENSE}\n\n"
        f"## Citation\n\n```bibtex\n{kind.citation()}\n```\n"
    )


def _card(slug: str, written: Mapping[str, _Written]) -> str:
    import yaml

    _, front, body = re.split(r"^---\n", card_of(slug), maxsplit=2, flags=re.MULTILINE)
    head = yaml.safe_load(front)
    head["configs"] = [part.files for part in written.values()]
    head["dataset_info"] = [part.info for part in written.values()]
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=110)
    how = (
        "## How to load\n\n```python\nfrom datasets import load_dataset\n\n"
        f'data = load_dataset("path/or/id/of/this/folder", "{next(iter(written))}")\n```\n\n'
        f"{_WRITTEN_BY} {slug}`.\n\n"
    )
    body = re.sub(r"^## How to load\n.*?(?=^## )", lambda _: how, body, flags=re.DOTALL | re.MULTILINE)
    return f"---\n{front}---\n{body}"
