"""Skills for agents, served as resources: the Skills extension of MCP (SEP-2640)."""
