"""Keys and certificates of the connection to NATS, while they change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509

from searchbus_bus import Seeds, TlsFiles, Worker, connect, telemetry
from searchbus_cli.secure import new_seed, public_key
from searchbus_contracts import Fault
from searchbus_testing import until
from searchbus_testing.certificates import self_signed

OLD, NEW = new_seed(), new_seed()


def accept(path, *seeds):
    users = ", ".join(f"{{ nkey: {public_key(seed)} }}" for seed in seeds)
    path.write_text(f"accounts: {{ BUS: {{ users: [{users}] }} }}\n")


async def test_a_key_is_rotated_while_the_connection_is_used(own_nats_server, tmp_path):
    """Its server is reloaded, not restarted; the order of the steps does not matter."""
    config, given = tmp_path / "nats.conf", [OLD]
    accept(config, OLD)
    server = own_nats_server("-c", str(config))
    bus = await connect(server.url, name="web", seeds=Seeds(lambda: given))
    given[:] = [OLD, NEW]
    accept(config, NEW)  # the old one is gone at once
    lost = asyncio.Event()
    bus.transport.on_disconnect(lost.set)
    server.reload()
    await until(lost.is_set)
    await until(lambda: bus.connected)
    assert bus.fault == ""
    given[:] = [NEW]
    server.stop()
    server.start()
    await until(lambda: bus.connected)
    await bus.close()


async def test_a_refused_key_is_named_until_it_is_accepted(own_nats_server, tmp_path, caplog):
    """Once in the log, with whose key it is and what to do."""
    config = tmp_path / "nats.conf"
    accept(config, OLD)
    server = own_nats_server("-c", str(config))
    seeds = Seeds.of(OLD, user="web", setting="nats_nkey_seed")
    bus = await connect(server.url, name="web", seeds=seeds)
    accept(config, NEW)
    with caplog.at_level(logging.ERROR):
        server.reload()
        await until(lambda: bus.fault)
        await until(lambda: server_log(server).count("authentication error") > 3)
    (said,) = [record.getMessage() for record in caplog.records if "refuses" in record.getMessage()]
    assert "the key of web: nats_nkey_seed" in said
    assert public_key(OLD) in said
    assert said == bus.fault
    assert OLD not in said
    accept(config, OLD)
    server.reload()
    await until(lambda: bus.connected and not bus.fault)
    await bus.close()


def server_log(server):
    return (server.folder / "nats.log").read_text()


async def test_a_refused_key_is_the_reason_of_a_failed_start(own_nats_server, tmp_path):
    """Not that no server answers."""
    config = tmp_path / "nats.conf"
    accept(config, OLD)
    server = own_nats_server("-c", str(config))
    said = await refusal(server.url, seeds=Seeds.of(NEW, user="web"))
    assert "refuses the key of web: nats_nkey_seed" in said


async def refusal(url: str, **options: Any) -> str:
    """Why a server does not let us in, as soon as a connection gets so far."""

    async def reason() -> str:
        with pytest.raises(Fault) as raised:
            await connect(url, name="web", connect_timeout_s=1.0, **options)
        message = raised.value.failure.message
        return "" if "No NATS server answers" in message else message

    return await until(reason)


async def test_a_certificate_of_another_authority_is_named(own_nats_server, tmp_path):
    """In one line: which file, which server, what to do."""
    folders = [tmp_path / name for name in ("server", "other")]
    for folder in folders:
        folder.mkdir()
    (cert, key), (other, _) = map(self_signed, folders)
    config = tmp_path / "nats.conf"
    config.write_text(f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n')
    server = own_nats_server("-c", str(config))
    tls = TlsFiles("NATS", other)
    said = await refusal(server.url, tls_files=tls)
    assert str(other) in said
    assert server.url in said
    assert "Set SEARCHBUS_NATS_CA_FILE" in said
    assert "the authorities of the system" in await refusal(server.url)
    bus = await connect(server.url, name="web", tls_files=TlsFiles("NATS", cert))
    await bus.close()


async def test_messages_by_tls_are_handed_over_as_they_are_received(
    own_nats_server, tmp_path, caplog
):
    """As without TLS: a reply does not wait for nats-py's read loop. Nothing is logged at the end."""
    cert, key = self_signed(tmp_path)
    config = tmp_path / "nats.conf"
    config.write_text(f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n')
    server = own_nats_server("-c", str(config))
    bus = await connect(server.url, name="web", tls_files=TlsFiles("NATS", cert))
    taken: list[bytes] = []
    protocol = bus.transport._client._transport._protocol
    take = protocol._take
    protocol._take = lambda data: taken.append(data) or take(data)
    here = await bus.serve(Worker("web"))
    assert await bus.ping("web", here.instance, 60)
    assert any(b"MSG" in data for data in taken)
    assert protocol.unread_bytes == 0
    await bus.close()
    server.stop()
    assert "eof_received" not in caplog.text


async def test_a_server_that_demands_certificates_gets_one(own_nats_server, tmp_path):
    """Without one the settings are named."""
    cert, key = self_signed(tmp_path)
    config = tmp_path / "nats.conf"
    config.write_text(
        f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{cert}", verify: true }}\n'
    )
    server = own_nats_server("-c", str(config))
    said = await refusal(server.url, tls_files=TlsFiles("NATS", cert))
    assert "SEARCHBUS_NATS_CERT_FILE and SEARCHBUS_NATS_KEY_FILE" in said
    tls = TlsFiles("NATS", cert, cert, key)
    bus = await connect(server.url, name="web", tls_files=tls)
    await bus.close()


async def test_the_end_of_a_servers_certificate_is_noted_at_each_connect(tmp_path):
    """Also of a server that is not NATS; one that is not trusted is not noted."""
    cert, key = self_signed(tmp_path)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(cert, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=served)
    port = server.sockets[0].getsockname()[1]
    for name, authority in (("trusted:1", cert), ("stranger:1", None)):
        context = TlsFiles("QDRANT", authority, server=name).context()
        with suppress(ssl.SSLCertVerificationError):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.close()
    end = x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc
    assert telemetry._certificate_ends["trusted:1"] == end.timestamp()
    assert "stranger:1" not in telemetry._certificate_ends
    server.close()


def test_files_that_cannot_be_used_are_named(tmp_path):
    """With the setting."""
    cert, key = self_signed(tmp_path)
    text = tmp_path / "text"
    text.write_text("no certificate")
    absent = tmp_path / "absent"
    for files, said in (
        ((absent,), f"SEARCHBUS_NATS_CA_FILE: {absent} cannot be read"),
        ((text,), f"SEARCHBUS_NATS_CA_FILE: {text} is not what it must be"),
        ((cert, text, key), f"SEARCHBUS_NATS_CERT_FILE: {text} is not what it must be"),
        ((cert, cert, absent), f"SEARCHBUS_NATS_KEY_FILE: {absent} cannot be read"),
        ((cert, None, key), "SEARCHBUS_NATS_KEY_FILE needs SEARCHBUS_NATS_CERT_FILE"),
    ):
        with pytest.raises(ValueError, match=said):
            TlsFiles("NATS", *files).context()
