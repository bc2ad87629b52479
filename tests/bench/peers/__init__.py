"""searchbus beside other MCP servers and gateways: the same call, load and machine for all.

Each peer is installed into a virtual environment of its own and runs as a process; nothing of it is
imported here.
"""

from .comparison import run

__all__ = ["run"]
