"""A page that needs JavaScript, through a whole stack on a secured bus."""

from __future__ import annotations

import itertools
import os
import shutil

import httpx
import pytest

from searchbus_testing import descendants, eventually

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
PAGE = "http://app.example.org/scripted"


def read(stack, url: str) -> str:
    answer = httpx.post(
        f"{stack.url}/api/v1/tools/web_extract_content", json={"urls": [url]}, timeout=300,
        trust_env=False,
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
def test_scripts_run_where_chromium_is_named(start_stack, tmp_path_factory):
    """Its service is a process of the stack like any other, and no Chromium is left when it answered."""
    data = tmp_path_factory.mktemp("scripts")
    stack = start_stack(
        data, "--secure", "--fake-upstreams", SEARCHBUS_BROWSER_CHROMIUM=CHROMIUM,
        SEARCHBUS_BROWSER_SANDBOX="true" if os.getuid() and not os.environ.get("CI") else "false",
    )  # fmt: skip
    assert "browser" in stack.state["processes"]
    numbers = itertools.count()

    def rendered() -> str:
        """Of a new address each time: the worker may start later than the others."""
        found = read(stack, f"{PAGE}?{next(numbers)}")
        return found if "blue whale" in found else ""

    text = eventually(rendered, timeout_s=300)
    assert "as the scripts of the page left it" in text
    service = stack.state["processes"]["browser"]
    eventually(lambda: not descendants(service), timeout_s=300)  # not even one that ended
    log = (data / "logs" / "browser.log").read_text()
    assert "violation" not in log.lower(), log


def test_a_stack_without_chromium_says_that_nothing_runs_scripts(start_stack, tmp_path_factory):
    stack = start_stack(tmp_path_factory.mktemp("plain"), "--fake-upstreams")
    assert "browser" not in stack.state["processes"]
    assert "no worker here runs scripts" in read(stack, PAGE)
