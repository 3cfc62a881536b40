"""The commands `capscore publish metric|weights|dataset`: modules, weights and data sets to the Hub."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, visible
from ..files.console import make_console
from ..files.sizes import readable_size
from .options import DataDir, argument, option
from .terminal import UsageError, as_usage, make_table, print_line, say

if TYPE_CHECKING:
    from ..hub.plan import Plan

Org = Annotated[str, option("Organisation or user on the Hub.", "--org", metavar="ORG")]
Name = Annotated[str | None, option("Name on the Hub. Default: that of what is published.")]
DryRun = Annotated[bool, option("List the files and sizes; send nothing.", "--dry-run")]
Private = Annotated[bool, option("Make a new repository private.", "--private")]
Tag = Annotated[str | None, option("Tag the commit, such as capscore-0.6.0.")]
OverwriteCard = Annotated[bool, option("Replace a card that somebody edited.", "--overwrite-card")]
DeleteStale = Annotated[bool, option("Delete files there that loading would read.", "--delete-stale")]


def publish_metric(
    metric: Annotated[str, argument("METRIC")],
    org: Org,
    install: Annotated[
        list[str] | None,
        option("release, a wheel, or git+URL@COMMIT; repeatable.", "--install", metavar="HOW"),
    ] = None,
    backbone: Annotated[str | None, option("Default backbone of the module, as ORG/NAME@REVISION.")] = None,
    name: Name = None,
    dry_run: DryRun = False,
    private: Private = False,
    tag: Tag = None,
    overwrite_card: OverwriteCard = False,
    delete_stale: DeleteStale = False,
) -> None:
    """Publish a metric as a Space, for evaluate.load("ORG/METRIC").

    METRIC is mcs, pr_mcs, ref_clip_score, infometic, clip_score or cider.

    --install says how the Space installs capscore: `release` (this version, from the package index), the path
    of a wheel, which is put into the Space, or git+URL@COMMIT.

    The token is that of `hf auth login`, or HF_TOKEN.

    Exit codes: 0 done; 1 the Hub is not available or refuses, nothing is half sent; 2 wrong usage.
    """
    from huggingface_hub import constants

    from ..files.shipped import module_folder
    from ..hub.repositories import plan_metric, read_installation

    if not install and sys.stdin.isatty() and not dry_run:
        question = "How is the Space to install capscore (release, a wheel, git+URL@COMMIT)?"
        install = typer.prompt(question, err=True).split()
    with as_usage():
        module_folder(metric)
    repo_id = _repo_id(org, name or metric, tag, "space")
    with as_usage(InputError):
        installation = read_installation(install or ())
        plan = plan_metric(
            metric, repo_id, installation, endpoint=constants.ENDPOINT, backbone=backbone or ""
        )
    options = {"private": private, "tag": tag, "overwrite_card": overwrite_card, "delete_stale": delete_stale}
    publish(plan, repo_id, options, dry_run=dry_run)


def publish_weights(
    weights: Annotated[str, argument("WEIGHTS")],
    org: Org,
    name: Name = None,
    dry_run: DryRun = False,
    private: Private = False,
    tag: Tag = None,
    overwrite_card: OverwriteCard = False,
    delete_stale: DeleteStale = False,
) -> None:
    """Publish weights as a model, for backbone="ORG/NAME" or weights="ORG/NAME".

    WEIGHTS is the folder of a recipe, with its card, or installed weights: image_tower, pr_mcs, infometic or
    mark_calibration.

    The token is that of `hf auth login`, or HF_TOKEN.

    Exit codes: 0 done; 1 the Hub is not available or refuses, nothing is half sent; 2 wrong usage.
    """
    from ..files.shipped import has_weights, offered_weights, weights_folder
    from ..hub.weights import plan_weights

    folder = Path(weights).expanduser()
    if not folder.is_dir():
        if not has_weights(weights):
            raise UsageError(
                f"{visible(weights)} is no folder and none of the installed weights: "
                f"{', '.join(offered_weights()) or 'there are none'}"
            )
        folder = weights_folder(weights)
    with as_usage(InputError):
        plan = plan_weights(folder)
    options = {"private": private, "tag": tag, "overwrite_card": overwrite_card, "delete_stale": delete_stale}
    publish(plan, _repo_id(org, name or plan.name, tag, "model"), options, dry_run=dry_run)


def publish_dataset(
    benchmark: Annotated[str, argument("BENCHMARK")],
    org: Org,
    data_dir: DataDir = None,
    config: Annotated[
        list[str] | None, option("Configuration; repeatable. Default: all.", "--config", "-c")
    ] = None,
    name: Name = None,
    dry_run: DryRun = False,
    private: Private = False,
    tag: Tag = None,
    overwrite_card: OverwriteCard = False,
    delete_stale: DeleteStale = False,
) -> None:
    """Publish a benchmark as Parquet, for load_dataset("ORG/BENCHMARK", config).

    BENCHMARK is a name of `capscore data list`, such as valse. Photos are not published. If the licence does
    not let the annotations be passed on, the card and the builder are published alone.

    The token is that of `hf auth login`, or HF_TOKEN.

    Exit codes: 0 done; 1 the Hub is not available or refuses, nothing is half sent; 2 wrong usage.
    """
    from datasets import disable_progress_bars

    from ..benchmarks.data.load import builder_class
    from ..hub.repositories import plan_benchmark

    with as_usage():
        builder_class(benchmark)
    repo_id = _repo_id(org, name or benchmark, tag, "dataset")
    disable_progress_bars()
    options = {"private": private, "tag": tag, "overwrite_card": overwrite_card, "delete_stale": delete_stale}
    with tempfile.TemporaryDirectory() as folder:
        with as_usage(InputError):
            plan = plan_benchmark(benchmark, repo_id, Path(folder), config, data_dir=data_dir, say=say)
        publish(plan, repo_id, options, dry_run=dry_run)


def _repo_id(org: str, name: str, tag: str | None, repo_type: str) -> str:
    from ..hub.plan import check_options

    with as_usage():
        check_options(f"{org}/{name}", tag=tag, repo_type=repo_type)
    return f"{org}/{name}"


def publish(plan: Plan, repo_id: str, options: Mapping[str, Any], *, dry_run: bool) -> None:
    """Print the files of a plan, and send them to the Hub unless it is a dry run.

    Args:
        plan: The files.
        repo_id: Repository, ORG/NAME.
        options: Further arguments of `capscore.hub.commit.push`.
        dry_run: Whether nothing is sent.
    """
    from ..hub.commit import push

    console = make_console()
    table = make_table("file", numbers=("size",))
    table.add_column("", overflow="fold")
    for file in plan.files:
        table.add_row(file.name, readable_size(file.size), "")
    for file, reason in plan.left_out:
        table.add_row(file.name, readable_size(file.size), f"not sent: {reason}", style="dim")
    console.print(table)
    for note in plan.notes:
        say(f"note: {note}")
    if dry_run:
        branch = f"the branch {options.get('revision') or 'main'}"
        where = "a pull request to main" if options.get("create_pr") else branch
        size = f"{len(plan.files)} files, {readable_size(plan.size)}"
        print_line(console, f"dry run: {size}, would go to {repo_id}, {where}, in one commit")
        if options.get("private"):
            print_line(console, "a new repository would be private")
        if options.get("tag"):
            print_line(console, f"the commit would be tagged {options['tag']}")
        return
    pushed = push(plan, repo_id, **options)
    if not pushed.changed:
        print_line(console, f"{pushed.repo_id} already has all files; no commit was made")
    elif pushed.pull_request:
        print_line(console, f"opened {pushed.url}")
    else:
        made = "created and filled" if pushed.created else "pushed to"
        print_line(console, f"{made} {pushed.repo_id}: {pushed.url}")
    if pushed.deleted:
        print_line(console, f"deleted on the Hub: {', '.join(pushed.deleted)}")
    if pushed.kept_card:
        kept = "the card on the Hub was kept, as somebody edited it; --overwrite-card replaces it"
        print_line(console, kept)
    if options.get("tag"):
        print_line(console, f"tagged {options['tag']}")
    print_line(console, f"load it: {plan.loading(f'{pushed.repo_id}@{pushed.commit}')}")
