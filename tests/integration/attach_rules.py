"""What the manifests say about attached servers, compared with the file of servers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from searchbus_attach.declare.servers import parse_server

from .documents import name_of
from .manifests import Manifests

PREFIX = "attached-"
_FILE = "attach.toml"


def attach_faults(manifests: Manifests) -> Iterator[str]:
    """Each remote server has a policy that lets the service reach its port, and no other has one."""
    # Its ConfigMap has a name with a hash.
    texts = [d["data"][_FILE] for d in manifests.of("ConfigMap") if _FILE in d["data"]]
    ports: dict[str, int] = {}
    tables = [tomllib.loads(text)["servers"] for text in texts]
    for name, keys in (item for table in tables for item in table.items()):
        server = parse_server(name, keys)
        parts = urlsplit(server.url)
        if server.url and not _loopback(parts.hostname or ""):
            ports[name] = parts.port or {"http": 80, "https": 443}[parts.scheme]
    let_out: dict[str, set[int]] = {}
    for policy in manifests.of("NetworkPolicy"):
        if not name_of(policy).startswith(PREFIX):
            continue
        name = name_of(policy).removeprefix(PREFIX)
        spec = policy["spec"]
        if spec["podSelector"] != {"matchLabels": {"app.kubernetes.io/name": "attach"}}:
            yield f"NetworkPolicy {name_of(policy)} is not for attach"
        let_out[name] = {port["port"] for rule in spec["egress"] for port in rule["ports"]}
        if name not in ports:
            yield f"NetworkPolicy {name_of(policy)} is for a server that is not attached"
    for name, port in ports.items():
        if port not in let_out.get(name, set()):
            yield f"NetworkPolicy: none leads to port {port} of the attached server {name}"


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
