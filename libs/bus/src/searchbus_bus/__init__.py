"""searchbus on NATS: requests with a deadline, workers, fan-out, cancel, parts, discovery.

    bus = await connect("nats://127.0.0.1:4222", name="edge")
    reply = await bus.request(bus.subjects.endpoint("retrieval", "search"), SearchRequest(...),
                              SearchReply, service="retrieval", timeout_s=5.0)

Every request ends in one reply or one `Fault` by its deadline. `MemoryBroker` is the twin without
a server; one behaviour suite holds both to the same answers.
"""

from typing import Any

from searchbus_contracts import DEFAULT_PREFIX

from .bus import Bus, WorkerInfo
from .directory import Directory
from .fanout import Gathered, Leg
from .hedging import Hedge
from .identity import ActorSigner, ActorVerifier, new_actor_keys
from .keyvalue import KeyValue
from .memory import MemoryBroker
from .metrics import SECONDS, LiveGauge
from .nats_transport import NatsTransport
from .serving import Serving
from .tasks import end_task
from .worker import Call, Worker

__all__ = [
    "SECONDS",
    "ActorSigner",
    "ActorVerifier",
    "Bus",
    "Call",
    "Directory",
    "Gathered",
    "Hedge",
    "KeyValue",
    "Leg",
    "LiveGauge",
    "MemoryBroker",
    "Serving",
    "Worker",
    "WorkerInfo",
    "connect",
    "end_task",
    "new_actor_keys",
]


async def connect(
    url: str,
    *,
    name: str,
    prefix: str = DEFAULT_PREFIX,
    inbox_prefix: str = "_INBOX",
    connect_timeout_s: float = 5.0,
    signer: ActorSigner | None = None,
    verifier: ActorVerifier | None = None,
    **options: Any,
) -> Bus:
    """Connect to NATS; raises Fault(unavailable) when no server answers in time.

    Args:
        signer, verifier: see Bus.
        options: of nats-py (nkeys_seed_str, tls, …).
    """
    transport = await NatsTransport.connect(
        url, name=name, inbox_prefix=inbox_prefix, connect_timeout_s=connect_timeout_s, **options
    )
    return Bus(transport, name=name, prefix=prefix, signer=signer, verifier=verifier)
