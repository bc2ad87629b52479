"""Measures how well tools are found in a catalogue: recall, nDCG, times."""
