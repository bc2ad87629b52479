"""Definitions of a server: cleaned, described for the bus, shown as declared, and approved."""
