"""Every subject of the bus with its messages: the table behind proto/asyncapi.yaml (§2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import attach, catalog, engines, headers, ingest, resources, retrieval, toolindex, tools, web


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
    Channel("tool.{toolset}.{tool}", "Call a tool.", tools.ToolCall, tools.ToolReply),
    Channel("catalog.{service}.{hash}", "Get the descriptors of a catalogue hash.",
            catalog.CatalogRequest, catalog.Catalog),
    Channel("resource.{toolset}.list", "Get a page of a toolset's resources.",
            resources.ResourceListRequest, resources.ResourceListReply),
    Channel("resource.{toolset}.read", "Read a resource.",
            resources.ResourceReadRequest, resources.ResourceReadReply),
    Channel("resource.{toolset}.search", "Find resources by their content.",
            resources.ResourceSearchRequest, resources.ResourceSearchReply),
    Channel("resource.{toolset}.complete", "Suggest values of a resource template's variable.",
            resources.CompleteRequest, resources.CompleteReply),
    Channel("prompt.{toolset}.get", "Fill in a prompt.",
            resources.PromptGetRequest, resources.PromptGetReply),
    Channel("prompt.{toolset}.complete", "Suggest values of a prompt's argument.",
            resources.CompleteRequest, resources.CompleteReply),
    Channel("toolindex.search", "Find tools, prompts, resources.",
            toolindex.FindRequest, toolindex.FindReply),
    Channel("retrieval.search", "Search documents.",
            retrieval.SearchRequest, retrieval.SearchReply),
    Channel("retrieval.get", "Get a whole document.", retrieval.GetRequest, retrieval.Document),
    Channel("retrieval.quote", "Find a quotation in a document.",
            retrieval.QuoteRequest, retrieval.QuoteReply),
    Channel("retrieval.similarity", "Compare texts to a question.",
            retrieval.SimilarityRequest, retrieval.SimilarityReply),
    Channel("retrieval.list", "List documents or collections.",
            retrieval.ListRequest, retrieval.ListReply),
    Channel("retrieval.ingest", "Store documents, idempotently.",
            ingest.IngestRequest, ingest.IngestReply),
    Channel("retrieval.rebuild", "Make a collection anew beside itself.",
            ingest.RebuildRequest, ingest.RebuildReply),
    Channel("retrieval.export", "Read a copy of a collection.",
            ingest.ExportRequest, ingest.ExportReply),
    Channel("retrieval.restore", "Store points of a copy.",
            ingest.RestoreRequest, ingest.RestoreReply),
    Channel("retrieval.delete", "Delete documents or a collection.",
            ingest.DeleteRequest, ingest.DeleteReply),
    Channel("ddg.search", "Search the web with DuckDuckGo.",
            web.WebSearchRequest, web.WebSearchReply),
    Channel("ddg.fetch", "The same, without the cache.", web.WebSearchRequest, web.WebSearchReply),
    Channel("ddg.engine", "Search with another engine.", engines.EngineRequest, web.WebSearchReply),
    Channel("ddg.engines", "Get the states of these engines.",
            engines.EngineStatesRequest, engines.EngineStatesReply),
    Channel("browser.render", "Run the scripts of a page.", web.RenderRequest, web.RenderReply),
    Channel("attach.status", "Get the state of attached MCP servers.",
            attach.StatusRequest, attach.StatusReply),
    Channel("attach.manage", "Change what is attached.", attach.ManageRequest, attach.ManageReply),
    Channel("evt.catalog.{service}", "A worker started, stopped or changed its tools.",
            catalog.CatalogEvent),
    Channel("ctl.cancel.{service}", "Cancel a request.", headers.Cancel),
    Channel("ctl.ping.{service}.{instance}", "Check whether one instance responds.",
            headers.Ping, headers.Pong),
)  # fmt: skip
