"""Authentication: tokens of an identity provider, static keys from a file, or none."""
