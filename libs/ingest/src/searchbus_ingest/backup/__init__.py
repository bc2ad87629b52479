"""Backup and restore: collections, keys, approvals, sign-ins and settings in one place."""
