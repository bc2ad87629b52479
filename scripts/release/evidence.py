"""What goes with the files of a release: a bill of materials, and where they come from.

CycloneDX 1.6 by cyclonedx-py; an in-toto statement 1.0 with SLSA's provenance 1.0.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BUILD_TYPE = "urn:searchbus:make-release:1"


def sha256(path: Path) -> str:
    """The checksum of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bill(tool: Path, arguments: Iterable[object], out: Path, component: dict[str, Any]) -> None:
    """Write the bill of materials of an environment or of a lock.

    Args:
        tool: the program cyclonedx-py.
        arguments: what it reads, such as `["requirements", "requirements/edge.txt"]`.
        component: what the bill is of; the same package is no part of itself.

    Raises:
        subprocess.CalledProcessError: it cannot be read, or the result is invalid.
    """
    subprocess.run(
        [tool, *map(str, arguments), "--spec-version", "1.6", "--output-reproducible",
         "--output-file", out],
        check=True,
    )  # fmt: skip
    found = json.loads(out.read_text())
    inner = [one["bom-ref"] for one in found["components"] if one["name"] == component["name"]]
    found["components"] = [one for one in found["components"] if one["bom-ref"] not in inner]
    for node in found.get("dependencies", []):
        if node["ref"] in inner:
            node["ref"] = component["bom-ref"]
    found.setdefault("metadata", {})["component"] = component
    out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def distribution(version: str, wheel: Path) -> dict[str, Any]:
    """The wheel as a component of CycloneDX."""
    return {
        "type": "application",
        "bom-ref": f"pkg:pypi/searchbus@{version}",
        "purl": f"pkg:pypi/searchbus@{version}",
        "name": "searchbus",
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": sha256(wheel)}],
    }


def image(name: str, version: str, digest: str) -> dict[str, Any]:
    """A container image as a component of CycloneDX."""
    return {
        "type": "container",
        "bom-ref": f"pkg:oci/{name}@sha256%3A{digest}",
        "purl": f"pkg:oci/{name}@sha256%3A{digest}",
        "name": f"searchbus/{name}",
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def provenance(
    subjects: Mapping[str, str],
    *,
    version: str,
    source: str,
    revision: str,
    locks: Iterable[Path],
    times: tuple[str, str],
    builder: str,
    tools: Mapping[str, str],
) -> dict[str, Any]:
    """The statement that says which source, parameters and builder made the subjects.

    Args:
        subjects: name of a file or image → sha256.
        source: address of the repository.
        revision: the commit.
        locks: files that fix by hash what is taken from others.
        times: start and end, as 2026-01-31T12:00:00Z.
        builder: a URI that says who is trusted for this statement.
        tools: name → version.
    """
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest}}
            for name, digest in sorted(subjects.items())
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"VERSION": version},
                "internalParameters": {"platform": platform.platform()},
                "resolvedDependencies": [
                    {"uri": source, "digest": {"gitCommit": revision}},
                    *(
                        {"name": f"requirements/{lock.name}", "digest": {"sha256": sha256(lock)}}
                        for lock in sorted(locks)
                    ),
                ],
            },
            "runDetails": {
                "builder": {"id": builder, "version": dict(tools)},
                "metadata": {"startedOn": times[0], "finishedOn": times[1]},
            },
        },
    }
