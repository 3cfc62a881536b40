"""One image from an http(s) address: within a time, up to a size, and only from hosts that may be asked.

The name of the host is looked up once, and the connection is made to the address that was checked, so that a
second answer of the name server changes nothing; TLS checks the certificate against the name. Proxies of the
environment (HTTP_PROXY, …) are not used: what a proxy connects to cannot be checked. No password of ~/.netrc
is sent, and that of an address only to the host that it was meant for.

Whoever wrote a list of images must not make this machine fetch from its own network, such as from the service
at 169.254.169.254 that hands out the passwords of cloud machines. Addresses are checked, not the spelling of
names: http://2130706433/, http://0x7f.1/ and a name that leads to 127.0.0.1 are the same.
"""

from __future__ import annotations

import ipaddress
import os
import queue
import socket
import threading
import urllib.parse
from contextlib import suppress
from typing import Any

from ..errors import ImageError, Setting
from .given import describe, image_error

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# NAT64 (RFC 6052) and IPv4-compatible addresses end with the IPv4 address that is meant
_ENDS_WITH_IPV4 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))
# not in every version of the module: NAT64 of a network of its own (RFC 8215), shared addresses of carriers
_OTHERS = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "100.64.0.0/10", "2001::/32")))


def why_refused(address: str) -> str | None:
    """What kind of non-public address it is, in one word or two, or None for a public one.

    >>> why_refused("169.254.169.254"), why_refused("::ffff:10.0.0.1"), why_refused("93.184.215.14")
    ('link-local', 'private', None)
    """
    return _kind(ipaddress.ip_address(address))


def _kind(address: _Address) -> str | None:
    inner = _ipv4_inside(address)
    if inner is not None:
        return _kind(inner)
    kinds = (
        ("unspecified", address.is_unspecified),
        ("loopback", address.is_loopback),
        ("link-local", address.is_link_local),
        ("multicast", address.is_multicast),
        ("private", address.is_private and not address.is_reserved),
        ("reserved", address.is_reserved or not address.is_global),
        ("reserved", isinstance(address, ipaddress.IPv6Address) and address.is_site_local),
        ("reserved", any(address in network for network in _OTHERS)),
    )
    return next((kind for kind, applies in kinds if applies), None)


def _ipv4_inside(address: _Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for, or None."""
    if isinstance(address, ipaddress.IPv4Address) or int(address) <= 1:  # :: and ::1 are themselves
        return None
    if any(address in network for network in _ENDS_WITH_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order in which to try them.

    Raises:
        OSError: there are none.
        UnicodeError: the name cannot be asked for.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


MAX_DOWNLOAD_BYTES = 32 * 2**20
"""Size limit, in bytes, of an image from a URL."""

DEADLINE = 60.0
"""Time limit, in seconds, of a whole download: look-up, redirects, and the last byte."""

TIMEOUT = (10.0, 30.0)
"""Time limits, in seconds, of one connection, and of the next bytes of an answer."""

MAX_REDIRECTS = 5
"""Number of redirects that are followed."""

_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK = 2**16
_MAX_LENGTH = 8192  # of a URL, which servers limit as well
_DOWNLOAD_IT = "; download it yourself and pass the path"


class Fetch:
    """The download of one URL.

    Args:
        url: http(s) address.
        allow_private: Whether hosts that are not public may be asked, such as localhost.
    """

    def __init__(self, url: str, *, allow_private: bool = False):
        self._url, self._allow_private = url, allow_private
        self._name = describe(url)
        self._found: queue.SimpleQueue[bytes | ImageError] = queue.SimpleQueue()
        self._connection: Any = None
        self._stopped = False

    def result(self) -> bytes:
        """The body of the answer.

        Raises:
            ImageError: It could not be fetched.
        """
        # In a thread of its own: the look-up of a name can be neither limited nor interrupted.
        threading.Thread(target=self._run, name="capscore-download", daemon=True).start()
        try:
            found = self._found.get(timeout=DEADLINE)
        except queue.Empty:
            found = image_error(f"{self._name} was not fetched within {DEADLINE:g} s{_DOWNLOAD_IT}")
        finally:
            self.stop()
        if isinstance(found, ImageError):
            raise found
        return found

    def stop(self) -> None:
        """End the download: `result`, in whatever thread it waits, raises at once."""
        self._stopped = True
        self._found.put(image_error(f"{self._name} was not fetched: the run was ended"))
        sock = getattr(self._connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                # not SSLSocket's own, which the thread that reads would see half done
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            self._found.put(self._body())
        except ImageError as error:
            self._found.put(error)
        except Exception as error:  # of urllib3, http.client, ssl and the operating system
            self._found.put(image_error(f"{self._name} could not be fetched: {_reason(error)}"))
        finally:
            if self._connection is not None:
                self._connection.close()

    def _body(self) -> bytes:
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            response = self._answer(url)
            if response.status not in _REDIRECTS or "Location" not in response.headers:
                return self._read(response)
            self._connection.close()
            url = urllib.parse.urljoin(url, response.headers["Location"])
        raise image_error(f"{self._name} redirects more than {MAX_REDIRECTS} times")

    def _answer(self, url: str) -> Any:
        """The beginning of the answer to a request."""
        import urllib3

        parts = self._parsed(url)
        host = parts.host.strip("[]")
        headers = {
            "Host": parts.netloc,
            "Accept": "image/*",
            # so that the limit counts the bytes that arrive, and nothing can expand beyond it
            "Accept-Encoding": "identity",
            "User-Agent": "capscore",
        }
        if parts.auth and url == self._url:
            plain = urllib.parse.unquote(parts.auth)
            headers.update(urllib3.util.make_headers(basic_auth=plain))
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._connect(parts.scheme, host.rstrip("."), self._addresses(url, host, port), port)
        self._connection.request("GET", parts.request_uri, headers=headers, preload_content=False)
        return self._connection.getresponse()

    def _parsed(self, url: str) -> Any:
        """An address in its parts, with a host."""
        from urllib3.exceptions import LocationParseError
        from urllib3.util import parse_url

        place = self._name if url == self._url else f"{self._name} redirects to {describe(url)}, which"
        if not url.lower().startswith(("http://", "https://")):
            raise image_error(f"{place} is not http(s), and is refused")
        if len(url) > _MAX_LENGTH:
            raise image_error(f"{place} has {len(url):,} characters; the limit is {_MAX_LENGTH:,}")
        try:
            parts = parse_url(url)
        except (LocationParseError, ValueError):
            parts = None
        if parts is None or not parts.host or parts.port == 0:
            raise image_error(f"{place} is not an address; expected http(s)://host/path")
        return parts

    def _addresses(self, url: str, host: str, port: int) -> list[str]:
        """The addresses of a host that may be connected to, at least one."""
        found = look_up(host, port)
        allowed = [address for address in found if self._allow_private or why_refused(address) is None]
        if not allowed:
            place = self._name if url == self._url else f"{self._name} redirects to {describe(url)}, which"
            raise image_error(
                f"{place} is at the {why_refused(found[0])} address {found[0]}; such addresses are asked "
                "only with ",
                Setting("allow_private_urls", True),
            )
        return allowed

    def _connect(self, scheme: str, host: str, addresses: list[str], port: int) -> None:
        import certifi
        from urllib3.connection import HTTPConnection, HTTPSConnection

        for number, address in enumerate(addresses, 1):
            if scheme == "https":
                self._connection = HTTPSConnection(
                    address,
                    port,
                    timeout=TIMEOUT[0],
                    server_hostname=host,
                    cert_reqs="CERT_REQUIRED",
                    ca_certs=os.environ.get("REQUESTS_CA_BUNDLE")
                    or os.environ.get("SSL_CERT_FILE")
                    or certifi.where(),
                )
            else:
                self._connection = HTTPConnection(address, port, timeout=TIMEOUT[0])
            try:
                self._connection.connect()
            except Exception:
                if number == len(addresses) or self._stopped:
                    raise
            else:
                break
        if self._stopped:  # while it was being connected, when there was nothing to shut down
            raise image_error(f"{self._name} was not fetched: the run was ended")
        self._connection.timeout = TIMEOUT[1]

    def _read(self, response: Any) -> bytes:
        if response.status != 200:
            raise image_error(f"{self._name} answered HTTP {response.status} {response.reason or ''}"[:400])
        too_large = f"{self._name} is larger than {MAX_DOWNLOAD_BYTES:,} bytes{_DOWNLOAD_IT}"
        stated = response.headers.get("Content-Length", "")
        if stated.isdecimal() and int(stated[:20]) > MAX_DOWNLOAD_BYTES:
            raise image_error(too_large)
        received = bytearray()
        while chunk := response.read1(_CHUNK, decode_content=False):
            received += chunk
            if len(received) > MAX_DOWNLOAD_BYTES:
                raise image_error(too_large)
        return bytes(received)


def _reason(error: Exception) -> str:
    """What went wrong, in a few words; the errors of urllib3 wrap those that say it."""
    inner: BaseException = error
    while (cause := inner.__cause__ or inner.__context__) is not None:
        inner = cause
    if any(isinstance(one, TimeoutError) or "Timeout" in type(one).__name__ for one in (error, inner)):
        return f"{type(error).__name__}: timed out"
    words = getattr(inner, "strerror", None) or str(inner)
    return f"{type(inner).__name__}: {words}"[:300] if words else type(inner).__name__
