"""Images from http(s) addresses: from whom, how long and how much; with servers on loopback."""

import contextlib
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import numpy as np
import pytest

from capscore.errors import ImageError
from capscore.images import fetch
from capscore.images.fetch import Downloads
from capscore.images.load import content_key, load_image

from ..photos import encode, noise

ANYWHERE = {"allow_urls": True, "allow_private_urls": True}
PHOTO, ZIPPED = encode(noise(8, 8)), gzip.compress(bytes(10_000_000))
REDIRECTS = {"moved": "/photo", "to-whoever": "/whoever", "loop": "/loop"}
REDIRECTS |= {"ftp": "ftp://127.0.0.1/x", "malformed": "http://[::1/x"}
# page → status, body, length that the server says
PAGES = {"photo": (200, PHOTO, len(PHOTO)), "nothing": (200, b"", 0), "says-large": (200, PHOTO, 10**9)}
PAGES |= {"says-small": (200, PHOTO, len(PHOTO) - 60), "breaks-off": (200, PHOTO[:50], len(PHOTO))}
OK = b"HTTP/1.0 200 OK\r\n"
DRIPS = {"drip-body": OK + b"\r\n", "drip-head": OK + b"X: ", "endless": OK + b"\r\n"}


class Site(BaseHTTPRequestHandler):
    requested: list[tuple[str, str]] = []  # noqa: RUF012

    def do_GET(self):
        # a request that a download which was given up sends late is none of the next server
        self.server.requested.append((self.path, self.headers["Accept-Encoding"]))
        page = self.path.partition("?")[0].strip("/")
        if page in DRIPS:  # a byte at a time, or many at once, for ever
            with contextlib.suppress(OSError):
                self.wfile.write(DRIPS[page])
                while page == "endless" or not self.server.closing.wait(0.05):
                    self.wfile.write(bytes(10_000) if page == "endless" else b"0")
        elif page == "rude":
            self.wfile.write(b"HTTP/1.0 500 \x1b]0;owned\x07 http://me:secret@x.org/ \r\n\r\n")
        elif page == "inward":
            self.answer(302, b"", 0, Location=f"http://127.0.0.2:{self.server.server_port}/photo?key=secret")
        elif page in REDIRECTS:
            self.answer(302, b"", 0, Location=REDIRECTS[page])
        elif page == "gzip":
            self.answer(200, ZIPPED, len(ZIPPED), **{"Content-Encoding": "gzip"})
        elif page == "whoever":
            known = self.headers["Authorization"] == "Basic bWU6cCB3"
            self.answer(200 if known else 401, PHOTO, len(PHOTO))
        else:
            self.answer(*PAGES.get(page, (404, b"<html>not here</html>", 21)))

    do_CONNECT = do_GET

    def answer(self, status: int, body: bytes, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(certificate=None):
    """A server of `Site`, over TLS with a certificate; → its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    Site.requested = server.requested = []
    server.closing = threading.Event()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serving() as port:
        yield f"http://127.0.0.1:{port}"


def test_a_url_is_fetched_only_on_request(site):
    for function in (content_key, load_image):
        with pytest.raises(ImageError, match="allow_urls=True"):
            function(f"{site}/photo")
    assert Site.requested == []
    whoever = f"{site}/whoever".replace("http://", "http://me:p%20w@")
    for url in (f"{site}/photo", f"{site}/moved", {"path": f"{site}/photo", "bytes": None}, whoever):
        key = content_key(url, **ANYWHERE)
        assert key == content_key(PHOTO)
        assert np.array_equal(np.asarray(load_image(url, **ANYWHERE, expected_key=key)), noise(8, 8))
    assert Site.requested[0] == ("/photo", "identity")
    with pytest.raises(ImageError, match="HTTP 401"):  # a password is not sent on
        load_image(whoever.replace("/whoever", "/to-whoever"), **ANYWHERE)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        *(("missing", "answered HTTP 404 Not Found"), ("nothing", r"is empty \(0 bytes\)")),
        *(("ftp", r"redirects to 'ftp://127\.0\.0\.1/x', which"), ("loop", "redirects more than 5 times")),
        ("malformed", "(could not be fetched: ValueError|redirects to .* is not an address)"),
        *(("breaks-off", "could not be fetched: IncompleteRead"), ("whoever", "answered HTTP 401")),
        ("rude", r"answered HTTP 500 \\x1b\]0;owned\\x07 http://…@x\.org/$"),
        *(("gzip", "is not an image"), ("says-small", "is (cut short|not an image)")),
        *((page, "is larger than 100,000 bytes") for page in ("says-large", "endless")),
        # the server would go on for ever
        *((page, "was not fetched within 0.5 s") for page in ("drip-body", "drip-head")),
    ],
)
def test_a_failed_download_is_an_error_of_its_row(site, page, message, monkeypatch):
    monkeypatch.setattr(fetch, "MAX_DOWNLOAD_BYTES", 100_000)
    if page.startswith("drip"):
        monkeypatch.setattr(fetch, "DEADLINE", 0.5)
    with pytest.raises(ImageError, match=f"/{page}' {message}"):
        load_image(f"{site}/{page}", **ANYWHERE)


def test_a_missing_or_silent_host_is_an_error(monkeypatch):
    message = r"'http://…@127.0.0.1:1/a.jpg\?…' could not be fetched: ConnectionRefusedError"
    with pytest.raises(ImageError, match=message):
        load_image("http://me:secret@127.0.0.1:1/a.jpg?key=secret", **ANYWHERE)
    monkeypatch.setattr(fetch, "TIMEOUT", (5, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(ImageError, match=r"could not be fetched: .*timed out"):
            content_key(f"http://127.0.0.1:{silent.getsockname()[1]}/a.jpg", **ANYWHERE)


def test_the_deadline_covers_the_look_up_of_a_name(site, monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr(fetch, "DEADLINE", 0.2)

    def look_up(host, port):
        answered.wait(60)
        raise socket.gaierror("too late: nothing is requested during the tests that follow")

    monkeypatch.setattr(fetch, "look_up", look_up)
    with pytest.raises(ImageError, match=r"was not fetched within 0\.2 s"):
        content_key(f"{site}/photo", **ANYWHERE)
    answered.set()


def test_downloads_that_are_stopped_end_at_once(site):
    with contextlib.closing(Downloads(allow_private=True)) as downloads, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(downloads.file, f"{site}/drip-body")
        while not (Site.requested or waiting.done()):
            time.sleep(0.01)
        downloads.stop()
        for error in (waiting.exception(300), pool.submit(downloads.file, f"{site}/photo").exception(300)):
            assert isinstance(error, ImageError) and "was not fetched: the run ended" in str(error)


REFUSED = """
0.0.0.0 127.0.0.1 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1
240.0.0.1 255.255.255.255 :: ::1 fe80::1%eth0 fec0::1 fc00::1 ff02::1 ::ffff:169.254.169.254 ::127.0.0.1
64:ff9b::a00:1 64:ff9b:1::1 2002:7f00:1::"""
PUBLIC = "1.1.1.1 172.15.0.1 172.32.0.1 2606:4700:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101"
# what getaddrinfo takes for 127.0.0.1, and names that lead there
HERE = "2130706433 0x7f.1 0177.0.0.1 127.1 0 localhost [::1] [::ffff:7f00:1] LOCALHOST. me:x@localhost"


def test_addresses_that_are_refused_and_those_that_are_public():
    assert [address for address in REFUSED.split() if fetch.is_public(address)] == []
    assert [address for address in PUBLIC.split() if not fetch.is_public(address)] == []


@pytest.mark.parametrize("host", HERE.split())
def test_this_machine_is_refused_however_it_is_spelled(site, host):
    with pytest.raises(ImageError, match=r"allow_private_urls=True|could not be fetched: gaierror"):
        content_key(f"http://{host}:{site.rpartition(':')[2]}/photo", allow_urls=True)
    assert Site.requested == []


def test_a_proxy_is_used_for_public_hosts_only(site, monkeypatch):
    known = {"photos.example": "93.184.215.14", "inner.example": "10.0.0.1", "127.0.0.1": "127.0.0.1"}
    monkeypatch.setattr(fetch, "look_up", lambda host, port: [known[host]])
    monkeypatch.setenv("HTTP_PROXY", site.replace("http://", "http://me:pw@"))
    monkeypatch.setenv("https_proxy", site.removeprefix("http://"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for host in ("photos", "inner", "unknown"):
        monkeypatch.setitem(PAGES, f"http://{host}.example/photo", PAGES["photo"])
    key = content_key(PHOTO)
    assert content_key("http://you:secret@photos.example/photo#part", allow_urls=True) == key
    with pytest.raises(ImageError, match=r"is at 10\.0\.0\.1, which is not public"):
        content_key("http://inner.example/photo", allow_urls=True)
    with pytest.raises(ImageError, match="could not be fetched"):  # a name that only the proxy knows
        content_key("http://unknown.example/photo", allow_urls=True)
    assert Site.requested == [("http://photos.example/photo", "identity")]
    for host in ("inner", "unknown"):
        assert content_key(f"http://{host}.example/photo", **ANYWHERE) == key
    with pytest.raises(ImageError, match="could not be fetched"):  # this proxy makes no tunnel
        content_key("https://photos.example/photo", allow_urls=True)
    assert Site.requested[-1][0] == "photos.example:443"
    assert content_key(f"{site}/photo", **ANYWHERE) == key and Site.requested[-1][0] == "/photo"


@pytest.fixture
def first_is_public(monkeypatch):
    """127.0.0.1 counts as public, the rest of loopback does not."""
    real = fetch.is_public
    monkeypatch.setattr(fetch, "is_public", lambda address: address == "127.0.0.1" or real(address))


def test_a_redirect_into_the_own_network_is_refused(site, first_is_public):
    with pytest.raises(ImageError, match=r"/inward' redirects to 'http://127\.0\.0\.2:\d+/photo\?…', which"):
        load_image(f"{site}/inward", allow_urls=True)
    assert [page for page, _ in Site.requested] == ["/inward"]
    assert load_image(f"{site}/moved", allow_urls=True).size == (8, 8)


def test_the_checked_address_is_connected_to_whatever_the_name_says_later(site, first_is_public, monkeypatch):
    answers, real = iter(["127.0.0.1", "127.0.0.2"]), socket.getaddrinfo

    def getaddrinfo(host, port, *rest, **more):
        if host == "rebinding.example":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]
        assert ipaddress.ip_address(host), "connecting looks up the address that was found"
        return real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    url = site.replace("127.0.0.1", "rebinding.example")
    assert load_image(f"{url}/photo", allow_urls=True).size == (8, 8)
    with pytest.raises(ImageError, match=r"/photo' is at 127\.0\.0\.2"):
        load_image(f"{url}/photo", allow_urls=True)


# A certificate of photos.example, which signs itself and is of no other use.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXNVh6MUK5R0uQrWB
RQNEgNdKWwK3iMelyBhvH0OXsmShRANCAATRh/Fd2Nfb9WfmGy3co+nI5pbdl6vG
0Gx8gd5j6MSVV6W34p2jO2ohocqWVZsa0pmk8Cuy9MKoFZkbtSTg7g+M
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBpDCCAUqgAwIBAgIUBjKnu0pzyB4E9spxv+HtDGKUyVEwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOcGhvdG9zLmV4YW1wbGUwIBcNMjYxMTIyMTEyNDM5WhgPMjEy
NjEwMjkxMTI0MzlaMBkxFzAVBgNVBAMMDnBob3Rvcy5leGFtcGxlMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAE0YfxXdjX2/Vn5hst3KPpyOaW3ZerxtBsfIHeY+jE
lVelt+KdoztqIaHKllWbGtKZpPArsvTCqBWZG7Uk4O4PjKNuMGwwHQYDVR0OBBYE
FPN6Xp/cz1VnLg/GJrVzmZ/OPieGMB8GA1UdIwQYMBaAFPN6Xp/cz1VnLg/GJrVz
mZ/OPieGMA8GA1UdEwEB/wQFMAMBAf8wGQYDVR0RBBIwEIIOcGhvdG9zLmV4YW1w
bGUwCgYIKoZIzj0EAwIDSAAwRQIhAJ3R59eYkb4pr91pXDtIWYA8b6UGiImV5ZdS
i6+K6vqJAiBJ7IQ1qTQ0Xdbr3HtG9Xd8Z563Nfafx/o29EKqmr/s8g==
-----END CERTIFICATE-----
"""


def test_tls_checks_the_name_of_the_host_and_not_its_address(tmp_path, monkeypatch):
    file = tmp_path / "photos.pem"
    file.write_text(CERTIFICATE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(file))
    monkeypatch.setattr(fetch, "look_up", lambda host, port: ["127.0.0.1"])
    with serving(file) as port:
        assert load_image(f"https://photos.example:{port}/photo", **ANYWHERE).size == (8, 8)
        with pytest.raises(ImageError, match=r"SSLCertVerificationError: .*[Hh]ostname mismatch"):
            load_image(f"https://other.example:{port}/photo", **ANYWHERE)
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        with pytest.raises(ImageError, match=r"SSLCertVerificationError: .*self.signed certificate"):
            load_image(f"https://photos.example:{port}/photo", **ANYWHERE)


@pytest.mark.parametrize("host", ["[::1", "x:99999", "a b", "①.0.0.1", "\udcff", "a" * 300, "%00"])
def test_an_invalid_address_is_an_error_of_its_row(host, monkeypatch):
    monkeypatch.setattr(fetch, "look_up", mock.Mock(side_effect=socket.gaierror(-2, "not known")))
    with pytest.raises(ImageError) as caught:
        load_image(f"http://{host}/x.jpg", allow_urls=True)
    assert len(str(caught.value)) < 700 and str(caught.value).isprintable()
