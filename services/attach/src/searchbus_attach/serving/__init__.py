"""Serves the declared servers: one toolset for each, which follows the attach file."""
