"""The name of a host → the addresses that may be connected to: public ones, unless others are asked for.

Whoever wrote a list of images must not be able to make this machine fetch from its own network, such as from
the service at 169.254.169.254 that hands out the passwords of cloud machines. Addresses are checked, not the
spelling of names: http://2130706433/, http://0x7f.1/ and a name that leads to 127.0.0.1 are the same.
"""

from __future__ import annotations

import ipaddress
import socket

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
