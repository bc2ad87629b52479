"""A service whose every text attacks the page that shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from searchbus_bus import Call, Toolset, Worker, endpoint, prompt, resource_template, tool
from searchbus_bus.live import LiveParts
from searchbus_contracts import (
    ErrorCode,
    Fault,
    LivePart,
    ResourceBody,
    ResourceReadReply,
    ResourceReadRequest,
    ToolAnnotations,
    ToolDescriptor,
)
from searchbus_contracts.attach import (
    AttachedServer,
    AttachedTool,
    HeldDefinition,
    ManageReply,
    ManageRequest,
    StatusReply,
    StatusRequest,
    ViewedTool,
    ViewPreview,
)
from searchbus_contracts.ingest import DeleteReply, DeleteRequest
from searchbus_contracts.retrieval import (
    CollectionInfo,
    Document,
    DocumentSummary,
    Explanation,
    GetRequest,
    Leg,
    ListReply,
    ListRequest,
    Passage,
    SearchHit,
    SearchReply,
    SearchRequest,
)

CORPUS = (
    '<img src=x onerror="window.hit=1">',
    "<script>window.hit=1</script>",
    '"><svg onload=window.hit=1>',
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "javascript:window.hit=1",
    "\u202eevil\u202c",
    "\x1b[31mred\x1b[0m",
    "]]><!--<plaintext>",
    "{{constructor.constructor('window.hit=1')()}}",
    "${window.hit=1} <%= 7*7 %> #{7*7}",
    "<a href='javascript:window.hit=1'>x</a>",
    "[x](javascript:window.hit=1)",
    "data:text/html,<script>parent.hit=1</script>",
    "<style>body{display:none}</style>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hit=1>",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b31m",
    "a\u200b\u200d\u2066b\u2069\U000e0041\u2028c",
)
EVIL = " ".join(CORPUS)
HUGE = "<b>" * 100_000
SECRET_TOOL, SECRET_TOOLSET, SECRET_ROLE = "secret_tool", "secretset", "SECRET-ROLE"


class Say(Struct):
    """Arguments."""

    text: Annotated[str, Meta(max_length=200, description=EVIL)]
    mood: Annotated[Literal["calm", "<b>loud</b>"], Meta(description="The mood.")] = "calm"
    times: Annotated[int, Meta(ge=1, le=5, description="How often.")] = 1
    loud: bool = False
    tags: tuple[str, ...] = ()
    more: dict[str, int] = {}


class Said(Struct):
    """A result."""

    text: str
    times: int


class Hostile(Toolset, name="hostile"):
    """Tools whose texts are markup."""

    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        """Their texts are set here: a docstring holds no control characters."""
        return structs.replace(descriptor, title=EVIL[:200], description=EVIL)

    @tool(title="Say", annotations=ToolAnnotations(read_only_hint=True), untrusted=True)
    async def say(self, call: Call, arguments: Say) -> Said:
        """Say something."""
        await call.progress(1, 2, EVIL)
        await call.log("info", EVIL)
        return Said(text=f"{arguments.text} {EVIL}", times=arguments.times)

    @tool(title="Say", annotations=ToolAnnotations(read_only_hint=True))
    async def whisper(self, call: Call, arguments: Say) -> str:
        """Say something as a text."""
        return EVIL

    @prompt(title="<b>prompt</b>")
    def ask(self, word: str, tone: str = "") -> str:
        """<i>Ask</i> about a word."""
        return f"<b>{word}</b> {tone} {EVIL}"

    @resource_template("hostile://{+path}/x{?q}", title="<b>file</b>", mime_type="text/html")
    async def file(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """<i>Read</i> a file."""
        if request.uri == "hostile://fail/x":
            raise Fault(ErrorCode.INVALID_ARGUMENT, EVIL)
        body = ResourceBody(uri=request.uri, text=EVIL, mime_type="text/html")
        return ResourceReadReply(contents=(body, ResourceBody(uri=CORPUS[0], blob="AAAA")))


class Secret(Toolset, name=SECRET_TOOLSET):
    """A toolset that few may see."""

    @tool(
        title="Do", required_roles=(SECRET_ROLE,), annotations=ToolAnnotations(read_only_hint=True)
    )
    async def secret_tool(self, call: Call, arguments: Say) -> str:
        """Do what few may do."""
        return "done"

    @prompt(title="Ask", required_roles=(SECRET_ROLE,))
    def secret_prompt(self, word: str) -> str:
        """Ask what few may ask."""
        return word

    @resource_template(
        "secret://{name}", title="Read", mime_type="text/plain", required_roles=(SECRET_ROLE,)
    )
    async def secret_resource(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """Read what few may read."""
        return ResourceReadReply(contents=(ResourceBody(uri=request.uri, text="secret"),))


class Thing:
    """A part of the process with a hostile name."""


parts: LiveParts[Any] = LiveParts(
    lambda thing: LivePart(kind="egress", name=EVIL, state="open", until_ms=4_000_000_000_000)
)


PASSAGES = 45
"""Of the one document."""


class Attached:
    """Stands for the service of attached servers, one of which attacks whoever reads about it."""

    @endpoint
    async def status(self, call: Call, request: StatusRequest) -> StatusReply:
        """One server that is down, with a held change."""
        tools = (AttachedTool(name=EVIL, listed_as="say", problem=EVIL, sha256="0" * 64),)
        server = AttachedServer(
            name="odd", state="down", target=EVIL, problem=EVIL, view_problems=(EVIL,), held=1,
            server_info=EVIL, protocol=EVIL, tool_list=tools,
        )  # fmt: skip
        return StatusReply(servers=(server,), file_problem=EVIL)

    @endpoint
    async def manage(self, call: Call, request: ManageRequest) -> ManageReply:
        """A difference, what it printed to standard error, and its view."""
        held = HeldDefinition(
            name=EVIL, digits="0" * 32, reasons=(EVIL,), lines=tuple(f"+{one}" for one in CORPUS)
        )
        tool = ViewedTool(
            name=EVIL, listed_as=EVIL, title=EVIL, description=EVIL, arguments=CORPUS,
            required_roles=(EVIL,), changes=(EVIL,),
        )  # fmt: skip
        view = ViewPreview(tools=(tool,), changed=1, problems=(EVIL,))
        return ManageReply(held=(held,), log=EVIL + HUGE, view=view, text=EVIL, stamp=EVIL)


def attached_worker() -> Worker:
    """The worker of the attached servers."""
    worker = Worker("attach")
    worker.add(Attached())
    return worker


class Documents:
    """Stands for the service of documents: one collection with one document."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        """Everything that can be listed, as markup."""
        if request.document_id is not None:
            first = int(request.cursor or 0)
            numbers = range(first, min(first + request.limit, PASSAGES))
            passages = tuple(
                Passage(
                    chunk_id=f"c{n}", text=f"passage {n} {EVIL}", section=EVIL, start=n, end=n + 1
                )
                for n in numbers
            )
            more = str(numbers.stop) if numbers.stop < PASSAGES else None
            return ListReply(passages=passages, next_cursor=more)
        if request.collection is None:
            info = CollectionInfo(name="hostile", documents=1, chunks=PASSAGES, damage=EVIL)
            return ListReply(collections=(info,))
        summary = DocumentSummary(
            collection="hostile", document_id="d1", title=EVIL, chunk_count=PASSAGES, revision=""
        )
        return ListReply(documents=() if self.deleted else (summary,))

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        """Its text, address and metadata."""
        return Document(
            collection="hostile", document_id=request.document_id, title=EVIL, text=EVIL + HUGE,
            chunk_count=PASSAGES, url="javascript:window.hit=1", metadata={EVIL[:60]: EVIL},
            chars=len(EVIL + HUGE),
        )  # fmt: skip

    @endpoint
    async def delete(self, call: Call, request: DeleteRequest) -> DeleteReply:
        """Note what is deleted."""
        self.deleted += request.document_ids
        return DeleteReply(documents=len(request.document_ids))

    @endpoint
    async def search(self, call: Call, request: SearchRequest) -> SearchReply:
        """One passage that is markup."""
        why = Explanation(
            rank=1, meaning=Leg(rank=1, score=0.5, share=0.4), words=Leg(score=2.0, share=0.1),
            boosts={"literal": 0.2},
        )  # fmt: skip
        hit = SearchHit(
            collection="hostile", document_id="d1", chunk_id="c1", title=EVIL,
            text=f"gloves {EVIL}", score=0.7, cosine=0.5, relevance=0.9,
            section=f"{request.where} {request.per_document} {EVIL}",
            explanation=why,
        )  # fmt: skip
        return SearchReply(hits=(hit,), searched=("hostile",))


def documents_worker() -> Worker:
    """The worker of the documents."""
    worker = Worker("retrieval")
    worker.add(Documents())
    return worker


def hostile_worker() -> Worker:
    """The worker of both toolsets."""
    worker = Worker("hostile", description="<b>hostile</b>")
    worker.add(Hostile(), Secret())
    return worker
