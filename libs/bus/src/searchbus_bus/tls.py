"""The files of a TLS connection, and what their faults are called."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from . import telemetry

CUT = BrokenPipeError, ConnectionResetError
"""What is raised where the other side cut the connection."""


def _noting(server: str) -> type[ssl.SSLObject]:
    class Noting(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()  # raises while it is not complete
            telemetry.note_certificate(server, self.getpeercert())

    return Noting


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of a TLS connection; without `ca` the authorities of the system are trusted.

    Args:
        of: whose they are, as in the names of their settings: NATS or QDRANT.
        ca: certificates of the authorities that sign the server's.
        certificate, key: of this client, where the server demands one.
        server: host and port; when its certificate ends is then measured at each connect.
    """

    of: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server: str = ""

    def context(self) -> ssl.SSLContext:
        """Read the files; raises ValueError, which names the setting of one that cannot be used."""
        path, name = self.ca, f"SEARCHBUS_{self.of}_CA_FILE"
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.key is not None:
                path, name = self.key, f"SEARCHBUS_{self.of}_KEY_FILE"
                self.key.read_bytes()  # what load_cert_chain raises does not say which of the two
            path, name = self.certificate, f"SEARCHBUS_{self.of}_CERT_FILE"
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
            elif self.key is not None:
                raise ValueError(
                    f"SEARCHBUS_{self.of}_KEY_FILE needs {name}: the certificate of the key"
                )
        except OSError as error:  # also ssl.SSLError
            if isinstance(error, ssl.SSLError):
                why = "is not what it must be: a certificate in PEM (and its own key)"
            else:
                why = f"cannot be read ({error.strerror})"
            raise ValueError(f"{name}: {path} {why}") from None
        if self.server:
            context.sslobject_class = _noting(self.server)
        return context

    def explain(self, server: str, error: BaseException | None, *, demanded: bool = False) -> str:
        """Why the handshake with a server failed, in a line; empty where TLS is not the reason. One
        that demands certificates (`demanded`) may cut the connection before its alert is read."""
        cut = isinstance(error, CUT)
        while error is not None and not isinstance(error, ssl.SSLError):
            error = error.__cause__ or error.__context__
        if isinstance(error, ssl.SSLCertVerificationError):
            trusted = str(self.ca) if self.ca is not None else "the authorities of the system"
            return (
                f"The certificate of {server} is not valid for {trusted}: {error.verify_message}. "
                f"Set SEARCHBUS_{self.of}_CA_FILE to the authority that signed it."
            )
        if error is None and not (cut and demanded and self.certificate is None):
            return ""
        reason = error.reason if error is not None else "it cut the connection"
        return (
            f"TLS with {server} failed ({reason}). If it demands certificates of "
            f"clients, set SEARCHBUS_{self.of}_CERT_FILE and SEARCHBUS_{self.of}_KEY_FILE."
        )
