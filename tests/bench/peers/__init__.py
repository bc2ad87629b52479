"""searchbus beside other MCP servers and gateways: the same calls, faults and machine for all.

Each peer is installed into build/peers and runs as a process; nothing of it is imported here.
"""
