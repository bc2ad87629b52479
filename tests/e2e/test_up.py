"""`searchbus up` and the commands against a running stack."""

from __future__ import annotations

import json

import httpx

from searchbus_testing import alive


def test_state_file_says_where_everything_runs(stack):
    """Other commands find the stack by it."""
    state = stack.state
    assert httpx.get(f"{stack.url}/readyz", timeout=60).status_code == 200
    services = {"retrieval", "toolindex", "toolindex-2", "ddg", "ddg-2", "ddg-3", "web", "edge"}
    assert set(state["processes"]) == services | {"nats", "fakes"}
    assert alive(state["processes"].values()) == set(state["processes"].values())


def test_second_up_on_the_same_folder_is_refused(stack):
    """It says where the first one runs, and harms nothing."""
    second = stack.command("up", "--port", "0", "--data", stack.data)
    assert second.returncode == 1
    assert "already running" in second.stderr
    assert stack.url in second.stderr.replace("\n", "")
    assert httpx.get(f"{stack.url}/readyz", timeout=60).status_code == 200


def test_doctor_finds_no_fault_in_a_running_stack(stack):
    """Every check passes, and the worker is listed."""
    done = stack.command("doctor", "--json")
    checks = {row["check"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0, checks
    assert {"edge", "nats", "worker retrieval", "embedding model"} <= set(checks)


def test_bad_options_say_what_is_allowed(stack, tmp_path):
    """Each mistake has its sentence and a non-zero exit code."""
    port = stack.url.rsplit(":", 1)[1]
    for arguments, named in (
        (["--scale", "nope=2"], "Known: attach, browser, ddg, edge"),
        (["--scale", "retrieval=2"], "SEARCHBUS_QDRANT_URL"),
        (["--scale", "retrieval"], "service=number"),
        (["--port", port], "Choose another --port"),
    ):
        done = stack.command("up", "--data", str(tmp_path), *arguments)
        assert done.returncode != 0
        assert named in done.stderr.replace("\n", " "), done.stderr


def test_commands_without_a_stack_say_how_to_start_one(stack, tmp_path):
    """Not a traceback."""
    for arguments in (["tools", "list"], ["ingest", "README.md", "--collection", "x"]):
        done = stack.command(*arguments, "--data", str(tmp_path))
        assert done.returncode != 0
        assert "searchbus up" in done.stderr
        assert "Traceback" not in done.stderr


def test_folder_of_mixed_files_is_ingested(stack, tmp_path):
    """Markdown, text and HTML become documents; the unknown and the hidden are counted."""
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("# Whales\n\nWhales sing.\n\n## Far\n\nTheir songs travel far.\n")
    (folder / "sub" / "b.txt").write_text("Dolphins whistle.")
    (folder / "c.html").write_text(
        "<html><head><title>Orcas</title><script>no()</script></head>"
        "<body><nav>menu</nav><h1>Orcas</h1><p>Orcas hunt together.</p></body></html>"
    )
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.md").write_text("secret")
    done = stack.command("ingest", str(folder), "--collection", "sea", "--json")
    summary = json.loads(done.stdout)
    assert (summary["stored"] + summary["unchanged"], summary["failed"]) == (3, 0)
    assert done.returncode == 0
    assert summary["skipped_by_reason"] == {"hidden or generated": 1, "unsupported type": 1}
    found = stack.command("search", "songs of whales", "--collection", "sea", "--json")
    assert json.loads(found.stdout)["hits"][0]["section"] == "Far"
    (folder / "sub" / "b.txt").unlink()
    again = json.loads(
        stack.command("ingest", str(folder), "--collection", "sea", "--json", "--prune").stdout
    )
    assert (again["unchanged"], again["deleted"]) == (2, 1)
