"""Writes what Compose, Kubernetes and the Helm chart say about each service, from its declaration.

    python deploy/generate.py           # write
    python deploy/generate.py --check   # exit 1 and name the files that differ

`make proto` runs the first, a test the second. The texts are in deploy/templates/, filled
in once for each service; a line that uses an unset value is left out. Written are the end of
docker-compose.yml and of the chart's values, each from its marker on, the file services.yaml of
deploy/k8s/base, and what the chart has of other files: its version, its schema with the names of
all settings, the alerts, the configuration of a single NATS server.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Collection, Mapping
from pathlib import Path
from string import Template
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from declarations import declared  # noqa: E402

from searchbus_contracts import VERSION  # noqa: E402
from searchbus_contracts.services import OPERATOR, Service  # noqa: E402

COMPOSE = ROOT / "docker-compose.yml"
KUBERNETES = ROOT / "deploy" / "k8s" / "base" / "services.yaml"
CHART = ROOT / "deploy" / "helm" / "searchbus"
SETTINGS = ROOT / "libs/runtime/src/searchbus_runtime/setting_list.json"
TEMPLATES = ROOT / "deploy" / "templates"
LINE = "# ---- From here on written by `make proto`; do not edit. ----\n"
MARKER = f"  {LINE}"
SECRETS = "/run/secrets/searchbus"


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with its values; lines that use a value of None are left out.

    Raises:
        KeyError: the template uses a name that is not among the values.
    """
    lines = []
    for line in (TEMPLATES / template).read_text().splitlines(keepends=True):
        used = Template(line).get_identifiers()
        if all(values[name] is not None for name in used):
            lines.append(Template(line).substitute(values))
    return "".join(lines)


def check_names(services: Collection[Service], head: str) -> None:
    """Refuse names that Kubernetes does not allow or that docker-compose.yml uses already."""
    taken = {"service", "environment", "build", "keys", *re.findall(r"^  ([\w-]+):$", head, re.M)}
    for service in services:
        if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", service.name):
            raise SystemExit(
                f"The service {service.name!r} needs a name of lower-case letters, digits and "
                "hyphens, as Kubernetes requires."
            )
        if service.name in taken:
            raise SystemExit(
                f"The service {service.name!r} needs another name: {COMPOSE.name} uses it already."
            )


def kubernetes(services: Collection[Service]) -> str:
    """deploy/k8s/base/services.yaml."""
    text = "# Written by `make proto` from the services' declarations; do not edit.\n"
    return text + "".join(fill("kubernetes.yaml", _pods(service)) for service in services)


def _pods(service: Service) -> dict[str, Any]:
    """What Kubernetes is told about a service's pods."""
    needs = service.container
    return {
        "name": service.name,
        "description": service.description,
        "version": VERSION,
        "replicas": needs.replicas,
        "internet": "true" if needs.internet else None,
        "cpu": needs.cpu,
        "cpu_limit": needs.cpu_limit,
        "memory": needs.memory,
        "memory_limit": needs.memory_limit,
    }


def chart(services: Collection[Service]) -> dict[Path, str]:
    """The files of the chart, and their contents."""
    declared_version = re.compile(r"^(version|appVersion): .*$", re.M)
    head, *_ = (CHART / "values.yaml").read_text().partition(LINE)
    blocks = [fill("values.yaml", _pods(service)) for service in services]
    return {
        CHART / "Chart.yaml": declared_version.sub(
            rf"\1: {VERSION}", (CHART / "Chart.yaml").read_text()
        ),
        CHART / "values.yaml": f"{head}{LINE}services:\n" + "".join(blocks),
        CHART / "values.schema.json": json.dumps(_schema(services), indent=1) + "\n",
        CHART / "files/alerts.yml": (ROOT / "deploy/observability/alerts.yml").read_text(),
        CHART / "files/nats.conf": (ROOT / "deploy/k8s/overlays/dev/nats.conf").read_text(),
    }


def _schema(services: Collection[Service]) -> dict[str, Any]:
    """values.schema.json: a setting that a service does not have, or that is secret, is refused."""
    schema: dict[str, Any] = json.loads((TEMPLATES / "values.schema.json").read_text())
    listed = json.loads(SETTINGS.read_text())
    names = {
        service: [setting["name"].upper() for setting in table if not setting.get("secret")]
        for service, table in listed.items()
    }
    schema["properties"]["services"]["properties"] = {
        service.name: {"$ref": "#/definitions/service"} for service in services
    }
    schema["properties"]["settings"]["properties"] = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {
                f"^SEARCHBUS_({'|'.join(sorted({*names[''], *own}))})$": {"type": "string"}
            },
        }
        for name, own in [
            ("all", ["SECRETS_DIR"]),
            *((service.name, names.get(service.name, [])) for service in services),
        ]
    }
    return schema


def _cores(text: str, unit: int) -> int:
    """Kubernetes' "500m" or "2" as a number of `unit`s a core."""
    return int(text[:-1]) * unit // 1000 if text.endswith("m") else int(text) * unit


def compose(services: Collection[Service], head: str) -> str:
    """The end of docker-compose.yml; `head` is what is written by hand before the marker."""
    own = set(re.findall(r"^x-([\w-]+): &", head, re.M))
    holders = ["tls", "nats", "qdrant", *(service.name for service in services), OPERATOR.name]
    blocks = []
    for service in services:
        needs = service.container
        volumes = [f"keys-{service.name}:{SECRETS}:ro"]
        if needs.volume:
            volumes.append(f"{needs.volume}:/data")
        blocks.append(
            fill(
                "compose-service.yaml",
                {
                    "name": service.name,
                    "description": service.description,
                    "merged": f"[*{service.name}, *service]" if service.name in own else "*service",
                    # It needs a file first: see Service.started_by.
                    "profiles": f"[{service.name}]" if service.started_by else None,
                    "memory_limit": needs.memory_limit.removesuffix("i").lower(),
                    # Microseconds in 100 ms. `cpus` is refused on a machine that has fewer.
                    "cpu_quota": _cores(needs.cpu_limit, 100_000),
                    # /data is a volume there, else in memory as in x-service.
                    "tmpfs": '["/tmp:mode=1777"]' if needs.volume else None,
                    "volumes": "[" + ", ".join(f'"{volume}"' for volume in volumes) + "]",
                },
            )
        )
    kept = sorted({"documents", *(s.container.volume for s in services if s.container.volume)})
    return fill(
        "compose.yaml",
        {
            "mounts": "".join(f"\n      - keys-{name}:/keys/{name}" for name in holders),
            "services": "\n".join(blocks),
            "names": ", ".join(service.name for service in services),
            "volumes": "".join(f"\n  {name}:" for name in [*kept, *(f"keys-{n}" for n in holders)]),
        },
    )


def operators_alerts() -> str:
    """The alerts as an object of the Prometheus operator."""
    _, _, groups = (ROOT / "deploy/observability/alerts.yml").read_text().partition("groups:\n")
    return (
        "# Written by `make proto` from deploy/observability/alerts.yml; do not edit.\n"
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n"
        "metadata:\n  name: searchbus\nspec:\n  groups:\n" + textwrap.indent(groups, "  ")
        # Lines of a text keep their place beside each other.
    )


def files() -> dict[Path, str]:
    """Every file that is written, and its whole content."""
    services = declared().values()
    head, marker, _ = COMPOSE.read_text().partition(MARKER)
    if not marker:
        raise SystemExit(f"{COMPOSE.name}: the line {MARKER.strip()!r} is missing")
    check_names(services, head)
    return {
        COMPOSE: head + MARKER + compose(services, head),
        KUBERNETES: kubernetes(services),
        ROOT / "deploy/k8s/components/monitoring/alerts.yaml": operators_alerts(),
        **chart(services),
    }


def main() -> int:
    """Write the files, or compare them with --check."""
    wanted = files()
    differing = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    if "--check" in sys.argv:
        for path in differing:
            sys.stdout.write(
                f"{path.relative_to(ROOT)} differs from the declarations: make proto\n"
            )
        return 1 if differing else 0
    for path in differing:
        path.write_text(wanted[path])
    sys.stdout.write(f"deploy: {len(wanted)} files, {len(differing)} changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
