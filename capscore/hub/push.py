"""Files of a repository → one commit on the Hub. A failure leaves no half commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..backbones.checkpoint import in_one_line, offline_variable
from ..errors import CapscoreError, InputError, Setting

CARD = "README.md"


@dataclass(frozen=True)
class Plan:
    """Files of a repository, before anything is sent.

    Attributes:
        repo_type: "model", "space" or "dataset".
        files: Name in the repository, with "/" → path of the file, or its content. The card is among them.
        loads: Call that loads it; "{repo}" and "{commit}" stand for its place on the Hub.
        reads: Function that picks, among the names of a repository's files, those that loading reads.
        name: Default name on the Hub, without the organisation.
        left_out: Files of the folder that are not sent.
        notes: Remarks for whoever publishes.
    """

    repo_type: str
    files: Mapping[str, Path | bytes]
    loads: str
    reads: Callable[[Sequence[str]], Sequence[str]]
    name: str
    left_out: Mapping[str, Path] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def card(self) -> bytes:
        """Content of the card."""
        card = self.files[CARD]
        return card.read_bytes() if isinstance(card, Path) else card


@dataclass(frozen=True)
class Pushed:
    """Outcome of a push.

    Attributes:
        commit: Commit that holds the files.
        url: Address of the commit, or of the pull request.
        created: Whether the repository is new.
        changed: False if the Hub already had all files, so that there is no new commit.
        kept_card: Whether another card on the Hub was kept.
        deleted: Files that were deleted from the Hub in the same commit.
    """

    commit: str
    url: str
    created: bool
    changed: bool
    kept_card: bool
    deleted: Sequence[str]


def push(
    plan: Plan,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    overwrite_card: bool = False,
    delete_stale: bool = False,
) -> Pushed:
    """Push the planned files in one commit.

    Args:
        plan: Result of `plan_weights`, `plan_metric` or `plan_benchmark`.
        repo_id: "org/name" on the Hub; created if needed.
        private: Whether a new repository is private. A public repository is an error.
        revision: Branch, created from `main` if needed; None for `main`.
        create_pr: Whether to open a pull request instead of committing.
        tag: Tag of the new commit, such as "v1".
        overwrite_card: Whether to replace another card on the Hub; else it is kept.
        delete_stale: Whether to delete, in the same commit, files on the Hub that loading would read and that
            the plan lacks; else they are an error.

    Raises:
        InputError: `repo_id` is not a Hub id.
        CapscoreError: the Hub is not available or refuses; says why, and what is on the Hub now.
    """
    check_repo_id(repo_id)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, RepoCard, constants

    api, kind = HfApi(endpoint=constants.ENDPOINT, library_name="capscore"), plan.repo_type
    branch = revision or constants.DEFAULT_REVISION
    with _errors_of_the_hub("nothing was sent"):
        api.whoami()  # without a token, says how to log in
        RepoCard(plan.card().decode("utf-8")).validate(repo_type=kind)
        created = not api.repo_exists(repo_id, repo_type=kind)
        if created:
            sdk = "gradio" if kind == "space" else None
            api.create_repo(repo_id, repo_type=kind, private=private or None, space_sdk=sdk)
        elif private and not api.repo_info(repo_id, repo_type=kind).private:
            raise CapscoreError(f"--private: {repo_id} exists and is public; nothing was sent")
        if tag in {ref.name for ref in api.list_repo_refs(repo_id, repo_type=kind).tags}:
            raise CapscoreError(f"{repo_id} has a tag {tag!r} already; nothing was sent")
        if revision:
            api.create_branch(repo_id, repo_type=kind, branch=revision, exist_ok=True)
        info: Any = api.repo_info(repo_id, repo_type=kind, revision=branch)
        present = {file.rfilename for file in info.siblings or ()}
        kept_card = False
        if CARD in present and not created and not overwrite_card:
            card = api.hf_hub_download(repo_id, CARD, repo_type=kind, revision=info.sha)
            kept_card = Path(card).read_bytes() != plan.card()
        stale = sorted(set(plan.reads(sorted(present | plan.files.keys()))) - plan.files.keys())
        if stale and not delete_stale:
            why = f"{repo_id} has further files that loading would read: {', '.join(stale)}; "
            what = " deletes them in the same commit. Nothing was sent"
            raise CapscoreError(why, Setting("delete_stale", True), what)
        sent = {name: content for name, content in plan.files.items() if not (kept_card and name == CARD)}
        result = api.create_commit(
            repo_id,
            [*map(CommitOperationDelete, stale), *(CommitOperationAdd(*item) for item in sent.items())],
            repo_type=kind,
            commit_message=f"Upload {plan.name} with capscore",
            revision=branch,
            create_pr=create_pr,
            parent_commit=info.sha,
        )
    if tag is not None:
        with _errors_of_the_hub(f"the commit {result.oid} is there, without a tag"):
            api.create_tag(repo_id, repo_type=kind, tag=tag, revision=result.oid)
    url = result.pr_url or result.commit_url
    return Pushed(result.oid, url, created, result.oid != info.sha, kept_card, stale)


@contextmanager
def _errors_of_the_hub(state: str) -> Iterator[None]:
    """Turn any error of the Hub into one that also says what is on the Hub now."""
    from huggingface_hub import constants

    variable = offline_variable()
    if variable is not None:
        raise CapscoreError(f"{variable} is set, so nothing was sent; --dry-run needs no network")
    try:
        yield
    except CapscoreError:
        raise
    except Exception as error:  # the upload, xet and the HTTP library raise their own kinds
        # an upload wraps the errors of its threads
        cause = f": {in_one_line(error.__cause__)}" if type(error) is RuntimeError and error.__cause__ else ""
        why = f"{type(error).__name__}: {in_one_line(error)}{cause}"
        raise CapscoreError(f"the Hub ({constants.ENDPOINT}) refuses or fails: {why}; {state}") from error


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
        raise CapscoreError(f"the front matter of {path} cannot be read: {in_one_line(error)}") from None


def check_repo_id(repo_id: str) -> None:
    """Raise InputError if a text is not a Hub id, "org/name"."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(Setting("repo_id", repo_id), f" is not a Hub id: {in_one_line(error)}") from None
    if "/" not in repo_id:
        raise InputError(Setting("repo_id", repo_id), ": expected org/name (or your user name, /name)")
