"""Credentials for remote servers: OAuth client credentials, token exchange, sign-in per caller.

    credentials.py ──> token_source.py ──> grants.py, login.py ──> discovery.py, token_endpoint.py
         └──> bearer.py (requests of connections)         └──> vault.py, registration.py, pages.py

The caller's own token never reaches this service. What is sent to a server was issued for it.
"""
