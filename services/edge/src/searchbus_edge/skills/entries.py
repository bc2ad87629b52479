"""A skill: its files in memory, and its entry as skills/list shows it (SEP-2640, Skill Entries)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mcp_types as types
import msgspec
import yaml

from searchbus_contracts import PromptDescriptor, TextContent
from searchbus_contracts.catalog import SkillDescriptor

EXTENSION = "io.modelcontextprotocol/skills"
SKILL_FILE = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 2**20
"""Limits of one skill, which each host must accept (SEP-2640, Limits)."""
_MAX_FRONTMATTER_CHARS = 64 * 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)


class SkillError(ValueError):
    """A skill that cannot be served; the message says why."""


@dataclass(frozen=True)
class Skill:
    """A skill whose files are in memory, so that what is read is what the digests are of.

    Args:
        root: the URI of its folder; the last segment is its name.
        files: the bytes by path, `SKILL.md` included.
        required_roles: a caller needs all of these.
    """

    root: str
    files: Mapping[str, bytes]
    frontmatter: Mapping[str, Any]
    required_roles: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        """The URI of its SKILL.md."""
        return f"{self.root}/{SKILL_FILE}"

    @cached_property
    def entry(self) -> dict[str, Any]:
        """As skills/list shows it."""
        resources = [
            {
                "uri": f"{self.root}/{path}",
                "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
                "size": len(data),
            }
            for path, data in self.files.items()
        ]
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": resources}

    def contents(self, uri: str) -> types.TextResourceContents | types.BlobResourceContents | None:
        """A file by its URI; None where the skill has no such file."""
        path = uri.removeprefix(f"{self.root}/")
        data = self.files.get(path) if path != uri else None
        if data is None:
            return None
        return file_contents(uri, path, data)


def make_skill(
    root: str, files: Mapping[str, bytes], required_roles: tuple[str, ...] = ()
) -> Skill:
    """A skill of these files; raises SkillError."""
    size_bytes = sum(map(len, files.values()))
    if len(files) > MAX_FILES or size_bytes > MAX_BYTES:
        raise SkillError(f"it has more than {MAX_FILES} files or {MAX_BYTES // 2**20} MiB")
    frontmatter = read_frontmatter(files.get(SKILL_FILE, b""))
    name = root.rpartition("/")[2]
    if frontmatter["name"] != name:
        raise SkillError(f"its name is {frontmatter['name']!r}, and its folder is {name!r}")
    return Skill(root, files, frontmatter, required_roles)


def read_frontmatter(data: bytes) -> dict[str, Any]:
    """The YAML frontmatter of a SKILL.md as JSON values; raises SkillError."""
    try:
        found = _FRONTMATTER.match(data.decode().replace("\r\n", "\n"))
        if found is None or len(found[1]) > _MAX_FRONTMATTER_CHARS:
            raise SkillError("its SKILL.md does not begin with frontmatter between two lines ---")
        # Dates become texts, as the file has them.
        frontmatter = msgspec.to_builtins(yaml.safe_load(found[1]))
    except (UnicodeDecodeError, yaml.YAMLError, TypeError, RecursionError) as error:
        raise SkillError(f"its frontmatter is not YAML of plain values ({error})") from None
    if not isinstance(frontmatter, dict):
        raise SkillError("its frontmatter is not a mapping")
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or not is_name(name):
        raise SkillError("its name must have 1 to 64 of a-z 0-9 and single hyphens between them")
    if not isinstance(description, str) or not description.strip():
        raise SkillError("its frontmatter has no description")
    return frontmatter


def is_name(name: str) -> bool:
    """Whether a name follows the rules of the Agent Skills specification."""
    return len(name) <= 64 and _NAME.fullmatch(name) is not None


def file_contents(
    uri: str, path: str, data: bytes
) -> types.TextResourceContents | types.BlobResourceContents:
    """A file as resources/read shows it: text where its bytes are UTF-8."""
    kind = "text/markdown" if path.endswith(".md") else None
    try:
        return types.TextResourceContents(uri=uri, mime_type=kind, text=data.decode())
    except UnicodeDecodeError:
        blob = msgspec.to_builtins(data)  # base64
        return types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)


def of_prompt(name: str, prompt: PromptDescriptor) -> Skill | None:
    """The skill of a prompt by its listed name; None where others wrote its text, or its worker
    fills it in."""
    own = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-")
    description = prompt.description or prompt.title
    texts = [m.content.text for m in prompt.messages if isinstance(m.content, TextContent)]
    if not texts or not own or not description or prompt.untrusted:
        return None
    frontmatter = {"name": own, "description": description}
    lines = [
        "---",
        *(f"{key}: {json.dumps(value)}" for key, value in frontmatter.items()),
        "---",
        "",
        f"# {prompt.title or name}",
        "",
        *texts,
    ]
    if prompt.arguments:
        lines += ["", "Fill in what stands in braces:", ""]
        lines += [f"- `{{{a.name}}}`: {a.description or a.name}" for a in prompt.arguments]
    text = "\n".join(lines) + "\n"
    files = {SKILL_FILE: text.encode()}
    return Skill(f"skill://prompts/{own}", files, frontmatter, prompt.required_roles)


def of_resource(uri: str, skill: SkillDescriptor) -> dict[str, Any]:
    """The entry of a skill that a worker offers with its SKILL.md."""
    files: Any = [msgspec.to_builtins(file) for file in skill.files] or "dynamic"
    return {"uri": uri, "frontmatter": skill.frontmatter, "resources": files}
