"""What the rendered manifests must agree on among themselves, and with code and Compose."""

from __future__ import annotations

from .attach_rules import attach_faults
from .manifests import Manifests
from .monitoring_rules import monitoring_faults
from .network_rules import network_faults
from .pod_rules import account_faults, pod_faults, unused_faults
from .service_rules import (
    declaration_faults,
    image_faults,
    ingress_faults,
    namespace_faults,
    scaling_faults,
    service_faults,
)
from .settings_rules import settings_faults

RULES = (
    namespace_faults, pod_faults, service_faults, scaling_faults, settings_faults, image_faults,
    monitoring_faults, ingress_faults, account_faults, unused_faults, declaration_faults,
    attach_faults,
)  # fmt: skip


def faults(manifests: Manifests) -> list[str]:
    """Everything that is wrong, one sentence each."""
    return [
        *(fault for rule in RULES for fault in rule(manifests)),
        *network_faults(manifests.of("NetworkPolicy"), manifests.workloads),
    ]
