"""Web addresses that lead nowhere, or to machines that a list of images must not reach. None is connected to."""

from __future__ import annotations

from ..case import cases, refused

_ADDRESSES = [
    ("loopback", "http://127.0.0.1/red.png"),
    ("loopback in one number", "http://2130706433/red.png"),
    ("loopback in hexadecimal", "http://0x7f.1/red.png"),
    ("loopback of IPv6", "http://[::1]/red.png"),
    ("loopback of IPv4 in IPv6", "http://[::ffff:127.0.0.1]/red.png"),
    ("loopback behind NAT64", "http://[64:ff9b::7f00:1]/red.png"),
    ("loopback by name", "http://localhost/red.png"),
    ("any address", "http://0.0.0.0/red.png"),
    ("link-local, where clouds keep passwords", "http://169.254.169.254/latest/meta-data"),
    ("link-local of IPv6", "http://[fe80::1]/red.png"),
    ("private, class B", "http://172.16.0.1/red.png"),
    ("private of IPv6", "http://[fd00::1]/red.png"),
    ("shared of carriers", "http://100.64.0.1/red.png"),
    ("multicast", "http://224.0.0.1/red.png"),
    ("bracket that does not close", "http://[::1/red.png"),
    ("no host", "http:///red.png"),
    ("port of text", "http://127.0.0.1:http/red.png"),
    ("port beyond the last", "http://127.0.0.1:99999/red.png"),
    ("password", "http://user:secret@127.0.0.1/red.png"),
    ("nul in the host", "http://127.0.0.1\0/red.png"),
    ("line end in the host", "http://127.0.0.1\r\nHost: x/red.png"),
    ("lone surrogate", "http://127.0.0.1/\ud800.png"),
    ("backslashes", "http:\\\\127.0.0.1\\red.png"),
]

CASES = cases("address", "address", ((name, given, refused("row 0", "image")) for name, given in _ADDRESSES))
