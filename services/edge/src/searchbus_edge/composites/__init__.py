"""Tools that the edge builds from several services.

A composite sends one request to each source (`requests`), fuses the replies (`fusion`) and returns
one result. It is a tool on the bus like any other, served by the edge: listed, searched, called,
traced and cancelled in the same way.
"""
