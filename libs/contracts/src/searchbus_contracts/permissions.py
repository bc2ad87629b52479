"""What each service may do on the bus: everything else is denied (proto/README.md §4.4).

The table says which subjects a service serves, which it calls, and which shared buckets it uses;
the lists of a NATS user follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .subjects import DEFAULT_PREFIX

__all__ = ["SERVICES", "Part", "inbox_prefix", "publishes", "subscribes"]


@dataclass(frozen=True, slots=True)
class Part:
    """One service's part; subjects below `<prefix>.v1.`.

    Args:
        calls: subject → the service that answers there.
        follows: whether it keeps a directory of all workers.
        buckets: of NATS KV, without the prefix.
    """

    serves: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    follows: bool = False
    buckets: tuple[str, ...] = ()


_EVERYBODY = "*"
_ALL_CALLS = (
    ("tool.>", _EVERYBODY), ("resource.>", _EVERYBODY), ("retrieval.*", "retrieval"),
    ("toolindex.search", "toolindex"),
)  # fmt: skip
SERVICES: dict[str, Part] = {
    "edge": Part(serves=("tool.connector.*",), calls=_ALL_CALLS, follows=True, buckets=("limits",)),
    "retrieval": Part(serves=("tool.fomc.*", "resource.documents.*", "retrieval.*")),
    "toolindex": Part(serves=("toolindex.search",), follows=True),
    "ddg": Part(
        serves=("tool.ddg.*", "ddg.*"),
        calls=(("ddg.fetch", "ddg"),),
        buckets=("ddg_leases", "ddg_refusals", "ddg_answers", "ddg_flights"),
    ),
    "web": Part(
        serves=("tool.web.*",),
        calls=(("ddg.search", "ddg"),),
        buckets=("web_pace", "web_answers", "web_flights", "pages_answers", "pages_flights"),
    ),
    "cli": Part(calls=_ALL_CALLS, follows=True),
}
"""The services that are shipped, and the command line of whoever runs them."""


def inbox_prefix(service: str) -> str:
    """A service's own reply subjects begin with this: nobody else may listen there."""
    return f"_INBOX_{service}"


def publishes(service: str, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Subjects a service may publish to; replies are allowed besides."""
    part = SERVICES[service]
    root = f"{prefix}.v1"
    found = [f"{root}.{subject}" for subject, _ in part.calls]
    answered_by = {answering for _, answering in part.calls}
    if _EVERYBODY in answered_by:
        found.append(f"{root}.ctl.cancel.*")
    else:
        found += [f"{root}.ctl.cancel.{name}" for name in sorted(answered_by)]
    if part.serves:
        found += [f"{root}.evt.catalog", f"{root}.ctl.ping.*"]
        # A worker that pulls the parts of a request may give that up.
        found.append(f"{root}.ctl.cancel.{_own_name(service)}")
        # Large requests are pulled in parts from whoever may call (§5).
        callers = sorted(name for name, other in SERVICES.items() if _may_call(other, service))
        found += [f"{inbox_prefix(name)}.*.*.part" for name in callers]
    if part.follows:
        found += ["$SRV.INFO", f"{root}.catalog.*"]
    for name in part.buckets:
        bucket = f"{prefix}_{name}"
        stream = f"KV_{bucket}"
        found += [
            f"$KV.{bucket}.>",
            f"$JS.API.STREAM.CREATE.{stream}",
            f"$JS.API.STREAM.INFO.{stream}",
            f"$JS.API.STREAM.MSG.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}.>",
            f"$JS.API.CONSUMER.CREATE.{stream}",
            f"$JS.API.CONSUMER.CREATE.{stream}.>",
            f"$JS.API.CONSUMER.DELETE.{stream}.>",
            f"$JS.API.CONSUMER.INFO.{stream}.>",
        ]
    return sorted(set(found))


def subscribes(service: str, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Subjects a service may listen to."""
    part = SERVICES[service]
    root = f"{prefix}.v1"
    found = [f"{inbox_prefix(service)}.>"]
    if part.serves:
        found += [f"{root}.{subject}" for subject in part.serves]
        found += [f"{root}.catalog.*", f"{root}.ctl.cancel.{_own_name(service)}", "$SRV.>"]
        found.append(f"{root}.ctl.ping.*")
    if part.follows:
        found.append(f"{root}.evt.catalog")
    return sorted(found)


def _own_name(service: str) -> str:
    # The edge serves as the connector: that is its queue group and its name for cancelling.
    return "connector" if service == "edge" else service


def _may_call(caller: Part, service: str) -> bool:
    return any(answering in (service, _EVERYBODY) for _, answering in caller.calls)
