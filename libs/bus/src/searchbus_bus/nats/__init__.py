"""The transport over NATS, on nats-py."""
