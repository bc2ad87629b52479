"""The MCP edge: clients in front, the bus behind. It knows no tool by name."""
