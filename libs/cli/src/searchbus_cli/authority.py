"""`searchbus nats-config --tls`: an authority of this installation, and the certificates it signs.

    tls/ca.crt, tls/ca.key               the authority, made once; its key is for this command only
    nats/, qdrant/: ca.crt, tls.crt, tls.key    of the two servers
    <service>/: ca.crt, client.crt, client.key  of each client, for servers that demand one

Every run signs new certificates, which are valid for a year: run it again to renew them. A key
stays until it is deleted, so that a service which reads its two files meanwhile finds a pair.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from searchbus_runtime.files import write_atomically

from .errors import StackError

SERVERS = {"nats": "nats", "qdrant": "qdrant-peers"}
"""Name → under which the servers of a cluster reach each other, as in the Helm chart."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_MOST_OF_A_CLUSTER = 9
_CA_DAYS, _DAYS = 3650, 366
_EARLIER = datetime.timedelta(hours=1)
"""Clocks of other machines may be behind."""
_Issuer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def write_certificates(out: Path, clients: Iterable[str], names: Iterable[str]) -> None:
    """Sign a certificate for each server and each client.

    Args:
        out: the folder of `searchbus nats-config`.
        clients: names of the services.
        names: under which clients reach the servers, beside `nats`, `qdrant` and loopback; host
            names, `*.example.org` or addresses.

    Raises:
        StackError: the authority's files are damaged, or are not a pair; a name is none.
        OSError: a file cannot be read or written.
    """
    given = [_general_name(name) for name in names]  # before anything is written
    issuer = _authority(out / "tls")
    for server, peers in SERVERS.items():
        each = [f"{server}-{number}.{peers}" for number in range(_MOST_OF_A_CLUSTER)]
        reached = [_general_name(one) for one in (server, *each, "localhost", "127.0.0.1")]
        _issue(out / server, "tls", server, issuer, reached + given)
    for client in clients:
        _issue(out / client, "client", client, issuer, [])


def tls_block(certificate: Path, key: Path | None, *, verify: bool) -> str:
    """The part of the server's configuration; the authority lies beside the certificate."""
    demand = f', ca_file: "{certificate.with_name("ca.crt")}", verify: true' if verify else ""
    return f'tls {{ cert_file: "{certificate}", key_file: "{key}"{demand} }}\n'


def _authority(folder: Path) -> _Issuer:
    """The authority of the folder, which is made where there is none."""
    certificate, private = folder / "ca.crt", folder / "ca.key"
    try:
        if certificate.exists() or private.exists():
            key = _signing_key(private)
        else:
            key = ec.generate_private_key(ec.SECP256R1())
        if not certificate.exists():  # also where a run was cut off when it had written the key
            builder = _builder("searchbus", _CA_DAYS, key).add_extension(
                x509.BasicConstraints(ca=True, path_length=0), critical=True
            )
            own = builder.issuer_name(_name("searchbus")).sign(key, hashes.SHA256())
            _write(folder, "ca", own, key)
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (ValueError, TypeError, FileNotFoundError):
        raise StackError(f"{folder} is damaged: put ca.crt and ca.key back from a copy.") from None
    if found.public_key() != key.public_key():
        raise StackError(f"{private} is not the key of {certificate}: put both back from a copy.")
    return found, key


def _signing_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not a key of an elliptic curve")
    return key


def _issue(
    folder: Path, file: str, name: str, issuer: _Issuer, reached: list[x509.GeneralName]
) -> None:
    """A certificate and its key as `<file>.crt` and `<file>.key`, and the authority's as ca.crt."""
    authority, signs = issuer
    try:
        key = _signing_key(folder / f"{file}.key")
    except (ValueError, TypeError, FileNotFoundError):
        key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, _DAYS, key).issuer_name(authority.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
    builder = builder.add_extension(identifier, False)
    if reached:
        builder = builder.add_extension(x509.SubjectAlternativeName(reached), False)
    _write(folder, file, builder.sign(signs, hashes.SHA256()), key)
    write_atomically(folder / "ca.crt", authority.public_bytes(Encoding.PEM))


def _builder(name: str, days: int, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if not _HOST.fullmatch(name):
            raise StackError(
                f"--tls-name {name}: give a host name of ASCII, such as nats.example.org, or an "
                "address."
            ) from None
        return x509.DNSName(name)


def _write(
    folder: Path, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_atomically(folder / f"{file}.key", private, mode=0o600)
    write_atomically(folder / f"{file}.crt", certificate.public_bytes(Encoding.PEM))
