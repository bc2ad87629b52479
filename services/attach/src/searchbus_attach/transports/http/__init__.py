"""HTTP/1.1 to attached servers, below httpx2's client, and for messages without one (posting.py).

    transport.py (kept connections, httpx2's interface) ──> connection.py (one connection, made)

httpx2's own transport takes five times the CPU of this one for a small request, since its parser
and its streams are Python. Here httptools parses, and the sockets are asyncio's. Proxies, uploads
and other protocols than HTTP/1.1 are left to httpx2's.
"""

from .connection import Http1Connection
from .transport import Http1Response, Http1Transport, head_of

__all__ = ["Http1Connection", "Http1Response", "Http1Transport", "head_of"]
