"""The Helm chart: what it renders, how that differs from the overlays, which values it refuses."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from searchbus_edge.auth.authenticator import METADATA_PATH
from searchbus_edge.interfaces.api import SEGMENTS
from searchbus_edge.interfaces.server_card import CATALOG_PATH
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime.services import installed_services

from .binaries import why_no_binary
from .chart import CHART, VALUES, helm, rendered_chart
from .chart_differences import differences
from .documents import Document, name_of, pod_of
from .engine import ROOT, SERVICES
from .manifests import render, renderer

pytestmark = pytest.mark.skipif(
    why_no_binary("helm") is not None, reason=str(why_no_binary("helm"))
)

STATED = {
    "Helm puts objects into the release's namespace, and does not make it": (
        r"Namespace searchbus|.* /metadata/namespace"
    ),
    "labels say which chart made an object": (
        r".* /metadata/labels(/(helm\.sh/chart|app\.kubernetes\.io/managed-by))?"
    ),
    "a checksum replaces the hash in the name of a ConfigMap": (
        r"(Deployment|StatefulSet) \S+ /spec/template/metadata/annotations"
    ),
    "`helm uninstall` leaves volumes": r"PersistentVolumeClaim \S+ /metadata/annotations",
}  # fmt: skip
"""All that the chart's objects have otherwise than the overlays', with the reason."""
LABELS = {"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of"}


def of(documents: list[Document], kind: str, name: str) -> Document:
    (found,) = (d for d in documents if (d["kind"], name_of(d)) == (kind, name))
    return found


@pytest.mark.slow
def test_the_linter_has_nothing_to_say():
    """With the values of each file, warnings counted."""
    for names in VALUES.values():
        files = [f"-f={ROOT / 'deploy/helm/values' / name}.yaml" for name in names]
        done = helm("lint", "--strict", "--quiet", "--kube-version", "1.34", str(CHART), *files)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(renderer() is None, reason="neither kustomize nor kubectl")
def test_objects_are_those_of_the_overlays_but_for_a_stated_list():
    """Every difference has its reason, and each reason its difference."""
    given = set()
    for overlay in ("dev", "prod", "attached"):
        for title, place, one, other in differences(render(overlay), rendered_chart(overlay)):
            where = title if title.startswith("Namespace") else f"{title} {place}"
            reasons = {why for why, form in STATED.items() if re.fullmatch(form, where)}
            assert reasons, f"{overlay}: {where}: {one} in the overlay, {other} in the chart"
            if place == "/metadata/labels":
                assert set(other) <= LABELS
            given |= reasons
    assert given == set(STATED)


BY_TLS = {
    "NATS has a certificate": (
        r"ConfigMap nats /data/nats\.conf|StatefulSet nats /spec/template/spec/.*"
        r"(/tls|/reload/args|/reload/volumeMounts.*|/nats/volumeMounts.*)"
    ),
    "each service trusts its authority": r"Deployment \S+ /spec/template/spec/.*/tls-nats",
    "the URL says so": r"ConfigMap settings /data/SEARCHBUS_NATS_(URL|CA_FILE)",
    "pods follow their settings": r"\S+ \S+ /spec/template/metadata/annotations/checksum/settings",
}  # fmt: skip


def test_tls_adds_certificates_and_their_places_and_changes_nothing_else():
    """Of the chart; the overlays leave it to the official charts of both servers."""
    given = set()
    without, by_tls = rendered_chart("dev"), rendered_chart("dev", "--set=tls.enabled=true")
    for title, place, one, other in differences(without, by_tls):
        reasons = {why for why, form in BY_TLS.items() if re.fullmatch(form, f"{title} {place}")}
        assert reasons, f"{title} {place}: {one} without TLS, {other} with it"
        given |= reasons
    assert given == set(BY_TLS)


REFUSED = {
    "a wrong name of a value": ("ingress.clasName=nginx", "'clasName' not allowed", "/ingress"),
    "a service that does not exist": ("services.wbe.replicas=2", "'wbe' not allowed", "/services"),
    "a wrong type": ("services.web.replicas=many", "want integer", "/services/web/replicas"),
    "a number that is negative": ("autoscaling.minReplicas=0", "minimum", "/autoscaling/minReplicas"),
    "a setting that does not exist": (
        "settings.ddg.SEARCHBUS_DDG_EGRES=[]", "'SEARCHBUS_DDG_EGRES' not allowed", "/settings/ddg"),
    "a setting of another service": (
        "settings.web.SEARCHBUS_DDG_EGRESS=[]", "'SEARCHBUS_DDG_EGRESS' not allowed", "/settings/web"),
    "a secret in a ConfigMap": (
        "settings.all.SEARCHBUS_NATS_NKEY_SEED=SU", "'SEARCHBUS_NATS_NKEY_SEED' not allowed", "/settings/all"),
    "a setting that is not a text": (
        "settings.edge.SEARCHBUS_PORT=8080", "want string", "/settings/edge/SEARCHBUS_PORT"),
    "a digest that is not valid": ("image.digests.edge=latest", "sha256", "/image/digests/edge"),
    "an Ingress without a host": ("ingress.enabled=true", "pattern", "/ingress/host"),
    "a route without a Gateway": ("httpRoute.enabled=true", "minItems", "/httpRoute/parentRefs"),
    "attached servers without a file": ("attach.enabled=true", "minLength", "/attach/servers"),
    "external Secrets without a store": ("externalSecrets.enabled=true", "pattern", "/externalSecrets/store/name"),
    "a backup at no time": ("backup.schedule=daily", "pattern", "/backup/schedule"),
    "a backup of which none is kept": ("backup.keep=0", "minimum", "/backup/keep"),
    "a pod that gives up its hardening": ("pod.hostNetwork=true", "'hostNetwork' not allowed", "/pod"),
    "a pod that runs as root": ("podSecurityContext.runAsUser=0", "minimum", "/podSecurityContext/runAsUser"),
}  # fmt: skip


@pytest.mark.parametrize("title", REFUSED)
def test_schema_refuses_wrong_values_with_their_place(title):
    """Before anything is sent to a cluster: what is wrong, and where."""
    value, what, where = REFUSED[title]
    done = helm("template", "searchbus", str(CHART), "--kube-version", "1.34", "--set", value)
    assert done.returncode != 0
    assert what in done.stderr or what.lower() in done.stderr.lower()
    assert f"at '{where}'" in done.stderr


def test_backup_is_that_of_the_component():
    """The same command, volume and Secret, but for what the chart adds to every object."""
    file = ROOT / "deploy" / "k8s" / "components" / "backup" / "backup.yaml"
    component = [d for d in yaml.safe_load_all(file.read_text()) if d]
    names = {(d["kind"], name_of(d)) for d in component}
    rendered = rendered_chart("dev", "--set=backup.enabled=true,image.pullPolicy=Always,image.tag=")
    chart = [d for d in rendered if (d["kind"], name_of(d)) in names]
    assert len(chart) == len(component) == 3
    for title, place, one, other in differences(component, chart):
        assert any(re.fullmatch(form, f"{title} {place}") for form in STATED.values()), (one, other)
    assert ("CronJob", "backup") not in {(d["kind"], name_of(d)) for d in rendered_chart("dev")}


def test_older_kubernetes_is_refused():
    """preStop `sleep` would be dropped there, and calls would be lost."""
    done = helm("template", "searchbus", str(CHART), "--kube-version", "1.29")
    assert done.returncode != 0
    assert "requires kubeVersion: >=1.30" in done.stderr


def test_clients_reach_every_path_that_the_edge_serves():
    """The interfaces of the code, by Ingress, by Gateway, and in the overlay."""
    served = {"/mcp", "/documents", METADATA_PATH, CATALOG_PATH, *(f"/{name}" for name in SEGMENTS)}
    interfaces = EdgeSettings.model_fields["http_interfaces"].default
    served |= {f"/{name}" for name in interfaces}
    ingress = of(rendered_chart("prod"), "Ingress", "edge")
    assert {p["path"] for p in ingress["spec"]["rules"][0]["http"]["paths"]} == served
    documents = rendered_chart("gateway")
    assert not [d for d in documents if d["kind"] == "Ingress"]
    rules = of(documents, "HTTPRoute", "edge")["spec"]["rules"]
    assert {match["path"]["value"] for rule in rules for match in rule["matches"]} == served
    for rule in rules:
        assert rule["backendRefs"] == [{"name": "edge", "port": 8080}]
        assert rule["timeouts"] == {"request": "0s"}
        assert len(rule["matches"]) <= 8


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["ingress.enabled=true", "ingress.host=a.example"], ["a.example"]),
        (["httpRoute.enabled=true", "httpRoute.hostnames={a.example,b.example}"], ["a.example", "b.example"]),
        (["ingress.enabled=true", "ingress.host=a.example", "httpRoute.enabled=true",
          "httpRoute.hostnames={a.example,b.example}"], ["a.example", "b.example"]),
        (["ingress.host=a.example", "httpRoute.hostnames={b.example}"], None),
        (["ingress.enabled=true", "ingress.host=a.example",
          r"settings.edge.SEARCHBUS_ALLOWED_HOSTS=[\"c.example\"]"], ["c.example"]),
    ],
)  # fmt: skip
def test_the_edge_accepts_the_host_names_of_its_routes(options, names):
    """What the notes of a release tell clients to connect to."""
    others = ("settings.edge.SEARCHBUS_AUTH=static", "httpRoute.parentRefs[0].name=public")
    documents = rendered_chart("defaults", *(f"--set={option}" for option in (*others, *options)))
    found = of(documents, "ConfigMap", "edge")["data"].get("SEARCHBUS_ALLOWED_HOSTS")
    assert (json.loads(found) if found else None) == names


def test_a_route_leads_browsers_to_the_pages_of_attached_servers():
    """As the Ingress does."""
    files = [f"-f={ROOT / 'deploy/helm/values' / name}.yaml" for name in ("attached", "gateway")]
    documents = rendered_chart("prod", *files)
    (rule,) = of(documents, "HTTPRoute", "attach-pages")["spec"]["rules"]
    service = of(documents, "Service", "attach-pages")
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/sign-in"}}]
    assert rule["backendRefs"][0]["port"] == service["spec"]["ports"][0]["port"]


def test_a_release_is_scaled_by_its_own_load():
    """Not by that of an installation in another namespace."""
    queries = [
        trigger["metadata"]["query"]
        for d in rendered_chart("prod", "--namespace=other")
        if d["kind"] == "ScaledObject"
        for trigger in d["spec"]["triggers"]
    ]
    assert len(queries) == 5
    assert all(query.count('namespace="other"') == query.count("{") for query in queries)


def test_an_attached_server_may_have_a_name_that_no_object_can_have():
    """Names of toolsets have capitals and underscores."""
    documents = rendered_chart("attached", "--set=attach.egress.My_Wiki_[0].ports[0].port=443")
    assert of(documents, "NetworkPolicy", "attached-my-wiki")


def test_images_are_named_by_digest_where_one_is_given():
    """The others keep their tag."""
    digest = "sha256:" + "a" * 64
    documents = rendered_chart("prod", f"--set=image.digests.edge={digest}")
    images = {
        name_of(d): pod_of(d)["containers"][0]["image"]
        for d in documents
        if d["kind"] == "Deployment"
    }
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    where = "registry.example.org/searchbus"
    assert images.pop("edge") == f"{where}/edge@{digest}"
    assert images == {name: f"{where}/{name}:{version}" for name in SERVICES if name != "edge"}


def annotations(documents: list[Document], service: str) -> Document:
    return of(documents, "Deployment", service)["spec"]["template"]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ("--set-string=settings.web.SEARCHBUS_EXTRACT_PROCESSES=3", {"web"}),
        ("--set-string=settings.all.SEARCHBUS_LOG_LEVEL=debug", set(SERVICES)),
        ("--set-string=secrets.web-providers.SEARCHBUS_BRAVE_API_KEYS=[]", {"web"}),
        ("--set-string=secrets.searchbus-edge.SEARCHBUS_STATE_KEY=k", {"edge"}),
        ("--set-string=secrets.something.KEY=k", set()),
    ],
)
def test_a_changed_setting_or_secret_replaces_the_pods_that_read_it(change, changed):
    """And no others."""
    before, after = rendered_chart("prod"), rendered_chart("prod", change)
    assert {n for n in SERVICES if annotations(before, n) != annotations(after, n)} == changed


def test_another_key_in_a_secret_of_the_chart_is_another_checksum():
    """The value counts, not only the name."""
    form = "--set-string=secrets.web-providers.SEARCHBUS_BRAVE_API_KEYS="
    first, second = (rendered_chart("prod", form + key) for key in ("a", "b"))
    assert annotations(first, "web") != annotations(second, "web")
    assert of(second, "Secret", "web-providers")["stringData"] == {"SEARCHBUS_BRAVE_API_KEYS": "b"}


def test_external_secrets_are_made_for_the_names_that_are_given():
    """Each from its key of the store."""
    documents = rendered_chart(
        "prod", "--set=externalSecrets.enabled=true,externalSecrets.store.name=vault",
        "--set=externalSecrets.secrets.searchbus-edge=prod/searchbus-edge",
    )  # fmt: skip
    spec = of(documents, "ExternalSecret", "searchbus-edge")["spec"]
    assert spec["target"]["name"] == "searchbus-edge"
    assert spec["secretStoreRef"] == {"kind": "ClusterSecretStore", "name": "vault"}
    assert spec["dataFrom"] == [{"extract": {"key": "prod/searchbus-edge"}}]


def test_certificate_authorities_are_mounted_where_they_are_needed():
    """NATS in every pod, Qdrant in those of retrieval, and the settings name the files."""
    documents = rendered_chart(
        "prod", "--set=tls.nats.caSecret=nats-ca,tls.qdrant.caSecret=qdrant-ca"
    )
    for service in SERVICES:
        pod = pod_of(of(documents, "Deployment", service))
        mounted = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
        secrets = {v["secret"]["secretName"]: v["name"] for v in pod["volumes"] if "secret" in v}
        assert set(secrets) == {"nats-ca", *(["qdrant-ca"] if service == "retrieval" else [])}
        for secret, volume in secrets.items():
            config = "settings" if secret == "nats-ca" else "retrieval"
            setting = f"SEARCHBUS_{secret.removesuffix('-ca').upper()}_CA_FILE"
            named = of(documents, "ConfigMap", config)["data"][setting]
            assert named == f"{mounted[volume]}/ca.crt"


def test_openshift_chooses_the_numbers_of_users():
    """A number of ours would be refused by its security context constraints."""
    nothing = [
        f"--set=podSecurityContext.{key}=null" for key in ("runAsUser", "runAsGroup", "fsGroup")
    ]
    for workload in rendered_chart("dev", *nothing):
        if workload["kind"] in ("Deployment", "StatefulSet"):
            security = pod_of(workload)["securityContext"]
            assert security["runAsNonRoot"] is True
            assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(security)


def test_without_policies_none_is_rendered():
    """For clusters whose policies come from elsewhere."""
    documents = rendered_chart("attached", "--set=networkPolicy.enabled=false")
    assert not [d for d in documents if d["kind"] == "NetworkPolicy"]


def test_every_declared_service_is_in_the_chart():
    """values.yaml and the schema are written from the declarations."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(values["services"]) == set(installed_services())
    assert set(schema["services"]["properties"]) == set(installed_services())
    assert set(schema["settings"]["properties"]) == {"all", *installed_services()}
    assert set(schema) == {*values, "global"}
