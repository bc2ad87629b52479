"""The command line: `searchbus attach`."""
