"""Push a trained text tower, eye or network of InfoMetIC to the Hub, where `capscore.load` finds it.

    python -m training.push FOLDER ORG/NAME --dry-run
    python -m training.push FOLDER ORG/NAME

In: the folder that a recipe wrote, with its card. Out: one commit on the Hub with the files that loading
reads, the card and the licence. Everything is checked first, and a failure leaves no half commit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from capscore.cli.options import Debug
from capscore.cli.terminal import DEBUG, command, make_table, print_line, say
from capscore.files.console import make_console
from capscore.files.sizes import readable_size
from training.engine.hub_push import Pushed, check_options, push
from training.engine.push_plan import Plan, plan

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command(
    help="Put a fine-tuned text tower, an eye, or a network of InfoMetIC, on the Hub, in one commit."
)
@command
def main_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a recipe: weights, config, card.")],
    repo_id: Annotated[str, typer.Argument(metavar="ORG/NAME", help="On the Hub; created if needed.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and list only, without network or token.")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Make the new repository private.")] = False,
    revision: Annotated[
        str | None,
        typer.Option(help="Branch, created if needed. Default: main.", show_default=False),
    ] = None,
    message: Annotated[str | None, typer.Option(help="Message of the commit.", show_default=False)] = None,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request instead of committing.")
    ] = False,
    tag: Annotated[str | None, typer.Option(help="Tag the commit, such as v1.", show_default=False)] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of further files, such as log.jsonl. Repeatable."),
    ] = None,
    overwrite_card: Annotated[
        bool, typer.Option("--overwrite-card", help="Replace the card on the Hub.")
    ] = False,
    delete_stale: Annotated[
        bool,
        typer.Option("--delete-stale", help="Delete files that loading reads and FOLDER lacks."),
    ] = False,
    debug: Debug = False,
) -> None:
    DEBUG.set(debug)
    check_options(repo_id, revision=revision, create_pr=create_pr, tag=tag)
    ready = plan(folder, include or ())
    console = make_console()
    _show(console, ready)
    for note in ready.notes:
        say(f"note: {note}")
    if dry_run:
        for line in _would(ready, repo_id, revision, private, create_pr, tag, overwrite_card):
            print_line(console, line)
        return
    pushed = push(
        ready,
        repo_id,
        private=private,
        revision=revision,
        message=message,
        create_pr=create_pr,
        tag=tag,
        overwrite_card=overwrite_card,
        delete_stale=delete_stale,
    )
    for line in _did(pushed, ready, tag):
        print_line(console, line)


def _show(console: Any, ready: Plan) -> None:
    table = make_table("file", numbers=("size",))
    table.add_column("", overflow="fold")
    for file in ready.files:
        table.add_row(file.name, readable_size(file.size), "")
    for file, reason in ready.left_out:
        table.add_row(file.name, readable_size(file.size), f"not sent: {reason}", style="dim")
    console.print(table)


def _would(
    ready: Plan,
    repo_id: str,
    revision: str | None,
    private: bool,
    create_pr: bool,
    tag: str | None,
    overwrite_card: bool,
) -> list[str]:
    where = "a pull request to main" if create_pr else f"the branch {revision or 'main'}"
    card = "would be replaced" if overwrite_card else "would be kept"
    return [
        f"dry run: {len(ready.files)} files, {readable_size(ready.size)}, would go to {repo_id}, {where}, in "
        "one commit",
        f"a new repository would be {'private' if private else 'public'}; an existing card {card}",
        *([f"the commit would be tagged {tag}"] if tag else []),
    ]


def _did(pushed: Pushed, ready: Plan, tag: str | None) -> list[str]:
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
        lines.append("the card on the Hub was kept; --overwrite-card replaces it")
    if tag:
        lines.append(f"tagged {tag}")
    lines.append(f"load it: {ready.loading(f'{pushed.repo_id}@{pushed.commit}')}")
    return lines


def main() -> None:
    """The command; see the top of this file."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without é shows another sign
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
