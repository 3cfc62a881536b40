"""Benchmarks in one line: a benchmark's name, its configuration and the folder of its files → a data set.

`load_dataset` of datasets < 4 runs the loading scripts itself; later ones do not, and `load_benchmark` does,
on all of them.
"""

from __future__ import annotations

import copyreg
import hashlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...errors import CapscoreError, InputError, ResultWriteError, Setting
from ...files.shipped import benchmark_folder
from ...files.write import whole_file
from ...registry import BENCHMARKS

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

    from .builder import CaptionBenchmark


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
    options: Mapping[str, object] | None = None,
) -> DatasetDict | Dataset | IterableDatasetDict | IterableDataset:
    """Load a benchmark, as `datasets.load_dataset` would.

    Args:
        slug: Name of the benchmark, such as "xvnli"; `capscore.benchmark_slugs()` lists them.
        config: Its configuration, such as "fr"; None if it has only one, or a default.
        data_dir: Folder of its official files; None downloads them if their source is public.
        split: "test", "test[:10%]", "train+test", …; None gives all, by name. A stream takes whole splits.
        streaming: Whether to yield rows as they are read instead of preparing them on disk.
        images: None uses the photos that are available, with None for the others; True requires all; False
            leaves them out.
        image_dir: Folder of the photos, if they are not in one of the benchmark's folders under data_dir.
        cache_dir: Folder for prepared rows; None uses the folder of `datasets`. They are prepared again
            when a file, or the loading script, has changed.
        options: Options of this benchmark's configurations, by name.

    Raises:
        CapscoreError: an unknown benchmark, configuration, split or option.
        AnnotationError: a file is missing or damaged; names file and line. Nothing of it is cached.
        MissingImages: photos are missing with images=True, or a folder of photos holds none of those
            expected.
        ResultWriteError: prepared rows cannot be written.

    Warns:
        BenchmarkWarning: rows, photos or references are fewer than published. With
            `warnings.simplefilter("error", capscore.BenchmarkWarning)` it becomes an error.

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
    hint = "a stream reads one whole split"
    if not streaming:
        builder.download_and_prepare()
        hint = "expected such as 'test[:10%]'"
    try:
        if streaming:
            return builder.as_streaming_dataset(split=split)
        return builder.as_dataset(split=split)
    except (AssertionError, TypeError, ValueError) as error:
        name = f"{slug} ({builder.config.name}), which has {', '.join(builder.splits())}"
        raise InputError(f"{split!r} of {name}: {error}; {hint}", field="split") from error


def benchmark_builder(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    images: bool | None = None,
    image_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    options: Mapping[str, object] | None = None,
) -> CaptionBenchmark:
    """The builder of a benchmark's configuration; arguments as in `load_benchmark`."""
    kind = builder_class(slug)
    config = config_name(slug, config)
    known = next(known for known in kind.BUILDER_CONFIGS if known.name == config)
    _check_options(slug, known.options(), options or {})
    if data_dir is not None and not os.fspath(data_dir):
        raise InputError("is empty, expected a folder, or None", field="data_dir")
    if images not in (None, True, False):
        raise InputError(f"{images!r}: expected None, True or False", field="images")
    given = dict(options or {})
    for name, folder in (("cache_dir", cache_dir), ("image_dir", image_dir), ("data_dir", data_dir)):
        if folder is not None:
            given[name] = os.path.expanduser(os.fspath(folder))
    if images is not None:
        given["images"] = images
    try:
        return kind(dataset_name=slug, config_name=config, hash=_code_digest(slug), **given)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{error.object!r} is not a folder name that datasets can read: it is not UTF-8"
        ) from None
    except OSError as error:
        raise ResultWriteError(
            f"{slug} ({config}) cannot be prepared in {cache_dir or 'the cache of datasets'} "
            f"({error.strerror or error}); ",
            Setting("cache_dir"),
            " may name another folder",
        ) from error


def config_name(slug: str, config: str | None) -> str:
    """The name of a benchmark's configuration: the one given, or the default, or the only one."""
    kind = builder_class(slug)
    names: list[str] = [known.name for known in kind.BUILDER_CONFIGS]
    config = config or kind.DEFAULT_CONFIG_NAME
    if config is None and len(names) == 1:
        return names[0]
    if config not in names:
        given = "needs a configuration" if config is None else f"has no configuration {config!r}"
        raise InputError(f"{slug} {given}: expected one of {', '.join(names)}", field="config")
    return config


def config_names(slug: str, configs: Sequence[str] | None = None) -> list[str]:
    """The names of configurations, each once; of all where none are given. Errors as in `config_name`.

    "all" stands for all of them, unless it is the name of one, as in "nocaps".

    >>> config_names("marvl", ["all"]), config_names("nocaps", ["foil", "all"])
    (['id', 'sw', 'ta', 'tr', 'zh'], ['foil', 'all'])
    """
    configs = configs or ()
    if means_all(slug, configs):
        return [config.name for config in builder_class(slug).BUILDER_CONFIGS]
    return list(dict.fromkeys(config_name(slug, name) for name in configs))


def means_all(slug: str, configs: Sequence[str]) -> bool:
    """Whether names of configurations stand for all of them: none are given, or "all" is none's name."""
    known = [config.name for config in builder_class(slug).BUILDER_CONFIGS]
    return not configs or ("all" in configs and "all" not in known)


def check_data_dir(data_dir: str | Path | None) -> None:
    """Raise InputError unless `data_dir` is a folder, or None."""
    if data_dir is not None and not os.path.isdir(os.path.expanduser(data_dir)):
        raise InputError(f"{data_dir} is not a folder", field="data_dir")


def _check_options(slug: str, defaults: Mapping[str, object], options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if name not in defaults:
            has = f"its options are {', '.join(defaults)}" if defaults else "it has none"
            raise InputError(f"{slug} has no option {name!r}: {has}", field="options")
        if type(value) is not type(defaults[name]):
            expected = f": expected {type(defaults[name]).__name__}, such as {defaults[name]!r}"
            raise InputError(Setting(name, value), expected, field="options")


def _code_digest(slug: str) -> str:
    """Digest of what turns files into rows, so that rows prepared by other code are not taken for its own."""
    script = inspect.getfile(builder_class(slug))
    digest = hashlib.sha256()
    for path in (Path(script), *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# two threads must not load a script at once: the second would find a half-made module
_LOADING = threading.RLock()


def builder_class(slug: str) -> type[CaptionBenchmark]:
    return cast("type[CaptionBenchmark]", BENCHMARKS.get(slug))


def builder_in_script(slug: str) -> type[CaptionBenchmark]:
    from datasets import GeneratorBasedBuilder

    path = _importable(Path(benchmark_folder(slug), f"{slug}.py"))
    # `datasets` looks a builder's module up by its name, so it must be among the loaded ones
    name = f"capscore_benchmarks.{slug}"
    with _LOADING:
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
        if isinstance(value, type) and issubclass(value, GeneratorBasedBuilder) and value.__module__ == name:
            copyreg.pickle(value, _pickled)  # type: ignore[arg-type]
            return cast("type[CaptionBenchmark]", value)
    raise CapscoreError(f"{path} has no builder class")


def _pickled(builder: CaptionBenchmark) -> tuple[object, ...]:
    return _unpickled, (builder.name, builder.__getstate__())


def _unpickled(slug: str, state: Mapping[str, object]) -> CaptionBenchmark:
    """A builder as it arrives in another process, where its script may not be loaded yet."""
    kind = builder_class(slug)
    builder = object.__new__(kind)
    builder.__setstate__(state)
    return builder


def _importable(script: Path) -> Path:
    """Path to load a script from: its own, or with `datasets` < 4, which leave a lock beside the folder of a
    builder's file, and an installed package may be read-only, a copy among their modules."""
    import datasets

    if int(datasets.__version__.partition(".")[0]) >= 4:
        return script
    content = script.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    copy = Path(datasets.config.HF_MODULES_CACHE, "capscore_benchmarks", digest, script.stem, script.name)
    if not copy.is_file():
        with whole_file(copy, "copy of a loading script", make_folders=True) as file:
            file.write(content)
    return copy
