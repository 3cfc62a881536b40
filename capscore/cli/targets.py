"""Finds the benchmarks, configurations and folders that options ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import CapscoreError
from .terminal import UsageError, as_usage


class Target(NamedTuple):
    """A benchmark's configuration, and the folder of its files; None where none is given."""

    slug: str
    config: str | None
    folder: Path | None


def benchmark_targets(
    data: Sequence[str], configs: Sequence[str] | None, data_dir: Path | None
) -> list[Target]:
    """Everything that is to be measured, each once.

    Args:
        data: Names of benchmarks.
        configs: Names of configurations, or "all"; None takes each benchmark's default.
        data_dir: Folder of the benchmark's files; of several benchmarks, a folder with one folder for each.

    Raises:
        UsageError: A benchmark, configuration or folder does not exist.
    """
    from ..benchmarks.data.load import builder_class, config_name
    from ..benchmarks.suite import benchmark_home

    targets = []
    with as_usage():
        for slug in dict.fromkeys(data):
            known = [config.name for config in builder_class(slug).BUILDER_CONFIGS]
            home = data_dir
            if data_dir is not None and len(data) > 1:
                home = benchmark_home(data_dir, slug)
                if home is None:
                    raise CapscoreError(
                        "with several benchmarks, --data-dir holds a folder for each; "
                        f"{data_dir} has none for {slug}"
                    )
            names: list[str | None] = [None] if not configs else [*configs]
            if configs and "all" in configs and "all" not in known:
                names = [*known]
            chosen = dict.fromkeys(config_name(slug, name) for name in names)
            targets += [Target(slug, name, home) for name in chosen]
    return targets


def targets_in_languages(
    data: Sequence[str], data_dir: Path | None, languages: Sequence[str]
) -> list[Target]:
    """The configurations of benchmarks in some languages; a default configuration comes before others.

    Raises:
        UsageError: A benchmark has no captions in a language.
    """
    from ..benchmarks.data.load import builder_class

    homes = {target.slug: target.folder for target in benchmark_targets(data, ["all"], data_dir)}
    targets = []
    for slug, home in homes.items():
        kind = builder_class(slug)
        first = {config.language: config.name for config in reversed(kind.BUILDER_CONFIGS)}
        first |= {c.language: c.name for c in kind.BUILDER_CONFIGS if c.name == kind.DEFAULT_CONFIG_NAME}
        for language in languages:
            if language not in first:
                known = ", ".join(sorted(filter(None, first)))
                raise UsageError(f"{slug} has no captions in {language!r}; it has captions in {known}")
            targets.append(Target(slug, first[language], home))
    return targets


def system_files(entries: Sequence[str]) -> dict[str, Path]:
    """FILE or NAME=FILE of captioning systems → name and file; equal names are told apart by their folders.

    Raises:
        UsageError: Two systems would have one name.
    """
    given = []
    for entry in entries:
        name, sign, file = entry.partition("=")
        named = bool(sign) and not Path(entry).exists()
        given.append((name, Path(file)) if named else ("", Path(entry)))
    stems = Counter(path.stem for name, path in given if not name)
    found: dict[str, Path] = {}
    for name, path in given:
        own = name or (path.stem if stems[path.stem] == 1 else str(path.with_suffix("")))
        if own in found:
            raise UsageError(f"two systems would be called {own!r}; NAME=FILE gives another name")
        found[own] = path
    return found


def check_beside(slug: str | None) -> None:
    """Raise UsageError if there are no published figures of perturbations for a benchmark."""
    from ..benchmarks.published import figures

    known = sorted({each.benchmark for each in figures() if each.statistic.startswith("drop_")})
    if slug is not None and slug not in known:
        raise UsageError(f"--beside {slug}: no figures of perturbations; there are of {', '.join(known)}")
