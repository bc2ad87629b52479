"""docker-compose.yml as a text: hardened, in agreement with declarations and settings, accepted by Compose."""

from __future__ import annotations

import os
import subprocess
from urllib.parse import urlsplit

import pytest
import yaml

from searchbus_attach.declare.attach_file import AttachFile
from searchbus_runtime.services import bus_users, installed_services

from .engine import ROOT, SERVICES, compose_command
from .settings_rules import settings_of

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DONE = {"condition": "service_completed_successfully"}
SECRETS = "/run/secrets/searchbus"
LOGGING = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "5"}}


def test_services_are_hardened_alike():
    """Every container of ours: read-only, no capabilities, no new privileges, limited memory."""
    for name, service in COMPOSE["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "mem_limit" in service, name
        assert service["cpu_quota"] >= 50_000, name
        assert service["logging"] == LOGGING, name
        if service["image"].startswith("searchbus/"):
            assert service["read_only"], name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
    assert {s["image"].split(":")[0] for s in COMPOSE["services"].values()} >= {
        f"searchbus/{service}" for service in SERVICES
    }


def test_a_read_only_container_gets_its_configs_as_files():
    """Compose refuses others there."""
    for name, service in COMPOSE["services"].items():
        for config in service.get("configs", []) if service.get("read_only") else []:
            assert "file" in COMPOSE["configs"][config["source"]], name


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_is_a_setting_of_the_service(name):
    """No variable is one that no service reads."""
    fields = settings_of(name).model_fields
    for variable in COMPOSE["services"][name]["environment"]:
        field = variable.removeprefix("SEARCHBUS_").lower()
        assert field in fields or variable == "SEARCHBUS_SECRETS_DIR", variable


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_sees_its_own_keys_and_no_others(name):
    """One folder of keys for each holder, read-only."""
    mounted = [v for v in COMPOSE["services"][name]["volumes"] if v.startswith("keys-")]
    assert mounted == [f"keys-{name}:{SECRETS}:ro"]
    # The bus has read the keys: they were made, the server runs, and was told to read them again.
    needed = [COMPOSE["services"][each]["depends_on"] for each in (name, "reload", "nats")]
    assert needed[0]["reload"] == needed[2]["keys"] == DONE
    assert needed[1] == {"nats": {"condition": "service_healthy"}}


def test_keys_are_made_for_every_holder():
    """The services, the operator, the two servers, and the authority that signs for all of them."""
    holders = {*bus_users(), "nats", "qdrant", "tls"}
    assert set(COMPOSE["services"]["keys"]["volumes"]) == {
        f"keys-{holder}:/keys/{holder}" for holder in holders
    }
    assert {volume for volume in COMPOSE["volumes"] if volume.startswith("keys-")} == {
        f"keys-{holder}" for holder in holders
    }


def test_prometheus_scrapes_every_service_under_its_name():
    """One target list by DNS; the job is the service's name, as alerts and dashboard expect."""
    (job,) = yaml.safe_load(COMPOSE["configs"]["scrape"]["content"])["scrape_configs"]
    assert {name for sd in job["dns_sd_configs"] for name in sd["names"]} == set(SERVICES)
    assert {"source_labels": ["__meta_dns_name"], "target_label": "job"} in job["relabel_configs"]
    labels = {rule["target_label"]: rule.get("replacement") for rule in job["relabel_configs"]}
    assert labels["app_kubernetes_io_part_of"] == "searchbus"
    prometheus = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text())
    (target,) = (c["target"] for c in COMPOSE["services"]["prometheus"]["configs"])
    assert prometheus["scrape_config_files"] == [target]


@pytest.mark.parametrize(
    "files",
    [
        ["docker-compose.yml"],
        ["docker-compose.yml", "deploy/offline/compose.yml"],
        ["docker-compose.yml", "deploy/compose/attached.yml"],
        ["docker-compose.yml", "deploy/compose/balanced.yml"],
    ],
    ids=["alone", "offline", "attached", "balanced"],
)
def test_compose_accepts_the_files(files):
    """Compose itself reads them, with every profile, and finds each service."""
    command = compose_command()
    if command is None:
        pytest.skip("Compose is not installed")
    named = [argument for file in files for argument in ("-f", file)]
    done = subprocess.run(
        [*command, *named, "--env-file", "deploy/compose/fakes.env", "--profile", "*", "config"],
        capture_output=True, text=True, timeout=100, cwd=ROOT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = yaml.safe_load(done.stdout)["services"]
    assert set(found) >= set(installed_services())
    # A port of the host has one owner, whatever the number of edges.
    owner = "balancer" if "balancer" in found else "edge"
    assert [
        n for n, s in found.items() if "8080" in [p["published"] for p in s.get("ports", [])]
    ] == [owner]


def test_limits_of_cpu_are_those_that_services_declare():
    """By quota: a limit in cores is refused on a machine that has fewer."""
    cores = {"2": 2.0, "1": 1.0, "500m": 0.5}
    for name, service in installed_services().items():
        quota = COMPOSE["services"][name]["cpu_quota"]
        assert quota == cores[service.container.cpu_limit] * 100_000, name


def test_dashboard_and_collector_are_asked_for():
    """Each in its profile, with the files of this tree and the names of its services."""
    grafana, collector = (COMPOSE["services"][name] for name in ("grafana", "collector"))
    assert (grafana["profiles"], collector["profiles"]) == (["grafana"], ["collector"])
    (dashboard,) = grafana["volumes"]
    source, target, _ = dashboard.split(":")
    assert (ROOT / source).is_file()
    contents = {
        n: yaml.safe_load(c["content"] if "content" in c else (ROOT / c["file"]).read_text())
        for n, c in COMPOSE["configs"].items()
    }
    (provider,) = contents["grafana-dashboards"]["providers"]
    assert target.startswith(provider["options"]["path"])
    for data in contents["grafana-sources"]["datasources"]:
        assert urlsplit(data["url"]).hostname in COMPOSE["services"]
    pipeline = contents["collector"]["service"]["pipelines"]["traces"]
    for kind in ("receivers", "processors", "exporters"):
        assert set(pipeline[kind]) == set(contents["collector"][kind])


def test_every_client_reaches_both_servers_by_tls():
    """Each from its own folder of secrets; the paths of the servers are those of their mounts."""
    services = COMPOSE["services"]
    for name in (*SERVICES, "cli", "ddg-fleet"):
        environment = services[name]["environment"]
        assert environment["SEARCHBUS_NATS_URL"] == "tls://nats:4222", name
        for variable in ("NATS_CA", "NATS_CERT", "NATS_KEY"):
            assert environment[f"SEARCHBUS_{variable}_FILE"].startswith(SECRETS), name
    documents = services["retrieval"]["environment"]
    assert documents["SEARCHBUS_QDRANT_URL"] == "${QDRANT_URL-https://qdrant:6333}"
    assert documents["SEARCHBUS_QDRANT_CA_FILE"] == f"${{QDRANT_CA_FILE-{SECRETS}/ca.crt}}"
    for server in ("nats", "qdrant"):
        assert f"keys-{server}:/keys/{server}:ro" in services[server]["volumes"]


def test_without_a_registry_no_service_sends_traces():
    """Jaeger's image comes from one."""
    offline = yaml.load((ROOT / "deploy/offline/compose.yml").read_text(), _WithTags)
    for name in SERVICES:
        assert offline["services"][name]["environment"]["SEARCHBUS_OTLP_ENDPOINT"] == "", name


class _WithTags(yaml.SafeLoader):
    """Also reads values with Compose's tag `!override`."""


_WithTags.add_multi_constructor("!", lambda loader, tag, node: None)


def test_attached_servers_are_reached_and_hardened():
    """Each URL of the file is a container without keys, on a network without a way out; each command is in the
    image of the service."""
    added = yaml.safe_load((ROOT / "deploy/compose/attached.yml").read_text())
    declared = AttachFile(ROOT / "deploy/compose/attached.toml").read_all()
    servers = declared.servers
    built = (ROOT / "deploy/compose/attached.Dockerfile").read_text()
    assert {bool(server.url) for server in servers.values()} == {True, False}
    for server in servers.values():
        if not server.url:
            assert f"/usr/local/bin/{server.command}\n" in built
            continue
        host = urlsplit(server.url)
        container = added["services"][host.hostname]
        assert f"EXPOSE {host.port}\n" in built
        assert container["cap_drop"] == ["ALL"]
        assert container["security_opt"] == ["no-new-privileges:true"]
        assert container["read_only"]
        assert "mem_limit" in container
        assert not any("keys-" in volume for volume in container.get("volumes", []))
        (network,) = container["networks"]
        assert added["networks"][network]["internal"]
        assert network in added["services"]["attach"]["networks"]


FAKE_DOCKER = """#!/bin/sh
echo "$*" >>"$CALLS"
case $1 in
    inspect) printf '%s\\n' "$RUNNING" ;;
    config) printf 'services:\\n  edge:\\n    environment:\\n%s\\n' "$NEW" ;;
    ps) echo one ;;
esac
"""
"""Plays both `docker` and `docker compose`."""


@pytest.mark.parametrize(
    ("running", "new", "lost"),
    [
        ("SEARCHBUS_AUTH=static", "SEARCHBUS_AUTH: none", "SEARCHBUS_AUTH"),
        ("SEARCHBUS_AUTH=none", "SEARCHBUS_AUTH: static", "SEARCHBUS_AUTH"),
        ('SEARCHBUS_TAVILY_API_KEYS=["a=b"]', 'SEARCHBUS_TAVILY_API_KEYS: ""', "SEARCHBUS_TAVILY_API_KEYS"),
        ("SEARCHBUS_ISSUER=", 'SEARCHBUS_ISSUER: ""', ""),
        ("SEARCHBUS_LOG_LEVEL=info", "SEARCHBUS_LOG_LEVEL: debug", ""),
        ("SEARCHBUS_AUTH=static", "SEARCHBUS_AUTH: static", ""),
        ('SEARCHBUS_DDG_EGRESS=["http://proxy:3128"]', "SEARCHBUS_DDG_EGRESS: '[\"direct\"]'",
         "SEARCHBUS_DDG_EGRESS"),
        ('SEARCHBUS_DDG_EGRESS=["direct"]', "SEARCHBUS_DDG_EGRESS: '[\"direct\"]'", ""),
        ("SEARCHBUS_QDRANT_URL=https://q.example:6333", "SEARCHBUS_QDRANT_URL: https://qdrant:6333",
         "SEARCHBUS_QDRANT_URL"),
        ("SEARCHBUS_OTLP_ENDPOINT=", "SEARCHBUS_OTLP_ENDPOINT: http://jaeger:4318", "SEARCHBUS_OTLP_ENDPOINT"),
        ("SEARCHBUS_OTLP_ENDPOINT=", 'SEARCHBUS_OTLP_ENDPOINT: ""', ""),
    ],
)  # fmt: skip
def test_an_upgrade_that_would_lose_settings_starts_nothing(tmp_path, running, new, lost):
    """The shell that started the containers had them, and the one of the upgrade does not."""
    fake, calls = tmp_path / "docker", tmp_path / "calls"
    fake.write_text(FAKE_DOCKER)
    fake.chmod(0o755)
    (tmp_path / "sleep").symlink_to("/bin/true")
    done = subprocess.run(
        [str(ROOT / "deploy" / "compose" / "upgrade"), "edge"], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "COMPOSE": str(fake), "CALLS": str(calls),
             "RUNNING": f"PATH=/bin\nSEARCHBUS_HOST=::\n{running}",
             "NEW": f"      SEARCHBUS_HOST: '::'\n      {new}"},
    )  # fmt: skip
    begun = {line.split()[0] for line in calls.read_text().splitlines()}
    assert done.returncode == bool(lost), done.stderr
    assert begun == {"ps", "config", "inspect", *(() if lost else ("up", "stop", "rm"))}
    if lost:
        assert f"would lose {lost}," in done.stderr
        assert ".env" in done.stderr
