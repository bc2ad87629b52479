"""`searchbus tools list` and `searchbus tools call`."""

from __future__ import annotations

import json

import pytest

from searchbus_testing import run_command

ADD = {
    "name": "add",
    "description": "Add numbers.\nSecond line.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "left": {"type": "integer"}, "right": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "note": {"type": "string"}, "tags": {"type": "array"},
        },
        "required": ["left"],
    },
}  # fmt: skip


@pytest.fixture
def edge(fake_edge):
    """One tool, which returns its arguments."""
    fake_edge.answers["tools/list"] = lambda params: {"result": {"tools": [ADD]}}
    fake_edge.answers["tools/call"] = lambda params: {
        "result": {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
    }
    return fake_edge


def test_list_shows_name_arguments_and_first_line(edge):
    """Optional arguments stand in brackets."""
    done = run_command("tools", "list", "--url", edge.url)
    assert done.returncode == 0
    assert "left [right] [note] [tags]" in done.stdout
    assert "Add numbers." in done.stdout
    assert "Second line" not in done.stdout


def test_list_as_json_is_what_the_server_sent(edge):
    """For programs."""
    assert json.loads(run_command("tools", "list", "--json", "--url", edge.url).stdout) == [ADD]


@pytest.mark.parametrize(("arguments", "path"), [((), "/mcp"), (("--toolset", "web"), "/mcp/web")])
def test_toolset_chooses_the_endpoint(edge, arguments, path):
    """`/mcp` at the end of the address changes nothing."""
    for url in (edge.url, f"{edge.url}/", f"{edge.url}/mcp"):
        run_command("tools", "list", "--url", url, *arguments)
    assert [path] * 3 == [received[0] for received in edge.received]


def test_arguments_are_read_by_the_schema(edge):
    """A number for a number, text for text, JSON for a list; --json gives the rest."""
    done = run_command(
        "tools", "call", "add", "left=1", "right=2.5", "note=3", 'tags=["a"]',
        "--json", '{"left": 0, "extra": null}', "--url", edge.url,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = {"left": 1, "right": 2.5, "note": "3", "tags": ["a"], "extra": None}
    assert expected == json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "left=x"], "left must be of type integer."),
        (["add", "left"], "left: write KEY=VALUE."),
        (["add", "--json", "{"], "--json is not valid JSON"),
        (["add", "--json", "[1]"], "--json must be an object"),
        (["add", "lefd=1"], "The tool has no argument lefd. Did you mean 'left'?"),
        (["sub", "left=1"], "There is no tool sub. Known: add."),
    ],
)
def test_mistake_is_named_and_nothing_is_called(edge, arguments, said):
    """With an exit code for scripts."""
    done = run_command("tools", "call", *arguments, "--url", edge.url)
    assert done.returncode in (1, 2)
    assert said in " ".join(done.stderr.split())
    assert "tools/call" not in [received[2]["method"] for received in edge.received]


def test_failed_call_is_an_error_and_its_text_is_shown_as_it_is(edge):
    """Brackets in it are no markup."""
    content = [{"type": "text", "text": "not_found: There is no [bold]."}]
    edge.answers["tools/call"] = lambda params: {"result": {"content": content, "isError": True}}
    done = run_command("tools", "call", "add", "left=1", "--url", edge.url)
    assert (done.returncode, done.stderr) == (1, "error: not_found: There is no [bold].\n")


def test_raw_prints_the_whole_result_and_verbose_the_trace(edge):
    """Text that is not JSON is printed as it is otherwise."""
    edge.answers["tools/call"] = lambda params: {
        "result": {"content": [{"type": "text", "text": "# Title"}, {"type": "image", "data": ""}]}
    }
    done = run_command("tools", "call", "add", "left=1", "--raw", "-v", "--url", edge.url)
    assert json.loads(done.stdout)["content"][0]["text"] == "# Title"
    trace_id = edge.received[-1][2]["params"]["_meta"]["traceparent"].split("-")[1]
    assert f"trace {trace_id}\n" == done.stderr
    done = run_command("tools", "call", "add", "left=1", "--url", edge.url)
    assert done.stdout == "# Title\n[image]\n"


def test_without_a_stack_the_remedy_is_named(tmp_path):
    """No address is given, and no state file is there."""
    done = run_command("tools", "list", "--data", tmp_path)
    assert done.returncode == 1
    assert "Start one: searchbus up" in done.stderr
