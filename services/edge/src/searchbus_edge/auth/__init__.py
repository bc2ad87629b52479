"""Who calls: tokens of an identity provider, keys of a file, or nobody in particular."""
