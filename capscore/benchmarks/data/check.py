"""Are a benchmark's files all there and as published? Its folder in, findings in words out.

Counted are rows, photos and whatever else the loading script knows published numbers of; compared are SHA-256
sums of the annotation files; named are photos that are missing, or that cannot be opened.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CapscoreError, InputError
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
        return {
            "benchmark": self.benchmark,
            "config": self.config,
            "findings": [vars(finding) for finding in self.findings],
            "counts": self.counts,
            "missing_images": self.missing_images,
        }


def check_benchmark(
    slug: str,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
    open_images: bool = False,
    say: Callable[[str], None] | None = None,
) -> list[CheckedBenchmark]:
    """Check a benchmark's files.

    Args:
        slug: name of the benchmark.
        configs: its configurations; None takes all whose files are there (or, if none are, says what is
            missing of each).
        data_dir, image_dir: as in `capscore.load_benchmark`.
        open_images: decode every photo, to find those that are damaged.
        say: takes one line on what is being looked at.

    Raises:
        CapscoreError: an unknown benchmark.
        InputError: an unknown configuration, or no folder.
    """
    names = [config_name(slug, name) for name in configs or ()]
    names = names or [known.name for known in builder_class(slug).BUILDER_CONFIGS]
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
    names: dict[str, str | None] = {}
    try:
        splits = builder.splits()
    except CapscoreError as error:
        found.add(PROBLEM, "files", str(error))
        return found
    for split in splits:
        try:
            rows = [row for _, row in builder.checked_rows(split)]
        except CapscoreError as error:
            found.add(PROBLEM, split, str(error))
            continue
        _check_counts(builder, split, rows, found)
        for row in rows:
            for column in builder.image_columns:
                wanted = row.get(column) or [row[f"{column}_id"]]
                if wanted[0] not in names:
                    names[wanted[0]] = builder.find_image(wanted)
    _check_files(builder, found)
    if names:
        _check_images(builder, names, found, open_images)
    return found


def _check_files(builder: CaptionBenchmark, found: CheckedBenchmark) -> None:
    for name, known in builder.FILES.items():
        source = builder.find(name)
        if source is None or source.path not in builder.files_read:
            continue
        # what a URL gives may be an archive: its checksum says nothing of a file that was unpacked from it
        unpacked = not source.member and any("::" in place for place in known.names)
        sums = {"" if unpacked else known.sha256, *known.published} - {""}
        if known.git_blob and not unpacked:
            same = source.git_blob() == known.git_blob
            found.add(
                OK if same else PROBLEM,
                source.path.name,
                f"{'is' if same else 'differs from'} the published file (git id)",
            )
        elif not sums:
            found.add(OK, source.path.name, "is there; no checksum of it is published")
        elif source.sha256() in sums:
            found.add(OK, source.path.name, "is the published file (SHA-256)")
        else:
            found.add(PROBLEM, source.path.name, "differs from the published file (SHA-256)")


def _check_counts(
    builder: CaptionBenchmark, split: str, rows: list[dict[str, Any]], found: CheckedBenchmark
) -> None:
    counts = builder.count(rows)
    published = builder.published(split)
    found.counts[split] = counts
    for what, number in counts.items():
        if what not in published:
            found.add(NOTE, split, f"{number:,} {what}; no number is published")
        elif number == published[what]:
            found.add(OK, split, f"{number:,} {what}, as published")
        else:
            found.add(PROBLEM, split, f"{number:,} {what}, and {published[what]:,} were published")


def _check_images(
    builder: CaptionBenchmark, names: dict[str, str | None], found: CheckedBenchmark, open_images: bool
) -> None:
    found.missing_images = [name for name, path in names.items() if path is None]
    there = {name: path for name, path in names.items() if path is not None}
    roots = ", ".join(map(str, builder.image_roots))
    if not roots:
        found.add(
            NOTE,
            "photos",
            f"{len(names):,} are named, and no folder of them is there: {builder.IMAGES.source}",
        )
        return
    if found.missing_images:
        shown = ", ".join(found.missing_images[:5]) + (", …" if len(found.missing_images) > 5 else "")
        found.add(
            PROBLEM,
            "photos",
            f"{len(found.missing_images):,} of {len(names):,} are not in {roots}: {shown}"
            f"{_near(builder, found.missing_images[0])}",
        )
    else:
        found.add(OK, "photos", f"all {len(names):,} are there")
    if open_images:
        damaged = [f"{name} ({problem})" for name, path in there.items() if (problem := _problem(path))]
        for line in damaged:
            found.add(PROBLEM, "photos", f"cannot be opened: {line}")
        if there and not damaged:
            found.add(OK, "photos", f"{len(there):,} were opened")


def _near(builder: CaptionBenchmark, name: str) -> str:
    """The photo that may have been meant: one of the same name with another ending, or a similar one."""
    stem = os.path.splitext(os.path.basename(name))[0].lower()
    for root in builder.image_roots:
        there = os.listdir(root)
        same = [other for other in there if os.path.splitext(other)[0].lower() == stem]
        near = same or difflib.get_close_matches(os.path.basename(name), there, n=1, cutoff=0.9)
        if near:
            return f" (for the first there is {near[0]})"
    return ""


def _problem(path: str) -> str:
    from ...errors import ImageError
    from ...images.load import load_image

    try:
        load_image(path)
    except ImageError as error:
        return error.message
    return ""
