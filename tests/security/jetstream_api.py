"""Every subject of JetStream's API, for a stream."""

from __future__ import annotations

_WITHOUT_STREAM = (
    "INFO", "STREAM.NAMES", "STREAM.LIST", "META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.BUS",
)  # fmt: skip
_ABOUT_STREAM = (
    "STREAM.CREATE.{}", "STREAM.UPDATE.{}", "STREAM.INFO.{}", "STREAM.DELETE.{}", "STREAM.PURGE.{}",
    "STREAM.MSG.GET.{}", "STREAM.MSG.DELETE.{}", "STREAM.SNAPSHOT.{}", "STREAM.RESTORE.{}",
    "STREAM.PEER.REMOVE.{}", "STREAM.LEADER.STEPDOWN.{}", "DIRECT.GET.{}", "DIRECT.GET.{}.$KV.probe",
    "CONSUMER.CREATE.{}", "CONSUMER.CREATE.{}.probe", "CONSUMER.CREATE.{}.probe.$KV.probe",
    "CONSUMER.DURABLE.CREATE.{}.probe", "CONSUMER.NAMES.{}", "CONSUMER.LIST.{}",
    "CONSUMER.INFO.{}.probe", "CONSUMER.DELETE.{}.probe", "CONSUMER.MSG.NEXT.{}.probe",
    "CONSUMER.PAUSE.{}.probe", "CONSUMER.UNPIN.{}.probe", "CONSUMER.LEADER.STEPDOWN.{}.probe",
)  # fmt: skip


def requests_about(*streams: str) -> set[str]:
    """The subjects of all requests about these streams, and of those about none."""
    found = {f"$JS.API.{request}" for request in _WITHOUT_STREAM}
    for stream in streams:
        found |= {f"$JS.API.{request.format(stream)}" for request in _ABOUT_STREAM}
        found |= {f"$JS.ACK.{stream}.probe.1.1.1.1.1", f"$JS.FC.{stream}.probe.x"}
    return found
