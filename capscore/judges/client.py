"""A server of chat completions: questions go there, answers with log-probabilities come back.

In: a message body. Out: the decoded JSON of the answer, after retries. The key is read from the environment
for each request, and is nowhere else: where a server repeats it, it is blotted out.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting, address_name
from ..images.fetch import (
    http_address,
    innermost,
    is_public,
    look_up,
    proxy_for,
    through_proxy,
    trusted_certificates,
)

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

KEY, KEY_OF_OPENAI = "CAPSCORE_SERVER_KEY", "OPENAI_API_KEY"
TIMEOUT = (10.0, 300.0)  # seconds for a connection, and for the next bytes of an answer
TRIES, TRIES_AT_START = 6, 3  # of one question, and of the first ones: is there a server at all?
LONGEST_WAIT = 120.0  # seconds that a server may ask for before another try
MAX_ANSWER_BYTES = 2**26
_BUSY = frozenset((408, 409, 425, 429))  # and all from 500 on


class Refused(InputError):
    """A question that the server refuses, while it may answer others."""


class Client:
    """Sends questions to one server, from several threads.

    Attributes:
        spent: Number of requests that were answered, of those that were tried again, and of tokens that were
            read and written, as the server counts them.
    """

    def __init__(self, address: str):
        self.address = address.strip().rstrip("/").removesuffix("/chat/completions")
        self.scheme, self.host, self.port = _parts(self.address)
        self.shown = self.address
        self.spent: Counter[str] = Counter()
        self.stopped = threading.Event()
        self._answered = b""  # the last question that was
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.address,)

    def ask(self, body: Mapping[str, object]) -> object:
        """The answer to a question, and the count of its tokens in `spent`."""
        coded = json.dumps(body).encode()
        answer = self._tried("POST", "/chat/completions", coded)
        self._answered = coded
        with self._lock:
            self.spent["answered"] += 1
            for name, field in (("read", "prompt_tokens"), ("written", "completion_tokens")):
                self.spent[name] += whole_number(inside(answer, "usage", field))
        return answer

    def blotted(self, text: str) -> str:
        """A text of the server in which the key is not to be seen; words such as EMPTY are no secrets."""
        key = self._key()
        return text.replace(key, "…") if len(key) > 5 else text

    def models(self) -> dict[str, str]:
        """Name of each model that the server has → who serves it, such as vllm; {} if it does not say."""
        try:
            listed = inside(self._tried("GET", "/models"), "data")
        except Refused:
            return {}
        found: dict[str, str] = {}
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(name := inside(entry, "id"), str):
                found[name] = self.blotted(str(inside(entry, "owned_by") or ""))
        return found

    @cached_property
    def _pool(self) -> PoolManager:
        import urllib3

        # an http address is on this machine or network: photos and key do not go to a proxy in the open
        proxy = proxy_for(self.scheme, self.host) if self.scheme == "https" else ""
        if proxy:
            return through_proxy(proxy)
        return urllib3.PoolManager(maxsize=64, cert_reqs="CERT_REQUIRED", ca_certs=trusted_certificates())

    @cached_property
    def _is_exposed(self) -> bool:
        """Whether others on the internet could read what is sent."""
        return self.scheme == "http" and any(map(is_public, look_up(self.host, self.port)))

    def _tried(self, method: str, path: str, body: bytes | None = None) -> object:
        """The answer to a request, as JSON, which is sent again while the server is busy or cut off."""
        import urllib3

        problem, status = "", 0
        tries = TRIES if self.spent["answered"] else TRIES_AT_START
        for number in range(tries):
            if number:
                with self._lock:
                    self.spent["again"] += 1
            wait = min(30.0, 0.5 * 2**number) * random.uniform(0.5, 1)
            try:
                response, data = self._sent(method, path, body)
            except (urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
                problem, status = self.blotted(f"does not answer: {innermost(error)}"), 0
            else:
                status, answer = response.status, _as_object(data)
                if status == 200 and answer is not None:
                    return answer
                what = "with something else than JSON" if status == 200 else f"HTTP {status}"
                problem = f"answered {what}{self._said(data)}"
                if status != 200 and status < 500 and status not in _BUSY:
                    raise self._refusal(response, problem)
                wait = max(wait, self._asked_wait(response, problem))
            if number + 1 < tries and self.stopped.wait(wait):
                break
        if status >= 500 and self._answers_another(body):
            raise InputError(f"{self.shown} {problem}, {tries} times, and still answers another question")
        again = f"{tries} times; the same command continues, with the answers in the cache"
        raise BackboneUnavailable(f"{self.shown} {problem}, {again}")

    def _answers_another(self, body: bytes | None) -> bool:
        """Whether the server, asked again what it answered last, answers: then it fails at one question."""
        with suppress(Exception):  # each layer has its own
            if self._answered not in (b"", body) and not self.stopped.is_set():
                return self._sent("POST", "/chat/completions", self._answered)[0].status == 200
        return False

    def _sent(self, method: str, path: str, body: bytes | None) -> tuple[BaseHTTPResponse, bytes]:
        """An answer, whatever it is, and its body; redirects are not followed."""
        import urllib3

        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "capscore"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        key = self._key()
        if key and self._is_exposed:
            raise BackboneUnavailable(f"{self.shown} would get the key in the open: use https://")
        if key:
            headers["Authorization"] = f"Bearer {key}"
        response = self._pool.request(
            method,
            f"{self.address}{path}",
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=TIMEOUT[0], read=TIMEOUT[1]),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            data = response.read(MAX_ANSWER_BYTES + 1)
            if len(data) > MAX_ANSWER_BYTES:
                response.close()
                raise BackboneUnavailable(f"{self.shown} sent more than {MAX_ANSWER_BYTES:,} bytes at once")
        finally:
            response.release_conn()
        return response, data

    def _key(self) -> str:
        """The key for this server; "" for none."""
        is_openai = self.scheme == "https" and self.host == "api.openai.com"
        name = KEY_OF_OPENAI if is_openai and not os.environ.get(KEY) else KEY
        key = os.environ.get(name, "").strip()
        if not re.fullmatch("[!-~]*", key):
            raise CapscoreError(f"the variable {name} holds something else than a key in ASCII")
        return key

    def _said(self, data: bytes) -> str:
        """What an error's body says, as the end of a sentence."""
        content = _as_object(data)
        places = (("error", "message"), ("error",), ("message",), ("detail",))  # of servers' own
        texts = [text for place in places if isinstance(text := inside(content, *place), str)]
        words = " ".join([*texts, data[:2000].decode("utf-8", "replace")][0].split())
        return f" ({self.blotted(words):.300})" if words else ""

    def _refusal(self, response: BaseHTTPResponse, problem: str) -> CapscoreError:
        status, shown = response.status, self.shown
        if 300 <= status < 400:
            target = address_name(self.blotted(response.headers.get("Location", "")))
            moved = f"{shown} redirects to {target!r:.200}, which is not followed; to trust it, name it as "
            return BackboneUnavailable(moved, Setting("backbone"))
        if status in (401, 403):
            key = "the variable CAPSCORE_SERVER_KEY holds the key"
            return BackboneUnavailable(f"{shown} {problem}: it wants another key; {key}")
        if status in (404, 405):
            problem += "; expected an address of chat completions, such as http://127.0.0.1:8000/v1"
        return Refused(f"{shown} {problem}")

    def _asked_wait(self, response: BaseHTTPResponse, problem: str) -> float:
        """Seconds after which the server wants to be asked again; 0 if it does not say."""
        import urllib3

        try:
            seconds = urllib3.Retry().parse_retry_after(response.headers.get("Retry-After", "0"))
        except urllib3.exceptions.InvalidHeader:
            return 0.0
        if seconds > LONGEST_WAIT:
            later = f"; ask it again in {seconds:,.0f} s, and the same command goes on from the cache"
            raise BackboneUnavailable(f"{self.shown} {problem}{later}")
        return seconds


def _parts(address: str) -> tuple[str, str, int]:
    """Scheme, host and port of a server's address."""
    given, found = Setting("backbone", address_name(address)), http_address(address)
    if found is None or not re.fullmatch("[!-~]+", address):
        raise CapscoreError(given, ": expected an address, such as http://127.0.0.1:8000/v1")
    parts, scheme, host, port = found
    if parts.auth or parts.query or parts.fragment:
        secret = ": an address with a password, a key or a query is refused; a key is read from the variable "
        raise CapscoreError(given, f"{secret}{KEY}")
    return scheme, host, port


def inside(content: object, *path: str | int) -> object:
    """What is inside decoded JSON, by keys and indices; None where there is no such thing."""
    for step in path:
        if isinstance(content, dict) and isinstance(step, str):
            content = content.get(step)
        elif isinstance(content, list) and isinstance(step, int) and step < len(content):
            content = content[step]
        else:
            return None
    return content


def whole_number(value: object) -> int:
    """A count; 0 for what is none."""
    return value if isinstance(value, int) and value > 0 else 0


def _as_object(data: bytes) -> object:
    """A JSON object; None for anything else."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
