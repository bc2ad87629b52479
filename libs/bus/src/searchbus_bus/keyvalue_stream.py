"""The stream of NATS JetStream behind a bucket, in memory storage."""

from __future__ import annotations

import logging

import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.kv import KeyValue as NatsBucket

__all__ = ["MAX_VALUE_BYTES", "open_bucket", "replicate"]

log = logging.getLogger("searchbus.bus")

MAX_VALUE_BYTES = 512 * 1024
REPLICAS = 3
"""In a cluster. Two would be worse than one: both are needed to write."""
_DUPLICATES_S = 120.0
"""NATS's default for recognising repeated messages, which a short-lived bucket must not exceed."""


async def open_bucket(
    client: Client, name: str, *, ttl_s: float, max_bytes: int, timeout_s: float
) -> NatsBucket:
    """The bucket; made where there is none, with three replicas where the servers suffice.

    One that exists keeps its limits, so that old and new workers share it in a rolling update.

    Args:
        timeout_s: of each request.

    Raises:
        nats.errors.Error: also where the stream has no leader at the moment.
    """
    context = client.jetstream(timeout=timeout_s)
    try:
        info = await context.stream_info(f"KV_{name}")
    except nats.js.errors.NotFoundError:
        await _create(context, name, ttl_s, max_bytes)
        info = await context.stream_info(f"KV_{name}")
    direct = bool(info.config.allow_direct)
    return NatsBucket(name, f"KV_{name}", f"$KV.{name}.", context, direct)


async def replicate(client: Client, name: str, *, timeout_s: float) -> bool:
    """Give a bucket its replicas, if it was made before three servers of a cluster were up.

    Returns:
        Whether nothing is left to do; False where too few servers are up now.

    Raises:
        nats.errors.Error: the bucket or the store is unreachable.
    """
    context = client.jetstream(timeout=timeout_s)
    info = await context.stream_info(f"KV_{name}")
    clustered = info.cluster is not None and info.cluster.name
    if not clustered or (info.config.num_replicas or 1) >= REPLICAS:
        return True
    try:
        await context.update_stream(info.config, num_replicas=REPLICAS)
    except nats.js.errors.APIError as error:
        log.info("the bucket %s has no replicas yet: %s", name, error.description)
        return False
    log.info("the bucket %s has %d replicas now", name, REPLICAS)
    return True


async def _create(context: JetStreamContext, name: str, ttl_s: float, max_bytes: int) -> None:
    config = StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        storage=StorageType.MEMORY,
        num_replicas=REPLICAS,
        max_age=ttl_s,
        max_bytes=max_bytes,
        max_msg_size=MAX_VALUE_BYTES,
        max_msgs_per_subject=1,
        # A full bucket drops its oldest entry; NATS's own tools make buckets that refuse new ones.
        discard=DiscardPolicy.OLD,
        duplicate_window=min(ttl_s, _DUPLICATES_S),
        # Reads need no leader.
        allow_direct=True,
        # For the marks of deletions.
        allow_msg_ttl=True,
        allow_rollup_hdrs=True,
        deny_delete=True,
    )
    try:
        await context.add_stream(config)
    except nats.js.errors.APIError:
        # A single server, or too few of a cluster are up. If another worker was quicker, the
        # request is the same, or the next attempt finds the bucket.
        await context.add_stream(config, num_replicas=1)
