"""What is to be published: files with their names in a repository, checked before anything is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CapscoreError, InputError, Setting
from ..files.sizes import readable_size

CARD = "README.md"
RECORD = ".capscore-published"
"""File on the Hub with the card's hash, by which a card that somebody edited is recognised."""
MODEL, SPACE, DATASET = "model", "space", "dataset"
METRIC, BENCHMARK = "metric", "benchmark"
# huggingface.co/docs/hub/storage-limits: per file, and the advised number of files per commit
MAX_BYTES = 50 * 10**9
MAX_FILES = 100


@dataclass(frozen=True)
class PublishedFile:
    """A file to send.

    Attributes:
        name: Its name in the repository, with "/".
        path: The file; for one that is made for the repository, what it is made from.
        size: Size in bytes.
        content: Bytes of a file that is made for the repository; None for one that is sent as it is.
    """

    name: str
    path: Path
    size: int
    content: bytes | None = None

    @classmethod
    def of(cls, path: Path, name: str = "", text: str | None = None) -> PublishedFile:
        """A file as it is, or with another text."""
        content = None if text is None else text.encode("utf-8")
        size = path.stat().st_size if content is None else len(content)
        return cls(name or path.name, path, size, content)

    def read(self) -> bytes:
        """What is sent."""
        return self.path.read_bytes() if self.content is None else self.content


@dataclass(frozen=True)
class Plan:
    """What would be published.

    Attributes:
        folder: Folder that it comes from.
        kind: What it is: `METRIC`, `BENCHMARK`, or a kind of weights as `capscore.hub.weights` names it.
        files: Files to send, the card among them.
        left_out: Files to leave out, with the reason.
        notes: Remarks for whoever publishes.
        repo_type: "model", "space" or "dataset".
        name: Default name on the Hub, without the organisation.
        how: The line that loads it; "{place}" stands for "org/name@commit", "{repo}" and "{commit}" for its
            parts.
        backbone: Backbone that a network was trained on; "" for everything else.

    Raises:
        CapscoreError: a file is too large for the Hub, or there are too many for one commit.
    """

    folder: Path
    kind: str
    files: tuple[PublishedFile, ...]
    left_out: tuple[tuple[PublishedFile, str], ...] = ()
    notes: tuple[str, ...] = ()
    repo_type: str = MODEL
    name: str = ""
    how: str = "capscore.load(…, backbone='{place}')"
    backbone: str = ""

    def __post_init__(self) -> None:
        for file in self.files:
            if file.size > MAX_BYTES:
                sizes = f"{readable_size(file.size)}; the Hub takes {readable_size(MAX_BYTES)} per file"
                raise CapscoreError(f"{file.path} has {sizes}")
        if len(self.files) > MAX_FILES:
            raise CapscoreError(
                f"{len(self.files)} files are too many for one commit (at most {MAX_FILES}): include fewer"
            )

    @property
    def size(self) -> int:
        """Number of bytes to send."""
        return sum(file.size for file in self.files)

    @property
    def card(self) -> bytes:
        """Content of the card."""
        return next(file for file in self.files if file.name == CARD).read()

    def loading(self, place: str) -> str:
        """The call that loads it from a place on the Hub, "org/name@commit"."""
        repo, _, commit = place.partition("@")
        return self.how.format(place=place, repo=repo, commit=commit)


def read_card(text: str, path: Path) -> dict[str, Any]:
    """Front matter of a card.

    Raises:
        CapscoreError: it cannot be read; names the file.
    """
    from huggingface_hub import RepoCard
    from yaml import YAMLError

    try:
        return RepoCard(text, ignore_metadata_errors=False).data.to_dict()
    except (ValueError, TypeError, YAMLError) as error:
        raise CapscoreError(f"the front matter of {path} cannot be read: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """An error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


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
    if revision is not None and (not revision.strip() or re.fullmatch(r"[0-9a-f]{40}", revision)):
        raise InputError(Setting("revision", revision), ": expected a branch; a commit cannot be added to")
    for option, value in (("revision", revision), ("tag", tag)):
        if create_pr and value is not None:
            why = ": a pull request goes to main, and is tagged once it is merged; give only one of them"
            raise InputError(Setting("create_pr"), " and ", Setting(option), why)
    if tag is not None and not tag.strip():
        raise InputError(Setting("tag"), " is empty")
    # evaluate looks for the tag v<its own version> before it looks at main
    if tag is not None and repo_type == SPACE and re.fullmatch(r"v\d+(\.\d+)*", tag):
        raise InputError(
            Setting("tag", tag),
            f": evaluate would take it for a version of itself; expected capscore-{tag[1:]}",
        )
