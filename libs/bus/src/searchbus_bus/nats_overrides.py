"""What this package overrides in nats-py 2.16, and which upstream change would end each override.

Private methods may change in any release: pyproject.toml pins the minor version, and
tests/test_nats_overrides.py fails when the pinned release no longer needs an override.

| override | reason | ends when nats-py |
| --- | --- | --- |
| `Client._build_message` | decodes subjects as strict UTF-8; the error ends the read loop, and \
the connection receives nothing more | decodes them tolerantly, or drops the message and goes on |
| `Client._process_headers` | the same for the status line and its description | catches decoding \
errors there too, as it does for the header lines |
| `Service.info` (public) | lists only endpoints that micro subscribes to; these run one callback \
at a time, and stop() cuts them off instead of draining | can describe an endpoint that it does \
not subscribe to |
"""

from __future__ import annotations

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.micro.service import Service, ServiceConfig, ServiceInfo

from .transport import ServiceRecord

__all__ = ["DescribedService", "TolerantClient"]


class TolerantClient(Client):
    """nats-py's client, except that invalid UTF-8 in one message does not end the connection."""

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        return Msg(
            _client=self,
            subject=subject.decode("utf-8", "replace"),
            reply=reply.decode("utf-8", "replace"),
            data=data,
            headers=headers,
            _sid=sid,
        )

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            return None


class DescribedService(Service):
    """A micro service whose `$SRV.INFO` lists endpoints that the bus itself subscribes to."""

    def __init__(self, client: Client, record: ServiceRecord) -> None:
        super().__init__(
            client,
            ServiceConfig(
                name=record.name,
                version=record.version,
                description=record.description,
                metadata=record.metadata,
            ),
        )
        self._record = record

    def info(self) -> ServiceInfo:
        """What `$SRV.INFO` replies."""
        return ServiceInfo.from_dict(
            {**super().info().to_dict(), "endpoints": self._record.endpoints}
        )
