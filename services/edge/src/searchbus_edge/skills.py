"""Skills for agents, served as resources: the Skills extension of MCP (SEP-2640).

Those of folders are read once when the edge starts, and served from memory: a folder that has a
SKILL.md is a skill, and its path below the folder of skills is its URI. Links are followed only
where they stay below that folder, so no path leads out of it. Prompts and workers have skills, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mcp_types as types
import msgspec
import yaml

from searchbus_contracts import Actor, PromptDescriptor, TextContent
from searchbus_contracts.queries import check_query
from searchbus_passages import bm25, terms

from .catalog.view import LAZY, MadeOf, View
from .tools.faults import invalid_params

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
    """A skill whose files (by path, with `SKILL.md`) are in memory: what is read is what the
    digests are of. The last segment of `root` is its name."""

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
        """A file by its URI, as text where its bytes are UTF-8; None where there is none."""
        path = uri.removeprefix(f"{self.root}/")
        data = self.files.get(path) if path != uri else None
        if data is None:
            return None
        kind = "text/markdown" if path.endswith(".md") else None
        try:
            return types.TextResourceContents(uri=uri, mime_type=kind, text=data.decode())
        except UnicodeDecodeError:
            kind, blob = "application/octet-stream", msgspec.to_builtins(data)  # base64
            return types.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)


def make_skill(root: str, files: Mapping[str, bytes]) -> Skill:
    """A skill of these files; raises SkillError."""
    frontmatter = read_frontmatter(files.get(SKILL_FILE, b""))
    name = root.rpartition("/")[2]
    if frontmatter["name"] != name:
        raise SkillError(f"its name is {frontmatter['name']!r}, and its folder is {name!r}")
    return Skill(root, files, frontmatter)


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
    if not isinstance(name, str) or len(name) > 64 or not _NAME.fullmatch(name):
        raise SkillError("its name must have 1 to 64 of a-z 0-9 and single hyphens between them")
    if not isinstance(description, str) or not description.strip():
        raise SkillError("its frontmatter has no description")
    return frontmatter


def of_prompt(name: str, prompt: PromptDescriptor) -> Skill | None:
    """The skill of a prompt by its listed name; None where others write or fill in its text."""
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


log = logging.getLogger("searchbus.edge")
MAX_SKILLS = 200
MAX_TOTAL_BYTES = 32 * 2**20
"""All skills together: each edge holds them in memory."""
_MAX_LOOKED_AT = 20_000


def read_folder(folder: Path) -> tuple[Skill, ...]:
    """The skills below a folder, by URI; the unusable are logged, left out. Raises OSError."""
    root = folder.resolve(strict=True)
    found: list[Skill] = []
    left_bytes = MAX_TOTAL_BYTES
    for manifest in _manifests(root):
        if len(found) == MAX_SKILLS:
            log.warning("there are more than %d skills; the others are not served", MAX_SKILLS)
            break
        place = manifest.parent.relative_to(root).as_posix()
        try:
            skill = make_skill(f"skill://{quote(place)}", _read(root, manifest.parent, left_bytes))
        except (SkillError, OSError) as error:
            log.warning("the skill %s is not served: %s", place, error)
            continue
        left_bytes -= sum(map(len, skill.files.values()))
        found.append(skill)
    return tuple(found)


def _manifests(root: Path) -> Iterator[Path]:
    """Each SKILL.md below a folder, in order."""
    for looked_at, (place, folders, files) in enumerate(os.walk(root)):
        if looked_at > _MAX_LOOKED_AT:
            log.warning("the folder of skills has more than %d folders", _MAX_LOOKED_AT)
            return
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if SKILL_FILE in files and Path(place) != root:
            yield Path(place) / SKILL_FILE


def _read(root: Path, folder: Path, left_bytes: int) -> dict[str, bytes]:
    """The files of a skill by path; raises SkillError where they are too many or too large."""
    files: dict[str, bytes] = {}
    size_bytes = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            if name.startswith(".") or not path.resolve().is_relative_to(root):
                continue
            if not path.is_file():  # a pipe or a device would never end
                continue
            size_bytes += path.stat().st_size
            if len(files) == MAX_FILES or size_bytes > min(MAX_BYTES, left_bytes):
                raise SkillError(
                    f"it has more than {MAX_FILES} files or {MAX_BYTES // 2**20} MiB, or all "
                    f"skills have more than {MAX_TOTAL_BYTES // 2**20} MiB"
                )
            files[quote(path.relative_to(folder).as_posix())] = path.read_bytes()
    return files


MAX_FOUND = 10
_MAX_QUERY_CHARS = 2000
_MAX_VIEWS = 64
_SEARCHED_CHARS = 2000
Entry = dict[str, Any]


@dataclass(frozen=True)
class Offered:
    """A skill's entry, and who may see it; `skill` where its files are here."""

    entry: Entry
    required_roles: tuple[str, ...]
    skill: Skill | None = None

    @cached_property
    def words(self) -> list[str]:
        """What it is found by: its name, and the beginning of its description."""
        front = self.entry["frontmatter"]
        return terms(f"{front.get('name')} {front.get('description')}"[:_SEARCHED_CHARS])


class Skills:
    """Lists, finds and reads skills; those of folders are on `/mcp` and `/mcp/lazy`."""

    def __init__(self, folders: Sequence[Skill] = ()) -> None:
        self._folders = {skill.uri: Offered(skill.entry, (), skill) for skill in folders}
        self._made: MadeOf[str | None, dict[str, Offered]] = MadeOf(_MAX_VIEWS)

    def entries(self, actor: Actor, view: View) -> list[Entry]:
        """The entries that the actor may see."""
        return [found.entry for found in self._seen(actor, view)]

    def get(self, actor: Actor, view: View, uri: str) -> Entry:
        """The entry of a SKILL.md; raises MCPError(-32602) where there is none."""
        found = self._all(view).get(uri)
        if found is None or not actor.holds(found.required_roles):
            raise invalid_params("Unknown skill. Take a URI from skills/list.")
        return found.entry

    async def search(self, actor: Actor, view: View, query: str) -> list[Entry]:
        """The best entries for the query's words, in order; raises Fault(invalid_query)."""
        wanted = set(terms(check_query(query, max_chars=_MAX_QUERY_CHARS)))
        seen = self._seen(actor, view)
        # In a thread: servers may list thousands.
        scores = await asyncio.to_thread(lambda: bm25(wanted, [found.words for found in seen]))
        order = sorted(range(len(seen)), key=lambda i: (-scores[i], i))
        return [seen[i].entry for i in order[:MAX_FOUND] if scores[i] > 0]

    def read(self, actor: Actor, view: View, uri: str) -> types.ReadResourceResult | None:
        """A file of a skill that is here; None of any other URI, and without the roles."""
        if not uri.startswith("skill://"):
            return None
        for found in self._seen(actor, view):
            contents = found.skill.contents(uri) if found.skill is not None else None
            if contents is not None:
                return types.ReadResourceResult(contents=[contents])
        return None

    def _seen(self, actor: Actor, view: View) -> Sequence[Offered]:
        return [o for o in self._all(view).values() if actor.holds(o.required_roles)]

    def _all(self, view: View) -> dict[str, Offered]:
        """Every skill of a view by its URI; made once for each version of it."""
        kept = self._made.version(view)
        found = kept.get(view.toolset)
        if found is None:
            found = kept[view.toolset] = self._make(view)
        return found

    def _make(self, view: View) -> dict[str, Offered]:
        found = dict(self._folders) if view.toolset in (None, LAZY) else {}
        for name, prompt in view.prompts.items():
            skill = of_prompt(name, prompt)
            if skill is not None:
                found.setdefault(skill.uri, Offered(skill.entry, prompt.required_roles, skill))
        for uri, resource in view.resources.items():
            if resource.skill is not None:
                listed = list(map(msgspec.to_builtins, resource.skill.files)) or "dynamic"
                front = resource.skill.frontmatter
                entry = {"uri": uri, "frontmatter": front, "resources": listed}
                found.setdefault(uri, Offered(entry, resource.required_roles))
        return found
