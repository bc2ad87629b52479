"""How a service declares what it offers: typed methods of a class (see declare.py)."""
