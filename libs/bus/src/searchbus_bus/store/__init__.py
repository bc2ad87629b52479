"""The key-value store that workers share."""
