"""Counts the captions of a set: its files in, the columns of Thapliyal et al. 2022, Table 1 out.

Words are what stands between spaces, as that table counts them, so that Chinese, Japanese and Thai have about
one per caption; characters are code points, spaces among them. Runs of white space count as one space.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import CapscoreError
from .data.annotation_files import KeptReadings
from .data.load import builder_class, config_name
from .published import sources
from .run import open_benchmark, start_run
from .tasks import TaskOptions, check_captioned

if TYPE_CHECKING:
    from .data.builder import CaptionBenchmark

# what a table counts, in its order; means have one decimal in print
COUNTED = ("captions", "photos_with_1", "photos_with_2", "photos_with_3_or_more")
MEANS = ("words", "characters")


def count_captions(captions: Iterable[Sequence[str]]) -> dict[str, float | None]:
    """Count the captions of photos.

    Args:
        captions: For each photo, its captions.

    Returns:
        Numbers of "captions" and "photos", of photos with 1, 2, 3 or more, and mean numbers of "words"
        between spaces and of "characters", None without captions.

    >>> found = count_captions([["Ein Hund", "Hund am Strand"], ["Zwei Kinder"], []])
    >>> found["captions"], found["photos_with_2"], round(found["words"], 2), found["characters"]
    (3, 1, 2.33, 11.0)
    """
    by_photo = [[text.split() for text in texts] for texts in captions]
    sizes = [len(texts) for texts in by_photo]
    texts = [words for photo in by_photo for words in photo]
    return {
        "captions": len(texts),
        "photos": len(by_photo),
        "photos_with_1": sizes.count(1),
        "photos_with_2": sizes.count(2),
        "photos_with_3_or_more": sum(size >= 3 for size in sizes),
        "words": sum(map(len, texts)) / len(texts) if texts else None,
        "characters": sum(len(" ".join(words)) for words in texts) / len(texts) if texts else None,
    }


def caption_statistics(
    slug: str,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
) -> dict[str, Any]:
    """Count the captions of a benchmark's configurations, beside published numbers.

    Args:
        slug: Name of a set of captioned photos, such as "xm3600".
        configs: Its configurations; None for all whose files can be read.
        data_dir: As in `capscore.load_benchmark`.
        split: Split to count; None for the test split, or else the validation split.

    Returns:
        Ready for JSON: "benchmark"; "configs", for each what `count_captions` gives, "config", "split",
        "language", "published" (name of a number → the printed one), "source" of these, "differing" (names of
        printed numbers that the files do not give), "files" (name → SHA-256) and "notes"; and "missing",
        configuration → why its files could not be read.

    Raises:
        InputError: not a set of captioned photos, or an unknown configuration or split.
        CapscoreError: a configuration that was named, or all of them, cannot be read.
    """
    check_captioned(slug)
    names = [config_name(slug, name) for name in configs or ()]
    found, missing, kept = [], {}, KeptReadings()
    for name in dict.fromkeys(names or (known.name for known in builder_class(slug).BUILDER_CONFIGS)):
        try:
            where: dict[str, Any] = {"data_dir": data_dir, "split": split, "images": False, "kept": kept}
            found.append(_of_config(*open_benchmark(slug, name, **where), split))
        except CapscoreError as error:
            if names or data_dir is None:  # every further configuration would be another download
                raise
            missing[name] = str(error)
    if not found:
        raise CapscoreError(f"no configuration of {slug} can be read: {next(iter(missing.values()))}")
    return {"benchmark": slug, "configs": found, "missing": missing, "capscore_version": __version__}


def _of_config(builder: CaptionBenchmark, chosen: str, asked: str | None) -> dict[str, Any]:
    run, rows = start_run(builder, chosen, TaskOptions(bootstrap=0))
    by_photo: dict[str, list[str]] = {}
    for _, row in rows:
        by_photo.setdefault(row["image_id"], []).extend(row["references"])
    found = count_captions(by_photo.values())
    whole = asked is None or chosen == "test"
    published, source = published_statistics(run.benchmark, run.config) if whole else ({}, "")
    return {
        **found,
        **{"config": run.config, "split": chosen, "language": builder.config.language},
        **{"published": published, "source": source},
        "differing": sorted(name for name in published if _differs(found[name], published[name], name)),
        **{"files": run.files, "notes": list(run.notes)},
    }


def _differs(number: float | None, printed: float, name: str) -> bool:
    """Whether a number is another one than the printed one, at the precision of print."""
    return number is None or abs(number - printed) > (0.05 + 1e-9 if name in MEANS else 0)


def published_statistics(slug: str, config: str) -> tuple[dict[str, float], str]:
    """The printed numbers of a configuration by name, and where they are printed; ({}, "") if nowhere.

    >>> published_statistics("xm3600", "quz")[0]["words"]
    5.0
    """
    for table in _tables():
        if table["benchmark"] == slug and config in table["rows"]:
            numbers = dict(zip(table["columns"], table["rows"][config], strict=True))
            return numbers, f"{sources()[table['source']].short}, {table['table']}"
    return {}, ""


@cache
def _tables() -> list[dict[str, Any]]:
    text = files(__package__).joinpath("caption_statistics.json").read_text(encoding="utf-8")
    return json.loads(text)["tables"]
