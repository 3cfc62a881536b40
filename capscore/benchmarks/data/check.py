"""Are a benchmark's files all there and as published? Its folder in, findings in words out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CapscoreError
from .load import benchmark_builder, check_data_dir, config_names

if TYPE_CHECKING:
    from .builder import CaptionBenchmark

OK, NOTE, PROBLEM = "ok", "note", "problem"


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        level: "ok"; "note", what a person should know; "problem", what differs from what was published.
    """

    level: str
    what: str
    message: str


@dataclass
class CheckedBenchmark:
    """What was found of one configuration."""

    benchmark: str
    config: str
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    missing_images: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == PROBLEM]


def check_benchmark(
    slug: str,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
) -> list[CheckedBenchmark]:
    """Check a benchmark's files: counts and checksums as published, and which photos are missing."""
    names = config_names(slug, configs)
    check_data_dir(data_dir)
    checked = []
    for name in names:
        builder = benchmark_builder(slug, name, data_dir=data_dir, image_dir=image_dir)
        checked.append(CheckedBenchmark(slug, builder.config.name))
        checked[-1].findings.extend(_findings(builder, checked[-1]))
    return checked


def _findings(builder: CaptionBenchmark, checked: CheckedBenchmark) -> Iterator[Finding]:
    """What is found of splits, files and photos; counts and missing photos are noted in `checked`."""
    photos: dict[str, str | None] = {}
    for split in builder.splits():
        try:
            rows = [row for _, row in builder.checked_rows(split)]
        except CapscoreError as error:
            yield Finding(PROBLEM, split, str(error))
            continue
        checked.counts[split] = builder.count(rows)
        published = builder.published(split)
        for what, number in checked.counts[split].items():
            level, beside = OK, ", as published"
            if what not in published:
                level, beside = NOTE, "; no number is published"
            elif number != published[what]:
                level, beside = PROBLEM, f", and {published[what]:,} were published"
            yield Finding(level, split, f"{number:,} {what}{beside}")
        for row, column in ((row, column) for row in rows for column in builder.IMAGE_COLUMNS):
            names = row.get(column) or [row[f"{column}_id"]]
            if not isinstance(names, dict) and names[0] not in photos:
                photos[names[0]] = builder.find_image(names)
    for name, known in builder.FILES.items():
        source = builder.find(name)
        if source is None or source.path not in builder.files_read:
            continue
        # of a file that was unpacked from what the URL gives, or packed, no checksum is known
        official = (known.url or known.names[0].partition("::")[0]).rpartition("/")[2]
        kind = "SHA-256" if known.sha256 else "git id"
        is_official = source.path.name in (official, official.removesuffix(".gz"))
        if not (known.sha256 or known.git_blob) or not is_official:
            yield Finding(OK, source.path.name, "is there, but no checksum was published")
        elif source.is_published(known):
            yield Finding(OK, source.path.name, f"is the published file ({kind})")
        else:
            yield Finding(PROBLEM, source.path.name, f"differs from the published file ({kind})")
    missing = checked.missing_images = [name for name, path in photos.items() if path is None]
    roots = ", ".join(map(str, builder.image_roots))
    if photos and not roots:
        named = f"{len(photos):,} are named, but no folder holds them: {builder.IMAGES.source}"
        yield Finding(NOTE, "photos", named)
    elif missing:
        shown = f"{len(missing):,} of {len(photos):,} are not in {roots}, such as {', '.join(missing[:5])}"
        yield Finding(PROBLEM, "photos", shown)
    elif photos:
        yield Finding(OK, "photos", f"all {len(photos):,} are there")
