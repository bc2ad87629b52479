"""searchbus on NATS: requests with a deadline, workers, fan-out, cancel, parts, discovery.

Names are imported at their first use (PEP 562), because a command such as `searchbus --help` needs
none of them: NATS, cryptography and OpenTelemetry together take a tenth of a second to import.
"""

from typing import TYPE_CHECKING

from searchbus_contracts.lazy import lazy_exports

if TYPE_CHECKING:
    from .bus import Bus, connect
    from .catalog.directory import Directory
    from .client.discovery import WorkerInfo
    from .client.fanout import Gathered, Hedge
    from .client.request import InstanceGoneError, Request
    from .identity import ActorSigner, ActorVerifier, new_actor_keys, public_actor_key
    from .memory import MemoryBroker
    from .nats.sign_in import Seeds
    from .store.keyvalue import NEEDED_TIMEOUT_S, KeyValue
    from .tasks import end_task, wait_for_event
    from .telemetry import SECONDS, LiveGauge
    from .tls import TlsFiles
    from .worker.describe import declared_tools
    from .worker.serving import Serving
    from .worker.toolset import (
        Call,
        DeclarationError,
        Toolset,
        WithMeta,
        endpoint,
        prompt,
        resource,
        resource_list,
        resource_search,
        resource_template,
        spend,
        tool,
    )
    from .worker.worker import Worker

__all__ = [
    "NEEDED_TIMEOUT_S", "SECONDS", "ActorSigner", "ActorVerifier", "Bus", "Call",
    "DeclarationError", "Directory",
    "Gathered", "Hedge", "InstanceGoneError", "KeyValue", "LiveGauge", "MemoryBroker",
    "Request", "Seeds", "Serving", "TlsFiles", "Toolset", "WithMeta", "Worker", "WorkerInfo",
    "connect", "declared_tools", "end_task", "endpoint", "new_actor_keys", "prompt",
    "public_actor_key", "resource", "resource_list", "resource_search", "resource_template",
    "spend", "tool", "wait_for_event",
]  # fmt: skip

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "bus": ("Bus", "connect",),
        "catalog.directory": ("Directory",),
        "client.discovery": ("WorkerInfo",),
        "client.fanout": ("Gathered", "Hedge",),
        "client.request": ("InstanceGoneError", "Request",),
        "identity": ("ActorSigner", "ActorVerifier", "new_actor_keys", "public_actor_key",),
        "memory": ("MemoryBroker",),
        "nats.sign_in": ("Seeds",),
        "store.keyvalue": ("NEEDED_TIMEOUT_S", "KeyValue",),
        "tasks": ("end_task", "wait_for_event",),
        "telemetry": ("SECONDS", "LiveGauge",),
        "tls": ("TlsFiles",),
        "worker.describe": ("declared_tools",),
        "worker.serving": ("Serving",),
        "worker.toolset": (
            "Call", "DeclarationError", "Toolset", "WithMeta", "endpoint", "prompt", "resource",
            "resource_list", "resource_search", "resource_template", "spend", "tool",
        ),
        "worker.worker": ("Worker",),
    },
)  # fmt: skip
