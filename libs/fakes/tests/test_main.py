"""The fakes as servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from urllib.parse import urlsplit

import httpx

from searchbus_testing import until


async def test_settings_lead_to_the_servers(tmp_path):
    """Each address in them answers, until SIGTERM ends the program."""
    written = tmp_path / "fakes.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "searchbus_fakes", "--settings", str(written)
    )
    try:
        await until(written.exists, timeout_s=300)
        found = json.loads(written.read_text())
        settings = found["environment"]
        routes = json.loads(settings["SEARCHBUS_WEB_ROUTES"])
        assert set(routes.values()) == {urlsplit(found["web"]).netloc}
        async with httpx.AsyncClient() as client:
            page = await client.get(f"{found['web']}/whales", headers={"Host": "sea.example.org"})
            html = await client.get(settings["SEARCHBUS_DDG_HTML_URL"], params={"q": "whales"})
            rows = await client.post(
                f"{settings['SEARCHBUS_TAVILY_URL']}/search", json={"query": "whales"}
            )
        assert html.status_code == 200
        assert "result__a" in html.text
        assert page.status_code == 200
        assert rows.json()["results"][0]["title"].startswith("whales")
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert await process.wait() == 0
