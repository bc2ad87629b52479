"""How a server is reached that listens on an address."""

from __future__ import annotations

import pytest

from searchbus_runtime.addresses import url_of


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:81"),
        ("192.168.1.5", "http://192.168.1.5:81"),
        ("fd00::1", "http://[fd00::1]:81"),
        ("0.0.0.0", "http://127.0.0.1:81"),
        ("::", "http://127.0.0.1:81"),
        ("", "http://127.0.0.1:81"),
    ],
)
def test_a_server_on_every_address_is_reached_on_loopback(host, url):
    """Its own form is no address to connect to, and edges refuse it as a Host header."""
    assert url_of(host, 81) == url
