"""Benchmarks in one line: a benchmark's name, its configuration and the folder of its files → a data set.

`load_dataset` of datasets < 4 runs the loading scripts itself; later ones do not, and `load_benchmark` does,
on all of them.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import CapscoreError, InputError
from .shipped import benchmark_folder

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

    from .benchmark_builder import CaptionBenchmark


def load_benchmark(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    streaming: bool = False,
    images: bool | None = None,
    image_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> DatasetDict | Dataset | IterableDatasetDict | IterableDataset:
    """Load a benchmark, as `datasets.load_dataset` would.

    Args:
        slug: name of the benchmark, such as "xvnli"; `capscore.benchmark_slugs()` lists them.
        config: its configuration, such as "fr"; None where it has one only, or a default.
        data_dir: folder of its official files; None downloads them where their source is public.
        split: "test", …; None gives all, by name.
        streaming: yield rows as they are read instead of preparing them on disk.
        images: None takes the photos that are there (None stands for the others), True demands all, False
            leaves them out.
        image_dir: folder of the photos, if it is not one of the benchmark's own under data_dir.
        cache_dir: where prepared rows are kept; None takes the folder of `datasets`. They are prepared again
            when a file, or the loading script, has changed.
        options: what only this benchmark's configurations have, by name.

    Raises:
        CapscoreError: an unknown benchmark, configuration, split or option.
        AnnotationError: a file is missing or damaged; names file and line. Nothing is kept of it.
        MissingImages: with images=True, or where a folder of photos holds none of those expected.

    >>> import capscore
    >>> capscore.load_benchmark("xvnli", "fr", data_dir="xvnli", split="test").num_rows   # doctest: +SKIP
    1164
    """
    builder = benchmark_builder(
        slug,
        config,
        data_dir=data_dir,
        images=images,
        image_dir=image_dir,
        cache_dir=cache_dir,
        options=options,
    )
    if split is not None:
        _check_split(builder, split)
    if streaming:
        return builder.as_streaming_dataset(split=split)
    builder.download_and_prepare()
    return builder.as_dataset(split=split)


def benchmark_builder(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    images: bool | None = None,
    image_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> CaptionBenchmark:
    """The builder of a benchmark's configuration; arguments as in `load_benchmark`."""
    kind = builder_class(slug)
    config = config_name(slug, config)
    known = next(known for known in kind.BUILDER_CONFIGS if known.name == config)
    unknown = [name for name in options or {} if not hasattr(known, name) or name in ("name", "version")]
    if unknown:
        raise InputError(f"{slug} has no option {', '.join(map(repr, unknown))}", field="options")
    chosen: dict[str, Any] = {"images": images, "image_dir": image_dir, **(options or {})}
    return kind(
        cache_dir=None if cache_dir is None else str(cache_dir),
        dataset_name=slug,
        config_name=config,
        data_dir=None if data_dir is None else str(Path(data_dir).expanduser()),
        hash=_code_digest(slug),
        **{
            name: str(value) if isinstance(value, Path) else value
            for name, value in chosen.items()
            if value is not None
        },
    )


def config_name(slug: str, config: str | None) -> str:
    """The name of a benchmark's configuration: the one given, or the default, or the only one.

    Raises:
        CapscoreError: an unknown benchmark.
        InputError: an unknown configuration, or none where one is needed; says which there are.

    >>> config_name("thumb", None), config_name("xvnli", "fr")
    ('default', 'fr')
    """
    kind = builder_class(slug)
    names = [known.name for known in kind.BUILDER_CONFIGS]
    if config is None:
        config = kind.DEFAULT_CONFIG_NAME or (names[0] if len(names) == 1 else None)
    if config not in names:
        close = difflib.get_close_matches(str(config), names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        given = "is needed" if config is None else f"{config!r} is not known"
        raise InputError(f"{slug}: a configuration {given}: one of {', '.join(names)}{hint}", field="config")
    return config


def builder_class(slug: str) -> type[CaptionBenchmark]:
    """The builder class in a benchmark's loading script.

    Raises:
        CapscoreError: there is no benchmark of that name; says which are near.
    """
    from .benchmark_builder import CaptionBenchmark

    path = Path(benchmark_folder(slug), f"{slug}.py")
    # `datasets` finds a builder's module by its name again, so it must be among the loaded ones
    name = f"capscore_benchmarks.{slug}"
    module = sys.modules.get(name)
    if module is None or getattr(module, "__file__", None) != str(path):
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise CapscoreError(f"{path} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, CaptionBenchmark) and value.__module__ == name:
            return value
    raise CapscoreError(f"{path} has no builder class")


def _check_split(builder: CaptionBenchmark, split: str) -> None:
    names = builder.splits()
    base = str(split).partition("[")[0]
    if base not in (*names, "all") and "+" not in base:
        raise InputError(
            f"{builder.name} ({builder.config.name}) has no split {split!r}: one of {', '.join(names)}",
            field="split",
        )


def _code_digest(slug: str) -> str:
    """Digest of what turns files into rows, so that rows prepared by other code are not taken for its own."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in (
        Path(benchmark_folder(slug), f"{slug}.py"),
        here / "benchmark_builder.py",
        here / "annotation_files.py",
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
