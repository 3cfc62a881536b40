"""The commands `capscore publish metric|weights|dataset`: modules, weights and data sets to the Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..errors import InputError
from ..files.console import make_console
from ..files.scratch import process_folder
from ..files.text_files import readable_size
from ..tables import Table, counted
from .options import AllConfigs, DataDir, argument, option
from .terminal import as_usage, print_line, say

if TYPE_CHECKING:
    from ..hub.push import Plan

Org = Annotated[str, option("Organisation or user on the Hub.", "--org", metavar="ORG")]
Name = Annotated[str | None, option("Name on the Hub. Default: the local name.")]
Install = Annotated[list[str], option("release, or a wheel; repeatable.", "--install", metavar="HOW")]
Results = Annotated[
    list[Path] | None, option("Results to publish: a file or folder; repeatable.", metavar="FILE")
]
DryRun = Annotated[bool, option("List the files and sizes; send nothing.", "--dry-run")]
OverwriteCard = Annotated[bool, option("Replace a different card on the Hub.", "--overwrite-card")]


def publish_metric(
    metric: Annotated[str, argument("METRIC")],
    org: Org,
    install: Install,
    dry_run: DryRun = False,
    overwrite_card: OverwriteCard = False,
) -> None:
    """Publish a metric as a Space, for evaluate.load("ORG/METRIC").

    METRIC is any metric, of an installed package too; one that ships no module gets a plain one.

    --install says how the Space installs capscore: `release` (this version, from the package index), or the
    path of a wheel, which is put into the Space.

    The token is that of `hf auth login`, or HF_TOKEN.

    Exit codes: 0 done; 1 the Hub is not available or refuses, nothing was sent in part; 2 wrong usage.
    """
    from huggingface_hub import constants

    from ..hub.repositories import plan_metric

    repo_id = _repo_id(org, metric)
    with as_usage():
        plan = plan_metric(metric, repo_id, install, endpoint=constants.ENDPOINT)
    _publish(plan, repo_id, dry_run, overwrite_card)


def publish_weights(
    weights: Annotated[str, argument("WEIGHTS")],
    org: Org,
    name: Name = None,
    results: Results = None,
    dry_run: DryRun = False,
    overwrite_card: OverwriteCard = False,
) -> None:
    """Publish weights as a model, for backbone="ORG/NAME" or weights="ORG/NAME".

    WEIGHTS is the folder of a recipe, with its card, or installed weights: image_tower, pr_mcs, infometic or
    mark_calibration.

    --results names what `capscore benchmark --output` wrote, or folders of it. Results of exactly these
    weights are sent too, for the model's page and leaderboards, as numbers of ORG's data sets.

    The token is that of `hf auth login`, or HF_TOKEN.

    Exit codes: 0 done; 1 the Hub is not available or refuses, nothing was sent in part; 2 wrong usage.

    Example: capscore publish weights runs/own --org my-lab --dry-run
    """
    from ..hub.weights import plan_weights

    with as_usage(InputError):
        plan = plan_weights(weights, results or (), org)
    _publish(plan, _repo_id(org, name or plan.name), dry_run, overwrite_card)


def publish_dataset(
    benchmark: Annotated[str, argument("BENCHMARK")],
    org: Org,
    data_dir: DataDir = None,
    config: AllConfigs = None,
    name: Name = None,
    dry_run: DryRun = False,
    overwrite_card: OverwriteCard = False,
) -> None:
    """Publish a benchmark as Parquet, for load_dataset("ORG/BENCHMARK", config).

    BENCHMARK is a name of `capscore data list`, such as valse. Photos are not published. If the licence does
    not permit redistribution of the annotations, only the card and the builder are published.

    The token is that of `hf auth login`, or HF_TOKEN.

    Exit codes: 0 done; 1 the Hub is not available or refuses, nothing was sent in part; 2 wrong usage.
    """
    from datasets import disable_progress_bars

    from ..benchmarks.data.load import builder_class
    from ..hub.repositories import plan_benchmark

    with as_usage():
        builder_class(benchmark)
    repo_id = _repo_id(org, name or benchmark)
    disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=process_folder()) as folder:
        with as_usage(InputError):
            plan = plan_benchmark(benchmark, repo_id, Path(folder), config, data_dir=data_dir, say=say)
        _publish(plan, repo_id, dry_run, overwrite_card)


def _repo_id(org: str, name: str) -> str:
    from ..hub.push import check_repo_id

    with as_usage():
        check_repo_id(f"{org}/{name}")
    return f"{org}/{name}"


def _publish(plan: Plan, repo_id: str, dry_run: bool, overwrite_card: bool) -> None:
    """Print the files of a plan, and send them to the Hub unless it is a dry run."""
    from ..hub.push import push

    console, sizes = make_console(), plan.sizes()
    rows = [(name, readable_size(size)) for name, size in sizes.items()]
    Table(("file", "size"), rows, wide=0).print(console)
    for note in plan.notes:
        say(f"note: {note}")
    if dry_run:
        files = f"{counted(len(sizes), 'file')}, {readable_size(sum(sizes.values()))}"
        return print_line(console, f"dry run: {files}, would go to {repo_id} in one commit")
    pushed = push(plan, repo_id, overwrite_card=overwrite_card)
    if pushed.changed:
        made = "created and filled" if pushed.created else "pushed to"
        print_line(console, f"{made} {repo_id}: {pushed.url}")
    else:
        print_line(console, f"{repo_id} already has all files; no commit was made")
    if pushed.kept_card:
        print_line(console, "the card on the Hub differs and was kept; --overwrite-card replaces it")
    loads = plan.loads.replace("{repo}", repo_id).replace("{commit}", pushed.commit)
    print_line(console, f"load it: {loads}")
