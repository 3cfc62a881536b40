"""A Hub on this machine: the part of its HTTP interface that downloading a model needs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


class LoopbackHub:
    """Repositories by id; each has commits by name ("main" among them), a commit is a folder of files."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, Path]] = {}
        self.gated: set[str] = set()
        self.broken = False  # every answer is 503
        self.served: list[str] = []  # "org/name/file" for every file sent
        self.url = ""

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


def _handler(hub: LoopbackHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def log_message(self, *arguments: object) -> None:
            pass

        def answer(self) -> None:
            if hub.broken:
                return self.refuse(503, "")
            parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
            if parts[:2] == ["api", "models"]:
                repo, rest = "/".join(parts[2:4]), parts[4:]
            else:
                repo, rest = "/".join(parts[:2]), parts[2:]
            if repo not in hub.repos:
                return self.refuse(404, "RepoNotFound")
            revision = rest[1] if len(rest) > 1 else "main"
            commit = hub.commit_of(repo, revision)
            if commit is None:
                return self.refuse(404, "RevisionNotFound")
            folder = hub.repos[repo][commit]
            if parts[0] != "api":
                return self.send_file(repo, commit, folder, "/".join(rest[2:]))
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            if rest[:1] == ["tree"]:
                tree = [
                    {
                        "type": "file",
                        "path": path.relative_to(folder).as_posix(),
                        "size": path.stat().st_size,
                        "oid": _etag(path),
                    }
                    for path in files
                ]
                return self.send(json.dumps(tree).encode(), {"Content-Type": "application/json"})
            names = [{"rfilename": path.relative_to(folder).as_posix()} for path in files]
            info = {
                "id": repo,
                "modelId": repo,
                "sha": commit,
                "siblings": names,
                "tags": [],
                "private": False,
            }
            return self.send(json.dumps(info).encode(), {"Content-Type": "application/json"})

        def send_file(self, repo: str, commit: str, folder: Path, name: str) -> None:
            if repo in hub.gated:
                return self.refuse(403, "GatedRepo")
            path = folder / name
            if not path.is_file():
                return self.refuse(404, "EntryNotFound")
            if self.command == "GET":
                hub.served.append(f"{repo}/{name}")
            self.send(path.read_bytes(), {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": commit})

        def send(self, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(200)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
                self.send_header("X-Error-Message", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
