"""The commands `capscore publish metric|weights|dataset`: modules, weights and data sets to the Hub."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors.visible import visible
from ..files.console import make_console
from ..files.sizes import readable_size
from .options import DataDir
from .plain_help import PlainCommand, PlainGroup
from .request import argument, make_command, option
from .terminal import UsageError, as_usage, bad_input_as_usage, make_table, print_line, say

if TYPE_CHECKING:
    from ..hub.commit import Pushed
    from ..hub.plan import Plan

publish_app = typer.Typer(
    help="Publish metrics, weights and data sets on the Hub.", cls=PlainGroup, no_args_is_help=True
)

Org = Annotated[str, option("Organisation or user on the Hub.", "--org", metavar="ORG")]
Name = Annotated[str | None, option("Name on the Hub. Default: that of what is published.")]
DryRun = Annotated[bool, option("List the files and sizes; send nothing.", "--dry-run")]
Private = Annotated[bool, option("Make a new repository private.", "--private")]
Tag = Annotated[str | None, option("Tag the commit, such as capscore-0.6.0.")]
OverwriteCard = Annotated[bool, option("Replace a card that somebody edited.", "--overwrite-card")]
DeleteStale = Annotated[bool, option("Delete files there that loading would read.", "--delete-stale")]

_EXIT_CODES = (
    """Exit codes: 0 done; 1 the Hub is not available or refuses, nothing is half sent; 2 wrong usage."""
)
_TOKEN = "The token is that of `hf auth login`, or HF_TOKEN."
_METRIC_HELP = f"""Publish a metric as a Space, for evaluate.load("ORG/METRIC").

METRIC is mcs, pr_mcs, ref_clip_score, infometic, clip_score or cider.

--install says how the Space installs capscore: `release` (this version, from the package index), the path of
a wheel, which is put into the Space, or git+URL@COMMIT. It is checked that this can be had.

{_TOKEN}

{_EXIT_CODES}"""
_WEIGHTS_HELP = f"""Publish weights as a model, for backbone="ORG/NAME" or weights="ORG/NAME".

WEIGHTS is the folder of a recipe, with its card, or installed weights: image_tower, pr_mcs, infometic or
mark_calibration.

{_TOKEN}

{_EXIT_CODES}"""
_DATASET_HELP = f"""Publish a benchmark as Parquet, for load_dataset("ORG/BENCHMARK", config).

BENCHMARK is a name of `capscore data list`, such as valse. Photos are not published. If the licence does not
let the annotations be passed on, the card and the builder are published alone.

{_TOKEN}

{_EXIT_CODES}"""


@dataclass(frozen=True)
class PublishedPlan:
    """A plan, where it goes, and what came of it; None for a dry run."""

    ready: Plan
    repo_id: str
    pushed: Pushed | None


def _publish(
    request: Any, repo_id: str, ready: Plan, check: Callable[[], None] | None = None
) -> PublishedPlan:
    from ..hub.commit import push

    if request.dry_run:
        return PublishedPlan(ready, repo_id, None)
    if check is not None:
        check()
    pushed = push(
        ready,
        repo_id,
        private=request.private,
        tag=request.tag,
        overwrite_card=request.overwrite_card,
        delete_stale=request.delete_stale,
    )
    return PublishedPlan(ready, repo_id, pushed)


def _place(request: Any, name: str, repo_type: str) -> str:
    from ..hub.plan import check_options

    repo_id = f"{request.org}/{request.name or name}"
    with as_usage():
        check_options(repo_id, tag=request.tag, repo_type=repo_type)
    return repo_id


# ---- metrics ----


@dataclass(frozen=True)
class PublishMetricRequest:
    """What `capscore publish metric` is asked for."""

    metric: Annotated[str, argument("METRIC")]
    org: Org
    install: Annotated[
        list[str] | None,
        option("release, a wheel, or git+URL@COMMIT; repeatable.", "--install", metavar="HOW"),
    ] = None
    backbone: Annotated[str | None, option("Default backbone of the module, as ORG/NAME@REVISION.")] = None
    name: Name = None
    dry_run: DryRun = False
    private: Private = False
    tag: Tag = None
    overwrite_card: OverwriteCard = False
    delete_stale: DeleteStale = False


def run_publish_metric(request: PublishMetricRequest) -> PublishedPlan:
    """Check, and publish unless it is a dry run."""
    from huggingface_hub import constants

    from ..files.shipped import module_folder
    from ..hub.installation import read_installation
    from ..hub.modules import plan_metric
    from ..hub.plan import SPACE

    given = request.install
    if not given and sys.stdin.isatty() and not request.dry_run:
        asked = typer.prompt(
            "How is the Space to install capscore (release, a wheel, git+URL@COMMIT)?", err=True
        )
        given = asked.split()
    with as_usage():
        folder = Path(module_folder(request.metric))
    repo_id = _place(request, request.metric, SPACE)
    with bad_input_as_usage():
        installation = read_installation(given or ())
        ready = plan_metric(
            request.metric,
            repo_id,
            installation,
            endpoint=constants.ENDPOINT,
            backbone=request.backbone or "",
        )
    needed = installation.distributions((folder / "requirements.txt").read_text(encoding="utf-8"))
    return _publish(request, repo_id, ready, lambda: installation.check(needed))


# ---- weights ----


@dataclass(frozen=True)
class PublishWeightsRequest:
    """What `capscore publish weights` is asked for."""

    weights: Annotated[str, argument("WEIGHTS")]
    org: Org
    name: Name = None
    dry_run: DryRun = False
    private: Private = False
    tag: Tag = None
    overwrite_card: OverwriteCard = False
    delete_stale: DeleteStale = False


def run_publish_weights(request: PublishWeightsRequest) -> PublishedPlan:
    """Check, and publish unless it is a dry run."""
    from ..files.installed_weights import has_weights, offered_weights, weights_folder
    from ..hub.plan import MODEL
    from ..hub.weights import plan_weights

    folder = Path(request.weights).expanduser()
    if not folder.is_dir():
        if not has_weights(request.weights):
            raise UsageError(
                f"{visible(request.weights)} is no folder and none of the installed weights: "
                f"{', '.join(offered_weights()) or 'there are none'}"
            )
        folder = weights_folder(request.weights)
    with bad_input_as_usage():
        ready = plan_weights(folder)
    return _publish(request, _place(request, ready.name, MODEL), ready)


# ---- data sets ----


@dataclass(frozen=True)
class PublishDatasetRequest:
    """What `capscore publish dataset` is asked for."""

    benchmark: Annotated[str, argument("BENCHMARK")]
    org: Org
    data_dir: DataDir = None
    config: Annotated[
        list[str] | None, option("Configuration; repeatable. Default: all.", "--config", "-c")
    ] = None
    name: Name = None
    dry_run: DryRun = False
    private: Private = False
    tag: Tag = None
    overwrite_card: OverwriteCard = False
    delete_stale: DeleteStale = False


def run_publish_dataset(request: PublishDatasetRequest) -> PublishedPlan:
    """Write the Parquet files, and publish them unless it is a dry run."""
    from datasets import disable_progress_bars

    from ..benchmarks.data.load import builder_class
    from ..hub.benchmarks import plan_benchmark
    from ..hub.plan import DATASET

    with as_usage():
        builder_class(request.benchmark)
    repo_id = _place(request, request.benchmark, DATASET)
    disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        with bad_input_as_usage():
            ready = plan_benchmark(
                request.benchmark, repo_id, Path(folder), request.config, data_dir=request.data_dir, say=say
            )
        return _publish(request, repo_id, ready)


# ---- the terminal ----


def show_published(request: Any, done: PublishedPlan) -> None:
    """Print the files, and what was done or would be."""
    console = make_console()
    show_plan(console, done.ready)
    if done.pushed is None:
        lines = what_would_be_done(
            done.ready, done.repo_id, private=request.private, tag=request.tag, card=request.overwrite_card
        )
    else:
        lines = what_was_done(done.pushed, done.ready, request.tag)
    for line in lines:
        print_line(console, line)


def show_plan(console: Any, ready: Plan) -> None:
    """Print the files with their sizes, those that are left out, and notes."""
    table = make_table("file", numbers=("size",))
    table.add_column("", overflow="fold")
    for file in ready.files:
        table.add_row(file.name, readable_size(file.size), "")
    for file, reason in ready.left_out:
        table.add_row(file.name, readable_size(file.size), f"not sent: {reason}", style="dim")
    console.print(table)
    for note in ready.notes:
        say(f"note: {note}")


def what_would_be_done(
    ready: Plan,
    repo_id: str,
    *,
    private: bool,
    tag: str | None,
    card: bool,
    revision: str | None = None,
    create_pr: bool = False,
) -> list[str]:
    """Lines about a dry run; `card` is whether an edited card would be replaced."""
    where = "a pull request to main" if create_pr else f"the branch {revision or 'main'}"
    return [
        f"dry run: {len(ready.files)} files, {readable_size(ready.size)}, would go to {repo_id}, {where}, in "
        "one commit",
        f"a new repository would be {'private' if private else 'public'}; an edited card would be "
        f"{'replaced' if card else 'kept'}",
        *([f"the commit would be tagged {tag}"] if tag else []),
    ]


def what_was_done(pushed: Pushed, ready: Plan, tag: str | None) -> list[str]:
    """Lines about a push."""
    lines = []
    if not pushed.changed:
        lines.append(f"{pushed.repo_id} already has all files; no commit was made")
    elif pushed.pull_request:
        lines.append(f"opened {pushed.url}")
    else:
        made = "created and filled" if pushed.created else "pushed to"
        lines.append(f"{made} {pushed.repo_id}: {pushed.url}")
    if pushed.deleted:
        lines.append(f"deleted on the Hub: {', '.join(pushed.deleted)}")
    if pushed.kept_card:
        lines.append("the card on the Hub was kept, as somebody edited it; --overwrite-card replaces it")
    if tag:
        lines.append(f"tagged {tag}")
    lines.append(f"load it: {ready.loading(f'{pushed.repo_id}@{pushed.commit}')}")
    return lines


def _add(name: str, help: str, request: type[Any], run: Callable[..., Any]) -> None:
    publish_app.command(name, cls=PlainCommand, help=help)(make_command(request, run, show_published))


_add("metric", _METRIC_HELP, PublishMetricRequest, run_publish_metric)
_add("weights", _WEIGHTS_HELP, PublishWeightsRequest, run_publish_weights)
_add("dataset", _DATASET_HELP, PublishDatasetRequest, run_publish_dataset)
