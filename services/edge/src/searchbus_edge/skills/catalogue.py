"""The skills of an endpoint: those of folders, of prompts, and of workers that offer some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mcp_types as types
import msgspec

from searchbus_contracts import Actor
from searchbus_contracts.queries import check_query
from searchbus_passages import bm25, terms

from ..catalog.view import LAZY, MadeOf, View
from ..tools.faults import invalid_params
from .entries import Skill, of_prompt, of_resource

MAX_FOUND = 10
_MAX_QUERY_CHARS = 2000
_MAX_VIEWS = 64
Entry = dict[str, Any]


class Offered(msgspec.Struct, frozen=True):
    """A skill's entry, and who may see it; `skill` where its files are here."""

    entry: Entry
    required_roles: tuple[str, ...]
    skill: Skill | None = None


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

    def search(self, actor: Actor, view: View, query: str) -> list[Entry]:
        """The entries whose name and description have words of the query, best first; raises
        Fault(invalid_query)."""
        query = check_query(query, max_chars=_MAX_QUERY_CHARS)
        seen = self._seen(actor, view)
        texts = [_words(found.entry) for found in seen]
        scores = bm25(set(terms(query)), texts)
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
                entry = of_resource(uri, resource.skill)
                found.setdefault(uri, Offered(entry, resource.required_roles))
        return found


def _words(entry: Entry) -> list[str]:
    frontmatter = entry["frontmatter"]
    return terms(f"{frontmatter.get('name', '')} {frontmatter.get('description', '')}")
