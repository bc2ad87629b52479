"""Every subject of the bus with its messages: the table behind proto/asyncapi.yaml (§2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .attach import ManageReply, ManageRequest, StatusReply, StatusRequest
from .catalog import Catalog, CatalogEvent, CatalogRequest
from .engines import EngineRequest, EngineStatesReply, EngineStatesRequest
from .headers import Cancel, Ping, Pong
from .ingest import (
    DeleteReply,
    DeleteRequest,
    ExportReply,
    ExportRequest,
    IngestReply,
    IngestRequest,
    RebuildReply,
    RebuildRequest,
    RestoreReply,
    RestoreRequest,
)
from .resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
)
from .retrieval import (
    Document,
    GetRequest,
    ListReply,
    ListRequest,
    QuoteReply,
    QuoteRequest,
    SearchReply,
    SearchRequest,
    SimilarityReply,
    SimilarityRequest,
)
from .toolindex import FindReply, FindRequest
from .tools import ToolCall, ToolReply
from .web import RenderReply, RenderRequest, WebSearchReply, WebSearchRequest


@dataclass(frozen=True, slots=True)
class Channel:
    """One subject below `<prefix>.v1.`; `{name}` is one token. Without a reply it is an event."""

    address: str
    summary: str
    message: Any
    reply: Any = None

    @property
    def key(self) -> str:
        """The address as an identifier."""
        return "_".join(part.strip("{}") for part in self.address.split("."))


CHANNELS: tuple[Channel, ...] = (
    Channel("tool.{toolset}.{tool}", "Call a tool.", ToolCall, ToolReply),
    Channel("catalog.{service}.{hash}", "Get the descriptors of a catalogue hash.",
            CatalogRequest, Catalog),
    Channel("resource.{toolset}.list", "Get a page of a toolset's resources.",
            ResourceListRequest, ResourceListReply),
    Channel("resource.{toolset}.read", "Read a resource.", ResourceReadRequest, ResourceReadReply),
    Channel("resource.{toolset}.search", "Find resources by their content.",
            ResourceSearchRequest, ResourceSearchReply),
    Channel("resource.{toolset}.complete", "Suggest values of a resource template's variable.",
            CompleteRequest, CompleteReply),
    Channel("prompt.{toolset}.get", "Fill in a prompt.", PromptGetRequest, PromptGetReply),
    Channel("prompt.{toolset}.complete", "Suggest values of a prompt's argument.",
            CompleteRequest, CompleteReply),
    Channel("toolindex.search", "Find tools, prompts, resources.", FindRequest, FindReply),
    Channel("retrieval.search", "Search documents.", SearchRequest, SearchReply),
    Channel("retrieval.get", "Get a whole document.", GetRequest, Document),
    Channel("retrieval.quote", "Find a quotation in a document.", QuoteRequest, QuoteReply),
    Channel(
        "retrieval.similarity", "Compare texts to a question.", SimilarityRequest, SimilarityReply
    ),
    Channel("retrieval.list", "List documents or collections.", ListRequest, ListReply),
    Channel("retrieval.ingest", "Store documents, idempotently.", IngestRequest, IngestReply),
    Channel(
        "retrieval.rebuild", "Make a collection anew beside itself.", RebuildRequest, RebuildReply
    ),
    Channel("retrieval.export", "Read a copy of a collection.", ExportRequest, ExportReply),
    Channel("retrieval.restore", "Store points of a copy.", RestoreRequest, RestoreReply),
    Channel("retrieval.delete", "Delete documents or a collection.", DeleteRequest, DeleteReply),
    Channel("ddg.search", "Search the web with DuckDuckGo.", WebSearchRequest, WebSearchReply),
    Channel("ddg.fetch", "The same, without the cache.", WebSearchRequest, WebSearchReply),
    Channel("ddg.engine", "Search with another engine.", EngineRequest, WebSearchReply),
    Channel("ddg.engines", "Get the states of these engines.",
            EngineStatesRequest, EngineStatesReply),
    Channel("browser.render", "Run the scripts of a page.", RenderRequest, RenderReply),
    Channel("attach.status", "Get the state of attached MCP servers.", StatusRequest, StatusReply),
    Channel("attach.manage", "Change what is attached.", ManageRequest, ManageReply),
    Channel(
        "evt.catalog.{service}", "A worker started, stopped or changed its tools.", CatalogEvent
    ),
    Channel("ctl.cancel.{service}", "Cancel a request.", Cancel),
    Channel("ctl.ping.{service}.{instance}", "Check whether one instance responds.", Ping, Pong),
)  # fmt: skip
