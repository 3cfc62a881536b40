"""A Hub on this machine: the part of its HTTP interface that downloading and pushing need.

Models are known as "org/name", Spaces as "spaces/org/name", and data sets as "datasets/org/name". A push goes
the way without xet (HF_HUB_DISABLE_XET=1): repository, upload modes, LFS objects, and one commit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from huggingface_hub import constants


class LoopbackHub:
    """Repositories by id; each has commits by name ("main" among them), a commit is a folder of files.

    Args:
        root: where commits that are pushed are kept; None for a Hub that is only read.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root
        self.repos: dict[str, dict[str, Path]] = {}
        self.users: dict[str, str] = {}  # token → the user, who may write to what begins with "user/"
        self.private: set[str] = set()
        self.gated: set[str] = set()
        self.broken = False  # every answer is 503
        self.refused: dict[str, int] = {}  # step of a push ("lfs", "commit", …) → status of its answer
        self.served: list[str] = []  # "org/name/file" for every file sent
        self.steps: list[str] = []  # what was written, in order: "create", "lfs", "commit", …
        self.messages: list[str] = []  # of the commits that were pushed
        self.url = ""
        self._objects: dict[str, bytes] = {}  # LFS objects by their sha256
        self._lock = threading.Lock()

    def add(self, repo: str, folder: Path, *, tag: str = "main") -> str:
        """Put a folder there; returns its commit."""
        commit = hashlib.sha1(f"{repo} {tag} {folder}".encode()).hexdigest()
        revisions = self.repos.setdefault(repo, {})
        revisions[tag] = revisions[commit] = folder
        return commit

    def commit_of(self, repo: str, revision: str) -> str | None:
        folder = self.repos[repo].get(revision)
        commits = (name for name, place in self.repos[repo].items() if place == folder and len(name) == 40)
        return next(commits, None) if folder is not None else None

    def files_of(self, repo: str, revision: str = "main") -> dict[str, bytes]:
        """What a revision holds, by name."""
        return {name: path.read_bytes() for name, path in _files(self.repos[repo][revision]).items()}

    @contextmanager
    def running(self) -> Iterator[LoopbackHub]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    # What a push does, step by step; each returns the answer's status and content

    def create(self, user: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        owner = asked.get("organization") or user
        kind = asked.get("type") or "model"
        repo = f"{PREFIX[kind]}{owner}/{asked['name']}"
        answer = {"url": f"{self.url}/{repo}"}
        if owner != user:
            return 403, {"error": "You don't have the rights to create a model under this namespace"}
        if repo in self.repos:
            return 409, {**answer, "error": "You already created this model repo"}
        first = self._new_folder(repo)
        (first / ".gitattributes").write_text("*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
        if kind == "space":  # as the Hub does
            (first / "README.md").write_text(f"---\ntitle: {asked['name']}\nsdk: {asked['sdk']}\n---\n")
        self.add(repo, first)
        if asked.get("visibility") == "private" or asked.get("private"):
            self.private.add(repo)
        return 200, answer

    def preupload(self, repo: str, revision: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        folder = self.repos[repo].get(revision)
        if folder is None:
            return 404, {"code": "RevisionNotFound"}
        files = []
        for file in asked["files"]:
            name, path = file["path"], folder / file["path"]
            lfs = name.endswith((".safetensors", ".parquet", ".whl"))
            oid = _oid(path.read_bytes(), lfs) if path.is_file() else None
            mode = "lfs" if lfs else "regular"
            files.append({"path": name, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return 200, {"files": files}

    def lfs_batch(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        objects = []
        for wanted in asked["objects"]:
            actions = {"upload": {"href": f"{self.url}/lfs/{wanted['oid']}"}}
            here = wanted["oid"] in self._objects
            objects.append({**wanted, **({} if here else {"actions": actions})})
        return 200, {"transfer": "basic", "objects": objects}

    def lfs_put(self, oid: str, content: bytes) -> tuple[int, dict[str, Any]]:
        if hashlib.sha256(content).hexdigest() != oid:
            return 400, {"error": "checksum"}
        self._objects[oid] = content
        return 200, {}

    def commit(self, repo: str, revision: str, lines: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        header = next(line["value"] for line in lines if line["key"] == "header")
        head = self.commit_of(repo, revision)
        if head is None:
            return 404, {"code": "RevisionNotFound"}
        if header.get("parentCommit", head) != head:
            return 412, {"error": "A commit has happened since. Please refresh and try again."}
        folder = self._new_folder(repo)
        shutil.copytree(self.repos[repo][revision], folder, dirs_exist_ok=True)
        for line in lines:
            key, value = line["key"], line["value"]
            if key == "header":
                continue
            path = folder / value["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            if key == "file":
                path.write_bytes(base64.b64decode(value["content"]))
            elif key == "lfsFile" and value["oid"] in self._objects:
                path.write_bytes(self._objects[value["oid"]])
            else:
                return 400, {"error": f"{key} {value['path']}: no such object"}
        made = self.add(repo, folder, tag=revision)
        self.messages.append(header["summary"])
        return 200, {"success": True, "commitOid": made, "commitUrl": f"{self.url}/{repo}/commit/{made}"}

    def _new_folder(self, repo: str) -> Path:
        assert self.root is not None, "this Hub is only read"
        folder = self.root / repo / str(len(self.repos.get(repo, ())))
        folder.mkdir(parents=True)
        return folder


def allow_network(monkeypatch: Any, cache: Path) -> None:
    """The network allowed, with an empty cache, whatever variables the tests were started with."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))


@contextmanager
def taken_for_the_hub(hub: LoopbackHub, monkeypatch: Any) -> Iterator[LoopbackHub]:
    """A Hub that runs, and that huggingface_hub in this process takes for its own."""
    with hub.running():
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        yield hub


@contextmanager
def logged_in(root: Path, monkeypatch: Any) -> Iterator[LoopbackHub]:
    """A Hub of this process to push to; the user is logged in as "jo"."""
    allow_network(monkeypatch, root / "cache")
    monkeypatch.setenv("HF_TOKEN", "hf_jo")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(root / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with taken_for_the_hub(LoopbackHub(root / "hub"), monkeypatch) as hub:
        hub.users = {"hf_jo": "jo", "hf_ann": "ann"}
        yield hub


def clean_environment(hub: LoopbackHub, home: Path) -> dict[str, str]:
    """The environment of a process with an empty cache that reaches the Hub without a token."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.endswith("_OFFLINE") and key not in ("HF_TOKEN", "CAPSCORE_BACKBONE")
    }
    return kept | {
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }


def _handler(hub: LoopbackHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            if hub.broken:
                return self.refuse(503, "")
            parts = self.parts()
            if parts == ["api", "whoami-v2"]:
                user = self.user()
                return self.send_json({"name": user, "type": "user"}) if user else self.refuse(401, "")
            if parts[0] == "api" and parts[1] in KINDS:
                repo, rest = KINDS[parts[1]] + "/".join(parts[2:4]), parts[4:]
            elif parts[0] in ("spaces", "datasets"):
                repo, rest = "/".join(parts[:3]), parts[3:]
            else:
                repo, rest = "/".join(parts[:2]), parts[2:]
            commit = self.commit_of(repo, rest[1] if len(rest) > 1 else "main")
            if commit is None:
                return
            folder = hub.repos[repo][commit]
            if parts[0] != "api":
                return self.send_file(repo, commit, folder, "/".join(rest[2:]))
            files = _files(folder)
            if rest[:1] == ["tree"]:
                return self.send_json(_listed(files))
            info = {"id": repo, "modelId": repo, "sha": commit, "tags": [], "private": repo in hub.private}
            info["siblings"] = [{"rfilename": name} for name in files]
            return self.send_json(info)

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = self.read()
            parts = self.parts()
            if hub.broken:
                return self.refuse(503, "")
            if parts[0] == "lfs":  # a signed URL: no token
                return self.step("lfs", lambda: hub.lfs_put(parts[1], body))
            if parts == ["api", "validate-yaml"]:
                return self.validate(json.loads(body))
            if parts[0] == "api" and parts[4:5] == ["paths-info"]:  # reading, although by POST
                return self.paths_info(parts, body)
            user = self.user()
            if user is None:
                return self.refuse(401, "", "Invalid credentials in Authorization header")
            if parts == ["api", "repos", "create"]:
                return self.step("create", lambda: hub.create(user, json.loads(body)))
            if parts[-4:-1] == ["info", "lfs", "objects"]:
                repo, rest = "/".join(parts[:-4]).removesuffix(".git"), ["lfs-batch", ""]
            else:
                repo, rest = KINDS[parts[1]] + "/".join(parts[2:4]), parts[4:]
            if repo not in hub.repos or not self.sees(repo):
                return self.refuse(404, "RepoNotFound")
            name, revision = rest
            if _owner(repo) != user and name != "lfs-batch":
                return self.refuse(403, "", "Forbidden")
            steps = {
                "preupload": lambda: hub.preupload(repo, revision, json.loads(body)),
                "lfs-batch": lambda: hub.lfs_batch(json.loads(body)),
                "commit": lambda: hub.commit(repo, revision, list(map(json.loads, body.splitlines()))),
            }
            return self.step(name, steps[name])

        do_PUT = do_POST

        def commit_of(self, repo: str, revision: str) -> str | None:
            """The commit that is asked for; None where the answer was that there is none."""
            if repo not in hub.repos or not self.sees(repo):
                return self.refuse(404, "RepoNotFound")
            return hub.commit_of(repo, revision) or self.refuse(404, "RevisionNotFound")

        def step(self, name: str, take: Any) -> None:
            if name in hub.refused:
                return self.refuse(hub.refused[name], "", f"the {name} was refused")
            with hub._lock:
                status, answer = take()
                if status == 200 and name not in ("preupload", "lfs-batch"):
                    hub.steps.append(name)
            if "code" in answer:
                return self.refuse(status, answer["code"])
            return self.send_json(answer, status)

        def paths_info(self, parts: list[str], body: bytes) -> None:
            repo = KINDS[parts[1]] + "/".join(parts[2:4])
            commit = self.commit_of(repo, parts[5])
            if commit is None:
                return
            text = body.decode()  # a form, or JSON
            asked = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text)["paths"]
            every = _listed(_files(hub.repos[repo][commit]))
            return self.send_json([file for file in every if file["path"] in asked])

        def validate(self, asked: dict[str, str]) -> None:
            found = re.match(r"---\n(.*?)\n---\n", asked["content"], re.DOTALL)
            data = yaml.safe_load(found[1]) if found else {}
            fits = data.get("license") in LICENSES
            problems = [] if fits else [{"message": '"license" must be one of them'}]
            self.send_json({"errors": problems, "warnings": []}, 400 if problems else 200)

        def parts(self) -> list[str]:
            return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

        def user(self) -> str | None:
            return hub.users.get(self.headers.get("Authorization", "").removeprefix("Bearer "))

        def sees(self, repo: str) -> bool:
            return repo not in hub.private or _owner(repo) == self.user()

        def read(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def send_file(self, repo: str, commit: str, folder: Path, name: str) -> None:
            if repo in hub.gated:
                return self.refuse(403, "GatedRepo")
            path = folder / name
            if not path.is_file():
                return self.refuse(404, "EntryNotFound")
            if self.command == "GET":
                hub.served.append(f"{repo}/{name}")
            self.send(path.read_bytes(), {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": commit})

        def send_json(self, content: Any, status: int = 200) -> None:
            self.send(json.dumps(content).encode(), {"Content-Type": "application/json"}, status)

        def send(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def refuse(self, status: int, code: str, message: str = "") -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            if code or message:
                self.send_header("X-Error-Message", message or code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler


PREFIX = {"model": "", "space": "spaces/", "dataset": "datasets/"}
KINDS = {f"{kind}s": prefix for kind, prefix in PREFIX.items()}
LICENSES = {"apache-2.0", "mit", "cc-by-4.0", "cc-by-nc-4.0", "other", "unknown"}


def _owner(repo: str) -> str:
    return repo.split("/")[-2]


def _listed(files: dict[str, Path]) -> list[dict[str, Any]]:
    """Files as the Hub lists them."""
    return [
        {"type": "file", "path": name, "size": path.stat().st_size, "oid": _etag(path)}
        for name, path in files.items()
    ]


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _oid(content: bytes, lfs: bool) -> str:
    """As git names it: an LFS object by its sha256, a blob by the sha1 of its header and content."""
    if lfs:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
