"""Files of a repository → one commit on the Hub. A failure leaves no half commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..backbones.checkpoint import offline_variable
from ..errors import CapscoreError, InputError, Setting, message_of

if TYPE_CHECKING:
    from huggingface_hub import RepoCard

CARD = "README.md"


@dataclass(frozen=True)
class Plan:
    """Files of a repository, before anything is sent.

    Attributes:
        loads: Call that loads it; "{repo}" and "{commit}" stand for its place on the Hub.
        reads: Function that picks, among the names of a repository's files, those that loading reads.
    """

    repo_type: str
    files: Mapping[str, Path | bytes]
    loads: str
    reads: Callable[[Sequence[str]], Sequence[str]]
    name: str
    notes: Sequence[str] = ()

    def sizes(self) -> dict[str, int]:
        sizes = {}
        for name, content in self.files.items():
            sizes[name] = content.stat().st_size if isinstance(content, Path) else len(content)
        return sizes

    def card(self) -> bytes:
        card = self.files[CARD]
        return card.read_bytes() if isinstance(card, Path) else card


@dataclass(frozen=True)
class Pushed:
    """Outcome of a push."""

    commit: str
    url: str
    created: bool
    changed: bool
    kept_card: bool


def push(plan: Plan, repo_id: str, *, overwrite_card: bool = False) -> Pushed:
    """Push the planned files in one commit.

    `HfApi.upload_folder` may split a folder into several commits; this sends one, or nothing.

    Raises:
        InputError: `repo_id` is not a Hub id.
        CapscoreError: the Hub is not available or refuses, or has further files that loading would read; says
            why.
    """
    check_repo_id(repo_id)
    from huggingface_hub import CommitOperationAdd, HfApi, RepoCard, constants

    api, kind = HfApi(endpoint=constants.ENDPOINT, library_name="capscore"), plan.repo_type
    card, sent = plan.card(), dict(plan.files)
    made: list[str] = []
    with _errors_of_the_hub(made):
        api.whoami()  # without a token, says how to log in
        RepoCard(card.decode("utf-8")).validate(repo_type=kind)
        created = not api.repo_exists(repo_id, repo_type=kind)
        if created:
            sdk = "gradio" if kind == "space" else None
            api.create_repo(repo_id, repo_type=kind, space_sdk=sdk)
            made.append(repo_id)
        head = api.repo_info(repo_id, repo_type=kind).sha
        present = set(api.list_repo_files(repo_id, repo_type=kind, revision=head))
        stale = set(plan.reads(sorted(present | sent.keys()))) - sent.keys()
        if stale:
            raise CapscoreError(
                f"{repo_id} has further files that loading would read: {', '.join(sorted(stale))}; delete "
                "them there, or choose another name; nothing was sent"
            )
        if CARD in present and not created and not overwrite_card:
            theirs = api.hf_hub_download(repo_id, CARD, repo_type=kind, revision=head)
            if Path(theirs).read_bytes() != card:
                del sent[CARD]
        result = api.create_commit(
            repo_id,
            [CommitOperationAdd(*item) for item in sent.items()],
            repo_type=kind,
            commit_message=f"Upload {plan.name} with capscore",
            parent_commit=head,
        )
    return Pushed(result.oid, result.commit_url, created, result.oid != head, CARD not in sent)


@contextmanager
def _errors_of_the_hub(made: Sequence[str]) -> Iterator[None]:
    """Turn any error of the Hub into one line; it names a repository that was `made` and stays empty."""
    from huggingface_hub import constants

    variable = offline_variable()
    if variable is not None:
        raise CapscoreError(f"{variable} is set, so nothing was sent; --dry-run needs no network")
    try:
        yield
    except CapscoreError:
        raise
    except Exception as error:  # the upload, xet and the HTTP library raise their own kinds
        why = f"{type(error).__name__}: {message_of(error)}"
        if type(error) is RuntimeError and error.__cause__:  # an upload wraps the errors of its threads
            why += f": {message_of(error.__cause__)}"
        left = "".join(f", and {name}, which was created for it, is empty" for name in made)
        raise CapscoreError(
            f"the Hub ({constants.ENDPOINT}) failed: {why}; nothing was sent{left}"
        ) from error


def files_in(folder: Path, pattern: str = "**/*") -> dict[str, Path]:
    """Files of a folder: name in a repository → path."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.glob(pattern))}
    return {name: path for name, path in paths.items() if path.is_file()}


def read_card(path: Path) -> RepoCard:
    """The card in a file; CapscoreError: its front matter cannot be read."""
    from huggingface_hub import RepoCard
    from yaml import YAMLError

    try:
        return RepoCard.load(path)
    except (ValueError, TypeError, YAMLError) as error:
        raise CapscoreError(f"the front matter of {path} cannot be read: {message_of(error)}") from None


def check_repo_id(repo_id: str) -> None:
    """Raise InputError if a text is not a Hub id, "org/name"."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(Setting("repo_id", repo_id), f" is not a Hub id: {message_of(error)}") from None
    if "/" not in repo_id:
        raise InputError(Setting("repo_id", repo_id), ": expected org/name (or your user name, /name)")
