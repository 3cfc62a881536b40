"""What is to be published: files with their names in a repository, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CapscoreError, InputError, Setting
from ..files.sizes import readable_size

if TYPE_CHECKING:
    from huggingface_hub import RepoCard

CARD = "README.md"
# Beside what is published: what the card was, so that one that somebody edited is told from ours.
RECORD = ".capscore-published"
MODEL, SPACE, DATASET = "model", "space", "dataset"
METRIC, BENCHMARK = "metric", "benchmark"
# Limits of the Hub: 50 GB per file, and the advised number of files per commit
# (huggingface.co/docs/hub/storage-limits).
MAX_BYTES = 50 * 10**9
MAX_FILES = 100


@dataclass(frozen=True)
class PublishedFile:
    """A file to send.

    Attributes:
        name: Its name in the repository, with "/".
        path: Where it lies; for a file that is made for the repository, what it is made from.
        size: Size in bytes.
        content: Bytes of a file that is made for the repository; None for one that is sent as it lies there.
    """

    name: str
    path: Path
    size: int
    content: bytes | None = None

    @property
    def bytes_of(self) -> bytes:
        """What is sent."""
        return self.path.read_bytes() if self.content is None else self.content


def made(name: str, text: str, of: Path) -> PublishedFile:
    """A file that is made for the repository."""
    content = text.encode("utf-8")
    return PublishedFile(name, of, len(content), content)


@dataclass(frozen=True)
class Plan:
    """What would be published.

    Attributes:
        folder: Folder that it comes from.
        kind: What it is: `METRIC`, `BENCHMARK`, or a kind of weights as `capscore.hub.weights` names it.
        files: Files to send, by name.
        left_out: Files to leave out, with the reason.
        notes: Remarks for whoever publishes.
        backbone: Backbone that a network was trained on; "" for everything else.
        repo_type: "model", "space" or "dataset".
        name: What it is called by default on the Hub, without the organisation.
        how: The line that loads it; "{place}" stands for "org/name@commit", "{repo}" and "{commit}" for
            its parts.
    """

    folder: Path
    kind: str
    files: tuple[PublishedFile, ...]
    left_out: tuple[tuple[PublishedFile, str], ...]
    notes: tuple[str, ...] = ()
    backbone: str = ""
    repo_type: str = MODEL
    name: str = ""
    how: str = "capscore.load(…, backbone='{place}')"

    @property
    def size(self) -> int:
        """Number of bytes to send."""
        return sum(file.size for file in self.files)

    @property
    def card(self) -> PublishedFile:
        return next(file for file in self.files if file.name == CARD)

    def loading(self, place: str) -> str:
        """The call that loads it from a place on the Hub, "org/name@commit"."""
        repo, _, commit = place.partition("@")
        return self.how.format(place=place, repo=repo, commit=commit)


def check_size(files: Sequence[PublishedFile]) -> None:
    """Check that files are within the limits of the Hub.

    Raises:
        CapscoreError: a file is too large, or there are too many for one commit.
    """
    for file in files:
        if file.size > MAX_BYTES:
            raise CapscoreError(
                f"{file.path} has {readable_size(file.size)}; the Hub takes {readable_size(MAX_BYTES)} per "
                "file"
            )
    if len(files) > MAX_FILES:
        raise CapscoreError(
            f"{len(files)} files are too many for one commit (at most {MAX_FILES}): include fewer"
        )


def read_card(text: str, kind: type[RepoCard], path: Path) -> dict[str, object]:
    """Front matter of a card.

    Raises:
        CapscoreError: it cannot be read; names the file.
    """
    from yaml import YAMLError

    try:
        return kind(text).data.to_dict()
    except (ValueError, TypeError, YAMLError) as error:
        raise CapscoreError(f"the front matter of {path} cannot be read: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """An error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


_COMMIT = re.compile(r"[0-9a-f]{40}")


def check_options(
    repo_id: str,
    *,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    repo_type: str = MODEL,
) -> None:
    """Check the options of a push as far as possible without the Hub.

    Raises:
        InputError: an option is nothing that the Hub takes, or excludes another.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(Setting("repo_id", repo_id), f" is not a Hub id: {one_line(error)}") from None
    if "/" not in repo_id:
        raise InputError(Setting("repo_id", repo_id), ": expected org/name (or your user name, /name)")
    if revision is not None and (not revision.strip() or _COMMIT.fullmatch(revision)):
        raise InputError(Setting("revision", revision), ": expected a branch; a commit cannot be added to")
    if create_pr and revision is not None:
        raise InputError(
            Setting("create_pr"),
            " and ",
            Setting("revision"),
            ": a pull request always goes to main; give only one of them",
        )
    if create_pr and tag is not None:
        raise InputError(
            Setting("create_pr"),
            " and ",
            Setting("tag"),
            ": a commit is tagged once it is merged; give only one of them",
        )
    if tag is not None and not tag.strip():
        raise InputError(Setting("tag"), " is empty")
    # evaluate looks for the tag v<its own version> before it looks at main
    if tag is not None and repo_type == SPACE and re.fullmatch(r"v\d+(\.\d+)*", tag):
        raise InputError(
            Setting("tag", tag),
            f": evaluate would take it for a version of itself; expected capscore-{tag[1:]}",
        )
