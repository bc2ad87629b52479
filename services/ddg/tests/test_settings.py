"""Settings of the service."""

from __future__ import annotations

import pytest

from searchbus_ddg.settings import DdgSettings


def test_every_kind_of_egress_is_accepted():
    """Direct, an own address, proxies."""
    egresses = ("direct", "bind:10.0.0.7", "bind:2001:db8::1", "http://p:3128", "socks5://p:1080")
    assert DdgSettings(ddg_egress=egresses).ddg_egress == egresses


@pytest.mark.parametrize(
    ("egresses", "said"),
    [
        (("ftp://user:secret@proxy",), "not 'ftp…'"),
        (("bind:eth0",), "not 'bind…'"),
        (("direct", "direct"), "listed twice"),
        ((), "at least 1"),
    ],
)
def test_faults_name_the_remedy_and_no_credentials(egresses, said):
    """Of a proxy's URL only the scheme is shown."""
    with pytest.raises(ValueError) as caught:
        DdgSettings(ddg_egress=egresses)
    message = str(caught.value).partition("input_value")[0]
    assert said in message
    assert "secret" not in message
