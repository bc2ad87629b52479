"""Search providers behind one interface."""
