"""Which addresses belong to the public internet, and which URLs name the same page.

An address is public where both this table and `ipaddress` say so. The table has what
`ipaddress.is_global` accepts or does not have (measured: NAT64 and 6to4 forms of 127.0.0.1,
fec0::1, multicast): the IANA special-purpose registries (RFC 6890 and its updates), the former
6bone, and the metadata addresses of cloud providers. Of IPv6 only 2000::/3 is assigned to the
public internet; beside it, NAT64 (64:ff9b::/96) is judged by the IPv4 address that it carries.
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from urllib.parse import parse_qsl, unquote, unquote_plus, urlencode, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_DENIED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
        "192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 "
        "192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
        "168.63.129.16/32 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20"
    ).split()
]
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_MAX_HOST_CHARS = 253
_LOCAL_NAMES = ("localhost", "internal", "local", "localdomain", "home.arpa", "lan", "intranet")


def is_public_address(address: Address) -> bool:
    """Whether an address belongs to the public internet.

    Forms that carry an IPv4 address (mapped, compatible, translated, 6to4, Teredo, NAT64 with a
    local prefix) never do: public sites do not publish them. NAT64's well-known prefix is the
    exception, since resolvers of networks without IPv4 make it (RFC 6147).
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public_address(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    if not address.is_global or address.is_multicast:
        return False
    return not any(address in network for network in _DENIED if network.version == address.version)


def is_public_host(host: str) -> bool:
    """Whether a URL's host can be public, judged by its spelling alone (no DNS)."""
    name = host.strip("[]").rstrip(".").lower()
    if not name or len(name) > _MAX_HOST_CHARS:
        return False
    if any(c.isspace() or c in "\\/@%" for c in name):
        return False
    with suppress(ValueError):
        return is_public_address(ipaddress.ip_address(name))
    labels = name.split(".")
    # Unusual spellings of IPv4 (2130706433, 0x7f.1, 0177.0.0.1) end in a number; names do not.
    if len(labels) < 2 or labels[-1].isdigit() or labels[-1].startswith("0x") or "" in labels:
        return False
    return not any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES)


def is_public_url(url: str) -> bool:
    """Whether a URL is http or https, has no credentials and a host that can be public."""
    if any(ord(c) < 32 or ord(c) == 127 or c == "\\" for c in url):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or port == 0:
        return False
    return is_public_host(parts.hostname or "")


_TRACKERS = re.compile(
    r"^(utm_\w+|fbclid|gclid|gclsrc|gad_source|dclid|gbraid|wbraid|srsltid|msclkid|yclid|ttclid|"
    r"twclid|li_fat_id|igshid|mc_[ce]id|mkt_tok|_hsenc|_hsmi|ref_src|ref_url|spm|vero_id|"
    r"oly_\w+_id|wickedid|s_cid|cmpid|ncid)$",
    re.I,
)
_PREFIXES = re.compile(r"^(www\d?|m|mobile|amp)\.")


def canonical_key(url: str) -> str:
    """A key that is equal for all URLs of one page.

    It ignores scheme, `www`, `m` and `amp`, tracking parameters, the fragment and the order of
    parameters. For comparison only: the key is not a URL. Text that is not a URL is its own key.
    """
    try:
        parts = urlsplit(url)
        given_port = parts.port
    except ValueError:  # others wrote it: an invalid address in brackets, or an invalid port
        return url
    host = (parts.hostname or "").rstrip(".").lower()
    with suppress(UnicodeError):
        host = host.encode("idna").decode()
    host = _PREFIXES.sub("", host) if host.count(".") > 1 else host
    port = f":{given_port}" if given_port not in (None, 80, 443) else ""
    segments: list[str] = []
    for segment in parts.path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(unquote(segment))
    path = "/".join(segments).rstrip("/").removesuffix("/index.html").removesuffix("/amp")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(sorted(pair for pair in pairs if not _TRACKERS.match(pair[0])))
    return f"{host}{port}{path}?{query}" if query else f"{host}{port}{path}"


def without_trackers(url: str) -> str:
    """The URL without tracking parameters; every other character stays as it is."""
    rest, hash_sign, fragment = url.partition("#")
    path, mark, query = rest.partition("?")
    if not mark:
        return url
    pairs = query.split("&")
    kept = [pair for pair in pairs if not _TRACKERS.match(unquote_plus(pair.partition("=")[0]))]
    if len(kept) == len(pairs):
        return url
    return path + ("?" if kept else "") + "&".join(kept) + hash_sign + fragment
