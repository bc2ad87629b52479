"""Twenty-one real servers as a desktop host declares them, and calls that need no internet.

write_host_file(path, installed(), folder)
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .installing import Command


@dataclass(frozen=True)
class Declared:
    """A server.

    Args:
        package: of npm, or the program of the Python environment.
        arguments, env: `{folder}` is a folder of its own.
        calls: tool → arguments, and a part of the answer. Empty: each needs the internet or a
            browser.
    """

    package: str
    arguments: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    calls: dict[str, tuple[dict[str, Any], str]] = field(default_factory=dict)


SERVERS = {
    "filesystem": Declared(
        "@modelcontextprotocol/server-filesystem", ("{folder}",),
        calls={
            "write_file": ({"path": "{folder}/a.txt", "content": "hello"}, "a.txt"),
            "read_text_file": ({"path": "{folder}/a.txt"}, "hello"),
        },
    ),
    "memory": Declared(
        "@modelcontextprotocol/server-memory", env={"MEMORY_FILE_PATH": "{folder}/memory.json"},
        calls={
            "create_entities": (
                {"entities": [{"name": "Ann", "entityType": "person", "observations": ["tall"]}]},
                "Ann",
            ),
            "search_nodes": ({"query": "tall"}, "Ann"),
        },
    ),
    "everything": Declared(
        "@modelcontextprotocol/server-everything", calls={"get-sum": ({"a": 2, "b": 40}, "42")}
    ),
    "sequential-thinking": Declared(
        "@modelcontextprotocol/server-sequential-thinking",
        calls={
            "sequentialthinking": (
                {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
                "thoughtNumber",
            )
        },
    ),
    "calc": Declared(
        "@coo-quack/calc-mcp", calls={"semver": (
            {"action": "compare", "version": "1.2.0", "version2": "1.10.0"}, "-1")},
    ),
    "taskmanager": Declared(
        "@kazuph/mcp-taskmanager", env={"TASK_MANAGER_FILE_PATH": "{folder}/tasks.json"},
        calls={"list_requests": ({"random_string": "x"}, "requests")},
    ),
    "obsidian": Declared(
        "mcp-obsidian", ("{folder}/vault",),
        calls={"read_notes": ({"paths": ["note.md"]}, "written down")},
    ),
    "memory-bank": Declared(
        "@allpepper/memory-bank-mcp", env={"MEMORY_BANK_ROOT": "{folder}"},
        calls={"list_projects": ({}, "vault")},
    ),
    "playwright": Declared("@playwright/mcp"),
    "context7": Declared("@upstash/context7-mcp"),
    "eslint": Declared("@eslint/mcp"),
    "fetch": Declared("mcp-server-fetch"),
    "git": Declared(
        "mcp-server-git", ("--repository", "{folder}/repository"),
        calls={"git_status": ({"repo_path": "{folder}/repository"}, "new.txt")},
    ),
    "time": Declared(
        "mcp-server-time", ("--local-timezone", "UTC"),
        calls={"get_current_time": ({"timezone": "Asia/Tokyo"}, "+09:00")},
    ),
    "wikipedia": Declared("wikipedia-mcp"),
    "sqlite": Declared(
        "mcp-server-sqlite", ("--db-path", "{folder}/data.sqlite"),
        calls={
            "create_table": ({"query": "CREATE TABLE t (a)"}, "created"),
            "list_tables": ({}, "'t'"),
        },
    ),
    "calculator": Declared(
        "mcp-server-calculator", calls={"calculate": ({"expression": "6 * 7"}, "42")}
    ),
    "dice": Declared("mcp-dice", calls={"roll_dice": ({"notation": "2d6"}, "total")}),
    "hash": Declared(
        "hash_utils_ai_mcp",
        calls={"hash_text": ({"text": "abc", "algorithm": "sha256"}, "ba7816bf")},
    ),
    "converter": Declared("mcp-server-converter"),
    "text-editor": Declared(
        "mcp-text-editor",
        calls={"get_text_file_contents": (
            {"files": [{"file_path": "{folder}/vault/note.md", "ranges": [{"start": 1}]}]},
            "written down",
        )},
    ),
}  # fmt: skip


def write_host_file(path: Path, commands: dict[str, Command], folder: Path) -> None:
    """Write the `mcpServers` file of all of them, and the files that they read."""
    (folder / "vault").mkdir(parents=True)
    (folder / "vault" / "note.md").write_text("written down\n")
    (folder / "repository").mkdir()
    subprocess.run(["git", "init", "-q", folder / "repository"], check=True)
    (folder / "repository" / "new.txt").write_text("new\n")
    servers = {}
    for name, declared in SERVERS.items():
        command = commands[declared.package]
        servers[name] = {
            "command": command.program,
            "args": [*command.arguments, *(a.format(folder=folder) for a in declared.arguments)],
            "env": {key: value.format(folder=folder) for key, value in declared.env.items()},
        }
    path.write_text(json.dumps({"mcpServers": servers}, indent=2))
