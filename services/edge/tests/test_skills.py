"""Skills through the SDK's own client, and what of a folder is served."""

from __future__ import annotations

import base64
import hashlib
import os
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from searchbus_bus import Call, MemoryBroker, Toolset, Worker, prompt
from searchbus_contracts import Actor, ResourceDescriptor
from searchbus_contracts.catalog import SkillDescriptor, SkillFile
from searchbus_edge import skills as module
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.skills import EXTENSION, SkillError, Skills, read_folder, read_frontmatter
from searchbus_passages import terms
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer

MANIFEST = "---\nname: {name}\ndescription: {description}\nlicense: MIT\n---\n# How\n"


class Request(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


class Whatever(types.Result, extra="allow"):
    """A result of the extension."""


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    found = await client.session.send_request(Request(method=method, params=params), Whatever)
    return found.model_dump(by_alias=True)


def write(root, place, description="Does it.", name=None, **files):
    folder = root / place
    folder.mkdir(parents=True)
    text = MANIFEST.format(name=name or folder.name, description=description)
    (folder / "SKILL.md").write_text(text)
    for path, data in files.items():
        (folder / path).write_bytes(data)
    return folder


class Writing(Toolset, name="writing"):
    """Prompts that are skills."""

    @prompt(title="Check a claim")
    def check_claim(self, claim: str) -> str:
        """Checks a claim."""
        return f"Check this: {claim}"

    @prompt(title="Secret", required_roles=("NOBODY",))
    def secret_way(self, claim: str) -> str:
        """Is for nobody."""
        return f"Hide {claim}"


class Source:
    """A worker's own skill, as the attach service offers those of servers."""

    async def read(self, call: Call, request: Any) -> Any:
        raise AssertionError

    get_prompt = complete = read


OFFERED = ResourceDescriptor(
    uri="searchbus://attach/far/skill://refunds/SKILL.md",
    name="refunds",
    toolset="far",
    skill=SkillDescriptor(
        frontmatter={"name": "refunds", "description": "Pay money back."},
        files=(
            SkillFile(
                uri="searchbus://attach/far/skill://refunds/SKILL.md",
                digest=f"sha256:{'0' * 64}",
                size=3,
            ),
        ),
    ),
)


@pytest.fixture
async def url(tmp_path):
    write(tmp_path, "git-workflow", "Commit as this team does.", **{"logo.png": b"\x89PNG\xff"})
    write(tmp_path, "acme/billing/invoices", "Write invoices.")
    broker = MemoryBroker()
    worker = Worker("writing")
    worker.add(Writing())
    await broker.connect(name="writing").serve(worker)
    far = Worker("far")
    far.offer("far", resources=(OFFERED,), source=Source())
    await broker.connect(name="far").serve(far)
    settings = EdgeSettings(skills_dir=tmp_path)
    async with open_edge(
        broker.connect(name="edge"), settings, default_actor=Actor(subject="reader")
    ) as edge:
        server = await HttpServer.start(build_app(edge, Health()))
        yield server.url
        await edge.end_streams()
        await server.stop()


async def test_skills_are_listed_read_and_verified(url):
    """Each digest and size is that of what resources/read returns."""
    async with Client(f"{url}/mcp") as client:
        assert EXTENSION in client.server_capabilities.extensions
        listed = await ask(client, "skills/list")
        assert listed["cacheScope"] == "private" and listed["ttlMs"] >= 0
        names = [entry["frontmatter"]["name"] for entry in listed["skills"]]
        assert names == ["invoices", "git-workflow", "check-claim", "refunds"]
        for entry in listed["skills"][:3]:
            assert (await ask(client, "skills/get", uri=entry["uri"]))["skill"] == entry
            assert entry["uri"] in {file["uri"] for file in entry["resources"]}
            for file in entry["resources"]:
                (body,) = (await client.read_resource(file["uri"])).contents
                text = getattr(body, "text", None)
                data = base64.b64decode(body.blob) if text is None else text.encode()
                digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
                assert (digest, len(data)) == (file["digest"], file["size"])
                if file["uri"] == entry["uri"]:
                    assert read_frontmatter(data) == entry["frontmatter"]
                    assert body.mime_type == "text/markdown"


async def test_a_skill_is_found_by_its_description(url):
    """Best first; nothing where no word fits."""
    async with Client(f"{url}/mcp") as client:
        found = await ask(client, "skills/search", query="how do I commit to git")
        assert [e["frontmatter"]["name"] for e in found["skills"]] == ["git-workflow"]
        assert (await ask(client, "skills/search", query="volcano"))["skills"] == []
        with pytest.raises(MCPError):
            await ask(client, "skills/search", query=" ")


async def test_a_search_reads_the_beginning_of_each_description_once(monkeypatch):
    """Servers write them: in each search their length would hold whoever searches."""
    read: list[str] = []
    monkeypatch.setattr(module, "terms", lambda text: read.append(text) or terms(text))
    front = {"name": "refunds", "description": "Pay money back. " + "more " * 10_000}
    resource = replace(OFFERED, skill=SkillDescriptor(frontmatter=front))
    view: Any = SimpleNamespace(
        toolset=None, version=(1, True, 1), prompts={}, resources={OFFERED.uri: resource}
    )
    skills = Skills()
    for query in ("money", "pay"):
        (found,) = await skills.search(Actor(subject="reader"), view, query)
        assert found["uri"] == OFFERED.uri
    assert [text for text in read if text.startswith("refunds")] == [read[1]]
    assert len(read[1]) == 2000


async def test_a_toolset_has_its_own_skills_only(url):
    """Folders are offered on /mcp; the endpoint of a toolset has those of its prompts."""
    async with Client(f"{url}/mcp/writing") as client:
        listed = await ask(client, "skills/list")
        assert [e["uri"] for e in listed["skills"]] == ["skill://prompts/check-claim/SKILL.md"]
        with pytest.raises(MCPError):
            await client.read_resource("skill://git-workflow/SKILL.md")


@pytest.mark.parametrize(
    "uri",
    [
        "skill://prompts/secret-way/SKILL.md",
        "skill://git-workflow/../../etc/passwd",
        "skill://git-workflow/logo.png",
        "skill://none/SKILL.md",
        "",
        "x" * 10_000,
    ],
)
async def test_what_is_no_skill_of_the_caller_is_unknown(url, uri):
    """A skill that needs a role, a path out of the folder, a file that is no SKILL.md."""
    async with Client(f"{url}/mcp") as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, "skills/get", uri=uri)
        assert (caught.value.code, caught.value.message) == (
            -32602, "Unknown skill. Take a URI from skills/list."
        )  # fmt: skip
        if not uri.endswith(".png"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == -32602


def test_no_link_leads_out_of_the_folder(tmp_path):
    """Neither of a file nor of a folder; pipes and hidden files are left out."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    write(tmp_path / "secret", "outside")
    root = tmp_path / "skills"
    one = write(root, "one", **{"ok.md": b"ok", ".hidden": b"x"})
    (one / "link").symlink_to(tmp_path / "secret" / "key")
    (one / "folder").symlink_to(tmp_path / "secret")
    (root / "outside").symlink_to(tmp_path / "secret" / "outside")
    os.mkfifo(one / "pipe")
    (skill,) = read_folder(root)
    assert sorted(skill.files) == ["SKILL.md", "ok.md"]


@pytest.mark.parametrize(
    ("limit", "value", "left"),
    [("MAX_FILES", 2, 1), ("MAX_BYTES", 200, 1), ("MAX_TOTAL_BYTES", 200, 1), ("MAX_SKILLS", 1, 1)],
)
def test_what_is_too_large_is_left_out(tmp_path, monkeypatch, limit, value, left):
    """The others are served."""
    write(tmp_path, "a-small")
    write(tmp_path, "b-large", **{"one": b"x" * 500, "two": b""})
    monkeypatch.setattr(module, limit, value)
    assert len(read_folder(tmp_path)) == left


@pytest.mark.parametrize(
    "text",
    [
        "# no frontmatter\n",
        "---\nname: x\n---\n",
        "---\nname: Bad Name\ndescription: d\n---\n",
        "---\n- a list\n---\n",
        "---\nname: [x\n---\n",
        "---\nname: x\ndescription: d\nodd: !!python/object:os.system x\n---\n",
        f"---\nname: x\ndescription: {'d' * 70_000}\n---\n",
    ],
)
def test_a_malformed_manifest_is_named(text):
    """The message says what is wrong."""
    with pytest.raises(SkillError):
        read_frontmatter(text.encode())


def test_a_skill_has_the_name_of_its_folder(tmp_path):
    """As the specification of skills wants."""
    write(tmp_path, "one", name="two")
    assert read_folder(tmp_path) == ()


def test_a_missing_folder_ends_the_start(tmp_path):
    """A setting that has no effect would go unnoticed."""
    with pytest.raises(OSError):
        read_folder(tmp_path / "none")
