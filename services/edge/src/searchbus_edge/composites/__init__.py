"""Tools that the edge builds from several services, and serves on the bus like a worker."""
