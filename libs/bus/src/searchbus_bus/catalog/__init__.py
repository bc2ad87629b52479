"""Which service serves what, and since when one is away."""
