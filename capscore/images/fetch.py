"""Images from http(s) addresses: within a time, up to a size, and only from permitted hosts.

Whoever wrote a list of images must not make this machine fetch from its own network, such as the passwords
that cloud machines get from 169.254.169.254. So a host is looked up once, its address is checked, whatever
the spelling of the name, and the connection is made to that address; TLS checks the certificate against the
name. Through a proxy (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) the host is looked up and checked here as well, but
the proxy connects to what it finds under the name. ~/.netrc is not used, and a password in an address goes
only to the host of that address.
"""

from __future__ import annotations

import ipaddress
import os
import queue
import socket
import tempfile
import threading
import time
import urllib.parse
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from ..errors import ImageError, Part, Setting, address_name
from ..files.scratch import process_folder

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, ProxyManager
    from urllib3.connection import HTTPConnection
    from urllib3.util import Url

MAX_DOWNLOAD_BYTES = 32 * 2**20
DEADLINE = 60.0  # seconds for a whole download: look-up, redirects, and the last byte
TIMEOUT = (10.0, 30.0)  # seconds for one connection, and for the next bytes of an answer
MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_LENGTH = 8192  # of a URL, which servers limit as well
# NAT64 (RFC 6052) and IPv4-compatible addresses end with the IPv4 address that is meant
_ENDS_WITH_IPV4 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))
# not in every version of the module: NAT64 of a network of its own (RFC 8215), shared addresses of carriers
_OTHERS = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "100.64.0.0/10", "2001::/32", "fec0::/10")))


class DownloadedImage(NamedTuple):
    """The file that a URL was downloaded to."""

    url: str
    path: Path


def image_error(*message: Part) -> ImageError:
    return ImageError(*message, field="image")


def _shown(url: str) -> str:
    """The beginning of a URL in a message, without a password."""
    return f"{address_name(url)!r:.200}"


class Downloads:
    """Fetches every address once, so that the same bytes are keyed and decoded; `close` deletes the files."""

    def __init__(self, allow_private: bool = False):
        self._allow_private = allow_private
        self._stopped = threading.Event()
        # after an interrupt, threads may still be writing
        self._folder = tempfile.TemporaryDirectory(dir=process_folder(), ignore_cleanup_errors=True)
        self._results: dict[str, DownloadedImage | ImageError] = {}

    def file(self, url: str) -> DownloadedImage:
        """The file that an address was downloaded to; an `ImageError` says why there is none."""
        if url not in self._results:
            self._results[url] = self._download(url)
        result = self._results[url]
        if isinstance(result, ImageError):
            raise result
        return result

    def close(self) -> None:
        self._folder.cleanup()

    def stop(self) -> None:
        """End the downloads that are under way, and begin no more: the threads that wait for them go on."""
        self._stopped.set()

    def _download(self, url: str) -> DownloadedImage | ImageError:
        try:
            data = fetch(url, allow_private=self._allow_private, stopped=self._stopped)
            path = Path(self._folder.name, xxhash.xxh3_128_hexdigest(url.encode("utf-8", "surrogatepass")))
            path.write_bytes(data)
        except ImageError as error:
            return error
        except OSError as error:
            return image_error(f"{_shown(url)} could not be stored: {error}")
        return DownloadedImage(url, path)


def fetch(url: str, *, allow_private: bool = False, stopped: threading.Event | None = None) -> bytes:
    """The body of the answer of an http(s) address; an `ImageError` says why there is none.

    Hosts that are not public, such as localhost, are contacted only with `allow_private`. Setting `stopped`
    ends
    the download.
    """
    name = _shown(url)
    results: queue.SimpleQueue[bytes | ImageError] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(_body(url, name, allow_private))
        except ImageError as error:
            results.put(error)
        except Exception as error:  # of urllib3, http.client, ssl and the operating system
            results.put(image_error(f"{name} could not be fetched: {innermost(error)}"))

    # In a thread of its own: the look-up of a name can be neither limited nor interrupted.
    threading.Thread(target=work, name="capscore-download", daemon=True).start()
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        if stopped is not None and stopped.is_set():
            raise image_error(f"{name} was not fetched: the run ended")
        with suppress(queue.Empty):
            result = results.get(timeout=min(0.1, DEADLINE))
            if isinstance(result, ImageError):
                raise result
            return result
    raise image_error(f"{name} was not fetched within {DEADLINE:g} s; download it, and pass the path")


def innermost(error: BaseException) -> str:
    """What an error of a connection is about: urllib3 wraps the one that says it."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {getattr(error, 'strerror', None) or error!s:.200}"


def http_address(url: str) -> tuple[Url, str, str, int] | None:
    """The parts of an http(s) address, its scheme, host and port; None if it is none, or has the port 0.

    >>> http_address("http://[::1]:8000/v1")[1:], http_address("http://host:0/"), http_address("file:///a")
    (('http', '::1', 8000), None, None)
    """
    import urllib3

    try:
        parts = urllib3.util.parse_url(url[: _MAX_LENGTH + 1])
    except (urllib3.exceptions.LocationParseError, ValueError):
        return None
    port = {"http": 80, "https": 443}.get(parts.scheme or "")
    if len(url) > _MAX_LENGTH or port is None or not parts.host or parts.port == 0:
        return None
    return parts, parts.scheme or "", parts.host.strip("[]"), parts.port or port


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet.

    >>> is_public("169.254.169.254"), is_public("::ffff:10.0.0.1"), is_public("93.184.215.14")
    (False, False, True)
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address) and int(ip) > 1:  # :: and ::1 are themselves
        inner = ip.ipv4_mapped or ip.sixtofour
        if any(ip in network for network in _ENDS_WITH_IPV4):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    refused = ip.is_multicast or ip.is_reserved or any(ip in network for network in _OTHERS)
    return ip.is_global and not refused


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order in which to try them; OSError or UnicodeError for none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _body(url: str, name: str, allow_private: bool) -> bytes:
    current = url
    for _ in range(MAX_REDIRECTS + 1):
        shown = name if current == url else f"{name} redirects to {_shown(current)}, which"
        connection, response = _request(current, shown, allow_private, with_password=current == url)
        try:
            if response.status not in _REDIRECTS or "Location" not in response.headers:
                return _read(response, name)
            current = urllib.parse.urljoin(current, response.headers["Location"])
        finally:
            connection.close()
    raise image_error(f"{name} redirects more than {MAX_REDIRECTS} times")


def _request(
    url: str, shown: str, allow_private: bool, *, with_password: bool
) -> tuple[HTTPConnection | BaseHTTPResponse, BaseHTTPResponse]:
    """The connection for a request, and the beginning of the answer."""
    import urllib3

    found = http_address(url)
    if found is None:
        expected = f"expected http(s)://host/path, at most {_MAX_LENGTH:,} characters"
        raise image_error(f"{shown} is refused; {expected}")
    parts, scheme, host, port = found
    proxy = proxy_for(scheme, host)
    # behind a proxy, this machine may not know any names
    addresses: list[str] = []
    if not (proxy and allow_private):
        addresses = look_up(host, port)
    allowed = [address for address in addresses if allow_private or is_public(address)]
    if addresses and not allowed:
        only = f"{shown} is at {addresses[0]}, which is not public; such hosts are contacted only with "
        raise image_error(only, Setting("allow_private_urls", True))
    headers = {"Host": parts.netloc or host, "Accept": "image/*", "User-Agent": "capscore"}
    headers["Accept-Encoding"] = "identity"  # nothing can expand beyond the limit
    if parts.auth and with_password:
        headers.update(urllib3.util.make_headers(basic_auth=urllib.parse.unquote(parts.auth)))
    if proxy:
        plain = parts._replace(auth=None, fragment=None).url
        answer = through_proxy(proxy).request(
            "GET", plain, headers=headers, preload_content=False, redirect=False
        )
        return answer, answer
    connection = _connect(scheme, host.rstrip("."), allowed, port)
    try:
        connection.request("GET", parts.request_uri, headers=headers, preload_content=False)
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


def proxy_for(scheme: str, host: str) -> str:
    """Address of the proxy that the environment names for a host; "" for none."""
    from urllib.request import getproxies, proxy_bypass  # slow to import, and URLs are rare

    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all") or ""
    return "" if proxy and proxy_bypass(host) else proxy


def trusted_certificates() -> str:
    import certifi

    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or certifi.where()


def through_proxy(proxy: str) -> ProxyManager:
    import urllib3

    if "://" not in proxy:
        proxy = f"http://{proxy}"
    address = urllib3.util.parse_url(proxy)
    return urllib3.ProxyManager(
        address._replace(auth=None).url,
        proxy_headers=urllib3.util.make_headers(proxy_basic_auth=urllib.parse.unquote(address.auth or "")),
        timeout=urllib3.Timeout(connect=TIMEOUT[0], read=TIMEOUT[1]),
        ca_certs=trusted_certificates(),
        cert_reqs="CERT_REQUIRED",
        retries=False,
    )


def _connect(scheme: str, host: str, addresses: list[str], port: int) -> HTTPConnection:
    from urllib3.connection import HTTPConnection, HTTPSConnection

    def connection_to(address: str) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(address, port, timeout=TIMEOUT[0])
        tls = partial(HTTPSConnection, cert_reqs="CERT_REQUIRED", ca_certs=trusted_certificates())
        return tls(address, port, timeout=TIMEOUT[0], server_hostname=host)

    for address in addresses:
        connection = connection_to(address)
        try:
            connection.connect()
            break
        except Exception:
            connection.close()
            if address == addresses[-1]:
                raise
    connection.timeout = TIMEOUT[1]
    return connection


def _read(response: BaseHTTPResponse, name: str) -> bytes:
    """The body of an answer, if that is an image of a permitted size."""
    if response.status != 200:
        raise image_error(f"{name} answered HTTP {response.status} {response.reason or ''}"[:400])
    stated = response.headers.get("Content-Length", "")
    received = bytearray()
    is_within = not (stated.isdecimal() and int(stated[:20]) > MAX_DOWNLOAD_BYTES)
    while is_within and (chunk := response.read1(2**16, decode_content=False)):
        received += chunk
        is_within = len(received) <= MAX_DOWNLOAD_BYTES
    if not is_within:
        raise image_error(f"{name} is larger than {MAX_DOWNLOAD_BYTES:,} bytes; pass the path of a file")
    return bytes(received)
