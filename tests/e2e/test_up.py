"""`searchbus up` keeps its promises about processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil


def alive(pids) -> set[int]:
    return {p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != "zombie"}


def wait_for(condition, timeout_s: float = 40) -> None:
    give_up_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.1)


def test_state_file_tells_where_everything_is(stack):
    """Other commands find the stack by it."""
    state = stack.state
    assert httpx.get(f"{state['url']}/readyz").status_code == 200
    assert set(state["processes"]) == {"nats", "retrieval", "toolindex", "ddg", "web", "edge"}
    assert alive(state["processes"].values()) == set(state["processes"].values())


def test_second_up_on_the_same_folder_is_refused(stack, start_stack):
    """It says where the first one runs, and harms nothing."""
    second = start_stack_again(stack, start_stack)
    assert second.returncode == 1
    assert httpx.get(f"{stack.state['url']}/readyz").status_code == 200


def start_stack_again(stack, start_stack):
    done = stack.command("up", "--port", "0", "--data", str(stack.data))
    assert "already running" in done.stderr
    assert stack.state["url"] in done.stderr.replace("\n", "")
    return done


def test_doctor_is_content_with_a_running_stack(stack):
    """Every check passes, and the worker is listed."""
    done = stack.command("doctor", "--json")
    checks = {row["check"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0, checks
    assert {"edge", "nats", "worker retrieval", "embedding model"} <= set(checks)


def test_dead_service_is_started_again_and_ctrl_c_leaves_nobody(start_stack, tmp_path):
    """kill -9 of a service heals; SIGINT stops every process."""
    stack = start_stack(tmp_path)
    first = stack.state["processes"]
    os.kill(first["retrieval"], signal.SIGKILL)
    wait_for(lambda: stack.state["processes"]["retrieval"] != first["retrieval"])
    wait_for(lambda: httpx.get(f"{stack.state['url']}/readyz").status_code == 200)
    pids = set(stack.state["processes"].values())
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(40) == 0
    assert alive(pids) == set()
    assert not (tmp_path / "state.json").exists()


def test_kill_minus_nine_of_up_leaves_no_orphans(start_stack, tmp_path):
    """The children follow their parent."""
    stack = start_stack(tmp_path)
    pids = set(stack.state["processes"].values())
    stack.process.kill()
    stack.process.wait()
    wait_for(lambda: not alive(pids))


def test_bad_options_say_what_is_allowed(stack, tmp_path):
    """Each mistake has its sentence and a non-zero exit code."""
    port = stack.state["url"].rsplit(":", 1)[1]
    for arguments, named in (
        (["--scale", "nope=2"], "Known: ddg, edge, retrieval, toolindex, web"),
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
    """Markdown, text and HTML become documents; the unknown and the hidden are left alone."""
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
    assert (summary["stored"], summary["skipped"], done.returncode) == (3, [], 0)
    found = stack.command("search", "songs of whales", "--collection", "sea", "--json")
    assert json.loads(found.stdout)["hits"][0]["section"] == "Far"
    (folder / "sub" / "b.txt").unlink()
    again = json.loads(
        stack.command("ingest", str(folder), "--collection", "sea", "--json", "--prune").stdout
    )
    assert (again["unchanged"], again["deleted"]) == (2, 1)


def test_readme_commands_work(stack):
    """Every searchbus command of the README and the service READMEs that needs no more input."""
    root = Path(__file__).parents[2]
    texts = [root / "README.md", *sorted(root.glob("*/*/README.md"))]
    commands = set()
    for path in texts:
        for line in path.read_text().splitlines():
            if line.startswith("searchbus "):
                commands.add(line.strip())
    assert len(commands) >= 6
    import shlex

    curls = (root / "README.md").read_text().replace("\\\n", " ").splitlines()
    for line in (line for line in curls if line.startswith("curl ")):
        line = line.replace("http://127.0.0.1:8080", stack.state["url"])
        done = subprocess.run(shlex.split(line), capture_output=True, text=True, timeout=30)
        assert '"search_fomc"' in done.stdout, f"{line}\n{done.stdout}{done.stderr}"
    for command in sorted(commands):
        done = stack.command(*shlex.split(command)[1:])
        known = "empty_corpus" in done.stderr or "no traces" in done.stderr
        assert done.returncode == 0 or known, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_make_run_shows_that_it_works_and_stays_up(tmp_path):
    """From the documentation to a traced answer; Ctrl-C ends it, and nobody is left."""
    root = Path(__file__).parents[2]
    log = (tmp_path / "run.log").open("w+")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "SEARCHBUS_DATA_DIR": str(tmp_path / "data"),
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    running = subprocess.Popen(
        [root / "scripts" / "run", "--port", "0"], cwd=root, env=environment,
        stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(lambda: "Stop with Ctrl-C." in (tmp_path / "run.log").read_text()
                 or running.poll() is not None, 90)  # fmt: skip
        text = (tmp_path / "run.log").read_text()
        assert running.poll() is None, text
        assert "docs: 16 stored" in text
        assert "retrieval.search" in text
        pids = json.loads((tmp_path / "data" / "state.json").read_text())["processes"].values()
    finally:
        os.killpg(running.pid, signal.SIGINT)
        running.wait(40)
    wait_for(lambda: not alive(pids))
