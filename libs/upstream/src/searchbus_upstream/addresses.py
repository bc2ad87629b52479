"""Which addresses belong to the public internet.

An explicit table, because `ipaddress.is_global` accepts some internal addresses (measured: NAT64
and 6to4 forms of 127.0.0.1, fec0::1, multicast). Sources: the IANA special-purpose registries of
IPv4 and IPv6 addresses (RFC 6890 and its updates) and the metadata addresses of cloud providers.
IPv6 forms that carry an IPv4 address (mapped, NAT64, 6to4, Teredo) are refused.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

__all__ = ["is_public_address", "is_public_host", "is_public_url"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_DENIED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
        "192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 "
        "192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
        "168.63.129.16/32 ::/128 ::1/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 "
        "100:0:0:1::/64 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 "
        "fc00::/7 fe80::/10 fec0::/10 ff00::/8"
    ).split()
]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAMES = ("localhost", "internal", "local", "localdomain", "home.arpa", "lan", "intranet")


def is_public_address(address: Address) -> bool:
    """Whether an address belongs to the public internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and address.teredo is not None:
            inner = address.teredo[1]
        if inner is not None:
            return False  # public sites do not publish such forms, whatever they carry
    return not any(address in network for network in _DENIED if network.version == address.version)


def is_public_host(host: str) -> bool:
    """Whether a URL's host can be public, judged by its spelling alone (no DNS)."""
    name = host.strip("[]").rstrip(".").lower()
    if not name or any(c.isspace() or c in "\\/@%" for c in name):
        return False
    try:
        return is_public_address(ipaddress.ip_address(name))
    except ValueError:
        pass
    labels = name.split(".")
    # Unusual spellings of IPv4 (2130706433, 0x7f.1, 0177.0.0.1) end in a number; names do not.
    if len(labels) < 2 or labels[-1].isdigit() or labels[-1].startswith("0x") or "" in labels:
        return False
    return not any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES)


def is_public_url(url: str) -> bool:
    """Whether a URL is http or https, has no credentials and a host that can be public."""
    if any(ord(c) < 33 or ord(c) == 127 or c == "\\" for c in url):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or port == 0:
        return False
    return is_public_host(parts.hostname or "")
