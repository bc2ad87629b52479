"""The worker's side: toolsets, subscriptions, limits, replies, the drain."""
