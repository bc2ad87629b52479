"""searchbus on NATS: requests with a deadline, workers, fan-out, cancel, parts, discovery.

    bus = await connect("nats://127.0.0.1:4222", name="edge")
    reply = await bus.request(bus.subjects.endpoint("retrieval", "search"), SearchRequest(...),
                              SearchReply, service="retrieval", timeout_s=5.0)

Every request ends in one reply or one `Fault` by its deadline. `MemoryBroker` is the twin without
a server; one behaviour suite runs against both.

Names are imported at their first use (PEP 562), because a command such as `searchbus --help` needs
none of them: NATS, cryptography and OpenTelemetry together take a tenth of a second to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bus import Bus, WorkerInfo, connect
    from .call import Call
    from .directory import Directory
    from .fanout import Gathered
    from .hedging import Hedge
    from .identity import ActorSigner, ActorVerifier, new_actor_keys
    from .keyvalue import KeyValue
    from .memory import MemoryBroker
    from .metrics import SECONDS, LiveGauge
    from .request import Request
    from .serving import Serving
    from .tasks import end_task
    from .toolsets import (
        DeclarationError,
        Toolset,
        WithMeta,
        declared_tools,
        endpoint,
        prompt,
        resource,
        resource_list,
        resource_search,
        resource_template,
        tool,
    )
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
]

_MODULES = {
    "bus": ("Bus", "WorkerInfo", "connect"),
    "call": ("Call",),
    "directory": ("Directory",),
    "fanout": ("Gathered",),
    "hedging": ("Hedge",),
    "identity": ("ActorSigner", "ActorVerifier", "new_actor_keys"),
    "keyvalue": ("KeyValue",),
    "memory": ("MemoryBroker",),
    "metrics": ("SECONDS", "LiveGauge"),
    "request": ("Request",),
    "serving": ("Serving",),
    "tasks": ("end_task",),
    "toolsets": (
        "DeclarationError",
        "Toolset",
        "WithMeta",
        "declared_tools",
        "endpoint",
        "prompt",
        "resource",
        "resource_list",
        "resource_search",
        "resource_template",
        "tool",
    ),
    "worker": ("Worker",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
