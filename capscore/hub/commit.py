"""A plan of files → one commit on the Hub. A failure leaves no half commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, Setting
from .plan import (
    BENCHMARK,
    CARD,
    DATASET,
    METRIC,
    MODEL,
    RECORD,
    SPACE,
    Plan,
    PublishedFile,
    check_options,
    made,
    one_line,
)
from .weights import (
    IMAGE_TOWER,
    KINDS,
    MARK_CALIBRATION,
    NETWORK,
    files_read,
    is_mark_calibration,
    is_network,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_MESSAGES = {
    NETWORK: "InfoMetIC's network for capscore",
    MARK_CALIBRATION: "Mark calibration of InfoMetIC for capscore",
    IMAGE_TOWER: "Image tower for capscore",
    METRIC: "Metric module of capscore",
    BENCHMARK: "Benchmark of capscore",
}
_OTHER_MESSAGE = "Fine-tuned text tower for capscore"
# What a repository of each type is called in its addresses.
_PLACES = {MODEL: "", SPACE: "spaces/", DATASET: "datasets/"}
# Files that loading would read besides ours, if an earlier push left them.
_READ = {SPACE: (".py", ".whl"), DATASET: (".parquet",)}


@dataclass(frozen=True)
class Pushed:
    """Outcome of a push.

    Attributes:
        repo_id: "org/name".
        commit: Commit that holds the files.
        url: Address of the commit, or of the pull request.
        created: Whether the repository is new.
        changed: False if the Hub already had all files, so that there is no new commit.
        kept_card: Whether the card on the Hub was kept.
        deleted: Files that were deleted from the Hub in the same commit.
        pull_request: Whether the files are in a pull request.
    """

    repo_id: str
    commit: str
    url: str
    created: bool
    changed: bool
    kept_card: bool
    deleted: tuple[str, ...]
    pull_request: bool


def push(
    ready: Plan,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    overwrite_card: bool = False,
    delete_stale: bool = False,
) -> Pushed:
    """Push the planned files in one commit.

    Args:
        ready: Result of `plan_weights`, `plan_metric` or `plan_benchmark`.
        repo_id: "org/name" on the Hub; created if needed.
        private: Whether the new repository is private. A public repository is an error.
        revision: Branch, created from `main` if needed; None for `main`.
        message: Message of the commit.
        create_pr: Whether to open a pull request instead of committing to `main`.
        tag: Tag of the new commit, such as "v1".
        overwrite_card: Whether to replace a card on the Hub that somebody edited; else it is kept.
        delete_stale: Whether to delete, in the same commit, files on the Hub that loading would read and that
            the folder lacks; else they are an error.

    Raises:
        InputError: options that exclude each other.
        CapscoreError: the Hub is not available or refuses; says why, and what is on the Hub now.
    """
    kind = ready.repo_type
    check_options(repo_id, revision=revision, create_pr=create_pr, tag=tag, repo_type=kind)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants

    api = HfApi(endpoint=constants.ENDPOINT, library_name="capscore")
    branch = revision or constants.DEFAULT_REVISION
    with _told(repo_id, api.endpoint, "nothing was sent") as place:
        place["user"] = api.whoami()["name"]
        _validate_card(ready)  # asks the Hub what it makes of the front matter
        created = _prepare(api, repo_id, kind, private=private, create_pr=create_pr, place=place)
        is_new = _is_new_branch(api, repo_id, kind, branch, tag)
        start = constants.DEFAULT_REVISION if is_new else branch
        head, there = _contents(api, repo_id, kind, start)
        edited = CARD in there and not created and not _is_our_card(api, ready, repo_id, head, there)
        kept_card = edited and not overwrite_card
        sent = [file for file in ready.files if not (kept_card and file.name == CARD)]
        if not kept_card:
            sent.append(made(RECORD, _record(ready), ready.folder))
        if kind == MODEL:
            _check_kind_there(api, ready, repo_id, head, there)
        stale = _stale(ready, there, {RECORD, *(file.name for file in ready.files)})
        if stale and not delete_stale:
            raise CapscoreError(
                f"{repo_id} has files that loading would read besides those of {ready.folder}: "
                f"{', '.join(stale)}; ",
                Setting("delete_stale", True),
                " deletes them in the same commit. Nothing was sent",
            )
        if is_new:
            api.create_branch(repo_id, repo_type=kind, branch=branch, revision=head)
            place["done"] = f"the branch {branch} was created, and equals main"
        result = api.create_commit(
            repo_id,
            [
                *(CommitOperationDelete(name) for name in stale),
                *(CommitOperationAdd(file.name, file.content or file.path) for file in sent),
            ],
            repo_type=kind,
            commit_message=message or _MESSAGES.get(ready.kind, _OTHER_MESSAGE),
            revision=None if create_pr else branch,
            create_pr=create_pr,
            parent_commit=head,
        )
        place["done"] = f"the commit {result.oid} is there"
        _check_arrived(api, repo_id, kind, result.oid, sent)
        if tag is not None:
            api.create_tag(repo_id, repo_type=kind, tag=tag, revision=result.oid)
    return Pushed(
        repo_id=repo_id,
        commit=result.oid,
        url=result.pr_url or f"{api.endpoint}/{_PLACES[kind]}{repo_id}/tree/{result.oid}",
        created=created,
        changed=result.oid != head,
        kept_card=kept_card,
        deleted=tuple(stale),
        pull_request=result.pr_url is not None,
    )


def _validate_card(ready: Plan) -> None:
    from huggingface_hub import DatasetCard, ModelCard, SpaceCard

    kind = {MODEL: ModelCard, SPACE: SpaceCard, DATASET: DatasetCard}[ready.repo_type]
    kind(ready.card.bytes_of.decode("utf-8")).validate()


def _record(ready: Plan) -> str:
    """What is kept on the Hub about the card, by which a card that somebody edited is known."""
    return json.dumps({"card": hashlib.sha256(ready.card.bytes_of).hexdigest()}, indent=1) + "\n"


def _is_our_card(api: HfApi, ready: Plan, repo_id: str, commit: str, there: set[str]) -> bool:
    """Whether the card on the Hub is the one that a push has put there, or the one that is to be sent."""

    def read(name: str) -> bytes:
        place = api.hf_hub_download(repo_id, name, repo_type=ready.repo_type, revision=commit)
        return Path(place).read_bytes()

    card = read(CARD)
    if card == ready.card.bytes_of:
        return True
    if RECORD not in there:
        return False
    try:
        recorded = json.loads(read(RECORD))["card"]
    except (ValueError, KeyError, TypeError):
        return False
    return recorded == hashlib.sha256(card).hexdigest()


def _prepare(
    api: HfApi, repo_id: str, kind: str, *, private: bool, create_pr: bool, place: dict[str, str]
) -> bool:
    """Create the repository if needed; returns whether it is new."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = api.repo_info(repo_id, repo_type=kind)
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        if create_pr:
            raise CapscoreError(f"there is no {repo_id} yet for a pull request") from None
        sdk = "gradio" if kind == SPACE else None
        api.create_repo(repo_id, repo_type=kind, private=private or None, space_sdk=sdk)
        place["done"] = f"{repo_id} was created and is empty"
        return True
    if private and not info.private:
        raise CapscoreError(
            f"--private: {repo_id} exists and is public. Make it private on its page first; nothing was sent"
        )
    return False


def _contents(api: HfApi, repo_id: str, kind: str, revision: str) -> tuple[str, set[str]]:
    """Commit of a revision, and the names of its files."""
    info: Any = api.repo_info(repo_id, repo_type=kind, revision=revision)
    return info.sha, {sibling.rfilename for sibling in info.siblings or []}


def _is_new_branch(api: HfApi, repo_id: str, kind: str, branch: str, tag: str | None) -> bool:
    """Whether the branch has to be created; neither it nor the tag may be an existing tag."""
    from huggingface_hub import constants

    refs = api.list_repo_refs(repo_id, repo_type=kind)
    tags = {ref.name for ref in refs.tags}
    if tag in tags:
        raise CapscoreError(f"{repo_id} has a tag {tag!r} already; nothing was sent")
    if branch in tags:
        raise CapscoreError(f"--revision {branch}: that is a tag of {repo_id}; expected a branch")
    # refs/pr/3 is not a branch, but accepts commits
    known = {constants.DEFAULT_REVISION, *(ref.name for ref in refs.branches)}
    return not branch.startswith("refs/") and branch not in known


def _check_kind_there(api: HfApi, ready: Plan, repo_id: str, commit: str, there: set[str]) -> None:
    """Refuse to replace weights of one kind by those of another: their files have the same names."""
    from ..backbones.checkpoint import STUDENT_MARKER, TUNED_FILES
    from ..infometic.folders import CONFIG

    if there & {STUDENT_MARKER, TUNED_FILES[0]}:
        is_ours, what = ready.kind in KINDS, "a text tower"
    elif CONFIG in there:
        config = Path(api.hf_hub_download(repo_id, CONFIG, revision=commit))
        if is_network(config):
            is_ours, what = ready.kind == NETWORK, "a network of InfoMetIC"
        elif is_mark_calibration(config):
            is_ours, what = ready.kind == MARK_CALIBRATION, "a mark calibration of InfoMetIC"
        else:
            is_ours, what = ready.kind not in (NETWORK, MARK_CALIBRATION), "another model"
    else:
        return
    if not is_ours:
        raise CapscoreError(f"{repo_id} holds {what}: give another repository. Nothing was sent")


def _stale(ready: Plan, there: set[str], ours: set[str]) -> list[str]:
    """Files on the Hub that loading would read and that are not among ours."""
    if ready.repo_type == MODEL:
        return sorted(set(files_read(ready.kind, sorted(there | ours))) - ours)
    return sorted(name for name in there - ours if name.endswith(_READ[ready.repo_type]))


def _check_arrived(api: HfApi, repo_id: str, kind: str, commit: str, sent: list[PublishedFile]) -> None:
    """Check that all files are on the Hub: a .gitignore there silently drops files from a commit."""
    there = _contents(api, repo_id, kind, commit)[1]
    missing = [file.name for file in sent if file.name not in there]
    if missing:
        raise CapscoreError(
            f"the commit {commit} of {repo_id} lacks {', '.join(missing)}: does a .gitignore there name them?"
        )


@contextmanager
def _told(repo_id: str, endpoint: str, nothing: str) -> Iterator[dict[str, str]]:
    """Turn any error of the Hub into one error that also says what is on the Hub now."""
    from ..backbones.checkpoint import offline_variable

    variable = offline_variable()
    if variable is not None:
        raise CapscoreError(f"{variable} is set, so {nothing}; --dry-run needs no network")
    place = {"done": nothing, "user": ""}
    try:
        yield place
    except CapscoreError:
        raise
    except Exception as error:  # the upload, xet and the HTTP library raise their own kinds
        raise CapscoreError(f"{_reason(error, repo_id, endpoint, place['user'])}; {place['done']}") from error


def _reason(error: Exception, repo_id: str, endpoint: str, user: str) -> str:
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalTokenNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, LocalTokenNotFoundError):
        return "the Hub needs a token to know who pushes: `hf auth login`, or set HF_TOKEN"
    # An upload wraps the errors of its threads.
    status = next(filter(None, map(_status, _chain(error))), None)
    if not user and status == 401:
        return "the Hub does not accept the token: `hf auth login`, or set HF_TOKEN to one that may write"
    if isinstance(error, GatedRepoError):
        return f"{repo_id} is gated: accept its terms on its page first"
    if isinstance(error, RevisionNotFoundError):
        return f"{repo_id} has no such revision"
    if status == 403:
        return f"{user} may not write to {repo_id}, or the token may not write (try --create-pr)"
    if isinstance(error, RepositoryNotFoundError):
        return f"the Hub shows {user or 'this token'} no {repo_id}"
    if status == 409:
        return f"{repo_id} exists already, or is being created: {_first_line(error)}"
    if status == 412:
        return f"somebody else committed to {repo_id} in the meantime; look at it, and push again"
    if status is not None and not str(error).startswith("Invalid metadata"):
        return f"the Hub ({endpoint}) answered with status {status}: {_first_line(error)}"
    if isinstance(error, ValueError):
        return f"the Hub refuses it: {one_line(error)}"
    return f"the Hub ({endpoint}) could not be used ({type(error).__name__}: {one_line(error)})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no detail"
