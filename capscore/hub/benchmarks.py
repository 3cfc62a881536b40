"""A benchmark → the files of its data set on the Hub: Parquet and card, or card and builder alone.

The licence decides. What may be passed on is written as Parquet, without photos, which have licences of their
own. Of a set that is for research only, or whose authors name no licence, the data stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ..benchmarks.data.export import export_benchmark
from ..benchmarks.data.load import builder_class
from ..files.shipped import benchmark_folder
from .plan import BENCHMARK, CARD, DATASET, Plan, PublishedFile, check_size, made, read_card

# Licences, as the Hub writes them, that let anybody pass the annotations on.
MAY_BE_PASSED_ON = frozenset(
    {
        "apache-2.0",
        "bsd-3-clause-clear",
        "cc-by-2.0",
        "cc-by-4.0",
        "cc-by-nc-4.0",
        "cc-by-sa-4.0",
        "cc0-1.0",
        "mit",
    }
)


def may_be_published(slug: str) -> bool:
    """Whether the licence of a benchmark's annotations lets anybody pass them on.

    >>> may_be_published("xvnli"), may_be_published("flickr8k_human")
    (True, False)
    """
    return _licence(slug) in MAY_BE_PASSED_ON


def plan_benchmark(
    slug: str,
    repo_id: str,
    workshop: Path,
    configs: Sequence[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Plan:
    """List what to publish of a benchmark.

    Args:
        slug: Name of the benchmark, such as "valse".
        repo_id: "org/name" of the data set.
        workshop: Folder for the Parquet files until they are sent.
        configs: Which configurations; None takes all whose files are there.
        data_dir: Folder of the official files, as `load_benchmark` takes it.
        say: Takes one line on what is being done.

    Raises:
        CapscoreError: there is no such benchmark.
        InputError: `data_dir` is none, or a configuration is unknown.
        AnnotationError: a file is missing or damaged.
    """
    kind = builder_class(slug)
    folder = Path(benchmark_folder(slug))
    if not may_be_published(slug):
        card = _card_without_data((folder / CARD).read_text(encoding="utf-8"), slug)
        code = PublishedFile(
            f"builder/{slug}.py", folder / f"{slug}.py", (folder / f"{slug}.py").stat().st_size
        )
        note = f"the licence ({kind.LICENSE}) does not let the data be passed on: card and builder only"
        files: tuple[PublishedFile, ...] = (made(CARD, card, folder / CARD), code)
        how = f"capscore.load_benchmark({slug!r}, data_dir=…)"
        return Plan(folder, BENCHMARK, files, (), (note,), repo_type=DATASET, name=slug, how=how)
    made_at = export_benchmark(slug, workshop / slug, configs, data_dir=data_dir, images=False, say=say)
    found = [path for path in sorted(made_at.rglob("*")) if path.is_file() and path.name != CARD]
    text = (made_at / CARD).read_text(encoding="utf-8").replace("path/or/id/of/this/folder", repo_id)
    first = read_configs(text, made_at / CARD)[0]
    files = (
        made(CARD, text, made_at / CARD),
        *(PublishedFile(path.relative_to(made_at).as_posix(), path, path.stat().st_size) for path in found),
    )
    check_size(files)
    how = f"load_dataset('{{repo}}', {first!r}, revision='{{commit}}')"
    note = "photos are not published: they have licences of their own"
    return Plan(made_at, BENCHMARK, files, (), (note,), repo_type=DATASET, name=slug, how=how)


def read_configs(card: str, path: Path) -> list[str]:
    """Names of the configurations that a card lists."""
    from huggingface_hub import DatasetCard

    configs = read_card(card, DatasetCard, path).get("configs") or []
    assert isinstance(configs, list)
    return [one["config_name"] for one in configs]


def _licence(slug: str) -> str:
    from huggingface_hub import DatasetCard

    path = Path(benchmark_folder(slug), CARD)
    return str(read_card(path.read_text(encoding="utf-8"), DatasetCard, path).get("license") or "")


def _card_without_data(card: str, slug: str) -> str:
    """The script's card, which says that the data are not in this repository."""
    how = f"""## How to load

The data are not here: their licence, or that they have none, does not let us pass them on. Get the official
files (below), and let [capscore](https://pypi.org/project/capscore/) read them:

```python
import capscore

rows = capscore.load_benchmark("{slug}", data_dir="<folder>")
```

The builder is in `builder/{slug}.py`; `datasets` before version 4 runs it with `trust_remote_code=True`.

"""
    return re.sub(r"^## How to load\n.*?(?=^## )", lambda _: how, card, flags=re.DOTALL | re.MULTILINE)
