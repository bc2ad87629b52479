"""What a service is, declared once in its package: the part it has on the bus.

The package names its `SERVICE` in an entry point of group `searchbus.services`. Permissions and
keys of the bus, `searchbus up`, `doctor`, the tests and the deployment files are derived from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import msgspec

from .subjects import DEFAULT_PREFIX, DISCOVERY, PART, check_tokens, inbox_prefix

ENTRY_POINT_GROUP = "searchbus.services"
_ANY = "*"
ATTACHED_FAMILIES = ("tool", "resource", "prompt")
"""Families of the subjects of a service that attaches toolsets: `<family>.<toolset>.*`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What a service's container needs; deploy/generate.py writes Compose and Kubernetes from it.

    Args:
        cpu: requested, in Kubernetes' units: "50m" is 5 % of a core.
        cpu_limit: at most.
        memory: requested, in Mi or Gi.
        memory_limit: at most; also the limit in Compose.
        replicas: of the Deployment; `None` where an autoscaler decides.
        internet: whether it connects to public addresses. The network policy denies them otherwise.
        volume: of Compose, at /data; without one /data is in memory.
    """

    cpu: str = "100m"
    cpu_limit: str = "1"
    memory: str = "128Mi"
    memory_limit: str = "256Mi"
    replicas: int | None = 2
    internet: bool = False
    volume: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One kind of process. Subjects are given without `<prefix>.v1.`.

    Args:
        name: of the process, its image, its keys and (unless `queue_group`) its queue group.
        description: one line for people.
        start: `module:function` that wires the service: `async start(process)`.
        settings: `module:class` of its settings.
        toolsets: whose tools it serves, `tool.<toolset>.*`.
        resources: toolsets whose resources it serves, `resource.<toolset>.*`.
        prompts: toolsets whose prompts it offers, where it has no tools or resources of these.
        endpoints: verbs of the typed requests that it handles, `<name>.<verb>`.
        calls: subjects it sends requests to, such as `ddg.search`, `retrieval.*` or `tool.>`.
        calls_for: pairs of a toolset and subjects that only its tools send requests to: the other
            toolsets do not need these services.
        follows_catalog: whether it keeps a directory of all workers.
        serves_every_endpoint: whether every MCP endpoint of the edge uses it, whatever its toolset.
        attaches_toolsets: whether it also serves toolsets that are known only at run time: any that
            no service declares. One of its instances may send a request for these to another one.
        started_by: (environment variable, file): `searchbus up` starts it once that file exists,
            which the variable names, and otherwise `file` in the data folder. Empty: always.
        buckets: of the key-value store that it reads and writes, without the prefix.
        scalable_with: the environment variable without which a machine can run only one process,
            because the data folder has one owner. Empty: any number of processes.
        signs_callers: whether it holds the private key of the `Actor` header. For the edge only.
        queue_group: where it is not the name.
        preload: modules that take long to import; a launcher does that once, and then forks.
        container: what its container needs.
    """

    name: str
    description: str = ""
    start: str = ""
    settings: str = "searchbus_runtime:ServiceSettings"
    toolsets: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    calls_for: tuple[tuple[str, tuple[str, ...]], ...] = ()
    follows_catalog: bool = False
    serves_every_endpoint: bool = False
    attaches_toolsets: bool = False
    started_by: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()
    scalable_with: str = ""
    signs_callers: bool = False
    queue_group: str = ""
    preload: tuple[str, ...] = ()
    container: Container = Container()

    def __post_init__(self) -> None:
        check_tokens(self.name, *self.offers, *self.endpoints, *self.buckets, self.group)

    @property
    def group(self) -> str:
        """Its queue group, which is also its name for cancelling."""
        return self.queue_group or self.name

    @property
    def offers(self) -> tuple[str, ...]:
        """Its toolsets, each an MCP endpoint: of tools, resources and prompts."""
        return (*self.toolsets, *self.resources, *self.prompts)

    @property
    def serves(self) -> tuple[str, ...]:
        """Subjects whose requests it handles."""
        return (
            *(f"{family}.*.*" for family in ATTACHED_FAMILIES if self.attaches_toolsets),
            *(f"tool.{toolset}.*" for toolset in self.toolsets),
            *(f"resource.{toolset}.*" for toolset in self.resources),
            *(f"{self.name}.{verb}" for verb in self.endpoints),
        )

    @property
    def every_call(self) -> tuple[str, ...]:
        """Subjects that it sends requests to, for whatever toolset."""
        return self.calls + tuple(subject for _, calls in self.calls_for for subject in calls)

    def narrowed(self, toolset: str) -> Service:
        """The service as one of its toolsets needs it; unchanged for another service's toolset."""
        if toolset not in self.offers:
            return self
        return replace(self, calls_for=tuple(c for c in self.calls_for if c[0] == toolset))

    @property
    def callees(self) -> frozenset[str]:
        """Names of the services that it sends requests to; `*` stands for any of them."""
        first = {subject.split(".")[0] for subject in self.every_call}
        own = {self.name} if self.attaches_toolsets else set()
        return frozenset(_ANY if name in ATTACHED_FAMILIES else name for name in first) | own


def may_call(caller: Service, service: Service) -> bool:
    """Whether a service sends requests to another."""
    return bool(service.serves) and bool(caller.callees & {_ANY, service.name})


def needed_for(toolset: str | None, services: Mapping[str, Service]) -> frozenset[str]:
    """Names of the services that an endpoint needs: the owner of the toolset, those that every
    endpoint uses, whom these send requests to, and so on.

    Args:
        toolset: `None` needs all; one that no service declares, what attaches toolsets.
    """
    if toolset is None:
        return frozenset(services)
    services = {name: service.narrowed(toolset) for name, service in services.items()}
    needed = {name for name, service in services.items() if toolset in service.offers} or {
        name for name, service in services.items() if service.attaches_toolsets
    }
    if needed:
        needed |= {name for name, service in services.items() if service.serves_every_endpoint}
    while True:
        more = {
            name
            for name, service in services.items()
            if any(may_call(services[caller], service) for caller in needed)
        }
        if more <= needed:
            return frozenset(needed)
        needed |= more


def toolset_owners(services: Mapping[str, Service]) -> dict[str, str]:
    """Toolset → the queue group of the service that declares it; no other may offer it."""
    return {toolset: service.group for service in services.values() for toolset in service.offers}


def declarations_from_json(text: bytes) -> dict[str, Service]:
    """Name → declaration of packages that may not be installed here; raises ValueError."""
    return msgspec.json.decode(text, type=dict[str, Service])


_EVERY_REQUEST = (
    "tool.>", "resource.>", "prompt.>", "retrieval.*", "toolindex.search", "attach.status",
    "attach.manage",
)  # fmt: skip
OPERATOR = Service(
    name="cli",
    description="The command line of the operator.",
    calls=_EVERY_REQUEST,
    follows_catalog=True,
    signs_callers=True,
)


def publishes(
    service: Service, services: Collection[Service], prefix: str = DEFAULT_PREFIX
) -> list[str]:
    """Subjects a service may publish to; everything else is denied (proto/README.md §4.5).

    Replies are listed too: NATS's `allow_responses` lets a user reply to a message that it sent
    itself, whose reply subject can be any subject. JetStream is in none of these lists: the buckets
    of a service are in an account of its own.
    """
    root = f"{prefix}.v1"
    # To the queue group, and to one instance of it.
    found = {f"{root}.{to}{subject}" for subject in service.every_call for to in ("", "at.*.")}
    if service.attaches_toolsets:
        # To another instance of its own, which has the session of a caller.
        found |= {f"{root}.at.*.{family}.*.*" for family in ATTACHED_FAMILIES}
    # A follower requests catalogs of every service, and cancels a request that took too long; who
    # has a request that is silent, discovery and pings tell.
    everybody = "*" in service.callees or service.follows_catalog
    for name in ["*"] if everybody else service.callees:
        found |= {f"{root}.ctl.cancel.{name}", f"{root}.ctl.ping.{name}.*", f"$SRV.INFO.{name}"}
    if service.serves:
        found |= {
            f"{root}.evt.catalog.{service.group}",
            f"{root}.ctl.ping.{service.group}.*",
            # A worker that pulls the parts of a request may give that up.
            f"{root}.ctl.cancel.{service.group}",
            # The reply to its own ping.
            f"{inbox_prefix(service.name)}.*.{service.group}.*",
        }
    for other in services:
        inbox = inbox_prefix(other.name)
        if service.serves and (may_call(other, service) or other.follows_catalog):
            # Replies, catalogues; and requests for the parts of a large request (§5).
            found.add(f"{inbox}.*.{service.group}.>")
        if service.serves and other.follows_catalog:
            found.add(f"{inbox}.*.{DISCOVERY}.*")
        if may_call(service, other) or (service.follows_catalog and other.serves):
            # Parts of large requests; credit for those of large replies, catalogues included.
            found.add(f"{inbox}.*.{PART}.*")
    if service.follows_catalog:
        found |= {"$SRV.INFO", "$SRV.INFO.*", f"{root}.catalog.*.*", f"{root}.ctl.ping.*.*"}
    return sorted(found)


def subscribes(service: Service, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Subjects a service may subscribe to."""
    root = f"{prefix}.v1"
    found = {f"{inbox_prefix(service.name)}.>"}
    if service.serves:
        found |= {f"{root}.{to}{subject}" for subject in service.serves for to in ("", "at.*.")}
        found |= {
            f"{root}.catalog.{service.group}.*",
            f"{root}.ctl.cancel.{service.group}",
            f"{root}.ctl.ping.{service.group}.*",
        }
        # Verb by verb: the server lets a list with `$SRV.*` subscribe to `$SRV.>`.
        for verb in ("PING", "INFO", "STATS"):
            found |= {f"$SRV.{verb}{of}" for of in ("", f".{service.group}", f".{service.group}.*")}
    if service.follows_catalog:
        found.add(f"{root}.evt.catalog.*")
    return sorted(found)


def permissions(
    service: Service, services: Collection[Service], prefix: str = DEFAULT_PREFIX
) -> dict[str, dict[str, list[str]]]:
    """The permissions of a service's user, in the form of NATS's configuration.

    A service that attaches toolsets is denied those that others declare.
    """
    found = {
        "publish": {"allow": publishes(service, services, prefix)},
        "subscribe": {"allow": subscribes(service, prefix)},
    }
    declared = {
        toolset for other in services if other.name != service.name for toolset in other.offers
    }
    if service.attaches_toolsets and declared:
        below = [f"{family}.{toolset}.*" for toolset in declared for family in ATTACHED_FAMILIES]
        at = [f"{prefix}.v1.at.*.{subject}" for subject in below]
        found["publish"]["deny"] = sorted(at)
        found["subscribe"]["deny"] = sorted([*at, *(f"{prefix}.v1.{s}" for s in below)])
    return found
