"""Are a benchmark's files all there and as published? Its folder in, findings in words out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CapscoreError, ImageError, InputError
from .load import benchmark_builder, builder_class, config_name

if TYPE_CHECKING:
    from .builder import CaptionBenchmark

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: "ok"; "note", what a person should know; "problem", what differs from what was published.
        what: the file, split or number.
        message: what was found, in words.
    """

    level: str
    what: str
    message: str


@dataclass
class CheckedBenchmark:
    """What was found of one configuration.

    Attributes:
        benchmark, config: which.
        findings: in the order in which they were looked at.
        counts: split → what was counted → number.
        missing_images: file names of the photos that are not there, each once.
    """

    benchmark: str
    config: str
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    missing_images: list[str] = field(default_factory=list)

    def add(self, level: str, what: str, message: str) -> None:
        """One more finding."""
        self.findings.append(Finding(level, what, message))

    @property
    def problems(self) -> list[Finding]:
        """What differs from what was published."""
        return [finding for finding in self.findings if finding.level == PROBLEM]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def check_benchmark(
    slug: str,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
    open_images: bool = False,
    say: Callable[[str], None] | None = None,
) -> list[CheckedBenchmark]:
    """Check a benchmark's files: counts and checksums against those published, and which photos are missing.

    Args:
        slug: name of the benchmark.
        configs: its configurations; None takes all.
        data_dir, image_dir: as in `capscore.load_benchmark`.
        open_images: decode every photo, to find those that are damaged.
        say: takes one line on what is being looked at.

    Raises:
        CapscoreError: an unknown benchmark.
        InputError: an unknown configuration, or no folder.
    """
    names = [config_name(slug, name) for name in configs or builder_class(slug).CONFIGS]
    if data_dir is not None and not os.path.isdir(os.path.expanduser(data_dir)):
        raise InputError(f"{data_dir} is not a folder", field="data_dir")
    checked = []
    for config in names:
        if say is not None:
            say(f"{slug} ({config})")
        builder = benchmark_builder(slug, config, data_dir=data_dir, image_dir=image_dir)
        checked.append(_check(builder, open_images))
    return checked


def _check(builder: CaptionBenchmark, open_images: bool) -> CheckedBenchmark:
    found = CheckedBenchmark(builder.name, builder.config.name)
    photos: dict[str, str | None] = {}
    for split in builder.splits():
        try:
            rows = [row for _, row in builder.checked_rows(split)]
        except CapscoreError as error:
            found.add(PROBLEM, split, str(error))
            continue
        found.counts[split] = builder.count(rows)
        published = builder.published(split)
        for what, number in found.counts[split].items():
            if what not in published:
                found.add(NOTE, split, f"{number:,} {what}; no number is published")
            elif number == published[what]:
                found.add(OK, split, f"{number:,} {what}, as published")
            else:
                found.add(PROBLEM, split, f"{number:,} {what}, and {published[what]:,} were published")
        for row in rows:
            for column in builder.IMAGE_COLUMNS:
                names = row.get(column) or [row[f"{column}_id"]]
                if not isinstance(names, dict) and names[0] not in photos:
                    photos[names[0]] = builder.find_image(names)
    _check_files(builder, found)
    if photos:
        _check_images(builder, photos, found, open_images)
    return found


def _check_files(builder: CaptionBenchmark, found: CheckedBenchmark) -> None:
    for name, known in builder.FILES.items():
        source = builder.find(name)
        if source is None or source.path not in builder.files_read:
            continue
        # of a file that was unpacked from what the URL gives, or packed, no checksum is known
        official = (known.url or known.names[0].partition("::")[0]).rpartition("/")[2]
        published = (
            (known.sha256 or known.git_blob)
            if source.path.name in (official, official.removesuffix(".gz"))
            else ""
        )
        kind, own = ("SHA-256", source.sha256) if known.sha256 else ("git id", source.git_blob)
        if not published:
            found.add(OK, source.path.name, "is there; no checksum of it is published")
        elif published == own():
            found.add(OK, source.path.name, f"is the published file ({kind})")
        else:
            found.add(PROBLEM, source.path.name, f"differs from the published file ({kind})")


def _check_images(
    builder: CaptionBenchmark, photos: dict[str, str | None], found: CheckedBenchmark, open_images: bool
) -> None:
    from ...images.load import load_image

    found.missing_images = [name for name, path in photos.items() if path is None]
    missing = len(found.missing_images)
    roots = ", ".join(map(str, builder.image_roots))
    if not roots:
        message = f"{len(photos):,} are named, and no folder of them is there: {builder.IMAGES.source}"
        found.add(NOTE, "photos", message)
    elif missing:
        shown = ", ".join(found.missing_images[:5])
        found.add(PROBLEM, "photos", f"{missing:,} of {len(photos):,} are not in {roots}, such as {shown}")
    else:
        found.add(OK, "photos", f"all {len(photos):,} are there")
    for name, path in photos.items() if open_images else ():
        try:
            if path is not None:
                load_image(path)
        except ImageError as error:
            found.add(PROBLEM, "photos", f"cannot be opened: {name} ({error.message})")
