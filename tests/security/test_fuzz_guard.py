"""The guard of addresses against `ipaddress`: whatever is allowed is public. Opens no connection."""

from __future__ import annotations

import ipaddress

import httpcore
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from searchbus_upstream import GuardedBackend, is_public_host
from searchbus_upstream.addresses import is_public_address
from searchbus_upstream.guard import AddressRefusedError

INNER = st.one_of(
    st.ip_addresses(v=4),
    st.sampled_from(
        "127.0.0.1 10.0.0.1 169.254.169.254 192.168.0.1 172.16.0.1 0.0.0.0 100.64.0.1 8.8.8.8".split()
    ).map(ipaddress.IPv4Address),
)
FORMS = {
    "compatible": lambda v4: v4,
    "mapped": lambda v4: 0xFFFF << 32 | v4,
    "translated": lambda v4: 0xFFFF << 48 | v4,
    "nat64": lambda v4: 0x64FF9B << 96 | v4,
    "nat64 local": lambda v4: 0x64FF9B0001 << 80 | v4,
    "6to4": lambda v4: 0x2002 << 112 | v4 << 80,
    "teredo": lambda v4: 0x20010000 << 96 | (v4 ^ 0xFFFFFFFF),
    "teredo server": lambda v4: 0x20010000 << 96 | v4 << 64,
}
CARRIERS = st.builds(
    lambda form, v4: ipaddress.IPv6Address(FORMS[form](int(v4))),
    st.sampled_from(list(FORMS)),
    INNER,
)
NETWORKS = st.sampled_from(
    "3ffe::/16 3fff::/20 2001::/23 2001:db8::/32 fc00::/7 fe80::/10 fec0::/10 ff00::/8 100::/64 5f00::/16 "
    "2620:4f:8000::/48 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 "
    "198.18.0.0/15 224.0.0.0/4 240.0.0.0/4".split()
).map(ipaddress.ip_network)
IN_NETWORKS = NETWORKS.flatmap(
    lambda network: st.integers(0, network.num_addresses - 1).map(lambda n: network[n])
)
ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6), CARRIERS, IN_NETWORKS)


def inner_of(address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a form of IPv6 carries, by `ipaddress` where it has it."""
    if address.version == 4:
        return None
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if int(address) >> 32 in (0, 0xFFFF << 16, 0x64FF9B << 64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def require_public(address) -> None:
    if not is_public_address(address):
        return
    inner = inner_of(address)
    if inner is not None:
        assert inner.is_global and not inner.is_multicast, address
        return
    assert address.is_global, address
    for name in (
        "is_private",
        "is_multicast",
        "is_reserved",
        "is_loopback",
        "is_link_local",
        "is_unspecified",
    ):
        assert not getattr(address, name), (address, name)
    assert not getattr(address, "is_site_local", False), address


@pytest.mark.slow
@settings(max_examples=2_500, deadline=None)
@given(ADDRESSES)
@example(ipaddress.ip_address("::127.0.0.1"))
@example(ipaddress.ip_address("::ffff:0:7f00:1"))
@example(ipaddress.ip_address("3ffe::1"))
@example(ipaddress.ip_address("64:ff9b::7f00:1"))
def test_no_address_that_is_not_public_is_allowed(address):
    """Also as the host of a URL."""
    require_public(address)
    host = f"[{address}]" if address.version == 6 else str(address)
    assert is_public_host(host) is is_public_address(address)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "inner", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "192.168.1.1"]
)
async def test_name_with_a_private_address_in_any_form_is_not_connected_to(form, inner):
    """The resolver is a fake, as is what would open the connection."""
    opened = []

    class Recorder(httpcore.AsyncNetworkBackend):
        async def connect_tcp(self, host, port, **_):
            opened.append(host)
            raise httpcore.ConnectError("recorded")

    async def resolver(host, port):
        return [ipaddress.IPv6Address(FORMS[form](int(ipaddress.IPv4Address(inner))))]

    guard = GuardedBackend(resolver=resolver, backend=Recorder())
    with pytest.raises(AddressRefusedError):
        await guard.connect_tcp("a.example.com", 80)
    assert opened == []
