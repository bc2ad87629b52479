"""Settings of the edge: safe off loopback, defaults that depend on the mode."""

from __future__ import annotations

import pytest

from searchbus_edge.http.faults import HttpRefusedError
from searchbus_edge.http.head import Head
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.admission import AddressRules


def settings(**options) -> EdgeSettings:
    return EdgeSettings(_env_file=None, **options)


def test_modes_follow_the_address():
    """Open on loopback; elsewhere by tokens, unless the operator says otherwise."""
    assert settings().mode == "none"
    assert settings(host="::1").mode == "none"
    outside = settings(host="0.0.0.0", issuer="https://idp", public_url="https://x.example")
    assert outside.mode == "jwt"
    assert settings(host="0.0.0.0", auth="none").mode == "none"


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"host": "0.0.0.0"}, "SEARCHBUS_ISSUER"),
        ({"auth": "jwt", "issuer": "https://idp"}, "SEARCHBUS_PUBLIC_URL"),
        ({"auth": "static"}, "SEARCHBUS_KEYS_FILE"),
        ({"state_key": "short"}, "32"),
        ({"trusted_proxies": ("proxy.example",)}, "not an address or a network"),
        ({"trusted_proxies": ("*",)}, "not an address or a network"),
    ],
)
def test_incomplete_settings_name_what_is_missing(options, remedy):
    """At the start, not at the first request."""
    with pytest.raises(ValueError, match=remedy):
        settings(**options)


def test_rates_follow_the_mode():
    """Unknown callers share one count: only searches have a limit, a higher one."""
    assert settings().rates_per_s == (500.0, 0.0, 0.0)
    known = settings(auth="static", keys_file="keys.json")
    assert known.rates_per_s == (100.0, 50.0, 500.0)
    assert settings(call_rate_per_s=7).rates_per_s == (500.0, 7.0, 0.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "http://127.0.0.1:81"),
        ({"host": "::1"}, "http://[::1]:81"),
        ({"host": "0.0.0.0", "auth": "none"}, "http://127.0.0.1:81"),
        ({"public_url": "https://x.example/"}, "https://x.example"),
    ],
)
def test_base_url_is_public_or_the_bound_address(options, expected):
    """Without a slash at its end: paths are appended."""
    assert settings(**options).base_url(81) == expected


def test_hosts_and_origins_include_loopback_with_any_port():
    """Besides those of the settings."""
    found = settings(allowed_hosts=("x.example",), allowed_origins=("https://x.example",))
    assert {"localhost", "127.0.0.1:*", "[::1]:*", "x.example"} <= set(found.hosts)
    assert {"http://localhost:*", "https://x.example"} <= set(found.origins)
    assert "*" not in found.hosts


@pytest.mark.parametrize("host", ["192.168.1.5", "fd00::1", "::1", "::", "0.0.0.0", "box.lan", ""])
def test_an_edge_accepts_the_address_that_it_tells_its_clients(host):
    """No setting is needed for what `searchbus up --host` prints, nor for a page of that address."""
    found = settings(host=host, auth="none")
    url = found.base_url(81)
    rules = AddressRules(found.hosts, found.origins)
    rules.check(Head((), host=url.removeprefix("http://"), origin=url))
    for other in ("", "evil.example", "0.0.0.0:81", "[::]:81", "192.168.1.6"):
        with pytest.raises(HttpRefusedError, match="Set SEARCHBUS_ALLOWED_HOSTS") as raised:
            rules.check(Head((), host=other))
        assert raised.value.status == 421
