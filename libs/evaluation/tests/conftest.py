"""A small catalogue of files."""

from __future__ import annotations

import json

import pytest

TOOLS = {
    "get_forecast": "Get the weather forecast for a city.",
    "send_message": "Send an email with attachments.",
    "create_chart": "Create a pie or bar chart from a table of numbers.",
}
QUERIES = {
    "weather forecast for Lisbon": "get_forecast",
    "send an email": "send_message",
    "draw a zebra": "create_chart",
}


@pytest.fixture
def catalogue(tmp_path):
    """A folder with tools.jsonl and queries.jsonl."""
    tools = [{"id": f"o/{n}", "name": n, "description": d} for n, d in TOOLS.items()]
    queries = [{"text": text, "relevant": [f"o/{name}"]} for text, name in QUERIES.items()]
    for name, rows in (("tools", tools), ("queries", queries)):
        text = "\n".join(json.dumps(row) for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text + "\n\n")
    return tmp_path
