"""The version of searchbus: one number for all packages, which are released together."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
"""The same as in every pyproject.toml; tests/contract/test_version.py compares them."""
