"""The resources of the conformance suite."""

from __future__ import annotations

from searchbus_bus import Call, Toolset, resource, resource_template
from searchbus_contracts import ResourceBody, ResourceReadReply, ResourceReadRequest

from .replies import PNG, TOOLSET


def contents(body: ResourceBody) -> ResourceReadReply:
    return ResourceReadReply(contents=(body,))


class Resources(Toolset, name=TOOLSET):
    """As the suite describes them."""

    @resource("test://static-text", name="Static text", mime_type="text/plain")
    async def static_text(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A static text resource."""
        return contents(
            ResourceBody(
                uri=request.uri, mime_type="text/plain",
                text="This is the content of the static text resource.",
            )
        )  # fmt: skip

    @resource("test://static-binary", name="Static binary", mime_type="image/png")
    async def static_binary(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A static binary resource."""
        return contents(ResourceBody(uri=request.uri, mime_type="image/png", blob=PNG))

    @resource("test://watched-resource", name="Watched", mime_type="text/plain")
    async def watched(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A resource to subscribe to."""
        return await self.static_text(call, request)

    @resource_template(
        "test://template/{id}/data", name="Template data", mime_type="application/json"
    )
    async def template_data(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A resource from a template."""
        key = request.uri.split("/")[3]
        value = f'{{"id":"{key}","templateTest":true,"data":"Data for ID: {key}"}}'
        return contents(ResourceBody(uri=request.uri, mime_type="application/json", text=value))
