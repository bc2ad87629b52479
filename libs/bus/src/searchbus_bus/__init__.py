"""searchbus on NATS: requests with a deadline, workers, fan-out, cancel, parts, discovery.

    bus = await connect("nats://127.0.0.1:4222", name="edge")
    reply = await bus.request(bus.subjects.endpoint("retrieval", "search"), SearchRequest(...),
                              SearchReply, service="retrieval", timeout_s=5.0)

Every request ends in one reply or one `Fault` by its deadline. `MemoryBroker` does the same without
a server; one behaviour suite runs against both.

Names are imported at their first use (PEP 562), because a command such as `searchbus --help` needs
none of them: NATS, cryptography and OpenTelemetry together take a tenth of a second to import.
"""

from typing import TYPE_CHECKING

from searchbus_contracts.lazy import lazy_exports

if TYPE_CHECKING:
    from .bus import Bus, connect
    from .call import Call
    from .directory import Directory
    from .discovery import WorkerInfo
    from .fanout import Gathered
    from .hedging import Hedge
    from .identity import ActorSigner, ActorVerifier, new_actor_keys
    from .keyvalue import KeyValue
    from .memory import MemoryBroker
    from .metrics import SECONDS, LiveGauge
    from .request import InstanceGone, Request
    from .serving import Serving
    from .tasks import end_task, wait_for_event
    from .toolsets.declare import (
        DeclarationError,
        Toolset,
        endpoint,
        prompt,
        resource,
        resource_list,
        resource_search,
        resource_template,
        tool,
    )
    from .toolsets.describe import declared_tools
    from .toolsets.forms import WithMeta
    from .worker import Worker

__all__ = [
    "SECONDS",
    "ActorSigner",
    "ActorVerifier",
    "Bus",
    "Call",
    "DeclarationError",
    "Directory",
    "Gathered",
    "Hedge",
    "InstanceGone",
    "KeyValue",
    "LiveGauge",
    "MemoryBroker",
    "Request",
    "Serving",
    "Toolset",
    "WithMeta",
    "Worker",
    "WorkerInfo",
    "connect",
    "declared_tools",
    "end_task",
    "endpoint",
    "new_actor_keys",
    "prompt",
    "resource",
    "resource_list",
    "resource_search",
    "resource_template",
    "tool",
    "wait_for_event",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "bus": ("Bus", "connect"),
        "call": ("Call",),
        "directory": ("Directory",),
        "discovery": ("WorkerInfo",),
        "fanout": ("Gathered",),
        "hedging": ("Hedge",),
        "identity": ("ActorSigner", "ActorVerifier", "new_actor_keys"),
        "keyvalue": ("KeyValue",),
        "memory": ("MemoryBroker",),
        "metrics": ("SECONDS", "LiveGauge"),
        "request": ("InstanceGone", "Request"),
        "serving": ("Serving",),
        "tasks": ("end_task", "wait_for_event"),
        "toolsets.declare": (
            "DeclarationError", "Toolset", "endpoint", "prompt", "resource",
            "resource_list", "resource_search", "resource_template", "tool",
        ),
        "toolsets.describe": ("declared_tools",),
        "toolsets.forms": ("WithMeta",),
        "worker": ("Worker",),
    },
)  # fmt: skip
