"""Calls five tools by a client that was generated from the document; prints what they returned.

usage: openapi_client.py URL FOLDER_OF_THE_CLIENT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

URL, FOLDER = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(FOLDER.parent))

from generated import Client, models  # noqa: E402 - it was made a moment ago
from generated.api.connector import search  # noqa: E402
from generated.api.ddg import ddg_web_search, instant_answer  # noqa: E402
from generated.api.default import find_or_list_tools  # noqa: E402
from generated.api.lazy import find_tools  # noqa: E402
from generated.api.web import web_search  # noqa: E402

CALLS = (
    (web_search, models.WebSearchArguments(query="rates", max_results=3)),
    (search, models.SearchArguments(query="rates")),
    (ddg_web_search, models.DdgWebSearchArguments(query="rates")),
    (instant_answer, models.InstantAnswerArguments(query="rates")),
    (find_tools, models.FindToolsArguments(query="search the web", limit=2)),
    (web_search, models.WebSearchArguments(query="rates", max_results=99)),
)


def shown(parsed: Any) -> Any:
    """The kind and the values of a parsed answer."""
    value = parsed if isinstance(parsed, str) else parsed.to_dict()
    return [type(parsed).__name__, value]


with Client(base_url=URL, timeout=300) as client:
    found = [shown(module.sync(client=client, body=body)) for module, body in CALLS]
    listed = find_or_list_tools.sync(client=client)
print(json.dumps({"calls": found, "tools": [tool.to_dict() for tool in listed.tools]}))
