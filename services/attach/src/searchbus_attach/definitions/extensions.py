"""What a server offers by two extensions of MCP: views of its tools, and skills.

Views (`io.modelcontextprotocol/ui`, MCP Apps of 2026-01-26): a tool names its view by a `ui://` URI
in `_meta.ui`, and the view says in its own `_meta.ui` what its sandbox may reach. Both are kept,
with the URIs that the server's resources have here.

Skills (`io.modelcontextprotocol/skills`, SEP-2640): the SKILL.md of a skill is a resource that
carries the skill's entry; its files are read as all resources of the server. Digests stay those of
the server, which a host checks after it has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from searchbus_contracts import ResourceDescriptor
from searchbus_contracts.catalog import SkillDescriptor, SkillFile

from .text import VIEWS, clean, sanitized, usable_uri, wrapped_uri

SKILLS = "io.modelcontextprotocol/skills"
MAX_FILES = 512
MAX_BYTES = 16 * 2**20
"""Limits of one skill, which each host must accept (SEP-2640, Limits)."""
MAX_FRONTMATTER_BYTES = 64 * 1024
"""As JSON; about as many as the edge takes of a folder's skill."""
_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 2_000
_SUFFIX = "/SKILL.md"
_MAX_URI_CHARS = 1024
_VISIBILITY = ("model", "app")


def tool_meta(server: str, meta: Any) -> dict[str, Any] | None:
    """The `_meta` of a tool that has a view; None of any other.

    Its deprecated form, one key `ui/resourceUri`, becomes the present one.
    """
    if not isinstance(meta, dict):
        return None
    ui = meta.get("ui")
    given = ui if isinstance(ui, dict) else {}
    uri = given.get("resourceUri", meta.get("ui/resourceUri"))
    kept: dict[str, Any] = {}
    if usable_uri(uri) and uri.startswith(VIEWS) and len(uri) <= _MAX_URI_CHARS:
        kept["resourceUri"] = wrapped_uri(server, uri)
    visibility = given.get("visibility")
    if isinstance(visibility, list):
        kept["visibility"] = [one for one in _VISIBILITY if one in visibility]
    return {"ui": kept} if kept else None


def resource_meta(uri: str, meta: Any) -> dict[str, Any] | None:
    """The `_meta` of a view, by its URI at the server, among the resources; None of any other
    resource."""
    if not uri.startswith(VIEWS) or not isinstance(meta, dict):
        return None
    ui = meta.get("ui")
    return {"ui": sanitized(ui)} if isinstance(ui, dict) else None


class _Entry(Struct):
    uri: str
    frontmatter: dict[str, Any]
    resources: Any


def skill_resource(server: str, item: Any) -> ResourceDescriptor:
    """The SKILL.md of an entry of skills/list; raises ValueError where the entry is not valid."""
    entry = msgspec.convert(item, _Entry)
    frontmatter, uri = entry.frontmatter, entry.uri
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not usable_uri(uri) or not uri.endswith(_SUFFIX):
        raise ValueError(f"its URI does not end with {_SUFFIX}")
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS:
        raise ValueError("it has no usable name")
    root = uri.removesuffix(_SUFFIX)
    if root.rpartition("/")[2] != name:
        raise ValueError("its name is not that of its folder")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("it has no description")
    if len(msgspec.json.encode(frontmatter)) > MAX_FRONTMATTER_BYTES:
        raise ValueError(f"its frontmatter has more than {MAX_FRONTMATTER_BYTES // 1024} KiB")
    if sanitized(frontmatter) != frontmatter:  # a changed one would not be that of its SKILL.md
        raise ValueError("its frontmatter has characters that nobody sees")
    return ResourceDescriptor(
        uri=wrapped_uri(server, uri),
        name=name,
        toolset=server,
        description=clean(description, _MAX_DESCRIPTION_CHARS),
        mime_type="text/markdown",
        untrusted=True,
        skill=SkillDescriptor(frontmatter=frontmatter, files=_files(server, root, entry)),
    )


def with_skills(
    resources: tuple[ResourceDescriptor, ...], skills: tuple[ResourceDescriptor, ...]
) -> tuple[ResourceDescriptor, ...]:
    """The resources, those of skills with their entries, and the SKILL.md that are not listed."""
    entries = {skill.uri: skill for skill in skills}
    found = [
        msgspec.structs.replace(r, skill=entries.pop(r.uri).skill) if r.uri in entries else r
        for r in resources
    ]
    return (*found, *entries.values())


def _files(server: str, root: str, entry: _Entry) -> tuple[SkillFile, ...]:
    """The files of a skill; none where they are made anew at each read."""
    if entry.resources == "dynamic":
        return ()
    files: Sequence[SkillFile] = msgspec.convert(entry.resources, list[SkillFile])
    uris = {file.uri for file in files}
    if entry.uri not in uris or len(uris) != len(files):
        raise ValueError("its files do not have its SKILL.md, or one of them twice")
    if not all(usable_uri(uri) and uri.startswith(f"{root}/") for uri in uris):
        raise ValueError("one of its files is outside of its folder")
    if len(files) > MAX_FILES or sum(file.size for file in files) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_FILES} files or {MAX_BYTES // 2**20} MiB")
    return tuple(msgspec.structs.replace(f, uri=wrapped_uri(server, f.uri)) for f in files)
