"""Push a trained text tower, eye or network of InfoMetIC to the Hub, where `capscore.load` finds it.

    python -m training.push FOLDER ORG/NAME --dry-run
    python -m training.push FOLDER ORG/NAME

In: the folder that a recipe wrote, with its card. Out: one commit on the Hub with the files that loading
reads, the card and the licence. Everything is checked first, and a failure leaves no half commit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from capscore.cli.publish import publish
from capscore.cli.terminal import as_command
from capscore.hub.plan import check_options
from capscore.hub.weights import plan_weights

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command(
    help="Put a fine-tuned text tower, an eye, or a network of InfoMetIC, on the Hub, in one commit."
)
@as_command
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
) -> None:
    check_options(repo_id, revision=revision, create_pr=create_pr, tag=tag)
    options = {
        "private": private,
        "revision": revision,
        "message": message,
        "create_pr": create_pr,
        "tag": tag,
        "overwrite_card": overwrite_card,
        "delete_stale": delete_stale,
    }
    publish(plan_weights(folder, include or ()), repo_id, options, dry_run=dry_run)


def main() -> None:
    """The command; see the top of this file."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without é shows another sign
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
