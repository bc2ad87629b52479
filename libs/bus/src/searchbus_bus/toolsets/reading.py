"""Finding the method of a toolset that reads a resource."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from searchbus_contracts import ErrorCode, Fault, ResourceReadReply, ResourceReadRequest
from searchbus_contracts.resources import template_pattern

from ..call import Call

__all__ = ["ResourceReader"]

Read = Callable[[Call, ResourceReadRequest], Awaitable[ResourceReadReply]]


class ResourceReader:
    """Reads the resources of one toolset by the method that its URI belongs to."""

    def __init__(self) -> None:
        self._fixed: dict[str, Read] = {}
        self._families: list[tuple[re.Pattern[str], Read]] = []

    def add_fixed(self, uri: str, read: Read) -> None:
        """Register the method that reads one URI."""
        self._fixed[uri] = read

    def add_family(self, template: str, read: Read) -> None:
        """Register the method that reads every URI of a template."""
        self._families.append((template_pattern(template), read))

    async def __call__(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """Read a resource; raises Fault(not_found) where no method is registered for the URI."""
        read = self._fixed.get(request.uri)
        if read is None:
            read = next((r for uri, r in self._families if uri.fullmatch(request.uri)), None)
        if read is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "There is no such resource. Take a URI from the list of resources.",
            )
        return await read(call, request)
