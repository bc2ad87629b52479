"""URLs that name the same page: compared, and without what only follows readers."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, unquote_plus, urlencode, urlsplit

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
    parameters. For comparison only: the key is not a URL. What is no URL is its own key.
    """
    try:
        parts = urlsplit(url)
        given_port = parts.port
    except ValueError:  # others wrote it: an address in brackets or a port that is none
        return url
    host = (parts.hostname or "").rstrip(".").lower()
    try:
        host = host.encode("idna").decode()
    except UnicodeError:
        pass
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
