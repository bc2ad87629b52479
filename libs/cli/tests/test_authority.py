"""Certificates of an authority of one's own."""

from __future__ import annotations

import asyncio
import ssl
import stat

import pytest
from cryptography import x509

from searchbus_bus import connect, telemetry
from searchbus_contracts import Fault
from searchbus_runtime import ServiceSettings, bus_options, load_settings
from searchbus_testing import at_last, run_command, until


def run(out, *arguments):
    done = run_command("nats-config", "--out", out, *arguments)
    assert done.returncode == 0, done.stderr


def client_settings(monkeypatch, out, name, **settings):
    monkeypatch.setenv("SEARCHBUS_SECRETS_DIR", str(out / name))
    files = {"ca": "ca.crt", "cert": "client.crt", "key": "client.key"}
    return load_settings(
        ServiceSettings,
        **{f"nats_{kind}_file": out / name / file for kind, file in files.items()},
        **settings,
    )


async def test_the_bus_speaks_tls_with_certificates_of_the_authority(
    own_nats_server, tmp_path, monkeypatch
):
    """NATS demands one of each client; one of another authority is refused by either side."""
    out, other = tmp_path / "ours", tmp_path / "others"
    for folder in (out, other):
        await asyncio.to_thread(run, folder, "--tls", "--tls-verify")
    config = str(out / "nats" / "nats.conf")
    server = own_nats_server("-c", config, "-sd", str(tmp_path / "js"))
    settings = client_settings(monkeypatch, out, "web")
    options = bus_options(settings)
    bus = await connect(server.url, name="web", **options)
    bucket = await bus.key_value("web_pace", ttl_s=10, max_bytes=10_000)
    await at_last(lambda: bucket.put("a", b"1"))
    # Renewed while clients are connected, and read again by both sides.
    before = (out / "web" / "client.crt").read_text()
    await asyncio.to_thread(run, out, "--tls", "--tls-verify")
    assert (out / "web" / "client.crt").read_text() != before
    server.reload()
    again = await connect(server.url, name="web", **options)
    end_s = x509.load_pem_x509_certificate(
        (out / "nats" / "tls.crt").read_bytes()
    ).not_valid_after_utc.timestamp()
    assert telemetry._certificate_ends[server.url.removeprefix("nats://")] == end_s
    for one in (bus, again):
        assert one.connected
        await one.close()
    strangers = bus_options(client_settings(monkeypatch, other, "web"))
    strangers |= {"seeds": options["seeds"]}

    async def refused() -> bool:  # a busy machine may get no answer in time
        with pytest.raises(Fault) as caught:
            await connect(server.url, name="web", connect_timeout_s=1.0, **strangers)
        return f"not valid for {other}/web/ca.crt" in str(caught.value)

    await until(refused)


def test_the_authority_is_kept_and_its_key_is_the_owners(tmp_path):
    """A run without `--tls` keeps the certificates, and TLS in the configuration."""
    run(
        tmp_path,
        "--tls",
        "--tls-name",
        "nats.searchbus.svc",
        "--tls-name",
        "10.0.0.7",
        "--kubernetes",
    )
    authority, config = tmp_path / "tls" / "ca.crt", tmp_path / "nats" / "nats.conf"
    first = {path: path.read_text() for path in (authority, config, tmp_path / "nats" / "tls.crt")}
    keys = [*tmp_path.glob("*/*.key")]
    assert len(keys) > 8
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in keys)
    found = x509.load_pem_x509_certificate((tmp_path / "nats" / "tls.crt").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"nats", "localhost", "nats.searchbus.svc"} <= set(
        names.get_values_for_type(x509.DNSName)
    )
    assert "10.0.0.7" in map(str, names.get_values_for_type(x509.IPAddress))
    manifests = (tmp_path / "secrets.yaml").read_text()
    assert '"nats-tls"' in manifests
    assert '"qdrant-tls"' in manifests
    run(tmp_path)
    assert first == {path: path.read_text() for path in first}
    ssl.create_default_context(cafile=authority).load_cert_chain(
        tmp_path / "edge" / "client.crt", tmp_path / "edge" / "client.key"
    )


def test_a_key_whose_certificate_was_not_written_any_more_signs_on(tmp_path):
    """A run that is cut off may leave the key alone."""
    run(tmp_path, "--tls")
    key = (tmp_path / "tls" / "ca.key").read_bytes()
    before = x509.load_pem_x509_certificate((tmp_path / "nats" / "tls.crt").read_bytes())
    (tmp_path / "tls" / "ca.crt").unlink()
    run(tmp_path, "--tls")
    assert (tmp_path / "tls" / "ca.key").read_bytes() == key
    authority = x509.load_pem_x509_certificate((tmp_path / "tls" / "ca.crt").read_bytes())
    before.verify_directly_issued_by(authority)


def test_a_certificate_is_renewed_for_the_same_key(tmp_path):
    """A service that starts meanwhile finds a pair; a deleted key, or a damaged one, is made anew."""
    run(tmp_path, "--tls")
    folder = tmp_path / "edge"
    certificate, key = folder / "client.crt", folder / "client.key"
    before = certificate.read_bytes(), key.read_bytes()
    run(tmp_path, "--tls")
    assert certificate.read_bytes() != before[0]
    assert key.read_bytes() == before[1]
    for spoil in (key.unlink, lambda: key.write_text("x")):
        spoil()
        run(tmp_path, "--tls")
        assert key.read_bytes() != before[1]
        ssl.create_default_context().load_cert_chain(certificate, key)


@pytest.mark.parametrize("file", ["ca.crt", "ca.key"])
def test_a_damaged_authority_is_named(tmp_path, file):
    """Its certificates would be worthless for those who trust the old one: none is made anew."""
    run(tmp_path, "--tls")
    (tmp_path / "tls" / file).write_text("x")
    done = run_command("nats-config", "--out", tmp_path, "--tls")
    assert done.returncode == 2
    assert "put ca.crt and ca.key back" in done.stderr
    (tmp_path / "tls" / "ca.key").unlink()
    done = run_command("nats-config", "--out", tmp_path, "--tls")
    assert "put ca.crt and ca.key back" in done.stderr
