"""The certificate is one that clients accept for 127.0.0.1, and for no other host."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from searchbus_testing.certificates import self_signed


@pytest.mark.parametrize(
    ("host", "accepted"), [("127.0.0.1", True), ("127.0.0.2", False), ("localhost", False)]
)
async def test_it_is_valid_for_loopback_only(tmp_path, host, accepted):
    """For a client that trusts it."""
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    connecting = asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=host)
    try:
        if accepted:
            _, writer = await connecting
            writer.close()
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                await connecting
    finally:
        server.close()
