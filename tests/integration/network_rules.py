"""NetworkPolicies compared with the pods' ports and with the services' declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from searchbus_runtime.services import installed_services

from .documents import Document, fits, labels_of, name_of, ports_of

MAY_LEAVE = {name for name, service in installed_services().items() if service.container.internet}
"""Services that declare a need for public addresses."""
CHARTS = {"nats": {4222, 6222, 7777, 8222}, "qdrant": {6333, 6334, 6335}}
"""Workloads that overlays may take from official charts, with their ports."""


def network_faults(policies: list[Document], workloads: list[Document]) -> Iterator[str]:
    """What is wrong with the policies, for these workloads and those of the charts."""
    if not any(
        p["spec"]["podSelector"] == {} and set(p["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        and not p["spec"].get("ingress") and not p["spec"].get("egress")
        for p in policies
    ):  # fmt: skip
        yield "NetworkPolicy: nothing is denied by default"
    admitted: dict[str, set[int]] = {}
    for policy in policies:
        spec = policy["spec"]
        here = _selected(workloads, spec["podSelector"])
        if not here:
            yield f"NetworkPolicy {name_of(policy)} selects no pod"
        for rule in spec.get("ingress") or []:
            for port in rule.get("ports", []):
                for name in here:
                    admitted.setdefault(name, set()).add(port["port"])
                if all(port["port"] not in ports for ports in here.values()):
                    yield f"NetworkPolicy {name_of(policy)} admits to port {port['port']}"
        for rule in spec.get("egress") or []:
            yield from _egress_faults(workloads, policy, rule, here)
    let_out = {
        name
        for policy in policies
        for rule in policy["spec"].get("egress") or []
        if any(peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0" for peer in rule.get("to", []))
        if {port["port"] for port in rule["ports"]} >= {80, 443}
        for name in _selected(workloads, policy["spec"]["podSelector"])
    }
    by_server = {
        name_of(w) for w in workloads if labels_of(w).get("searchbus.io/internet") == "servers"
    }
    for name in sorted(MAY_LEAVE - let_out - by_server):
        yield f"NetworkPolicy: {name} declares internet, but no policy allows it"
    for workload in workloads:
        for port in ports_of(workload):
            if port not in admitted.get(name_of(workload), set()) and port != 8222:
                yield f"NetworkPolicy: no policy admits to port {port} of {name_of(workload)}"


def _egress_faults(
    workloads: list[Document], policy: Document, rule: Document, here: Mapping[str, set[int]]
) -> Iterator[str]:
    for peer in rule.get("to", []):
        block = peer.get("ipBlock")
        if block is not None and block["cidr"].endswith(("/0", "/3")):
            if not set(here) <= MAY_LEAVE:
                yield f"NetworkPolicy {name_of(policy)} opens the internet to {sorted(set(here) - MAY_LEAVE)}"
            if block["cidr"] == "0.0.0.0/0":
                missing = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"}
                missing -= set(block.get("except", []))
                if missing:
                    yield f"NetworkPolicy {name_of(policy)} leads into {sorted(missing)}"
        if set(peer) == {"podSelector"}:
            there = _selected(workloads, peer["podSelector"])
            for port in rule["ports"]:
                if all(port["port"] not in ports for ports in there.values()):
                    yield f"NetworkPolicy {name_of(policy)} leads to port {port['port']}"


def _selected(workloads: list[Document], selector: Document) -> dict[str, set[int]]:
    known = {name_of(w): (labels_of(w), ports_of(w)) for w in workloads}
    for name, ports in CHARTS.items():
        if name not in known:
            known[name] = ({"app.kubernetes.io/name": name}, ports)
        else:
            known[name] = (known[name][0], known[name][1] | ports)
    return {
        name: ports
        for name, (labels, ports) in known.items()
        if fits(selector.get("matchLabels", {}), labels)
        and all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))
    }  # fmt: skip
