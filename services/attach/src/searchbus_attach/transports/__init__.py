"""How messages reach a server: the process of a command, or an address over HTTP."""
