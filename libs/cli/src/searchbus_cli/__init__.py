"""The `searchbus` command: start the stack, call tools, read traces."""
