"""Credentials for remote servers: OAuth client credentials, token exchange, sign-in per caller.

    credentials.py ──> login.py ──> provider.py ──> vault.py ──> keys.py
                         └── pages.py

The caller's own token never reaches this service. What is sent to a server was issued for it.
"""
