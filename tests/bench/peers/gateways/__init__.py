"""The gateways: one module each, with its settings and its pinned version."""
