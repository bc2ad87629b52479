"""Tools that the edge puts together from several services.

A composite asks sources at once (`legs`), fuses what came (`fusion`) and assembles one answer. It
is a tool on the bus like any other, served by the edge: listed, searched, called, traced and
cancelled in the same way.
"""
