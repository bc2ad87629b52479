"""The Helm chart as `helm` renders it."""

from __future__ import annotations

import functools
import subprocess

from .binaries import binary
from .documents import Document, parsed
from .engine import ROOT

CHART = ROOT / "deploy" / "helm" / "searchbus"
VALUES = {
    "defaults": (),
    "dev": ("dev",),
    "prod": ("prod",),
    "attached": ("prod", "attached"),
    "gateway": ("prod", "gateway"),
    "cores": ("prod", "cores"),
}
"""Name → the files of deploy/helm/values; dev, prod and attached have an overlay of their name."""
_KUBERNETES = "1.34"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, whatever it says."""
    return subprocess.run([binary("helm"), *arguments], capture_output=True, text=True, timeout=120)


@functools.cache
def _rendered(*arguments: str) -> str:
    done = helm(
        "template", "searchbus", str(CHART), "--namespace", "searchbus",
        "--kube-version", _KUBERNETES, *arguments,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered_chart(values: str, *arguments: str) -> list[Document]:
    """The documents of the chart with the values of that name."""
    files = [f"-f={ROOT / 'deploy/helm/values' / name}.yaml" for name in VALUES[values]]
    return parsed(_rendered(*files, *arguments))
