"""Skills of folders: read once when the edge starts, and served from memory.

A folder that has a SKILL.md is a skill; its path below the folder of skills is its URI. Links are
followed only where they stay below that folder, so no path leads out of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from .entries import MAX_BYTES, MAX_FILES, SKILL_FILE, Skill, SkillError, make_skill

log = logging.getLogger("searchbus.edge")
MAX_SKILLS = 200
MAX_TOTAL_BYTES = 32 * 2**20
"""All skills together: each edge holds them in memory."""
_MAX_LOOKED_AT = 20_000


def read_folder(folder: Path) -> tuple[Skill, ...]:
    """The skills below a folder, by URI; one that cannot be served is logged and left out. Raises
    OSError."""
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
