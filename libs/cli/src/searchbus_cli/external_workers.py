"""Workers that are not of this installation: what the bus, Compose and Kubernetes need of them.

Their declarations are kept beside the server's configuration, so that each later run of
`searchbus nats-config` admits them again:

    nats/workers.json              the declarations
    nats/workers.compose.yaml      for `docker compose -f docker-compose.yml -f …`
    nats/workers.kubernetes.yaml   for `kubectl apply -f`; their Secrets are in secrets.yaml
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template

from searchbus_contracts.catalog import RESERVED_TOOLSETS
from searchbus_contracts.codec import canonical
from searchbus_contracts.services import (
    ATTACHED_FAMILIES,
    Service,
    declarations_from_json,
    toolset_owners,
)
from searchbus_contracts.subjects import is_token
from searchbus_runtime.files import write_atomically
from searchbus_runtime.wording import nearest

from .authority import SERVERS

_FILE = Path("nats") / "workers.json"
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
"""Also the name of a container, of a Secret and of a Deployment."""

_COMPOSE = """  $name:
    image: $name
    restart: unless-stopped
    stop_grace_period: 15s
    read_only: true
    user: "65532:65532"
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    mem_limit: 256m
    depends_on:
      reload: {condition: service_completed_successfully}
    environment:
      SEARCHBUS_NATS_URL: tls://nats:4222
      SEARCHBUS_SECRETS_DIR: /run/secrets/searchbus
    volumes: ["keys-$name:/run/secrets/searchbus:ro"]
"""
_KUBERNETES = """---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: $name
  labels: {app.kubernetes.io/name: $name, app.kubernetes.io/part-of: searchbus}
spec:
  replicas: 2
  selector:
    matchLabels: {app.kubernetes.io/name: $name}
  template:
    metadata:
      # Its part is what the network policies of deploy/k8s admit to the bus.
      labels: {app.kubernetes.io/name: $name, app.kubernetes.io/part-of: searchbus}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: service
          image: $name
          env:
            - {name: SEARCHBUS_NATS_URL, value: "$scheme://nats:4222"}
            - {name: SEARCHBUS_SECRETS_DIR, value: /run/secrets/searchbus}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          resources:
            requests: {cpu: 50m, memory: 64Mi}
            limits: {cpu: "1", memory: 256Mi}
          volumeMounts:
            - {name: secrets, mountPath: /run/secrets/searchbus, readOnly: true}
      volumes:
        - name: secrets
          secret: {secretName: searchbus-$name, defaultMode: 0440}
"""


def external_workers(out: Path) -> dict[str, Service]:
    """Name → declaration of the workers that earlier runs admitted.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds something else.
    """
    try:
        return declarations_from_json((out / _FILE).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(
            f"{out / _FILE} is damaged ({error}). Delete it, and admit its workers again."
        ) from None


def declare_worker(
    name: str, toolsets: Sequence[str], calls: Sequence[str], others: Mapping[str, Service]
) -> Service:
    """The declaration of a worker.

    Args:
        calls: subjects to which it sends requests, e.g. `retrieval.search` or `tool.web.*`.
        others: everyone else on the bus, by name.

    Raises:
        ValueError: what is wrong, and what to do.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"--worker {name}: use up to 50 lower-case letters, digits and hyphens.")
    groups = {service.group for service in others.values()}
    if name in {*others, *groups, *SERVERS, "keys", "tenants", "tls"}:
        raise ValueError(f"--worker {name} is a name of searchbus. Use another one.")
    if not toolsets:
        raise ValueError(f"--worker {name} needs --toolset: the toolset that it serves.")
    owners = {**RESERVED_TOOLSETS, **toolset_owners(others)}
    for toolset in toolsets:
        check_toolset("--toolset", toolset, owners)
    endpoints = {f"{s.name}.{verb}" for s in others.values() for verb in s.endpoints}
    for subject in calls:
        family, *rest = subject.split(".")
        of_family = len(rest) == 2 and is_token(rest[0]) and (is_token(rest[1]) or rest[1] == "*")
        if subject not in endpoints and not (family in ATTACHED_FAMILIES and of_family):
            raise ValueError(
                f"--calls {subject} does not name an endpoint of a service. Use one of "
                f"{', '.join(sorted(endpoints))}, or tool.<toolset>.<tool>."
            )
    return Service(name=name, toolsets=tuple(toolsets), calls=tuple(calls))


def check_toolset(
    option: str, toolset: str, owners: Mapping[str, str], remedy: str = "Use another name."
) -> None:
    """Raise ValueError for a name that a toolset cannot have, or that is another service's."""
    if not is_token(toolset) or "__" in toolset:
        raise ValueError(f"{option} {toolset}: use 1 to 64 letters, digits, - and _, no __.")
    if toolset in owners:
        raise ValueError(f"{option} {toolset} belongs to {owners[toolset]}. {remedy}")


def check_removed(option: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError for a name that is not admitted: the one that was meant would stay."""
    if name and name not in known:
        meant = nearest(name, filter(None, known)) or " Name one that an earlier run admitted."
        raise ValueError(f"{option} {name}: there is none.{meant}")


def write_workers(out: Path, workers: Mapping[str, Service]) -> None:
    """Write the three files, where there are workers or were some.

    Raises:
        OSError: one cannot be written.
    """
    if not workers and not (out / _FILE).exists():
        return
    commands = [
        " ".join([
            f"searchbus nats-config --out /keys --worker {name}",
            *(f"--toolset {toolset}" for toolset in service.toolsets),
            *(f"--calls '{subject}'" for subject in service.calls),
        ])
        for name, service in workers.items()
    ]  # fmt: skip
    keys = "".join(f"\n      - keys-{name}:/keys/{name}" for name in workers)
    compose = (
        "# Written by `searchbus nats-config --worker`. Each image has the name of its worker.\n"
        "services:\n  keys:\n    environment:\n      WORKERS: >-\n"
        f"        {' && '.join(commands)}\n    volumes:{keys}\n"
        + _filled(_COMPOSE, workers)
        + "volumes:"
        + "".join(f"\n  keys-{name}:" for name in workers)
        + "\n"
    )
    write_atomically(out / _FILE, canonical(workers))
    write_atomically(out / _FILE.with_suffix(".compose.yaml"), compose)
    scheme = "tls" if (out / "tls").exists() else "nats"
    kubernetes = _filled(_KUBERNETES, workers, scheme=scheme)
    write_atomically(out / _FILE.with_suffix(".kubernetes.yaml"), kubernetes)


def _filled(template: str, workers: Mapping[str, Service], **values: str) -> str:
    return "".join(Template(template).substitute(values, name=name) for name in workers)
